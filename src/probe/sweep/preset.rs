//! The presets, a row each: which cells, how long, for what.

use std::time::Duration;

use super::{Cell, Ladder, Limits, Pattern, WarmUp};
use crate::probe::Method;
use crate::probe::outcome::labels;

labels! {
    /// A named set of cells.
    Preset {
        /// The standard matrix, short: for every disk, every night.
        Nightly = "nightly",
        /// A first look.
        Quick = "quick",
        /// The standard matrix at every depth: to compare disks.
        Standard = "standard",
        /// Latency under load: how it behaves under a database.
        Loaded = "loaded",
        /// Standard and loaded, three rounds: to choose a disk.
        Full = "full",
        /// Two long cells: decline and troughs.
        Endurance = "endurance",
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetRow {
    /// Whose.
    pub preset: Preset,
    /// What is climbed, in this order.
    pub ladders: Vec<Ladder>,
    /// How often all of it is done.
    pub rounds: u16,
    /// Whether a ladder stops at its plateau.
    pub plateau: bool,
    /// For what, in a few words.
    pub purpose: &'static str,
}

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;
/// The depths of a ladder, unless others are asked for.
pub const DEPTHS: [u16; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The numbers of committers of a ladder, unless others are asked for.
pub const COMMITTERS: [u16; 6] = [1, 2, 4, 8, 16, 32];

impl Preset {
    /// Its row.
    pub fn row(self) -> PresetRow {
        let seconds = |time, warm_up| Limits {
            time: Duration::from_secs(time),
            operations: None,
            bytes: None,
            warm_up: WarmUp::Time(Duration::from_secs(warm_up)),
        };
        let (ladders, rounds, purpose) = match self {
            Self::Nightly => (standard(nightly()), 1, "every disk, every night"),
            Self::Quick => (quick(seconds(5, 2)), 1, "a first look"),
            Self::Standard => {
                let mut ladders = standard(seconds(20, 10));
                // Ten seconds a pattern: its other cells begin when their depth is reached.
                for ladder in &mut ladders {
                    ladder.rest_warm_up = Some(WarmUp::Completions(2));
                }
                (ladders, 1, "comparing disks")
            }
            Self::Loaded => (loaded(seconds(20, 2)), 1, "how it behaves under a database"),
            Self::Full => {
                let limits = seconds(120, 30);
                ([standard(limits), loaded(limits)].concat(), 3, "choosing a disk")
            }
            Self::Endurance => (endurance(), 1, "decline, troughs"),
        };
        PresetRow { preset: self, ladders, rounds, plateau: self == Self::Nightly, purpose }
    }
}

/// A thousand operations, 64 MiB or five seconds.
const fn nightly() -> Limits {
    Limits {
        time: Duration::from_secs(5),
        operations: Some(1000),
        bytes: Some(64 << 20),
        warm_up: WarmUp::Completions(2),
    }
}

/// The matrix that people compare cloud disks with.
fn standard(limits: Limits) -> Vec<Ladder> {
    use Pattern::{RandRead, RandRw70, RandWrite, SeqRead, SeqRw50, SeqWrite};
    [
        (RandRead, 4 * KIB, DEPTHS.as_slice()),
        (RandWrite, 4 * KIB, &DEPTHS),
        (SeqRead, MIB, &DEPTHS),
        (SeqWrite, MIB, &DEPTHS),
        (RandRw70, 8 * KIB, &DEPTHS),
        (SeqRw50, 128 * KIB, &DEPTHS),
        (RandRead, 8 * KIB, &[16]),
        (RandRead, 16 * KIB, &[16]),
        (RandWrite, 16 * KIB, &[16]),
    ]
    .into_iter()
    .map(|(pattern, block_size, depths)| Ladder::over_depths(pattern, block_size, depths, limits))
    .collect()
}

fn quick(limits: Limits) -> Vec<Ladder> {
    [Pattern::RandRead, Pattern::RandWrite]
        .map(|pattern| Ladder::over_depths(pattern, 4 * KIB, &[1, 32], limits))
        .to_vec()
}

/// By method and by number of committers, then the three mixes.
fn loaded(limits: Limits) -> Vec<Ladder> {
    let committers = |method| {
        let cell = |jobs| Cell {
            pattern: Pattern::Commit,
            block_size: 4 * KIB,
            depth: 1,
            jobs,
            method: Some(method),
        };
        Ladder { cells: COMMITTERS.map(cell).to_vec(), limits, rest_warm_up: None }
    };
    let mixed = |pattern: Pattern, block_size, depth| {
        let method = pattern.commits().then_some(Method::Fdatasync);
        let cell = Cell { pattern, block_size, depth, jobs: 1, method };
        Ladder { cells: vec![cell], limits, rest_warm_up: None }
    };
    let mixes = [
        mixed(Pattern::Oltp, 8 * KIB, 8),
        mixed(Pattern::Compaction, 16 * KIB, 8),
        mixed(Pattern::Backup, MIB, 2),
    ];
    Method::ALL.iter().map(|method| committers(*method)).chain(mixes).collect()
}

fn endurance() -> Vec<Ladder> {
    [(Pattern::RandRw70, 600), (Pattern::RandWrite, 7200)]
        .map(|(pattern, seconds)| {
            let limits = Limits {
                time: Duration::from_secs(seconds),
                operations: None,
                bytes: None,
                warm_up: WarmUp::Completions(2),
            };
            Ladder::over_depths(pattern, 4 * KIB, &[32], limits)
        })
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_matrix_has_45_cells() {
        let cells = |preset: Preset| preset.row().ladders.iter().map(|l| l.cells.len()).sum::<usize>();
        assert_eq!(Preset::ALL.iter().map(|p| cells(*p)).collect::<Vec<_>>(), [45, 4, 45, 21, 66, 2]);
    }

    #[test]
    fn each_cell_is_in_a_preset_once() {
        for preset in Preset::ALL {
            let row = preset.row();
            let all: Vec<_> = row.ladders.iter().flat_map(|l| &l.cells).collect();
            let unique: std::collections::HashSet<_> = all.iter().collect();
            assert_eq!((row.preset, unique.len()), (*preset, all.len()), "{preset}");
            assert!(all.iter().all(|cell| cell.pattern.commits() == cell.method.is_some()), "{preset}");
        }
    }
}
