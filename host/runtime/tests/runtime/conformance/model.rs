//! What the operator should do, on maps of the standard library.

use super::job::{Echoes, Outcome, START_MS, Step};
use super::rows::{Command, KINDS, Values, texts, values_batch};
use arrow_schema::SchemaRef;
use std::collections::{BTreeMap, BTreeSet};

/// What `later` takes, in the order in which a barrier carries it out.
pub(super) const LATER: [&str; 18] = [
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

/// The fields of the reducing state.
const FOLDED: [&str; 6] = ["sum", "min", "max", "count", "first", "last"];

/// What one key has.
#[derive(Debug, Clone, Default)]
struct Key {
    value: Option<(Option<i64>, Option<String>)>,
    list: Vec<Option<i64>>,
    map: BTreeMap<i64, Option<i64>>,
    reducing: Option<[Option<i64>; 6]>,
    stored: Option<Values>,
    event: BTreeSet<i64>,
    processing: BTreeSet<i64>,
}

/// The operator, and what is around it.
#[derive(Debug, Clone)]
pub(super) struct Model {
    schema: SchemaRef,
    keys: BTreeMap<String, Key>,
    later: Vec<Command>,
    watermark: i64,
    /// The watermark that the operator was told last, since it started.
    told: i64,
    announced: i64,
    clock: i64,
    checkpoint: u64,
    restored_from: Option<i64>,
    committed: Option<Box<Model>>,
}

impl Model {
    /// `schema` is that of `values`.
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            keys: BTreeMap::new(),
            later: Vec::new(),
            watermark: i64::MIN,
            told: i64::MIN,
            announced: i64::MIN,
            clock: START_MS,
            checkpoint: 0,
            restored_from: None,
            committed: None,
        }
    }

    /// The message of the failure, if it fails.
    pub(super) fn step(&mut self, step: &Step) -> Result<Outcome, String> {
        let mut outcome = Outcome::default();
        match step {
            Step::Commands(rows) => {
                self.told = self.watermark;
                for row in rows {
                    outcome.results.extend(self.obey(row)?);
                }
            }
            Step::Values(rows) => {
                self.told = self.watermark;
                outcome.echoes.push(self.echoes(rows));
            }
            Step::Watermark(watermark) => self.watermark = self.watermark.max(*watermark),
            Step::Clock(now) => self.clock = *now,
            Step::Barrier => self.barrier(&mut outcome),
            Step::Crash => self.crash(),
            Step::Close => {
                self.step(&Step::Watermark(i64::MAX))?;
                outcome.results.extend(self.carry_out());
                outcome.results.push(self.announce("", "close", 0, self.told));
                self.barrier(&mut outcome);
                return Ok(outcome);
            }
        }
        outcome.due = self.run_due();
        Ok(outcome)
    }

    /// Goes on from the last checkpoint.
    pub(super) fn crash(&mut self) {
        let (clock, checkpoint) = (self.clock, self.checkpoint);
        let committed = self.committed.take();
        *self = match &committed {
            Some(committed) => (**committed).clone(),
            None => Self::new(self.schema.clone()),
        };
        self.restored_from = committed.as_ref().map(|model| model.checkpoint.cast_signed());
        // Time goes on, and numbers are not used again.
        (self.clock, self.checkpoint) = (clock, checkpoint);
        self.told = i64::MIN;
        self.committed = committed;
    }

    fn announce(&self, key: &str, command: &str, number: i64, time: i64) -> Command {
        Command { time, ..Command::new(key, command).number(number) }
    }

    fn barrier(&mut self, outcome: &mut Outcome) {
        self.checkpoint += 1;
        outcome.results.extend(self.carry_out());
        let number = self.checkpoint.cast_signed();
        outcome.results.push(self.announce("", "on-barrier", number, self.told));
        outcome.state = self.state();
        self.committed = None;
        self.committed = Some(Box::new(self.clone()));
    }

    fn run_due(&mut self) -> Vec<Command> {
        let mut fired = Vec::new();
        for (key, state) in &mut self.keys {
            let later = |until: i64| until.checked_add(1);
            let mut fire = |name: &str, timers: &mut BTreeSet<i64>, until: i64| {
                let left = later(until).map_or_else(BTreeSet::new, |from| timers.split_off(&from));
                for time in std::mem::replace(timers, left) {
                    let row = Command::new(key, name).number(time);
                    fired.push(Command { time, ..row });
                }
            };
            fire("event", &mut state.event, self.watermark);
            fire("processing", &mut state.processing, self.clock);
        }
        sort_timers(&mut fired);
        if !fired.is_empty() {
            self.told = self.watermark;
        }
        if self.announced < self.watermark {
            self.announced = self.watermark;
            self.told = self.watermark;
            fired.push(self.announce("", "on-watermark", self.watermark, self.watermark));
        }
        fired
    }

    fn echoes(&mut self, rows: &[(String, Values, i64)]) -> Echoes {
        let before: Vec<Values> = rows
            .iter()
            .map(|(key, row, _)| {
                let state = self.keys.entry(key.clone()).or_default();
                state.stored.replace(row.clone()).unwrap_or_default()
            })
            .collect();
        let keys = rows.iter().map(|row| &row.0);
        let batch = values_batch(self.schema.clone(), keys.zip(&before));
        Echoes { batch, times: rows.iter().map(|row| row.2).collect() }
    }

    /// The answers to a row.
    fn obey(&mut self, row: &Command) -> Result<Vec<Command>, String> {
        let Self { watermark, clock, restored_from, .. } = *self;
        let give = |map_key, number, text: Option<&str>| {
            vec![Command { map_key, number, text: text.map(str::to_owned), ..row.clone() }]
        };
        Ok(match row.command.as_str() {
            "now" => give(None, Some(clock), None),
            "watermark" => give(None, Some(watermark), None),
            "kind" => give(None, None, Some(KINDS[usize::from(row.kind)])),
            "emit" => vec![Command { time: row.number.unwrap_or(0), ..row.clone() }],
            "config" => give(None, None, Some("grüß dich")),
            "context" => {
                let mut rows = give(Some(0), Some(1), Some("pipeline"));
                rows.extend(give(None, restored_from, Some("conformance")));
                rows
            }
            "later" => {
                let command = row.text.clone().unwrap();
                self.later.push(Command { command, ..row.clone() });
                Vec::new()
            }
            "log" | "counter" | "gauge" | "histogram" => Vec::new(),
            "fail" | "crash" => return Err(row.text.clone().unwrap()),
            _ => self.keys.entry(row.key.clone()).or_default().obey(row)?,
        })
    }

    /// Does what was held back.
    fn carry_out(&mut self) -> Vec<Command> {
        let later = std::mem::take(&mut self.later);
        let mut answers = Vec::new();
        for command in LATER {
            for row in later.iter().filter(|row| row.command == command) {
                let row = Command { kind: 0, time: self.told, ..row.clone() };
                answers.extend(self.keys.entry(row.key.clone()).or_default().obey(&row).unwrap());
            }
        }
        answers
    }

    /// The rows of each table, as `Job` gives them.
    fn state(&self) -> BTreeMap<String, Vec<String>> {
        let mut tables = BTreeMap::<_, Vec<String>>::new();
        for name in ["value", "list", "map", "reducing", "stored", "event", "processing"] {
            tables.insert(format!("pipeline__conformance__{name}"), Vec::new());
        }
        let mut add = |table: &str, row: String| {
            tables.get_mut(&format!("pipeline__conformance__{table}")).unwrap().push(row);
        };
        let number = |number: &Option<i64>| number.map_or("null".to_owned(), |n| n.to_string());
        for (name, key) in &self.keys {
            if let Some((value, text)) = &key.value {
                let text = text.as_ref().map_or("null".to_owned(), |text| format!("{text:?}"));
                add("value", format!("key={name:?} number={} text={text}", number(value)));
            }
            for value in &key.list {
                add("list", format!("key={name:?} number={}", number(value)));
            }
            for (map_key, value) in &key.map {
                let value = number(value);
                add("map", format!("key={name:?} map_key={map_key} number={value}"));
            }
            if let Some(row) = &key.reducing {
                let fields = FOLDED.iter().zip(row);
                let cells = fields.map(|(field, value)| format!("{field}={}", number(value)));
                let cells = cells.collect::<Vec<_>>().join(" ");
                add("reducing", format!("key={name:?} {cells}"));
            }
            if let Some(row) = &key.stored {
                let batch = values_batch(self.schema.clone(), std::iter::once((name, row)));
                add("stored", texts(&batch, &[]).remove(0));
            }
            for (family, timers) in [("event", &key.event), ("processing", &key.processing)] {
                timers.iter().for_each(|time| add(family, format!("time={time} key={name:?}")));
            }
        }
        tables.values_mut().for_each(|rows| rows.sort());
        tables
    }
}

/// Timers in the order of families, times, keys. What is due of one family fires in the order of
/// its times, but in which order those of different keys at the same time do, is open.
pub(super) fn sort_timers(fired: &mut [Command]) {
    fired.sort_by(|a, b| (&a.command, a.number, &a.key).cmp(&(&b.command, b.number, &b.key)));
}

impl Key {
    fn obey(&mut self, row: &Command) -> Result<Vec<Command>, String> {
        let Command { map_key, number, text, .. } = row.clone();
        let (at, time) = (map_key.unwrap_or(0), number.unwrap_or(0));
        let answer = |map_key, number, text: Option<String>| Command {
            map_key,
            number,
            text,
            ..row.clone()
        };
        match row.command.as_str() {
            "value.put" => self.value = Some((number, text)),
            "value.delete" => self.value = None,
            "value.get" => {
                let value = self.value.clone();
                return Ok(value
                    .map(|(number, text)| answer(None, number, text))
                    .into_iter()
                    .collect());
            }
            "list.append" => self.list.push(number),
            "list.clear" => self.list.clear(),
            "list.get" => {
                return Ok(self.list.iter().map(|number| answer(None, *number, None)).collect());
            }
            "map.put" => drop(self.map.insert(at, number)),
            "map.delete" => drop(self.map.remove(&at)),
            "map.clear" => self.map.clear(),
            "map.get" => {
                let found = self.map.get(&at);
                return Ok(found
                    .map(|number| answer(map_key, *number, None))
                    .into_iter()
                    .collect());
            }
            "map.entries" | "map.range" => {
                let is_range = row.command == "map.range";
                let (from, to) = if is_range { (map_key, number) } else { (None, None) };
                let limit =
                    text.filter(|_| is_range).map_or(usize::MAX, |text| text.parse().unwrap());
                let entries = self.map.iter().filter(|(at, _)| {
                    from.is_none_or(|from| **at >= from) && to.is_none_or(|to| **at < to)
                });
                let entries = entries.take(limit);
                return Ok(entries.map(|(at, number)| answer(Some(*at), *number, None)).collect());
            }
            "reducing.add" => self.fold(number)?,
            "reducing.clear" => self.reducing = None,
            "reducing.get" => {
                let fields = FOLDED.iter().zip(self.reducing.into_iter().flatten());
                let answers =
                    fields.map(|(name, value)| answer(None, value, Some((*name).to_owned())));
                return Ok(answers.collect());
            }
            "event.set" => drop(self.event.insert(time)),
            "event.delete" => drop(self.event.remove(&time)),
            "processing.set" => drop(self.processing.insert(time)),
            "processing.delete" => drop(self.processing.remove(&time)),
            other => return Err(format!("unknown command {other}")),
        }
        Ok(Vec::new())
    }

    fn fold(&mut self, number: Option<i64>) -> Result<(), String> {
        let [sum, min, max, count, first, last] = self.reducing.unwrap_or([None; 6]);
        let added = i64::from(number.is_some());
        let sum = match (sum, number) {
            (Some(sum), Some(number)) => Some(sum.checked_add(number).ok_or("`sum`".to_owned())?),
            (sum, number) => sum.or(number),
        };
        self.reducing = Some([
            sum,
            min.into_iter().chain(number).min(),
            max.into_iter().chain(number).max(),
            Some(count.unwrap_or(0) + added),
            first.or(number),
            number.or(last),
        ]);
        Ok(())
    }
}
