//! How the kernel drives a disk. Shown, never changed.

use std::path::Path;

use super::device::{flag, text};
use crate::units::Bytes;

/// The settings of a disk's queue; `None` where the kernel does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The I/O scheduler in force: `none`, `mq-deadline` …
    pub scheduler: Option<String>,
    /// Requests that the scheduler may hold.
    pub nr_requests: Option<u32>,
    /// What the kernel believes of the disk's cache: `write back` (a sync sends a flush) or `write through` (it
    /// sends none).
    pub write_cache: Option<String>,
    /// Whether single writes can be forced through the disk's cache.
    pub fua: Option<bool>,
    /// Whether it is a spinning disk, or says so.
    pub rotational: Option<bool>,
    /// Whether the kernel counts what the disk does.
    pub iostats: Option<bool>,
    /// After how many milliseconds the kernel gives a request up.
    pub io_timeout: Option<u64>,
    /// The smallest unit that can be addressed.
    pub logical_block_size: Option<Bytes>,
    /// The smallest unit that is written without reading first.
    pub physical_block_size: Option<Bytes>,
    /// Size of the device, of the partition for a partition.
    pub size: Option<Bytes>,
    /// Whether the kernel refuses writes.
    pub read_only: bool,
}

impl Settings {
    /// A partition has its own size, and its disk's queue.
    pub(super) fn read(dir: &Path, whole: &Path) -> Self {
        let queue = whole.join("queue");
        let number = |name: &str| text(&queue.join(name)).and_then(|t| t.parse::<u64>().ok());
        let switch = |name: &str| number(name).map(|n| n != 0);
        // Sizes in sysfs count sectors of 512 bytes, whatever the disk's own are.
        let sectors = text(&dir.join("size")).and_then(|t| t.parse::<u64>().ok());
        Self {
            scheduler: text(&queue.join("scheduler")).map(|t| chosen(&t).to_owned()),
            nr_requests: number("nr_requests").and_then(|n| u32::try_from(n).ok()),
            write_cache: text(&queue.join("write_cache")),
            fua: switch("fua"),
            rotational: switch("rotational"),
            iostats: switch("iostats"),
            io_timeout: number("io_timeout"),
            logical_block_size: number("logical_block_size").map(Bytes::new),
            physical_block_size: number("physical_block_size").map(Bytes::new),
            size: sectors.map(|n| Bytes::new(n.saturating_mul(512))),
            read_only: flag(&dir.join("ro")),
        }
    }

    /// Whether a sync has a volatile cache to flush, as the kernel believes; `None` where it does not say.
    pub fn volatile_cache(&self) -> Option<bool> {
        self.write_cache.as_deref().map(|text| text == "write back")
    }
}

/// The scheduler in brackets: `none [mq-deadline] kyber`; a lone word stands without them.
fn chosen(list: &str) -> &str {
    list.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']')).unwrap_or(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_in_force_stands_in_brackets() {
        assert_eq!(chosen("none [mq-deadline] kyber bfq"), "mq-deadline");
        assert_eq!(chosen("[none] mq-deadline"), "none");
        assert_eq!(chosen("none"), "none");
    }
}
