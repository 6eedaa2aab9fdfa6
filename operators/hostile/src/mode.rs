use serde::Deserialize;

use crate::bindings::exports::howdah::operator::operator::Error;
use crate::bindings::howdah::operator::types::ErrorKind;

/// What the operator is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// How to misbehave.
    pub mode: Mode,
    /// How many batches to process honestly first.
    pub after_batches: u32,
}

impl Config {
    pub(crate) fn parse(json: &str) -> Result<Self, Error> {
        serde_json::from_str(json).map_err(|error| Error {
            kind: ErrorKind::InvalidConfig,
            message: format!("configuration: {error}"),
        })
    }
}

/// A way to misbehave; in the configuration it is written `like-this`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Not at all.
    #[default]
    None,

    /// `process` never returns.
    Loop,
    /// `process` allocates for ever.
    Allocate,
    /// `process` panics.
    Panic,
    /// `process` counts as it should, and then panics.
    PanicAfterPut,
    /// `process` panics when it has written its state and a row's auction is divisible by seven.
    PanicOnSevens,
    /// `process` overflows its stack.
    Recurse,
    /// `process` returns an error.
    Error,
    /// `process` logs a message, and returns an error, that would clear a terminal, turn the
    /// direction of text around, and look like messages of the host.
    ErrorUnprintable,

    /// A column of fixed width lacks a byte.
    ShortData,
    /// An offset is smaller than the one before it.
    OffsetsDescending,
    /// The last offset lies past the end of the data.
    OffsetsPastEnd,
    /// There is one offset too few.
    OffsetsTooShort,
    /// A text column has no offsets.
    OffsetsMissing,
    /// A text column holds bytes that are no UTF-8.
    InvalidUtf8,
    /// A text column is UTF-8 as a whole, but an offset cuts a character in two.
    SplitCharacter,
    /// The validity bitmap has no byte.
    ValidityTooShort,
    /// A column that is not nullable has a null.
    NullNotNullable,
    /// A bitmap has bits past the last row.
    BitsPastEnd,
    /// A column is missing.
    WrongColumnCount,
    /// The batch says that it has 4,294,967,295 rows.
    HugeRows,
    /// The rows are for an output that was not declared.
    UndeclaredPort,
    /// A row has no event time.
    TimestampsTooShort,
    /// A row kind is none of the four; the output is declared as a changelog.
    RowKindsInvalid,
    /// Rows have kinds, but the output is not declared as a changelog.
    RowKindsUndeclared,

    /// Opens a state that was not declared.
    StateUndeclared,
    /// Puts rows with a column too many.
    StatePutWrongColumns,
    /// Puts rows whose column is too short.
    StatePutShortData,
    /// Names a key past the end of the batch's keys.
    StateSelectedOutOfRange,
    /// Gives keys explicitly of which, unless there is one subtask only, most belong to others.
    StateExplicitForeignKey,
    /// Gives keys explicitly whose column is too short.
    StateExplicitMalformed,
    /// Makes a state call that fails, drops the error, and returns no rows.
    StateDropError,

    /// Opens its state again and again, and keeps every handle.
    LeakHandles,
    /// Uses a handle that it was never given.
    ForgedHandle,
    /// Logs a hundred thousand messages, then behaves.
    LogFlood,
    /// Logs one message of 16 MiB, then behaves.
    LogLarge,
    /// A batch of a thousand columns that are all the same mebibyte of memory.
    AliasedOutput,
    /// A batch of ten million well-formed rows.
    TenMillionRows,
    /// Batches without rows, well-formed: no harm is meant.
    EmptyOutputs,
    /// Opens a list state as a map state.
    ListAsMap,
    /// Appends a row to the list of a key past the last.
    ListAppendKeyPastLast,
    /// Appends rows with a key index that lacks a byte.
    ListAppendShortKeyOf,
    /// Appends rows of which one is no UTF-8.
    ListAppendInvalidUtf8,
    /// Appends rows without the column.
    ListAppendNoColumn,
    /// Appends more rows than an answer may have, then asks for all.
    ListGetTooMuch,
    /// Names one key more often than an answer may have rows.
    ListKeyTooOften,
    /// Puts entries with too few map keys.
    MapPutShortMapKeys,
    /// Puts entries of which one has no map key.
    MapPutNullMapKey,
    /// Puts an entry in the map of a key past the last.
    MapGetKeyPastLast,
    /// Asks for a range with a bound of two rows.
    MapRangeTwoRows,
    /// Asks for a range with a bound of another type.
    MapRangeWrongType,
    /// Adds what the sum cannot hold.
    ReducingOverflow,
    /// Adds no value where there must be one.
    ReducingNull,
    /// Opens timers that were not declared.
    TimersUndeclared,
    /// Sets timers of which one has no time.
    TimersShortTimes,
    /// Deletes a timer of another subtask's key, unless there is one subtask only.
    TimersForeignKey,
    /// Sets timers in `on-checkpoint-complete`.
    CheckpointSetsTimers,
    /// Uses the current keys in `on-watermark`.
    WatermarkUsesCurrent,
    /// `on-timers` panics.
    TimersPanic,
    /// `on-watermark` panics.
    WatermarkPanic,
    /// `on-checkpoint-complete` panics.
    CheckpointPanic,
    /// `on-barrier` panics.
    BarrierPanic,
    /// `close` panics.
    ClosePanic,
    /// `on-timers` returns a column that is too short.
    TimersMalformed,
    /// Measures under a thousand names, and names that are none.
    MetricFlood,

    /// `describe` never returns.
    DescribeLoop,
    /// `describe` returns an error.
    DescribeError,
    /// `describe` calls an import.
    DescribeCallsImport,
    /// `describe` names a float as key.
    DescribeFloatKey,
    /// `describe` allocates for ever.
    DescribeAllocate,
    /// `describe` returns a name of 16 MiB.
    DescribeLongName,
    /// `describe` returns a million fields with short names.
    DescribeManyFields,
}

impl Mode {
    /// Whether it needs list, map and reducing state and timers.
    pub(crate) fn misuses_other_kinds(self) -> bool {
        use Mode as M;
        matches!(
            self,
            M::ListAsMap
                | M::ListAppendKeyPastLast
                | M::ListAppendShortKeyOf
                | M::ListAppendInvalidUtf8
                | M::ListAppendNoColumn
                | M::ListGetTooMuch
                | M::ListKeyTooOften
                | M::MapPutShortMapKeys
                | M::MapPutNullMapKey
                | M::MapGetKeyPastLast
                | M::MapRangeTwoRows
                | M::MapRangeWrongType
                | M::ReducingOverflow
                | M::ReducingNull
                | M::TimersUndeclared
                | M::TimersShortTimes
                | M::TimersForeignKey
                | M::CheckpointSetsTimers
                | M::WatermarkUsesCurrent
                | M::TimersPanic
                | M::TimersMalformed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_configuration_it_behaves() {
        let config = Config::parse("{}").unwrap();
        assert_eq!(config, Config { mode: Mode::None, after_batches: 0 });
    }

    #[test]
    fn a_mode_is_written_in_kebab_case() {
        let config = Config::parse(r#"{"mode": "offsets-past-end", "after_batches": 2}"#).unwrap();
        assert_eq!(config, Config { mode: Mode::OffsetsPastEnd, after_batches: 2 });
    }

    #[test]
    fn an_unknown_mode_is_refused() {
        let error = Config::parse(r#"{"mode": "polite"}"#).unwrap_err();
        assert_eq!(error.kind, ErrorKind::InvalidConfig);
        assert!(error.message.contains("polite"), "{}", error.message);
    }
}
