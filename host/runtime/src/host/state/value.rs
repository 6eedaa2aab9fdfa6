//! `value-state`: at most one row for each key.

use super::{Answer, decoded, rows};
use crate::bindings::ValueHandle;
use crate::bindings::state::{HostValueState, Keys, Rows};
use crate::bindings::types::ColumnResult;
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
            rows(&host.checked(found)?)
        })
    }

    fn put(
        &mut self,
        handle: Resource<ValueHandle>,
        keys: Keys,
        columns: Vec<ColumnResult>,
    ) -> Answer<()> {
        self.write_call(|host| {
            let keys = host.keys(keys)?;
            host.take_columns(&columns)?;
            let named = host.value(&handle)?;
            let of = format_args!("state `{}`", named.name);
            let columns = decoded(of, &named.fields, keys.len(), columns)?;
            let written = named.state.put(&keys, &columns);
            host.checked(written)
        })
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
