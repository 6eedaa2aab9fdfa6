//! Failures of the file system on purpose, so that tests can see what becomes of a store.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a call to the file system does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoKind {
    /// Opens a file for reading.
    Open,
    /// Makes a file, or opens one for writing from its beginning.
    Create,
    /// Reads from a file.
    Read,
    /// Maps a file into memory.
    Map,
    /// Writes to a file.
    Write,
    /// Makes the content of a file durable.
    Sync,
    /// Makes the names in a directory durable.
    SyncDirectory,
    /// Gives a file another name; what had that name is replaced.
    Rename,
    /// Gives a file a second name.
    Link,
    /// Removes a file.
    Remove,
    /// Makes a directory and those above it.
    CreateDirectory,
    /// Removes a directory with all that is in it.
    RemoveDirectory,
    /// Lists a directory.
    List,
    /// Asks for the size or the existence of a file.
    Metadata,
    /// Takes the lock of a directory.
    Lock,
}

/// One call to the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoCall {
    /// What it does.
    pub kind: IoKind,
    /// To which file or directory; the new name of what gets one.
    pub path: PathBuf,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails with this error number of the operating system, later ones succeed. Of a
    /// write, half of the bytes are written.
    Once(i32),
    /// This call and all later ones of its kind fail with this error number.
    Always(i32),
    /// The process dies in this call, so that no later one does anything.
    Crash(Effect),
}

/// What became of the call in which a process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Half of the bytes were written; of what is no write, nothing.
    Half,
    /// It was done.
    Whole,
}

/// For tests: a failure at one of the calls that a store makes to the file system. Give it to
/// [`StoreOptions::faults`](crate::StoreOptions::faults). Clones share what they count.
///
/// It can also tell what a loss of power would leave behind, see [`Faults::recording`].
#[derive(Debug, Clone)]
pub struct Faults(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The number of the call, from 0, and what happens to it.
    plan: Option<(u64, Fault)>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: u64,
    /// The call that failed first.
    failed: Option<IoCall>,
    crashed: bool,
    recorder: Option<Recorder>,
}

/// What is to happen to a call.
pub(crate) enum Verdict {
    Go,
    /// Do this much of it, then fail.
    Fail(Effect, io::Error),
}

impl Faults {
    /// Nothing fails; calls are counted.
    pub fn none() -> Self {
        Self::with(None, None)
    }

    /// The call with this number, counted from 0, fails.
    pub fn at(call: u64, fault: Fault) -> Self {
        Self::with(Some((call, fault)), None)
    }

    /// The same, and what was not made durable is kept track of: see [`Faults::lose_power`].
    /// Nothing is synced in earnest.
    pub fn recording(call: u64, fault: Fault) -> Self {
        Self::with(Some((call, fault)), Some(Recorder::default()))
    }

    fn with(plan: Option<(u64, Fault)>, recorder: Option<Recorder>) -> Self {
        Self(Arc::new(Inner { plan, state: Mutex::new(State { recorder, ..State::default() }) }))
    }

    /// No code panics while it holds the lock, so a poisoned one still guards whole data.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many calls there were.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// The call that failed first, if one did.
    pub fn failed(&self) -> Option<IoCall> {
        self.state().failed.clone()
    }

    /// Undoes what a loss of power at this moment could undo: file contents and names that were
    /// not synced. Which of them is drawn from `seed`; 0 undoes them all. Call it when the store
    /// is gone, whose mapped files must not be cut.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn lose_power(&self, seed: u64) -> io::Result<()> {
        let recorder = self.state().recorder.take();
        recorder.map_or(Ok(()), |recorder| recorder.lose_power(&mut Chance(seed)))
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.state().recorder.is_some()
    }

    /// Counts a call and says what is to happen to it; `to` is the new name of what gets one.
    pub(crate) fn next(&self, kind: IoKind, path: &Path, to: Option<&Path>) -> Verdict {
        let mut state = self.state();
        let call = state.calls;
        state.calls += 1;
        let dead = || io::Error::other("the process has died (a fault of the test)");
        if state.crashed {
            return Verdict::Fail(Effect::Nothing, dead());
        }
        let failed_kind = state.failed.as_ref().map(|call| call.kind);
        let (effect, error) = match self.0.plan {
            Some((at, Fault::Once(code))) if at == call => {
                (Effect::Half, io::Error::from_raw_os_error(code))
            }
            Some((at, Fault::Always(code))) if at == call || failed_kind == Some(kind) => {
                (Effect::Half, io::Error::from_raw_os_error(code))
            }
            Some((at, Fault::Crash(effect))) if at == call => {
                state.crashed = true;
                (effect, dead())
            }
            _ => {
                state.record(kind, path, to);
                return Verdict::Go;
            }
        };
        state.failed.get_or_insert_with(|| IoCall { kind, path: to.unwrap_or(path).to_owned() });
        // A sync that did not return may have synced nothing.
        if effect == Effect::Whole || kind == IoKind::Write {
            state.record(kind, path, to);
        }
        Verdict::Fail(effect, error)
    }
}

impl State {
    fn record(&mut self, kind: IoKind, path: &Path, to: Option<&Path>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(kind, path, to);
        }
    }
}

/// What is not durable yet.
#[derive(Debug, Default)]
struct Recorder {
    /// Files with bytes that are not, and how many are.
    unsynced: HashMap<PathBuf, u64>,
    /// Names that came, went or changed, oldest first.
    changes: Vec<Change>,
}

/// A change of a name in a directory.
#[derive(Debug)]
struct Change {
    directory: PathBuf,
    path: PathBuf,
    before: Before,
}

/// What a name stood for.
#[derive(Debug, Clone)]
enum Before {
    Nothing,
    File(Vec<u8>),
    /// Files by their path within.
    Directory(Vec<(PathBuf, Vec<u8>)>),
}

impl Recorder {
    /// Takes note of a call that is about to be made.
    fn record(&mut self, kind: IoKind, path: &Path, to: Option<&Path>) {
        match (kind, to) {
            (IoKind::Create, _) => {
                if !path.exists() {
                    self.change(path, Before::Nothing);
                }
                self.unsynced.insert(path.to_owned(), 0);
            }
            (IoKind::Write, _) => {
                let durable = path.metadata().map_or(0, |metadata| metadata.len());
                self.unsynced.entry(path.to_owned()).or_insert(durable);
            }
            (IoKind::Sync, _) => drop(self.unsynced.remove(path)),
            (IoKind::SyncDirectory, _) => self.changes.retain(|change| change.directory != path),
            (IoKind::Rename, Some(to)) => {
                self.change(to, self.durable(to));
                self.change(path, self.durable(path));
                self.unsynced.retain(|file, _| !file.starts_with(to));
                self.moved(path, to);
            }
            (IoKind::Link, Some(to)) => self.change(to, Before::Nothing),
            (IoKind::Remove | IoKind::RemoveDirectory, _) => {
                self.change(path, self.durable(path));
                self.unsynced.retain(|file, _| !file.starts_with(path));
                self.changes.retain(|change| change.path == path || !change.path.starts_with(path));
            }
            (IoKind::CreateDirectory, _) => {
                if let Some(new) = path.ancestors().take_while(|path| !path.exists()).last() {
                    self.change(new, Before::Nothing);
                }
            }
            _ => {}
        }
    }

    /// What is below a path is found below another from now on.
    fn moved(&mut self, from: &Path, to: &Path) {
        let below = |path: &Path| match path.strip_prefix(from) {
            Ok(within) if within == Path::new("") => Some(to.to_owned()),
            Ok(within) => Some(to.join(within)),
            Err(_) => None,
        };
        let unsynced = std::mem::take(&mut self.unsynced).into_iter();
        self.unsynced =
            unsynced.map(|(path, durable)| (below(&path).unwrap_or(path), durable)).collect();
        for change in &mut self.changes {
            if let Some(directory) = below(&change.directory) {
                change.directory = directory;
                change.path = below(&change.path).unwrap_or_default();
            }
        }
    }

    fn change(&mut self, path: &Path, before: Before) {
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        self.changes.push(Change { directory, path: path.to_owned(), before });
    }

    /// What would be left of a file or directory.
    fn durable(&self, path: &Path) -> Before {
        if path.is_dir() {
            let mut files = Vec::new();
            self.collect(path, path, &mut files);
            return Before::Directory(files);
        }
        let Ok(mut bytes) = std::fs::read(path) else { return Before::Nothing };
        if let Some(&durable) = self.unsynced.get(path) {
            bytes.truncate(usize::try_from(durable).unwrap_or(usize::MAX));
        }
        Before::File(bytes)
    }

    fn collect(&self, root: &Path, directory: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match self.durable(&entry.path()) {
                Before::File(bytes) => {
                    let within = entry.path().strip_prefix(root).map(Path::to_owned);
                    files.extend(within.map(|within| (within, bytes)));
                }
                _ => self.collect(root, &entry.path(), files),
            }
        }
    }

    fn lose_power(self, chance: &mut Chance) -> io::Result<()> {
        for (path, durable) in self.unsynced {
            if let Ok(file) = std::fs::OpenOptions::new().write(true).open(&path) {
                let length = file.metadata()?.len();
                file.set_len(chance.between(durable.min(length), length))?;
            }
        }
        // By path: what is above comes before what is in it.
        let mut by_path: BTreeMap<PathBuf, Vec<Before>> = BTreeMap::new();
        for Change { path, before, .. } in self.changes {
            by_path.entry(path).or_default().push(before);
        }
        let mut undone: Vec<PathBuf> = Vec::new();
        for (path, befores) in by_path {
            // The first so many changes of a name were made durable by chance.
            let kept = chance.between(0, befores.len() as u64);
            let lost = befores.into_iter().nth(usize::try_from(kept).unwrap_or(usize::MAX));
            if undone.iter().any(|above| path.starts_with(above)) {
                continue;
            }
            if let Some(before) = lost {
                before.put_back(&path)?;
                undone.push(path);
            }
        }
        Ok(())
    }
}

impl Before {
    fn put_back(self, path: &Path) -> io::Result<()> {
        if path.is_dir() {
            std::fs::remove_dir_all(path)?;
        } else if path.exists() {
            std::fs::remove_file(path)?;
        }
        let write = |path: &Path, bytes: Vec<u8>| {
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
            std::fs::write(path, bytes)
        };
        match self {
            Self::Nothing => Ok(()),
            Self::File(bytes) => write(path, bytes),
            Self::Directory(files) => {
                std::fs::create_dir_all(path)?;
                files.into_iter().try_for_each(|(within, bytes)| write(&path.join(within), bytes))
            }
        }
    }
}

/// Pseudo-random numbers (xorshift); from the seed 0, always the least.
struct Chance(u64);

impl Chance {
    fn between(&mut self, least: u64, greatest: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        least + (self.0 >> 11) % (greatest - least + 1)
    }
}
