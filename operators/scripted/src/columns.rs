//! Rows go through a state and come out as they came in.

use crate::bindings::exports::howdah::operator::operator::{
    Error, Field, Input, InputSpec, Output, OutputSpec, Reducer, Spec, StateKind, StateSpec,
};
use crate::bindings::howdah::operator::state::{
    self, ListState, MapRange, MapState, ReducingState, ValueState,
};
use crate::bindings::howdah::operator::types::{Batch, Column, ValueType};
use crate::{Columns, Keys, Through, error};

const STATE: &str = "rows";
const ALSO: &str = "also";
/// More rows of a key than any test has.
const LIMIT_ROWS: u32 = 1 << 20;

enum State {
    None,
    Value(ValueState),
    List(ListState),
    Map(MapState),
    MapKey(MapState),
    Reducing(ReducingState),
}

/// The script, open.
pub(crate) struct Script {
    config: Columns,
    state: State,
    also: Option<ValueState>,
}

pub(crate) fn describe(config: &Columns) -> Result<Spec, Error> {
    let fields = config.fields()?;
    let values: Vec<Field> =
        fields.iter().filter(|field| !config.is_key(&field.name)).cloned().collect();
    let again = |field: &Field| Field { name: format!("{}_again", field.name), ..field.clone() };
    let number = Field { name: "number".to_owned(), type_: ValueType::Int32, nullable: false };
    let kind = match config.through {
        Through::Nothing => None,
        Through::Value => Some(StateKind::Value),
        Through::List => Some(StateKind::List),
        Through::Map => Some(StateKind::Map(vec![number])),
        Through::MapKey => Some(StateKind::Map(values.clone())),
        Through::Reducing => Some(StateKind::Reducing(vec![Reducer::Last; values.len()])),
    };
    let also = config.also.then(|| StateSpec {
        name: ALSO.to_owned(),
        fields: values.clone(),
        kind: StateKind::Value,
        schema_version: 1,
        ttl: None,
    });
    let state = kind.map(|kind| StateSpec {
        name: STATE.to_owned(),
        fields: match config.through {
            Through::MapKey => values.iter().map(again).collect(),
            _ => values,
        },
        kind,
        schema_version: 1,
        ttl: None,
    });
    Ok(Spec {
        inputs: vec![InputSpec {
            name: "rows".to_owned(),
            fields: fields.clone(),
            key: config.key.clone(),
            changelog: true,
        }],
        outputs: vec![OutputSpec { name: "rows".to_owned(), fields, changelog: true }],
        states: state.into_iter().chain(also).collect(),
        timers: Vec::new(),
    })
}

impl Script {
    pub(crate) fn open(config: Columns) -> Result<Self, Error> {
        let state = match config.through {
            Through::Nothing => State::None,
            Through::Value => State::Value(ValueState::open(STATE)?),
            Through::List => State::List(ListState::open(STATE)?),
            Through::Map => State::Map(MapState::open(STATE)?),
            Through::MapKey => State::MapKey(MapState::open(STATE)?),
            Through::Reducing => State::Reducing(ReducingState::open(STATE)?),
        };
        let also = config.also.then(|| ValueState::open(ALSO)).transpose()?;
        Ok(Self { config, state, also })
    }

    /// The rows have different keys, in order: row `i` has key `i`.
    pub(crate) fn process(&self, input: Input) -> Result<Vec<Output>, Error> {
        let rows = input.batch.rows;
        let is_key: Vec<bool> =
            self.config.fields.iter().map(|(name, ..)| self.config.is_key(name)).collect();
        let mut keys = Vec::new();
        let mut values = Vec::new();
        for (column, is_key) in input.batch.columns.iter().zip(&is_key) {
            if *is_key { keys.push(column.clone()) } else { values.push(column.clone()) }
        }
        let named = match self.config.keys {
            Keys::Current => state::Keys::Current,
            Keys::Selected => state::Keys::Selected(u32s(0..rows)),
            Keys::Explicit => state::Keys::Explicit(input.keys),
        };
        if let Some(also) = &self.also {
            also.put(&named, &values)?;
        }
        let mut through = self.through(&named, rows, &values)?.into_iter();
        let mut keys = keys.into_iter();
        let columns =
            is_key.iter().map(|is_key| if *is_key { keys.next() } else { through.next() });
        let columns = columns.collect::<Option<Vec<Column>>>();
        let columns = columns.ok_or_else(|| error("a column is missing"))?;
        let batch = Batch { rows, columns, row_kinds: input.batch.row_kinds };
        Ok(vec![Output { port: 0, batch, timestamps: input.timestamps }])
    }

    /// Writes the values and reads them back.
    fn through(
        &self,
        keys: &state::Keys,
        rows: u32,
        values: &[Column],
    ) -> Result<Vec<Column>, Error> {
        let key_of = u32s(0..rows);
        let all = |present: Option<Vec<u8>>, columns| match present {
            None => Ok(columns),
            Some(_) => Err(error("a row is missing")),
        };
        let ordered = |found: &[u8], truncated: Option<Vec<u8>>| {
            if found == key_of && truncated.is_none() {
                Ok(())
            } else {
                Err(error("other rows than were written"))
            }
        };
        match &self.state {
            State::None => Ok(values.to_vec()),
            State::Value(state) => {
                state.put(keys, values)?;
                let found = state.get(keys)?;
                all(found.present, found.columns)
            }
            State::List(state) => {
                state.clear(keys)?;
                state.append(keys, &key_of, values)?;
                let found = state.get(keys, LIMIT_ROWS)?;
                ordered(&found.key_of, found.truncated)?;
                Ok(found.columns)
            }
            State::Map(state) => {
                let number = [Column { data: key_of.clone(), offsets: None, validity: None }];
                state.clear(keys)?;
                state.put(keys, &key_of, &number, values)?;
                let found = state.get(keys, &key_of, &number)?;
                all(found.present, found.columns)
            }
            State::MapKey(state) => {
                state.clear(keys)?;
                state.put(keys, &key_of, values, values)?;
                let range = MapRange { from: None, to: None };
                let found = state.entries(keys, &range, LIMIT_ROWS)?;
                ordered(&found.key_of, found.truncated)?;
                Ok(found.map_keys)
            }
            State::Reducing(state) => {
                state.clear(keys)?;
                state.add(keys, values)?;
                let found = state.get(keys)?;
                all(found.present, found.columns)
            }
        }
    }
}

fn u32s(values: impl Iterator<Item = u32>) -> Vec<u8> {
    values.flat_map(u32::to_le_bytes).collect()
}
