//! The first failure of a pipeline, and how its threads learn of it.

use crate::error::Error;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Shared by the threads of a pipeline. Once it is raised, every thread ends at its next
/// message and drops its channels, which wakes those who wait for it.
#[derive(Debug)]
pub(crate) struct Failure {
    raised: AtomicBool,
    first: Mutex<Option<Error>>,
    /// Dropped when it is raised: receivers wake up.
    signal: Mutex<Option<Sender<()>>>,
    raised_signal: Receiver<()>,
}

impl Failure {
    pub(crate) fn new() -> Self {
        let (signal, raised_signal) = bounded(0);
        Self {
            raised: AtomicBool::new(false),
            first: Mutex::new(None),
            signal: Mutex::new(Some(signal)),
            raised_signal,
        }
    }

    /// Ends the pipeline with an error; only the first counts.
    pub(crate) fn raise(&self, error: Error) {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.abort();
    }

    /// Ends the pipeline without an error.
    pub(crate) fn abort(&self) {
        self.raised.store(true, Ordering::SeqCst);
        self.signal.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Whether the pipeline is to end.
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::SeqCst)
    }

    /// Disconnected once the pipeline is to end.
    pub(crate) fn signal(&self) -> &Receiver<()> {
        &self.raised_signal
    }

    /// The first error.
    pub(crate) fn take(&self) -> Option<Error> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
