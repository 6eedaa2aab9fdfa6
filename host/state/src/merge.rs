//! Merges sorted runs in the background, so that a probe has few files to look into.
//!
//! A merge reads immutable files only; a flush waits for one only when no level is left for
//! another run. Rows that died while it ran are carried over to its output by position when it
//! is published.

use crate::committer::{Change, Committer, data_paths};
use crate::data_file::{DataFile, DataFileWriter, FileId, ScannedRows, Source};
use crate::file_system::FileSystem;
use crate::key::{EncodedKeys, beginning};
use crate::metadata::TableDirectory;
use crate::pin::{Pin, PinnedFile};
use crate::schema::TableSchema;
use crate::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, BooleanArray};
use paimon::spec::CommitKind;
use roaring::RoaringBitmap;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows that are put together at a time.
const BATCH_ROWS: usize = 8192;
/// A run joins a merge while it is at most this many times as large as the newer runs together.
const SIZE_RATIO: u64 = 2;
/// Row number of a row that was dead or had ended before the merge.
const GONE: u32 = u32::MAX;
/// Dead rows of a bucket that are worth a merge of their own.
const DEAD_ROWS_FLOOR: u64 = 1024;

/// A merge that is due: consecutive runs, newest first. Or any runs that have no rows left.
#[derive(Debug, Clone)]
pub(crate) struct MergeTask {
    pub(crate) bucket: u32,
    pub(crate) inputs: Vec<PinnedFile>,
    /// Level of the output.
    pub(crate) level: i32,
    /// Rows that end at this time or before are left out.
    now_ms: i64,
}

impl MergeTask {
    /// The merge that a bucket needs, if it does. In this order:
    ///
    /// * runs without a row that is alive are dropped, unread;
    /// * all runs are merged when no level is left for another one, or when more than two fifths
    ///   of their rows are dead or ended, so that files take less than twice what lives in them;
    /// * a run of which more than half has ended is written anew, alone, however old it is;
    /// * the newest runs are merged once there are `trigger_runs`.
    ///
    /// While merges are under way, only the runs that are newer than their inputs count, `busy`
    /// being the newest input of each, and they are merged by their number alone.
    pub(crate) fn choose(
        committer: &Committer,
        bucket: u32,
        busy: &[FileId],
        trigger_runs: usize,
        now_ms: i64,
    ) -> Option<Self> {
        let runs = committer.pin().bucket(bucket);
        let busy = runs.iter().position(|run| busy.contains(&run.file.id));
        let runs = runs.get(..busy.unwrap_or(runs.len()))?;
        let empty: Vec<_> = runs.iter().filter(|run| is_over(run, now_ms)).cloned().collect();
        let half_ended = |run: &&PinnedFile| ended_rows(run, now_ms) > run.live_rows() / 2;
        let inputs = if !empty.is_empty() {
            empty
        } else if busy.is_some() {
            newest(runs, trigger_runs)?
        } else if committer.next_level(bucket).is_none()
            || has_too_many_dead(runs, trigger_runs, now_ms)
        {
            runs.to_vec()
        } else if let Some(run) = runs.iter().find(half_ended) {
            vec![run.clone()]
        } else {
            newest(runs, trigger_runs)?
        };
        let level = committer.merged_level(bucket, inputs.last()?.file.id);
        Some(Self { bucket, inputs, level, now_ms })
    }

    /// Reads the inputs and writes their live rows as one sorted run.
    ///
    /// # Errors
    /// `Closed` when `cancelled` is set meanwhile; `Corrupt` when an input is damaged.
    pub(crate) fn run(
        &self,
        files: &FileSystem,
        table: &TableDirectory,
        schema: &TableSchema,
        cancelled: &AtomicBool,
    ) -> Result<Merged> {
        check(cancelled)?;
        if self.inputs.iter().all(|run| is_over(run, self.now_ms)) {
            return Ok(Merged { task: self.clone(), output: None, new_rows: HashMap::new() });
        }
        // What is damaged must not be written down again under a checksum that fits.
        for input in &self.inputs {
            input.file.content.verify()?;
            check(cancelled)?;
        }
        let mut writer = DataFileWriter::create(files, schema, &table.bucket(self.bucket))?;
        let mut runs: Vec<Run<'_>> = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            runs.push(Run::open(schema, input, self.now_ms)?);
        }
        let mut batch = Batch::default();
        while let Some((first, second)) = next_runs(&runs)? {
            let count = match second.and_then(|second| runs.get(second)?.head()) {
                Some(limit) => runs.get(first).map_or(0, |run| run.rows_before(limit)),
                None => runs.get(first).map_or(0, Run::rows_left),
            };
            let count = count.min(BATCH_ROWS.saturating_sub(batch.rows.len())).max(1);
            let new_row = writer.rows() + batch.rows.len();
            let run = runs.get_mut(first).ok_or_else(lost_run)?;
            batch.take(first, run, count, new_row);
            let used_up = run.rows_left() == 0;
            if used_up && run.batches.len() > BATCHES_HELD || batch.rows.len() >= BATCH_ROWS {
                batch.write(&mut runs, &mut writer)?;
                check(cancelled)?;
            }
            if used_up {
                runs.get_mut(first).ok_or_else(lost_run)?.refill(schema)?;
            }
        }
        batch.write(&mut runs, &mut writer)?;
        let written = writer.rows() as u64;
        let live: u64 = self.inputs.iter().map(PinnedFile::live_rows).sum();
        let ended: u64 = runs.iter().map(|run| run.ended_rows).sum();
        if written + ended != live {
            return Err(Error::corrupt(format!(
                "table {}: a merge of {live} live rows, {ended} of them at their end, came to \
                 {written}",
                table.name,
            )));
        }
        let new_rows = runs.into_iter().map(|run| (run.file, run.new_rows)).collect();
        let output = match written {
            0 => None,
            _ => {
                let file = writer.finish(self.bucket, self.level, Source::Compact)?;
                Some(Unpublished::new(file, files, table))
            }
        };
        Ok(Merged { task: self.clone(), output, new_rows })
    }
}

/// Whether no row of a run is alive.
fn is_over(run: &PinnedFile, now_ms: i64) -> bool {
    let ended = run.file.content.expiry_range_ms().is_some_and(|range| *range.end() <= now_ms);
    run.live_rows() == 0 || ended
}

/// About how many of the live rows of a run have ended, as if their ends were spread evenly.
///
/// However uneven they are, no run is written anew often: what is left ends in the future, so
/// half of the rest of the time has to pass before the next time.
fn ended_rows(run: &PinnedFile, now_ms: i64) -> u64 {
    let Some(range) = run.file.content.expiry_range_ms() else { return 0 };
    let (start, end) = (i128::from(*range.start()), i128::from(*range.end()));
    let passed = i128::from(now_ms).clamp(start, end) - start;
    let live = run.live_rows();
    let ended = i128::from(live) * passed / (end - start).max(1);
    u64::try_from(ended).unwrap_or(0).min(live)
}

fn has_too_many_dead(runs: &[PinnedFile], trigger_runs: usize, now_ms: i64) -> bool {
    let rows: u64 = runs.iter().map(|run| u64::from(run.file.rows())).sum();
    let dead: u64 = runs
        .iter()
        .map(|run| u64::from(run.file.rows()) - run.live_rows() + ended_rows(run, now_ms))
        .sum();
    // A small table is not merged after every flush.
    let worth_it = dead >= DEAD_ROWS_FLOOR || runs.len() >= trigger_runs.div_ceil(2).max(2);
    dead * 5 > rows * 2 && worth_it
}

/// The newest runs, once there are `trigger_runs`: enough to get below that again, and older
/// ones while they are small beside the newer ones together.
fn newest(runs: &[PinnedFile], trigger_runs: usize) -> Option<Vec<PinnedFile>> {
    if runs.len() < trigger_runs {
        return None;
    }
    let mut size = 0_u64;
    let mut count = 0;
    for run in runs {
        let needed = runs.len() - count >= trigger_runs;
        let fits = run.live_rows() <= size.saturating_mul(SIZE_RATIO);
        if count >= 2 && !needed && !fits {
            break;
        }
        size += run.live_rows();
        count += 1;
    }
    (count >= 2).then(|| runs.iter().take(count).cloned().collect())
}

/// The run with the least key, and the one with the next, if there are two.
fn next_runs(runs: &[Run<'_>]) -> Result<Option<(usize, Option<usize>)>> {
    let mut least: Option<(usize, Head<'_>)> = None;
    let mut next: Option<(usize, Head<'_>)> = None;
    for (at, head) in runs.iter().enumerate().filter_map(|(at, run)| Some((at, run.head()?))) {
        match least {
            Some((_, than)) if head >= than => {
                if next.is_none_or(|(_, than)| head < than) {
                    next = Some((at, head));
                }
            }
            _ => next = least.replace((at, head)),
        }
    }
    match (least, next) {
        (Some((_, least)), Some((_, next))) if least == next => Err(Error::corrupt(
            "a key is live in two sorted runs; restore from an earlier checkpoint",
        )),
        (Some((least, _)), next) => Ok(Some((least, next.map(|(next, _)| next)))),
        (None, _) => Ok(None),
    }
}

fn check(cancelled: &AtomicBool) -> Result<()> {
    if cancelled.load(Ordering::Relaxed) {
        return Err(Error::new(ErrorKind::Closed, "the merge was cancelled"));
    }
    Ok(())
}

fn lost_run() -> Error {
    Error::internal("a merge lost one of its inputs")
}

/// A merge whose output is written but not published.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) task: MergeTask,
    /// `None` when no row was live.
    pub(crate) output: Option<Unpublished>,
    /// For each input, the row of the output that each of its rows became.
    new_rows: HashMap<FileId, Vec<u32>>,
}

/// The output of a merge; its files go with the value, unless they were handed on. So none is
/// left when a merge comes too late, or when the store is closed before it is published.
#[derive(Debug)]
pub(crate) struct Unpublished {
    file: Option<Arc<DataFile>>,
    files: FileSystem,
    table: TableDirectory,
}

impl Unpublished {
    fn new(file: Arc<DataFile>, files: &FileSystem, table: &TableDirectory) -> Self {
        Self { file: Some(file), files: files.clone(), table: table.clone() }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| u64::from(file.rows()))
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.file.as_ref().map_or(0, |file| file.bytes())
    }

    /// Whoever takes the file removes it if it is not published.
    fn hand_on(mut self) -> Option<Arc<DataFile>> {
        self.file.take()
    }
}

impl Drop for Unpublished {
    fn drop(&mut self) {
        let Some(file) = &self.file else { return };
        for path in data_paths(&self.table, file.bucket, &file.meta) {
            // What is left is removed when the table is next opened.
            let _ = self.files.remove(&path);
        }
    }
}

impl Merged {
    /// The commit that publishes the output on top of `pin`; `None` when an input is gone: then
    /// the output goes too.
    pub(crate) fn into_change(self, pin: &Pin) -> Option<Change> {
        let mut dead_output = RoaringBitmap::new();
        for input in &self.task.inputs {
            let now = pin
                .bucket(self.task.bucket)
                .iter()
                .find(|pinned| pinned.file.id == input.file.id)?;
            // Of a run that was dropped unread, nothing was carried over.
            let Some(new_rows) = self.new_rows.get(&input.file.id) else { continue };
            let died = now.dead.as_ref() - input.dead.as_ref();
            let carried = died.iter().filter_map(|row| new_rows.get(row as usize).copied());
            dead_output.extend(carried.filter(|&row| row != GONE));
        }
        let added: Vec<_> = self.output.and_then(Unpublished::hand_on).into_iter().collect();
        Some(Change {
            kind: CommitKind::COMPACT,
            identifier: 0,
            removed: self.task.inputs.iter().map(|input| input.file.id).collect::<HashSet<_>>(),
            dead: added.iter().map(|output| (output.id, dead_output.clone())).collect(),
            added,
        })
    }
}

/// What the order of a run goes by: key group and beginning of the key as one number, since most
/// rows differ there, then the key.
type Head<'a> = (u128, &'a [u8]);

/// Batches of one run that wait to be written before they are.
const BATCHES_HELD: usize = 4;

/// One input of a merge: a position in a stream of batches.
struct Run<'a> {
    file: FileId,
    scan: Box<dyn Iterator<Item = Result<ScannedRows>> + 'a>,
    /// Batches that rows waiting to be written are in; the last one is being read.
    batches: Vec<ScannedRows>,
    /// Keys of the last batch.
    keys: EncodedKeys,
    order: Vec<u128>,
    /// Next row of the last batch.
    at: usize,
    now_ms: i64,
    /// Live rows that have ended.
    ended_rows: u64,
    /// For each row of the file, the row of the output that it became. Four bytes a row, for
    /// as long as the merge takes: what dies meanwhile is found without a look into the files.
    new_rows: Vec<u32>,
}

impl<'a> Run<'a> {
    fn open(schema: &TableSchema, input: &'a PinnedFile, now_ms: i64) -> Result<Self> {
        let scan = Box::new(input.file.content.scan(&input.dead)?);
        let mut run = Self {
            file: input.file.id,
            scan,
            batches: Vec::new(),
            keys: EncodedKeys::default(),
            order: Vec::new(),
            at: 0,
            now_ms,
            ended_rows: 0,
            new_rows: vec![GONE; input.file.rows() as usize],
        };
        run.refill(schema)?;
        Ok(run)
    }

    fn rows_left(&self) -> usize {
        self.keys.len() - self.at
    }

    /// Reads the next batch with a row in it.
    fn refill(&mut self, schema: &TableSchema) -> Result<()> {
        while self.rows_left() == 0 {
            let Some(batch) = self.scan.next().transpose()? else {
                return Ok(());
            };
            let rows = batch.rows.len();
            let batch = without_ended(schema, batch, self.now_ms)?;
            self.ended_rows += (rows - batch.rows.len()) as u64;
            if batch.rows.is_empty() {
                continue;
            }
            self.keys = schema.encoder.encode(&batch.key)?;
            let groups = batch.key_groups.as_primitive::<Int32Type>().values().iter();
            let order = groups.enumerate().map(|(row, &group)| {
                let group = u128::from(u32::try_from(group).unwrap_or(u32::MAX));
                (group << 64) | u128::from(beginning(self.keys.key(row)))
            });
            self.order = order.collect();
            self.batches.push(batch);
            self.at = 0;
        }
        Ok(())
    }

    fn head(&self) -> Option<Head<'_>> {
        (self.rows_left() > 0).then(|| self.row(self.at))
    }

    fn row(&self, row: usize) -> Head<'_> {
        (self.order.get(row).copied().unwrap_or(u128::MAX), self.keys.key(row))
    }

    /// How many of the next rows of the last batch come before this one; doubles its steps, so
    /// that a long stretch costs few comparisons.
    fn rows_before(&self, limit: Head<'_>) -> usize {
        let left = self.rows_left();
        let mut step = 1;
        while step < left && self.row(self.at + step) < limit {
            step *= 2;
        }
        let (mut low, mut high) = (step / 2, step.min(left));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.row(self.at + middle) < limit { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Forgets batches of which every row is written.
    fn forget_written(&mut self) {
        if self.batches.len() > 1 {
            self.batches.drain(..self.batches.len() - 1);
        }
    }
}

/// The rows of a batch that have not ended.
fn without_ended(schema: &TableSchema, batch: ScannedRows, now_ms: i64) -> Result<ScannedRows> {
    let Some(ends) = schema.expires_column().and_then(|column| batch.value.get(column)) else {
        return Ok(batch);
    };
    let ends = ends.as_primitive::<TimestampMillisecondType>();
    let alive: BooleanArray = ends.iter().map(|end| end.is_none_or(|end| end > now_ms)).collect();
    if alive.true_count() == batch.rows.len() {
        return Ok(batch);
    }
    let filter = |array: &ArrayRef| {
        arrow_select::filter::filter(array, &alive)
            .map_err(|error| Error::corrupt(format!("cannot leave out rows that ended: {error}")))
    };
    Ok(ScannedRows {
        rows: batch
            .rows
            .iter()
            .zip(alive.values())
            .filter_map(|(&row, alive)| alive.then_some(row))
            .collect(),
        sequence_numbers: filter(&batch.sequence_numbers)?,
        key_groups: filter(&batch.key_groups)?,
        key: batch.key.iter().map(filter).collect::<Result<_>>()?,
        value: batch.value.iter().map(filter).collect::<Result<_>>()?,
    })
}

/// Rows in their new order: (run, batch of the run, row of the batch).
#[derive(Default)]
struct Batch {
    rows: Vec<(usize, usize, usize)>,
    /// Of the keys of those rows.
    hashes: Vec<u64>,
}

impl Batch {
    /// Takes the next `count` rows of a run; the first becomes row `new_row` of the output.
    fn take(&mut self, index: usize, run: &mut Run<'_>, count: usize, new_row: usize) {
        let batch = run.batches.len().saturating_sub(1);
        let in_file = run.batches.last().map_or(&[] as &[u32], |batch| &batch.rows);
        let taken = run.at..run.at + count;
        for (new_row, &row) in (new_row..).zip(in_file.get(taken.clone()).unwrap_or_default()) {
            if let Some(slot) = run.new_rows.get_mut(row as usize) {
                *slot = u32::try_from(new_row).unwrap_or(GONE);
            }
        }
        self.hashes.extend(run.keys.hashes().get(taken.clone()).unwrap_or_default());
        self.rows.extend(taken.map(|row| (index, batch, row)));
        run.at += count;
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
            &self.hashes,
            key_groups.as_primitive::<Int32Type>().values().to_vec(),
            sequence_numbers.as_primitive::<Int64Type>().values().to_vec(),
            columns,
        )?;
        self.rows.clear();
        self.hashes.clear();
        runs.iter_mut().for_each(Run::forget_written);
        Ok(())
    }
}
