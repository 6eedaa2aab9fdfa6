//! What can go wrong with a pipeline.

use crate::config::enumerate;
use std::fmt;
use std::path::Path;

/// The result of a call into this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller should do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The pipeline file is wrong: mend the line that the message names.
    Config,
    /// The input has a row or a shape that cannot be read: mend the file, or choose
    /// `on-error = "skip"` or `"dead-letter"`.
    Input,
    /// The operator failed, or does not fit the pipeline or this host: mend the operator.
    Operator,
    /// Another process has the state directory or the output directory: wait for it, or
    /// stop it.
    Locked,
    /// A checkpoint document or a state file is damaged, or written by a newer version:
    /// start from an earlier checkpoint.
    Corrupt,
    /// The checkpoint belongs to a pipeline of another shape: undo the change, or start
    /// afresh.
    Incompatible,
    /// The file system failed (full, unreachable, no permission): mend it and run again.
    Storage,
    /// What a connector talks to, such as a broker, failed or refused: mend it and run again.
    External,
    /// What a connector talks to cannot be reached, or does not answer in time: run again once it
    /// does. A pipeline that ran is started again.
    Unreachable,
    /// The host failed; this is a defect of howdah.
    Internal,
}

/// An error of a pipeline. The message names the file, line, column or operator, and the
/// way out.
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
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// A line of the pipeline file is wrong.
    pub(crate) fn config(file: &Path, line: u32, message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Config, format!("{}:{line}: {message}", file.display()))
    }

    /// All of these in one: their messages, one a line, and the kind of the first.
    pub(crate) fn all(errors: Vec<Self>) -> Result<()> {
        let mut errors = errors.into_iter();
        let Some(first) = errors.next() else { return Ok(()) };
        Err(errors.fold(first, |mut all, error| {
            all.message = format!("{}\n{}", all.message, error.message);
            all
        }))
    }

    /// A failed operation on a file: says what was tried on which file.
    pub(crate) fn io(action: &str, path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Io;
        let message = match source.kind() {
            Io::StorageFull | Io::QuotaExceeded => format!(
                "cannot {action} {}: no space left on device; make space and run again",
                path.display()
            ),
            Io::FileTooLarge => format!(
                "cannot {action} {}: the file would be larger than this process or the file \
                 system allows; raise the limit (ulimit -f) and run again",
                path.display()
            ),
            Io::PermissionDenied => format!(
                "cannot {action} {}: permission denied; check the permissions",
                path.display()
            ),
            _ => format!("cannot {action} {}: {source}", path.display()),
        };
        Self { kind: ErrorKind::Storage, message, source: Some(Box::new(source)) }
    }

    /// The same error, found on a line of the pipeline file.
    pub(crate) fn at(mut self, file: &Path, line: u32) -> Self {
        self.message = format!("{}:{line}: {}", file.display(), self.message);
        self
    }

    /// The same message with a sentence added: on a line of its own where the message has lines, as
    /// one with a stack of the guest has.
    pub(crate) fn with_hint(mut self, hint: impl fmt::Display) -> Self {
        let between = if self.message.contains('\n') { "\n" } else { "; " };
        self.message = format!("{}{between}{hint}", self.message.trim_end());
        self
    }
}

impl From<howdah_state::Error> for Error {
    fn from(source: howdah_state::Error) -> Self {
        use howdah_state::ErrorKind as State;
        let kind = match source.kind() {
            State::Locked => ErrorKind::Locked,
            State::Corrupt => ErrorKind::Corrupt,
            State::Incompatible => ErrorKind::Incompatible,
            State::Storage => ErrorKind::Storage,
            State::NotFound => ErrorKind::Corrupt,
            State::InvalidArgument | State::LimitExceeded | State::Closed | State::Internal => {
                ErrorKind::Internal
            }
        };
        Self { kind, message: source.to_string(), source: Some(Box::new(source)) }
    }
}

impl From<howdah_runtime::Error> for Error {
    fn from(source: howdah_runtime::Error) -> Self {
        use howdah_runtime::ErrorKind as Runtime;
        let kind = match source.kind() {
            Runtime::Component
            | Runtime::Operator
            | Runtime::Trap
            | Runtime::Limit
            | Runtime::Buffer => ErrorKind::Operator,
            Runtime::State => ErrorKind::Storage,
            Runtime::Host => ErrorKind::Internal,
        };
        Self { kind, message: source.to_string(), source: Some(Box::new(source)) }
    }
}

/// Arrow refuses what was built to fit: a defect here, not of the data.
impl From<arrow_schema::ArrowError> for Error {
    fn from(source: arrow_schema::ArrowError) -> Self {
        Self {
            kind: ErrorKind::Internal,
            message: format!("columns of a batch do not fit together: {source}"),
            source: Some(Box::new(source)),
        }
    }
}

/// ``; did you mean `x`?`` when one of the names is close, else nothing.
pub(crate) fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    known
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| format!("; did you mean `{candidate}`?"))
        .unwrap_or_default()
}

/// A close name, or else all there are.
pub(crate) fn suggestion_or_list<'a, I: Iterator<Item = &'a str>>(
    name: &str,
    known: impl Fn() -> I,
    verb: &str,
) -> String {
    let close = suggestion(name, known());
    if !close.is_empty() {
        return close;
    }
    let known: Vec<&str> = known().collect();
    format!("; {verb} {}", enumerate(&known, "and"))
}
