//! The dead-letter file: malformed rows with what is wrong with them, one JSON object a line.
//!
//! It is part of every checkpoint by its path and length: a restart cuts off what came after,
//! and the rows are read, and written, again. As it may be anywhere, a marker in the state
//! directory says which file is the pipeline's: no other one is ever cut.

use crate::checkpoint::DeadLetterPosition;
use crate::directory;
use crate::error::{Error, ErrorKind, Result};
use crate::place::{Open, Place};
use crate::source::Rejected;
use serde::Serialize;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The file in the state directory whose content is the path of the dead-letter file; that of a
/// source with a name begins in the same way.
pub(crate) const MARKER: &str = "dead-letter.owned";
/// The longest path.
const PATH_LIMIT_BYTES: u64 = 64 << 10;

/// A dead-letter file that this pipeline may write.
#[derive(Debug)]
pub(crate) struct Claim {
    place: Place,
    position: DeadLetterPosition,
    marker: PathBuf,
    sync: bool,
}

impl Claim {
    /// Refuses a file that has something in it and is not of this source, in the pipeline of this
    /// state directory, or that is shorter than at the checkpoint. Changes nothing.
    pub(crate) fn check(
        place: &Place,
        (state_directory, source): (&Path, &str),
        checkpoint: Option<&DeadLetterPosition>,
        sync: bool,
    ) -> Result<Self> {
        let path = place.shown();
        let refuse = |problem: String, way_out: &str| {
            let shown = path.display();
            let message = format!("the dead-letter file {shown} {problem}; {way_out}");
            Err(Error::new(ErrorKind::Incompatible, message))
        };
        // The only source, in the short form of a pipeline file, has the name `source`.
        let marker = match source {
            "source" => MARKER.to_owned(),
            source => format!("{MARKER}.{source}"),
        };
        let marker = state_directory.join(marker);
        let recorded = recorded_path(path, state_directory)?;
        let known = checkpoint.filter(|position| position.path == recorded);
        let length = known.map_or(0, |position| position.bytes);
        let Some(found) = place.file_length()? else {
            return refuse("is no regular file".to_owned(), "name another one");
        };
        let owned = known.is_some() || read_marker(&marker)?.as_deref() == Some(recorded.as_str());
        if found > 0 && !owned {
            let before = checkpoint.map(|position| {
                format!(
                    " (that of the checkpoint is {}, of {} bytes)",
                    position.path, position.bytes
                )
            });
            return refuse(
                format!(
                    "has something in it that is not from this pipeline{}",
                    before.unwrap_or_default()
                ),
                "move it away, or name another file",
            );
        }
        if found < length {
            return refuse(
                format!("has {found} bytes, fewer than the {length} of the checkpoint"),
                "bring it back, or start afresh with --fresh",
            );
        }
        let position = DeadLetterPosition { path: recorded, bytes: length };
        Ok(Self { place: place.clone(), position, marker, sync })
    }

    /// Opens the file and cuts off what came after the checkpoint.
    pub(crate) fn open(self) -> Result<DeadLetters> {
        let Self { place, position, marker, sync } = self;
        // Before there is anything in the file: it must never look like somebody else's.
        let temporary = marker.with_extension("tmp");
        directory::write(&marker, &temporary, position.path.as_bytes(), sync)?;
        place.create_parent()?;
        let path = place.shown().to_owned();
        let failed = |error| Error::io("open", &path, error);
        let opened = place.open_to(Open::Write);
        let mut file = opened.map_err(failed)?;
        file.set_len(position.bytes).map_err(failed)?;
        file.seek(SeekFrom::Start(position.bytes)).map_err(failed)?;
        Ok(DeadLetters { file, path, synced: position.bytes, position, sync })
    }
}

/// A path by which a file is known again, wherever the pipeline is started: relative to the
/// state directory, which may be moved, if it is in it.
fn recorded_path(path: &Path, state_directory: &Path) -> Result<String> {
    let path = directory::resolve(path)?;
    let state_directory = directory::resolve(state_directory)?;
    let recorded = path.strip_prefix(&state_directory).unwrap_or(&path);
    Ok(recorded.to_string_lossy().into_owned())
}

fn read_marker(path: &Path) -> Result<Option<String>> {
    let mut bytes = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(PATH_LIMIT_BYTES).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(String::from_utf8(bytes).ok()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", path, error)),
    }
}

/// Malformed rows are added to it.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    file: File,
    path: PathBuf,
    position: DeadLetterPosition,
    synced: u64,
    sync: bool,
}

/// A line of the file.
#[derive(Serialize)]
struct Letter<'a> {
    source: &'a str,
    line: u64,
    error: &'a str,
    row: &'a str,
}

impl DeadLetters {
    /// Adds rows.
    pub(crate) fn append(&mut self, rows: &[Rejected]) -> Result<()> {
        let mut text = Vec::new();
        for row in rows {
            let raw = String::from_utf8_lossy(&row.raw);
            let source = row.origin.name();
            let letter = Letter { source, line: row.line, error: &row.reason, row: &raw };
            serde_json::to_writer(&mut text, &letter)
                .map_err(|error| Error::internal(format!("a dead letter is no JSON: {error}")))?;
            text.push(b'\n');
        }
        self.file.write_all(&text).map_err(|error| Error::io("write", &self.path, error))?;
        self.position.bytes += u64::try_from(text.len()).unwrap_or(u64::MAX);
        Ok(())
    }

    /// Makes what was added durable; what belongs into the checkpoint.
    pub(crate) fn seal(&mut self) -> Result<DeadLetterPosition> {
        if self.sync && self.synced < self.position.bytes {
            self.file.sync_all().map_err(|error| Error::io("sync", &self.path, error))?;
            self.synced = self.position.bytes;
        }
        Ok(self.position.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Origin;
    use std::sync::Arc;

    fn rejected(line: u64) -> Rejected {
        let origin = Arc::new(Origin::of_lines("rows.csv"));
        let reason = "column `x` has no value".into();
        Rejected { origin, line, raw: b"a,\"b\xff".to_vec(), reason }
    }

    /// A directory with a state directory in it.
    fn directory() -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(directory.path().join("state")).expect("made");
        directory
    }

    fn claim(
        directory: &tempfile::TempDir,
        name: &str,
        checkpoint: Option<&DeadLetterPosition>,
    ) -> Result<Claim> {
        let root = directory.path();
        let place = crate::Directories::only([root]).place(&root.join(name)).expect("granted");
        Claim::check(&place, (&root.join("state"), "source"), checkpoint, true)
    }

    fn open(
        directory: &tempfile::TempDir,
        name: &str,
        checkpoint: Option<&DeadLetterPosition>,
    ) -> DeadLetters {
        claim(directory, name, checkpoint).expect("claimed").open().expect("opened")
    }

    #[test]
    fn a_restart_cuts_off_what_no_checkpoint_knows() {
        let directory = directory();
        let mut letters = open(&directory, "letters/dead.ndjson", None);
        letters.append(&[rejected(2)]).expect("added");
        let position = letters.seal().expect("sealed");
        letters.append(&[rejected(3)]).expect("added");
        drop(letters);

        let mut letters = open(&directory, "letters/dead.ndjson", Some(&position));
        letters.append(&[rejected(3), rejected(4)]).expect("added");
        let path = directory.path().join("letters/dead.ndjson");
        let text = std::fs::read_to_string(path).expect("text");
        let line = |number| {
            let row = "a,\\\"b\u{fffd}";
            format!(
                r#"{{"source":"rows.csv","line":{number},"error":"column `x` has no value","row":"{row}"}}"#
            )
        };
        assert_eq!(text, format!("{}\n{}\n{}\n", line(2), line(3), line(4)));
    }

    #[test]
    fn a_file_that_has_shrunk_is_refused() {
        let directory = directory();
        let mut letters = open(&directory, "dead.ndjson", None);
        letters.append(&[rejected(2)]).expect("added");
        let position = letters.seal().expect("sealed");
        std::fs::write(directory.path().join("dead.ndjson"), "{").expect("written");
        let error = claim(&directory, "dead.ndjson", Some(&position)).expect_err("shrunk");
        assert!(error.to_string().contains("has 1 bytes, fewer than the "), "{error}");
    }

    #[test]
    fn a_file_of_somebody_else_is_refused_wherever_it_is() {
        let directory = directory();
        let position = open(&directory, "dead.ndjson", None).seal().expect("sealed");
        for name in ["mine.txt", "state/mine.txt"] {
            std::fs::write(directory.path().join(name), "precious").expect("written");
            for checkpoint in [None, Some(&position)] {
                let error = claim(&directory, name, checkpoint).expect_err("refused");
                assert_eq!(error.kind(), ErrorKind::Incompatible);
            }
        }
        assert!(claim(&directory, "state", None).is_err(), "a directory");
    }

    #[test]
    fn a_file_is_known_again_by_another_way_to_it() {
        let directory = directory();
        let mut letters = open(&directory, "state/dead.ndjson", None);
        letters.append(&[rejected(2)]).expect("added");
        let position = letters.seal().expect("sealed");
        assert_eq!(position.path, "dead.ndjson");
        claim(&directory, "state/../state/dead.ndjson", None).expect("by its marker");
        claim(&directory, "state/../state/dead.ndjson", Some(&position)).expect("by both");
    }

    #[test]
    fn another_name_begins_another_file() {
        let directory = directory();
        let mut letters = open(&directory, "one.ndjson", None);
        letters.append(&[rejected(2)]).expect("added");
        let position = letters.seal().expect("sealed");
        let mut letters = open(&directory, "two.ndjson", Some(&position));
        letters.append(&[rejected(3)]).expect("added");
        // Broken off before its first checkpoint, it is still known.
        claim(&directory, "two.ndjson", Some(&position)).expect("by its marker");
        claim(&directory, "one.ndjson", Some(&position)).expect("by the checkpoint");
        let error = claim(&directory, "one.ndjson", None).expect_err("by nothing");
        assert!(error.to_string().contains("not from this pipeline"), "{error}");
    }
}
