use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

use serde::de::DeserializeOwned;

use crate::host::Host;
use crate::state::{BatchState, Table};
use crate::{Error, Key, Result, Row, ValueState, row, wit};

/// What an operator is opened with: its configuration, its place, and its states.
///
/// [`Operator::open`](crate::Operator::open) runs in two situations: when the host asks what the
/// operator is, and when it starts it. Both must declare the same states for the same
/// configuration.
pub struct Open<K> {
    config: String,
    subtask: Option<Subtask>,
    /// `None` while the operator describes itself.
    host: Option<Rc<dyn Host>>,
    declared: Vec<wit::StateSpec>,
    states: Vec<Rc<dyn BatchState>>,
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

impl<K: Key> Open<K> {
    pub(crate) fn to_describe(config: &str) -> Self {
        Self {
            config: config.to_owned(),
            subtask: None,
            host: None,
            declared: Vec::new(),
            states: Vec::new(),
            key: PhantomData,
        }
    }

    pub(crate) fn to_run(context: wit::Context, host: Rc<dyn Host>) -> Self {
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
    ///
    /// The name must be unique in the operator and stay the same across its versions: it
    /// names the table. Letters, digits, `_` and `-`, at most 64.
    pub fn value<V: Row + Clone + 'static>(&mut self, name: &str) -> Result<ValueState<K, V>> {
        self.value_with_version(name, 1)
    }

    /// The same as [`value`](Self::value), for a state whose fields kept their names and
    /// types but changed their meaning: raise `schema_version`, which is 1 at first.
    pub fn value_with_version<V: Row + Clone + 'static>(
        &mut self,
        name: &str,
        schema_version: u32,
    ) -> Result<ValueState<K, V>> {
        if self.declared.iter().any(|state| state.name == name) {
            return Err(Error::new(format!("state `{name}` is declared twice")));
        }
        let handle = self.host.as_ref().map(|host| host.open_state(name)).transpose()?;
        let table = Rc::new(RefCell::new(Table::new(name, handle)));
        self.declared.push(wit::StateSpec {
            name: name.to_owned(),
            kind: wit::StateKind::Value,
            fields: row::fields::<V>(),
            schema_version,
            ttl: None,
        });
        self.states.push(Rc::clone(&table) as Rc<dyn BatchState>);
        Ok(ValueState::new(table))
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

    pub(crate) fn into_declared(self) -> Vec<wit::StateSpec> {
        self.declared
    }

    pub(crate) fn into_states(self) -> Vec<Rc<dyn BatchState>> {
        self.states
    }
}
