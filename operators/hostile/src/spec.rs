//! What the operator says it is.

use crate::bindings::exports::howdah::operator::operator::{
    Error, Field, InputSpec, OutputSpec, Reducer, Spec, StateKind, StateSpec, TimeDomain, TimerSpec,
};
use crate::bindings::howdah::operator::logging::{self, Level};
use crate::bindings::howdah::operator::types::ValueType;
use crate::{Config, Mode, buffers, process};

/// The state: how many rows each auction had.
pub(crate) const COUNTS: &str = "counts";
/// The states and timers that the modes of other interfaces misuse; only they have them.
pub(crate) const NOTES: &str = "notes";
pub(crate) const TAGS: &str = "tags";
pub(crate) const TOTALS: &str = "totals";
pub(crate) const ALARMS: &str = "alarms";

pub(crate) fn describe(config: &Config) -> Result<Spec, Error> {
    match config.mode {
        Mode::DescribeLoop => process::loop_for_ever(),
        Mode::DescribeAllocate => process::allocate_for_ever(),
        Mode::DescribeError => return Err(buffers::error("this operator describes nothing")),
        Mode::DescribeCallsImport => logging::log(Level::Info, "a call out of `describe`"),
        _ => {}
    }
    let key = match config.mode {
        Mode::DescribeFloatKey => field("auction", ValueType::Float64, false),
        _ => field("auction", ValueType::Int64, false),
    };
    let counts = state(COUNTS, StateKind::Value, field("bids", ValueType::Int64, false));
    Ok(Spec {
        inputs: vec![InputSpec {
            name: match config.mode {
                Mode::DescribeLongName => "n".repeat(16 << 20),
                _ => "input".to_owned(),
            },
            fields: vec![key, field("price", ValueType::Int64, false)],
            key: vec!["auction".to_owned()],
            changelog: false,
        }],
        outputs: vec![OutputSpec {
            name: "output".to_owned(),
            fields: match config.mode {
                Mode::DescribeManyFields => {
                    vec![field("f", ValueType::Boolean, false); 1_000_000]
                }
                _ => vec![
                    field("auction", ValueType::Int64, false),
                    field("bids", ValueType::Int64, false),
                    field("note", ValueType::Utf8, true),
                    field("even", ValueType::Boolean, false),
                ],
            },
            changelog: config.mode == Mode::RowKindsInvalid,
        }],
        states: match config.mode.misuses_other_kinds() {
            true => vec![
                counts,
                state(NOTES, StateKind::List, field("note", ValueType::Utf8, false)),
                state(
                    TAGS,
                    StateKind::Map(vec![field("tag", ValueType::Int64, false)]),
                    field("note", ValueType::Utf8, true),
                ),
                state(
                    TOTALS,
                    StateKind::Reducing(vec![Reducer::Sum]),
                    field("total", ValueType::Int64, false),
                ),
            ],
            false => vec![counts],
        },
        timers: match config.mode.misuses_other_kinds() {
            true => vec![TimerSpec { name: ALARMS.to_owned(), domain: TimeDomain::EventTime }],
            false => Vec::new(),
        },
    })
}

fn state(name: &str, kind: StateKind, field: Field) -> StateSpec {
    StateSpec { name: name.to_owned(), kind, fields: vec![field], schema_version: 1, ttl: None }
}

fn field(name: &str, value_type: ValueType, nullable: bool) -> Field {
    Field { name: name.to_owned(), type_: value_type, nullable }
}
