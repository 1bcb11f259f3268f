use std::os::fd::AsFd;

use super::*;

fn file() -> std::fs::File {
    let mut file = tempfile::tempfile().unwrap();
    std::io::Write::write_all(&mut file, &[7; 8192]).unwrap();
    file
}

fn ring(file: &std::fs::File, delivery: Delivery) -> Ring {
    Ring::new(file.as_fd(), 4, 4096, delivery, &Memory::default()).unwrap()
}

#[test]
fn a_slot_is_free_only_when_its_operation_was_taken() {
    for delivery in [Delivery::WhenAsked, Delivery::Anytime] {
        let file = file();
        let mut ring = ring(&file, delivery);
        ring.wait().expect("with nothing out there is nothing to wait for");
        ring.push(Transfer::Read, 2, 4096, 4096).unwrap();
        assert_eq!(ring.buffer(2), None);
        assert!(ring.buffer(1).is_some() && ring.buffer(4).is_none());
        assert_eq!(ring.push(Transfer::Read, 2, 0, 512), Err(Errno::EBUSY));
        assert_eq!(ring.push(Transfer::Read, 4, 0, 512), Err(Errno::EINVAL));
        assert_eq!(ring.push(Transfer::Read, 1, 0, 4097), Err(Errno::EINVAL));
        ring.wait().unwrap();
        assert!(ring.buffer(2).is_none(), "back, but not taken");
        assert_eq!(ring.take(), Some((2, Ok(4096))));
        assert_eq!(ring.take(), None);
        assert_eq!(ring.buffer(2).unwrap(), [7; 4096]);
    }
}

#[test]
fn a_source_and_buffers_that_are_not_registered_do_as_well() {
    let file = file();
    let mut ring = ring(&file, Delivery::WhenAsked);
    ring.ring.submitter().unregister_files().unwrap();
    let _ = ring.ring.submitter().unregister_buffers();
    ring.source = ManuallyDrop::new(Handle::Descriptor(setup::duplicate(file.as_fd()).unwrap()));
    ring.registered_buffers = false;
    ring.buffer(0).unwrap().fill(9);
    ring.push(Transfer::Write, 0, 4096, 4096).unwrap();
    ring.submit().unwrap();
    ring.wait().unwrap();
    assert_eq!(ring.take(), Some((0, Ok(4096))));
    ring.push(Transfer::Read, 1, 4096, 4096).unwrap();
    ring.wait().unwrap();
    assert_eq!(ring.take(), Some((1, Ok(4096))));
    assert_eq!(ring.buffer(1).unwrap(), [9; 4096]);
}

#[test]
fn a_lost_ring_says_so_and_frees_nothing() {
    let file = file();
    let mut ring = ring(&file, Delivery::WhenAsked);
    ring.push(Transfer::Read, 0, 0, 4096).unwrap();
    ring.lost = Some(Errno::EPERM);
    assert_eq!(ring.wait(), Err(Errno::EPERM));
    assert_eq!(ring.push(Transfer::Read, 1, 0, 4096), Err(Errno::EPERM));
    assert_eq!(ring.buffer(0), None);
}

#[test]
fn a_completion_of_an_earlier_operation_frees_nothing() {
    let file = file();
    let mut ring = ring(&file, Delivery::WhenAsked);
    ring.push(Transfer::Read, 0, 0, 4096).unwrap();
    ring.slots[0].generation += 1;
    ring.wait().unwrap();
    assert_eq!(ring.take(), None);
    assert_eq!(ring.buffer(0), None);
}

#[test]
fn a_failure_says_what_and_where() {
    let failure = RingFailure { step: RingStep::Setup, errno: Errno::EPERM };
    assert!(failure.to_string().starts_with("EPERM (Operation not permitted) at set-up; a container"));
}

/// Nothing in a pipe: a read of it hangs.
#[test]
fn a_ring_that_is_dropped_while_it_hangs_frees_nothing() {
    for delivery in [Delivery::WhenAsked, Delivery::Anytime] {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut ring = Ring::new(reader.as_fd(), 4, 4096, delivery, &Memory::default()).unwrap();
        let theirs: Vec<*mut u8> = (0..4).map(|slot| ring.buffer(slot).unwrap().as_mut_ptr()).collect();
        (0..3).for_each(|slot| ring.push(Transfer::Read, slot, 0, 4096).unwrap());
        ring.submit().unwrap();
        drop((ring, reader));

        // Had the buffers been freed, these would get their addresses, and then what the pipe brings.
        let mut canaries: Vec<Buffer> = (0..64).map(|_| Buffer::new(4096).unwrap()).collect();
        canaries.iter_mut().for_each(|canary| canary.fill(0xc4));
        assert!(canaries.iter_mut().all(|canary| !theirs.contains(&canary.as_mut_ptr())), "freed");
        let late = [0x1a; 4096];
        std::io::Write::write_all(&mut writer, &late).expect("the leaked ring keeps the pipe open");
        std::thread::sleep(Duration::from_millis(20));
        assert!(canaries.iter().all(|canary| canary.iter().all(|b| *b == 0xc4)), "overwritten");
        if delivery == Delivery::Anytime {
            // SAFETY: leaked, so still there.
            let landed = theirs.iter().filter(|start| unsafe { start.read_volatile() } == 0x1a);
            assert_eq!(landed.count(), 1, "the late answer went elsewhere");
        }
    }
}
