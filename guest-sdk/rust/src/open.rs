use std::marker::PhantomData;
use std::rc::Rc;

use serde::de::DeserializeOwned;

use crate::host::Host;
use crate::metrics::{self, Counter, Gauge, Histogram};
use crate::reduce::Reduce;
use crate::state::DuringCall;
use crate::{
    Error, Key, ListState, MapState, ReducingState, Result, Row, Timers, ValueState, row, wit,
};

/// What an operator is opened with: its configuration, its place, and its states.
///
/// [`Operator::open`](crate::Operator::open) runs in two situations: when the host asks what the
/// operator is, and when it starts it. Both must declare the same states for the same
/// configuration.
///
/// The name of a state or a family of timers must be unique in the operator and stay the same
/// across its versions: it names the table. Letters, digits, `_` and `-`, at most 64.
pub struct Open<K> {
    config: String,
    subtask: Option<Subtask>,
    /// `None` while the operator describes itself.
    host: Option<Host>,
    states: Vec<wit::StateSpec>,
    timers: Vec<wit::TimerSpec>,
    /// The names of metrics.
    metrics: Vec<String>,
    parts: Vec<Rc<dyn DuringCall>>,
    key: PhantomData<fn(K)>,
}

/// Where an instance of an operator finds itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Subtask {
    /// The name of the pipeline.
    pub pipeline: String,
    /// The name of the operator in the pipeline.
    pub operator: String,
    /// Which of the parallel subtasks this is, from 0.
    pub index: u32,
    /// How many subtasks there are.
    pub parallelism: u32,
    /// The checkpoint that the state comes from; `None` on a fresh start.
    pub restored_from: Option<u64>,
}

/// What a state is declared with, beside its name and rows.
///
/// ```
/// use howdah_sdk::StateOptions;
///
/// let day = StateOptions { ttl_ms: Some(86_400_000), ..StateOptions::default() };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateOptions {
    /// Raised when fields keep their names and types but change their meaning; 1 at first.
    pub schema_version: u32,
    /// How long a row, an entry or an element lives after it was last written, in milliseconds
    /// of the host's clock; `None`: until it is removed.
    pub ttl_ms: Option<u64>,
    /// Of timers: whether they wait for the host's clock, and not for the watermark.
    pub processing_time: bool,
}

impl Default for StateOptions {
    fn default() -> Self {
        Self { schema_version: 1, ttl_ms: None, processing_time: false }
    }
}

impl<K: Key> Open<K> {
    pub(crate) fn to_describe(config: &str) -> Self {
        Self {
            config: config.to_owned(),
            subtask: None,
            host: None,
            states: Vec::new(),
            timers: Vec::new(),
            metrics: Vec::new(),
            parts: Vec::new(),
            key: PhantomData,
        }
    }

    pub(crate) fn to_run(context: wit::Context, host: Host) -> Self {
        let subtask = Subtask {
            pipeline: context.pipeline,
            operator: context.operator,
            index: context.subtask,
            parallelism: context.parallelism,
            restored_from: context.restored_from,
        };
        Self { subtask: Some(subtask), host: Some(host), ..Self::to_describe(&context.config) }
    }

    /// Declares a state with at most one row for each key.
    pub fn value<V: Row + Clone + 'static>(&mut self, name: &str) -> Result<ValueState<K, V>> {
        self.value_with(name, StateOptions::default())
    }

    /// The same as [`value`](Self::value), for a state whose fields kept their names and
    /// types but changed their meaning: raise `schema_version`, which is 1 at first.
    pub fn value_with_version<V: Row + Clone + 'static>(
        &mut self,
        name: &str,
        schema_version: u32,
    ) -> Result<ValueState<K, V>> {
        self.value_with(name, StateOptions { schema_version, ..StateOptions::default() })
    }

    /// The same as [`value`](Self::value), with options.
    pub fn value_with<V: Row + Clone + 'static>(
        &mut self,
        name: &str,
        options: StateOptions,
    ) -> Result<ValueState<K, V>> {
        self.declare::<V>(name, wit::StateKind::Value, options)?;
        let handle = self.host.as_ref().map(|host| host.value(name)).transpose()?;
        let (state, part) = ValueState::new(name, handle);
        self.parts.push(part);
        Ok(state)
    }

    /// Declares a state with any number of rows for each key.
    pub fn list<V: Row + Clone + 'static>(&mut self, name: &str) -> Result<ListState<K, V>> {
        self.list_with(name, StateOptions::default())
    }

    /// The same as [`list`](Self::list), with options.
    pub fn list_with<V: Row + Clone + 'static>(
        &mut self,
        name: &str,
        options: StateOptions,
    ) -> Result<ListState<K, V>> {
        self.declare::<V>(name, wit::StateKind::List, options)?;
        let handle = self.host.as_ref().map(|host| host.list(name)).transpose()?;
        let (state, part) = ListState::new(name, handle);
        self.parts.push(part);
        Ok(state)
    }

    /// Declares a state with rows for each key under map keys.
    pub fn map<M, V>(&mut self, name: &str) -> Result<MapState<K, M, V>>
    where
        M: Key + Ord + Clone + 'static,
        V: Row + Clone + 'static,
    {
        self.map_with(name, StateOptions::default())
    }

    /// The same as [`map`](Self::map), with options.
    pub fn map_with<M, V>(&mut self, name: &str, options: StateOptions) -> Result<MapState<K, M, V>>
    where
        M: Key + Ord + Clone + 'static,
        V: Row + Clone + 'static,
    {
        self.declare::<V>(name, wit::StateKind::Map(row::fields::<M>()), options)?;
        let handle = self.host.as_ref().map(|host| host.map(name)).transpose()?;
        let (state, part) = MapState::new(name, handle);
        self.parts.push(part);
        Ok(state)
    }

    /// Declares a state with one row for each key that the host folds.
    pub fn reducing<V>(&mut self, name: &str) -> Result<ReducingState<K, V>>
    where
        V: Row + Reduce + Clone + 'static,
    {
        self.reducing_with(name, StateOptions::default())
    }

    /// The same as [`reducing`](Self::reducing), with options.
    pub fn reducing_with<V>(
        &mut self,
        name: &str,
        options: StateOptions,
    ) -> Result<ReducingState<K, V>>
    where
        V: Row + Reduce + Clone + 'static,
    {
        let kind = wit::StateKind::Reducing(V::REDUCERS.to_vec());
        self.declare::<V>(name, kind, options)?;
        let handle = self.host.as_ref().map(|host| host.reducing(name)).transpose()?;
        let (state, part) = ReducingState::new(name, handle);
        self.parts.push(part);
        Ok(state)
    }

    /// Declares a family of timers that wait for the watermark.
    pub fn event_timers(&mut self, name: &str) -> Result<Timers<K>> {
        self.timers(name, wit::TimeDomain::EventTime)
    }

    /// Declares a family of timers that wait for the host's clock.
    pub fn processing_timers(&mut self, name: &str) -> Result<Timers<K>> {
        self.timers(name, wit::TimeDomain::ProcessingTime)
    }

    fn timers(&mut self, name: &str, domain: wit::TimeDomain) -> Result<Timers<K>> {
        self.check_name(name)?;
        let family = u32::try_from(self.timers.len())
            .map_err(|_| Error::new("there are too many families of timers"))?;
        self.timers.push(wit::TimerSpec { name: name.to_owned(), domain });
        let handle = self.host.as_ref().map(|host| host.timers(name)).transpose()?;
        let (timers, part) = Timers::new(name, family, handle);
        self.parts.push(part);
        Ok(timers)
    }

    /// Declares a metric that only grows. For names see [`metrics`].
    pub fn counter(&mut self, name: &str) -> Result<Counter> {
        self.declare_metric(name)?;
        let (counter, part) = Counter::new(name);
        self.parts.push(part);
        Ok(counter)
    }

    /// Declares a metric that goes up and down. For names see [`metrics`].
    pub fn gauge(&mut self, name: &str) -> Result<Gauge> {
        self.declare_metric(name)?;
        let (gauge, part) = Gauge::new(name);
        self.parts.push(part);
        Ok(gauge)
    }

    /// Declares a metric that says how values are spread. For names see [`metrics`].
    pub fn histogram(&mut self, name: &str) -> Result<Histogram> {
        self.declare_metric(name)?;
        Ok(Histogram::new(name))
    }

    /// Two of the same name would count into one.
    fn declare_metric(&mut self, name: &str) -> Result<()> {
        metrics::check_name(name)?;
        if self.metrics.iter().any(|other| other == name) {
            let message =
                format!("the metric `{name}` is there already; give this one another name");
            return Err(Error::invalid_config(message));
        }
        self.metrics.push(name.to_owned());
        Ok(())
    }

    fn declare<V: Row>(
        &mut self,
        name: &str,
        kind: wit::StateKind,
        options: StateOptions,
    ) -> Result<()> {
        self.check_name(name)?;
        let ttl = options.ttl_ms.map(|millis| wit::Ttl { millis, update: wit::TtlUpdate::OnWrite });
        self.states.push(wit::StateSpec {
            name: name.to_owned(),
            kind,
            fields: row::fields::<V>(),
            schema_version: options.schema_version,
            ttl,
        });
        Ok(())
    }

    fn check_name(&self, name: &str) -> Result<()> {
        let states = self.states.iter().map(|state| &state.name);
        let timers = self.timers.iter().map(|timers| &timers.name);
        if states.chain(timers).any(|other| other == name) {
            return Err(Error::new(format!("state `{name}` is declared twice")));
        }
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(is_allowed) {
            return Err(Error::new(format!(
                "state `{name}`: a name has letters, digits, `_` and `-`, 1 to 64"
            )));
        }
        Ok(())
    }

    /// The operator's table of the pipeline file. Fails if it is not a `T`, naming the
    /// field; `#[serde(deny_unknown_fields)]` on `T` finds misspelt ones.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.config)
            .map_err(|error| Error::invalid_config(format!("configuration: {error}")))
    }

    /// Where this instance finds itself; `None` while the operator is only asked what it is.
    pub fn subtask(&self) -> Option<&Subtask> {
        self.subtask.as_ref()
    }

    pub(crate) fn into_declared(self) -> (Vec<wit::StateSpec>, Vec<wit::TimerSpec>) {
        (self.states, self.timers)
    }

    pub(crate) fn into_parts(self) -> Vec<Rc<dyn DuringCall>> {
        self.parts
    }
}

/// The fields of an operator, all opened by their names: `#[derive(States)]`.
///
/// A field is a state, a family of timers of event time, or a [`Counter`] or [`Gauge`]. On a field,
/// `#[state(..)]` may say
///
/// * `name = "..."`: what it is called, if not like the field;
/// * `version = 2` and `ttl_ms = 60_000`: see [`StateOptions`];
/// * `processing_time`: the timers wait for the host's clock;
/// * `skip`: it is no state, and begins as its type's `Default`.
///
/// ```
/// use howdah_sdk::prelude::*;
/// # #[derive(Row, Clone, Debug, PartialEq)] struct Bid { auction: i64, price: i64 }
/// # #[derive(Key)] struct Auction { auction: i64 }
///
/// #[derive(States)]
/// struct LastBid {
///     #[state(ttl_ms = 3_600_000)]
///     last: ValueState<Auction, Bid>,
///     #[state(name = "bids_total")]
///     bids: Counter,
///     #[state(skip)]
///     seen: usize,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say how it is opened",
    note = "derive it: #[derive(States)] on the operator; or write `fn open(open: &mut Open<Key>) \
            -> Result<Self>`"
)]
pub trait States<K: Key>: Sized {
    /// Opens all fields.
    fn open(open: &mut Open<K>) -> Result<Self>;
}

/// The type of a field that `#[derive(States)]` opens for an operator with keys `K`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no state of an operator with the key `{K}`",
    note = "a field is a state with this key, a family of timers, or a metric; mark another with \
            #[state(skip)], or write `fn open` by hand"
)]
pub trait State<K: Key>: Sized {
    /// Opens it under this name.
    fn open(open: &mut Open<K>, name: &str, options: StateOptions) -> Result<Self>;
}

impl<K: Key, V: Row + Clone + 'static> State<K> for ValueState<K, V> {
    fn open(open: &mut Open<K>, name: &str, options: StateOptions) -> Result<Self> {
        open.value_with(name, options)
    }
}

impl<K: Key, V: Row + Clone + 'static> State<K> for ListState<K, V> {
    fn open(open: &mut Open<K>, name: &str, options: StateOptions) -> Result<Self> {
        open.list_with(name, options)
    }
}

impl<K, M, V> State<K> for MapState<K, M, V>
where
    K: Key,
    M: Key + Ord + Clone + 'static,
    V: Row + Clone + 'static,
{
    fn open(open: &mut Open<K>, name: &str, options: StateOptions) -> Result<Self> {
        open.map_with(name, options)
    }
}

impl<K: Key, V: Row + Reduce + Clone + 'static> State<K> for ReducingState<K, V> {
    fn open(open: &mut Open<K>, name: &str, options: StateOptions) -> Result<Self> {
        open.reducing_with(name, options)
    }
}

impl<K: Key> State<K> for Timers<K> {
    fn open(open: &mut Open<K>, name: &str, options: StateOptions) -> Result<Self> {
        if options.processing_time { open.processing_timers(name) } else { open.event_timers(name) }
    }
}

impl<K: Key> State<K> for Counter {
    fn open(open: &mut Open<K>, name: &str, _: StateOptions) -> Result<Self> {
        open.counter(name)
    }
}

impl<K: Key> State<K> for Gauge {
    fn open(open: &mut Open<K>, name: &str, _: StateOptions) -> Result<Self> {
        open.gauge(name)
    }
}
