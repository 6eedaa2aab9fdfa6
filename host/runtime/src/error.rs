/// The result of a call into the runtime.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What the caller should do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file is no component, or one that does not fit this host: build it anew.
    Component,
    /// The operator refused its configuration or a batch (it returned an error).
    Operator,
    /// The operator trapped (panic, out of bounds, stack overflow).
    Trap,
    /// The operator went past a limit (time, memory, size of a batch).
    Limit,
    /// The operator returned a buffer that is not what its schema says.
    Buffer,
    /// The state store failed.
    State,
    /// The host failed (cache directory, engine).
    Host,
}

/// An error of the runtime. The message names the component and the function.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}
impl Error {
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}
