use std::fmt;

use crate::wit;

#[doc(inline)]
pub use crate::bindings::howdah::operator::types::ErrorKind;

/// The result of what may fail in an operator.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call failed. An operator that returns one fails its batch: what the batch wrote
/// and emitted is dropped, and the pipeline goes back to its last checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

impl Error {
    /// An error of the operator itself. The message is for people: it should name the
    /// thing that is wrong and, where there is one, the way out.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { kind: ErrorKind::Other, message: message.to_string() }
    }

    /// The configuration is not usable.
    pub fn invalid_config(message: impl fmt::Display) -> Self {
        Self { kind: ErrorKind::InvalidConfig, message: message.to_string() }
    }

    /// A buffer or an argument is not what it should be.
    #[cold]
    pub(crate) fn invalid_argument(message: impl fmt::Display) -> Self {
        Self { kind: ErrorKind::InvalidArgument, message: message.to_string() }
    }

    /// What sort of failure it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What went wrong, for people.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same error, its message led by what was going on: `context: message`.
    #[must_use]
    pub fn context(self, context: impl fmt::Display) -> Self {
        Self { kind: self.kind, message: format!("{context}: {}", self.message) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<wit::Error> for Error {
    fn from(error: wit::Error) -> Self {
        Self { kind: error.kind, message: error.message }
    }
}

impl From<Error> for wit::Error {
    fn from(error: Error) -> Self {
        Self { kind: error.kind, message: error.message }
    }
}
