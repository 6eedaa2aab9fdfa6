//! `value-state.put` with columns where they lie in guest memory: the write buffer takes the only
//! copy of them.

use super::{Answer, HostState, decoded, refuse};
use crate::HOST_VERSION;
use crate::bindings::ValueHandle;
use crate::bindings::state::Keys;
use crate::bindings::types::ErrorKind;
use crate::buffers::{self, ColumnBuffers};
use crate::clock;
use crate::host::task::Task;
use arrow_buffer::Buffer;
use howdah_state::KeyBatch;
use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, Lift, Linker, Resource, WasmList};

/// `types.column`.
#[derive(ComponentType, Lift)]
#[component(record)]
struct LentColumn {
    data: WasmList<u8>,
    offsets: Option<WasmList<u8>>,
    validity: Option<WasmList<u8>>,
}

type Put = (Resource<ValueHandle>, Keys, Vec<LentColumn>);

/// Takes the place of the function that copies.
pub(crate) fn link(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut state = linker.instance(&format!("howdah:operator/state@{HOST_VERSION}"))?;
    state.func_wrap(
        "[method]value-state.put",
        |mut store: StoreContextMut<'_, HostState>, (handle, keys, columns): Put| {
            let started = clock::now();
            let answer = put(&mut store, &handle, keys, &columns);
            store.data_mut().state_call_ended(started);
            Ok((answer,))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

fn put(
    store: &mut StoreContextMut<'_, HostState>,
    handle: &Resource<ValueHandle>,
    keys: Keys,
    columns: &[LentColumn],
) -> Answer<()> {
    let host = store.data_mut();
    host.check_writable()?;
    let keys = host.keys(keys)?;
    host.take_budget(columns.iter().map(LentColumn::bytes).fold(0, usize::saturating_add))?;
    let index = host.handles.get(handle).map_or(usize::MAX, |handle| handle.0);
    // Beside guest memory, which the store lends.
    let Some(mut task) = host.task.take() else { return not_open() };
    let written = put_lent(store, &mut task, index, &keys, columns);
    let host = store.data_mut();
    host.task = Some(task);
    host.checked(written?)
}

/// The columns are checked, and copied into the write buffer.
fn put_lent(
    store: &StoreContextMut<'_, HostState>,
    task: &mut Task,
    index: usize,
    keys: &KeyBatch,
    columns: &[LentColumn],
) -> Answer<howdah_state::Result<()>> {
    let Some(named) = task.values.get_mut(index) else { return not_open() };
    buffers::lend(|lend| {
        let columns = columns.iter().map(|column| column.buffers(store, lend)).collect();
        let of = format_args!("state `{}`", named.name);
        let columns: Vec<_> = decoded(of, &named.fields, keys.len(), columns)?;
        Ok(named.state.put(keys, &columns))
    })
}

fn not_open<T>() -> Answer<T> {
    refuse(ErrorKind::InvalidArgument, "nothing is open under this handle")
}

impl LentColumn {
    fn bytes(&self) -> usize {
        let len = |list: &Option<WasmList<u8>>| list.as_ref().map_or(0, WasmList::len);
        self.data.len() + len(&self.offsets) + len(&self.validity)
    }

    fn buffers<'a>(
        &self,
        store: &'a StoreContextMut<'_, HostState>,
        lend: &dyn Fn(&'a [u8]) -> Buffer,
    ) -> ColumnBuffers {
        let buffer = |list: &WasmList<u8>| lend(list.as_le_slice(store));
        ColumnBuffers {
            data: buffer(&self.data),
            offsets: self.offsets.as_ref().map(buffer),
            validity: self.validity.as_ref().map(buffer),
        }
    }
}
