//! Cells of a sweep, each on a disk whose ways are known.

use crate::lab::{Opening, Sweeping, cell, lasting};
use diskcanary::probe::sweep::{Cell, CellResult, Pattern, SweepFault};
use std::fs;
use std::time::Duration;

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A directory on the disk that this is built on.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn each_pattern_comes_to_its_numbers_and_leaves_the_read_file_valid() {
    let folder = scratch();
    let sweeping = Sweeping::on(folder.path(), Opening::default());
    for pattern in Pattern::ALL {
        let (block, depth) = match pattern {
            Pattern::SeqRead | Pattern::SeqWrite | Pattern::Backup => (MIB, 4),
            Pattern::Commit => (4 * KIB, 1),
            Pattern::SeqRw50 => (128 * KIB, 4),
            _ => (4 * KIB, 4),
        };
        let cell = cell(*pattern, block, depth);
        let result = sweeping.result(cell, lasting(ms(600)));
        sound(&cell, &result);
        assert!(!result.faults.contains(&SweepFault::Corruption), "{:?}", result.evidence);
        assert_eq!(result.quiet.is_some(), pattern.loaded(), "{pattern}");
        if pattern.loaded() {
            let ratio = result.loaded_ratio.as_ref().unwrap();
            assert!(ratio.values().all(|stats| stats["mean"] > 0.0), "{ratio:?}");
        }
    }
    let names = |path| fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect::<Vec<_>>();
    assert!(names(sweeping.home()).iter().any(|name| name == "committer-0"), "kept for the next of its kind");
    sweeping.close();
    let left = names(sweeping.home());
    assert_eq!(left.len(), 3, "{left:?}: the tag, the lock, the read file");
    every_block_is_valid(&sweeping.home().join("reads"));
}

/// What holds of every result.
fn sound(cell: &Cell, result: &CellResult) {
    assert!(result.operations > 0 && result.iops > 0.0, "{cell}");
    assert!((result.iops * result.seconds / result.operations as f64 - 1.0).abs() < 1e-6, "{cell}");
    assert_eq!(result.streams.len(), cell.pattern.streams().len(), "{cell}");
    for (operation, latency) in &result.latency_ns {
        let ordered = latency.min <= latency.p50 && latency.p50 <= latency.p90 && latency.p90 <= latency.max;
        assert!(ordered && latency.min > 0 && latency.mean <= latency.max as f64, "{cell}: {operation}");
        assert!(result.histogram.contains_key(operation), "{cell}: {operation}");
    }
    assert!(result.seconds > 0.0 && result.warm_up_seconds > 0.0, "{cell}");
}

/// As the read probe checks it.
fn every_block_is_valid(reads: &std::path::Path) {
    let bytes = fs::read(reads).unwrap();
    let file = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    for (block, number) in bytes.chunks_exact(4096).zip(0..) {
        let stamp = diskcanary::probe::content::Stamp { file, number, generation: 0 };
        assert_eq!(diskcanary::probe::content::check(block, stamp), Ok(()), "block {number}");
    }
}
