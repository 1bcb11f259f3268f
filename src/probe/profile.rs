//! What a commit looks like, one row for each kind of log. The figures are those of the software named in the row;
//! where a row has a size of our own choosing, its source says so.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::outcome::labels;

labels! {
    /// Whose commits are imitated.
    Profile {
        /// etcd's write-ahead log.
        Etcd = "etcd",
        /// PostgreSQL's WAL.
        Postgres = "postgres",
        /// InnoDB's redo log (MySQL, MariaDB).
        Innodb = "innodb",
        /// WiredTiger's journal under MongoDB.
        Mongodb = "mongodb",
        /// Redis' append-only file with `appendfsync always`.
        Redis = "redis",
        /// Cassandra's commit log.
        Cassandra = "cassandra",
        /// One block overwritten past the page cache, then made durable: the disk with as little file system as can be.
        Overwrite = "overwrite",
        /// One block written past the page cache, durable when the write returns.
        Odsync = "odsync",
    }
}

labels! {
    /// What makes a commit durable.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    Method {
        /// `fdatasync` after the write.
        Fdatasync = "fdatasync",
        /// `fsync` after the write.
        Fsync = "fsync",
        /// The write itself, in a file that is open with `O_DSYNC`.
        ODsync = "o_dsync",
    }
}

/// Where in the file, which is written from end to end beforehand and never grows, a commit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Each begins where the one before ended, rounded up to the row's alignment; one that would cross the end of
    /// the segment begins it anew.
    AppendWrapping {
        /// Bytes of a segment. Where the file is shorter, the file is the segment.
        segment: u64,
    },
    /// At a random multiple of the row's alignment, anywhere in the file.
    Overwrite,
}

/// How one profile commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Whose row.
    pub profile: Profile,
    /// Bytes of one write.
    pub block_size: u32,
    /// Offsets are multiples of this many bytes; 1 where commits follow each other without a gap.
    pub alignment: u32,
    /// What makes it durable, unless the config asks for another.
    pub method: Method,
    /// Where it goes.
    pub layout: Layout,
    /// Whether the write bypasses the page cache.
    pub direct: bool,
    /// Where the figures come from.
    pub source: &'static str,
}

impl Row {
    /// Whether a write may cover a page of the page cache in part. The kernel then reads the rest from the disk first,
    /// which a log that is freshly preallocated is spared: the probe must have those pages in the cache before it times.
    /// `page` is the machine's, in bytes.
    pub const fn partial_pages(&self, page: u32) -> bool {
        let whole = self.block_size.is_multiple_of(page) && self.alignment.is_multiple_of(page);
        !(self.direct || whole)
    }
}

const MIB: u64 = 1 << 20;

/// In the order of [`Profile::ALL`].
const ROWS: [Row; Profile::ALL.len()] = [
    Row {
        profile: Profile::Etcd,
        block_size: 2300,
        alignment: 1,
        method: Method::Fdatasync,
        layout: Layout::AppendWrapping { segment: 64_000_000 },
        direct: false,
        source: "writes of 2200 to 2400 bytes seen with strace under Kubernetes, each with an fdatasync (Olivi and \
                 Spreitzer, \"Using Fio to Tell Whether Your Storage is Fast Enough for Etcd\", IBM, 2019); segments of \
                 64,000,000 bytes are preallocated (etcd server/storage/wal/wal.go, SegmentSizeBytes)",
    },
    Row {
        profile: Profile::Postgres,
        block_size: 8192,
        alignment: 8192,
        method: Method::Fdatasync,
        layout: Layout::AppendWrapping { segment: 16 * MIB },
        direct: false,
        source: "whole WAL pages of 8 KiB (XLOG_BLCKSZ) into recycled segments of 16 MiB (wal_segment_size), \
                 wal_sync_method = fdatasync, the default on Linux (PostgreSQL manual, Write Ahead Log)",
    },
    Row {
        profile: Profile::Innodb,
        block_size: 512,
        alignment: 512,
        method: Method::Fsync,
        layout: Layout::AppendWrapping { segment: 48 * MIB },
        direct: false,
        source: "log blocks of 512 bytes (OS_FILE_LOG_BLOCK_SIZE), one a commit; files of 48 MiB \
                 (innodb_log_file_size); with innodb_flush_method fsync and O_DIRECT alike the redo log is buffered and \
                 made durable by fsync (MySQL os0file.cc: O_DIRECT is set on data files only)",
    },
    Row {
        profile: Profile::Mongodb,
        block_size: 512,
        alignment: 128,
        method: Method::Fdatasync,
        layout: Layout::AppendWrapping { segment: 100 * MIB },
        direct: false,
        source: "records at multiples of 128 bytes (WiredTiger src/include/log.h, WT_LOG_ALIGN) in preallocated files \
                 of 100 MB, fdatasync (os_posix/os_fs.c), as write concern j:true waits for (MongoDB manual, \
                 Journaling); 512 bytes for the records of one small insert are our choice",
    },
    Row {
        profile: Profile::Redis,
        block_size: 128,
        alignment: 1,
        method: Method::Fdatasync,
        layout: Layout::AppendWrapping { segment: 64 * MIB },
        direct: false,
        source: "appendfsync always: one write and one fdatasync (src/config.h, redis_fsync on Linux) for the commands \
                 of a turn of the event loop; rewritten from 64 MB on (auto-aof-rewrite-min-size); 128 bytes for one SET \
                 are our choice, and Redis' own file grows, which costs it a metadata write more than ours",
    },
    Row {
        profile: Profile::Cassandra,
        block_size: 4096,
        alignment: 4096,
        method: Method::Fdatasync,
        layout: Layout::AppendWrapping { segment: 32 * MIB },
        direct: false,
        source: "segments of 32 MiB (commitlog_segment_size), mapped and forced by msync, which the kernel turns into \
                 an fdatasync of whole pages (mm/msync.c); with commitlog_sync batch or group a client waits for it, \
                 with periodic, the default, only when it is late (cassandra.yaml)",
    },
    Row {
        profile: Profile::Overwrite,
        block_size: 4096,
        alignment: 4096,
        method: Method::Fdatasync,
        layout: Layout::Overwrite,
        direct: true,
        source: "ours: the smallest write that every disk takes, with no page cache and no change of metadata in between",
    },
    Row {
        profile: Profile::Odsync,
        block_size: 4096,
        alignment: 4096,
        method: Method::ODsync,
        layout: Layout::Overwrite,
        direct: true,
        source: "ours: as overwrite, durable by O_DSYNC, which a disk with FUA answers in one request (open(2))",
    },
];

impl Profile {
    /// How it commits.
    pub const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_profile_has_its_own_row() {
        for (profile, row) in Profile::ALL.iter().zip(&ROWS) {
            assert_eq!(row.profile, *profile);
            assert_eq!(profile.row(), row);
            assert!(!row.source.is_empty() && !row.source.contains("  "), "{profile}: {}", row.source);
        }
    }

    #[test]
    fn direct_writes_are_whole_aligned_blocks_and_segments_hold_many() {
        for row in &ROWS {
            assert!(row.alignment > 0 && row.block_size >= row.alignment, "{}", row.profile);
            if row.direct {
                assert_eq!((row.block_size % 4096, row.alignment % 4096), (0, 0), "{}", row.profile);
            }
            if let Layout::AppendWrapping { segment } = row.layout {
                assert!(segment / u64::from(row.block_size) > 1000, "{}", row.profile);
            }
        }
    }

    #[test]
    fn partial_pages_are_those_of_small_buffered_records() {
        let partial = |page| -> Vec<_> {
            Profile::ALL.iter().filter(|p| p.row().partial_pages(page)).map(|p| p.label()).collect()
        };
        assert_eq!(partial(4096), ["etcd", "innodb", "mongodb", "redis"]);
        assert_eq!(partial(65_536), ["etcd", "postgres", "innodb", "mongodb", "redis", "cassandra"]);
    }
}
