//! Cells of a sweep, each on a disk whose ways are known. One after the other, in a program of their own: what is measured here is
//! time, and a machine that is busy with other tests has none to give.
#![allow(
    clippy::disallowed_methods,
    reason = "tests stand outside the house: they open files and read clocks"
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "also in the helpers of a test")]

#[path = "../lab/mod.rs"]
mod lab;

use diskcanary::io::{EngineKind, Op as InflightOp};
use diskcanary::probe::sweep::{
    Cell, CellResult, Ladder, Left, Limits, Operation, Pattern, Plan, Step, Stopped, SweepFault, Walk, WarmUp,
};
use diskcanary::units::Bytes;
use lab::{
    Blkio, Direction, FuseDisk, Loop, LoopOptions, Need, Op, Opening, Sweeping, cell, eventually, lacks,
    lasting,
};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const KIB: u32 = 1 << 10;
const MIB: u32 = 1 << 20;

/// Held by the test that runs.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A directory on the disk that this is built on.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

#[test]
fn each_pattern_comes_to_its_numbers_and_leaves_the_read_file_valid() {
    let _alone = alone();
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
    // Each thread, and each stream, has a window of its own.
    let alone = cell.jobs == 1 && result.streams.len() == 1;
    let off = if alone { 1e-6 } else { 0.2 };
    assert!((result.iops * result.seconds / result.operations as f64 - 1.0).abs() < off, "{cell}");
    let recorded = |operation| result.latency_ns.get(operation).map_or(0, |latency| latency.count);
    let streams = result.streams.iter();
    assert!(streams.map(|(operation, s)| (recorded(operation), s.operations)).all(|(r, s)| r >= s), "{cell}");
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

#[test]
fn a_ladder_finds_the_level_of_a_throttled_disk_and_stops_there() {
    let _alone = alone();
    if lacks(&[Need::Root, Need::Cgroup("blkio")]) {
        return;
    }
    for level in [500_u32, 3000] {
        let disk = Loop::with(LoopOptions { filled: true, ..LoopOptions::of(64 << 20) });
        let group = Blkio::new();
        group.limit(disk.number(), Direction::Read, level.into());
        // The kernel lets through what is due of a tenth of a second at once, and somewhat less than it says: its own count of the
        // disk's reads is the truth. A short cell is one such burst off, and this machine may have no CPU for us.
        let found = || {
            let climbed = group.within(|| climbed_beside_the_counter(&disk));
            let last = &climbed[climbed.len().saturating_sub(3)..];
            let off = middle(last.iter().map(|(found, counted)| found / counted));
            let counted = middle(last.iter().map(|(_, counted)| *counted)) / f64::from(level);
            let right = (off - 1.0).abs() < 0.01 && climbed.len() < 6 && (0.93..1.03).contains(&counted);
            right.then_some(()).ok_or(climbed)
        };
        let mut missed = Vec::new();
        while let Err(rates) = found() {
            missed.push(rates);
            assert!(missed.len() < 6, "{level}: {missed:?}");
        }
    }
}

/// The steps of a ladder: IOPS as they were found, and reads per second by the kernel's count.
fn climbed_beside_the_counter(disk: &Loop) -> Vec<(f64, f64)> {
    let sweeping = Sweeping::over(disk.device(), Opening::default());
    let depths = [8, 16, 32, 64, 128, 256];
    let ladder = Ladder::over_depths(Pattern::RandRead, 4 * KIB, &depths, lasting(ms(2500)));
    let mut steps = Vec::new();
    let mut run = |cell, limits| {
        sweeping.begin(cell, limits, None);
        let (began, before) = (diskcanary::clock::now(), disk.reads());
        let result = sweeping.end(Duration::from_secs(60)).unwrap().outcome.unwrap();
        let seconds = diskcanary::clock::now().since(began).as_secs_f64();
        steps.push((result.iops, (disk.reads() - before) as f64 / seconds));
        result
    };
    climb(&mut run, ladder);
    sweeping.close();
    steps
}

fn middle(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// What comes of it when this machine has a CPU for all who take part: until it is right, a few times.
fn undisturbed<T>(mut measure: impl FnMut() -> (bool, T)) -> T {
    let mut last = measure();
    for _ in 0..5 {
        if last.0 {
            break;
        }
        last = measure();
    }
    last.1
}

/// All that a ladder comes to, as the walk goes.
fn climb(run: &mut dyn FnMut(Cell, Limits) -> CellResult, ladder: Ladder) -> Vec<CellResult> {
    let plan = Plan { preset: None, ladders: vec![ladder], rounds: 1, plateau: true, ceiling: None };
    let (mut walk, mut last, mut results) = (Walk::new(plan), None, Vec::new());
    while let Some((cell, limits)) = walk.next(last) {
        let result = run(cell, limits);
        let noise = result.shape.noise.unwrap_or(0.0);
        last = Some(Step { iops: result.iops, noise, cut: result.stopped == Some(Stopped::Cut) });
        results.push(result);
    }
    results
}

#[test]
fn committers_that_wait_for_each_other_are_told_by_the_loaded_ratio() {
    let _alone = alone();
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let sweeping = Sweeping::on(disk.path(), Opening::default());
    disk.delay_by_depth(Op::Sync, ms(4));
    let mut quiet = Vec::new();
    for jobs in [1, 4, 8] {
        let cell = Cell { jobs, ..cell(Pattern::Commit, 4 * KIB, 1) };
        let factor_of = |result: &CellResult| {
            result.loaded_ratio.as_ref().unwrap()[&Operation::Sync]["p50"] / f64::from(jobs)
        };
        let result = undisturbed(|| {
            let result = sweeping.result(cell, lasting(ms(2000)));
            let right = (factor_of(&result) - 1.0).abs() < 0.1;
            (right, result)
        });
        let before = result.quiet.as_ref().unwrap()[&Operation::Commit];
        quiet.push(before.p50 as f64);
        let factor = result.loaded_ratio.as_ref().unwrap()[&Operation::Sync]["p50"];
        assert!((factor / f64::from(jobs) - 1.0).abs() < 0.1, "{jobs}: {factor}, {:?}", result.loaded_ratio);
        assert!(result.achieved_depth > 0.9 * f64::from(jobs), "{jobs}: {}", result.achieved_depth);
    }
    let (least, most) = quiet.iter().fold((f64::MAX, 0.0_f64), |(l, m), q| (l.min(*q), m.max(*q)));
    // Its own 4 ms; what a busy machine adds to one in a hundred is not the disk's.
    assert!(least >= 4e6 && most < 1.5 * least, "{quiet:?}");
}

#[test]
fn a_backup_that_slows_commits_is_told_from_one_that_does_not() {
    let _alone = alone();
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let sweeping = Sweeping::on(disk.path(), Opening::default());
    disk.delay(Op::Sync, ms(5));
    disk.delay(Op::Read, ms(20));
    let ratio = || {
        let result = sweeping.result(cell(Pattern::Backup, MIB, 2), lasting(ms(1600)));
        let stats = result.loaded_ratio.unwrap()[&Operation::Commit].clone();
        (stats.get("p99").copied().unwrap_or(f64::NAN), stats["p50"])
    };
    let ratio = |right: &dyn Fn((f64, f64)) -> bool| {
        undisturbed(|| {
            let ratio = ratio();
            (right(ratio), ratio)
        })
    };
    let (p99, p50) = ratio(&|(_, p50)| p50 < 1.15);
    assert!(p50 < 1.15, "{p99} {p50}: reads do not touch commits here");
    disk.delay_while(Op::Sync, Op::Read, ms(5));
    let (p99, p50) = ratio(&|(p99, p50)| p99 > 1.15 && (1.7..2.3).contains(&p50));
    assert!(p99 > 1.15 && (1.7..2.3).contains(&p50), "{p99} {p50}");
}

#[test]
fn the_depth_is_kept() {
    let _alone = alone();
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let threads = Sweeping::on(disk.path(), Opening::default());
    // Long enough for 64 threads of ours, and as many of the disk's, to be woken on two CPUs meanwhile.
    disk.delay(Op::Read, ms(50));
    let folder = scratch();
    let ring = Sweeping::on(folder.path(), Opening::default());
    assert_eq!((threads.ready.engine, ring.ready.engine), (EngineKind::Threads, EngineKind::Uring));
    for depth in [1, 4, 32, 64] {
        for (name, sweeping) in [("threads", &threads), ("ring", &ring)] {
            // Where four come back at once every 50 ms, a window may hold three too many or too few.
            let once = || sweeping.result(cell(Pattern::RandRead, 4 * KIB, depth), lasting(ms(2500)));
            let kept = |result: &CellResult| result.achieved_depth / f64::from(depth);
            // A busy machine may keep us from a CPU.
            let mut all = Vec::new();
            let kept = (0..15).any(|_| {
                all.push(kept(&once()));
                all.last().is_some_and(|kept| (0.98..1.02).contains(kept))
            });
            assert!(kept, "{name}: depth {depth} was never kept: {all:.3?}");
        }
    }
    assert!(disk.count(Op::Read).operations > 0);
}

#[test]
fn a_disk_that_hangs_in_the_middle_of_a_cell_holds_its_lane_and_nobody_else() {
    let _alone = alone();
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let sweeping = Sweeping::on(disk.path(), Opening::default());
    sweeping.begin(cell(Pattern::RandRead, 4 * KIB, 8), lasting(ms(2000)), None);
    eventually("the cell is warm", || sweeping.watch.progress().warm);
    let hang = disk.hang(&[Op::Read]);
    let age = || sweeping.inflight.age(InflightOp::Read, diskcanary::clock::now());
    eventually("what hangs grows old", || age() > ms(2500));
    let seen = sweeping.watch.progress();
    assert!(seen.operations > 0 && sweeping.end(ms(0)).is_none());
    sweeping.watch.stop(Stopped::Interrupt);
    assert!(sweeping.end(ms(300)).is_none(), "nothing comes back, and nothing is made up");
    drop(hang);
    let result = sweeping.end(Duration::from_secs(20)).expect("it comes back").outcome.unwrap();
    assert_eq!(result.stopped, Some(Stopped::Interrupt));
    assert!(result.latency_ns[&Operation::Read].max > 2_000_000_000, "what hung is a sample");
    assert_eq!(age(), Duration::ZERO);
}

#[test]
fn a_cell_that_is_cut_short_keeps_what_it_has() {
    let _alone = alone();
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let sweeping = Sweeping::on(disk.path(), Opening::default());
    disk.delay(Op::Read, ms(60));
    let began = diskcanary::clock::now();
    let slow = cell(Pattern::RandRead, 4 * KIB, 4);
    let warm_up = WarmUp::Time(Duration::from_secs(60));
    sweeping.begin(slow, Limits { warm_up, ..lasting(Duration::from_secs(60)) }, Some(ms(50)));
    let cut = sweeping.end(Duration::from_secs(50)).expect("it is cut").outcome.unwrap();
    assert_eq!(cut.stopped, Some(Stopped::Cut));
    assert!(
        cut.latency_ns[&Operation::Read].count >= 8
            && diskcanary::clock::now().since(began) < Duration::from_secs(20)
    );
    let limits = Limits { operations: Some(40), ..lasting(Duration::from_secs(60)) };
    let counted = sweeping.result(slow, limits);
    let count = counted.latency_ns[&Operation::Read].count;
    assert_eq!((counted.stopped, (40..60).contains(&count)), (None, true));
    sweeping.watch.stop(Stopped::Guard);
    match sweeping.cell(slow, lasting(ms(500))).outcome {
        Err(Left::Skipped(skipped)) => assert_eq!(skipped.reason, "guard"),
        other => assert_eq!(other.unwrap().stopped, Some(Stopped::Guard)),
    }
}

#[test]
fn errors_short_reads_and_wrong_bytes_are_told_and_are_no_samples() {
    let _alone = alone();
    if lacks(&[Need::Root, Need::Fuse]) {
        return;
    }
    let disk = FuseDisk::new();
    let sweeping = Sweeping::on(disk.path(), Opening::default());
    let read = cell(Pattern::RandRead, 4 * KIB, 4);
    let failure = || match sweeping.cell(read, lasting(ms(400))).outcome {
        Err(Left::Failed(trouble)) => trouble.failure.message,
        other => panic!("{other:?}"),
    };
    disk.fail(Op::Read, libc::EIO, 50);
    assert!(failure().contains("a read of 4096 bytes at "), "{}", failure());
    disk.heal(Op::Read);
    disk.shorten(Op::Read, 512, 50);
    assert!(failure().contains("moved 512"), "{}", failure());
    disk.heal(Op::Read);
    let good = sweeping.result(read, lasting(ms(400)));
    assert!(!good.faults.contains(&SweepFault::Corruption));
    let reads = disk.backing().join(".diskcanary/reads");
    let file = fs::OpenOptions::new().write(true).open(reads).unwrap();
    let half = vec![0x55; 32 << 20];
    std::os::unix::fs::FileExt::write_all_at(&file, &half, 32 << 20).unwrap();
    for pattern in [Pattern::RandRead, Pattern::RandRw70] {
        let bad = sweeping.result(cell(pattern, 4 * KIB, 4), lasting(ms(400)));
        assert!(bad.faults.contains(&SweepFault::Corruption), "{pattern}: {:?}", bad.evidence);
    }
}

#[test]
fn what_does_not_fit_is_left_out_with_its_numbers() {
    let _alone = alone();
    let folder = scratch();
    let opening = Opening { memory: Bytes::mib(16), ..Opening::default() };
    let sweeping = Sweeping::on(folder.path(), opening);
    let skipped = |cell: Cell| match sweeping.cell(cell, lasting(ms(200))).outcome {
        Err(Left::Skipped(skipped)) => (skipped.reason, skipped.message),
        other => panic!("{cell}: {other:?}"),
    };
    let (reason, message) = skipped(cell(Pattern::SeqRead, MIB, 64));
    assert_eq!(reason, "memory");
    assert!(message.contains("65MiB") && message.contains("16MiB"), "{message}");
    for (odd, reason) in [
        (cell(Pattern::RandWrite, 6 * KIB, 4), "block_size"),
        (cell(Pattern::RandRead, 100, 4), "block_size"),
        (cell(Pattern::RandRead, 128 * MIB, 1), "memory"),
        (Cell { jobs: 0, ..cell(Pattern::RandRead, 4 * KIB, 1) }, "depth"),
        (Cell { jobs: 300, ..cell(Pattern::RandRead, 4 * KIB, 1) }, "depth"),
    ] {
        assert_eq!(skipped(odd).0, reason, "{odd}");
    }
    sound(
        &cell(Pattern::SeqRead, MIB, 8),
        &sweeping.result(cell(Pattern::SeqRead, MIB, 8), lasting(ms(200))),
    );
    let jobs = Cell { jobs: 3, ..cell(Pattern::RandRw70, 4 * KIB, 8) };
    let result = sweeping.result(jobs, lasting(ms(500)));
    sound(&jobs, &result);
    sweeping.close();
    every_block_is_valid(&sweeping.home().join("reads"));

    // As much as the presets ask for, with no more locked memory than anybody may have.
    let (home, deep) = (sweeping.home(), cell(Pattern::SeqRead, MIB, 64));
    drop(sweeping);
    assert!(home.join("reads").exists());
    let sweeping = Sweeping::on_what_is_there(folder.path(), Opening::default());
    sound(&deep, &sweeping.result(deep, lasting(ms(300))));
}

#[test]
fn a_larger_file_is_there_while_the_sweep_is_and_what_a_killed_one_left_goes() {
    let _alone = alone();
    let folder = scratch();
    let sweeping = Sweeping::on(folder.path(), Opening::default());
    let (home, limits) = (sweeping.home(), lasting(ms(300)));
    drop(sweeping);
    for name in ["committer-7", "sweep"] {
        fs::copy(home.join("reads"), home.join(name)).unwrap();
    }
    let opening = Opening { file_size: Some(96 << 20), ..Opening::default() };
    let sweeping = Sweeping::on_what_is_there(folder.path(), opening);
    assert!(!home.join("committer-7").exists());
    assert_eq!(fs::metadata(home.join("sweep")).unwrap().len(), 96 << 20);
    assert_eq!(sweeping.ready.file_size, 96 << 20);
    let result = sweeping.result(cell(Pattern::RandRw70, 4 * KIB, 4), limits);
    assert_eq!(result.file_size, 96 << 20);
    every_block_is_valid(&home.join("sweep"));
    sweeping.close();
    assert!(!home.join("sweep").exists());
    drop(sweeping);

    let opening = Opening { file_size: Some(8 << 20), ..Opening::default() };
    let sweeping = Sweeping::on_what_is_there(folder.path(), opening);
    assert_eq!(sweeping.result(cell(Pattern::SeqRead, MIB, 2), limits).file_size, 8 << 20);
    match sweeping.cell(cell(Pattern::SeqWrite, MIB, 8), limits).outcome {
        Err(Left::Skipped(skipped)) => assert_eq!(skipped.reason, "space"),
        other => panic!("{other:?}"),
    }
    drop(sweeping);
    fs::copy(home.join("reads"), home.join("committer-0")).unwrap();
    let removed = diskcanary::probe::home::clean(folder.path()).unwrap();
    assert!(removed.contains(&home.join("committer-0")), "{removed:?}");
    assert!(!home.exists());
}
