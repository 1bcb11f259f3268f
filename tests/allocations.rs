//! The timed path allocates nothing: counted over the whole process, worker threads included.

#![allow(clippy::unwrap_used, reason = "also in the helpers of a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use diskcanary::clock;
use diskcanary::io::{Direction, Inflight, Request, Source, Wait, Wish, open};
use diskcanary::probe::commit::CommitProbe;
use diskcanary::probe::heartbeat::Heartbeat;
use diskcanary::probe::home::Home;
use diskcanary::probe::layout::{self, Head, Progress, Role};
use diskcanary::probe::read::{AT_DEPTH, Expect, ReadProbe, SINGLES, SLOTS};
use diskcanary::probe::sweep::{
    Cell, Limits, MEMORY, Pattern, Place, Rig, Surroundings, SweepGround, WarmUp,
};
use diskcanary::probe::{Cost, Profile};
use diskcanary::sys::{Dir, Direct};
use diskcanary::units::Bytes;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands everything to the system's allocator; the counter changes nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, SeqCst);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const DEPTH: u16 = 4;
const BLOCK: u32 = 4096;
const CYCLES: u64 = 2000;

/// The only test here: others beside it would be counted too.
#[test]
fn the_timed_path_allocates_nothing() {
    let before = ALLOCATIONS.load(SeqCst);
    drop(std::hint::black_box(Box::new(1)));
    assert!(ALLOCATIONS.load(SeqCst) > before, "allocations are seen");
    singles_and_bursts();
    commits();
    reads();
    cells();
}

fn singles_and_bursts() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = Dir::open(&folder.path().canonicalize().unwrap()).unwrap();
    let file = dir.create_file("data", Direct::No).unwrap();
    file.write_at(&[7; 64 * BLOCK as usize], 0).unwrap();
    for (wish, wait) in [(Wish::Auto, Wait::Sleep), (Wish::Auto, Wait::Spin), (Wish::Threads, Wait::Sleep)] {
        let source = Source::File(file.duplicate().unwrap());
        let opened = open(source, DEPTH, BLOCK, wish, wait).unwrap();
        let expected = if wish == Wish::Threads { "asked" } else { "best" };
        assert_eq!(opened.reason.label(), expected, "{}", opened.reason);
        let mut engine = opened.engine;
        let mut done = Vec::with_capacity(usize::from(DEPTH));
        let mut cycles = |count| {
            for cycle in 0..count {
                let offset = cycle % 64 * u64::from(BLOCK);
                let read = |slot| Request { direction: Direction::Read, slot, offset, len: BLOCK };
                assert_eq!(engine.single(read(0)).result, Ok(BLOCK));
                (0..DEPTH).for_each(|slot| engine.submit(read(slot)).unwrap());
                while engine.outstanding() > 0 {
                    done.clear();
                    engine.reap(&mut done);
                }
            }
        };
        // A channel makes room for a sleeper when it first has one: with pauses, each thread has slept.
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
            cycles(5);
        }
        let warm = ALLOCATIONS.load(SeqCst);
        cycles(CYCLES);
        assert_eq!(ALLOCATIONS.load(SeqCst) - warm, 0, "{wish:?} {wait:?}");
    }
}

/// A run of 100 commits allocates what a run of 3 does, so a commit allocates nothing. What a starved one leaves, its reason in
/// a list and a sentence of evidence, comes once in a run, after the timed section.
fn commits() {
    let (_folder, home, head) = laid_out(Role::Commits);
    let heart = Heartbeat::new(clock::now());
    for profile in Profile::ALL {
        let [few, many] = [3, 100].map(|commits| {
            let random = fastrand::Rng::with_seed(1);
            let mut probe =
                CommitProbe::open(&home, head, profile.row(), None, commits, random, &mut Cost::default())
                    .unwrap();
            heart.beat(clock::now());
            let before = ALLOCATIONS.load(SeqCst);
            let outcome = probe.run(clock::now(), clock::now(), &Inflight::default(), &heart);
            let allocations = ALLOCATIONS.load(SeqCst) - before;
            assert_eq!((outcome.cost.writes, outcome.result), (commits as u64, Ok(())), "{profile}");
            allocations
        });
        assert!(many < few + 10, "{profile}: {few} allocations for 3 commits, {many} for 100");
    }
}

/// A run of the read probe makes 64 reads, and fewer allocations than it makes at depth 1: none belongs to a read.
fn reads() {
    let (_folder, home, head) = laid_out(Role::Reads);
    let heart = Heartbeat::new(clock::now());
    for wish in [Wish::Auto, Wish::Threads] {
        let (file, direct) = match home.dir().open_file("reads", Direct::Yes) {
            Ok(file) => (file, Direct::Yes),
            Err(_) => (home.dir().open_file("reads", Direct::No).unwrap(), Direct::No),
        };
        let opened = open(Source::File(file), SLOTS, BLOCK, wish, Wait::Sleep).unwrap();
        let mut probe = ReadProbe::new(opened.engine, Expect::File(head), fastrand::Rng::with_seed(2));
        let mut run = || {
            heart.beat(clock::now());
            let before = ALLOCATIONS.load(SeqCst);
            let outcome = probe.run(clock::now(), clock::now(), &Inflight::default(), &heart);
            let allocations = ALLOCATIONS.load(SeqCst) - before;
            assert_eq!(
                (outcome.cost.reads, outcome.result),
                (SINGLES + AT_DEPTH, Ok(())),
                "{wish:?} {direct:?}"
            );
            allocations
        };
        // The first runs make room: a channel for its sleepers, a ring for its completions.
        (0..10).for_each(|_| _ = run());
        let least = (0..20).map(|_| run()).min().unwrap();
        assert!(least < SINGLES / 2, "{wish:?}: {least} allocations in a run");
    }
}

/// A cell of 20,000 operations allocates what one of 2,000 does, give or take what channels and locks make for their sleepers.
fn cells() {
    let (_folder, home, head) = laid_out(Role::Reads);
    for engine in [Wish::Auto, Wish::Threads] {
        let around = Surroundings {
            engine,
            inflight: Arc::default(),
            heart: Arc::new(Heartbeat::new(clock::now())),
            seed: 4,
        };
        let ground = SweepGround {
            place: Place::File { home: home.path().to_owned(), head },
            file_size: None,
            memory: MEMORY,
            watch: Arc::default(),
        };
        let (mut rig, _) =
            Rig::open(&ground, home.path(), around, &mut || None, &mut Cost::default()).unwrap();
        for pattern in [Pattern::RandRead, Pattern::RandWrite, Pattern::RandRw70] {
            let cell = Cell { pattern, block_size: BLOCK, depth: 8, jobs: 1, method: None };
            let mut run = |operations| {
                let warm_up = WarmUp::Completions(2);
                let time = Duration::from_secs(60);
                let limits = Limits { time, operations: Some(operations), bytes: None, warm_up };
                let before = ALLOCATIONS.load(SeqCst);
                let result = rig.run(cell, limits, None).outcome.unwrap();
                let recorded: u64 = result.latency_ns.values().map(|latency| latency.count).sum();
                assert!(recorded >= operations);
                ALLOCATIONS.load(SeqCst) - before
            };
            run(2000);
            let (few, many) = (run(2000), run(20_000));
            assert!(many < few + 200, "{engine:?} {pattern}: {few} allocations for 2,000, {many} for 20,000");
        }
    }
}

fn laid_out(role: Role) -> (tempfile::TempDir, Home, Head) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let inflight = Inflight::default();
    let home = Home::open(&folder.path().canonicalize().unwrap(), &inflight, clock::now()).unwrap();
    let wish = layout::Wish { size: role.minimum(), reserve: Some(Bytes::new(0)) };
    let mut laying =
        layout::Layout::begin(&home, role, wish, fastrand::Rng::with_seed(3), &mut Cost::default()).unwrap();
    loop {
        if let Progress::Done(head, _) =
            laying.step(&home, clock::now(), &inflight, &mut Cost::default()).unwrap()
        {
            return (folder, home, head);
        }
    }
}
