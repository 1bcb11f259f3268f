//! The state file: read with doubt, written so that after a crash either the old or the new one is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{State, sweeps};
use crate::sys::{self, Dir, Direct, Errno, File};

const NAME: &str = "state.json";
/// What is added to the name of a file while it is written.
const NEW: &str = ".new";
/// What could not be understood or read, kept for whoever wants to look.
const SET_ASIDE: &str = "state.json.damaged";
const LOCK: &str = "state.lock";
const VERSION: u32 = 1;
/// Far above any state of ours.
const LONGEST: u64 = 4 << 20;

/// The file's content.
#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    #[serde(flatten)]
    state: State,
}

/// A file of another version may mean other things by the same words.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// What failed, in words; the path is named in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault(String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What was saved before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Before {
    /// All that could be read; empty where there was nothing.
    pub(super) state: State,
    /// Why it is less than there was, where it is.
    pub(super) lost: Option<Fault>,
}

impl Before {
    /// Says what was lost, and gives the rest.
    pub(super) fn tell(self) -> State {
        if let Some(fault) = self.lost {
            let sweeps = self.state.sweeps.len();
            tracing::warn!(%fault, sweeps, "the state of before is lost, but for its sweeps; beginning anew");
        }
        self.state
    }
}

/// The state directory. It is opened, and locked against a second daemon, when that is first needed, and anew after each failure.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    open: Option<(Dir, File)>,
    /// What is there is known: whatever is written takes nothing away.
    read: bool,
    /// The targets whose sweeps have files there.
    sweeps: BTreeSet<String>,
}

impl Place {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, open: None, read: false, sweeps: BTreeSet::new() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is known what was saved last, or that nothing was. Until then [`Place::save`] would write over it.
    pub(super) fn is_read(&self) -> bool {
        self.read
    }

    /// What was saved last. A state that makes no sense or cannot be read is set aside, and the sweeps are there without it.
    pub(super) fn load(&mut self) -> Result<Before, Fault> {
        let Some(dir) = self.find()? else {
            self.read = true;
            return Ok(Before::default());
        };
        let (state, lost) = match self.load_state(&dir) {
            Ok(state) => (state.unwrap_or_default(), None),
            Err(fault) if self.read => (State::default(), Some(fault)),
            Err(fault) => return Err(fault),
        };
        // From here on they are known to whoever asks: what is not handed back is to go.
        let sweeps = sweeps::load(&dir, &self.path);
        self.sweeps = sweeps.keys().cloned().collect();
        let sweeps = sweeps.into_iter().map(|(name, text)| (name, Some(text))).collect();
        Ok(Before { state: State { sweeps, ..state }, lost })
    }

    fn load_state(&mut self, dir: &Dir) -> Result<Option<State>, Fault> {
        let at = self.path.join(NAME);
        let why = match read(dir, NAME).map(|bytes| parse(&bytes)) {
            Ok(Ok(state)) => {
                self.read = true;
                return Ok(Some(state));
            }
            Err(Errno::ENOENT) => {
                self.read = true;
                return Ok(None);
            }
            Ok(Err(why)) => format!("{} makes no sense: {why}", at.display()),
            Err(e) => format!("cannot read {}: {e}", at.display()),
        };
        Err(Fault(match dir.rename(NAME, SET_ASIDE) {
            Ok(()) => {
                self.read = true;
                format!("{why}; it is set aside as {SET_ASIDE}")
            }
            Err(e) => format!("{why}; it cannot be set aside: {e}"),
        }))
    }

    /// The same for somebody who only looks: nothing is changed, and what is not understood is not there.
    pub(super) fn peek(&self) -> Option<State> {
        let dir = self.find().ok()??;
        parse(&read(&dir, NAME).ok()?).ok()
    }

    fn find(&self) -> Result<Option<Dir>, Fault> {
        match sys::resolve_links(&self.path).and_then(|path| Dir::open(&path)) {
            Err(Errno::ENOENT) => Ok(None),
            other => other.map(Some).map_err(|e| self.fault("open", "", e)),
        }
    }

    /// Replaces what was saved before. When it returns, the new state is durable.
    pub(super) fn save(&mut self, state: &State) -> Result<(), Fault> {
        let saved = self.try_save(state);
        if saved.is_err() {
            // The directory may have been removed, or mounted over.
            self.open = None;
        }
        saved
    }

    fn try_save(&mut self, state: &State) -> Result<(), Fault> {
        let (dir, lock) = match self.open.take() {
            Some(open) => open,
            None => self.open()?,
        };
        let document = Document { version: VERSION, state: state.clone() };
        let mut bytes = serde_json::to_vec(&document)
            .map_err(|e| Fault(format!("the state cannot be written as JSON: {e}")))?;
        bytes.push(b'\n');
        write(&dir, NAME, &bytes).map_err(|e| self.fault("write", NAME, e))?;
        self.save_sweeps(&dir, &state.sweeps)?;
        self.open = Some((dir, lock));
        Ok(())
    }

    /// Writes those that are new, and takes away those that are not kept any more.
    fn save_sweeps(&mut self, dir: &Dir, sweeps: &BTreeMap<String, Option<Arc<str>>>) -> Result<(), Fault> {
        for (target, text) in sweeps {
            let Some(text) = text else { continue };
            let name = sweeps::file_name(target);
            let bytes = sweeps::document(target, text);
            write(dir, &name, &bytes).map_err(|e| self.fault("write", &name, e))?;
            self.sweeps.insert(target.clone());
        }
        let gone: Vec<String> =
            self.sweeps.iter().filter(|target| !sweeps.contains_key(*target)).cloned().collect();
        for target in gone {
            let name = sweeps::file_name(&target);
            match dir.remove_file(&name) {
                Ok(()) | Err(Errno::ENOENT) => {
                    self.sweeps.remove(&target);
                }
                Err(e) => return Err(self.fault("remove", &name, e)),
            }
        }
        Ok(())
    }

    fn open(&self) -> Result<(Dir, File), Fault> {
        sys::make_directories(&self.path).map_err(|e| self.fault("make", "", e))?;
        let path = sys::resolve_links(&self.path).map_err(|e| self.fault("find", "", e))?;
        let dir = Dir::open(&path).map_err(|e| self.fault("open", "", e))?;
        match dir.create_file(LOCK, Direct::No) {
            Ok(_) | Err(Errno::EEXIST) => {}
            Err(e) => return Err(self.fault("make", LOCK, e)),
        }
        // Kept open for reading: one for writing would keep the file system from being remounted read-only.
        let lock = dir.open_file(LOCK, Direct::No).map_err(|e| self.fault("lock", LOCK, e))?;
        match lock.try_lock() {
            Ok(true) => Ok((dir, lock)),
            Ok(false) => {
                let place = self.path.display();
                Err(Fault(format!("{place} is another daemon's; give each its own with $STATE_DIRECTORY")))
            }
            Err(e) => Err(self.fault("lock", LOCK, e)),
        }
    }

    fn fault(&self, doing: &str, name: &str, errno: Errno) -> Fault {
        let at = if name.is_empty() { self.path.clone() } else { self.path.join(name) };
        Fault(format!("cannot {doing} {}: {errno}", at.display()))
    }
}

pub(super) fn read(dir: &Dir, name: &str) -> Result<Vec<u8>, Errno> {
    let file = dir.open_file(name, Direct::No)?;
    let size = file.stat()?.size;
    if size > LONGEST {
        return Err(Errno::EFBIG);
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(0)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            n => filled += n,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn parse(bytes: &[u8]) -> Result<State, String> {
    let say = |e: serde_json::Error| e.to_string();
    let version = serde_json::from_slice::<Versioned>(bytes).map_err(say)?.version;
    if version != VERSION {
        return Err(format!("it is of version {version}, and this diskcanary knows version {VERSION}"));
    }
    serde_json::from_slice::<Document>(bytes).map(|document| document.state).map_err(say)
}

fn write(dir: &Dir, name: &str, bytes: &[u8]) -> Result<(), Errno> {
    let new = format!("{name}{NEW}");
    match dir.remove_file(&new) {
        Ok(()) | Err(Errno::ENOENT) => {}
        Err(e) => return Err(e),
    }
    let written = write_new(dir, &new, bytes);
    if written.is_err() {
        // On a full disk it would hold room for nothing.
        let _ = dir.remove_file(&new);
    }
    written?;
    dir.rename(&new, name)?;
    dir.sync()
}

fn write_new(dir: &Dir, name: &str, bytes: &[u8]) -> Result<(), Errno> {
    let file = dir.create_file(name, Direct::No)?;
    let mut done = 0;
    while done < bytes.len() {
        match file.write_at(&bytes[done..], done as u64)? {
            0 => return Err(Errno::EIO),
            n => done += n,
        }
    }
    file.fsync()
}
