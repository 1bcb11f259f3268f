//! The probe files that were here before, also before the daemon's start: when they are gone, or others are in their place, it
//! is another disk, or one that was wiped, as a cloud's local disk is by a stop of the machine.

use super::{Desk, Target};
use crate::daemon::facts;
use crate::persist::{Known, KnownFile};
use crate::probe::layout::{Head, Role};
use crate::record::Facts;
use crate::schedule::Mounted;
use crate::schedule::writer::{FileState, Prepared};

impl Target {
    /// What was kept of it. The books learn which disk it was, so that another is counted. A target that was found already is
    /// looked at anew, to be compared.
    pub(in crate::daemon) fn remember(&mut self, known: Known, desk: &mut Desk<'_>) {
        if self.found.is_some() {
            self.known = known;
            self.look_again(desk.now, desk);
            return;
        }
        if !known.identity.is_empty() {
            desk.book.set_facts(self.id, Facts { identity: known.identity.clone(), ..Facts::default() });
        }
        self.known = known;
    }

    /// What is to be kept of it.
    pub(in crate::daemon) fn known(&self) -> Option<Known> {
        (self.known != Known::default()).then(|| self.known.clone())
    }

    /// Where its file system was mounted when it was last found, by this daemon or by the one before.
    pub(super) fn mounted(&self) -> Option<Mounted> {
        let (point, source) = self.known.mount.clone();
        (!point.is_empty()).then(|| Mounted { point: point.into(), source })
    }

    /// Compares what is here with what was here. To be called before the files of `prepared` are taken on.
    pub(super) fn recognise(&mut self, prepared: &Prepared, desk: &mut Desk<'_>) {
        let identity = Some(facts::identity(&prepared.target)).filter(|text| lasts(text)).unwrap_or_default();
        // A block device has none, and no files.
        let home = prepared.home.as_ref().map(|home| home.display().to_string()).unwrap_or_default();
        let found = [(Role::Commits, &prepared.commits), (Role::Reads, &prepared.reads)];
        // A path that is not UTF-8 is not kept: it would be another when it is read.
        let mount = prepared.target.mount.as_ref();
        let mount =
            mount.and_then(|m| Some((m.point.to_str()?.to_owned(), m.source.clone()))).unwrap_or_default();
        let mut now = Known { home, identity, mount, ..Known::default() };
        let before = if self.known.home == now.home { self.known.clone() } else { Known::default() };
        let mut others = false;
        for (role, state) in found {
            let old = before.files.get(role.file_name());
            let file = match state {
                Some(FileState::Ready(head)) => Some(known_file(head)),
                Some(FileState::Trouble(_)) | None if !prepared.made => old.copied(),
                _ => None,
            };
            others |= old.zip(file.as_ref()).is_some_and(|(old, new)| old.id != new.id);
            now.files.extend(file.map(|file| (role.file_name().to_owned(), file)));
        }
        if !before.files.is_empty() && (prepared.made || others) {
            desk.book.files_lost(self.id);
            let what = if prepared.made {
                "the probe files that were here are gone: a new or wiped disk"
            } else {
                "other probe files than before are here: an exchanged or restored disk"
            };
            tracing::warn!(name = self.name, home = now.home, "{what}");
        }
        if [&before.identity, &now.identity].iter().all(|text| !text.is_empty())
            && before.identity != now.identity
        {
            let (was, is) = (&before.identity, &now.identity);
            tracing::warn!(name = self.name, was, is, "another disk than before is here");
        }
        if now.identity.is_empty() {
            now.identity = before.identity;
        }
        self.know(now);
    }

    /// A file was laid out.
    pub(super) fn know_file(&mut self, role: Role, head: &Head) {
        self.known.files.insert(role.file_name().to_owned(), known_file(head));
        self.to_keep = true;
    }

    fn know(&mut self, now: Known) {
        self.to_keep |= self.known != now;
        self.known = now;
    }
}

fn known_file(head: &Head) -> KnownFile {
    KnownFile { id: head.file, size: head.size }
}

/// Whether an identity tells a disk after a restart of the machine too: the kernel counts its disks anew then.
fn lasts(identity: &str) -> bool {
    !identity.contains(facts::COUNTED)
}
