//! What can go wrong when an operator runs, and what to do about it.

use crate::text::printable;
use std::borrow::Cow;

/// The result of a call into the runtime.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller should do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file is no component, or one that does not fit this host, or it describes an
    /// operator that this host cannot run: build it anew.
    Component,
    /// The operator refused its configuration or a batch (it returned an error): read what
    /// it says.
    Operator,
    /// The operator trapped (panic, out of bounds, stack overflow): it has a fault.
    Trap,
    /// The operator went past a limit (time, memory, size of a batch): raise the limit that
    /// the message names, or mend the operator.
    Limit,
    /// The operator returned a buffer that is not what its schema says: it, or the SDK that
    /// it was built with, has a fault.
    Buffer,
    /// The state store failed: see the source of the error.
    State,
    /// The host failed (engine, a file that cannot be read, a batch that does not fit the
    /// operator's schema).
    Host,
}

/// An error of the runtime. The message names the component or operator and the function.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: fit(message.into()), source: None }
    }

    pub(crate) fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self { kind, message: fit(message.into()), source: Some(Box::new(source)) }
    }
}

/// Messages quote components and what operators say.
fn fit(message: String) -> String {
    match printable(&message) {
        Cow::Borrowed(_) => message,
        Cow::Owned(shown) => shown,
    }
}
