//! The document of a checkpoint: everything that it consists of, in one file.
//!
//! The first line says what it is, in which version, and the XXH3 of all that follows; the rest
//! is one JSON object:
//!
//! ```text
//! howdah-checkpoint 1 0f1e2d3c4b5a6978
//! {"checkpoint":7,"time_ms":...,"tenant":"default","tables":[...],"payload":{"text":"..."}}
//! ```
//!
//! Small files whose names come again with other content (snapshots and schemas) are in the
//! document itself; the others are named with length and checksum.

use super::target::Sum;
use crate::store::{check_name, check_table_name};
use crate::{Error, ErrorKind, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// The version that is written, and the newest that is read.
pub(super) const VERSION: u32 = 1;
/// A document beyond this is none of ours.
pub(super) const LIMIT_BYTES: u64 = 256 << 20;
/// First word of a checkpoint's document.
pub(super) const CHECKPOINT: &str = "howdah-checkpoint";
/// First word of a note of what is under way.
pub(super) const INTENT: &str = "howdah-intent";

/// What a checkpoint consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) checkpoint: u64,
    /// When it was begun, in milliseconds since the Unix epoch.
    pub(super) time_ms: u64,
    pub(super) tenant: String,
    pub(super) tables: Vec<Table>,
    pub(super) payload: Payload,
}

/// A table as it was at a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) snapshot: i64,
    /// Content of the snapshot's file.
    pub(super) snapshot_file: String,
    /// The schemas up to the snapshot's, ascending.
    pub(super) schemas: Vec<Schema>,
    pub(super) files: Vec<File>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Schema {
    pub(super) id: i64,
    /// Content of its file.
    pub(super) file: String,
}

/// A file of a table that never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// In the table's directory: `manifest/<name>`, `index/<name>` or `bucket-<number>/<name>`.
    pub(super) path: String,
    pub(super) bytes: u64,
    #[serde(with = "hex")]
    pub(super) crc32: u32,
}

impl File {
    pub(super) fn sum(&self) -> Sum {
        Sum { bytes: self.bytes, crc32: self.crc32 }
    }
}

/// What the caller keeps beside the tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Payload {
    /// Readable as it is.
    Text(String),
    /// Two digits for each byte.
    Hex(String),
}

impl Payload {
    pub(super) fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Hex(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    pub(super) fn bytes(&self) -> Option<Vec<u8>> {
        match self {
            Self::Text(text) => Some(text.clone().into_bytes()),
            Self::Hex(digits) if digits.len() % 2 == 0 && digits.is_ascii() => (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok())
                .collect(),
            Self::Hex(_) => None,
        }
    }
}

/// Eight digits, as tools print it.
mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(sum: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{sum:08x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        let text = String::deserialize(from)?;
        u32::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}

/// Something that was begun, so that the next to open the target can end it: a crash leaves no
/// other trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Intent {
    pub(super) checkpoint: u64,
    /// Whether the document goes; otherwise it comes, and when it is there, all is done.
    pub(super) removes: bool,
    /// Files that come or go with it, unless another checkpoint has them.
    pub(super) files: Vec<String>,
}

/// The bytes of a document or intent.
pub(super) fn encode(what: &str, content: &impl Serialize) -> Result<Vec<u8>> {
    let body = serde_json::to_vec(content)
        .map_err(|error| Error::invalid(format!("a {what} cannot be written: {error}")))?;
    let sum = xxhash_rust::xxh3::xxh3_64(&body);
    let mut bytes = format!("{what} {VERSION} {sum:016x}\n").into_bytes();
    bytes.extend_from_slice(&body);
    if bytes.len() as u64 > LIMIT_BYTES {
        return Err(Error::invalid(format!("a {what} of {} bytes is too large", bytes.len())));
    }
    Ok(bytes)
}

/// Reads a document or intent; `name` is for messages.
///
/// # Errors
/// `Incompatible` when a newer version wrote it; `Corrupt` when it is damaged.
pub(super) fn decode<T: DeserializeOwned>(what: &str, name: &str, bytes: &[u8]) -> Result<T> {
    let corrupt = |why: &str| Error::corrupt(format!("{name} is damaged: {why}"));
    let end = bytes.iter().take(100).position(|&byte| byte == b'\n');
    let (line, body) = end
        .and_then(|end| Some((bytes.get(..end)?, bytes.get(end + 1..)?)))
        .ok_or_else(|| corrupt("it has no first line"))?;
    let line = std::str::from_utf8(line).map_err(|_| corrupt("its first line is no text"))?;
    let words: Vec<&str> = line.split(' ').collect();
    let &[word, version, sum] = words.as_slice() else {
        return Err(corrupt("its first line is not as it should be"));
    };
    if word != what {
        return Err(corrupt(&format!("it should begin with `{what}`")));
    }
    let version: u32 = version.parse().map_err(|_| corrupt("its version is no number"))?;
    if version != VERSION {
        return Err(Error::new(
            ErrorKind::Incompatible,
            format!(
                "{name} is of version {version} of its format, but this program knows {VERSION} \
                 only: use the program that wrote it, or a newer one"
            ),
        ));
    }
    if sum != format!("{:016x}", xxhash_rust::xxh3::xxh3_64(body)) {
        return Err(corrupt("its checksum is another"));
    }
    serde_json::from_slice(body).map_err(|error| corrupt(&error.to_string()))
}

impl Document {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        encode(CHECKPOINT, self)
    }

    /// Reads and checks a document; `name` is for messages.
    ///
    /// # Errors
    /// `Incompatible` when a newer version wrote it; `Corrupt` when it is damaged.
    pub(super) fn decode(name: &str, bytes: &[u8]) -> Result<Self> {
        let document: Self = decode(CHECKPOINT, name, bytes)?;
        document.check().map_err(|why| Error::corrupt(format!("{name} is damaged: {why}")))?;
        Ok(document)
    }

    /// Names become paths: none may lead elsewhere.
    fn check(&self) -> Result<(), String> {
        check_name("tenant", &self.tenant).map_err(|error| error.to_string())?;
        let mut tables = HashSet::new();
        for table in &self.tables {
            check_table_name(&table.name).map_err(|error| error.to_string())?;
            if !tables.insert(&table.name) {
                return Err(format!("table {} is there twice", table.name));
            }
            if table.snapshot < 1 || table.schemas.iter().any(|schema| schema.id < 0) {
                return Err(format!("table {} has a negative number", table.name));
            }
            if let Some(file) = table.files.iter().find(|file| !is_table_path(&file.path)) {
                return Err(format!("`{}` is no path in a table", file.path));
            }
        }
        self.payload.bytes().map(drop).ok_or_else(|| "its payload is no hex".to_owned())
    }

    /// Where a file of a table lies in the target, below the directory of all files.
    pub(super) fn place(&self, table: &Table, file: &File) -> String {
        place(&self.tenant, &table.name, &file.path)
    }

    /// All files of all tables: place and file.
    pub(super) fn files(&self) -> impl Iterator<Item = (String, &File)> {
        self.tables.iter().flat_map(move |table| {
            table.files.iter().map(move |file| (self.place(table, file), file))
        })
    }
}

pub(super) fn place(tenant: &str, table: &str, path: &str) -> String {
    format!("{tenant}.db/{table}/{path}")
}

fn is_table_path(path: &str) -> bool {
    let Some((directory, name)) = path.split_once('/') else { return false };
    let bucket = directory.strip_prefix("bucket-").is_some_and(|number| {
        !number.is_empty() && number.len() < 10 && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (bucket || matches!(directory, "manifest" | "index"))
        && !name.starts_with('.')
        && (1..=255).contains(&name.len())
        && name.chars().all(plain)
}

/// Decodes bytes that need not be a document or a note: as they are, as a body with the right
/// checksum, and as changes to a sound body (two bytes of place, one of content, and so on).
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(content: &[u8]) {
    let with_sum = |body: &[u8]| {
        let sum = xxhash_rust::xxh3::xxh3_64(body);
        let mut bytes = format!("{CHECKPOINT} {VERSION} {sum:016x}\n").into_bytes();
        bytes.extend_from_slice(body);
        bytes
    };
    let _ = Document::decode("the document", content);
    let _ = decode::<Intent>(INTENT, "the note", content);
    let _ = Document::decode("the document", &with_sum(content));
    let Ok(mut body) = serde_json::to_vec(&sample()) else { return };
    for edit in content.chunks_exact(3) {
        let place = edit.iter().take(2).fold(0, |place, &byte| place << 8 | usize::from(byte));
        let place = place % body.len();
        if let Some((byte, content)) = body.get_mut(place).zip(edit.last()) {
            *byte = *content;
        }
    }
    if let Ok(document) = Document::decode("the document", &with_sum(&body)) {
        let stays = |place: &str| place.split('/').all(|part| !matches!(part, "" | "." | ".."));
        assert!(document.files().all(|(place, _)| stays(&place)), "{document:?}");
    }
}

/// A small document with something of everything.
#[cfg(any(test, feature = "fuzzing"))]
fn sample() -> Document {
    Document {
        checkpoint: 7,
        time_ms: 1,
        tenant: "default".into(),
        tables: vec![Table {
            name: "pipeline__operator__state".into(),
            snapshot: 3,
            snapshot_file: "{}".into(),
            schemas: vec![Schema { id: 0, file: "{}".into() }],
            files: vec![File { path: "bucket-0/data-1.parquet".into(), bytes: 9, crc32: 5 }],
        }],
        payload: Payload::new(b"\xff"),
    }
}

#[cfg(test)]
mod tests;
