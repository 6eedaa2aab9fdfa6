//! How a command fails: the message and the exit code.

use howdah_runtime::printable;
use std::process::ExitCode;

/// The result of a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command did not do what it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments or the pipeline file are wrong: nothing was started. Exit code 2.
    Usage(anyhow::Error),
    /// It was started and failed. Exit code 1.
    Failed(anyhow::Error),
    /// What was asked for is not there, and nothing is wrong. Exit code 3.
    Nothing(String),
}

impl Failure {
    /// Wrong arguments, with what to do instead.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(anyhow::Error::msg(message.into()))
    }

    /// 2 for wrong usage, 1 for a failure, 3 for nothing found.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
            Self::Nothing(_) => ExitCode::from(3),
        }
    }

    /// Whether the reader of our output has gone away, as `head` does. That is no failure.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        let (Self::Usage(error) | Self::Failed(error)) = self else { return false };
        error.chain().any(|cause| {
            cause
                .downcast_ref::<std::io::Error>()
                .is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
        })
    }

    /// What is shown of it: it may quote files and what operators say.
    pub(crate) fn shown(&self) -> String {
        printable(&self.message()).into_owned()
    }

    /// The message and its causes, one a line. A cause that the line before already quotes is
    /// left out.
    pub(crate) fn message(&self) -> String {
        let error = match self {
            Self::Usage(error) | Self::Failed(error) => error,
            Self::Nothing(message) => return message.clone(),
        };
        let mut text = error.to_string();
        let mut last = text.clone();
        for cause in error.chain().skip(1) {
            let cause = cause.to_string();
            if !last.contains(&cause) {
                text.push_str("\n  because: ");
                text.push_str(&cause);
                last = cause;
            }
        }
        text
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_found_is_no_failure_but_says_so() {
        let nothing = Failure::Nothing("no row".to_owned());
        assert!(!nothing.is_closed_pipe());
        assert_eq!(nothing.message(), "no row");
    }

    #[test]
    fn a_cause_that_is_quoted_already_is_not_repeated() {
        let error =
            anyhow::anyhow!("disk full").context("cannot write a: disk full").context("run");
        assert_eq!(Failure::Failed(error).message(), "run\n  because: cannot write a: disk full");
    }
}
