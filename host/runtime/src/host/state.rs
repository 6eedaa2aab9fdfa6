//! The imported interface `state`: batches of keys, looked up in the subtask's tables.

use super::HostState;
use super::call::BudgetExceeded;
use crate::bindings::StateHandle;
use crate::bindings::state::{Host, HostValueState, Keys, Rows};
use crate::bindings::types::{self, ColumnResult, Error, ErrorKind, KeyColumnsResult};
use crate::buffers::{self, BufferError, Encoded};
use howdah_state::{Column, KeyBatch, KeyEncoder, KeyGroups, ValueState};
use std::sync::Arc;
use wasmtime::component::Resource;

/// The keys and states of one subtask.
pub(crate) struct Task {
    pub(crate) subtask: u32,
    pub(crate) encoder: KeyEncoder,
    pub(crate) key_groups: KeyGroups,
    pub(crate) states: Vec<NamedState>,
}

/// A state that `describe` declared.
pub(crate) struct NamedState {
    pub(crate) name: String,
    pub(crate) fields: Vec<Column>,
    pub(crate) value: ValueState,
}

type Answer<T> = Result<T, Error>;

fn refuse<T>(kind: ErrorKind, message: impl Into<String>) -> Answer<T> {
    Err(Error { kind, message: message.into() })
}

impl types::Host for HostState {}

impl Host for HostState {}

impl HostValueState for HostState {
    fn open(&mut self, name: String) -> Answer<Resource<StateHandle>> {
        let Some(task) = &self.task else {
            return refuse(ErrorKind::NotDeclared, "describe is pure: it cannot open a state");
        };
        let Some(index) = task.states.iter().position(|state| state.name == name) else {
            let declared: Vec<&str> = task.states.iter().map(|s| s.name.as_str()).collect();
            return refuse(
                ErrorKind::NotDeclared,
                format!(
                    "describe declared no state `{}`, only: {}",
                    name.escape_debug(),
                    declared.join(", ")
                ),
            );
        };
        self.handles.push(StateHandle(index)).or_else(|_| {
            refuse(ErrorKind::LimitExceeded, "too many handles are open: open a state once")
        })
    }

    fn get(&mut self, handle: Resource<StateHandle>, keys: Keys) -> Answer<Rows> {
        self.state_call(|host| {
            let keys = host.keys(keys)?;
            let rows = host.state(&handle)?.value.get(&keys);
            let rows = host.checked(rows)?;
            let present = (rows.present.count_set_bits() < rows.present.len())
                .then(|| buffers::bitmap(&rows.present).into_owned());
            let encode = |column| Encoded::new(column).map(Encoded::into_result);
            let columns = rows.columns.iter().map(encode).collect::<Result<Vec<_>, _>>();
            match columns {
                Ok(columns) => Ok(Rows { present, columns }),
                Err(error) => refuse(ErrorKind::StateUnavailable, error.to_string()),
            }
        })
    }

    fn put(
        &mut self,
        handle: Resource<StateHandle>,
        keys: Keys,
        columns: Vec<ColumnResult>,
    ) -> Answer<()> {
        self.state_call(|host| {
            let keys = host.keys(keys)?;
            host.take_budget(&columns)?;
            let state = host.state(&handle)?;
            let columns = buffers::columns(&state.fields, keys.len(), columns).or_else(
                |BufferError(what)| {
                    refuse(ErrorKind::InvalidArgument, format!("state `{}`: {what}", state.name))
                },
            )?;
            let written = state.value.put(&keys, &columns);
            host.checked(written)
        })
    }

    fn delete(&mut self, handle: Resource<StateHandle>, keys: Keys) -> Answer<()> {
        self.state_call(|host| {
            let keys = host.keys(keys)?;
            let deleted = host.state(&handle)?.value.delete(&keys);
            host.checked(deleted)
        })
    }

    fn drop(&mut self, handle: Resource<StateHandle>) -> wasmtime::Result<()> {
        self.handles.delete(handle)?;
        Ok(())
    }
}

impl HostState {
    fn state(&mut self, handle: &Resource<StateHandle>) -> Answer<&mut NamedState> {
        let index = self.handles.get(handle).map(|handle| handle.0).ok();
        let state =
            index.zip(self.task.as_mut()).and_then(|(index, task)| task.states.get_mut(index));
        match state {
            Some(state) => Ok(state),
            None => refuse(ErrorKind::InvalidArgument, "no state is open under this handle"),
        }
    }

    /// The keys that a call is about.
    fn keys(&mut self, keys: Keys) -> Answer<Arc<KeyBatch>> {
        match keys {
            Keys::Current => self.current_keys(),
            Keys::Selected(indices) => {
                let current = self.current_keys()?;
                let selected = buffers::u32s(&indices)
                    .map_err(|error| error.to_string())
                    .and_then(|i| current.select(&i).map_err(|error| error.to_string()));
                match selected {
                    Ok(selected) => Ok(Arc::new(selected)),
                    Err(what) => {
                        refuse(ErrorKind::InvalidArgument, format!("selected keys: {what}"))
                    }
                }
            }
            Keys::Explicit(keys) => {
                self.take_budget(&keys.columns)?;
                match &self.task {
                    Some(task) => task.explicit_keys(keys).map(Arc::new),
                    None => refuse(ErrorKind::InvalidArgument, "there are no keys in describe"),
                }
            }
        }
    }

    fn current_keys(&self) -> Answer<Arc<KeyBatch>> {
        match &self.call.keys {
            Some(keys) => Ok(Arc::clone(keys)),
            None => refuse(
                ErrorKind::InvalidArgument,
                "there are current keys in process only: give the keys explicitly",
            ),
        }
    }

    /// Counts the bytes of columns that were copied out of guest memory.
    fn take_budget(&mut self, columns: &[ColumnResult]) -> Answer<()> {
        let taken = self.call.take_bytes(column_bytes(columns));
        taken.or_else(|BudgetExceeded| {
            let message = format!("the operator {}", BudgetExceeded::describe(&self.limits));
            refuse(ErrorKind::LimitExceeded, message)
        })
    }

    /// Passes the store's answer on. Its failure is remembered: the call fails with it
    /// whatever the operator makes of it.
    fn checked<T>(&mut self, answer: howdah_state::Result<T>) -> Answer<T> {
        answer.or_else(|error| {
            let message = error.to_string();
            self.call.state_error.get_or_insert(error);
            refuse(ErrorKind::StateUnavailable, message)
        })
    }
}

/// Bytes in the buffers of columns.
pub(crate) fn column_bytes(columns: &[ColumnResult]) -> usize {
    let len = |buffer: &Option<Vec<u8>>| buffer.as_ref().map_or(0, Vec::len);
    columns
        .iter()
        .map(|column| column.data.len() + len(&column.offsets) + len(&column.validity))
        .fold(0, usize::saturating_add)
}

impl Task {
    /// Keys that the operator made up; they must be this subtask's.
    fn explicit_keys(&self, keys: KeyColumnsResult) -> Answer<KeyBatch> {
        let malformed =
            |what: String| refuse(ErrorKind::InvalidArgument, format!("explicit keys: {what}"));
        let rows = usize::try_from(keys.rows).unwrap_or(usize::MAX);
        let columns = match buffers::columns(self.encoder.columns(), rows, keys.columns) {
            Ok(columns) => columns,
            Err(error) => return malformed(error.to_string()),
        };
        let keys = match KeyBatch::new(&self.encoder, columns) {
            Ok(keys) => keys,
            Err(error) => return malformed(error.to_string()),
        };
        let foreign = |hash: &u64| self.key_groups.subtask_of(*hash) != self.subtask;
        match keys.encoded().hashes().iter().position(foreign) {
            None => Ok(keys),
            Some(row) => refuse(
                ErrorKind::KeyOutOfRange,
                format!("explicit keys: the key of row {row} belongs to another subtask"),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Subject;
    use crate::limits::Limits;

    fn describing() -> HostState {
        HostState::new(Subject::Component("test".to_owned()), &Limits::default(), None)
    }

    #[test]
    fn describe_can_open_no_state() {
        let error = describing().open("counts".to_owned()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotDeclared);
        assert_eq!(error.message, "describe is pure: it cannot open a state");
    }

    #[test]
    fn a_handle_that_is_not_open_is_refused() {
        let mut host = describing();
        host.call.keys = None;
        let error = host.delete(Resource::new_own(7), Keys::Current).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
    }

    #[test]
    fn the_first_failure_of_the_store_is_remembered() {
        let failure = |count| KeyGroups::new(count, 0).map(drop);
        let mut host = describing();
        let first = failure(0).unwrap_err().to_string();
        let error = host.checked(failure(0)).unwrap_err();
        assert_eq!((error.kind, error.message), (ErrorKind::StateUnavailable, first.clone()));
        host.checked(failure(7)).unwrap_err();
        assert_eq!(host.end_call().state_error.unwrap().to_string(), first);
    }
}
