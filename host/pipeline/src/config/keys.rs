//! What a pipeline file may have: its keys, each with its type, its default and its meaning.
//!
//! The parser takes names, ranges and words from here, and so do the [JSON Schema and the reference
//! page](super::reference).

use super::{
    PARALLELISM_LIMIT, SNAPSHOT_RETAINED_LEAST_MS, TIME_LIMIT_MS, TOLERATED_FAILURES_LIMIT,
    operator, sink, source,
};
use howdah_state::KeyGroups;

/// What the file may have.
pub(super) const FILE: &[Key] = &[
    required(
        "name",
        Kind::Text,
        "Letters, digits, `-` and single `_`; part of the names of its state tables",
    ),
    default(
        "parallelism",
        Kind::Integer(1, PARALLELISM_LIMIT),
        "1",
        "Subtasks of each operator that does not say otherwise. `howdah rescale` changes it once \
         there is a checkpoint",
    ),
    optional(
        "state-directory",
        Kind::Text,
        "State, checkpoints, the lock and the control socket; `.howdah/NAME` unless stated",
    ),
    default("tenant", Kind::Text, "\"default\"", "The database of the state tables"),
    default(
        "key-groups",
        Kind::Integer(1, KeyGroups::COUNT_LIMIT as u64),
        "1024",
        "Parts that the keys are split into, at least as many as subtasks. Fixed once there is a \
         checkpoint",
    ),
    optional("checkpoint", Kind::Table(CHECKPOINT), "When and how to checkpoint"),
    required("source", Kind::Nodes(source::KEYS), "What to read"),
    optional(
        "operator",
        Kind::Nodes(operator::KEYS),
        "What to run. Without one, rows go on as they are",
    ),
    required("sink", Kind::Nodes(sink::KEYS), "Where to write"),
];

/// What `[checkpoint]` may have.
const CHECKPOINT: &[Key] = &[
    default("interval-ms", Kind::Integer(1, TIME_LIMIT_MS), "500", "From one barrier to the next"),
    default(
        "retained",
        Kind::Integer(1, 1_000),
        "3",
        "Completed checkpoints that can be gone back to and read",
    ),
    default(
        "sync",
        Kind::Boolean,
        "true",
        "Sync files to the disk, so that a checkpoint survives a power failure",
    ),
    default(
        "snapshot-retained-ms",
        Kind::Integer(SNAPSHOT_RETAINED_LEAST_MS, TIME_LIMIT_MS),
        "60000",
        "How long readers may go on with a snapshot that is superseded",
    ),
    default(
        "least-pause-ms",
        Kind::Integer(0, TIME_LIMIT_MS),
        "0",
        "From the end of a checkpoint to the next barrier, at least",
    ),
    default(
        "timeout-ms",
        Kind::Integer(1, TIME_LIMIT_MS),
        "600000",
        "A checkpoint that takes longer has failed; the next one has what it would have had",
    ),
    default(
        "tolerated-failures",
        Kind::Integer(0, TOLERATED_FAILURES_LIMIT),
        "0",
        "Checkpoints that may fail one after the other before the pipeline does",
    ),
];

/// The words for a [`Format`](super::Format).
pub(super) const FORMATS: &[&str] = &["csv", "ndjson", "parquet"];

/// A key of a table of the pipeline file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) presence: Presence,
    /// The kinds of source or sink that have it; empty: all.
    pub(super) only: &'static [&'static str],
    pub(super) meaning: &'static str,
}

/// What stands behind a key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Text,
    Boolean,
    /// A whole number, from and to.
    Integer(u64, u64),
    /// One of these words.
    Choice(&'static [&'static str]),
    Texts,
    /// A text, or several.
    TextOrTexts,
    /// A text, a number, true or false, a date.
    Scalar,
    /// Whatever TOML has.
    Any,
    Table(&'static [Key]),
    /// A text, or a table of these keys.
    TextOr(&'static [Key]),
    /// A text, several, or a table of these keys.
    TextsOr(&'static [Key]),
    /// A table with values of these names.
    Settings(&'static [&'static str]),
    /// A table whose keys are free, with such values.
    Map(&'static Kind),
    /// The one table of these keys, or one of each name.
    Nodes(&'static [Key]),
}

/// Whether a key must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    /// Where the node has no name that stands for it.
    RequiredInShortForm,
    Optional,
    /// Unless stated it is this TOML value.
    Default(&'static str),
}

/// A key that must be there.
pub(super) const fn required(name: &'static str, kind: Kind, meaning: &'static str) -> Key {
    Key { name, kind, presence: Presence::Required, only: &[], meaning }
}

/// A key that may be left out.
pub(super) const fn optional(name: &'static str, kind: Kind, meaning: &'static str) -> Key {
    Key { name, kind, presence: Presence::Optional, only: &[], meaning }
}

/// A key with a default.
pub(super) const fn default(
    name: &'static str,
    kind: Kind,
    value: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, kind, presence: Presence::Default(value), only: &[], meaning }
}

impl Key {
    /// Only these kinds of source or sink have it.
    pub(super) const fn only(self, kinds: &'static [&'static str]) -> Self {
        Self { only: kinds, ..self }
    }
}

impl Kind {
    /// The keys of such a table, where they are given.
    pub(super) fn keys(self) -> &'static [Key] {
        match self {
            Self::Table(keys) | Self::TextOr(keys) | Self::TextsOr(keys) | Self::Nodes(keys) => {
                keys
            }
            _ => &[],
        }
    }

    /// The names of its keys, where they are given.
    pub(super) fn names(self) -> Vec<&'static str> {
        match self {
            Self::Settings(names) => names.to_vec(),
            _ => self.keys().iter().map(|key| key.name).collect(),
        }
    }

    /// Whether a table may be such a value.
    pub(super) fn takes_table(self) -> bool {
        match self {
            Self::Text | Self::Boolean | Self::Integer(..) | Self::Choice(_) => false,
            Self::Texts | Self::TextOrTexts | Self::Scalar => false,
            Self::Any | Self::Table(_) | Self::TextOr(_) | Self::TextsOr(_) => true,
            Self::Settings(_) | Self::Map(_) | Self::Nodes(_) => true,
        }
    }

    /// What stands behind a key of such a table; `None`: it has no such key.
    pub(super) fn of(self, name: &str) -> Option<Self> {
        match self {
            Self::Map(value) => Some(*value),
            Self::Settings(names) => names.contains(&name).then_some(Self::Scalar),
            // Whatever it is called.
            Self::Nodes(keys) => Some(Self::Table(keys)),
            _ => self.keys().iter().find(|key| key.name == name).map(|key| key.kind),
        }
    }
}
