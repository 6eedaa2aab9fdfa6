//! The span of the checkpoint in flight, for the threads that do their part of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::Span;

/// Shared by the coordinator and all subtasks. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckpointSpan {
    /// With the number of the checkpoint.
    shared: Arc<Mutex<Option<(u64, Span)>>>,
}

impl CheckpointSpan {
    fn shared(&self) -> MutexGuard<'_, Option<(u64, Span)>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A checkpoint begins. The span ends with its last clone: nobody enters it, as what `tracing` takes
    /// for its end would be that of one part.
    pub(crate) fn begin(&self, checkpoint: u64, last: bool) -> Span {
        let span = tracing::debug_span!(
            "checkpoint",
            checkpoint,
            last,
            otel.status_description = tracing::field::Empty,
        );
        *self.shared() = Some((checkpoint, span.clone()));
        span
    }

    /// The checkpoint in flight is complete, or given up.
    pub(crate) fn end(&self) {
        *self.shared() = None;
    }

    /// What a subtask does at the barrier of this checkpoint.
    pub(crate) fn barrier(&self, checkpoint: u64, operator: &str, subtask: usize) -> Span {
        // Held until the span is made: a parent that ended before would be no parent.
        let shared = self.shared();
        let parent = shared.as_ref().filter(|(number, _)| *number == checkpoint);
        let parent = parent.and_then(|(_, span)| span.id());
        tracing::debug_span!(parent: parent, "barrier", checkpoint, operator, subtask)
    }
}

/// Says why what a span is of has failed, in the field that OpenTelemetry has for it.
pub(crate) fn fail(span: &Span, why: &str) {
    span.record("otel.status_description", why);
}
