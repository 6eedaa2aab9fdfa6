//! Which keys a state call is about.

use super::{Answer, malformed, refuse};
use crate::bindings::state::Keys;
use crate::bindings::types::{ErrorKind, KeyColumnsResult};
use crate::buffers;
use crate::host::HostState;
use crate::host::task::Task;
use howdah_state::KeyBatch;
use std::sync::Arc;

impl HostState {
    /// The keys that a call is about.
    pub(in crate::host) fn keys(&mut self, keys: Keys) -> Answer<Arc<KeyBatch>> {
        match keys {
            Keys::Current => self.current_keys(),
            Keys::Selected(indices) => {
                let current = self.current_keys()?;
                let indices = self.indices("selected keys", &current, indices)?;
                let selected = current.select(&indices);
                selected
                    .map(Arc::new)
                    .or_else(|error| malformed("selected keys", error.to_string()))
            }
            Keys::Explicit(keys) => {
                self.take_columns(&keys.columns)?;
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
                "there are current keys in process and on-timers only: give the keys explicitly",
            ),
        }
    }
}

impl Task {
    /// Keys that the operator made up; they must be this subtask's.
    fn explicit_keys(&self, keys: KeyColumnsResult) -> Answer<KeyBatch> {
        let malformed = |what: String| malformed("explicit keys", what);
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
