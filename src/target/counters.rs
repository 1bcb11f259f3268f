//! What a device has done since it came: the `stat` file of sysfs.

use std::path::Path;

use super::{BlockDevice, Roots, device};
use crate::sys::{self, Errno};

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

/// Reads a device's counters; `ENOENT` once the device is gone, `EBADMSG` when they cannot be understood.
pub fn counters(device: &BlockDevice, roots: &Roots) -> Result<Counters, Errno> {
    match device.number {
        // A hidden path of a multipath device has no number, only a name.
        (0, 0) => at(&device::by_name(&device.name, roots).ok_or(Errno::ENOENT)?),
        // Through the link as it is: this is read twice a run, and to resolve the link takes ten times as many calls.
        (major, minor) => at(&roots.sys.join(format!("dev/block/{major}:{minor}"))),
    }
}

pub(super) fn at(dir: &Path) -> Result<Counters, Errno> {
    parse(&sys::read_text(&dir.join("stat"))?).ok_or(Errno::EBADMSG)
}

/// Understands a `stat` file with 11 fields, 15 (with discards) or 17 (with flushes); more are ignored, since
/// kernels add at the end. `None` for anything else.
pub fn parse(text: &str) -> Option<Counters> {
    let fields: Vec<u64> = text.split_whitespace().map(|f| f.parse().ok()).collect::<Option<_>>()?;
    let nanos = |millis: u64| millis.saturating_mul(1_000_000);
    let done = |at: usize| {
        let [operations, merges, sectors, millis] = *fields.get(at..at + 4)? else { return None };
        Some(Done { operations, merges, bytes: sectors.saturating_mul(512), wait_nanos: nanos(millis) })
    };
    if !matches!(fields.len(), 11 | 15 | 17..) {
        return None;
    }
    Some(Counters {
        reads: done(0)?,
        writes: done(4)?,
        in_flight: fields[8],
        busy_nanos: nanos(fields[9]),
        weighted_nanos: nanos(fields[10]),
        discards: done(11),
        flushes: fields.get(15..17).map(|f| Done {
            operations: f[0],
            wait_nanos: nanos(f[1]),
            ..Done::default()
        }),
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
