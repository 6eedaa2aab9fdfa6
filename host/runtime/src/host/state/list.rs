//! `list-state`: any number of rows for each key.

use super::{Answer, decoded, encoded, row_count, to_usize, truncated};
use crate::bindings::ListHandle;
use crate::bindings::state::{HostListState, Keys, ListRows};
use crate::bindings::types::ColumnResult;
use crate::host::HostState;
use crate::host::task::Named;
use arrow_buffer::ToByteSlice;
use howdah_state::ListState;
use wasmtime::component::Resource;

impl HostState {
    fn list(&mut self, handle: &Resource<ListHandle>) -> Answer<&mut Named<ListState>> {
        self.opened(handle, |handle| handle.0, |task| &mut task.lists)
    }
}

impl HostListState for HostState {
    fn open(&mut self, name: String) -> Answer<Resource<ListHandle>> {
        let find = |task: &super::Task| task.lists.iter().position(|state| state.name == name);
        self.open_state(&name, "list", find, ListHandle)
    }

    fn append(
        &mut self,
        handle: Resource<ListHandle>,
        keys: Keys,
        key_of: Vec<u8>,
        columns: Vec<ColumnResult>,
    ) -> Answer<()> {
        self.write_call(|host| {
            let keys = host.keys(keys)?;
            let key_of = host.indices("key-of", &keys, key_of)?;
            host.take_columns(&columns)?;
            let named = host.list(&handle)?;
            let of = format_args!("state `{}`", named.name);
            let columns = decoded(of, &named.fields, key_of.len(), columns)?;
            let appended = named.state.append(&keys, &key_of, &columns);
            host.answered(appended)
        })
    }

    fn get(
        &mut self,
        handle: Resource<ListHandle>,
        keys: Keys,
        limit_rows: u32,
    ) -> Answer<ListRows> {
        self.state_call(|host| {
            let keys = host.keys(keys)?;
            let found = host.list(&handle)?.state.get(&keys, to_usize(limit_rows));
            let found = host.answered(found)?;
            Ok(ListRows {
                rows: row_count(found.key_of.len())?,
                key_of: found.key_of.to_byte_slice().to_vec(),
                columns: encoded(found.columns)?,
                truncated: truncated(&found.more),
            })
        })
    }

    fn clear(&mut self, handle: Resource<ListHandle>, keys: Keys) -> Answer<()> {
        self.write_call(|host| {
            let keys = host.keys(keys)?;
            let cleared = host.list(&handle)?.state.clear(&keys);
            host.checked(cleared)
        })
    }

    fn drop(&mut self, handle: Resource<ListHandle>) -> wasmtime::Result<()> {
        self.handles.delete(handle)?;
        Ok(())
    }
}
