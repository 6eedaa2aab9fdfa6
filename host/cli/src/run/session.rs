//! A pipeline from its first start to its end: restarts, orders, replacements.

use super::report::{Line, SetAside, print_json, progress_text, restarting};
use super::signals::Signals;
use super::{Output, failure};
use crate::environment;
use crate::failure::{Failure, Result};
use crate::progress::{Bar, SharedBar, Unit};
use crate::serve::Health;
use anyhow::anyhow;
use crossbeam_channel::{Receiver, select};
use howdah_pipeline::{
    Checkpoint, Checkpoints, Components, ControlRequest, ControlServer, ErrorKind, Event, Handle,
    HeldCheckpoint, Pipeline, PipelineConfig, Responder, Restarts, StartFrom, StartOptions,
    Summary, write_savepoint,
};
use howdah_runtime::Engine;
use serde_json::json;
use std::collections::VecDeque;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tracing::Span;
use tracing::field::Empty;

/// Time between two looks at the counters.
const REFRESH: Duration = Duration::from_millis(200);

/// Time between two progress objects of `--output json`.
const JSON_INTERVAL: Duration = Duration::from_secs(1);

/// Completed checkpoints that are remembered.
const HISTORY_LIMIT: usize = 30;

/// One `howdah run`.
pub(super) struct Session<'a> {
    engine: &'a Engine,
    config: PipelineConfig,
    /// As loaded for the first start: their files may be others when it starts again.
    components: Option<Components>,
    output: Output,
    signals: Signals,
    health: Health,
    restarts: Restarts,
    /// States that the pipeline may do without.
    dropped_states: Vec<String>,
    /// There is none before the lock is held for the first time.
    control: Option<ControlServer>,
    /// Another pipeline file that is on trial until a checkpoint is complete.
    trial: Option<Replacement>,
    /// The span of the restart or change that the next start is part of.
    starting: Span,
    /// The last completed checkpoints, for those who ask how it is.
    history: VecDeque<serde_json::Value>,
}

/// Another pipeline file for the one that runs.
struct Replacement {
    config: PipelineConfig,
    /// If they are those that run, or have been loaded.
    components: Option<Components>,
    text: String,
    responder: Responder,
    /// From the order until it is known whether the pipeline goes on with it.
    span: Span,
}

/// What was ordered of the pipeline that runs, and is not done.
#[derive(Default)]
struct Orders {
    checkpoints: Vec<(Receiver<HeldCheckpoint>, Responder, Option<PathBuf>)>,
    stops: Vec<(Responder, Option<PathBuf>)>,
    replacement: Option<Replacement>,
    savepoints: Vec<std::thread::JoinHandle<()>>,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        config: PipelineConfig,
        output: Output,
        signals: Signals,
        health: Health,
        dropped_states: Vec<String>,
    ) -> Self {
        let restarts = Restarts::new(config.restart());
        Self {
            engine,
            config,
            components: None,
            output,
            signals,
            health,
            restarts,
            dropped_states,
            control: None,
            trial: None,
            starting: Span::none(),
            history: VecDeque::new(),
        }
    }

    /// Makes the state directory that of a savepoint.
    pub(super) fn install(&self, savepoint: &Path, fresh: bool) -> Result<()> {
        let pipeline = Pipeline::prepare(self.config.clone(), self.engine).map_err(failure)?;
        let bar = SharedBar::new("restoring state");
        let dropped = &self.dropped_states;
        let installed = pipeline.install_savepoint(savepoint, fresh, dropped, &|it| bar.set(it));
        bar.finish();
        installed.map_err(failure)
    }

    /// Where rows go that do not go through the operator.
    pub(super) fn set_aside(&self) -> SetAside {
        SetAside::of(&self.config)
    }

    /// Runs the pipeline to its end, or until it is told to stop.
    pub(super) fn run(&mut self, mut from: StartFrom) -> Result<Summary> {
        loop {
            let mut orders = Orders::default();
            let mut checkpoint = None;
            let ended = self.run_once(from, &mut orders, &mut checkpoint);
            orders.savepoints.into_iter().for_each(|thread| drop(thread.join()));
            from = StartFrom::Latest;
            match ended {
                Ended::Well(summary) => {
                    self.accept(summary.checkpoints.completed > 0);
                    if let Some(replacement) = orders.replacement {
                        let stopped = !orders.stops.is_empty();
                        match self.refuse_to_replace(&summary, stopped) {
                            None => {
                                self.try_out(replacement);
                                continue;
                            }
                            Some(why) => replacement.refuse(why),
                        }
                    }
                    self.stopped(orders.stops, &summary);
                    return Ok(summary);
                }
                // Nobody reads what is printed.
                Ended::Unheard(failure) => return Err(failure),
                Ended::Refused(error) => {
                    if self.go_back(&error)? {
                        continue;
                    }
                    // What was there before may be there again.
                    let ran = self.restarts.count() > 0;
                    if !ran || error.kind() != ErrorKind::Unreachable {
                        return Err(failure(error));
                    }
                    self.restart(error, None)?;
                }
                Ended::Failed(error) => {
                    if self.go_back(&error)? {
                        continue;
                    }
                    self.restart(error, checkpoint)?;
                }
            }
        }
    }

    /// Runs it once. `checkpoint` is the last one that was completed.
    fn run_once(
        &mut self,
        from: StartFrom,
        orders: &mut Orders,
        checkpoint: &mut Option<u64>,
    ) -> Ended {
        let handle = match self.start(from) {
            Ok(handle) => handle,
            Err(error) => return Ended::Refused(error),
        };
        let stopper = handle.stopper();
        self.signals.on_request(move || stopper.stop());
        let followed = self.follow(&handle, orders);
        if followed.is_err() {
            // Nobody reads what we print any more; end in order all the same.
            handle.stop();
        }
        *checkpoint = handle.progress().checkpoint;
        let summary = handle.wait();
        match (followed, summary) {
            (Ok(()), Ok(summary)) => Ended::Well(summary),
            (Ok(()), Err(error)) => Ended::Failed(error),
            (Err(failure), Ok(_)) => Ended::Unheard(failure),
            (Err(_), Err(error)) => Ended::Unheard(failed_at(error, *checkpoint)),
        }
    }

    /// Starts it, and begins to take orders once the lock is held.
    fn start(&mut self, from: StartFrom) -> howdah_pipeline::Result<Handle> {
        let _entered = std::mem::replace(&mut self.starting, Span::none()).entered();
        let components = match self.components.take() {
            Some(components) => components,
            None => Components::load(&self.config, self.engine)?,
        };
        self.components = Some(components.clone());
        let pipeline = Pipeline::prepare_with(self.config.clone(), components)?;
        if self.control.is_none() {
            self.control = ControlServer::open(&self.config.state_directory)
                .inspect_err(|error| tracing::warn!(%error, "the pipeline takes no orders"))
                .ok();
        }
        let dropped_states = self.dropped_states.clone();
        pipeline.start(StartOptions { from, dropped_states, ..StartOptions::default() })
    }

    /// Shows what happens and takes orders until the pipeline is over.
    fn follow(&mut self, handle: &Handle, orders: &mut Orders) -> Result<()> {
        let mut display = Display::new(self.output);
        let nobody = crossbeam_channel::never();
        loop {
            let requests = self.control.as_ref().map_or(&nobody, ControlServer::requests);
            select! {
                recv(handle.events()) -> event => match event {
                    Ok(event) => {
                        if matches!(event, Event::CheckpointCompleted { .. }) {
                            self.accept(true);
                        }
                        self.remember(&event);
                        display.event(&event)?;
                    }
                    Err(_) => break,
                },
                recv(requests) -> order => if let Ok((request, responder)) = order {
                    self.obey(handle, orders, request, responder);
                },
                default(REFRESH) => {}
            }
            orders.hand_out(&self.config.warehouse());
            handle.report();
            self.health.tell(true);
            display.progress(handle)?;
        }
        display.finish();
        Ok(())
    }

    fn obey(
        &self,
        handle: &Handle,
        orders: &mut Orders,
        request: ControlRequest,
        responder: Responder,
    ) {
        match request {
            ControlRequest::Status => responder.answer(&self.status(handle)),
            ControlRequest::Checkpoint => {
                orders.checkpoints.push((handle.checkpoint(), responder, None));
            }
            ControlRequest::Savepoint { directory } => {
                orders.checkpoints.push((handle.checkpoint(), responder, Some(directory)));
            }
            ControlRequest::Stop { drain, savepoint } => {
                if drain {
                    handle.drain();
                } else {
                    handle.stop();
                }
                orders.stops.push((responder, savepoint));
            }
            ControlRequest::Replace { text } => {
                if self.trial.is_some() || orders.replacement.is_some() {
                    return responder.refuse("another change is on its way; try again after it");
                }
                match self.other_config(&text) {
                    Ok(config) => {
                        // Another parallelism is for the same operator, whatever its file is by now.
                        let same = are_of_same_components(&self.config, &config);
                        let components = self.components.clone().filter(|_| same);
                        let span = span_of_change(same);
                        orders.replacement =
                            Some(Replacement { config, components, text, responder, span });
                        handle.stop();
                    }
                    Err(why) => responder.refuse(&why),
                }
            }
        }
    }

    /// Takes note of a completed checkpoint.
    fn remember(&mut self, event: &Event) {
        let Event::CheckpointCompleted { checkpoint, duration_ms, rows_read } = event else {
            return;
        };
        if self.history.len() == HISTORY_LIMIT {
            self.history.pop_front();
        }
        self.history.push_back(json!({
            "checkpoint": checkpoint,
            "time_ms": environment::epoch_ms(),
            "duration_ms": duration_ms,
            "rows_read": rows_read,
        }));
    }

    fn status(&self, handle: &Handle) -> serde_json::Value {
        let operators = self.config.operators.iter().map(|operator| {
            json!({
                "name": operator.name,
                "parallelism": operator.parallelism,
                "component": operator.component.value,
            })
        });
        json!({
            "pipeline": self.config.name,
            "running": true,
            "process": std::process::id(),
            "progress": handle.progress(),
            "restarts": self.restarts.count(),
            "time_ms": environment::epoch_ms(),
            "elapsed_ms": u64::try_from(handle.elapsed().as_millis()).unwrap_or(u64::MAX),
            "threads": handle.activities(),
            "states": handle.states(),
            "checkpoints": self.history,
            "operators": operators.collect::<Vec<_>>(),
        })
    }

    /// Another pipeline file, if the pipeline could go on with it.
    fn other_config(&self, text: &str) -> Result<PipelineConfig, String> {
        let words = |error: howdah_pipeline::Error| error.to_string();
        let mut config = PipelineConfig::parse(&self.config.file, text).map_err(words)?;
        config.directories.clone_from(&self.config.directories);
        let same = config.name == self.config.name
            && config.tenant == self.config.tenant
            && config.state_directory == self.config.state_directory;
        if !same {
            return Err("a running pipeline keeps its name, tenant and state-directory; stop it \
                        first"
                .to_owned());
        }
        Pipeline::check(&config, self.engine).map_err(words)?;
        Ok(config)
    }

    /// Why a pipeline that has stopped is not to go on with another file.
    fn refuse_to_replace(&self, summary: &Summary, stopped: bool) -> Option<&'static str> {
        if summary.finished {
            return Some("the input came to its end before; nothing was changed");
        }
        let stopped = stopped || self.signals.have_come();
        stopped.then_some("the pipeline was stopped; nothing was changed")
    }

    /// Goes on with another file, on trial.
    fn try_out(&mut self, replacement: Replacement) {
        let Replacement { config, components, text, responder, span } = replacement;
        let config = std::mem::replace(&mut self.config, config);
        let components = std::mem::replace(&mut self.components, components);
        self.restarts = Restarts::new(self.config.restart());
        self.starting = span.clone();
        self.trial = Some(Replacement { config, components, text, responder, span });
    }

    /// A checkpoint is complete: what is on trial has passed.
    fn accept(&mut self, completed: bool) {
        let Some(Replacement { text, responder, span, .. }) = self.trial.take_if(|_| completed)
        else {
            return;
        };
        // It ends here: what it was entered for last has been over for long.
        let _entered = span.entered();
        match environment::replace_file(&self.config.file, text.as_bytes()) {
            Ok(()) => responder.answer(&json!({ "pipeline": self.config.name })),
            Err(error) => responder.refuse(&format!(
                "the pipeline goes on with the change, but {} cannot be written ({error}): change \
                 it before the next run",
                self.config.file.display()
            )),
        }
    }

    /// After a failure: what is on trial has failed, and the pipeline goes on as it was before.
    fn go_back(&mut self, error: &howdah_pipeline::Error) -> Result<bool> {
        let Some(trial) = self.trial.take() else { return Ok(false) };
        let Replacement { config, components, responder, span, .. } = trial;
        fail(&span, "the pipeline failed before a checkpoint was complete, and goes on as it was");
        self.starting = span;
        (self.config, self.components) = (config, components);
        self.restarts = Restarts::new(self.config.restart());
        let why = format!(
            "{error}\nthe pipeline failed so before a checkpoint was complete, and \
                           goes on as it was before the change"
        );
        responder.refuse(&why);
        writeln!(std::io::stderr(), "{why}")?;
        Ok(true)
    }

    /// Waits until it may start again.
    fn restart(&mut self, error: howdah_pipeline::Error, checkpoint: Option<u64>) -> Result<()> {
        self.health.tell(false);
        let shown = error.to_string();
        let wait = self.restarts.after(error).map_err(|error| failed_at(error, checkpoint))?;
        self.starting = tracing::debug_span!("restart", restart = self.restarts.count());
        restarting(self.output, &shown, self.restarts.count(), wait)?;
        if self.signals.wait(wait) {
            return Err(Failure::Failed(anyhow!("{shown}\nstopped before a restart")));
        }
        Ok(())
    }

    /// Tells those who stopped the pipeline.
    fn stopped(&self, stops: Vec<(Responder, Option<PathBuf>)>, summary: &Summary) {
        for (responder, savepoint) in stops {
            let written = savepoint.map(|directory| self.last_savepoint(&directory)).transpose();
            match written {
                Ok(savepoint) => {
                    responder.answer(&json!({ "summary": summary, "savepoint": savepoint }));
                }
                Err(error) => {
                    responder.refuse(&format!("the pipeline has stopped, but {error}"));
                }
            }
        }
    }

    /// A savepoint of the last checkpoint of a pipeline that has stopped.
    fn last_savepoint(
        &self,
        directory: &Path,
    ) -> howdah_pipeline::Result<howdah_pipeline::Savepoint> {
        let last = Checkpoints::newest(&self.config.state_directory)?;
        write_savepoint(&self.config.warehouse(), &last, directory, &|_| {})
    }
}

/// How one run ended.
enum Ended {
    Well(Summary),
    Failed(howdah_pipeline::Error),
    /// It was not started.
    Refused(howdah_pipeline::Error),
    /// What it printed was not read.
    Unheard(Failure),
}

impl Replacement {
    /// The pipeline does not go on with it.
    fn refuse(self, why: &str) {
        fail(&self.span, why);
        self.responder.refuse(why);
    }
}

impl Orders {
    /// Gives checkpoints that are complete to those who wait for them.
    fn hand_out(&mut self, warehouse: &Path) {
        let waiting = std::mem::take(&mut self.checkpoints);
        for (done, responder, directory) in waiting {
            match (done.try_recv(), directory) {
                (Ok(held), None) => {
                    responder.answer(&json!({ "checkpoint": held.checkpoint.id }));
                }
                (Ok(held), Some(directory)) => {
                    self.save(held, warehouse.to_owned(), directory, responder);
                }
                (Err(error), directory) if error.is_empty() => {
                    self.checkpoints.push((done, responder, directory));
                }
                // The responder says that the pipeline has ended.
                (Err(_), _) => {}
            }
        }
        self.savepoints.retain(|thread| !thread.is_finished());
    }

    /// Writes a savepoint while the pipeline goes on.
    fn save(
        &mut self,
        held: HeldCheckpoint,
        warehouse: PathBuf,
        directory: PathBuf,
        responder: Responder,
    ) {
        let save = move || {
            let checkpoint: &Checkpoint = &held.checkpoint;
            match write_savepoint(&warehouse, checkpoint, &directory, &|_| {}) {
                Ok(savepoint) => responder.answer(&savepoint),
                Err(error) => responder.refuse(&error.to_string()),
            }
        };
        // Without a thread the responder is dropped, and says that it was not done.
        let thread = std::thread::Builder::new().name("howdah-savepoint".to_owned()).spawn(save);
        self.savepoints.extend(thread);
    }
}

/// Of a change to the pipeline while it runs: to its components, or to how many subtasks they have.
fn span_of_change(same_components: bool) -> Span {
    if same_components {
        tracing::debug_span!("rescale", otel.status_description = Empty)
    } else {
        tracing::debug_span!("swap", otel.status_description = Empty)
    }
}

/// Says why what a span is of has failed, in the field that OpenTelemetry has for it.
fn fail(span: &Span, why: &str) {
    span.record("otel.status_description", why);
}

/// Whether both name the same components, loaded in the same way.
fn are_of_same_components(one: &PipelineConfig, other: &PipelineConfig) -> bool {
    let loaded = |config: &PipelineConfig| -> Vec<_> {
        let operators = config.operators.iter();
        operators
            .map(|it| (it.component.value.clone(), it.limits.clone(), it.wasi.clone()))
            .collect()
    };
    loaded(one) == loaded(other)
}

/// Shows what happens, as text or JSON.
enum Display {
    Text(Bar),
    Json { printed: std::time::Instant },
}

impl Display {
    fn new(output: Output) -> Self {
        match output {
            // The source says how long it is once it has started.
            Output::Text => Self::Text(Bar::new(0, Unit::Bytes)),
            Output::Json => Self::Json { printed: environment::now() },
        }
    }

    fn event(&self, event: &Event) -> Result<()> {
        match (self, event) {
            (Self::Json { .. }, event) => print_json(event),
            (Self::Text(bar), Event::Started { checkpoint: Some(checkpoint) }) => {
                bar.note(&format!("goes on from checkpoint {checkpoint}"));
                Ok(())
            }
            (Self::Text(_), _) => Ok(()),
        }
    }

    fn progress(&mut self, handle: &Handle) -> Result<()> {
        match self {
            Self::Text(bar) => {
                let progress = handle.progress();
                bar.set(progress.bytes_read, progress.bytes_total, &progress_text(&progress));
            }
            Self::Json { printed } => {
                let now = environment::now();
                if now.duration_since(*printed) >= JSON_INTERVAL {
                    *printed = now;
                    print_json(&Line::Progress(&handle.progress()))?;
                }
            }
        }
        Ok(())
    }

    fn finish(&self) {
        if let Self::Text(bar) = self {
            bar.finish();
        }
    }
}

/// A failure, with where state and output are.
fn failed_at(error: howdah_pipeline::Error, checkpoint: Option<u64>) -> Failure {
    let position = match checkpoint {
        Some(checkpoint) => format!(
            "state and output are as of checkpoint {checkpoint}; `howdah run` goes on from there"
        ),
        None => "no checkpoint was completed; `howdah run` begins at the beginning".to_owned(),
    };
    let failure = failure(error);
    if failure.is_closed_pipe() {
        return failure;
    }
    Failure::Failed(anyhow!("{}\n{position}", failure.message()))
}
