//! A Paimon table: the rows of its newest snapshot, then what changes with each later one.

use super::columnar::Columnar;
use super::plan::{FileShape, Plan};
use super::reject::Rejects;
use super::{Next, Progress, Source};
use crate::checkpoint::SourcePosition;
use crate::clock;
use crate::config::{SourceConfig, TableName};
use crate::error::{Error, ErrorKind, Result};
use crate::grants::Directories;
use arrow_array::RecordBatch;
use howdah_state::{TableRows, TableSource, TableVersion};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};

const CONNECTOR: &str = "paimon";
/// How often a new snapshot is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The columns of the table, and whether its rows change.
pub(super) fn inspect(config: &SourceConfig, directories: &Directories) -> Result<FileShape> {
    let table = open_table(config, directories)?;
    let is_changelog = config.follow && table.is_keyed();
    Ok(FileShape { is_changelog, ..FileShape::of_schema(table.schema()) })
}

fn open_table(config: &SourceConfig, directories: &Directories) -> Result<TableSource> {
    let name = config.table.as_ref();
    let name = name.ok_or_else(|| Error::internal("a source of a table without a table"))?;
    let TableName { database, table } = name;
    let warehouse = crate::sink::granted_table(&config.path.value, name, directories)?;
    TableSource::open(&warehouse, database, table).map_err(|error| match error.kind() {
        howdah_state::ErrorKind::NotFound => Error::input(format!(
            "there is no table `{database}.{table}` in {}; make it first, or mend the name",
            config.path.value.display()
        )),
        _ => error.into(),
    })
}

/// What a checkpoint keeps beside the number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct At {
    /// The snapshot that is read; 0: there was none yet.
    snapshot: i64,
    /// Tells it from another one of the same number.
    crc32: u32,
    /// What has changed since this one is read; `None`: all of its rows are.
    since: Option<i64>,
    /// Rows of that which were read.
    offset: u64,
    /// Whether that were all.
    done: bool,
}

impl At {
    const BEGINNING: Self = Self { snapshot: 0, crc32: 0, since: None, offset: 0, done: true };

    fn all_of(TableVersion { snapshot, crc32 }: TableVersion) -> Self {
        Self { snapshot, crc32, since: None, offset: 0, done: false }
    }

    /// What has changed from here to there.
    fn to(self, version: TableVersion) -> Self {
        Self { since: Some(self.snapshot), ..Self::all_of(version) }
    }
}

/// The source.
pub(super) struct PaimonSource {
    table: TableSource,
    /// For messages.
    name: String,
    /// Whether it goes on with later snapshots.
    follow: bool,
    columnar: Columnar,
    at: At,
    /// What is being read.
    reading: Option<TableRows>,
    /// What was read and did not fit into the batch.
    rest: Option<(RecordBatch, Option<Vec<u8>>)>,
    /// Rows since the beginning.
    rows: u64,
    /// When there was no new snapshot.
    looked: Option<Instant>,
}

impl PaimonSource {
    pub(super) fn open(
        config: &SourceConfig,
        directories: &Directories,
        plan: Arc<Plan>,
        position: Option<&SourcePosition>,
    ) -> Result<Self> {
        let table = open_table(config, directories)?;
        let name = config.stated_path.clone();
        let refused = table.no_changes_because().filter(|_| config.follow);
        if let Some(reason) = refused {
            let message = format!(
                "the table {name} cannot be followed: {reason}; leave `follow` out, to read the rows \
                 of one snapshot"
            );
            return Err(Error::new(ErrorKind::Input, message));
        }
        let at = position.map(|position| position.read(CONNECTOR)).transpose()?;
        let mut source = Self {
            table,
            name,
            follow: config.follow,
            columnar: Columnar::new(plan, Rejects::new(config)),
            at: at.unwrap_or(At::BEGINNING),
            reading: None,
            rest: None,
            rows: position.map_or(0, |position| position.rows),
            looked: None,
        };
        if source.at.snapshot == 0 {
            source.next_snapshot()?;
        } else {
            source.check_known()?;
        }
        source.open_rows()?;
        Ok(source)
    }

    /// Refuses a table that was rolled back, or made again, since the checkpoint.
    fn check_known(&self) -> Result<()> {
        match self.table.version(self.at.snapshot)? {
            Some(version) if version.crc32 != self.at.crc32 => Err(self.other_table()),
            Some(_) => Ok(()),
            None if !self.at.done => Err(self.expired(self.at.snapshot)),
            None if !self.follow => Ok(()),
            None => self.following().map(drop),
        }
    }

    /// Opens what is to be read.
    fn open_rows(&mut self) -> Result<()> {
        let At { snapshot, since, offset, done, .. } = self.at;
        if done {
            return Ok(());
        }
        let rows = match since {
            None => self.table.rows(snapshot),
            Some(since) if self.table.is_keyed() => self.table.changed(since, snapshot),
            Some(_) => self.table.appended(snapshot),
        };
        self.reading = Some(rows.map_err(|error| self.failed(error))?.skip(offset));
        Ok(())
    }

    /// Goes on to the snapshot that is to be read next, if there is one.
    fn next_snapshot(&mut self) -> Result<bool> {
        let next = match self.at.snapshot {
            0 => self.table.newest()?.map(At::all_of),
            _ if self.follow => self.following()?.map(|version| self.at.to(version)),
            _ => None,
        };
        self.at = next.unwrap_or(self.at);
        Ok(next.is_some())
    }

    /// The snapshot that follows: of a table with a primary key the newest, as changes are the
    /// difference of two.
    fn following(&self) -> Result<Option<TableVersion>> {
        let last = self.at.snapshot;
        let next = if self.table.is_keyed() { None } else { self.table.version(last + 1)? };
        if next.is_some() {
            return Ok(next);
        }
        let newest = self.table.newest()?;
        let id = newest.map_or(0, |newest| newest.snapshot);
        if id < last {
            return Err(self.other_table());
        }
        if id == last {
            return Ok(None);
        }
        if self.table.is_keyed() {
            return match self.table.version(last)? {
                None => Err(self.expired(last)),
                Some(version) if version.crc32 != self.at.crc32 => Err(self.other_table()),
                Some(_) => Ok(newest),
            };
        }
        // It may have come since it was looked for.
        match self.table.version(last + 1)? {
            None => Err(self.expired(last + 1)),
            next => Ok(next),
        }
    }

    /// The next rows; `None`: there are no more of what is being read.
    fn read(&mut self) -> Result<Option<(RecordBatch, Option<Vec<u8>>)>> {
        if let Some(rest) = self.rest.take() {
            return Ok(Some(rest));
        }
        let Some(reading) = &mut self.reading else { return Ok(None) };
        let read = reading.next_batch();
        let Some((batch, kinds)) = read.map_err(|error| self.failed(error))? else {
            return Ok(None);
        };
        // In a changelog the rows of a snapshot are inserts.
        let is_changelog = self.follow && self.table.is_keyed();
        let kinds = kinds.or_else(|| is_changelog.then(|| vec![0; batch.num_rows()]));
        Ok(Some((batch, kinds)))
    }

    /// An error of a read. A snapshot may expire while it is read.
    fn failed(&self, error: howdah_state::Error) -> Error {
        let snapshots = self.at.since.into_iter().chain([self.at.snapshot]);
        for snapshot in
            snapshots.filter(|it| *it != 0 && (self.table.is_keyed() || *it == self.at.snapshot))
        {
            if matches!(self.table.version(snapshot), Ok(None)) {
                return self.expired(snapshot);
            }
        }
        error.into()
    }

    fn expired(&self, snapshot: i64) -> Error {
        let message = format!(
            "snapshot {snapshot} of the table {} has expired before it was read; keep snapshots for \
             longer (snapshot.time-retained, snapshot.num-retained.min), and start afresh with --fresh",
            self.name
        );
        Error::new(ErrorKind::Incompatible, message)
    }

    fn other_table(&self) -> Error {
        let message = format!(
            "the table {} is not as it was: its snapshot {} is another one, or gone with those before \
             it, as after a roll-back; bring it back, or start afresh with --fresh",
            self.name, self.at.snapshot
        );
        Error::new(ErrorKind::Incompatible, message)
    }
}

impl Source for PaimonSource {
    fn next(&mut self, rows_limit: usize) -> Result<Next> {
        loop {
            if let Some((batch, kinds)) = self.read()? {
                let length = batch.num_rows().min(rows_limit.max(1));
                if length < batch.num_rows() {
                    let rest = batch.slice(length, batch.num_rows() - length);
                    let kinds = kinds.as_ref().and_then(|kinds| kinds.get(length..));
                    self.rest = Some((rest, kinds.map(<[u8]>::to_vec)));
                }
                let (rows, first) = (batch.slice(0, length), self.rows + 1);
                let kinds = kinds.as_ref().and_then(|kinds| kinds.get(..length));
                let taken = self.columnar.take_changes(&rows, kinds, first)?;
                let length = u64::try_from(length).unwrap_or(u64::MAX);
                self.at.offset += length;
                self.rows += length;
                return Ok(Next::Batch(taken));
            }
            self.reading = None;
            self.at.done = true;
            let waited = self.looked.map(|looked| clock::now().saturating_duration_since(looked));
            if let Some(rest) = waited.and_then(|waited| LOOK_INTERVAL.checked_sub(waited))
                && !rest.is_zero()
            {
                return Ok(Next::Idle(rest));
            }
            if self.next_snapshot()? {
                self.looked = None;
                self.open_rows()?;
            } else if self.follow {
                self.looked = Some(clock::now());
                return Ok(Next::Idle(LOOK_INTERVAL));
            } else {
                return Ok(Next::End);
            }
        }
    }

    fn progress(&self) -> Progress {
        Progress { rows: self.rows, ..Progress::default() }
    }

    fn position(&self) -> Result<SourcePosition> {
        SourcePosition::new(CONNECTOR, self.rows, &self.at)
    }
}

#[cfg(test)]
mod tests;
