//! What a cell is made of: parts, each the work of one thread.

use super::super::{Cell, Load, Stream, Way};

/// The work of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// What it does, and of which streams, by their place in the pattern.
    pub(super) duty: Duty,
    /// Which of its kind it is, from 0.
    pub(super) job: u16,
}

/// What a thread does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Keeps so many operations outstanding, of streams that share them by percentages.
    Keep { depth: u16, shares: Vec<(usize, u8)> },
    /// So many operations at once, then none until so many milliseconds have passed since the last began.
    Bursts { stream: usize, operations: u16, every_ms: u16 },
    /// Commits, one at a time.
    Commit { stream: usize },
    /// So many operations in a thousand seconds, whatever comes back, as long as there are slots.
    Offer { stream: usize, per_thousand_seconds: u64, slots: u16 },
}

impl Part {
    /// Operations that it has outstanding at most.
    pub(super) fn depth(&self) -> u16 {
        match self.duty {
            Duty::Keep { depth, .. } => depth,
            Duty::Bursts { operations, .. } => operations,
            Duty::Commit { .. } => 1,
            Duty::Offer { slots, .. } => slots,
        }
    }

    /// Streams that it serves.
    pub(super) fn streams(&self) -> Vec<usize> {
        match &self.duty {
            Duty::Keep { shares, .. } => shares.iter().map(|(stream, _)| *stream).collect(),
            Duty::Bursts { stream, .. } | Duty::Commit { stream } | Duty::Offer { stream, .. } => {
                vec![*stream]
            }
        }
    }

    /// Bytes of its largest operation.
    pub(super) fn block(&self, all: &[Stream]) -> u32 {
        self.streams().into_iter().map(|stream| block_of(&all[stream])).max().unwrap_or(0)
    }

    /// Whether it writes through an engine.
    pub(super) fn writes(&self, all: &[Stream]) -> bool {
        self.streams().into_iter().any(|stream| all[stream].way == Way::Write)
    }

    /// Slots that its engine needs: those that are out, and some beside them. What is written next lies prepared, so that a
    /// completion is followed by the next operation at once; what was read is looked at after the next is on its way.
    pub(super) fn slots(&self, all: &[Stream]) -> u16 {
        const PREPARED: u32 = 1 << 20;
        let depth = self.depth();
        depth
            + match self.duty {
                Duty::Commit { .. } => return 0,
                Duty::Bursts { .. } => 0,
                Duty::Keep { .. } if self.writes(all) => {
                    let prepared = (PREPARED / self.block(all).max(1)).max(2);
                    depth.min(u16::try_from(prepared).unwrap_or(u16::MAX))
                }
                Duty::Keep { .. } | Duty::Offer { .. } => 1,
            }
    }
}

/// Bytes of an operation of a stream of [`streams`].
pub(super) fn block_of(stream: &Stream) -> u32 {
    stream.block_size.unwrap_or(0)
}

/// The streams of a cell, each with its block size.
pub(super) fn streams(cell: &Cell) -> Vec<Stream> {
    let with_size =
        |stream: &Stream| Stream { block_size: stream.block_size.or(Some(cell.block_size)), ..*stream };
    cell.pattern.streams().iter().map(with_size).collect()
}

/// The parts of a cell.
pub(super) fn parts(cell: &Cell) -> Vec<Part> {
    let (mut parts, mut mix) = (Vec::new(), Vec::new());
    for (at, stream) in cell.pattern.streams().iter().enumerate() {
        let keep = |depth| Duty::Keep { depth, shares: vec![(at, 100)] };
        let (duty, jobs) = match (stream.way, stream.load) {
            (Way::Commit, Load::EachJob) => (Duty::Commit { stream: at }, cell.jobs),
            (Way::Commit, Load::Fixed(committers)) => (Duty::Commit { stream: at }, committers),
            (Way::Commit, _) => (Duty::Commit { stream: at }, 1),
            (_, Load::Percent(percent)) => {
                mix.push((at, percent));
                continue;
            }
            (_, Load::Depth) => (keep(cell.depth), cell.jobs),
            (_, Load::EachJob) => (keep(1), cell.jobs),
            (_, Load::Fixed(depth)) => (keep(depth), 1),
            (_, Load::Bursts { operations, every_ms }) => {
                (Duty::Bursts { stream: at, operations, every_ms }, 1)
            }
        };
        parts.extend((0..jobs).map(|job| Part { duty: duty.clone(), job }));
    }
    if !mix.is_empty() {
        let duty = Duty::Keep { depth: cell.depth, shares: mix };
        parts.extend((0..cell.jobs).map(|job| Part { duty: duty.clone(), job }));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::super::{Pattern, Preset};
    use super::*;

    fn cell(pattern: Pattern, block_size: u32, depth: u16, jobs: u16) -> Cell {
        Cell { pattern, block_size, depth, jobs, method: None }
    }

    #[test]
    fn each_stream_is_somebodys() {
        for pattern in Pattern::ALL {
            let parts = parts(&cell(*pattern, 8192, 4, 3));
            let mut streams: Vec<usize> = parts.iter().flat_map(Part::streams).collect();
            streams.sort_unstable();
            streams.dedup();
            assert_eq!(streams, (0..pattern.streams().len()).collect::<Vec<_>>(), "{pattern}");
        }
    }

    #[test]
    fn jobs_multiply_what_keeps_the_depth_alone() {
        let threads = |pattern| parts(&cell(pattern, 4096, 8, 3)).iter().map(Part::depth).collect::<Vec<_>>();
        assert_eq!(threads(Pattern::RandRead), [8, 8, 8]);
        assert_eq!(threads(Pattern::RandRw70), [8, 8, 8]);
        assert_eq!(threads(Pattern::Commit), [1, 1, 1]);
        assert_eq!(threads(Pattern::Compaction), [8, 8, 8, 2]);
        assert_eq!(threads(Pattern::Oltp), [1, 8, 8, 8, 64]);
    }

    #[test]
    fn the_deepest_cell_of_the_presets_fits_the_default_memory() {
        for ladder in Preset::ALL.iter().flat_map(|preset| preset.row().ladders) {
            for cell in &ladder.cells {
                let streams = streams(cell);
                let need = |part: &Part| u64::from(part.slots(&streams)) * u64::from(part.block(&streams));
                let all: u64 = parts(cell).iter().map(need).sum();
                assert!(all <= super::super::super::MEMORY.get(), "{cell}: {all}");
            }
        }
    }
}
