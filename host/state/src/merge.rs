//! Merges sorted runs in the background, so that a probe has few files to look into.
//!
//! A merge reads immutable files only; a flush waits for one only when no level is left for
//! another run. Rows that died while it ran are carried over to its output by position when it
//! is published.

use crate::committer::{Change, Committer};
use crate::data_file::{DataFile, DataFileWriter, FileId, ScannedRows, Source};
use crate::file_system::FileSystem;
use crate::key::EncodedKeys;
use crate::metadata::TableDirectory;
use crate::pin::{Pin, PinnedFile};
use crate::schema::TableSchema;
use crate::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef};
use paimon::spec::CommitKind;
use roaring::RoaringBitmap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows that are put together at a time.
const BATCH_ROWS: usize = 8192;
/// A run joins a merge while it is at most this many times as large as the newer runs together.
const SIZE_RATIO: u64 = 2;
/// Row number of a row that was dead before the merge.
const GONE: u32 = u32::MAX;

/// A merge that is due: consecutive runs, newest first.
#[derive(Debug, Clone)]
pub(crate) struct MergeTask {
    pub(crate) bucket: u32,
    pub(crate) inputs: Vec<PinnedFile>,
    /// Level of the output.
    pub(crate) level: i32,
}

impl MergeTask {
    /// The merge that a bucket needs, if it does: of all runs when more than half of the rows are
    /// dead or no level is left for another run, otherwise of the newest ones once there are
    /// `trigger_runs`.
    pub(crate) fn choose(committer: &Committer, bucket: u32, trigger_runs: usize) -> Option<Self> {
        let runs = committer.pin().bucket(bucket);
        let inputs = if committer.next_level(bucket).is_none() {
            runs.to_vec()
        } else {
            Self::choose_inputs(runs, trigger_runs)?
        };
        let level = committer.merged_level(bucket, inputs.last()?.file.id);
        Some(Self { bucket, inputs, level })
    }

    fn choose_inputs(runs: &[PinnedFile], trigger_runs: usize) -> Option<Vec<PinnedFile>> {
        if runs.len() < 2 {
            return None;
        }
        let rows: u64 = runs.iter().map(|run| u64::from(run.file.rows())).sum();
        let live: u64 = runs.iter().map(PinnedFile::live_rows).sum();
        let inputs = if live < rows / 2 && runs.len() >= trigger_runs.div_ceil(2) {
            runs.to_vec()
        } else if runs.len() >= trigger_runs {
            let mut size = 0_u64;
            let mut count = 0;
            for run in runs {
                // At least enough to get below the trigger again.
                let needed = runs.len() - count >= trigger_runs;
                let fits = run.live_rows() <= size.saturating_mul(SIZE_RATIO);
                if count >= 2 && !needed && !fits {
                    break;
                }
                size += run.live_rows();
                count += 1;
            }
            runs.iter().take(count).cloned().collect()
        } else {
            return None;
        };
        (inputs.len() >= 2).then_some(inputs)
    }

    /// Reads the inputs and writes their live rows as one sorted run.
    ///
    /// # Errors
    /// `Closed` when `cancelled` is set meanwhile.
    pub(crate) fn run(
        &self,
        files: &FileSystem,
        table: &TableDirectory,
        schema: &TableSchema,
        cancelled: &AtomicBool,
    ) -> Result<Merged> {
        check(cancelled)?;
        let mut new_rows: HashMap<FileId, Vec<u32>> = self
            .inputs
            .iter()
            .map(|input| (input.file.id, vec![GONE; input.file.rows() as usize]))
            .collect();
        let live: u64 = self.inputs.iter().map(PinnedFile::live_rows).sum();
        if live == 0 {
            return Ok(Merged { task: self.clone(), output: None, new_rows });
        }
        // What is damaged must not be written down again under a checksum that fits.
        for input in &self.inputs {
            input.file.content.verify()?;
            check(cancelled)?;
        }
        let mut writer = DataFileWriter::create(files, schema, &table.bucket(self.bucket))?;
        let mut runs: Vec<Run<'_>> = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            runs.push(Run::open(schema, input)?);
        }
        let mut order = BinaryHeap::new();
        for (index, run) in runs.iter().enumerate() {
            order.extend(run.head(schema).map(|head| Reverse((head, index))));
        }
        let mut batch = Batch::default();
        while let Some(Reverse((_, index))) = order.pop() {
            let run = runs.get_mut(index).ok_or_else(lost_run)?;
            let new_row = u32::try_from(writer.rows() + batch.rows.len()).unwrap_or(GONE);
            if let Some(rows) = new_rows.get_mut(&run.file)
                && let Some(row) = run.current().and_then(|row| rows.get_mut(row as usize))
            {
                *row = new_row;
            }
            batch.rows.push((index, run.batches.len() - 1, run.at));
            run.at += 1;
            if run.at == run.batch_rows() && batch.is_full_or(run.batches.len()) {
                batch.write(&mut runs, &mut writer)?;
                check(cancelled)?;
            }
            let run = runs.get_mut(index).ok_or_else(lost_run)?;
            run.refill(schema)?;
            order.extend(run.head(schema).map(|head| Reverse((head, index))));
            if batch.rows.len() >= BATCH_ROWS {
                batch.write(&mut runs, &mut writer)?;
                check(cancelled)?;
            }
        }
        batch.write(&mut runs, &mut writer)?;
        let output = writer.finish(self.bucket, self.level, Source::Compact)?;
        if u64::from(output.rows()) != live {
            return Err(Error::corrupt(format!(
                "table {}: a merge of {live} live rows came to {}",
                table.name,
                output.rows()
            )));
        }
        Ok(Merged { task: self.clone(), output: Some(output), new_rows })
    }
}

fn check(cancelled: &AtomicBool) -> Result<()> {
    if cancelled.load(Ordering::Relaxed) {
        return Err(Error::new(ErrorKind::Closed, "the merge was cancelled"));
    }
    Ok(())
}

fn lost_run() -> Error {
    Error::corrupt("a merge lost one of its inputs")
}

/// A merge whose output is written but not published.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) task: MergeTask,
    /// `None` when no row was live.
    pub(crate) output: Option<Arc<DataFile>>,
    /// For each input, the row of the output that each of its rows became.
    new_rows: HashMap<FileId, Vec<u32>>,
}

impl Merged {
    /// The commit that publishes the output on top of `pin`; `None` when an input is gone.
    pub(crate) fn change(&self, pin: &Pin) -> Option<Change> {
        let mut dead_output = RoaringBitmap::new();
        for input in &self.task.inputs {
            let now = pin
                .bucket(self.task.bucket)
                .iter()
                .find(|pinned| pinned.file.id == input.file.id)?;
            let new_rows = self.new_rows.get(&input.file.id)?;
            let died = now.dead.as_ref() - input.dead.as_ref();
            let carried = died.iter().filter_map(|row| new_rows.get(row as usize).copied());
            dead_output.extend(carried.filter(|&row| row != GONE));
        }
        Some(Change {
            kind: CommitKind::COMPACT,
            identifier: 0,
            added: self.output.iter().cloned().collect(),
            removed: self.task.inputs.iter().map(|input| input.file.id).collect::<HashSet<_>>(),
            dead: self.output.iter().map(|output| (output.id, dead_output.clone())).collect(),
        })
    }
}

/// One input of a merge: a position in a stream of batches.
struct Run<'a> {
    file: FileId,
    scan: Box<dyn Iterator<Item = Result<ScannedRows>> + 'a>,
    /// Batches that rows waiting to be written are in; the last one is being read.
    batches: Vec<ScannedRows>,
    keys: EncodedKeys,
    at: usize,
}

impl<'a> Run<'a> {
    fn open(schema: &TableSchema, input: &'a PinnedFile) -> Result<Self> {
        let scan = Box::new(input.file.content.scan(&input.dead)?);
        let mut run = Self {
            file: input.file.id,
            scan,
            batches: Vec::new(),
            keys: EncodedKeys::default(),
            at: 0,
        };
        run.refill(schema)?;
        Ok(run)
    }

    fn batch_rows(&self) -> usize {
        self.batches.last().map_or(0, |batch| batch.rows.len())
    }

    /// Reads the next batch when the last one is used up.
    fn refill(&mut self, schema: &TableSchema) -> Result<()> {
        while self.at >= self.batch_rows() {
            let Some(batch) = self.scan.next().transpose()? else {
                return Ok(());
            };
            self.keys = schema.encoder.encode(&batch.key)?;
            self.batches.push(batch);
            self.at = 0;
        }
        Ok(())
    }

    /// Row number in the file.
    fn current(&self) -> Option<u32> {
        self.batches.last()?.rows.get(self.at).copied()
    }

    /// Key group and key of the current row.
    fn head(&self, schema: &TableSchema) -> Option<(u32, Vec<u8>)> {
        self.current()?;
        let hash = *self.keys.hashes().get(self.at)?;
        Some((schema.key_groups.group_of(hash), self.keys.key(self.at).to_vec()))
    }

    /// Forgets batches of which every row is written.
    fn forget_written(&mut self) {
        if self.batches.len() > 1 {
            self.batches.drain(..self.batches.len() - 1);
        }
    }
}

/// Rows in their new order: (run, batch of the run, row of the batch).
#[derive(Default)]
struct Batch {
    rows: Vec<(usize, usize, usize)>,
}

impl Batch {
    /// Whether to write now: enough rows, or a run that holds on to many batches.
    fn is_full_or(&self, batches_held: usize) -> bool {
        self.rows.len() >= BATCH_ROWS || batches_held > 4
    }

    fn write(&mut self, runs: &mut [Run<'_>], writer: &mut DataFileWriter<'_>) -> Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        // `interleave` wants one list of arrays: number the batches through.
        let mut first_batch = Vec::with_capacity(runs.len());
        let mut batches: Vec<&ScannedRows> = Vec::new();
        for run in runs.iter() {
            first_batch.push(batches.len());
            batches.extend(&run.batches);
        }
        let indices: Vec<(usize, usize)> = self
            .rows
            .iter()
            .map(|&(run, batch, row)| (first_batch.get(run).copied().unwrap_or(0) + batch, row))
            .collect();
        let gather = |column: &dyn Fn(&ScannedRows) -> Option<ArrayRef>| -> Result<ArrayRef> {
            let arrays: Vec<ArrayRef> = batches.iter().filter_map(|batch| column(batch)).collect();
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            arrow_select::interleave::interleave(&arrays, &indices)
                .map_err(|error| Error::corrupt(format!("cannot merge sorted runs: {error}")))
        };
        let sequence_numbers = gather(&|batch| Some(batch.sequence_numbers.clone()))?;
        let key_groups = gather(&|batch| Some(batch.key_groups.clone()))?;
        let columns_of = |batch: &ScannedRows| batch.key.len() + batch.value.len();
        let width = batches.first().map_or(0, |batch| columns_of(batch));
        let columns = (0..width)
            .map(|at| gather(&|batch| batch.key.iter().chain(&batch.value).nth(at).cloned()))
            .collect::<Result<Vec<_>>>()?;
        writer.write(
            key_groups.as_primitive::<Int32Type>().values().to_vec(),
            sequence_numbers.as_primitive::<Int64Type>().values().to_vec(),
            columns,
        )?;
        self.rows.clear();
        runs.iter_mut().for_each(Run::forget_written);
        Ok(())
    }
}
