//! `value-state`: at most one row for each key.

use super::{Answer, refuse, rows};
use crate::bindings::ValueHandle;
use crate::bindings::state::{HostValueState, Keys, Rows};
use crate::bindings::types::{ColumnResult, ErrorKind};
use crate::host::HostState;
use crate::host::task::Named;
use howdah_state::ValueState;
use wasmtime::component::Resource;

impl HostState {
    fn value(&mut self, handle: &Resource<ValueHandle>) -> Answer<&mut Named<ValueState>> {
        self.opened(handle, |handle| handle.0, |task| &mut task.values)
    }
}

impl HostValueState for HostState {
    fn open(&mut self, name: String) -> Answer<Resource<ValueHandle>> {
        let find = |task: &super::Task| task.values.iter().position(|state| state.name == name);
        self.open_state(&name, "value", find, ValueHandle)
    }

    fn get(&mut self, handle: Resource<ValueHandle>, keys: Keys) -> Answer<Rows> {
        self.state_call(|host| {
            let keys = host.keys(keys)?;
            let found = host.value(&handle)?.state.get(&keys);
            rows(host.checked(found)?)
        })
    }

    /// Never called: `lent` has taken its place.
    fn put(&mut self, _: Resource<ValueHandle>, _: Keys, _: Vec<ColumnResult>) -> Answer<()> {
        refuse(ErrorKind::Other, "the columns of a value state are lent")
    }

    fn delete(&mut self, handle: Resource<ValueHandle>, keys: Keys) -> Answer<()> {
        self.write_call(|host| {
            let keys = host.keys(keys)?;
            let deleted = host.value(&handle)?.state.delete(&keys);
            host.checked(deleted)
        })
    }

    fn drop(&mut self, handle: Resource<ValueHandle>) -> wasmtime::Result<()> {
        self.handles.delete(handle)?;
        Ok(())
    }
}
