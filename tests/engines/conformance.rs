//! On a quiet disk.

use std::time::Duration;

use diskcanary::clock::now;
use diskcanary::io::{Direction, Engine, Fake, Gate, MOST_RETRIES, Request, Script, Source, Step};
use diskcanary::sys::{Device, Direct, Errno};

use crate::support::{
    BLOCK, BLOCKS, Case, KINDS, REAL, TAIL, as_root, file, image, read, real, reap_all, write,
};

#[test]
fn a_read_brings_what_was_written() {
    for kind in KINDS {
        let mut case = Case::new(kind, 4);
        for block in 0..BLOCKS {
            let offset = block * u64::from(BLOCK);
            let done = case.engine.single(read(1, offset, BLOCK));
            assert_eq!(done.result, Ok(BLOCK), "{kind:?}");
            case.check_data(&done, offset);
        }
        let offset = |slot: u16| u64::from(slot) * 7 * u64::from(BLOCK) + 4096;
        for slot in 0..4 {
            case.engine.submit(read(slot, offset(slot), 4096)).unwrap();
        }
        assert_eq!(case.engine.outstanding(), 4);
        let done = reap_all(&mut *case.engine);
        let mut slots: Vec<u16> = done.iter().map(|d| d.slot).collect();
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2, 3], "{kind:?}");
        done.iter().for_each(|done| case.check_data(done, offset(done.slot)));
    }
}

#[test]
fn a_write_is_read_back() {
    for kind in KINDS {
        let mut case = Case::new(kind, 2);
        case.engine.buffer(0).unwrap().fill(0xa5);
        case.engine.submit(write(0, 3 * u64::from(BLOCK), BLOCK)).unwrap();
        assert_eq!(reap_all(&mut *case.engine)[0].result, Ok(BLOCK), "{kind:?}");
        case.engine.buffer(1).unwrap().fill(0x5a);
        assert_eq!(case.engine.single(write(1, 5 * u64::from(BLOCK), BLOCK)).result, Ok(BLOCK), "{kind:?}");
        case.engine.single(read(0, 5 * u64::from(BLOCK), BLOCK));
        case.engine.single(read(1, 3 * u64::from(BLOCK), BLOCK));
        assert!(case.engine.buffer(0).unwrap().iter().all(|b| *b == 0x5a), "{kind:?}");
        assert!(case.engine.buffer(1).unwrap().iter().all(|b| *b == 0xa5), "{kind:?}");
    }
}

#[test]
fn what_cannot_be_started_is_refused() {
    for kind in KINDS {
        let mut case = Case::new(kind, 2);
        let engine = &mut case.engine;
        assert_eq!(engine.submit(read(2, 0, BLOCK)), Err(Errno::EINVAL), "{kind:?}: no such slot");
        assert_eq!(engine.submit(read(0, 0, BLOCK + 1)), Err(Errno::EINVAL), "{kind:?}: too long");
        assert_eq!(engine.single(read(9, 0, BLOCK)).result, Err(Errno::EINVAL), "{kind:?}");
        assert_eq!(engine.single(read(0, 0, BLOCK + 1)).result, Err(Errno::EINVAL), "{kind:?}");
        assert!(engine.buffer(2).is_none());

        engine.submit(read(1, 0, BLOCK)).unwrap();
        assert!(engine.buffer(1).is_none(), "{kind:?}: the kernel may still write it");
        assert_eq!(engine.submit(read(1, 0, BLOCK)), Err(Errno::EBUSY), "{kind:?}");
        assert_eq!(engine.single(read(0, 0, BLOCK)).result, Err(Errno::EBUSY), "{kind:?}");
        assert_eq!(engine.outstanding(), 1);
        assert_eq!(reap_all(&mut **engine).len(), 1, "{kind:?}: a refusal is no completion");
        assert!(engine.buffer(1).is_some());
    }
}

#[test]
fn a_device_is_never_written() {
    let script = Script { image: image(), read_only: true, steps: vec![], then: Step::good() };
    let mut fake = Fake::new(script, 1, BLOCK);
    assert_eq!(fake.submit(write(0, 0, BLOCK)), Err(Errno::EBADF));

    if !as_root("a_device_is_never_written") {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    drop(file(folder.path(), &image()));
    let loops = LoopDevice::over(&folder.path().join("data"));
    for kind in REAL {
        let device = Device::open(loops.0.as_ref(), Direct::Yes).unwrap();
        let mut engine = real(kind, Source::Device(device), 2).engine;
        assert_eq!(engine.submit(write(0, 0, BLOCK)), Err(Errno::EBADF), "{kind:?}");
        assert_eq!(engine.single(write(0, 0, BLOCK)).result, Err(Errno::EBADF), "{kind:?}");
        assert_eq!(engine.single(read(0, 0, BLOCK)).result, Ok(BLOCK), "{kind:?}");
        assert!(engine.buffer(0).unwrap() == &image()[..BLOCK as usize], "{kind:?}");
    }
}

struct LoopDevice(String);

impl LoopDevice {
    fn over(file: &std::path::Path) -> Self {
        let made =
            std::process::Command::new("losetup").args(["--find", "--show"]).arg(file).output().unwrap();
        assert!(made.status.success(), "losetup: {}", String::from_utf8_lossy(&made.stderr));
        Self(String::from_utf8(made.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = std::process::Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn the_end_of_the_file_makes_it_short() {
    for kind in KINDS {
        let mut case = Case::new(kind, 2);
        let end = BLOCKS * u64::from(BLOCK);
        case.engine.submit(read(0, end, BLOCK)).unwrap();
        let done = reap_all(&mut *case.engine)[0];
        assert_eq!(done.result, Ok(TAIL as u32), "{kind:?}");
        case.check_data(&done, end);
        assert_eq!(case.engine.single(read(1, end, BLOCK)).result, Ok(TAIL as u32), "{kind:?}");
        assert_eq!(case.engine.single(read(1, end + u64::from(BLOCK), BLOCK)).result, Ok(0), "{kind:?}");
    }
}

#[test]
fn stamps_are_in_order() {
    for kind in KINDS {
        let mut case = Case::new(kind, 4);
        let mut last = now();
        for round in 0..50 {
            let single = case.engine.single(read(0, round * u64::from(BLOCK), BLOCK));
            assert!(last <= single.submitted && single.submitted < single.completed, "{kind:?}");
            assert!(single.completed <= now(), "{kind:?}");
            for slot in 0..4 {
                case.engine.submit(read(slot, 0, BLOCK)).unwrap();
            }
            for done in reap_all(&mut *case.engine) {
                assert!(single.completed <= done.submitted && done.submitted <= done.completed, "{kind:?}");
                last = last.max(done.completed);
            }
            assert!(last <= now(), "{kind:?}");
        }
    }
}

#[test]
fn with_nothing_out_reap_comes_back_at_once() {
    for kind in KINDS {
        let mut case = Case::new(kind, 4);
        let mut done = Vec::new();
        case.engine.reap(&mut done);
        case.engine.single(read(0, 0, BLOCK));
        case.engine.reap(&mut done);
        assert!(done.is_empty(), "{kind:?}");
    }
}

fn fake(steps: Vec<Step>, depth: u16) -> Fake {
    Fake::new(Script { image: image(), read_only: false, steps, then: Step::good() }, depth, BLOCK)
}

#[test]
fn the_fake_follows_its_script() {
    let long = Duration::from_millis(20);
    let steps = vec![
        Step::good().after(long),
        Step::error(Errno::EIO),
        Step::short(512),
        Step::good().again(3).after(long),
        Step::good().again(MOST_RETRIES + 1),
    ];
    let mut fake = fake(steps, 2);
    assert!(fake.single(read(0, 0, BLOCK)).nanos() >= long.as_nanos() as u64);
    assert_eq!(fake.single(read(0, 0, BLOCK)).result, Err(Errno::EIO));
    assert_eq!(fake.single(read(0, 0, BLOCK)).result, Ok(512));
    let again = fake.single(read(0, 0, BLOCK));
    assert_eq!((again.result, again.retries), (Ok(BLOCK), 3));
    assert!(again.nanos() >= long.as_nanos() as u64, "the first start counts");
    let never = fake.single(read(0, 0, BLOCK));
    assert_eq!((never.result, never.retries), (Err(Errno::EAGAIN), MOST_RETRIES));
    assert_eq!(fake.single(read(0, 0, BLOCK)).result, Ok(BLOCK));
    assert_eq!(fake.started(), 6);
}

#[test]
fn the_fake_is_really_deep_and_hangs_until_let_go() {
    let (long, gate) = (Duration::from_millis(40), Gate::default());
    let mut steps = vec![Step::good().after(long); 8];
    steps.push(Step::good().behind(&gate));
    let mut fake = fake(steps, 8);
    let began = now();
    (0..8).for_each(|slot| fake.submit(read(slot, 0, BLOCK)).unwrap());
    assert_eq!(reap_all(&mut fake).len(), 8);
    assert!(now().since(began) < 4 * long, "eight of them took as long as four");

    let request = Request { direction: Direction::Read, slot: 0, offset: 0, len: BLOCK };
    fake.submit(request).unwrap();
    fake.submit(read(1, 0, BLOCK)).unwrap();
    let mut done = Vec::new();
    fake.reap(&mut done);
    assert_eq!(done.iter().map(|d| d.slot).collect::<Vec<_>>(), [1], "the one that hangs holds up no other");
    gate.open();
    fake.reap(&mut done);
    assert_eq!(done[1].slot, 0);
}
