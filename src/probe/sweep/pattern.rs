//! What is done to the disk in a cell, one row for each pattern.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Cell;
use crate::probe::outcome::labels;

labels! {
    /// A mix of operations. The first six are one stream of one block size; the others measure latency under a load.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    Pattern {
        /// Random reads.
        RandRead = "randread",
        /// Random writes.
        RandWrite = "randwrite",
        /// Sequential reads.
        SeqRead = "seqread",
        /// Sequential writes.
        SeqWrite = "seqwrite",
        /// Random, 70 % reads.
        RandRw70 = "randrw70",
        /// Sequential, 50 % reads.
        SeqRw50 = "seqrw50",
        /// Committers, each with a file of its own.
        Commit = "commit",
        /// A committer beside random 8 KiB reads and bursts of random 8 KiB writes: a log, queries, checkpoints.
        Oltp = "oltp",
        /// Random 16 KiB reads beside 1 MiB sequential writes: a log-structured store while it compacts.
        Compaction = "compaction",
        /// A committer beside a 1 MiB sequential reader.
        Backup = "backup",
    }
}

/// Where the operations of a stream go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Any block, each as likely as the other.
    Random,
    /// One after the other, from the start again after the end.
    Sequential,
}

/// What a stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Reads.
    Read,
    /// Writes, without making them durable.
    Write,
    /// Writes and makes durable, one at a time.
    Commit,
}

/// How much of it is outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The cell's depth in each of its jobs.
    Depth,
    /// The cell's depth in each of its jobs, of which so many in a hundred are this stream's.
    Percent(u8),
    /// One, in each of the cell's jobs.
    EachJob,
    /// So many, whatever the cell's depth is.
    Fixed(u16),
    /// So many at once, then none until this many milliseconds have passed since the last began.
    Bursts {
        /// Operations of a burst.
        operations: u16,
        /// From one to the next.
        every_ms: u16,
    },
}

/// A stream of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// What it does.
    pub way: Way,
    /// Where.
    pub access: Access,
    /// Bytes of an operation; `None`: the cell's block size.
    pub block_size: Option<u32>,
    /// How much is outstanding.
    pub load: Load,
}

impl Stream {
    /// Operations of it that a cell keeps outstanding at most.
    pub fn outstanding(&self, cell: &Cell) -> u32 {
        match self.load {
            Load::Depth | Load::Percent(_) => cell.outstanding(),
            Load::EachJob => u32::from(cell.jobs),
            Load::Fixed(operations) | Load::Bursts { operations, .. } => u32::from(operations),
        }
    }

    /// Whether it writes as much as the disk takes.
    pub fn writes_without_end(&self) -> bool {
        let bounded = match self.load {
            Load::Bursts { .. } => true,
            // A commit is waited for before the next.
            Load::Fixed(1) => self.way == Way::Commit,
            _ => false,
        };
        self.way != Way::Read && !bounded
    }
}

const fn stream(way: Way, access: Access, block_size: Option<u32>, load: Load) -> Stream {
    Stream { way, access, block_size, load }
}

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

impl Pattern {
    /// Its streams. The one that is judged stands first.
    pub const fn streams(self) -> &'static [Stream] {
        use Access::{Random, Sequential};
        use Load::{Bursts, Depth, EachJob, Fixed, Percent};
        use Way::{Commit, Read, Write};
        match self {
            Self::RandRead => const { &[stream(Read, Random, None, Depth)] },
            Self::RandWrite => const { &[stream(Write, Random, None, Depth)] },
            Self::SeqRead => const { &[stream(Read, Sequential, None, Depth)] },
            Self::SeqWrite => const { &[stream(Write, Sequential, None, Depth)] },
            Self::RandRw70 => {
                const { &[stream(Read, Random, None, Percent(70)), stream(Write, Random, None, Percent(30))] }
            }
            Self::SeqRw50 => {
                const {
                    &[
                        stream(Read, Sequential, None, Percent(50)),
                        stream(Write, Sequential, None, Percent(50)),
                    ]
                }
            }
            Self::Commit => const { &[stream(Commit, Random, None, EachJob)] },
            Self::Oltp => {
                const {
                    &[
                        stream(Commit, Random, Some(4 * KIB), Fixed(1)),
                        stream(Read, Random, Some(8 * KIB), Depth),
                        stream(Write, Random, Some(8 * KIB), Bursts { operations: 64, every_ms: 500 }),
                    ]
                }
            }
            Self::Compaction => {
                const {
                    &[
                        stream(Read, Random, Some(16 * KIB), Depth),
                        stream(Write, Sequential, Some(MIB), Fixed(2)),
                    ]
                }
            }
            Self::Backup => {
                const {
                    &[
                        stream(Commit, Random, Some(4 * KIB), Fixed(1)),
                        stream(Read, Sequential, Some(MIB), Depth),
                    ]
                }
            }
        }
    }

    /// Whether it is latency under a load, with the quiet value taken just before.
    pub const fn loaded(self) -> bool {
        matches!(self, Self::Commit | Self::Oltp | Self::Compaction | Self::Backup)
    }

    /// Whether it writes: not for a block device, which is only read.
    pub fn writes(self) -> bool {
        self.streams().iter().any(|stream| stream.way != Way::Read)
    }

    /// Whether committers are part of it.
    pub fn commits(self) -> bool {
        self.streams().iter().any(|stream| stream.way == Way::Commit)
    }

    /// Whether all of it goes one after the other.
    pub fn sequential(self) -> bool {
        self.streams().iter().all(|stream| stream.access == Access::Sequential)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_files_are_the_labels() {
        for pattern in Pattern::ALL {
            let text = serde_json::to_string(pattern).unwrap();
            assert_eq!(text, format!("\"{pattern}\""));
            assert_eq!(serde_json::from_str::<Pattern>(&text).unwrap(), *pattern);
        }
    }

    #[test]
    fn shares_of_a_mix_add_up() {
        for pattern in Pattern::ALL {
            let shares: Vec<u32> = (pattern.streams().iter())
                .filter_map(|s| if let Load::Percent(p) = s.load { Some(u32::from(p)) } else { None })
                .collect();
            assert!(shares.is_empty() || shares.iter().sum::<u32>() == 100, "{pattern}");
        }
    }

    #[test]
    fn reads_alone_are_for_devices_too() {
        let reads: Vec<_> = Pattern::ALL.iter().filter(|p| !p.writes()).map(|p| p.label()).collect();
        assert_eq!(reads, ["randread", "seqread"]);
    }
}
