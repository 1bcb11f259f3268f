//! What was answered on the data of each file: reads, writes and syncs, apart by what they asked for.

use super::super::rules::Op;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What tells operations apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The name under which it was opened.
    pub(super) file: PathBuf,
    pub(super) op: Op,
    /// At offset 0.
    pub(super) at_start: bool,
    /// Bytes asked for.
    pub(super) size: usize,
}

/// Operations, and the bytes that they were served.
type Sums = (u64, u64);

#[derive(Debug, Default)]
pub(super) struct Tally {
    sums: Mutex<BTreeMap<Key, Sums>>,
}

impl Tally {
    pub(super) fn enter(&self, key: Key, bytes: usize) {
        let mut sums = self.sums.lock().unwrap();
        let (operations, served) = sums.entry(key).or_default();
        *operations += 1;
        *served += bytes as u64;
    }

    pub(super) fn all(&self) -> BTreeMap<Key, Sums> {
        self.sums.lock().unwrap().clone()
    }
}

/// A tally as it was at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    sums: BTreeMap<Key, Sums>,
}

impl Touched {
    pub(super) fn new(sums: BTreeMap<Key, Sums>, root: &Path) -> Self {
        let below = |file: &Path| file.strip_prefix(root).unwrap_or(file).to_owned();
        let sums = sums.into_iter().map(|(key, n)| (Key { file: below(&key.file), ..key }, n));
        Self { sums: sums.collect() }
    }

    /// Operations of a kind on a file (named from the root of the disk), and the bytes they were served, failed ones included.
    pub fn of(&self, file: &Path, op: Op) -> (u64, u64) {
        self.sum(file, op, |_| true)
    }

    /// The same of those alone that asked for so many bytes, elsewhere than at the file's start.
    pub fn inside(&self, file: &Path, op: Op, size: usize) -> (u64, u64) {
        self.sum(file, op, |key| !key.at_start && key.size == size)
    }

    fn sum(&self, file: &Path, op: Op, wanted: impl Fn(&Key) -> bool) -> (u64, u64) {
        let these = self.sums.iter().filter(|(key, _)| key.file == file && key.op == op && wanted(key));
        these.fold((0, 0), |sum, (_, n)| (sum.0 + n.0, sum.1 + n.1))
    }
}
