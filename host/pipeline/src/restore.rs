//! Chooses the checkpoint that a run goes on from.

use crate::checkpoint::{
    Checkpoint, CheckpointEntry, Checkpoints, InputShape, OperatorShape, Shape, SinkShape,
    SourceShape, no_such,
};
use crate::coordinator::Retained;
use crate::directory;
use crate::dropped;
use crate::error::{Error, ErrorKind, Result};
use crate::fit::{self, CompareTable, StateFit, Stored};
use crate::pipeline::StartFrom;
use std::path::{Path, PathBuf};

/// The file that marks a fresh start under way, in the state directory.
pub(crate) const FRESH_START: &str = "fresh-start";

/// Says that a fresh start has begun to remove things and has not come to its end.
#[derive(Debug)]
pub(crate) struct FreshStart {
    path: PathBuf,
    sync: bool,
}

impl FreshStart {
    /// Leaves the mark before anything is removed: what is half removed can serve nobody.
    pub(crate) fn begin(state_directory: &Path, sync: bool) -> Result<Self> {
        Self::mark(state_directory, "", sync)
    }

    /// The same for a start from a savepoint.
    pub(crate) fn begin_from(state_directory: &Path, savepoint: &str, sync: bool) -> Result<Self> {
        let how = format!(
            "a start from the savepoint {savepoint} was broken off; run with --from {savepoint} again"
        );
        Self::mark(state_directory, &how, sync)
    }

    /// The same for a start with rows from elsewhere.
    pub(crate) fn begin_import(state_directory: &Path, sync: bool) -> Result<Self> {
        let how = "an import of state was broken off; import it again with `howdah state import`";
        Self::mark(state_directory, how, sync)
    }

    /// `how` says what was broken off, where a run that just begins anew would not do.
    fn mark(state_directory: &Path, how: &str, sync: bool) -> Result<Self> {
        let path = state_directory.join(FRESH_START);
        let temporary = state_directory.join(format!("{FRESH_START}.tmp"));
        directory::write(&path, &temporary, how.as_bytes(), sync)?;
        Ok(Self { path, sync })
    }

    /// Whether one was broken off.
    pub(crate) fn is_under_way(state_directory: &Path) -> bool {
        state_directory.join(FRESH_START).exists()
    }

    /// Everything is removed.
    pub(crate) fn end(&self) -> Result<()> {
        directory::remove(&self.path)?;
        match self.path.parent().filter(|_| self.sync) {
            Some(state_directory) => directory::sync(state_directory),
            None => Ok(()),
        }
    }

    /// What to start from when an earlier fresh start may have been broken off.
    pub(crate) fn finish_first(state_directory: &Path, from: StartFrom) -> Result<StartFrom> {
        let mark = state_directory.join(FRESH_START);
        let how = match std::fs::read_to_string(&mark) {
            Ok(how) => how,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(from),
            Err(error) => return Err(Error::io("read", &mark, error)),
        };
        match from {
            StartFrom::Latest if !how.is_empty() => Err(Error::new(
                ErrorKind::Incompatible,
                format!("{how}, or run with --fresh to start from the beginning"),
            )),
            StartFrom::Latest | StartFrom::Fresh => Ok(StartFrom::Fresh),
            StartFrom::Checkpoint(id) => Err(Error::new(
                ErrorKind::Incompatible,
                format!(
                    "checkpoint {id} cannot be used: a fresh start was broken off while it removed \
                     the checkpoints; run without --checkpoint to go on with it"
                ),
            )),
        }
    }
}

/// Where a run begins.
#[derive(Debug)]
pub(crate) struct Restore {
    /// The checkpoint; `None`: the beginning.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The checkpoints that stay, oldest first, this one included.
    pub(crate) retained: Vec<Retained>,
    /// Documents that are to be removed before anything else is.
    pub(crate) obsolete: Vec<u64>,
    /// The number of the first new checkpoint.
    pub(crate) next_id: u64,
}

impl Restore {
    /// Looks at the documents of a state directory, and at the tables where states have changed.
    /// `dropped` are the states that the pipeline may do without. Changes nothing.
    pub(crate) fn choose(
        state_directory: &Path,
        from: StartFrom,
        shape: &Shape,
        tables: &dyn CompareTable,
        dropped: &[String],
    ) -> Result<Self> {
        let entries = Checkpoints::list(state_directory)?;
        let last_id = entries.last().map_or(0, |entry| entry.id);
        let chosen = match from {
            StartFrom::Fresh => None,
            StartFrom::Latest => entries.len().checked_sub(1),
            StartFrom::Checkpoint(id) => Some(position(&entries, id)?),
        };
        let Some(chosen) = chosen else {
            let obsolete: Vec<u64> = entries.iter().map(|entry| entry.id).collect();
            refuse_pinned(state_directory, &obsolete)?;
            return Ok(Self { checkpoint: None, retained: Vec::new(), obsolete, next_id: 1 });
        };
        let mut kept = entries;
        let later = kept.split_off(chosen + 1);
        let Some(entry) = kept.pop() else {
            return Err(Error::internal("the chosen checkpoint is gone"));
        };
        let checkpoint = entry.checkpoint.map_err(|error| offer(error, &kept))?;
        compare(&checkpoint, shape, tables, dropped)?;
        // One that is damaged can serve nobody, and nothing shall hold on to its state.
        let (whole, damaged): (Vec<_>, Vec<_>) =
            kept.into_iter().partition(|entry| entry.checkpoint.is_ok());
        let earlier = whole.into_iter().filter_map(|entry| entry.checkpoint.ok());
        let mut retained: Vec<Retained> =
            earlier.map(|checkpoint| Retained::of(&checkpoint)).collect();
        retained.push(Retained::of(&checkpoint));
        let later = later.iter().map(|entry| entry.id);
        refuse_pinned(state_directory, &later.clone().collect::<Vec<_>>())?;
        let obsolete = damaged.iter().map(|entry| entry.id).chain(later).collect();
        Ok(Self { checkpoint: Some(checkpoint), retained, obsolete, next_id: last_id + 1 })
    }

    /// The newest checkpoint that stays and has this table.
    pub(crate) fn holder_of(&self, table: &str) -> Option<u64> {
        let has = |kept: &&Retained| kept.snapshots.iter().any(|(name, _)| name == table);
        self.retained.iter().rev().find(has).map(|kept| kept.id)
    }
}

fn position(entries: &[CheckpointEntry], id: u64) -> Result<usize> {
    let position = entries.iter().position(|entry| entry.id == id);
    position.ok_or_else(|| no_such(entries, id))
}

/// Refuses to remove what somebody pinned.
pub(crate) fn refuse_pinned(state_directory: &Path, obsolete: &[u64]) -> Result<()> {
    let pinned = Checkpoints::pinned(state_directory)?;
    match obsolete.iter().find(|id| pinned.contains(id)) {
        None => Ok(()),
        Some(id) => Err(Error::new(
            ErrorKind::Incompatible,
            format!(
                "checkpoint {id} would be removed, and it is pinned; write a savepoint of it, then \
                 let go of it with `howdah checkpoint unpin`"
            ),
        )),
    }
}

/// Says what else there is to start from.
fn offer(error: Error, earlier: &[CheckpointEntry]) -> Error {
    match earlier.iter().rev().find(|entry| entry.checkpoint.is_ok()) {
        Some(entry) => error.with_hint(format!(
            "start from the one before with --checkpoint {}, or from the beginning with --fresh",
            entry.id
        )),
        None => error.with_hint("there is no earlier one; start from the beginning with --fresh"),
    }
}

/// Refuses a pipeline that differs from the checkpoint's, and says in what. It may do without the
/// states that are named as dropped.
pub(crate) fn compare(
    checkpoint: &Checkpoint,
    wanted: &Shape,
    tables: &dyn CompareTable,
    dropped: &[String],
) -> Result<()> {
    if checkpoint.shape.pipeline != wanted.pipeline {
        let message = format!(
            "checkpoint {} is of another pipeline: of `{}`, and the pipeline file is that of `{}`; \
             use the file of `{}`, or name another state-directory",
            checkpoint.id, checkpoint.shape.pipeline, wanted.pipeline, checkpoint.shape.pipeline
        );
        return Err(Error::new(ErrorKind::Incompatible, message));
    }
    let found = differences(checkpoint, wanted, tables, dropped)?;
    if found.is_empty() {
        return Ok(());
    }
    let error = Error::new(
        ErrorKind::Incompatible,
        format!(
            "the pipeline has changed since its last checkpoint: {}; undo the change, or start \
             from the beginning with --fresh",
            found.join(", ")
        ),
    );
    // Offered where nothing else is in the way.
    let all = dropped::missing(&checkpoint.shape, wanted);
    if all.is_empty() || !differences(checkpoint, wanted, tables, &all)?.is_empty() {
        return Err(error);
    }
    let flags: Vec<String> =
        all.iter().map(|name| format!("--allow-dropped-state {name}")).collect();
    Err(error.with_hint(format!(
        "to go on without the state of what is gone, which stays in the checkpoint, run with {}",
        flags.join(" ")
    )))
}

/// In what a pipeline differs from the checkpoint's without what is dropped.
fn differences(
    checkpoint: &Checkpoint,
    wanted: &Shape,
    tables: &dyn CompareTable,
    dropped: &[String],
) -> Result<Vec<String>> {
    let shape = dropped::without(&checkpoint.shape, wanted, dropped);
    let checkpoint = &Checkpoint { shape, ..checkpoint.clone() };
    let stored = &checkpoint.shape;
    let mut differences = Differences::default();
    differences.of("the tenant", &stored.tenant, &wanted.tenant);
    for (what, stored, wanted) in pairs("source", &stored.sources, &wanted.sources) {
        differences.of_sources(&what, stored, wanted);
    }
    for (what, stored, wanted) in pairs("operator", &stored.operators, &wanted.operators) {
        differences.of_operators(&what, stored, wanted);
    }
    let number = |number: u32| number.to_string();
    let key_groups = (number(stored.key_groups), number(wanted.key_groups));
    differences.of("the number of key groups", &key_groups.0, &key_groups.1);
    for (what, stored, wanted) in pairs("sink", &stored.sinks, &wanted.sinks) {
        differences.of_sinks(&what, stored, wanted);
    }
    for operator in &wanted.operators {
        let stored = Stored::of(checkpoint, &operator.name);
        let states = fit::states(&stored, &operator.states, tables)?;
        differences.0.extend(states.iter().filter(|state| state.refused).map(difference));
    }
    Ok(differences.0)
}

/// A node that has a name.
trait Named {
    fn name(&self) -> &str;
}

impl Named for SourceShape {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for OperatorShape {
    fn name(&self) -> &str {
        &self.name
    }
}

impl Named for SinkShape {
    fn name(&self) -> &str {
        &self.name
    }
}

/// What they are called, and those of the same name. One alone is the same whatever its name.
fn pairs<'a, T: Named>(
    kind: &str,
    stored: &'a [T],
    wanted: &'a [T],
) -> Vec<(String, Option<&'a T>, Option<&'a T>)> {
    if let ([stored], [wanted]) = (stored, wanted) {
        return vec![(format!("the {kind}"), Some(stored), Some(wanted))];
    }
    let find = |all: &'a [T], name: &str| all.iter().find(|node| node.name() == name);
    let gone = stored.iter().filter(|node| find(wanted, node.name()).is_none());
    let gone = gone.map(|node| (node, Some(node), None));
    let others = wanted.iter().map(|node| (node, find(stored, node.name()), Some(node)));
    let called = |node: &T| format!("{kind} `{}`", node.name());
    gone.chain(others).map(|(node, stored, wanted)| (called(node), stored, wanted)).collect()
}

/// In what a pipeline differs from the checkpoint's.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn of(&mut self, what: &str, stored: &str, wanted: &str) {
        if stored != wanted {
            self.0.push(format!("{what} was {stored} and is {wanted}"));
        }
    }

    /// Both, if both are there.
    fn both<'a, T>(
        &mut self,
        what: &str,
        stored: Option<&'a T>,
        wanted: Option<&'a T>,
    ) -> Option<(&'a T, &'a T)> {
        match (stored, wanted) {
            (Some(stored), Some(wanted)) => return Some((stored, wanted)),
            (Some(_), None) => self.0.push(format!("{what} is gone")),
            (None, _) => self.0.push(format!("{what} is new")),
        }
        None
    }

    fn of_sources(
        &mut self,
        what: &str,
        stored: Option<&SourceShape>,
        wanted: Option<&SourceShape>,
    ) {
        let Some((stored, wanted)) = self.both(what, stored, wanted) else { return };
        self.of(&format!("{what}'s name"), &stored.name, &wanted.name);
        self.of(&format!("{what}'s path"), &stored.path, &wanted.path);
        self.of(&format!("{what}'s format"), &stored.format, &wanted.format);
        let times = (or_none(&stored.event_time), or_none(&wanted.event_time));
        self.of(&format!("{what}'s event-time"), times.0, times.1);
        self.of(&format!("{what}'s filter"), &list(&stored.filter), &list(&wanted.filter));
        self.of(&format!("{what}'s schema"), &list(&stored.schema), &list(&wanted.schema));
    }

    fn of_operators(
        &mut self,
        what: &str,
        stored: Option<&OperatorShape>,
        wanted: Option<&OperatorShape>,
    ) {
        let Some((stored, wanted)) = self.both(what, stored, wanted) else { return };
        let several = stored.inputs.len() != 1 || wanted.inputs.len() != 1;
        for (index, input) in wanted.inputs.iter().enumerate() {
            let called = match &input.name {
                Some(name) if several => format!("{what}'s input `{name}`"),
                _ => format!("{what}'s input"),
            };
            self.of_inputs(&called, stored.inputs.get(index), Some(input));
        }
        for input in stored.inputs.iter().skip(wanted.inputs.len()) {
            let name = or_none(&input.name);
            self.of_inputs(&format!("{what}'s input `{name}`"), Some(input), None);
        }
        self.of(&format!("{what}'s name"), &stored.name, &wanted.name);
    }

    fn of_inputs(&mut self, what: &str, stored: Option<&InputShape>, wanted: Option<&InputShape>) {
        let Some((stored, wanted)) = self.both(what, stored, wanted) else { return };
        if stored.name.is_some() {
            self.of(&format!("{what}'s name"), or_none(&stored.name), or_none(&wanted.name));
        }
        self.of(&format!("{what}'s origin"), &stored.from, &wanted.from);
        self.of(what, &list(&stored.columns), &list(&wanted.columns));
    }

    fn of_sinks(&mut self, what: &str, stored: Option<&SinkShape>, wanted: Option<&SinkShape>) {
        let Some((stored, wanted)) = self.both(what, stored, wanted) else { return };
        self.of(&format!("{what}'s name"), &stored.name, &wanted.name);
        if stored.from.is_some() {
            self.of(&format!("{what}'s input"), or_none(&stored.from), or_none(&wanted.from));
        }
        self.of(&format!("{what}'s type"), &stored.kind, &wanted.kind);
        self.of(&format!("{what}'s path"), or_none(&stored.path), or_none(&wanted.path));
        self.of(&format!("{what}'s format"), &stored.format, &wanted.format);
    }
}

fn or_none(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("none")
}

fn list(list: &[String]) -> String {
    match list {
        [] => "none".to_owned(),
        list => format!("({})", list.join(", ")),
    }
}

/// A state that cannot go on.
fn difference(fit: &StateFit) -> String {
    let StateFit { state, stored, wanted, changes, .. } = fit;
    let stored = stored.as_deref().unwrap_or_default();
    let wanted = wanted.as_deref().unwrap_or("gone");
    let refused = changes.iter().filter(|change| change.refused.is_some());
    let reasons: String = refused.map(|change| format!("; {change}")).collect();
    format!("state `{state}` was {stored} and is {wanted}{reasons}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::StateShape;
    use crate::checkpoint::tests::example;
    use howdah_state::SchemaChange;

    /// Tables that take nothing.
    struct Rigid;

    impl CompareTable for Rigid {
        fn compare(&self, _: &str, state: &str, snapshot: i64) -> Result<Vec<SchemaChange>> {
            Ok(vec![SchemaChange {
                what: format!("value column 0 of {state} at {snapshot}"),
                stored: "`price` int64".into(),
                wanted: "another".into(),
                refused: Some("keep it".into()),
            }])
        }
    }

    /// Tables that take everything.
    struct Supple;

    impl CompareTable for Supple {
        fn compare(&self, of: &str, state: &str, snapshot: i64) -> Result<Vec<SchemaChange>> {
            let mut changes = Rigid.compare(of, state, snapshot)?;
            changes.iter_mut().for_each(|change| change.refused = None);
            Ok(changes)
        }
    }

    fn directory(ids: &[u64]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().expect("a directory");
        let checkpoints = Checkpoints::open(directory.path(), false).expect("opened");
        for id in ids {
            checkpoints.write(&example(*id)).expect("written");
        }
        directory
    }

    fn damage(directory: &tempfile::TempDir, id: u64) {
        let path = directory.path().join(format!("checkpoints/checkpoint-{id}.json"));
        let mut bytes = std::fs::read(&path).expect("a document");
        bytes[100] ^= 1;
        std::fs::write(&path, bytes).expect("written");
    }

    fn choose(directory: &tempfile::TempDir, from: StartFrom) -> Result<Restore> {
        Restore::choose(directory.path(), from, &example(1).shape, &Rigid, &[])
    }

    #[test]
    fn without_a_checkpoint_a_run_begins_at_the_beginning() {
        let restore = choose(&directory(&[]), StartFrom::Latest).expect("chosen");
        assert!(restore.checkpoint.is_none());
        assert_eq!(restore.next_id, 1);
    }

    #[test]
    fn the_newest_checkpoint_is_chosen() {
        let restore = choose(&directory(&[5, 6, 7]), StartFrom::Latest).expect("chosen");
        assert_eq!(restore.checkpoint.expect("one").id, 7);
        let retained: Vec<u64> = restore.retained.iter().map(|retained| retained.id).collect();
        assert_eq!((retained, restore.obsolete, restore.next_id), (vec![5, 6, 7], vec![], 8));
    }

    #[test]
    fn an_earlier_checkpoint_makes_later_ones_obsolete_and_numbers_go_on() {
        let restore = choose(&directory(&[5, 6, 7]), StartFrom::Checkpoint(5)).expect("chosen");
        assert_eq!(restore.checkpoint.expect("one").id, 5);
        assert_eq!((restore.obsolete, restore.next_id), (vec![6, 7], 8));
    }

    #[test]
    fn a_damaged_newest_checkpoint_is_refused_and_the_one_before_offered() {
        let directory = directory(&[5, 6, 7]);
        damage(&directory, 7);
        let error = choose(&directory, StartFrom::Latest).expect_err("damaged");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let path = directory.path().join("checkpoints/checkpoint-7.json");
        assert_eq!(
            error.to_string(),
            format!(
                "the checkpoint document {} is damaged: its checksum does not match; start from \
                 the one before with --checkpoint 6, or from the beginning with --fresh",
                path.display()
            )
        );
        let restore = choose(&directory, StartFrom::Checkpoint(6)).expect("chosen");
        assert_eq!(restore.obsolete, [7]);
    }

    #[test]
    fn a_fresh_start_needs_no_readable_document() {
        let directory = directory(&[7]);
        damage(&directory, 7);
        let restore = choose(&directory, StartFrom::Fresh).expect("chosen");
        assert!(restore.checkpoint.is_none());
        assert_eq!(restore.obsolete, [7]);
    }

    #[test]
    fn a_fresh_start_that_was_broken_off_is_finished_first() {
        let directory = directory(&[7]);
        let resumed = |from| FreshStart::finish_first(directory.path(), from);
        assert_eq!(resumed(StartFrom::Latest).expect("as wanted"), StartFrom::Latest);
        let fresh_start = FreshStart::begin(directory.path(), true).expect("marked");
        assert_eq!(resumed(StartFrom::Latest).expect("fresh"), StartFrom::Fresh);
        assert!(resumed(StartFrom::Checkpoint(7)).is_err());
        fresh_start.end().expect("unmarked");
        assert_eq!(resumed(StartFrom::Latest).expect("as wanted"), StartFrom::Latest);
    }

    #[test]
    fn an_unknown_checkpoint_is_refused_with_those_there_are() {
        let error = choose(&directory(&[5, 7]), StartFrom::Checkpoint(6)).expect_err("unknown");
        assert_eq!(error.to_string(), "there is no checkpoint 6; there are 5 and 7");
    }

    #[test]
    fn a_changed_pipeline_is_refused_with_what_differs() {
        let directory = directory(&[1]);
        let mut shape = example(1).shape;
        shape.key_groups = 3;
        shape.operators[0].states[0].value = vec!["price utf8".into()];
        let error = Restore::choose(directory.path(), StartFrom::Latest, &shape, &Rigid, &[])
            .expect_err("incompatible");
        assert_eq!(error.kind(), ErrorKind::Incompatible);
        assert_eq!(
            error.to_string(),
            "the pipeline has changed since its last checkpoint: the number of key groups was 1024 \
             and is 3, state `last` was (key: bidder int64; value: price int64; version 1) and is (key: \
             bidder int64; value: price utf8; version 1); value column 0 of last at 3: stored \
             `price` int64, asked for another (keep it); undo the change, or start from the \
             beginning with --fresh"
        );
    }

    #[test]
    fn another_parallelism_is_taken() {
        let directory = directory(&[1]);
        let mut shape = example(1).shape;
        shape.operators[0].parallelism = 3;
        let restore = Restore::choose(directory.path(), StartFrom::Latest, &shape, &Rigid, &[]);
        assert_eq!(restore.expect("taken").checkpoint.expect("one").id, 1);
    }

    #[test]
    fn a_pinned_checkpoint_is_not_removed() {
        let directory = directory(&[5, 6, 7]);
        Checkpoints::pin(directory.path(), 6).expect("pinned");
        for from in [StartFrom::Checkpoint(5), StartFrom::Fresh] {
            let error = choose(&directory, from).expect_err("refused").to_string();
            assert!(
                error.starts_with("checkpoint 6 would be removed, and it is pinned"),
                "{error}"
            );
        }
        assert_eq!(choose(&directory, StartFrom::Checkpoint(6)).expect("chosen").obsolete, [7]);
        assert!(Checkpoints::unpin(directory.path(), 6).expect("unpinned"));
        assert_eq!(choose(&directory, StartFrom::Checkpoint(5)).expect("chosen").obsolete, [6, 7]);
    }

    #[test]
    fn a_start_from_a_savepoint_that_was_broken_off_is_not_taken_for_a_fresh_one() {
        let directory = directory(&[5]);
        FreshStart::begin_from(directory.path(), "/backup/monday", false).expect("marked");
        let resumed = |from| FreshStart::finish_first(directory.path(), from);
        let error = resumed(StartFrom::Latest).expect_err("refused").to_string();
        assert!(error.contains("run with --from /backup/monday again"), "{error}");
        assert_eq!(resumed(StartFrom::Fresh).expect("as wanted"), StartFrom::Fresh);
    }

    #[test]
    fn a_changed_state_that_its_table_takes_is_taken() {
        let directory = directory(&[1]);
        let mut shape = example(1).shape;
        shape.operators[0].states[0].value.push("currency utf8 nullable".into());
        let choose =
            |tables| Restore::choose(directory.path(), StartFrom::Latest, &shape, tables, &[]);
        assert_eq!(choose(&Supple).expect("chosen").checkpoint.expect("one").id, 1);
        choose(&Rigid).expect_err("incompatible");
    }

    #[test]
    fn what_no_table_can_tell_is_refused_whatever_it_takes() {
        let directory = directory(&[1]);
        let refused = |change: fn(&mut Shape)| {
            let mut shape = example(1).shape;
            change(&mut shape);
            let restore =
                Restore::choose(directory.path(), StartFrom::Latest, &shape, &Supple, &[]);
            restore.expect_err("incompatible").to_string()
        };
        let version = refused(|shape| shape.operators[0].states[0].schema_version = 2);
        assert!(version.contains("version 1) and is (key: bidder int64"), "{version}");
        let gone = refused(|shape| shape.operators[0].states.clear());
        assert!(gone.contains("version 1) and is gone"), "{gone}");
        let renamed = refused(|shape| shape.operators[0].states[0].state = "other".into());
        assert!(renamed.contains("state `last` was (key"), "{renamed}");
        assert!(!renamed.contains("`other`"), "{renamed}");
    }

    #[test]
    fn the_newest_kept_checkpoint_that_has_a_table_is_its_holder() {
        let kept = |id, tables: &[&str]| Retained {
            id,
            snapshots: tables.iter().map(|table| ((*table).to_owned(), 1)).collect(),
        };
        let restore = Restore {
            checkpoint: Some(example(6)),
            retained: vec![kept(4, &["a", "b"]), kept(5, &["a", "b"]), kept(6, &["a"])],
            obsolete: Vec::new(),
            next_id: 7,
        };
        assert_eq!(restore.holder_of("a"), Some(6));
        assert_eq!(restore.holder_of("b"), Some(5));
        assert_eq!(restore.holder_of("c"), None);
    }

    #[test]
    fn a_state_that_is_gone_is_dropped_when_it_is_named() {
        let directory = directory(&[1]);
        let mut shape = example(1).shape;
        let operator = shape.operators[0].name.clone();
        shape.operators[0].states.clear();
        let choose = |name: &str| {
            let dropped = [name.to_owned()];
            Restore::choose(directory.path(), StartFrom::Latest, &shape, &Rigid, &dropped)
        };
        for name in ["last", &format!("{operator}.last")] {
            assert_eq!(choose(name).expect("taken").checkpoint.expect("one").id, 1);
        }
        let refused = choose("other").expect_err("refused").to_string();
        let hint = format!("run with --allow-dropped-state {operator}.last");
        assert!(refused.contains("is gone") && refused.ends_with(&hint), "{refused}");
    }

    #[test]
    fn a_checkpoint_of_another_pipeline_is_refused_for_that_alone() {
        let directory = directory(&[1]);
        let mut shape = example(1).shape;
        shape.pipeline = "another".into();
        shape.operators.clear();
        let restore = Restore::choose(directory.path(), StartFrom::Latest, &shape, &Rigid, &[]);
        let refused = restore.expect_err("refused").to_string();
        assert!(refused.starts_with("checkpoint 1 is of another pipeline: of `"), "{refused}");
        assert!(refused.contains("name another state-directory"), "{refused}");
    }

    #[test]
    fn a_state_that_the_checkpoint_lacks_is_taken_whatever_tables_take() {
        let directory = directory(&[1]);
        let mut shape = example(1).shape;
        let states = &mut shape.operators[0].states;
        states.push(StateShape { state: "other".into(), ..states[0].clone() });
        let restore = Restore::choose(directory.path(), StartFrom::Latest, &shape, &Rigid, &[]);
        assert_eq!(restore.expect("chosen").checkpoint.expect("one").id, 1);
    }

    #[test]
    fn changed_columns_filters_and_formats_are_refused() {
        let directory = directory(&[1]);
        let refused = |change: fn(&mut Shape)| {
            let mut shape = example(1).shape;
            change(&mut shape);
            let restore = Restore::choose(directory.path(), StartFrom::Latest, &shape, &Rigid, &[]);
            restore.expect_err("incompatible").to_string()
        };
        for (change, expected) in [
            (
                (|shape| shape.sources[0].event_time = None) as fn(&mut Shape),
                "the source's event-time was date_time and is none",
            ),
            (|shape| shape.tenant = "other".into(), "the tenant was default and is other"),
            (
                |shape| shape.sources[0].filter.clear(),
                "the source's filter was (event_type = 2) and is none",
            ),
            (
                |shape| shape.sources[0].schema.push("price int64".into()),
                "the source's schema was none and is (price int64)",
            ),
            (
                |shape| shape.operators[0].inputs[0].columns.truncate(1),
                "the operator's input was (bidder = bidder, price = price) and is (bidder = \
                 bidder)",
            ),
            (
                |shape| shape.sinks[0].format = "ndjson".into(),
                "the sink's format was csv and is ndjson",
            ),
        ] {
            let message = refused(change);
            assert!(message.contains(expected), "{message}");
        }
    }
}
