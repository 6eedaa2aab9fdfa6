//! Files of a directory, one after the other by name; those that appear later, and lines that
//! are appended, are followed if so configured.

use super::pattern::matches;
use super::start::Start;
use super::{FilePosition, FileReader, FileStart, Growth, Stored, open_reader};
use crate::checkpoint::SourcePosition;
use crate::clock;
use crate::config::{Format, SourceConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::grants::Directories;
use crate::place::{Directory, Place};
use crate::source::{Next, Plan, Progress, Share, Source};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of the connector.
pub(in crate::source) const CONNECTOR: &str = "directory";
/// The most files: each checkpoint says of each how far it was read.
const FILES_LIMIT: usize = 10_000;
/// How often new files and lines are looked for.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// What a checkpoint keeps beside the number of rows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct StoredFiles {
    /// How far each file was read that was begun, by name.
    files: BTreeMap<String, StoredFile>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct StoredFile {
    rows: u64,
    at: Stored,
    done: bool,
}

/// See [`source::merge`](crate::source::merge): each file belongs to one share.
pub(in crate::source) fn merge(positions: &[SourcePosition]) -> Result<SourcePosition> {
    let mut files = BTreeMap::new();
    for position in positions {
        let stored: StoredFiles = position.read(CONNECTOR)?;
        files.extend(stored.files);
    }
    let rows = positions.iter().map(|position| position.rows).sum();
    SourcePosition::new(CONNECTOR, rows, &StoredFiles { files })
}

/// How far a file was read.
#[derive(Debug, Clone, Copy)]
struct Read {
    position: FilePosition,
    start: FileStart,
    /// To what was its end then.
    done: bool,
}

/// Which files of which directory.
#[derive(Debug, Clone)]
pub(super) struct Files {
    directory: Directory,
    pattern: String,
    share: Share,
}

impl Files {
    /// The directory, and the pattern of names, that a path means: all of a directory, or what a
    /// pattern in the last part of the path says; `None`: the path means one file.
    pub(super) fn pattern(path: &Path) -> Option<(&Path, &str)> {
        if path.is_dir() {
            return Some((path, "*"));
        }
        let pattern = path.file_name()?.to_str()?;
        if path.exists() || !pattern.contains(['*', '?']) {
            return None;
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Some((parent.unwrap_or(Path::new(".")), pattern))
    }

    /// A share of those that a path means; `None`: it means one file.
    pub(super) fn of(path: &Path, directories: &Directories, share: Share) -> Result<Option<Self>> {
        let Some((directory, pattern)) = Self::pattern(path) else { return Ok(None) };
        let directory = directories.place(directory)?.directory()?;
        Ok(Some(Self { directory, pattern: pattern.to_owned(), share }))
    }

    /// The first one that has something in it, to see what columns there are.
    pub(super) fn first(&self, config: &SourceConfig) -> Result<Place> {
        let files = self.list()?;
        let first = files.iter().find(|(_, length)| **length > 0).map(|(name, _)| name);
        let first = first.ok_or_else(|| {
            Error::input(format!(
                "{} has no file with rows yet, so its columns are not known; put one there",
                config.path.value.display()
            ))
        })?;
        Ok(self.directory.file(first))
    }

    /// Names and lengths. Hidden files, and those that begin with `_`, are somebody's notes.
    fn list(&self) -> Result<BTreeMap<String, u64>> {
        let wanted = |name: &str| !name.starts_with(['.', '_']) && matches(&self.pattern, name);
        let mut files: BTreeMap<String, u64> = self.directory.files(wanted)?.into_iter().collect();
        if files.len() > FILES_LIMIT {
            return Err(Error::input(format!(
                "{} files match `{}`, and a source takes {FILES_LIMIT} at most; take a narrower \
                 pattern",
                files.len(),
                self.pattern
            )));
        }
        files.retain(|name, _| self.share.has_name(name));
        Ok(files)
    }
}

/// The source.
pub(super) struct FilesSource {
    files: Files,
    config: SourceConfig,
    plan: Arc<Plan>,
    /// Whether it goes on when all is read.
    follow: bool,
    /// How far each file was read that was begun.
    read: BTreeMap<String, Read>,
    /// Lengths as of the last look.
    found: BTreeMap<String, u64>,
    /// The file that is being read.
    open: Option<Open>,
    looked: Instant,
    /// Rows and bytes of all files but the open one.
    rows: u64,
    bytes: u64,
    ended: bool,
}

struct Open {
    name: String,
    reader: Box<dyn FileReader>,
    start: Start,
}

impl FilesSource {
    pub(super) fn open(
        files: Files,
        config: &SourceConfig,
        plan: Arc<Plan>,
        position: Option<&SourcePosition>,
    ) -> Result<Self> {
        let mut read = BTreeMap::new();
        if let Some(position) = position {
            let stored: StoredFiles = position.read(CONNECTOR)?;
            let own = stored.files.into_iter().filter(|(name, _)| files.share.has_name(name));
            for (name, StoredFile { rows, at, done }) in own {
                let Stored { byte_offset, lines, start } = at;
                let position = FilePosition { byte_offset, rows, lines };
                read.insert(name, Read { position, start, done });
            }
        }
        let found = files.list()?;
        let mut source = Self {
            files,
            config: config.clone(),
            plan,
            follow: config.follow,
            read,
            found,
            open: None,
            looked: clock::now(),
            rows: 0,
            bytes: 0,
            ended: false,
        };
        source.check_known()?;
        source.rows = source.read.values().map(|read| read.position.rows).sum();
        source.bytes = source.read.values().map(|read| read.position.byte_offset).sum();
        // The first one is opened here, so that what is wrong with it is said at once.
        source.open_next()?;
        Ok(source)
    }

    /// Refuses files that were cut short, or are gone before they were read to their end.
    fn check_known(&self) -> Result<()> {
        for (name, Read { position, done, .. }) in &self.read {
            let refuse = |what: String| {
                let shown = self.files.directory.file(name);
                let message = format!(
                    "{} {what}; bring the old file back, or start afresh with --fresh",
                    shown.shown().display()
                );
                Err(Error::new(ErrorKind::Incompatible, message))
            };
            match self.found.get(name) {
                None if !done => {
                    return refuse("is gone, and was not read to its end".to_owned());
                }
                Some(length)
                    if *length < position.byte_offset && self.config.format != Format::Parquet =>
                {
                    return refuse(format!(
                        "has {length} bytes, fewer than the {} that were read",
                        position.byte_offset
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Opens the first file, by name, that has something which was not read.
    fn open_next(&mut self) -> Result<()> {
        let format = self.config.format;
        let has_more = |(name, length): &(&String, &u64)| match self.read.get(*name) {
            None => **length > 0,
            // A Parquet file is written once.
            Some(read) if format == Format::Parquet => !read.done,
            Some(read) => **length > read.position.byte_offset,
        };
        let Some((name, _)) = self.found.iter().find(has_more) else { return Ok(()) };
        let name = name.clone();
        let place = self.files.directory.file(&name);
        let known = self.read.get(&name).copied();
        let start = Start::read(&place)?;
        if let Some(known) = known {
            start.check(place.shown(), known.start)?;
        }
        let mut config = self.config.clone();
        config.path.value = place.shown().to_owned();
        if self.follow && known.is_none() && format == Format::Csv && !start.has_line() {
            // The header is not whole yet.
            self.found.insert(name, 0);
            return Ok(());
        }
        let growth = if self.follow { Growth::Awaited } else { Growth::None };
        let position = known.map(|known| known.position);
        let reader = open_reader(&place, &config, Arc::clone(&self.plan), position, growth)?;
        if let Some(position) = position {
            self.rows = self.rows.saturating_sub(position.rows);
            self.bytes = self.bytes.saturating_sub(position.byte_offset);
        }
        self.open = Some(Open { name, reader, start });
        Ok(())
    }

    /// The open file has no more for now.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let position = open.reader.position();
        self.rows += position.rows;
        self.bytes += position.byte_offset;
        // What is left is the beginning of a line: it is more when the file is longer.
        if let Some(found) = self.found.get_mut(&open.name) {
            *found = position.byte_offset;
        }
        let start = open.start.before(position.byte_offset);
        self.read.insert(open.name, Read { position, start, done: true });
    }
}

impl Source for FilesSource {
    fn next(&mut self, rows_limit: usize) -> Result<Next> {
        while !self.ended {
            if let Some(open) = &mut self.open {
                if let Some(batch) = open.reader.next_batch(rows_limit)? {
                    return Ok(Next::Batch(batch));
                }
                self.close();
            }
            self.open_next()?;
            if self.open.is_some() {
                continue;
            }
            if !self.follow {
                self.ended = true;
                break;
            }
            let waited = clock::now().saturating_duration_since(self.looked);
            if waited < SCAN_INTERVAL {
                return Ok(Next::Idle(SCAN_INTERVAL - waited));
            }
            self.looked = clock::now();
            self.found = self.files.list()?;
            self.check_known()?;
            self.open_next()?;
            if self.open.is_none() {
                return Ok(Next::Idle(SCAN_INTERVAL));
            }
        }
        Ok(Next::End)
    }

    fn progress(&self) -> Progress {
        let open = self.open.as_ref().map(|open| open.reader.position()).unwrap_or_default();
        Progress {
            rows: self.rows + open.rows,
            bytes_read: self.bytes + open.byte_offset,
            bytes_total: self.found.values().sum(),
        }
    }

    fn position(&self) -> Result<SourcePosition> {
        let mut read = self.read.clone();
        if let Some(open) = &self.open {
            let position = open.reader.position();
            let start = open.start.before(position.byte_offset);
            let done = position.byte_offset >= open.reader.length_bytes();
            read.insert(open.name.clone(), Read { position, start, done });
        }
        let rows = read.values().map(|read| read.position.rows).sum();
        let stored = |(name, Read { position, start, done }): (String, Read)| {
            let FilePosition { byte_offset, rows, lines } = position;
            (name, StoredFile { rows, at: Stored { byte_offset, lines, start }, done })
        };
        let files = read.into_iter().map(stored).collect();
        SourcePosition::new(CONNECTOR, rows, &StoredFiles { files })
    }
}
