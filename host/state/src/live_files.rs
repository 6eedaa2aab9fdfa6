//! The data files of a snapshot: what its manifests come to, one after the other.

use crate::digest;
use paimon::spec::DataFileMeta;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An entry of a manifest.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) added: bool,
    pub(crate) bucket: u32,
    pub(crate) file: Arc<DataFileMeta>,
}

/// What some manifests come to. Manifests never change, and a commit adds one at the end: so
/// what is known of a snapshot is where reading a later one begins.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveFiles {
    /// Names of the manifests, in their order.
    manifests: Vec<String>,
    /// By bucket, level and name.
    files: BTreeMap<(u32, i32, String), Arc<DataFileMeta>>,
    /// Of the files, for the digest of a snapshot that has them.
    sum: u64,
}

impl LiveFiles {
    /// How many of these manifests are known, all of which come first; none, when others are
    /// known too.
    pub(crate) fn known<'a>(&self, manifests: impl Iterator<Item = &'a str>) -> usize {
        let common = self.manifests.iter().zip(manifests).take_while(|(known, name)| known == name);
        if common.count() == self.manifests.len() { self.manifests.len() } else { 0 }
    }

    /// Follows one more manifest.
    pub(crate) fn follow(&mut self, manifest: &str, entries: &[Entry]) {
        for Entry { added, bucket, file } in entries {
            let key = (*bucket, file.level, file.file_name.clone());
            let before = match added {
                true => {
                    self.sum = self.sum.wrapping_add(digest::of_data_file(*bucket, file));
                    self.files.insert(key, file.clone())
                }
                false => self.files.remove(&key),
            };
            if let Some(before) = before {
                self.sum = self.sum.wrapping_sub(digest::of_data_file(*bucket, &before));
            }
        }
        self.manifests.push(manifest.to_owned());
    }

    /// The files, each with its bucket.
    pub(crate) fn files(&self) -> impl Iterator<Item = (u32, Arc<DataFileMeta>)> {
        self.files.iter().map(|((bucket, ..), file)| (*bucket, file.clone()))
    }

    /// Of the files, for [`digest::combine`].
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }
}
