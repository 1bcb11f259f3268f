//! The kernel's door: all `unsafe`, all opening of files, rings and the memory that the kernel writes.
//!
//! Invariant: nothing here opens a block device for writing, and there is no argument that could ask for it.
//! Files are opened for writing only below a directory of ours, only when they are regular files.

mod buffer;
mod device;
mod dir;
mod errno;
mod extents;
mod file;
mod host;
mod memory;
mod mounts;
mod nowait;
mod process;
mod reread;
mod ring;
mod text;

pub use buffer::{Buffer, Pool};
pub use device::{Device, Direct};
pub use dir::{Dir, EntryKind, Space, make_directories, stat};
pub use errno::Errno;
pub use file::{Alignment, Extents, File, FileStat};
pub use host::{Host, SchedWait, host, hostname_hash, is_root, name_thread, page_size, random, user_id};
pub use memory::{limit_heaps, lock_data, lock_limit, lock_program};
pub use mounts::{MountWatch, Waker};
pub use nowait::{answers_without_waiting, read_without_waiting};
pub use process::ProcessStats;
pub use reread::Reread;
pub use ring::{Delivery, Memory, Ring, RingFailure, RingStep, Transfer};
pub use text::{
    Kind, Metadata, entries, metadata, read_bounded, read_bytes, read_link, read_text, resolve_links,
    some_entries,
};
