//! What the operator is told to do.

use serde::Deserialize;

use crate::bindings::exports::howdah::operator::operator::{Error, Field};
use crate::bindings::howdah::operator::types::{Decimal, ErrorKind, ValueType};

/// One of the scripts: `{"columns": {..}}` or `{"timers": {..}}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Config {
    /// Rows go through a state and come out again.
    Columns(Columns),
    /// Rows set and delete timers; timers that fire come out.
    Timers(Timers),
}

/// Which way rows take.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Columns {
    /// The fields of the input, `["name", "type", nullable]`.
    pub fields: Vec<(String, String, bool)>,
    /// Names of the key fields.
    pub key: Vec<String>,
    /// What the rows go through.
    pub through: Through,
    /// How the keys are named in state calls.
    pub keys: Keys,
    /// Whether a second value state, `also`, gets the rows too.
    #[serde(default)]
    pub also: bool,
}

/// What rows go through on their way from input to output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Through {
    /// Nothing.
    Nothing,
    /// A value state: the fields that are no keys are its values.
    Value,
    /// A list state, the same way.
    List,
    /// A map state, the same way, under the number of the row.
    Map,
    /// The keys of a map state, which has the fields that are no keys twice: as map key and, but
    /// for the name, as value.
    MapKey,
    /// A reducing state that keeps the last.
    Reducing,
}

/// How keys are named in state calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keys {
    /// As the current ones.
    Current,
    /// By index.
    Selected,
    /// As columns.
    Explicit,
}

/// How timers behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Timers {
    /// A timer whose time is a multiple of this sets another of its family one millisecond
    /// earlier; 0: none does.
    pub again_every: i64,
    /// Timers that fire set themselves again.
    pub for_ever: bool,
    /// A timer that fires deletes the one of its key that is due one millisecond later.
    pub deletes_next: bool,
    /// How many families it has, the first ones; `None`: all.
    pub families: Option<usize>,
}

impl Config {
    pub(crate) fn parse(json: &str) -> Result<Self, Error> {
        serde_json::from_str(json).map_err(|error| Error {
            kind: ErrorKind::InvalidConfig,
            message: format!("configuration: {error}"),
        })
    }
}

impl Columns {
    /// The fields, as the contract has them.
    pub(crate) fn fields(&self) -> Result<Vec<Field>, Error> {
        self.fields
            .iter()
            .map(|(name, type_, nullable)| {
                Ok(Field { name: name.clone(), type_: value_type(type_)?, nullable: *nullable })
            })
            .collect()
    }

    pub(crate) fn is_key(&self, name: &str) -> bool {
        self.key.iter().any(|key| key == name)
    }
}

fn value_type(text: &str) -> Result<ValueType, Error> {
    let unknown =
        || Error { kind: ErrorKind::InvalidConfig, message: format!("there is no type `{text}`") };
    Ok(match text {
        "boolean" => ValueType::Boolean,
        "int32" => ValueType::Int32,
        "int64" => ValueType::Int64,
        "float32" => ValueType::Float32,
        "float64" => ValueType::Float64,
        "date" => ValueType::Date,
        "timestamp-millis" => ValueType::TimestampMillis,
        "utf8" => ValueType::Utf8,
        "binary" => ValueType::Binary,
        decimal => {
            let digits = decimal
                .strip_prefix("decimal128(")
                .and_then(|rest| rest.strip_suffix(')'))
                .and_then(|digits| digits.split_once(','))
                .ok_or_else(unknown)?;
            ValueType::Decimal128(Decimal {
                precision: digits.0.parse().map_err(|_| unknown())?,
                scale: digits.1.parse().map_err(|_| unknown())?,
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_written_as_the_host_shows_them() {
        assert!(matches!(value_type("timestamp-millis"), Ok(ValueType::TimestampMillis)));
        let decimal = value_type("decimal128(9,3)").unwrap();
        let ValueType::Decimal128(decimal) = decimal else { panic!("{decimal:?}") };
        assert_eq!((decimal.precision, decimal.scale), (9, 3));
        assert!(value_type("decimal").is_err());
    }
}
