//! Whether a cell can be run here at all, and if not, why, with the numbers.

use super::super::{Cell, Skipped, Stream, Way};
use super::parts::{Duty, Part, block_of, streams};
use super::{BLOCK, Pool, Rig, Source};
use crate::io::EngineKind;
use crate::units::Bytes;

/// Threads that keep a depth where there is no ring.
const MOST_THREADS: u32 = 256;
/// Threads that a cell may have.
const MOST_PARTS: usize = 256;

impl Rig {
    /// The first reason why a cell is not run.
    pub(super) fn fits(&self, cell: &Cell, parts: &[Part]) -> Result<(), Skipped> {
        let skip = |reason: &str, message: String| Err(cell.skipped(reason, message));
        if cell.depth == 0 || cell.jobs == 0 || cell.block_size == 0 || parts.len() > MOST_PARTS {
            return skip("depth", format!("{cell}: depth and jobs must be at least 1, and jobs at most 250"));
        }
        if cell.pattern.writes() && matches!(self.source, Source::Device(_)) {
            return skip("read_only", "a block device is only ever read".to_owned());
        }
        let streams = streams(cell);
        self.block_fits(&streams).map_err(|message| cell.skipped("block_size", message))?;
        self.memory_fits(&streams, parts).map_err(|message| cell.skipped("memory", message))?;
        self.size_fits(&streams, parts).map_err(|message| cell.skipped("space", message))?;
        self.threads_fit(parts).map_err(|message| cell.skipped("no_ring", message))?;
        self.space_fits(parts).map_err(|message| cell.skipped("space", message))
    }

    pub(super) fn block_fits(&self, streams: &[Stream]) -> Result<(), String> {
        for stream in streams {
            let block = block_of(stream);
            if !block.is_multiple_of(self.block) {
                return Err(format!(
                    "this disk takes multiples of {} bytes, and {block} is none",
                    self.block
                ));
            }
            if stream.way != Way::Read && !block.is_multiple_of(BLOCK as u32) {
                return Err(format!("writes must be multiples of {BLOCK} bytes, and {block} is none"));
            }
        }
        Ok(())
    }

    pub(super) fn memory_fits(&self, streams: &[Stream], parts: &[Part]) -> Result<(), String> {
        let need: u64 = parts.iter().map(|part| memory_of(streams, part)).sum();
        if need <= self.pool.left() {
            return Ok(());
        }
        Err(format!(
            "{} outstanding need {} of buffers, and the sweep may take {} (`memory`)",
            parts.iter().map(|part| u32::from(part.depth())).sum::<u32>(),
            Bytes::new(need),
            Bytes::new(self.pool.limit())
        ))
    }

    /// No two writes may meet in one block, so there must be more blocks than are written at once.
    pub(super) fn size_fits(&self, streams: &[Stream], parts: &[Part]) -> Result<(), String> {
        for (at, stream) in streams.iter().enumerate() {
            if stream.way == Way::Commit {
                continue;
            }
            let block = block_of(stream);
            let blocks = self.extent.blocks(block);
            let slots = |part: &Part| u64::from(part.slots(streams));
            let at_once: u64 = parts.iter().filter(|part| part.streams().contains(&at)).map(slots).sum();
            let least = if stream.way == Way::Write { at_once + 1 } else { 1 };
            if blocks < least {
                return Err(format!(
                    "the {} that are worked on have {blocks} blocks of {}, and {least} are needed",
                    Bytes::new(self.extent.size),
                    Bytes::new(u64::from(block))
                ));
            }
        }
        Ok(())
    }

    pub(super) fn threads_fit(&self, parts: &[Part]) -> Result<(), String> {
        let threads: u32 = parts.iter().map(|part| u32::from(part.depth())).sum();
        if self.engine == EngineKind::Threads && threads > MOST_THREADS {
            return Err(format!(
                "without a ring {threads} outstanding need {threads} threads, and at most {MOST_THREADS} are started"
            ));
        }
        Ok(())
    }

    fn space_fits(&self, parts: &[Part]) -> Result<(), String> {
        let commits = |part: &&Part| matches!(part.duty, Duty::Commit { .. });
        let committers = u16::try_from(parts.iter().filter(commits).count()).unwrap_or(u16::MAX);
        let Some(files) = self.files.as_ref().filter(|_| committers > 0) else { return Ok(()) };
        match files.need(committers) {
            Ok((need, available)) if need > available / 2 => Err(format!(
                "the files of {committers} committers take {}, and {} are free",
                Bytes::new(need),
                Bytes::new(available)
            )),
            _ => Ok(()),
        }
    }
}

/// What the buffers of a part take.
fn memory_of(streams: &[Stream], part: &Part) -> u64 {
    let slots = part.slots(streams).max(1);
    u64::from(slots) * Pool::takes(part.block(streams) as usize)
}
