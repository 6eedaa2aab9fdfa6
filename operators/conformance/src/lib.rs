//! Does what its rows say, with everything that the contract has, and answers with rows. There is one
//! in the language of each SDK, and one test suite for all of them.
//!
//! A row of `commands` is one call: `list.append` with a number appends it. What it answers has the
//! key, command, event time and kind of the row. What there is no row for has no answer. Commands
//! given to `later` are held back until the next barrier, and carried out with explicit keys: all of
//! one sort together, in the order of `LATER`. Rows of `values` are kept, and answered with the row
//! before.

use howdah_sdk::prelude::*;
use serde::Deserialize;

/// What to do to a key.
#[derive(Row, Clone, Debug, PartialEq)]
pub struct Command {
    key: String,
    command: String,
    map_key: Option<i64>,
    number: Option<i64>,
    text: Option<String>,
}

/// A row with a column of each type, all of which may lack values.
#[derive(Row, Clone, Debug, PartialEq)]
pub struct Values {
    key: String,
    boolean: Option<bool>,
    int32: Option<i32>,
    int64: Option<i64>,
    float32: Option<f32>,
    float64: Option<f64>,
    decimal: Option<Decimal<38, 10>>,
    date: Option<Date>,
    timestamp: Option<Timestamp>,
    utf8: Option<String>,
    binary: Option<Vec<u8>>,
}

/// The same in a state.
#[derive(Row, Clone, Debug, Default)]
struct Stored {
    boolean: Option<bool>,
    int32: Option<i32>,
    int64: Option<i64>,
    float32: Option<f32>,
    float64: Option<f64>,
    decimal: Option<Decimal<38, 10>>,
    date: Option<Date>,
    timestamp: Option<Timestamp>,
    utf8: Option<String>,
    binary: Option<Vec<u8>>,
}

/// What comes in.
#[derive(Inputs, Clone, Debug, PartialEq)]
pub enum In {
    /// Something to do.
    #[input(name = "commands", changelog)]
    Command(Command),
    /// Something to keep.
    #[input(name = "values")]
    Values(Values),
}

/// What goes out.
#[derive(Outputs)]
pub struct Out {
    #[output(changelog)]
    results: Emitter<Command>,
    echoes: Emitter<Values>,
}

/// What all is grouped by.
#[derive(Key, Clone, Debug)]
pub struct RowKey {
    key: String,
}

#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MapKey {
    map_key: i64,
}

#[derive(Row, Clone, Debug)]
struct Number {
    number: Option<i64>,
}

#[derive(Row, Clone, Debug)]
struct Pair {
    number: Option<i64>,
    text: Option<String>,
}

#[derive(Row, Reduce, Clone, Debug)]
struct Folded {
    #[reduce(sum)]
    sum: Option<i64>,
    #[reduce(min)]
    min: Option<i64>,
    #[reduce(max)]
    max: Option<i64>,
    #[reduce(count)]
    count: Option<i64>,
    #[reduce(first)]
    first: Option<i64>,
    #[reduce(last)]
    last: Option<i64>,
}

#[derive(Deserialize)]
struct Config {
    greeting: Option<String>,
}

/// A command that is held back.
struct Later {
    key: RowKey,
    command: String,
    map_key: Option<i64>,
    number: Option<i64>,
    text: Option<String>,
}

impl Later {
    fn answers<'a>(&self, out: &'a mut Emitter<Command>) -> Answers<'a> {
        let (key, command) = (self.key.key.clone(), self.command.clone());
        Answers { out, kind: RowKind::Insert, key, command }
    }
}

/// What `later` takes, in the order in which a barrier carries it out.
const LATER: [&str; 18] = [
    "value.delete",
    "value.put",
    "value.get",
    "list.clear",
    "list.append",
    "list.get",
    "map.clear",
    "map.put",
    "map.delete",
    "map.get",
    "map.entries",
    "reducing.clear",
    "reducing.add",
    "reducing.get",
    "event.delete",
    "event.set",
    "processing.delete",
    "processing.set",
];

/// The operator.
pub struct Conformance {
    value: ValueState<RowKey, Pair>,
    list: ListState<RowKey, Number>,
    map: MapState<RowKey, MapKey, Number>,
    reducing: ReducingState<RowKey, Folded>,
    stored: ValueState<RowKey, Stored>,
    event: Timers<RowKey>,
    processing: Timers<RowKey>,
    commands: Counter,
    level: Gauge,
    waits: Histogram,
    greeting: Option<String>,
    subtask: Option<howdah_sdk::Subtask>,
    held_back: Vec<Later>,
}

/// A row without a number is folded in as one without values.
fn folded(number: Option<i64>) -> Folded {
    Folded { sum: number, min: number, max: number, count: number, first: number, last: number }
}

fn time(number: Option<i64>) -> Timestamp {
    Timestamp::from_millis(number.unwrap_or(0))
}

fn map_key(map_key: Option<i64>) -> MapKey {
    MapKey { map_key: map_key.unwrap_or(0) }
}

/// Answers to one command.
struct Answers<'a> {
    out: &'a mut Emitter<Command>,
    kind: RowKind,
    key: String,
    command: String,
}

impl Answers<'_> {
    fn row(&self, map_key: Option<i64>, number: Option<i64>, text: Option<&str>) -> Command {
        let text = text.map(str::to_owned);
        Command { key: self.key.clone(), command: self.command.clone(), map_key, number, text }
    }

    fn give(&mut self, map_key: Option<i64>, number: Option<i64>, text: Option<&str>) {
        let row = self.row(map_key, number, text);
        self.out.emit_kind(self.kind, &row);
    }

    fn number(&mut self, number: i64) {
        self.give(None, Some(number), None);
    }

    fn pair(&mut self, pair: Option<Pair>) {
        if let Some(Pair { number, text }) = pair {
            self.give(None, number, text.as_deref());
        }
    }

    fn list(&mut self, list: Vec<Number>) {
        list.into_iter().for_each(|Number { number }| self.give(None, number, None));
    }

    fn entries(&mut self, entries: Vec<(MapKey, Number)>) {
        for (MapKey { map_key }, Number { number }) in entries {
            self.give(Some(map_key), number, None);
        }
    }

    fn entry(&mut self, map_key: Option<i64>, entry: Option<&Number>) {
        if let Some(Number { number }) = entry {
            self.give(map_key, *number, None);
        }
    }

    fn folded(&mut self, row: Option<&Folded>) {
        let Some(&Folded { sum, min, max, count, first, last }) = row else { return };
        let fields = [
            ("sum", sum),
            ("min", min),
            ("max", max),
            ("count", count),
            ("first", first),
            ("last", last),
        ];
        for (name, value) in fields {
            self.give(None, value, Some(name));
        }
    }
}

fn announce(out: &mut Out, key: String, command: &str, number: i64) {
    let command = command.to_owned();
    let row = Command { key, command, map_key: None, number: Some(number), text: None };
    out.results.emit(&row);
}

#[operator]
impl Conformance {
    fn open(open: &mut Open<RowKey>) -> Result<Self> {
        let Config { greeting } = open.config()?;
        Ok(Self {
            value: open.value("value")?,
            list: open.list("list")?,
            map: open.map("map")?,
            reducing: open.reducing("reducing")?,
            stored: open.value("stored")?,
            event: open.event_timers("event")?,
            processing: open.processing_timers("processing")?,
            commands: open.counter("commands_total")?,
            level: open.gauge("level_bytes")?,
            waits: open.histogram("wait_ms")?,
            greeting,
            subtask: open.subtask().cloned(),
            held_back: Vec::new(),
        })
    }

    fn process(&mut self, row: In, record: &Record<RowKey>, out: &mut Out) -> Result<()> {
        match row {
            In::Command(command) => self.obey(command, record, &mut out.results),
            In::Values(values) => self.take_values(values, record, &mut out.echoes),
        }
    }

    fn on_timer(&mut self, timer: &Timer<RowKey>, out: &mut Out) -> Result<()> {
        let command = if timer.is(&self.event) { "event" } else { "processing" };
        announce(out, timer.key()?.key, command, timer.time().millis());
        Ok(())
    }

    fn on_watermark(&mut self, watermark: Timestamp, out: &mut Out) -> Result<()> {
        announce(out, String::new(), "on-watermark", watermark.millis());
        Ok(())
    }

    fn on_barrier(&mut self, checkpoint: u64, out: &mut Out) -> Result<()> {
        self.carry_out(out)?;
        announce(out, String::new(), "on-barrier", i64::try_from(checkpoint).unwrap_or(-1));
        Ok(())
    }

    fn on_checkpoint_complete(&mut self, checkpoint: u64) -> Result<()> {
        log::info!("checkpoint {checkpoint} is complete");
        Ok(())
    }

    fn close(&mut self, out: &mut Out) -> Result<()> {
        self.carry_out(out)?;
        announce(out, String::new(), "close", 0);
        Ok(())
    }

    fn take_values(
        &mut self,
        row: Values,
        record: &Record<RowKey>,
        out: &mut Emitter<Values>,
    ) -> Result<()> {
        let Values {
            key,
            boolean,
            int32,
            int64,
            float32,
            float64,
            decimal,
            date,
            timestamp,
            utf8,
            binary,
        } = row;
        let row = Stored {
            boolean,
            int32,
            int64,
            float32,
            float64,
            decimal,
            date,
            timestamp,
            utf8,
            binary,
        };
        let before = self.stored.replace(record, Some(row))?.unwrap_or_default();
        let Stored {
            boolean,
            int32,
            int64,
            float32,
            float64,
            decimal,
            date,
            timestamp,
            utf8,
            binary,
        } = before;
        out.emit(&Values {
            key,
            boolean,
            int32,
            int64,
            float32,
            float64,
            decimal,
            date,
            timestamp,
            utf8,
            binary,
        });
        Ok(())
    }

    fn obey(
        &mut self,
        row: Command,
        record: &Record<RowKey>,
        out: &mut Emitter<Command>,
    ) -> Result<()> {
        let RowKey { key } = record.key()?;
        let kind = record.kind();
        let mut answers = Answers { out, kind, key, command: row.command.clone() };
        let Command { command, number, text, .. } = row;
        let at = row.map_key;
        match command.as_str() {
            "value.get" => answers.pair(self.value.get(record)?),
            "list.get" => answers.list(self.list.get(record)?),
            "map.get" => answers.entry(at, self.map.get(record, &map_key(at))?.as_ref()),
            "map.entries" => answers.entries(self.map.entries(record)?),
            "map.range" => {
                let limit = text.and_then(|text| text.parse().ok()).unwrap_or(usize::MAX);
                answers.entries(self.range(record, at, number, limit)?);
            }
            "reducing.get" => answers.folded(self.reducing.get(record)?.as_ref()),
            "now" => answers.number(record.now().millis()),
            "watermark" => answers.number(record.watermark().millis()),
            "kind" => answers.give(None, None, Some(name_of(kind))),
            "emit" => {
                let row = answers.row(at, number, text.as_deref());
                answers.out.emit_at(kind, time(number), &row);
            }
            "config" => answers.give(None, None, self.greeting.as_deref()),
            "context" => self.context(&mut answers),
            "later" => {
                let key = record.key()?;
                let command = text.unwrap_or_default();
                // What is put as text is the text of the command.
                let text = Some(command.clone());
                self.held_back.push(Later { key, command, map_key: at, number, text });
            }
            other => return self.write(other, (at, number, text), record),
        }
        Ok(())
    }

    /// The commands without an answer.
    fn write(
        &mut self,
        command: &str,
        (at, number, text): (Option<i64>, Option<i64>, Option<String>),
        record: &Record<RowKey>,
    ) -> Result<()> {
        let text = text.as_deref();
        match command {
            "value.put" => self.value.put(record, Pair { number, text: text.map(str::to_owned) }),
            "value.delete" => self.value.delete(record),
            "list.append" => self.list.append(record, Number { number }),
            "list.clear" => self.list.clear(record),
            "map.put" => self.map.put(record, map_key(at), Number { number }),
            "map.delete" => self.map.remove(record, map_key(at)),
            "map.clear" => self.map.clear(record),
            "reducing.add" => self.reducing.add(record, folded(number))?,
            "reducing.clear" => self.reducing.clear(record),
            "event.set" => self.event.set(record, time(number)),
            "event.delete" => self.event.delete(record, time(number)),
            "processing.set" => self.processing.set(record, time(number)),
            "processing.delete" => self.processing.delete(record, time(number)),
            "log" => write_log(number, text.unwrap_or_default()),
            "counter" => self.commands.add(number.unwrap_or(0).unsigned_abs()),
            "gauge" => self.level.set(float(number)),
            "histogram" => self.waits.record(float(number)),
            "fail" => return Err(Error::new(text.unwrap_or_default().to_owned())),
            "crash" => crash(text.unwrap_or_default()),
            other => return Err(Error::new(format!("unknown command {other}"))),
        }
        Ok(())
    }

    fn range(
        &self,
        record: &Record<RowKey>,
        from: Option<i64>,
        to: Option<i64>,
        limit: usize,
    ) -> Result<Vec<(MapKey, Number)>> {
        let (from, to) = (from.map(|from| map_key(Some(from))), to.map(|to| map_key(Some(to))));
        match (from, to) {
            (None, None) => self.map.range(record, .., limit),
            (Some(from), None) => self.map.range(record, from.., limit),
            (None, Some(to)) => self.map.range(record, ..to, limit),
            (Some(from), Some(to)) => self.map.range(record, from..to, limit),
        }
    }

    fn context(&self, answers: &mut Answers<'_>) {
        let Some(subtask) = &self.subtask else { return };
        let [index, parallelism] = [subtask.index, subtask.parallelism].map(i64::from);
        answers.give(Some(index), Some(parallelism), Some(&subtask.pipeline));
        let restored = subtask.restored_from.and_then(|checkpoint| i64::try_from(checkpoint).ok());
        answers.give(None, restored, Some(&subtask.operator));
    }

    /// Does what was held back.
    fn carry_out(&mut self, out: &mut Out) -> Result<()> {
        let mut held_back = std::mem::take(&mut self.held_back);
        for command in LATER {
            let is_wanted = |later: &mut Later| later.command == command;
            let batch: Vec<Later> = held_back.extract_if(.., is_wanted).collect();
            if !batch.is_empty() {
                self.carry_out_all(command, &batch, out)?;
            }
        }
        match held_back.first() {
            Some(Later { command, .. }) => Err(Error::new(format!("unknown command {command}"))),
            None => Ok(()),
        }
    }

    fn carry_out_all(&mut self, command: &str, batch: &[Later], out: &mut Out) -> Result<()> {
        let keys: Vec<RowKey> = batch.iter().map(|later| later.key.clone()).collect();
        let rows = || batch.iter().map(|later| (later.key.clone(), later));
        let numbers =
            rows().map(|(key, later)| (key, Number { number: later.number })).collect::<Vec<_>>();
        let entries = rows().map(|(key, later)| (key, map_key(later.map_key))).collect::<Vec<_>>();
        let times = rows().map(|(key, later)| (key, time(later.number))).collect::<Vec<_>>();
        match command {
            "value.delete" => self.value.delete_many(&keys)?,
            "value.put" => {
                let pair = |later: &Later| Pair { number: later.number, text: later.text.clone() };
                let pairs = rows().map(|(key, later)| (key, pair(later))).collect::<Vec<_>>();
                self.value.put_many(&pairs)?;
            }
            "list.clear" => self.list.clear_many(&keys)?,
            "list.append" => self.list.append_many(&numbers)?,
            "map.clear" => self.map.clear_many(&keys)?,
            "map.put" => {
                let entries = entries.into_iter().zip(numbers);
                let rows = entries.map(|((key, map_key), (_, row))| (key, map_key, row));
                self.map.put_many(&rows.collect::<Vec<_>>())?;
            }
            "map.delete" => self.map.remove_many(&entries)?,
            "reducing.clear" => self.reducing.clear_many(&keys)?,
            "reducing.add" => {
                let rows = rows().map(|(key, later)| (key, folded(later.number)));
                self.reducing.add_many(&rows.collect::<Vec<_>>())?;
            }
            "event.delete" => self.event.delete_many(&times)?,
            "event.set" => self.event.set_many(&times)?,
            "processing.delete" => self.processing.delete_many(&times)?,
            "processing.set" => self.processing.set_many(&times)?,
            _ => return self.read_all(command, batch, &keys, &entries, out),
        }
        Ok(())
    }

    fn read_all(
        &self,
        command: &str,
        batch: &[Later],
        keys: &[RowKey],
        entries: &[(RowKey, MapKey)],
        out: &mut Out,
    ) -> Result<()> {
        let out = &mut out.results;
        match command {
            "value.get" => {
                for (later, pair) in batch.iter().zip(self.value.get_many(keys)?) {
                    later.answers(out).pair(pair);
                }
            }
            "list.get" => {
                for (later, list) in batch.iter().zip(self.list.get_many(keys)?) {
                    later.answers(out).list(list);
                }
            }
            "map.get" => {
                for (later, entry) in batch.iter().zip(self.map.get_many(entries)?) {
                    later.answers(out).entry(later.map_key, entry.as_ref());
                }
            }
            "map.entries" => {
                for (later, map) in batch.iter().zip(self.map.entries_many(keys)?) {
                    later.answers(out).entries(map);
                }
            }
            _ => {
                for (later, row) in batch.iter().zip(self.reducing.get_many(keys)?) {
                    later.answers(out).folded(row.as_ref());
                }
            }
        }
        Ok(())
    }
}

fn name_of(kind: RowKind) -> &'static str {
    match kind {
        RowKind::Insert => "+I",
        RowKind::UpdateBefore => "-U",
        RowKind::UpdateAfter => "+U",
        RowKind::Delete => "-D",
    }
}

#[expect(clippy::cast_precision_loss, reason = "the numbers of tests are small")]
fn float(number: Option<i64>) -> f64 {
    number.unwrap_or(0) as f64
}

fn write_log(level: Option<i64>, text: &str) {
    match level.unwrap_or(2) {
        0 => log::trace!("{text}"),
        1 => log::debug!("{text}"),
        2 => log::info!("{text}"),
        3 => log::warn!("{text}"),
        _ => log::error!("{text}"),
    }
}

#[expect(clippy::panic, reason = "as the command says")]
fn crash(text: &str) -> ! {
    panic!("{text}")
}
