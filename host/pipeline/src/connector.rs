//! What a checkpoint has of connectors: values that only the one reads that has written them.

use crate::error::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::Value;
use std::fmt;

/// What such a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The position of a source.
    Position,
    /// A handle of a sink.
    Output,
}

impl Kept {
    /// Refuses a value of another connector.
    pub(crate) fn check(self, wanted: &str, found: &str) -> Result<()> {
        if wanted == found {
            return Ok(());
        }
        let what = match self {
            Self::Position => "the position of a source",
            Self::Output => "output for a sink",
        };
        let message = format!(
            "the checkpoint has {what} with connector `{found}`, and the pipeline file says \
             `{wanted}`; bring the old one back, or start afresh with --fresh"
        );
        Err(Error::new(ErrorKind::Incompatible, message))
    }

    /// What the connector has written.
    pub(crate) fn read<'de, T: Deserialize<'de>>(
        self,
        connector: &str,
        value: &'de Value,
    ) -> Result<T> {
        T::deserialize(value).map_err(|error| self.unreadable(connector, error))
    }

    /// A value that its own connector cannot read.
    pub(crate) fn unreadable(self, connector: &str, error: impl fmt::Display) -> Error {
        let what = match self {
            Self::Position => "position of",
            Self::Output => "output for",
        };
        let message = format!(
            "the checkpoint's {what} connector `{connector}` cannot be read: {error}; start from an \
             earlier checkpoint with --checkpoint, or afresh with --fresh"
        );
        Error::new(ErrorKind::Corrupt, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_connector_is_refused() {
        for (kept, what) in [(Kept::Position, "a source"), (Kept::Output, "a sink")] {
            kept.check("file", "file").expect("its own");
            let error = kept.check("file", "kafka").expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Incompatible);
            let expected = format!("{what} with connector `kafka`");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_read_is_damage() {
        let error = Kept::Output.read::<u64>("files", &Value::Null).expect_err("no number");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("output for connector `files`"), "{error}");
    }
}
