//! What is measured.

mod barrier;
mod probe;
mod restore;
mod space;
mod update;

use crate::base::Bases;
use crate::rocksdb::{self, Library};
use anyhow::Result;
use howdah_bench_figures::Figure;

/// A group of rows of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Case {
    /// Lookups of 1,000 keys that are on disk, or nowhere
    Probe,
    /// Read, count up, write back, with checkpoints
    Update,
    /// The part of a barrier that the operator waits for
    Barrier,
    /// The part of a checkpoint in the background, over many checkpoints
    Background,
    /// What a checkpoint outside the warehouse links
    Checkpoint,
    /// Opening a state that is on disk
    Restore,
    /// Heap
    Memory,
    /// Bytes on disk
    Disk,
}

impl Case {
    pub(crate) const ALL: [Self; 8] = [
        Self::Probe,
        Self::Update,
        Self::Barrier,
        Self::Background,
        Self::Checkpoint,
        Self::Restore,
        Self::Memory,
        Self::Disk,
    ];

    pub(crate) fn run(
        self,
        setting: &Setting,
        report: &mut dyn FnMut(Figure) -> Result<()>,
    ) -> Result<()> {
        match self {
            Self::Probe => probe::run(setting, report)?,
            Self::Update => update::run(setting, report)?,
            Self::Barrier => barrier::synchronous(setting, report)?,
            Self::Background => barrier::background(setting, report)?,
            Self::Checkpoint => restore::checkpoints(setting, report)?,
            Self::Restore => restore::restore(setting, report)?,
            Self::Memory => space::memory(setting, report)?,
            Self::Disk => space::disk(setting, report)?,
        }
        setting.bases.clean()
    }
}

/// What all cases share.
pub(crate) struct Setting {
    pub(crate) bases: Bases,
    /// `None`: RocksDB is left out.
    pub(crate) rocksdb: Option<Library>,
    pub(crate) rows: Vec<u64>,
    pub(crate) quick: bool,
    /// Whether the hash map is left out too.
    pub(crate) alone: bool,
}

impl Setting {
    /// The lines over the table.
    pub(crate) fn describe(&self) -> String {
        let peer = match &self.rocksdb {
            Some(library) => format!(
                "RocksDB: {}, through its C API: {}.\nIts keys are encoded and sorted before the \
                 clock starts, and its values are copied out, as those of howdah are.",
                library.name,
                rocksdb::OPTIONS
            ),
            None => "RocksDB was left out: no ratio to it is judged.".to_owned(),
        };
        format!(
            "{peer}\nHash map: the standard library's with a quick hash; an uncompressed Parquet \
             file of all rows at every checkpoint.\nUpdates: every store syncs its files at a \
             checkpoint. Stores take turns with the same keys, and their answers are compared; \
             medians of rounds. CPU time is that of the process, background threads included."
        )
    }

    /// The largest of the sizes.
    pub(crate) fn most_rows(&self) -> u64 {
        self.rows.iter().copied().max().unwrap_or_default()
    }

    /// Rounds of a case: the median counts.
    pub(crate) fn rounds(&self, rounds: usize) -> usize {
        if self.quick { rounds.div_ceil(4) } else { rounds }
    }
}

/// `5M`, `100K`.
pub(crate) fn short(rows: u64) -> String {
    match rows {
        _ if rows.is_multiple_of(1_000_000) => format!("{}M", rows / 1_000_000),
        _ if rows.is_multiple_of(1000) => format!("{}K", rows / 1000),
        _ => rows.to_string(),
    }
}
