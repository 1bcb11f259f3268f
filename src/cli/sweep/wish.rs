//! From the flags of `sweep` to the cells that are run.

use std::str::FromStr;
use std::time::Duration;

use crate::probe::Method;
use crate::probe::sweep::{
    COMMITTERS, Cell, DEPTHS, Demand, Ladder, Limits, Pattern, Plan, Preset, Promise, Stream, WarmUp,
};
use crate::units::{Bytes, Span};

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;
/// What a disk is taken to do at most where nothing is promised: IOPS and bytes a second. A quicker one has its cells end when they
/// have moved what this would have moved in their time, so that what is said beforehand holds.
const QUICK: (f64, f64) = (100_000.0, 1e9);
/// A burst goes above its promise.
const ABOVE_PROMISE: f64 = 3.0;

/// How long a cell is recorded: `20` and `20s` alike, as the flag names the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seconds(pub(super) Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let time = match text.parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|e| format!("`{text}`: {e}"))?,
            Err(_) => text.parse::<Span>()?.get(),
        };
        let allowed = Duration::from_millis(100)..=Duration::from_secs(86_400);
        if allowed.contains(&time) { Ok(Self(time)) } else { Err("it must be from 100ms to 24h".to_owned()) }
    }
}

/// A size, or so many times the machine's memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FileSize {
    Bytes(Bytes),
    Memories(f64),
}

/// Below this no cell has room for its blocks.
const LEAST_FILE: Bytes = Bytes::mib(16);

impl FromStr for FileSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(times) = text.strip_suffix("xRAM") {
            let times = times.parse::<f64>().ok().filter(|times| (0.01..=100.0).contains(times));
            let wrong = || format!("`{text}` is no multiple of the memory; write one such as `2xRAM`");
            return times.map(Self::Memories).ok_or_else(wrong);
        }
        match text.parse::<Bytes>()? {
            small if small < LEAST_FILE => Err(format!("it must be at least {LEAST_FILE}")),
            odd if !odd.get().is_multiple_of(1 << 20) => Err("it must be a whole number of MiB".to_owned()),
            size => Ok(Self::Bytes(size)),
        }
    }
}

impl FileSize {
    /// On a machine with so many bytes of memory; whole MiB.
    pub(super) fn bytes(self, memory: u64) -> Bytes {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Memories(times) => Bytes::mib((memory as f64 * times / (1 << 20) as f64).ceil() as u64),
        }
    }
}

/// A block size.
pub(super) fn block_size(text: &str) -> Result<u32, String> {
    let size: Bytes = text.parse()?;
    let allowed = u32::try_from(size.get()).ok().filter(|size| (512..=64 * MIB).contains(size));
    let size = allowed.ok_or_else(|| "it must be from 512B to 64MiB".to_owned())?;
    if size.is_multiple_of(512) { Ok(size) } else { Err("it must be a multiple of 512B".to_owned()) }
}

/// Which cells, and how long each: what the flags say.
#[derive(Clone, Debug, Default)]
pub(super) struct Wish {
    pub(super) preset: Option<Preset>,
    pub(super) patterns: Vec<Pattern>,
    pub(super) block_sizes: Vec<u32>,
    pub(super) depths: Vec<u16>,
    pub(super) jobs: Vec<u16>,
    pub(super) seconds: Option<Duration>,
    pub(super) warm_up: Option<Duration>,
    pub(super) rounds: Option<u16>,
    pub(super) method: Option<Method>,
}

impl Wish {
    /// The plan, or what is wrong with it.
    pub(super) fn plan(&self) -> Result<Plan, String> {
        let by_hand = !(self.patterns.is_empty()
            && self.block_sizes.is_empty()
            && self.depths.is_empty()
            && self.jobs.is_empty());
        let mut plan = match (self.preset, by_hand) {
            (Some(preset), true) => {
                return Err(format!(
                    "the preset `{preset}` has its own patterns, sizes, depths and jobs; leave out either it or these flags"
                ));
            }
            (preset, false) => Plan::from(preset.unwrap_or(Preset::Quick)),
            (None, true) => self.by_hand(),
        };
        plan.rounds = self.rounds.unwrap_or(plan.rounds);
        self.time(&mut plan)?;
        if let Some(method) = self.method {
            of_method(&mut plan, method)?;
        }
        Ok(plan)
    }

    fn by_hand(&self) -> Plan {
        let limits = Limits {
            time: Duration::from_secs(20),
            operations: None,
            bytes: None,
            warm_up: WarmUp::Time(Duration::from_secs(2)),
        };
        let patterns = match self.patterns.as_slice() {
            [] => &[Pattern::RandRead, Pattern::RandWrite],
            some => some,
        };
        let mut ladders = Vec::new();
        for pattern in patterns {
            let own = [usual_size(*pattern)];
            let sizes = if self.block_sizes.is_empty() { &own } else { self.block_sizes.as_slice() };
            for block_size in sizes {
                let cells = self.cells(*pattern, *block_size);
                ladders.push(Ladder { cells, limits, rest_warm_up: None });
            }
        }
        Plan { preset: None, ladders, rounds: 1, plateau: false, ceiling: Some(Plan::CEILING) }
    }

    /// Up in what is outstanding: by depth and jobs, or by committers.
    fn cells(&self, pattern: Pattern, block_size: u32) -> Vec<Cell> {
        let one = [1];
        let usual: &[u16] = match pattern {
            Pattern::Commit => &one,
            Pattern::Oltp | Pattern::Compaction => &[8],
            Pattern::Backup => &[2],
            _ => &DEPTHS,
        };
        let committers = pattern == Pattern::Commit;
        let depths = if self.depths.is_empty() || committers { usual } else { &self.depths };
        let jobs: &[u16] = match (self.jobs.as_slice(), committers) {
            ([], true) => &COMMITTERS,
            ([], false) => &one,
            (some, _) => some,
        };
        let method = pattern.commits().then_some(Method::Fdatasync);
        let with = |jobs: u16| {
            depths.iter().map(move |depth| Cell { pattern, block_size, depth: *depth, jobs, method })
        };
        let mut cells: Vec<_> = jobs.iter().flat_map(|jobs| with(*jobs)).collect();
        cells.sort_by_key(|cell| (cell.outstanding(), cell.jobs));
        cells.dedup();
        cells
    }

    fn time(&self, plan: &mut Plan) -> Result<(), String> {
        for ladder in &mut plan.ladders {
            if let Some(seconds) = self.seconds {
                ladder.limits.time = seconds;
            }
            if let Some(warm_up) = self.warm_up {
                (ladder.limits.warm_up, ladder.rest_warm_up) = (WarmUp::Time(warm_up), None);
            } else if let (WarmUp::Time(usual), Some(seconds)) = (ladder.limits.warm_up, self.seconds) {
                // A preset that is shortened has its warm-up shortened too.
                ladder.limits.warm_up = WarmUp::Time(usual.min(seconds / 2));
            }
            if let WarmUp::Time(warm_up) = ladder.limits.warm_up
                && warm_up >= ladder.limits.time
            {
                return Err(format!(
                    "a warm-up of {} is not shorter than the {} that each cell is recorded; make `--seconds` longer or `--warm-up` shorter",
                    Span::from(warm_up),
                    Span::from(ladder.limits.time)
                ));
            }
        }
        Ok(())
    }
}

/// What people measure a pattern with.
fn usual_size(pattern: Pattern) -> u32 {
    match pattern {
        Pattern::RandRead | Pattern::RandWrite | Pattern::Commit => 4 * KIB,
        Pattern::RandRw70 | Pattern::Oltp => 8 * KIB,
        Pattern::Compaction => 16 * KIB,
        Pattern::SeqRw50 => 128 * KIB,
        Pattern::SeqRead | Pattern::SeqWrite | Pattern::Backup => MIB,
    }
}

/// Commits by this method alone.
fn of_method(plan: &mut Plan, method: Method) -> Result<(), String> {
    for ladder in &mut plan.ladders {
        for cell in &mut ladder.cells {
            cell.method = cell.method.map(|_| method);
        }
    }
    let mut seen = Vec::new();
    // A preset that has a ladder for each method has the same one several times now.
    plan.ladders.retain(|ladder| {
        !seen.contains(&ladder.cells) && {
            seen.push(ladder.cells.clone());
            true
        }
    });
    match plan.ladders.iter().flat_map(|ladder| &ladder.cells).any(|cell| cell.method.is_some()) {
        true => Ok(()),
        false => Err("`--method` is for patterns that commit: `commit`, `oltp`, `backup`, or the presets `loaded` and `full`".to_owned()),
    }
}

/// Bounds each cell that writes all that it can by what a quick disk would move in its time, and says the most that all of them take.
pub(super) fn bound(plan: &mut Plan, promise: &Promise) -> Demand {
    let most = |promised: Option<f64>, usual: f64| promised.map_or(usual, |rate| rate * ABOVE_PROMISE);
    let rate = (most(promise.iops, QUICK.0), most(promise.throughput, QUICK.1));
    for ladder in &mut plan.ladders {
        if !ladder.cells.iter().flat_map(|cell| cell.pattern.streams()).any(Stream::writes_without_end) {
            continue;
        }
        let largest = ladder.cells.iter().map(largest_block).max().unwrap_or(MIB);
        let per_second = (rate.0 * f64::from(largest)).min(rate.1);
        let bytes = (per_second * ladder.limits.time.as_secs_f64()).ceil().max(f64::from(largest)) as u64;
        ladder.limits.bytes = Some(ladder.limits.bytes.map_or(bytes, |own| own.min(bytes)));
    }
    plan.demand(rate)
}

fn largest_block(cell: &Cell) -> u32 {
    let own = cell.pattern.streams().iter().filter_map(|stream| stream.block_size);
    own.chain([cell.block_size]).max().unwrap_or(cell.block_size)
}

/// What is wrong with cells that cannot run here: block sizes no multiple of the device's, more buffers than memory allows, writes
/// on a block device.
pub(super) fn check(plan: &Plan, least_block: u32, memory: Bytes, device: bool) -> Result<(), String> {
    for cell in plan.ladders.iter().flat_map(|ladder| &ladder.cells) {
        if device && cell.pattern.writes() {
            return Err(format!(
                "the pattern `{}` writes, and a block device is only read: take `randread` or `seqread`, or a directory on a file system",
                cell.pattern
            ));
        }
        if !cell.block_size.is_multiple_of(least_block) {
            return Err(format!(
                "the block size {} is no multiple of the device's, {}",
                Bytes::new(cell.block_size.into()),
                Bytes::new(least_block.into())
            ));
        }
        let buffers = u64::from(cell.outstanding()) * u64::from(cell.block_size);
        if plan.preset.is_none() && buffers > memory.get() {
            return Err(format!(
                "`{cell}` needs {} of buffers, and `--memory` allows {memory}: take a lower depth, fewer jobs or smaller blocks, or allow more",
                Bytes::new(buffers)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_alone_are_a_plan() {
        let wish = Wish {
            patterns: vec![Pattern::RandRead, Pattern::Commit],
            depths: vec![32, 1],
            jobs: vec![2],
            seconds: Some(Duration::from_secs(10)),
            rounds: Some(3),
            ..Wish::default()
        };
        let plan = wish.plan().unwrap();
        let cells: Vec<_> =
            plan.ladders.iter().flat_map(|l| &l.cells).map(|c| (c.block_size, c.depth, c.jobs)).collect();
        assert_eq!(cells, [(4096, 1, 2), (4096, 32, 2), (4096, 1, 2)]);
        assert_eq!(
            (plan.preset, plan.rounds, plan.ladders[0].limits.time),
            (None, 3, Duration::from_secs(10))
        );
        assert_eq!(Wish::default().plan().unwrap().preset, Some(Preset::Quick));
    }

    #[test]
    fn what_contradicts_itself_is_said() {
        let wish = Wish { preset: Some(Preset::Quick), depths: vec![4], ..Wish::default() };
        assert!(wish.plan().unwrap_err().contains("has its own patterns"));
        let wish = Wish {
            seconds: Some(Duration::from_secs(2)),
            warm_up: Some(Duration::from_secs(2)),
            ..Wish::default()
        };
        assert!(wish.plan().unwrap_err().contains("is not shorter than the 2s"));
        let wish = Wish { method: Some(Method::Fsync), ..Wish::default() };
        assert!(wish.plan().unwrap_err().contains("patterns that commit"));
        let wish = Wish { preset: Some(Preset::Loaded), method: Some(Method::Fsync), ..Wish::default() };
        assert_eq!(wish.plan().unwrap().ladders.len(), 4);
        let plan = Wish { block_sizes: vec![512], depths: vec![60_000], ..Wish::default() }.plan().unwrap();
        assert!(
            check(&plan, 4096, Bytes::mib(96), false)
                .unwrap_err()
                .contains("no multiple of the device's, 4KiB")
        );
        assert!(check(&plan, 512, Bytes::mib(16), false).unwrap_err().contains("29.3MiB of buffers"));
        assert!(check(&plan, 512, Bytes::mib(96), true).unwrap_err().contains("`randwrite` writes"));
        check(&plan, 512, Bytes::mib(96), false).unwrap();
    }

    #[test]
    fn no_cell_may_write_more_than_is_said() {
        for preset in Preset::ALL {
            let mut plan = Plan::from(*preset);
            let demand = bound(&mut plan, &Promise::default());
            for ladder in &plan.ladders {
                let bounded = ladder.limits.bytes.is_some();
                let mut streams = ladder.cells.iter().flat_map(|cell| cell.pattern.streams());
                assert!(bounded || !streams.any(Stream::writes_without_end), "{preset}");
            }
            assert!(demand.written_bytes > 0);
        }
        let of = |promise: Promise| bound(&mut Plan::from(Preset::Quick), &promise).written_bytes;
        let slow = Promise { iops: Some(1000.0), ..Promise::default() };
        assert!(of(slow) < of(Promise::default()) / 10);
        assert!(of(Promise::default()) < 10 << 30, "a first look asks nobody");
    }

    #[test]
    fn sizes_and_times_parse() {
        assert_eq!("2xRAM".parse::<FileSize>().unwrap().bytes(3 << 30), Bytes::gib(6));
        assert_eq!("1GiB".parse::<FileSize>(), Ok(FileSize::Bytes(Bytes::gib(1))));
        for bad in ["xRAM", "0xRAM", "1KiB", "100", "1000000B"] {
            assert!(bad.parse::<FileSize>().is_err(), "{bad}");
        }
        assert_eq!(["20", "2m"].map(|t| t.parse::<Seconds>().unwrap().0.as_secs()), [20, 120]);
        assert!(["0", "-1", "NaN", "x", "30h"].iter().all(|t| t.parse::<Seconds>().is_err()));
        assert_eq!(block_size("4KiB"), Ok(4096));
        assert!(["4096", "1000B", "1GiB", "0B"].iter().all(|t| block_size(t).is_err()));
    }
}
