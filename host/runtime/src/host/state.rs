//! The imported interface `state`: batches of keys, looked up in the subtask's tables.

mod keys;
mod lent;
mod list;
mod map;
mod reducing;
mod value;

use super::HostState;
use super::call::BudgetExceeded;
use super::task::Task;
use crate::bindings::state::{Host, Rows};
use crate::bindings::types::{self, ColumnResult, Error, ErrorKind};
use crate::buffers::{self, BufferError, ColumnBuffers};
use crate::limits::{Limits, display_bytes};
use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBuffer, ScalarBuffer};
use howdah_state::{Column, KeyBatch};
use std::fmt::Display;
use wasmtime::component::Resource;

pub(crate) use lent::link as link_lent;

pub(super) type Answer<T> = Result<T, Error>;

pub(super) fn refuse<T>(kind: ErrorKind, message: impl Into<String>) -> Answer<T> {
    Err(Error { kind, message: message.into() })
}

/// An argument is not what it should be; `of` is the state or family of timers.
pub(super) fn malformed<T>(of: impl Display, what: impl Display) -> Answer<T> {
    refuse(ErrorKind::InvalidArgument, format!("{of}: {what}"))
}

impl types::Host for HostState {}

impl Host for HostState {}

impl HostState {
    /// A handle of the state of this name, which `find` looks for among those of its kind.
    fn open_state<H: Send + 'static>(
        &mut self,
        name: &str,
        kind: &str,
        find: impl FnOnce(&Task) -> Option<usize>,
        handle: impl FnOnce(usize) -> H,
    ) -> Answer<Resource<H>> {
        let Some(task) = &self.task else {
            return refuse(ErrorKind::NotDeclared, "describe is pure: it cannot open a state");
        };
        match find(task) {
            Some(index) => self.new_handle(handle(index)),
            None => Err(task.no_state(name, kind)),
        }
    }

    pub(super) fn new_handle<H: Send + 'static>(&mut self, handle: H) -> Answer<Resource<H>> {
        self.handles.push(handle).or_else(|_| {
            refuse(
                ErrorKind::LimitExceeded,
                format!(
                    "the operator holds {} handles and may hold no more (limits.handles): open a \
                     state once",
                    self.limits.handles
                ),
            )
        })
    }

    /// What a handle stands for: one of those that `list` picks, at the index that it holds.
    pub(super) fn opened<H: Send + 'static, S>(
        &mut self,
        handle: &Resource<H>,
        index: impl FnOnce(&H) -> usize,
        list: impl FnOnce(&mut Task) -> &mut Vec<S>,
    ) -> Answer<&mut S> {
        let index = self.handles.get(handle).map(index).ok();
        let found =
            index.zip(self.task.as_mut()).and_then(|(index, task)| list(task).get_mut(index));
        match found {
            Some(found) => Ok(found),
            None => refuse(ErrorKind::InvalidArgument, "nothing is open under this handle"),
        }
    }

    /// Runs a state call that writes.
    pub(super) fn write_call<R>(&mut self, call: impl FnOnce(&mut Self) -> Answer<R>) -> Answer<R> {
        self.state_call(|host| {
            host.check_writable()?;
            call(host)
        })
    }

    fn check_writable(&self) -> Answer<()> {
        match self.call.read_only {
            None => Ok(()),
            Some(function) => refuse(
                ErrorKind::InvalidArgument,
                format!("state and timers cannot be changed in {function}"),
            ),
        }
    }

    /// Counts the bytes of columns that were copied out of guest memory.
    fn take_columns(&mut self, columns: &[ColumnResult]) -> Answer<()> {
        self.take_budget(column_bytes(columns))
    }

    /// Counts bytes that were copied out of guest memory.
    pub(super) fn take_budget(&mut self, bytes: usize) -> Answer<()> {
        let taken = self.call.take_bytes(bytes);
        taken.or_else(|BudgetExceeded| {
            let message = format!("the operator {}", BudgetExceeded::describe(&self.limits));
            refuse(ErrorKind::LimitExceeded, message)
        })
    }

    /// Indices of keys; `of` is what they are called.
    fn indices(&mut self, of: &str, keys: &KeyBatch, bytes: Vec<u8>) -> Answer<ScalarBuffer<u32>> {
        self.take_budget(bytes.len())?;
        let indices = buffers::u32s(bytes).or_else(|BufferError(what)| malformed(of, what))?;
        let past_keys = |index: &u32| to_usize(*index) >= keys.len();
        if let Some(row) = indices.iter().position(past_keys) {
            let index = indices.get(row).copied().unwrap_or_default();
            let count = keys.len();
            return malformed(of, format_args!("row {row} names key {index} of {count} keys"));
        }
        // Each use of a key takes its room anew.
        let named = |index: &u32| keys.encoded().key(to_usize(*index)).len();
        let bytes = indices.iter().map(named).fold(0, usize::saturating_add);
        let (rows, Limits { batch_rows, batch_bytes, .. }) = (indices.len(), &self.limits);
        if rows > *batch_rows || bytes > *batch_bytes {
            let limit = display_bytes(*batch_bytes);
            let what = format!(
                "{of}: {rows} rows name keys of {bytes} bytes, more than {batch_rows} \
                 (limits.batch-rows) or {limit} (limits.batch-bytes)"
            );
            return refuse(ErrorKind::LimitExceeded, what);
        }
        Ok(indices)
    }

    /// Passes the store's answer on. Its failure is remembered: the call fails with it
    /// whatever the operator makes of it.
    fn checked<T>(&mut self, answer: howdah_state::Result<T>) -> Answer<T> {
        answer.or_else(|error| {
            if error.kind() == howdah_state::ErrorKind::LimitExceeded {
                let message = format!("{error} (limits.batch-rows, limits.batch-bytes)");
                return refuse(ErrorKind::LimitExceeded, message);
            }
            let message = error.to_string();
            self.call.state_error.get_or_insert(error);
            refuse(ErrorKind::StateUnavailable, message)
        })
    }

    /// The same for a call with arguments that only the store can check: what is wrong with them
    /// is the operator's fault, and no failure of the store.
    pub(super) fn answered<T>(&mut self, answer: howdah_state::Result<T>) -> Answer<T> {
        match answer {
            Err(error) if error.kind() == howdah_state::ErrorKind::InvalidArgument => {
                refuse(ErrorKind::InvalidArgument, error.to_string())
            }
            answer => self.checked(answer),
        }
    }
}

/// Rows of a state for the operator.
fn rows(rows: howdah_state::Rows) -> Answer<Rows> {
    let absent = rows.present.count_set_bits() < rows.present.len();
    let present = absent.then(|| buffers::bitmap(&rows.present).into_owned());
    Ok(Rows { present, columns: encoded(rows.columns)? })
}

/// Columns for the operator.
fn encoded(columns: Vec<ArrayRef>) -> Answer<Vec<ColumnResult>> {
    let columns = columns.into_iter().map(buffers::into_result).collect::<Result<Vec<_>, _>>();
    columns.or_else(|error| refuse(ErrorKind::StateUnavailable, error.to_string()))
}

/// Columns of the operator for a state.
fn decoded(
    of: impl Display,
    fields: &[Column],
    rows: usize,
    columns: Vec<impl Into<ColumnBuffers>>,
) -> Answer<Vec<ArrayRef>> {
    buffers::columns(fields, rows, columns).or_else(|BufferError(what)| malformed(of, what))
}

/// Which keys may have more rows than there are; `none`: no key.
fn truncated(more: &BooleanBuffer) -> Option<Vec<u8>> {
    (more.count_set_bits() > 0).then(|| buffers::bitmap(more).into_owned())
}

/// A number of rows for the operator.
fn row_count(rows: usize) -> Answer<u32> {
    u32::try_from(rows)
        .or_else(|_| refuse(ErrorKind::LimitExceeded, format!("{rows} rows are too many")))
}

/// As many rows as the operator wants.
fn to_usize(limit_rows: u32) -> usize {
    usize::try_from(limit_rows).unwrap_or(usize::MAX)
}

/// Bytes in the buffers of columns.
pub(crate) fn column_bytes(columns: &[ColumnResult]) -> usize {
    let len = |buffer: &Option<Vec<u8>>| buffer.as_ref().map_or(0, Vec::len);
    columns
        .iter()
        .map(|column| column.data.len() + len(&column.offsets) + len(&column.validity))
        .fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::state::{HostValueState, Keys};
    use crate::host::Subject;
    use crate::limits::Limits;
    use howdah_state::KeyGroups;

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

    #[test]
    fn what_the_store_says_of_arguments_is_no_failure_of_it() {
        let mut host = describing();
        let error = host.answered(KeyGroups::new(0, 0).map(drop)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidArgument);
        assert!(host.end_call().state_error.is_none());
    }
}
