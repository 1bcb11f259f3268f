//! What a device has done since it came: the `stat` file of sysfs.

use std::path::Path;

use super::{BlockDevice, Roots, device};
use crate::sys::{self, Errno, Reread};

/// Operations of one kind since the device came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Finished operations.
    pub operations: u64,
    /// Operations that were merged into others.
    pub merges: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Time that they waited for, summed, in nanoseconds; the kernel counts whole milliseconds.
    pub wait_nanos: u64,
}

/// A device's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads.
    pub reads: Done,
    /// Writes, as the kernel counts them: a flush that is sent alone is one of them too.
    pub writes: Done,
    /// Discards; `None` before Linux 4.18.
    pub discards: Option<Done>,
    /// Flushes (no merges, no bytes); `None` before Linux 5.5.
    pub flushes: Option<Done>,
    /// Operations that are out now.
    pub in_flight: u64,
    /// Time with at least one operation out, in nanoseconds.
    pub busy_nanos: u64,
    /// Time weighted by the operations that were out, in nanoseconds.
    pub weighted_nanos: u64,
}

/// A device's counters, read again and again: the file stays open, so that a reading is one system call.
#[derive(Debug)]
pub struct CounterFile(Reread);

impl CounterFile {
    /// The counters of a device; nothing is opened yet. `ENOENT` for a hidden path that is not there.
    pub fn of(device: &BlockDevice, roots: &Roots) -> Result<Self, Errno> {
        let dir = match device.number {
            // A hidden path of a multipath device has no number, only a name.
            (0, 0) => device::by_name(&device.name, roots).ok_or(Errno::ENOENT)?,
            (major, minor) => roots.sys.join(format!("dev/block/{major}:{minor}")),
        };
        Ok(Self(Reread::attribute(dir.join("stat"))))
    }

    /// The counters now; `ENOENT` once the device is gone, `EBADMSG` when they cannot be understood. A device that comes back under its
    /// number is found again.
    pub fn read(&mut self) -> Result<Counters, Errno> {
        parse(&self.0.read()?).ok_or(Errno::EBADMSG)
    }
}

pub(super) fn at(dir: &Path) -> Result<Counters, Errno> {
    parse(&sys::read_text(&dir.join("stat"))?).ok_or(Errno::EBADMSG)
}

/// The most fields that we understand.
const FIELDS: usize = 17;

/// Understands a `stat` file with 11 fields, 15 (with discards) or 17 (with flushes); more are ignored, since
/// kernels add at the end. `None` for anything else.
pub fn parse(text: &str) -> Option<Counters> {
    let mut fields = [0u64; FIELDS];
    let mut found = 0;
    for word in text.split_ascii_whitespace() {
        let number = word.parse().ok()?;
        if let Some(field) = fields.get_mut(found) {
            *field = number;
        }
        found += 1;
    }
    let nanos = |millis: u64| millis.saturating_mul(1_000_000);
    let done = |at: usize| Done {
        operations: fields[at],
        merges: fields[at + 1],
        bytes: fields[at + 2].saturating_mul(512),
        wait_nanos: nanos(fields[at + 3]),
    };
    let flushes = || Done { operations: fields[15], wait_nanos: nanos(fields[16]), ..Done::default() };
    matches!(found, 11 | 15 | FIELDS..).then(|| Counters {
        reads: done(0),
        writes: done(4),
        in_flight: fields[8],
        busy_nanos: nanos(fields[9]),
        weighted_nanos: nanos(fields[10]),
        discards: (found >= 15).then(|| done(11)),
        flushes: (found >= FIELDS).then(flushes),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn three_generations_of_the_file() {
        let text =
            "75009 23259 4853330 32489 11763 40944 11976208 60681 2 13088 93693 4238 51 264328 463 1011 59\n";
        let now = parse(text).unwrap();
        assert_eq!(
            now.reads,
            Done { operations: 75009, merges: 23259, bytes: 4853330 * 512, wait_nanos: 32_489_000_000 }
        );
        assert_eq!((now.in_flight, now.busy_nanos, now.weighted_nanos), (2, 13_088_000_000, 93_693_000_000));
        assert_eq!(now.discards.unwrap().bytes, 264328 * 512);
        assert_eq!(now.flushes.unwrap().operations, 1011);

        let words: Vec<&str> = text.split_whitespace().collect();
        let old = parse(&words[..11].join(" ")).unwrap();
        assert_eq!((old.discards, old.flushes, old.writes.operations), (None, None, 11763));
        let older = parse(&words[..15].join(" ")).unwrap();
        assert!(older.discards.is_some() && older.flushes.is_none());
        for broken in ["", "1 2 3", "a b c d e f g h i j k", &words[..12].join(" "), &words[..16].join(" ")] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }

    proptest! {
        #[test]
        fn each_field_lands_in_its_place(fields in prop::collection::vec(0u64..1 << 50, 17..20), wide in 1usize..20) {
            let text: String = fields.iter().map(|f| format!("{f:>wide$} ")).collect();
            let c = parse(&text).unwrap();
            let back = |d: Done| [d.operations, d.merges, d.bytes / 512];
            prop_assert_eq!(&back(c.reads), &fields[0..3]);
            prop_assert_eq!(&back(c.writes), &fields[4..7]);
            prop_assert_eq!(&back(c.discards.unwrap()), &fields[11..14]);
            prop_assert_eq!(c.flushes.unwrap().operations, fields[15]);
            prop_assert_eq!(c.in_flight, fields[8]);
        }

        #[test]
        fn any_text_is_understood_or_refused(text in "[0-9a-z \n-]{0,200}") {
            let _ = parse(&text);
        }
    }
}
