//! Ctrl-C and SIGTERM.

use crate::environment;
use crate::failure::Result;
use anyhow::Context;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Ctrl-C and SIGTERM stop at a checkpoint; the second one does not wait for it. One that comes
/// before the pipeline runs stops it as soon as it does.
#[derive(Default)]
pub(super) struct Signals {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    request: Mutex<Request>,
    changed: Condvar,
}

#[derive(Default)]
struct Request {
    made: bool,
    /// Stops the pipeline that runs now, or ran last.
    stop: Option<Box<dyn Fn() + Send>>,
}

impl Shared {
    fn request(&self) -> MutexGuard<'_, Request> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A signal has come. Whether it is the first.
    fn make_request(&self) -> bool {
        let mut request = self.request();
        let first = !std::mem::replace(&mut request.made, true);
        if let Some(stop) = request.stop.as_ref().filter(|_| first) {
            stop();
        }
        self.changed.notify_all();
        first
    }
}

impl Signals {
    pub(super) fn listen(&self) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        ctrlc::set_handler(move || {
            if !shared.make_request() {
                environment::exit_at_once(130);
            }
            // Nobody to tell is no reason to go on.
            let _ = writeln!(
                std::io::stderr(),
                "stopping at a checkpoint; once more to end at once (the work since the last \
                 checkpoint is then done again)"
            );
        })
        .context("cannot listen for Ctrl-C")?;
        Ok(())
    }

    /// Calls `stop` when a signal comes, or when one has come.
    pub(super) fn on_request(&self, stop: impl Fn() + Send + 'static) {
        let mut request = self.shared.request();
        if request.made {
            stop();
        }
        request.stop = Some(Box::new(stop));
    }

    /// Whether a signal has come.
    pub(super) fn have_come(&self) -> bool {
        self.shared.request().made
    }

    /// Waits so long, or until a signal comes. Whether one has come.
    pub(super) fn wait(&self, wait: Duration) -> bool {
        let request = self.shared.request();
        let waited = self.shared.changed.wait_timeout_while(request, wait, |request| !request.made);
        waited.unwrap_or_else(PoisonError::into_inner).0.made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_signal_before_the_pipeline_runs_stops_it_once_it_does() {
        for early in [true, false] {
            let signals = Signals::default();
            let stopped = Arc::new(AtomicBool::new(false));
            if early {
                assert!(signals.shared.make_request());
            }
            let stop = Arc::clone(&stopped);
            signals.on_request(move || stop.store(true, Ordering::SeqCst));
            assert_eq!(stopped.load(Ordering::SeqCst), early);
            assert_eq!(signals.shared.make_request(), !early, "the second one ends at once");
            assert!(stopped.load(Ordering::SeqCst));
        }
    }
}
