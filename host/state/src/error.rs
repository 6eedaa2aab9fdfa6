//! What can go wrong in the state store, and what to do about it.

use std::path::Path;

/// The result of a call into the state store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller should do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The arguments are wrong: mend the call.
    InvalidArgument,
    /// The answer would be larger than the caller said it may be (`limit_answers`): ask for less.
    LimitExceeded,
    /// Another process has the directory: wait for it, or stop it.
    Locked,
    /// There is no such table, snapshot or checkpoint: name another.
    NotFound,
    /// Files on disk are damaged or not as this version writes them: restore from an
    /// earlier checkpoint.
    Corrupt,
    /// Stored state has another shape than asked for: migrate it, or start afresh.
    Incompatible,
    /// The file system failed (full, unreachable, no permission): mend it and run again.
    Storage,
    /// The background part of the store has stopped: after an earlier error, or because the store
    /// was closed. Open it again.
    Closed,
    /// A fault of this library, not of the caller or the disk: report it.
    Internal,
}

/// An error of the state store. The message names the table, file or column, and the way out where
/// there is one.
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

    /// Whether what a file holds is at fault, not the reading of it.
    pub(crate) fn is_about_content(&self) -> bool {
        matches!(self.kind, ErrorKind::Corrupt | ErrorKind::Incompatible)
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    /// Something that cannot be, unless this library is wrong.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    pub(crate) fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// A failed operation on a file: says what was tried on which file.
    pub(crate) fn io(action: &str, path: &Path, source: std::io::Error) -> Self {
        let hint = match source.kind() {
            std::io::ErrorKind::StorageFull => "; make space and run again",
            std::io::ErrorKind::PermissionDenied => "; check the permissions",
            _ => "",
        };
        Self {
            kind: ErrorKind::Storage,
            message: format!("cannot {action} {}: {source}{hint}", path.display()),
            source: Some(Box::new(source)),
        }
    }

    /// The same, with what led to the file that it names.
    pub(crate) fn within(mut self, what: &str) -> Self {
        self.message = format!("{what}: {}", self.message);
        self
    }

    pub(crate) fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self { kind, message: message.into(), source: Some(Box::new(source)) }
    }
}
