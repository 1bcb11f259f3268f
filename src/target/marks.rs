//! The marks by which a database's own directory is known. A foreign directory in one breaks base backups,
//! keeps brokers from starting and is copied into every backup.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::sys::{self, Errno};

/// How many names of a directory are looked at: a directory of write-ahead log segments or of tablespaces
/// holds little else, so the first ones tell.
const ENOUGH: usize = 1024;

/// A name that stands in a database's directory, and whose that is.
const TABLE: &[(&str, &str)] = &[
    ("PG_VERSION", "PostgreSQL"),
    ("archive_status", "PostgreSQL's write-ahead log"),
    ("ibdata1", "MySQL or MariaDB"),
    ("mysql.ibd", "MySQL"),
    ("meta.properties", "Kafka"),
    ("WiredTiger", "MongoDB"),
    ("appendonlydir", "Redis"),
    ("nodes/0", "Elasticsearch"),
];

/// Why a directory is taken for a database's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The directory that must stay clean, with all below it.
    pub(super) dir: PathBuf,
    why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Why {
    Holds(String, &'static str),
    CannotTell(Errno),
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dir = self.dir.display();
        match &self.why {
            Why::Holds(what, whose) => write!(f, "{dir} belongs to {whose} (it holds {what})"),
            Why::CannotTell(errno) => {
                write!(f, "{dir} may belong to a database (we cannot look into it: {errno})")
            }
        }
    }
}

/// The outermost directory, of `path` and all above it, that belongs to a database. Mounts do not matter here:
/// a disk mounted inside a database's directory is part of it. An error is a directory that fails, and how.
pub(super) fn outermost(path: &Path) -> Result<Option<Mark>, (PathBuf, Errno)> {
    let mut found = None;
    for dir in path.ancestors() {
        let mark = mark(dir, path).map_err(|errno| (dir.to_owned(), errno))?;
        found = mark.or(found);
    }
    Ok(found)
}

fn mark(dir: &Path, path: &Path) -> Result<Option<Mark>, Errno> {
    match look(dir, path) {
        // Above the target, directories that may be passed but not listed are common (0711) and harmless: what
        // lies on the way to the target was looked up by name.
        Err(Errno::EACCES | Errno::EPERM) if dir != path => Ok(None),
        Err(errno @ (Errno::EACCES | Errno::EPERM)) => {
            Ok(Some(Mark { dir: dir.to_owned(), why: Why::CannotTell(errno) }))
        }
        other => other,
    }
}

fn look(dir: &Path, path: &Path) -> Result<Option<Mark>, Errno> {
    let of = |what: &str, whose| Some(Mark { dir: dir.to_owned(), why: Why::Holds(what.to_owned(), whose) });
    for (name, whose) in TABLE {
        if exists(&dir.join(name))? {
            return Ok(of(name, whose));
        }
    }
    let next = path.strip_prefix(dir).ok().and_then(|rest| rest.iter().next()).and_then(|name| name.to_str());
    if let Some((name, whose)) = next.and_then(|name| Some((name, telling(name)?))) {
        return Ok(of(name, whose));
    }
    // Many a disk is mounted at a `data` of its own: what does not lie in one of the two is not Cassandra's.
    let may_be_cassandra = match next {
        None => dir.parent().is_some(),
        Some(name) => name == "commitlog" || name == "data",
    };
    if may_be_cassandra && exists(&dir.join("commitlog"))? && exists(&dir.join("data"))? {
        return Ok(of("commitlog and data", "Cassandra"));
    }
    let names = sys::some_entries(dir, ENOUGH)?;
    Ok(names.iter().filter_map(|name| name.to_str()).find_map(|name| of(name, telling(name)?)))
}

fn exists(path: &Path) -> Result<bool, Errno> {
    match sys::metadata(path) {
        Ok(_) => Ok(true),
        Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Names that vary, and tell.
fn telling(name: &str) -> Option<&'static str> {
    if is_segment(name) {
        Some("PostgreSQL's write-ahead log")
    } else if is_tablespace(name) {
        Some("a PostgreSQL tablespace")
    } else {
        None
    }
}

/// A write-ahead log segment: 24 hexadecimal digits, as `000000010000000A000000FF`.
fn is_segment(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|b| matches!(b, b'0'..=b'9' | b'A'..=b'F'))
}

/// `PG_15_202209061` or `PG_9.6_201608131`: version and catalogue version.
fn is_tablespace(name: &str) -> bool {
    let Some((version, catalogue)) = name.strip_prefix("PG_").and_then(|rest| rest.split_once('_')) else {
        return false;
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    version.split('.').all(digits) && catalogue.len() >= 8 && digits(catalogue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_tell() {
        assert!(is_segment("000000010000000A000000FF"));
        for not in ["000000010000000A000000F", "000000010000000a000000ff", "00000001.history", ""] {
            assert!(!is_segment(not), "{not}");
        }
        assert!(is_tablespace("PG_15_202209061") && is_tablespace("PG_9.6_201608131"));
        for not in ["PG_VERSION", "PG_15", "PG_15_", "PG__202209061", "PG_x_202209061", "pg_15_202209061"] {
            assert!(!is_tablespace(not), "{not}");
        }
    }
}
