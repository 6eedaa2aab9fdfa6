//! What the operator says it is.

use crate::bindings::exports::howdah::operator::operator::{
    Error, Field, InputSpec, OutputSpec, Spec, StateKind, StateSpec,
};
use crate::bindings::howdah::operator::logging::{self, Level};
use crate::bindings::howdah::operator::types::ValueType;
use crate::{Config, Mode, buffers, process};

/// The state: how many rows each auction had.
pub(crate) const COUNTS: &str = "counts";

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
        states: vec![StateSpec {
            name: COUNTS.to_owned(),
            kind: StateKind::Value,
            fields: vec![field("bids", ValueType::Int64, false)],
            schema_version: 1,
            ttl: None,
        }],
        timers: Vec::new(),
    })
}

fn field(name: &str, value_type: ValueType, nullable: bool) -> Field {
    Field { name: name.to_owned(), type_: value_type, nullable }
}
