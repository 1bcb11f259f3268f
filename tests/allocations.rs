//! The timed path allocates nothing: counted over the whole process, worker threads included.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use diskcanary::io::{Direction, Request, Source, Wait, Wish, open};
use diskcanary::sys::{Dir, Direct};

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
fn singles_and_bursts_allocate_nothing() {
    let before = ALLOCATIONS.load(SeqCst);
    drop(std::hint::black_box(Box::new(1)));
    assert!(ALLOCATIONS.load(SeqCst) > before, "allocations are seen");

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
