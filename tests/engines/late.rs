//! Answers that come long after they were asked for: a ring reads from pipes that hold nothing yet.

use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use diskcanary::clock::now;
use diskcanary::sys::{Buffer, Delivery, Memory, Ring, Transfer};

const BLOCK: u32 = 4096;
const PATIENCE: Duration = Duration::from_secs(30);

fn hung(delivery: Delivery) -> (Ring, PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut ring = Ring::new(reader.as_fd(), 4, BLOCK, delivery, &Memory::default()).unwrap();
    (0..3).for_each(|slot| ring.push(Transfer::Read, slot, 0, BLOCK).unwrap());
    ring.submit().unwrap();
    (ring, reader, writer)
}

#[test]
fn they_land_in_the_buffers_of_a_ring_that_waits() {
    for delivery in [Delivery::WhenAsked, Delivery::Anytime] {
        let (mut ring, _reader, mut writer) = hung(delivery);
        assert_eq!(ring.ready(), 0, "{delivery:?}");
        assert!(ring.buffer(0).is_none(), "the kernel may write it");
        let mut slots = Vec::new();
        for round in 1..=3u8 {
            writer.write_all(&[round; BLOCK as usize]).unwrap();
            ring.wait().unwrap();
            let (slot, result) = ring.take().unwrap();
            assert_eq!(result, Ok(BLOCK), "{delivery:?}");
            assert!(ring.buffer(slot).unwrap().iter().all(|byte| *byte == round), "{delivery:?}");
            slots.push(slot);
        }
        slots.sort_unstable();
        assert_eq!(slots, [0, 1, 2]);
    }
}

#[test]
fn they_do_no_harm_after_the_ring_was_dropped() {
    for delivery in [Delivery::WhenAsked, Delivery::Anytime] {
        let (mut ring, reader, mut writer) = hung(delivery);
        let free = ring.buffer(3).unwrap().as_ptr();
        drop((ring, reader));
        // Whatever the drop had freed would be these.
        let mut canaries: Vec<Buffer> = (0..64).map(|_| Buffer::new(BLOCK as usize).unwrap()).collect();
        canaries.iter_mut().for_each(|canary| canary.fill(0xc4));
        assert!(canaries.iter().all(|canary| canary.as_ptr() != free), "{delivery:?}: freed");
        let begun = now();
        for late in 1..=3u8 {
            writer.write_all(&[late; BLOCK as usize]).unwrap();
        }
        std::thread::sleep(Duration::from_millis(100));
        assert!(canaries.iter().all(|canary| canary.iter().all(|byte| *byte == 0xc4)), "{delivery:?}");
        assert!(now().since(begun) < PATIENCE);
    }
}
