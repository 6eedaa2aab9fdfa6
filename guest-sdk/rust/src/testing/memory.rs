//! The states of a test, in memory, behind the same calls as in a component.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::table::{self, Cells};
use crate::columns::chunk;
use crate::host::{Host, StateHandle};
use crate::log::Level;
use crate::{Error, ErrorKind, Result, Row, row, wit};

/// How often an operator called a state, and for how many keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StateCalls {
    /// Look-ups.
    pub gets: u64,
    /// Keys that were looked up.
    pub keys_read: u64,
    /// Calls that write rows.
    pub puts: u64,
    /// Rows that were written.
    pub keys_written: u64,
    /// Calls that remove rows.
    pub deletes: u64,
    /// Keys whose row was to be removed.
    pub keys_deleted: u64,
}

/// All states of an operator.
pub(super) struct Memory {
    key_fields: Vec<wit::Field>,
    states: BTreeMap<String, Rc<RefCell<State>>>,
    /// The keys of the running batch, which all states share.
    current: Rc<RefCell<Option<Vec<Cells>>>>,
    logs: RefCell<Vec<(Level, String)>>,
}

/// One state.
struct State {
    fields: Vec<wit::Field>,
    rows: BTreeMap<Cells, Cells>,
    /// The rows at the last barrier.
    committed: BTreeMap<Cells, Cells>,
    calls: StateCalls,
}

impl Memory {
    pub(super) fn new(states: &[wit::StateSpec], key_fields: Vec<wit::Field>) -> Self {
        let state = |spec: &wit::StateSpec| State {
            fields: spec.fields.clone(),
            rows: BTreeMap::new(),
            committed: BTreeMap::new(),
            calls: StateCalls::default(),
        };
        Self {
            key_fields,
            states: states
                .iter()
                .map(|spec| (spec.name.clone(), Rc::new(RefCell::new(state(spec)))))
                .collect(),
            current: Rc::default(),
            logs: RefCell::default(),
        }
    }

    pub(super) fn begin_batch(&self, keys: Vec<Cells>) {
        *self.current.borrow_mut() = Some(keys);
    }

    pub(super) fn end_batch(&self) {
        *self.current.borrow_mut() = None;
    }

    pub(super) fn commit(&self) {
        for state in self.states.values() {
            let mut state = state.borrow_mut();
            state.committed = state.rows.clone();
        }
    }

    pub(super) fn roll_back(&self) {
        for state in self.states.values() {
            let mut state = state.borrow_mut();
            state.rows = state.committed.clone();
        }
    }

    /// The keys and rows of a state whose key is wanted.
    pub(super) fn rows(
        &self,
        state: &str,
        is_wanted: impl Fn(&Cells) -> bool,
    ) -> Result<Vec<(Cells, Cells)>> {
        let state = self.state(state)?.borrow();
        let wanted = state.rows.iter().filter(|(key, _)| is_wanted(key));
        Ok(wanted.map(|(key, row)| (key.clone(), row.clone())).collect())
    }

    /// Checks that `V` is the row of this state.
    pub(super) fn check_row<V: Row>(&self, state: &str) -> Result<()> {
        if self.state(state)?.borrow().fields == row::fields::<V>() {
            return Ok(());
        }
        Err(Error::new(format!("state `{state}` has rows with other fields")))
    }

    pub(super) fn calls(&self, state: &str) -> Result<StateCalls> {
        Ok(self.state(state)?.borrow().calls)
    }

    pub(super) fn logs(&self) -> Vec<(Level, String)> {
        self.logs.borrow().clone()
    }

    fn state(&self, name: &str) -> Result<&Rc<RefCell<State>>> {
        self.states.get(name).ok_or_else(|| {
            wit::Error {
                kind: ErrorKind::NotDeclared,
                message: format!("the operator declares no state `{name}`"),
            }
            .into()
        })
    }
}

impl Host for Memory {
    fn open_state(&self, name: &str) -> Result<Box<dyn StateHandle>> {
        Ok(Box::new(Handle {
            key_fields: self.key_fields.clone(),
            state: Rc::clone(self.state(name)?),
            current: Rc::clone(&self.current),
        }))
    }

    fn log(&self, level: Level, message: &str) {
        self.logs.borrow_mut().push((level, message.to_owned()));
    }

    fn log_enabled(&self, _: Level) -> bool {
        true
    }
}

/// A state as the operator has it.
struct Handle {
    key_fields: Vec<wit::Field>,
    state: Rc<RefCell<State>>,
    current: Rc<RefCell<Option<Vec<Cells>>>>,
}

impl Handle {
    fn keys(&self, keys: &wit::Keys) -> Result<Vec<Cells>> {
        let current = self.current.borrow();
        let current = current.as_ref().ok_or_else(|| {
            Error::invalid_argument("the keys of the batch are there only in `process`")
        });
        match keys {
            wit::Keys::Current => current.cloned(),
            wit::Keys::Selected(indices) => {
                let current = current?;
                (0..indices.len() / 4)
                    .map(|position| {
                        let index = chunk(indices, position).map(u32::from_le_bytes);
                        let key = index.and_then(|index| current.get(index as usize));
                        key.cloned().ok_or_else(|| Error::invalid_argument("no such key"))
                    })
                    .collect()
            }
            wit::Keys::Explicit(keys) => {
                let rows = keys.rows as usize;
                check(&keys.columns, &self.key_fields, rows)?;
                table::rows(&keys.columns, &self.key_fields, rows)
            }
        }
    }
}

impl StateHandle for Handle {
    fn get(&self, keys: &wit::Keys) -> Result<wit::Rows> {
        let keys = self.keys(keys)?;
        let mut state = self.state.borrow_mut();
        state.calls.gets += 1;
        state.calls.keys_read += keys.len() as u64;
        let rows: Vec<_> = keys.iter().map(|key| state.rows.get(key)).collect();
        let mut present = vec![0_u8; rows.len().div_ceil(8)];
        for (bits, rows) in present.iter_mut().zip(rows.chunks(8)) {
            let is_there = rows.iter().map(|row| u8::from(row.is_some()));
            *bits = is_there.enumerate().fold(0, |bits, (bit, is_there)| bits | is_there << bit);
        }
        Ok(wit::Rows {
            present: rows.iter().any(Option::is_none).then_some(present),
            columns: table::columns(&state.fields, rows.into_iter())?,
        })
    }

    fn put(&self, keys: &wit::Keys, columns: &[wit::Column]) -> Result<()> {
        let keys = self.keys(keys)?;
        let mut state = self.state.borrow_mut();
        check(columns, &state.fields, keys.len())?;
        state.calls.puts += 1;
        state.calls.keys_written += keys.len() as u64;
        let rows = table::rows(columns, &state.fields, keys.len())?;
        state.rows.extend(keys.into_iter().zip(rows));
        Ok(())
    }

    fn delete(&self, keys: &wit::Keys) -> Result<()> {
        let keys = self.keys(keys)?;
        let mut state = self.state.borrow_mut();
        state.calls.deletes += 1;
        state.calls.keys_deleted += keys.len() as u64;
        for key in &keys {
            state.rows.remove(key);
        }
        Ok(())
    }
}

fn check(columns: &[wit::Column], fields: &[wit::Field], rows: usize) -> Result<()> {
    if columns.len() != fields.len() {
        return Err(row::wrong_column_count(fields.len(), columns.len()));
    }
    fields.iter().zip(columns).try_for_each(|(field, column)| {
        column
            .check(field.type_, field.nullable, rows)
            .map_err(|error| error.context(format!("column `{}`", field.name)))
    })
}
