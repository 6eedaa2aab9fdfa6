//! Checkpoints and savepoints outside the warehouse.
//!
//! The cheapest checkpoint is a tagged snapshot in the warehouse itself; it needs nothing of
//! this. A [`CheckpointStore`] keeps checkpoints in a place of their own, from which a fresh
//! warehouse can be restored: a local directory (hard links) or anything that opendal reaches.

mod document;
mod plan;
mod restore;
mod savepoint;
mod target;
mod url;

#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use document::fuzz as fuzz_document;
pub use restore::RestoredCheckpoint;
pub use savepoint::{restore_savepoint, savepoint_payload, verify_savepoint, write_savepoint};
pub use target::{CheckpointTarget, OnProgress, Progress};

use crate::data_file::checksum_of;
use crate::file_system::{FileSystem, TEMPORARY_SUFFIX, resolve};
use crate::lease::{LONGEST_LEASE_MS, SnapshotLease};
use crate::metadata::{ManifestCache, TableDirectory, read_snapshot};
use crate::store::{check_name, check_table_name, table_directory};
use crate::{Error, ErrorKind, Result};
use document::{Document, File, Intent, Payload, Table};
use plan::TableContent;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use target::{Fetch, Meter, Sum};

/// Directory of the documents.
const DOCUMENTS: &str = "checkpoints";
/// Directory of the tables' files.
const FILES: &str = "files";
/// Directory of what is under way.
const INTENTS: &str = "intents";

/// What a checkpoint is to hold.
#[derive(Debug, Clone, Copy)]
pub struct CheckpointRequest<'a> {
    /// Its number; none that is in the target already.
    pub checkpoint: u64,
    /// The warehouse that the tables are in. It may be in use.
    pub warehouse: &'a Path,
    /// The tenant whose tables they are.
    pub tenant: &'a str,
    /// Full names of tables, each with the snapshot to keep. A lease keeps it from expiring from
    /// here until the checkpoint is confirmed or aborted.
    pub tables: &'a [(String, i64)],
    /// What the caller keeps with it (source positions, sink handles); comes back as it is.
    pub payload: &'a [u8],
}

/// What there is to transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TransferPlan {
    /// Files that no confirmed checkpoint holds, and their bytes.
    pub new_files: usize,
    /// Bytes of these.
    pub new_bytes: u64,
    /// Files that are in the target already.
    pub reused_files: usize,
    /// Bytes of these.
    pub reused_bytes: u64,
}

/// A checkpoint in a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Its number.
    pub checkpoint: u64,
    /// When it was begun, in milliseconds since the Unix epoch.
    pub time_ms: u64,
    /// Full names of its tables, each with its snapshot.
    pub tables: Vec<(String, i64)>,
    /// Files that it consists of, shared ones included.
    pub files: usize,
    /// Bytes of these.
    pub bytes: u64,
    /// Why it cannot be read, if it cannot; all else is empty then.
    pub damage: Option<String>,
}

/// The checkpoints in a target. One at a time is under way: [`CheckpointStore::begin`], then
/// [`CheckpointStore::transfer`], then [`CheckpointStore::confirm`] or
/// [`CheckpointStore::abort`]. A crash in between is mended by the next
/// [`CheckpointStore::open`]. [`CheckpointStore::checkpoint`] does all three.
///
/// The cheapest checkpoint is a tagged snapshot in the warehouse itself; it needs nothing of this.
///
/// ```
/// # use howdah_state::*;
/// # fn main() -> Result<()> {
/// # let directory = tempfile::tempdir().unwrap();
/// # let (warehouse, target, copy) =
/// #     (directory.path().join("a"), directory.path().join("b"), directory.path().join("c"));
/// # let store = StateStore::open(&warehouse, "default", StoreOptions::default())?;
/// # let descriptor = StateDescriptor {
/// #     pipeline: "shop".into(), operator: "totals".into(), state: "total".into(),
/// #     kind: StateKind::Value, key: vec![Column::required("customer", ColumnType::Int64)],
/// #     value: vec![Column::required("cents", ColumnType::Int64)], ttl_ms: None,
/// #     parallelism: 1, key_groups: KeyGroups::DEFAULT_COUNT,
/// # };
/// # let table = store.open_table(&descriptor, Restore::Fresh)?;
/// # let mut state = table.value_state(0)?;
/// # state.freeze(1)?;
/// # let Ok(StateEvent::Published { snapshot, .. }) = store.events().recv() else { panic!() };
/// // The barrier of checkpoint 1 gave this snapshot of the table.
/// let request = CheckpointRequest {
///     checkpoint: 1,
///     warehouse: &warehouse,
///     tenant: "default",
///     tables: &[("shop__totals__total".to_owned(), snapshot)],
///     payload: br#"{"source-offset": 1234}"#,
/// };
/// let mut checkpoints = CheckpointStore::open(CheckpointTarget::directory(&target, true)?)?;
/// checkpoints.begin(&request)?;
/// checkpoints.transfer(&|_| {})?;
/// checkpoints.confirm()?; // or: checkpoints.abort()?
///
/// // Elsewhere, later: the same state in a fresh warehouse.
/// let restored = checkpoints.restore(1, &copy, &|_| {})?;
/// assert_eq!(restored.payload, br#"{"source-offset": 1234}"#);
/// let store = StateStore::open(&copy, "default", StoreOptions::default())?;
/// let (_, snapshot) = restored.tables[0];
/// store.open_table(&descriptor, Restore::Snapshot(snapshot))?;
/// # Ok(())
/// # }
/// ```
///
/// # In the target
///
/// ```text
/// checkpoints/checkpoint-<id>    the document, written last; a checkpoint is complete when it is
///                                there
/// files/<tenant>.db/<table>/...  files of tables; one that several checkpoints have is there once
/// intents/...                    what was begun and not ended: the next `open` ends it
/// ```
///
/// Files of a table have names that never come again with other content, so a file that a
/// confirmed checkpoint holds is not sent again.
#[derive(Debug)]
pub struct CheckpointStore {
    target: CheckpointTarget,
    /// Confirmed ones: the document, or why it cannot be read.
    documents: BTreeMap<u64, Result<Document, Error>>,
    held: HeldFiles,
    /// For each table, the manifests of its last checkpoint.
    manifests: HashMap<PathBuf, ManifestCache>,
    pending: Option<Pending>,
}

/// Files that confirmed checkpoints hold, by place.
#[derive(Debug, Default)]
struct HeldFiles(HashMap<String, Held>);

#[derive(Debug)]
struct Held {
    sum: Sum,
    /// How many checkpoints have it.
    checkpoints: usize,
}

impl HeldFiles {
    fn add(&mut self, document: &Document) {
        for (place, file) in document.files() {
            let new = Held { sum: file.sum(), checkpoints: 0 };
            self.0.entry(place).or_insert(new).checkpoints += 1;
        }
    }

    fn release(&mut self, document: &Document) {
        for (place, _) in document.files() {
            if let Some(held) = self.0.get_mut(&place) {
                held.checkpoints -= 1;
                if held.checkpoints == 0 {
                    self.0.remove(&place);
                }
            }
        }
    }
}

/// The checkpoint that is under way.
#[derive(Debug)]
struct Pending {
    /// Checksums of new files are filled in as they are transferred.
    document: Document,
    new: Vec<NewFile>,
    state: PendingState,
    /// Of the snapshots that it is taken of.
    leases: Vec<SnapshotLease>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PendingState {
    Begun,
    Transferred,
    /// Its document may be there.
    Confirming,
}

/// A file that the target does not have.
#[derive(Debug)]
struct NewFile {
    /// Where in the document it is.
    table: usize,
    file: usize,
    from: PathBuf,
    place: String,
    bytes: u64,
    /// Where a file beside it has it already.
    crc32: Option<u32>,
}

impl CheckpointStore {
    /// Opens the checkpoints of a target, and ends what a crash left half done.
    ///
    /// A document that cannot be read does not keep the others from being used, but nothing is
    /// removed while it is there.
    ///
    /// # Errors
    /// `Locked` when another process has the directory; `Storage` when the target cannot be
    /// reached.
    pub fn open(mut target: CheckpointTarget) -> Result<Self> {
        target.prepare(&[DOCUMENTS, FILES, INTENTS])?;
        let mut store = Self {
            target,
            documents: BTreeMap::new(),
            held: HeldFiles::default(),
            manifests: HashMap::new(),
            pending: None,
        };
        for name in store.target.list(DOCUMENTS)? {
            let Some(id) = name.strip_prefix("checkpoint-").and_then(|id| id.parse().ok()) else {
                store.remove_torn(DOCUMENTS, &name)?;
                continue;
            };
            let document = store.read_document(id)?;
            if let Ok(document) = &document {
                store.held.add(document);
            }
            store.documents.insert(id, document);
        }
        for name in store.target.list(INTENTS)? {
            store.end_intent(&name)?;
        }
        Ok(store)
    }

    /// Begins a checkpoint: decides which files the target lacks. Nothing of the tables is
    /// transferred yet. The work is that of reading what changed since the last checkpoint.
    ///
    /// # Errors
    /// `InvalidArgument` when another checkpoint is under way, or the number is taken;
    /// `NotFound` when a table or snapshot is not there; `Corrupt` when metadata is damaged.
    pub fn begin(&mut self, request: &CheckpointRequest<'_>) -> Result<TransferPlan> {
        if let Some(pending) = &self.pending {
            return Err(Error::invalid(format!(
                "checkpoint {} is under way: confirm or abort it before another is begun",
                pending.document.checkpoint
            )));
        }
        if self.documents.contains_key(&request.checkpoint) {
            return Err(Error::invalid(format!(
                "{} is there already; choose another number",
                self.target.describe(&document_path(request.checkpoint))
            )));
        }
        check_request(request)?;
        let leases = lease(self.target.files(), &tables_of(request)?)?;
        let (document, new, plan) = self.plan(request)?;
        let intent = Intent {
            checkpoint: document.checkpoint,
            removes: false,
            files: new.iter().map(|file| file.place.clone()).collect(),
        };
        self.write_intent(&intent)?;
        self.pending = Some(Pending { document, new, state: PendingState::Begun, leases });
        Ok(plan)
    }

    /// Which files a checkpoint consists of, and which of them are new. This is the one place
    /// where it is decided what is sent.
    fn plan(
        &mut self,
        request: &CheckpointRequest<'_>,
    ) -> Result<(Document, Vec<NewFile>, TransferPlan)> {
        let mut document = Document {
            checkpoint: request.checkpoint,
            time_ms: crate::seam::wall_clock_ms(),
            tenant: request.tenant.to_owned(),
            tables: Vec::new(),
            payload: Payload::new(request.payload),
        };
        let mut new = Vec::new();
        let mut plan = TransferPlan::default();
        for (table_number, directory) in (0..).zip(tables_of(request)?) {
            let (directory, snapshot) = directory;
            let files = self.target.files();
            let cache = self.manifests.entry(directory.root.clone()).or_default();
            let content = TableContent::read(files, &directory, snapshot, cache)?;
            let mut table = Table {
                name: directory.name.clone(),
                snapshot,
                snapshot_file: content.snapshot_file.clone(),
                schemas: content.schemas.clone(),
                files: Vec::new(),
            };
            // Where the table lies in the target, and then each of its files.
            let mut place = document::place(request.tenant, &table.name, "");
            let place_length = place.len();
            for named in content.files() {
                place.truncate(place_length);
                place.push_str(&named.path);
                let from = || directory.root.join(&named.path);
                let sum = match self.held.0.get(&place) {
                    Some(held) if named.bytes.is_none_or(|bytes| bytes == held.sum.bytes) => {
                        plan.reused_files += 1;
                        plan.reused_bytes += held.sum.bytes;
                        held.sum
                    }
                    Some(held) => {
                        return Err(Error::corrupt(format!(
                            "{} should be the same file as {}, but that has {} bytes",
                            from().display(),
                            self.target.describe(&file_path(&place)),
                            held.sum.bytes
                        )));
                    }
                    None if named.optional && !files.exists(&from())? => continue,
                    None => {
                        let from = from();
                        let bytes = files.size(&from)?;
                        check_length(&from, bytes, named.bytes)?;
                        plan.new_files += 1;
                        plan.new_bytes += bytes;
                        let (table, file) = (table_number, table.files.len());
                        let directory = from.parent().unwrap_or(&directory.root);
                        let crc32 = match named.data {
                            Some(meta) => checksum_of(files, directory, meta)?,
                            None => None,
                        };
                        let place = place.clone();
                        new.push(NewFile { table, file, from, place, bytes, crc32 });
                        Sum { bytes, crc32: 0 }
                    }
                };
                table.files.push(File { path: named.path, bytes: sum.bytes, crc32: sum.crc32 });
            }
            document.tables.push(table);
        }
        Ok((document, new, plan))
    }

    /// Brings the new files of the checkpoint under way to the target. May be called again after
    /// an error.
    ///
    /// # Errors
    /// `InvalidArgument` when none is under way; `NotFound` or `Storage` when a file is gone
    /// or cannot be written.
    pub fn transfer(&mut self, progress: OnProgress<'_>) -> Result<()> {
        let pending = self.pending.as_mut().ok_or_else(nothing_pending)?;
        let span = tracing::info_span!("checkpoint", id = pending.document.checkpoint);
        let _entered = span.enter();
        if pending.state != PendingState::Begun {
            return Ok(());
        }
        for lease in &pending.leases {
            lease.renew(LONGEST_LEASE_MS)?;
        }
        let bytes = pending.new.iter().map(|new| new.bytes).sum();
        let meter = Meter::new(pending.new.len(), bytes, progress);
        for new in &pending.new {
            let file = file_of(&mut pending.document, new).ok_or_else(nothing_pending)?;
            file.crc32 = match new.crc32 {
                Some(crc32) => crc32,
                None => {
                    let (bytes, crc32) = self.target.files().checksum(&new.from)?;
                    check_length(&new.from, bytes, Some(new.bytes))?;
                    crc32
                }
            };
            self.target.put(&new.from, &file_path(&new.place), file.sum())?;
            meter.add(1, new.bytes);
        }
        let new = pending.new.iter().map(|new| file_path(&new.place));
        let mut directories = BTreeSet::new();
        for path in new {
            // Directories may be new themselves.
            let mut path = path.as_str();
            while let Some((parent, _)) = path.rsplit_once('/') {
                directories.insert(parent.to_owned());
                path = parent;
            }
        }
        directories.insert(String::new());
        self.target.sync(directories.into_iter())?;
        pending.state = PendingState::Transferred;
        Ok(())
    }

    /// Completes the checkpoint under way: writes its document. May be called again after an
    /// error.
    ///
    /// # Errors
    /// `InvalidArgument` when none is under way, or its files are not transferred; `Storage`
    /// when the document cannot be written.
    pub fn confirm(&mut self) -> Result<()> {
        let pending = self.pending.as_mut().ok_or_else(nothing_pending)?;
        if pending.state == PendingState::Begun {
            return Err(Error::invalid(format!(
                "checkpoint {} is not transferred yet: transfer it before it is confirmed",
                pending.document.checkpoint
            )));
        }
        pending.state = PendingState::Confirming;
        let bytes = pending.document.encode()?;
        let id = pending.document.checkpoint;
        self.target.write(&document_path(id), bytes)?;
        if let Some(Pending { document, .. }) = self.pending.take() {
            self.held.add(&document);
            self.documents.insert(id, Ok(document));
        }
        if let Err(error) = self.target.remove(&[intent_path(id, false)]) {
            tracing::warn!(checkpoint = id, %error, "the note of a checkpoint stays until the next start");
        }
        Ok(())
    }

    /// Gives the checkpoint under way up: what it brought to the target is removed. Does nothing
    /// when none is under way; may be called again after an error.
    ///
    /// # Errors
    /// `Storage` when something cannot be removed.
    pub fn abort(&mut self) -> Result<()> {
        let Some(pending) = &self.pending else { return Ok(()) };
        let id = pending.document.checkpoint;
        if pending.state == PendingState::Confirming {
            self.target.remove(&[document_path(id)])?;
            self.sync_documents()?;
        }
        if let Err(error) = self.refuse_while_damaged() {
            // The note of it stays: once nothing is damaged, the next `open` removes them.
            tracing::warn!(checkpoint = id, %error, "files of an aborted checkpoint stay");
        } else {
            let own: Vec<String> = self.only_in(pending, |_| false);
            self.remove_files(own.iter())?;
            self.target.remove(&[intent_path(id, false)])?;
        }
        self.pending = None;
        Ok(())
    }

    /// All at once: begin, transfer, confirm; abort after an error.
    ///
    /// # Errors
    /// As the three have them.
    pub fn checkpoint(
        &mut self,
        request: &CheckpointRequest<'_>,
        progress: OnProgress<'_>,
    ) -> Result<TransferPlan> {
        let plan = self.begin(request)?;
        match self.transfer(progress).and_then(|()| self.confirm()) {
            Ok(()) => Ok(plan),
            Err(error) => {
                if let Err(second) = self.abort() {
                    tracing::warn!(%second, "an aborted checkpoint could not be removed");
                }
                Err(error)
            }
        }
    }

    /// The confirmed checkpoints, oldest first.
    pub fn list(&self) -> Vec<CheckpointInfo> {
        let info = |(&checkpoint, document): (&u64, &Result<Document, Error>)| match document {
            Ok(document) => CheckpointInfo {
                checkpoint,
                time_ms: document.time_ms,
                tables: tables_in(document),
                files: document.files().count(),
                bytes: document.files().map(|(_, file)| file.bytes).sum(),
                damage: None,
            },
            Err(error) => CheckpointInfo {
                checkpoint,
                time_ms: 0,
                tables: Vec::new(),
                files: 0,
                bytes: 0,
                damage: Some(error.to_string()),
            },
        };
        self.documents.iter().map(info).collect()
    }

    /// What was kept with a checkpoint.
    ///
    /// # Errors
    /// `NotFound` when there is no such checkpoint; `Corrupt` or `Incompatible` when its document
    /// cannot be read.
    pub fn payload(&self, checkpoint: u64) -> Result<Vec<u8>> {
        Ok(self.document(checkpoint)?.payload.bytes().unwrap_or_default())
    }

    /// Reads every file of a checkpoint and compares its checksum.
    ///
    /// # Errors
    /// `Corrupt`, with the names of the damaged files; `NotFound` when there is no such
    /// checkpoint; `Storage` when the target cannot be reached.
    pub fn verify(&self, checkpoint: u64, progress: OnProgress<'_>) -> Result<()> {
        // The document itself may have been damaged since it was read.
        let document = self.read_document(checkpoint)??;
        restore::verify(&self.target, FILES, &document, progress)
    }

    /// Makes a fresh warehouse of a checkpoint: every file is checked and then linked (or copied)
    /// there from a local directory, or downloaded. The tenant must have no tables there. It is
    /// there as a whole or not at all.
    ///
    /// What comes with it: each table at its snapshot, with the schemas up to that one, and the
    /// tag of the checkpoint. Older snapshots and other tags stay where they were. The table is
    /// opened with [`crate::Restore::Snapshot`], or at another parallelism with
    /// [`crate::Restore::Rescaled`].
    ///
    /// Linked files share their bytes on disk with the target: nothing writes to them again, but
    /// a disk that damages one damages both. A checkpoint behind an operator, on another file
    /// system, or a savepoint does not share.
    ///
    /// # Errors
    /// `Corrupt`, with the names of the damaged files; `NotFound` when there is no such
    /// checkpoint; `InvalidArgument` when the tenant has tables there; `Locked` when the
    /// warehouse is in use; `Storage` when files cannot be read or written.
    pub fn restore(
        &self,
        checkpoint: u64,
        warehouse: &Path,
        progress: OnProgress<'_>,
    ) -> Result<RestoredCheckpoint> {
        let span = tracing::info_span!("restore", checkpoint);
        let _entered = span.enter();
        let document = self.read_document(checkpoint)??;
        restore::restore(&self.target, FILES, &document, warehouse, progress)
    }

    /// Removes a checkpoint and the files that only it has. Of one whose document cannot be read,
    /// nothing but the document goes: files that only it had stay in the target.
    ///
    /// # Errors
    /// `NotFound` when there is no such checkpoint; `Corrupt` when the document of another one
    /// cannot be read, so that it is not known what that one needs; `Storage` when something
    /// cannot be removed: then it may be tried again.
    pub fn remove(&mut self, checkpoint: u64) -> Result<()> {
        let Some(document) = self.documents.get(&checkpoint) else {
            return Err(self.no_checkpoint(checkpoint));
        };
        let Ok(document) = document else {
            // What it has is not known: nothing but the document goes.
            self.target.remove(&[document_path(checkpoint)])?;
            self.documents.remove(&checkpoint);
            return Ok(());
        };
        self.refuse_while_damaged()?;
        let pending: BTreeSet<String> =
            self.pending.iter().flat_map(|p| p.document.files().map(|(place, _)| place)).collect();
        let only_here = |place: &String| {
            !pending.contains(place)
                && self.held.0.get(place).is_some_and(|held| held.checkpoints == 1)
        };
        let files = document.files().map(|(place, _)| place).filter(only_here).collect();
        if let Some(pending) = &self.pending {
            // What the one under way shares with this one is its own from now on.
            let goes: BTreeSet<String> = document.files().map(|(place, _)| place).collect();
            self.write_intent(&Intent {
                checkpoint: pending.document.checkpoint,
                removes: false,
                files: self.only_in(pending, |place| goes.contains(place)),
            })?;
        }
        let intent = Intent { checkpoint, removes: true, files };
        self.write_intent(&intent)?;
        self.target.remove(&[document_path(checkpoint)])?;
        self.sync_documents()?;
        self.remove_files(intent.files.iter())?;
        self.target.remove(&[intent_path(checkpoint, true)])?;
        if let Some(Ok(document)) = self.documents.remove(&checkpoint) {
            self.held.release(&document);
        }
        Ok(())
    }

    /// Removes all checkpoints before `checkpoint`, which is confirmed and takes their place.
    ///
    /// # Errors
    /// As for [`CheckpointStore::remove`].
    pub fn subsume(&mut self, checkpoint: u64) -> Result<()> {
        self.document(checkpoint)?;
        let older: Vec<u64> = self.documents.range(..checkpoint).map(|(id, _)| *id).collect();
        older.into_iter().try_for_each(|id| self.remove(id))
    }

    /// The files of the checkpoint under way that no confirmed one has, besides one that goes.
    fn only_in(&self, pending: &Pending, goes: impl Fn(&String) -> bool) -> Vec<String> {
        let places = pending.document.files().map(|(place, _)| place);
        let held = |place: &String| {
            self.held.0.get(place).map_or(0, |held| held.checkpoints - usize::from(goes(place)))
        };
        places.filter(|place| held(place) == 0).collect()
    }

    /// Removes files of tables for good: no crash may bring them back once nothing names them.
    fn remove_files<'a>(&self, places: impl Iterator<Item = &'a String>) -> Result<()> {
        let files: Vec<String> = places.map(|place| file_path(place)).collect();
        self.target.remove(&files)?;
        let directories: BTreeSet<&str> =
            files.iter().filter_map(|path| Some(path.rsplit_once('/')?.0)).collect();
        self.target.sync_existing(directories.into_iter())
    }

    /// No crash may bring a document back whose files are gone.
    fn sync_documents(&self) -> Result<()> {
        self.target.sync(std::iter::once(DOCUMENTS.to_owned()))
    }

    fn refuse_while_damaged(&self) -> Result<()> {
        let damaged = self
            .documents
            .iter()
            .find_map(|(id, document)| document.as_ref().err().map(|error| (id, error)));
        match damaged {
            None => Ok(()),
            Some((id, error)) => Err(Error::corrupt(format!(
                "nothing is removed while it is not known what checkpoint {id} needs ({error}); \
                 remove that one first"
            ))),
        }
    }

    fn no_checkpoint(&self, checkpoint: u64) -> Error {
        let known: Vec<String> = self.documents.keys().map(u64::to_string).collect();
        Error::not_found(format!(
            "there is no checkpoint {checkpoint} in {}; there are: {}",
            self.target.describe(""),
            if known.is_empty() { "none".to_owned() } else { known.join(", ") }
        ))
    }

    fn document(&self, checkpoint: u64) -> Result<&Document> {
        match self.documents.get(&checkpoint) {
            Some(Ok(document)) => Ok(document),
            Some(Err(error)) => Err(Error::new(error.kind(), error.to_string())),
            None => Err(self.no_checkpoint(checkpoint)),
        }
    }

    /// The outer error is the target's, the inner one the document's.
    fn read_document(&self, checkpoint: u64) -> Result<Result<Document>> {
        let path = document_path(checkpoint);
        let Some(bytes) = self.target.read(&path, document::LIMIT_BYTES)? else {
            return Err(self.no_checkpoint(checkpoint));
        };
        let name = self.target.describe(&path);
        Ok(Document::decode(&name, &bytes).and_then(|document| {
            if document.checkpoint == checkpoint {
                return Ok(document);
            }
            Err(Error::corrupt(format!(
                "{name} is the document of checkpoint {}, not {checkpoint}; remove it",
                document.checkpoint
            )))
        }))
    }

    fn write_intent(&self, intent: &Intent) -> Result<()> {
        let bytes = document::encode(document::INTENT, intent)?;
        self.target.write(&intent_path(intent.checkpoint, intent.removes), bytes)
    }

    /// Ends what a crash left half done.
    fn end_intent(&mut self, name: &str) -> Result<()> {
        if name.ends_with(TEMPORARY_SUFFIX) {
            return self.remove_torn(INTENTS, name);
        }
        let path = format!("{INTENTS}/{name}");
        let Some(bytes) = self.target.read(&path, document::LIMIT_BYTES)? else { return Ok(()) };
        let intent: Intent =
            match document::decode(document::INTENT, &self.target.describe(&path), &bytes) {
                Ok(intent) => intent,
                Err(error) if error.kind() == ErrorKind::Incompatible => return Err(error),
                // It was not whole when the crash came, so nothing had been done yet.
                Err(_) => return self.target.remove(&[path]),
            };
        let id = intent.checkpoint;
        match self.documents.get(&id) {
            // All was done but for this.
            Some(Ok(_)) if !intent.removes => return self.target.remove(&[path]),
            Some(document) => {
                self.target.remove(&[document_path(id)])?;
                self.sync_documents()?;
                if let Ok(document) = document {
                    self.held.release(document);
                }
                self.documents.remove(&id);
            }
            None => {}
        }
        if let Err(error) = self.refuse_while_damaged() {
            tracing::warn!(checkpoint = id, %error, "files of an unfinished checkpoint stay");
            return Ok(());
        }
        let unneeded = intent.files.iter().filter(|place| !self.held.0.contains_key(*place));
        self.remove_files(unneeded)?;
        self.target.remove(&[path])
    }

    /// Removes what a crash left of a file that was being written.
    fn remove_torn(&self, directory: &str, name: &str) -> Result<()> {
        if name.ends_with(TEMPORARY_SUFFIX) {
            return self.target.remove(&[format!("{directory}/{name}")]);
        }
        Ok(())
    }
}

fn nothing_pending() -> Error {
    Error::invalid("no checkpoint is under way: begin one")
}

fn file_of<'a>(document: &'a mut Document, new: &NewFile) -> Option<&'a mut File> {
    document.tables.get_mut(new.table)?.files.get_mut(new.file)
}

fn document_path(checkpoint: u64) -> String {
    format!("{DOCUMENTS}/checkpoint-{checkpoint}")
}

fn file_path(place: &str) -> String {
    format!("{FILES}/{place}")
}

fn intent_path(checkpoint: u64, removes: bool) -> String {
    format!("{INTENTS}/{}-{checkpoint}", if removes { "remove" } else { "add" })
}

fn tables_in(document: &Document) -> Vec<(String, i64)> {
    document.tables.iter().map(|table| (table.name.clone(), table.snapshot)).collect()
}

fn check_request(request: &CheckpointRequest<'_>) -> Result<()> {
    check_name("tenant", request.tenant)?;
    let mut seen = BTreeSet::new();
    for (table, _) in request.tables {
        check_table_name(table)?;
        if !seen.insert(table) {
            return Err(Error::invalid(format!(
                "table {table} is asked for twice; name each table once"
            )));
        }
    }
    Ok(())
}

/// The directories of the tables that are asked for, each with its snapshot.
fn tables_of(request: &CheckpointRequest<'_>) -> Result<Vec<(TableDirectory, i64)>> {
    let warehouse = resolve(request.warehouse)?;
    let directory = |table: &str| table_directory(&warehouse, request.tenant, table);
    Ok(request.tables.iter().map(|(table, snapshot)| (directory(table), *snapshot)).collect())
}

/// Keeps snapshots from expiring while they are read. Where nothing can be written, nothing
/// expires either.
fn lease(files: &FileSystem, tables: &[(TableDirectory, i64)]) -> Result<Vec<SnapshotLease>> {
    let mut leases = Vec::new();
    for (table, snapshot) in tables {
        // A lease makes a directory: there must be a table.
        read_snapshot(files, table, *snapshot)?;
        match SnapshotLease::take(files, table, *snapshot, LONGEST_LEASE_MS) {
            Ok(lease) => leases.push(lease),
            Err(error) => {
                let table = &table.name;
                tracing::warn!(table, %error, "no lease could be taken of a snapshot");
            }
        }
    }
    Ok(leases)
}

fn check_length(path: &Path, found: u64, wanted: Option<u64>) -> Result<()> {
    match wanted {
        Some(wanted) if wanted != found => Err(Error::corrupt(format!(
            "{} has {found} bytes instead of {wanted}; restore from an earlier checkpoint",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// All files of a document, as something to check or fetch.
fn fetches(
    prefix: &str,
    document: &Document,
    to: impl Fn(&Table, &File) -> Option<PathBuf>,
) -> Vec<Fetch> {
    let mut all = Vec::new();
    for table in &document.tables {
        for file in &table.files {
            let place = document.place(table, file);
            let path = if prefix.is_empty() { place } else { format!("{prefix}/{place}") };
            all.push(Fetch { path, sum: file.sum(), to: to(table, file) });
        }
    }
    all
}
