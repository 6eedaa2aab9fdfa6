//! `map-state`: rows for each key under map keys.

use super::{Answer, decoded, encoded, row_count, rows, to_usize, truncated};
use crate::bindings::MapHandle;
use crate::bindings::state::{HostMapState, Keys, MapRange, MapRows, Rows};
use crate::bindings::types::ColumnResult;
use crate::host::HostState;
use crate::host::task::{KeyedMap, Named};
use arrow_array::ArrayRef;
use arrow_buffer::{ScalarBuffer, ToByteSlice};
use howdah_state::KeyBatch;
use std::sync::Arc;
use wasmtime::component::Resource;

/// Entries that the operator names.
struct Entries {
    keys: Arc<KeyBatch>,
    key_of: ScalarBuffer<u32>,
    map_keys: Vec<ArrayRef>,
}

impl HostState {
    fn map(&mut self, handle: &Resource<MapHandle>) -> Answer<&mut Named<KeyedMap>> {
        self.opened(handle, |handle| handle.0, |task| &mut task.maps)
    }

    fn entries_of(
        &mut self,
        handle: &Resource<MapHandle>,
        keys: Keys,
        key_of: Vec<u8>,
        map_keys: Vec<ColumnResult>,
    ) -> Answer<Entries> {
        let keys = self.keys(keys)?;
        let key_of = self.indices("key-of", &keys, key_of)?;
        self.take_columns(&map_keys)?;
        let named = self.map(handle)?;
        let of = format_args!("map keys of state `{}`", named.name);
        let map_keys = decoded(of, &named.state.map_key, key_of.len(), map_keys)?;
        Ok(Entries { keys, key_of, map_keys })
    }

    /// One end of a range of map keys.
    fn bound(
        &mut self,
        handle: &Resource<MapHandle>,
        bound: Option<Vec<ColumnResult>>,
    ) -> Answer<Option<Vec<ArrayRef>>> {
        let Some(columns) = bound else { return Ok(None) };
        self.take_columns(&columns)?;
        let named = self.map(handle)?;
        let of = format_args!("range of map keys of state `{}`", named.name);
        decoded(of, &named.state.map_key, 1, columns).map(Some)
    }
}

impl HostMapState for HostState {
    fn open(&mut self, name: String) -> Answer<Resource<MapHandle>> {
        let find = |task: &super::Task| task.maps.iter().position(|state| state.name == name);
        self.open_state(&name, "map", find, MapHandle)
    }

    fn get(
        &mut self,
        handle: Resource<MapHandle>,
        keys: Keys,
        key_of: Vec<u8>,
        map_keys: Vec<ColumnResult>,
    ) -> Answer<Rows> {
        self.state_call(|host| {
            let Entries { keys, key_of, map_keys } =
                host.entries_of(&handle, keys, key_of, map_keys)?;
            let found = host.map(&handle)?.state.state.get(&keys, &key_of, &map_keys);
            rows(host.answered(found)?)
        })
    }

    fn put(
        &mut self,
        handle: Resource<MapHandle>,
        keys: Keys,
        key_of: Vec<u8>,
        map_keys: Vec<ColumnResult>,
        columns: Vec<ColumnResult>,
    ) -> Answer<()> {
        self.write_call(|host| {
            let Entries { keys, key_of, map_keys } =
                host.entries_of(&handle, keys, key_of, map_keys)?;
            host.take_columns(&columns)?;
            let named = host.map(&handle)?;
            let of = format_args!("state `{}`", named.name);
            let columns = decoded(of, &named.fields, key_of.len(), columns)?;
            let written = named.state.state.put(&keys, &key_of, &map_keys, &columns);
            host.answered(written)
        })
    }

    fn delete(
        &mut self,
        handle: Resource<MapHandle>,
        keys: Keys,
        key_of: Vec<u8>,
        map_keys: Vec<ColumnResult>,
    ) -> Answer<()> {
        self.write_call(|host| {
            let Entries { keys, key_of, map_keys } =
                host.entries_of(&handle, keys, key_of, map_keys)?;
            let deleted = host.map(&handle)?.state.state.delete(&keys, &key_of, &map_keys);
            host.answered(deleted)
        })
    }

    fn entries(
        &mut self,
        handle: Resource<MapHandle>,
        keys: Keys,
        range: MapRange,
        limit_rows: u32,
    ) -> Answer<MapRows> {
        self.state_call(|host| {
            let keys = host.keys(keys)?;
            let from = host.bound(&handle, range.from)?;
            let to = host.bound(&handle, range.to)?;
            let named = host.map(&handle)?;
            let (from, to) = (from.as_deref(), to.as_deref());
            let found = named.state.state.range(&keys, from, to, to_usize(limit_rows));
            let found = host.answered(found)?;
            Ok(MapRows {
                rows: row_count(found.key_of.len())?,
                key_of: found.key_of.to_byte_slice().to_vec(),
                map_keys: encoded(found.map_key)?,
                columns: encoded(found.columns)?,
                truncated: truncated(&found.more),
            })
        })
    }

    fn clear(&mut self, handle: Resource<MapHandle>, keys: Keys) -> Answer<()> {
        self.write_call(|host| {
            let keys = host.keys(keys)?;
            let cleared = host.map(&handle)?.state.state.clear(&keys);
            host.checked(cleared)
        })
    }

    fn drop(&mut self, handle: Resource<MapHandle>) -> wasmtime::Result<()> {
        self.handles.delete(handle)?;
        Ok(())
    }
}
