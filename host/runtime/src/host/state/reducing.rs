//! `reducing-state`: one row for each key, which the store folds.

use super::{Answer, decoded, rows};
use crate::bindings::ReducingHandle;
use crate::bindings::state::{HostReducingState, Keys, Rows};
use crate::bindings::types::ColumnResult;
use crate::host::HostState;
use crate::host::task::Named;
use howdah_state::ReducingState;
use wasmtime::component::Resource;

impl HostState {
    fn reducing(&mut self, handle: &Resource<ReducingHandle>) -> Answer<&mut Named<ReducingState>> {
        self.opened(handle, |handle| handle.0, |task| &mut task.reducing)
    }
}

impl HostReducingState for HostState {
    fn open(&mut self, name: String) -> Answer<Resource<ReducingHandle>> {
        let find = |task: &super::Task| task.reducing.iter().position(|state| state.name == name);
        self.open_state(&name, "reducing", find, ReducingHandle)
    }

    fn get(&mut self, handle: Resource<ReducingHandle>, keys: Keys) -> Answer<Rows> {
        self.state_call(|host| {
            let keys = host.keys(keys)?;
            let found = host.reducing(&handle)?.state.get(&keys);
            rows(host.checked(found)?)
        })
    }

    fn add(
        &mut self,
        handle: Resource<ReducingHandle>,
        keys: Keys,
        columns: Vec<ColumnResult>,
    ) -> Answer<()> {
        self.write_call(|host| {
            let keys = host.keys(keys)?;
            host.take_columns(&columns)?;
            let named = host.reducing(&handle)?;
            let of = format_args!("state `{}`", named.name);
            let columns = decoded(of, &named.fields, keys.len(), columns)?;
            let added = named.state.add(&keys, &columns);
            host.answered(added)
        })
    }

    fn clear(&mut self, handle: Resource<ReducingHandle>, keys: Keys) -> Answer<()> {
        self.write_call(|host| {
            let keys = host.keys(keys)?;
            let cleared = host.reducing(&handle)?.state.clear(&keys);
            host.checked(cleared)
        })
    }

    fn drop(&mut self, handle: Resource<ReducingHandle>) -> wasmtime::Result<()> {
        self.handles.delete(handle)?;
        Ok(())
    }
}
