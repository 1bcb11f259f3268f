//! The files that a sweep needs beside the read file: a larger one to work on, and one for each committer. They are laid out like
//! all files of ours, and are there while the sweep is.

use std::path::{Path, PathBuf};

use super::Watch;
use crate::clock;
use crate::io::{Inflight, Op};
use crate::probe::head::{self, Head};
use crate::probe::layout::{Laying, Progress, Sizes};
use crate::probe::{Cost, Stage, Trouble};
use crate::sys::{Dir, Errno};
use crate::units::Bytes;

/// The name of the larger file.
pub(super) const LARGE: &str = "sweep";
/// How the name of a committer's file begins; its number follows.
const COMMITTER: &str = "committer-";
/// Bytes of a committer's file.
pub(super) const COMMITTER_SIZE: u64 = 4 << 20;

/// Whether a sweep gives this name to a file.
pub(in crate::probe) fn is_of_a_sweep(name: &str) -> bool {
    let number = name.strip_prefix(COMMITTER);
    name == LARGE || number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// The files of a sweep that are there now. They go when this does.
#[derive(Debug)]
pub(super) struct Files {
    dir: Dir,
    path: PathBuf,
    made: Vec<(String, Head)>,
    random: fastrand::Rng,
}

impl Files {
    /// In our directory at `path`. Removes what a sweep left that was killed; somebody else must hold the directory's lock.
    pub(super) fn open(
        dir: Dir,
        path: &Path,
        random: fastrand::Rng,
        cost: &mut Cost,
    ) -> Result<Self, Trouble> {
        let fail = |e| Trouble::io(Stage::Open, format_args!("cannot look into {}", path.display()), e);
        for name in dir.names().map_err(fail)?.iter().filter(|name| is_of_a_sweep(name)) {
            head::remove(&dir, path, name, cost)?;
        }
        Ok(Self { dir, path: path.to_owned(), made: Vec::new(), random })
    }

    /// Our directory.
    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Where a file is.
    pub(super) fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The larger file, of so many bytes.
    pub(super) fn large(
        &mut self,
        size: u64,
        watch: &Watch,
        inflight: &Inflight,
        cost: &mut Cost,
    ) -> Result<Head, Trouble> {
        let available = self.available()?;
        if size > available / 2 {
            return Err(Trouble::no_space(format!(
                "a file of {} is more than half of the {} that are free at {}",
                Bytes::new(size),
                Bytes::new(available),
                self.path.display()
            )));
        }
        self.lay(LARGE, size, watch, inflight, cost)
    }

    /// The files of so many committers. Those that are there are kept.
    pub(super) fn committers(
        &mut self,
        count: u16,
        watch: &Watch,
        inflight: &Inflight,
        cost: &mut Cost,
    ) -> Result<Vec<(String, Head)>, Trouble> {
        let mut all = Vec::new();
        for number in 0..count {
            let name = format!("{COMMITTER}{number}");
            let there = self.made.iter().find(|(made, _)| *made == name).map(|(_, head)| *head);
            let head = match there {
                Some(head) => head,
                None => self.lay(&name, COMMITTER_SIZE, watch, inflight, cost)?,
            };
            all.push((name, head));
        }
        Ok(all)
    }

    /// Bytes that are still needed for so many committers, and that are free.
    pub(super) fn need(&self, committers: u16) -> Result<(u64, u64), Trouble> {
        let there = self.made.iter().filter(|(name, _)| name.starts_with(COMMITTER)).count() as u64;
        Ok((u64::from(committers).saturating_sub(there) * COMMITTER_SIZE, self.available()?))
    }

    /// Removes the committers' files, where there are any.
    pub(super) fn dismiss(&mut self, inflight: &Inflight) {
        let gone = |name: &str| name.starts_with(COMMITTER);
        if self.made.iter().any(|(name, _)| gone(name)) {
            inflight.during(Op::Open, clock::now(), || self.remove(gone));
        }
    }

    fn available(&self) -> Result<u64, Trouble> {
        let fail = |e| {
            let at = self.path.display();
            Trouble::io(Stage::Open, format_args!("cannot ask for the space at {at}"), e)
        };
        Ok(self.dir.space().map_err(fail)?.available)
    }

    fn lay(
        &mut self,
        name: &str,
        size: u64,
        watch: &Watch,
        inflight: &Inflight,
        cost: &mut Cost,
    ) -> Result<Head, Trouble> {
        let sizes = Sizes { size, wished: size };
        let random = self.random.fork();
        let begin = || Laying::begin(&self.dir, &self.path, name, sizes, random, cost);
        let mut laying = inflight.during(Op::Open, clock::now(), begin)?;
        loop {
            let before = (cost.writes, cost.written_bytes);
            let progress = laying.step(&self.dir, &self.path, clock::now(), inflight, cost);
            watch.beside(cost.writes - before.0, cost.written_bytes - before.1);
            match progress? {
                Progress::Done(head, _) => {
                    self.made.push((name.to_owned(), head));
                    return Ok(head);
                }
                Progress::Going(..) if watch.stopped().is_some() => {
                    laying.give_back(&self.dir);
                    let at = self.at(name);
                    let at = at.display();
                    let doing = format_args!("{at} was not laid out to its end");
                    return Err(Trouble::io(Stage::Layout, doing, Errno::ECANCELED));
                }
                Progress::Going(..) => {}
            }
        }
    }

    fn remove(&mut self, which: impl Fn(&str) -> bool) {
        for (name, _) in self.made.extract_if(.., |(name, _)| which(name)) {
            // What cannot be removed now is removed when the next sweep begins.
            let _ = head::remove(&self.dir, &self.path, &name, &mut Cost::default());
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.remove(|_| true);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Progress as Cells;
    use super::*;

    #[test]
    fn what_is_laid_out_is_told_to_who_watches_and_is_no_part_of_a_cell() {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let (path, random) = (folder.path(), fastrand::Rng::with_seed(1));
        let (watch, inflight, mut cost) = (Watch::default(), Inflight::default(), Cost::default());
        let mut files = Files::open(Dir::open(path).unwrap(), path, random, &mut cost).unwrap();
        files.committers(2, &watch, &inflight, &mut cost).unwrap();
        assert!(cost.written_bytes >= 2 * COMMITTER_SIZE);
        assert_eq!(watch.moved(), (cost.writes, cost.written_bytes));
        assert_eq!(watch.progress(), Cells::default());
        let before = watch.moved();
        files.committers(2, &watch, &inflight, &mut cost).unwrap();
        assert_eq!(watch.moved(), before, "they are there");
    }
}
