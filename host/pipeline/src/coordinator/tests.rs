//! A coordinator whose source and sink are the test.

use super::*;
use crate::checkpoint::tests::example;
use crossbeam_channel::bounded;

/// What talks to the coordinator.
struct Bench {
    directory: tempfile::TempDir,
    commands: Receiver<Command>,
    reports: Sender<Report>,
    coordinator: std::thread::JoinHandle<Outcome>,
    failure: Arc<Failure>,
    /// Nobody else has events for it.
    _state_events: Sender<StateEvent>,
}

/// One source, no operators, one sink with one producer; every checkpoint is late at once.
fn bench(tolerated_failures: u32) -> Bench {
    bench_of(Duration::from_millis(1), tolerated_failures)
}

/// Between its barriers, and until a checkpoint is late, is so much time.
fn bench_of(interval: Duration, tolerated_failures: u32) -> Bench {
    let directory = tempfile::tempdir().expect("a directory");
    let (commands, commands_receiver) = bounded(16);
    let (reports, reports_receiver) = bounded(16);
    let (state_events, state_events_receiver) = bounded(1);
    let (events, _) = bounded(1);
    let failure = Arc::new(Failure::new());
    let links = Links {
        commands: vec![commands],
        reports: reports_receiver,
        state_events: state_events_receiver,
        events,
        counters: Arc::new(Counters::new(1)),
        checkpoint_span: CheckpointSpan::default(),
        failure: Arc::clone(&failure),
    };
    let settings = Settings {
        interval,
        least_pause: Duration::ZERO,
        timeout: interval,
        tolerated_failures,
        retained: 1,
        shape: example(1).shape,
        operators: Vec::new(),
        subtasks: 0,
        readers: vec![0],
        producers: vec![1],
    };
    let checkpoints = Checkpoints::open(directory.path(), false).expect("opened");
    let parts = (checkpoints, vec![crate::sink::null()]);
    let coordinator = Coordinator::new(links, settings, Vec::new(), parts, Vec::new(), 1);
    let thread = std::thread::Builder::new().name("coordinator".into());
    let coordinator = thread.spawn(move || coordinator.run()).expect("a thread");
    Bench {
        directory,
        commands: commands_receiver,
        reports,
        coordinator,
        failure,
        _state_events: state_events,
    }
}

/// Waits for its end.
fn end(coordinator: std::thread::JoinHandle<Outcome>, failure: &Failure) -> (Outcome, Result<()>) {
    let outcome = coordinator.join().expect("no panic");
    (outcome, failure.take().map_or(Ok(()), Err))
}

impl Bench {
    fn barrier(&self) -> (u64, bool) {
        loop {
            match self.commands.recv().expect("a command") {
                Command::Barrier { checkpoint, last } => return (checkpoint, last),
                Command::Completed { .. } | Command::Drain => {}
            }
        }
    }

    fn report(&self, report: Report) {
        self.reports.send(report).expect("it listens");
    }

    fn source(&self, checkpoint: u64) {
        let source = example(1).sources.remove(0);
        let state = SourceState {
            position: source.position,
            watermark: None,
            closed: false,
            dead_letters: None,
        };
        self.report(Report::Source { checkpoint, reader: 0, state });
    }

    fn staged(&self, checkpoint: u64) {
        let file = serde_json::json!(format!("{checkpoint}-0.csv"));
        let handle = SinkHandle { rows: 1, bytes: 1, value: file };
        self.report(Report::Staged { checkpoint, sink: 0, subtask: 0, handle: Some(handle) });
    }
}

#[test]
fn what_a_late_checkpoint_would_have_had_belongs_to_the_next() {
    let bench = bench(1_000);
    // Each barrier comes although the ones before it are not done.
    assert_eq!(bench.barrier(), (1, false));
    assert_eq!(bench.barrier(), (2, false));
    bench.report(Report::Stop);
    let mut late = vec![1, 2];
    let last = loop {
        match bench.barrier() {
            (last, true) => break last,
            (checkpoint, false) => late.push(checkpoint),
        }
    };
    for checkpoint in late.iter().chain([&last]) {
        bench.source(*checkpoint);
        bench.staged(*checkpoint);
    }
    let (outcome, result) = end(bench.coordinator, &bench.failure);
    result.expect("complete");
    assert!(outcome.completed);
    assert_eq!((outcome.checkpoints.completed, outcome.checkpoints.last), (1, Some(last)));
    assert_eq!(outcome.checkpoints.failed, late.len() as u64);
    let mut entries = Checkpoints::list(bench.directory.path()).expect("a list");
    let document = entries.remove(0).checkpoint.expect("whole");
    let files: Vec<_> =
        document.sinks[0].handles.iter().map(|handle| handle.value.clone()).collect();
    let expected: Vec<serde_json::Value> =
        late.iter().chain([&last]).map(|checkpoint| format!("{checkpoint}-0.csv").into()).collect();
    assert_eq!(files, expected);
}

#[test]
fn more_late_checkpoints_in_a_row_than_are_tolerated_are_a_failure() {
    let bench = bench(1);
    assert_eq!((bench.barrier(), bench.barrier()), ((1, false), (2, false)));
    bench.source(2);
    let (outcome, result) = end(bench.coordinator, &bench.failure);
    assert!(!outcome.completed);
    let message = result.expect_err("failed").to_string();
    let expected = "checkpoint 2 was not complete after 1 ms: it waits for 0 sources, 0 subtasks, 0 \
                    state tables and 1 files of sinks; that is 2 in a row";
    // The report may come too late, too.
    let without = expected.replace("for 0 sources", "for 1 sources");
    assert!(message.starts_with(expected) || message.starts_with(&without), "{message}");
}

/// A coordinator that does nothing of its own accord.
fn patient() -> Bench {
    bench_of(Duration::from_secs(3_600), 0)
}

impl Bench {
    /// Completes the next checkpoint; its number.
    fn complete(&self) -> u64 {
        let (checkpoint, _) = self.barrier();
        self.source(checkpoint);
        self.staged(checkpoint);
        checkpoint
    }

    fn documents(&self) -> Vec<u64> {
        let entries = Checkpoints::list(self.directory.path()).expect("a list");
        entries.iter().map(|entry| entry.id).collect()
    }

    /// Orders a checkpoint and completes it.
    fn ordered(&self) -> HeldCheckpoint {
        let (done, receiver) = bounded(1);
        self.report(Report::Checkpoint { done });
        let id = self.complete();
        let held = receiver.recv().expect("complete");
        assert_eq!(held.checkpoint.id, id);
        held
    }
}

#[test]
fn a_checkpoint_that_is_ordered_is_made_at_once_and_kept_while_it_is_held() {
    let bench = patient();
    let first = bench.ordered();
    drop(bench.ordered());
    let third = bench.ordered();
    assert_eq!(bench.documents(), [1, 3], "one is retained, and one held");
    drop((first, third));
    drop(bench.ordered());
    bench.report(Report::Stop);
    assert_eq!(bench.complete(), 5);
    let (outcome, result) = end(bench.coordinator, &bench.failure);
    result.expect("complete");
    assert_eq!(outcome.checkpoints.completed, 5);
    let entries = Checkpoints::list(bench.directory.path()).expect("a list");
    assert_eq!(entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [5]);
}

#[test]
fn a_pinned_checkpoint_is_kept() {
    let bench = patient();
    drop(bench.ordered());
    Checkpoints::pin(bench.directory.path(), 1).expect("pinned");
    let error = Checkpoints::pin(bench.directory.path(), 2).expect_err("not there");
    assert_eq!(error.to_string(), "there is no checkpoint 2; there are 1");
    drop((bench.ordered(), bench.ordered()));
    bench.report(Report::Stop);
    assert_eq!(bench.complete(), 4);
    end(bench.coordinator, &bench.failure).1.expect("complete");
    let entries = Checkpoints::list(bench.directory.path()).expect("a list");
    assert_eq!(entries.iter().map(|entry| entry.id).collect::<Vec<_>>(), [1, 4]);
}

#[test]
fn sources_are_told_to_drain_once() {
    let bench = patient();
    bench.report(Report::Drain);
    bench.report(Report::Drain);
    assert_eq!(bench.commands.recv().expect("a command"), Command::Drain);
    bench.report(Report::SourceEnded);
    assert_eq!(bench.complete(), 1);
    let (outcome, result) = end(bench.coordinator, &bench.failure);
    result.expect("complete");
    assert!(outcome.source_ended);
}

#[test]
fn readers_of_one_source_are_one_in_the_document() {
    let state = |rows, watermark, closed| SourceState {
        position: SourcePosition::new("directory", rows, &serde_json::json!({"files": {}}))
            .expect("a position"),
        watermark,
        closed,
        dead_letters: None,
    };
    for (readers, expected) in [
        (vec![state(3, Some(7), false), state(4, Some(5), false)], (7, Some(5), false)),
        (vec![state(3, Some(7), false), state(4, Some(5), true)], (7, Some(7), false)),
        (vec![state(3, Some(7), true), state(4, Some(5), true)], (7, Some(5), true)),
        (vec![state(3, Some(7), false), state(0, None, false)], (3, None, false)),
    ] {
        let source = SourceState::merged(readers, "bids").expect("merged");
        assert_eq!((source.position.rows, source.watermark, source.closed), expected);
    }
}
