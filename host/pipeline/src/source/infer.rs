//! Guesses the type of a column from a sample.

use super::column_builder::{ColumnBuilder, Value};
use howdah_state::{Column, ColumnType};

/// Rows that a sample has at most.
pub(super) const SAMPLE_ROWS: usize = 1_000;

/// What a column may be, narrowest first.
const CANDIDATES: [ColumnType; 5] = [
    ColumnType::Int64,
    ColumnType::Float64,
    ColumnType::Boolean,
    ColumnType::TimestampMillis,
    ColumnType::Utf8,
];

/// A guess that each value narrows down.
#[derive(Debug)]
pub(super) struct Guess {
    possible: Vec<ColumnBuilder>,
    seen: bool,
}

impl Guess {
    pub(super) fn new() -> Self {
        let builder = |candidate| ColumnBuilder::new(Column::required("sample", candidate), 1);
        Self { possible: CANDIDATES.into_iter().map(builder).collect(), seen: false }
    }

    pub(super) fn observe(&mut self, value: Value<'_>) {
        if matches!(value, Value::Null) {
            return;
        }
        self.seen = true;
        self.possible.retain_mut(|candidate| {
            let fits = candidate.append(value).is_ok();
            candidate.truncate(0);
            fits
        });
    }

    /// The narrowest type that takes all values; `None` when there was none, or none fits.
    pub(super) fn column_type(&self) -> Option<ColumnType> {
        let first = self.possible.first().filter(|_| self.seen)?;
        Some(first.column().column_type)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guessed(fields: &[&str]) -> Option<ColumnType> {
        let mut guess = Guess::new();
        for field in fields {
            guess.observe(Value::Field(field.as_bytes()));
        }
        guess.column_type()
    }

    #[test]
    fn the_narrowest_type_of_all_values_is_guessed() {
        assert_eq!(guessed(&["1", "2"]), Some(ColumnType::Int64));
        assert_eq!(guessed(&["1", "2.5"]), Some(ColumnType::Float64));
        assert_eq!(guessed(&["true", "false"]), Some(ColumnType::Boolean));
        assert_eq!(guessed(&["2024-01-01 00:00:00"]), Some(ColumnType::TimestampMillis));
        assert_eq!(guessed(&["1", "one"]), Some(ColumnType::Utf8));
    }

    #[test]
    fn without_a_value_nothing_is_guessed() {
        assert_eq!(guessed(&[]), None);
    }
}
