//! An instance of a component with its store: every call into an operator goes through here.

use crate::bindings::types;
use crate::component::Component;
use crate::engine::Engine;
use crate::exports::Exports;
use crate::host::{CallScope, HostState, Remains, Subject, Task};
use crate::limits::{DESCRIBE_LIMIT_BYTES, Limits, display_bytes};
use crate::metrics::InstanceMetrics;
use crate::wasi::Wasi;
use crate::{Error, ErrorKind, Result, trap};
use wasmtime::{Store, StoreContextMut};

/// Messages that an operator returns are cut off after this.
const MESSAGE_LIMIT_BYTES: usize = 8 << 10;

/// A component instance. After an error it is gone, and its memory with it.
pub(crate) struct Guest {
    subject: Subject,
    /// Fuel of each call, if it is counted.
    fuel: Option<u64>,
    running: Option<Running>,
    /// Why it is gone.
    failure: Option<(ErrorKind, String)>,
    /// Whether states and timers, without what the failed call wrote, outlive a failure.
    keeps_remains: bool,
    remains: Option<Remains>,
    /// As of the last call.
    metrics: InstanceMetrics,
    // Its thread ticks the epoch, without which no deadline passes.
    _engine: Engine,
}

struct Running {
    store: Store<HostState>,
    exports: Exports,
}

impl Guest {
    /// Instantiates the component, under the same deadline as a call.
    pub(crate) fn new(
        component: &Component,
        subject: Subject,
        limits: &Limits,
        task: Option<Task>,
    ) -> Result<Self> {
        let wasi = wasi(component, &subject)?;
        let mut host = HostState::new(subject, limits, task);
        host.wasi = wasi;
        Self::of(component, limits, host)
    }

    /// The same, to go on where another instance failed.
    pub(crate) fn after(
        component: &Component,
        subject: Subject,
        limits: &Limits,
        remains: Remains,
    ) -> Result<Self> {
        let wasi = wasi(component, &subject)?;
        let host = HostState::after(subject, limits, remains, wasi);
        Self::of(component, limits, host)
    }

    fn of(component: &Component, limits: &Limits, host: HostState) -> Result<Self> {
        let subject = host.subject.clone();
        let engine = component.engine();
        let most = engine.options().memory_limit_bytes;
        if limits.memory_bytes > most {
            return Err(Error::new(
                ErrorKind::Limit,
                format!(
                    "{subject} asks for {} of memory (limits.memory-bytes), but this process \
                     gives an operator at most {}",
                    display_bytes(limits.memory_bytes),
                    display_bytes(most)
                ),
            ));
        }
        if limits.call_fuel.is_some() && !engine.counts_fuel() {
            return Err(Error::new(
                ErrorKind::Host,
                format!(
                    "{subject} was loaded without counting fuel, so its fuel cannot be limited \
                     (limits.call-fuel): load it with the same limits"
                ),
            ));
        }
        // Counts records besides bytes, so for batches it is only the outer bound; `Call` has the
        // exact one.
        let hostcall_fuel = match host.task {
            Some(_) => limits.batch_bytes.saturating_mul(2).max(1 << 20),
            None => DESCRIBE_LIMIT_BYTES,
        };
        let mut store = Store::new(engine.wasmtime(), host);
        store.limiter(|host| &mut host.growth);
        store.set_hostcall_fuel(hostcall_fuel);
        store.epoch_deadline_callback(|store: StoreContextMut<'_, HostState>| {
            Ok(store.data().deadline_reached())
        });
        let fuel = engine.counts_fuel().then(|| limits.call_fuel.unwrap_or(u64::MAX));
        let ticks = store.data_mut().begin_call(CallScope::Named);
        store.set_epoch_deadline(ticks);
        refuel(&mut store, fuel);
        let instantiated = component.linked().instantiate(&mut store);
        let ended = store.data_mut().end_call();
        count_fuel(&mut store, fuel);
        let exports = instantiated
            .map_err(|error| trap::explain(store.data(), "instantiation", ended, &error))?;
        Ok(Self {
            subject,
            metrics: store.data().metrics,
            fuel,
            running: Some(Running { store, exports }),
            failure: None,
            keeps_remains: false,
            remains: None,
            _engine: engine.clone(),
        })
    }

    /// Calls a function of the operator.
    pub(crate) fn call<R>(
        &mut self,
        function: &str,
        scope: CallScope,
        call: impl FnOnce(&Exports, &mut Store<HostState>) -> wasmtime::Result<Result<R, types::Error>>,
    ) -> Result<R> {
        let fuel = self.fuel;
        let Running { store, exports } = self.running()?;
        let ticks = store.data_mut().begin_call(scope);
        store.set_epoch_deadline(ticks);
        refuel(store, fuel);
        let answer = call(exports, store);
        let mut ended = store.data_mut().end_call();
        count_fuel(store, fuel);
        let metrics = store.data().metrics;
        let result = match (ended.state_error.take(), answer) {
            (Some(error), _) => Err(state_error(&store.data().subject, function, error)),
            (None, Ok(Ok(value))) => Ok(value),
            (None, Ok(Err(error))) => Err(refused(&store.data().subject, function, error)),
            (None, Err(error)) => Err(trap::explain(store.data(), function, ended, &error)),
        };
        self.metrics = metrics;
        result.map_err(|error| self.fail(error))
    }

    /// The instance cannot go on: drops it.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        self.failure = Some((error.kind(), error.to_string()));
        self.metrics.memory_bytes = 0;
        if let Some(Running { store, .. }) = self.running.take()
            && self.keeps_remains
        {
            self.remains = store.into_data().into_remains().map(|mut remains| {
                remains.task.roll_back();
                remains
            });
        }
        error
    }

    /// From now on states and timers outlive a failure.
    pub(crate) fn keep_remains(&mut self) {
        self.keeps_remains = true;
    }

    /// What outlived the failure of the instance.
    pub(crate) fn take_remains(&mut self) -> Option<Remains> {
        self.remains.take()
    }

    /// The host's side of the instance.
    pub(crate) fn host(&mut self) -> Result<&mut HostState> {
        Ok(self.running()?.store.data_mut())
    }

    pub(crate) fn subject(&self) -> &Subject {
        &self.subject
    }

    pub(crate) fn metrics(&self) -> InstanceMetrics {
        self.metrics
    }

    fn running(&mut self) -> Result<&mut Running> {
        let (subject, failure) = (&self.subject, &self.failure);
        self.running.as_mut().ok_or_else(|| match failure {
            Some((kind, earlier)) => Error::new(
                *kind,
                format!("{subject} has stopped after an earlier error: {earlier}"),
            ),
            None => Error::new(ErrorKind::Host, format!("{subject} does not run")),
        })
    }
}

/// What the component was granted of WASI.
fn wasi(component: &Component, subject: &Subject) -> Result<Option<Box<Wasi>>> {
    component.wasi().map(|grant| Wasi::open(grant, subject).map(Box::new)).transpose()
}

/// Gives a call its fuel, if fuel is counted.
fn refuel(store: &mut Store<HostState>, fuel: Option<u64>) {
    if let Some(fuel) = fuel {
        // Fails only where the engine counts none.
        let _ = store.set_fuel(fuel);
    }
}

/// Adds what a call has used, if fuel is counted.
fn count_fuel(store: &mut Store<HostState>, fuel: Option<u64>) {
    // Where none is counted, to ask makes an error, with a backtrace.
    let Some(fuel) = fuel else { return };
    let left = store.get_fuel().unwrap_or_default();
    store.data_mut().metrics.fuel_total += fuel.saturating_sub(left);
}

fn refused(subject: &Subject, function: &str, error: types::Error) -> Error {
    let types::Error { kind, mut message } = error;
    message.truncate(message.floor_char_boundary(MESSAGE_LIMIT_BYTES));
    let kind = match kind {
        types::ErrorKind::LimitExceeded => ErrorKind::Limit,
        _ => ErrorKind::Operator,
    };
    Error::new(kind, format!("{subject} failed in {function}: {message}"))
}

pub(crate) fn state_error(subject: &Subject, function: &str, error: howdah_state::Error) -> Error {
    Error::with_source(
        ErrorKind::State,
        format!("the state of {subject} failed in {function}: {error}"),
        error,
    )
}
