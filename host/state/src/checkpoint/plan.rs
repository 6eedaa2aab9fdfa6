//! What a checkpoint of a table consists of.

use super::document::Schema;
use crate::file_system::FileSystem;
use crate::metadata::{
    ManifestCache, SnapshotContent, SnapshotReader, TableDirectory, read_snapshot, schema_ids,
};
use crate::{Error, Result};
use paimon::spec::{DataFileMeta, Snapshot};

/// A table at a snapshot, as its metadata tells it.
pub(super) struct TableContent {
    pub(super) snapshot: Snapshot,
    /// Content of the snapshot's file.
    pub(super) snapshot_file: String,
    pub(super) schemas: Vec<Schema>,
    pub(super) content: SnapshotContent,
}

/// A file that a snapshot names.
pub(super) struct Named<'a> {
    /// In the table's directory.
    pub(super) path: String,
    /// Its length, where the metadata says it.
    pub(super) bytes: Option<u64>,
    /// Whether everybody does without it when it is gone.
    pub(super) optional: bool,
    /// Of a data file.
    pub(super) data: Option<&'a DataFileMeta>,
}

impl TableContent {
    /// Reads the metadata of a snapshot: only what is not in `cache` yet, which afterwards holds
    /// what the next checkpoint may need.
    pub(super) fn read(
        files: &FileSystem,
        table: &TableDirectory,
        snapshot: i64,
        cache: &mut ManifestCache,
    ) -> Result<Self> {
        let id = snapshot;
        let snapshot = read_snapshot(files, table, id)?;
        let snapshot_file = text(files, &table.snapshot(id))?;
        let mut reader = SnapshotReader::with_cache(files, table, std::mem::take(cache));
        let content = reader.read(&snapshot)?;
        *cache = reader.into_cache(&content);
        let schemas = schema_ids(files, table)?
            .into_iter()
            .filter(|&id| id <= snapshot.schema_id())
            .map(|id| Ok(Schema { id, file: text(files, &table.schema(id))? }))
            .collect::<Result<Vec<_>>>()?;
        if schemas.last().map(|schema| schema.id) != Some(snapshot.schema_id()) {
            return Err(Error::corrupt(format!(
                "table {}: snapshot {id} needs schema {}, which is not there; \
                 restore from an earlier checkpoint",
                table.name,
                snapshot.schema_id()
            )));
        }
        Ok(Self { snapshot, snapshot_file, schemas, content })
    }

    /// All files that never change.
    pub(super) fn files(&self) -> Vec<Named<'_>> {
        let bytes = |size: i64| u64::try_from(size).ok();
        let named =
            |path: String, bytes: Option<u64>| Named { path, bytes, optional: false, data: None };
        // Many strings at every checkpoint: `concat` makes each in one piece.
        let manifest = |name: &str, bytes| named(["manifest/", name].concat(), bytes);
        let mut all = vec![
            manifest(self.snapshot.base_manifest_list(), None),
            manifest(self.snapshot.delta_manifest_list(), None),
        ];
        all.extend(self.snapshot.index_manifest().map(|name| manifest(name, None)));
        all.extend(
            self.content
                .manifests
                .iter()
                .map(|meta| manifest(meta.file_name(), bytes(meta.file_size()))),
        );
        all.extend(
            self.content.index_files.iter().map(|(_, meta)| {
                named(["index/", &meta.file_name].concat(), bytes(meta.file_size))
            }),
        );
        let (mut bucket_before, mut directory) = (None, String::new());
        for (bucket, meta) in &self.content.data_files {
            if bucket_before.replace(*bucket) != Some(*bucket) {
                directory = format!("bucket-{bucket}/");
            }
            all.push(Named {
                data: Some(meta),
                ..named([&directory, meta.file_name.as_str()].concat(), bytes(meta.file_size))
            });
            all.extend(meta.extra_files.iter().map(|name| Named {
                path: [&directory, name.as_str()].concat(),
                bytes: None,
                optional: true,
                data: None,
            }));
        }
        all
    }
}

fn text(files: &FileSystem, path: &std::path::Path) -> Result<String> {
    String::from_utf8(files.read(path)?)
        .map_err(|_| Error::corrupt(format!("{} is no text", path.display())))
}
