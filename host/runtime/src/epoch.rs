//! The thread that moves the epoch on, by which calls past their deadline are stopped.

use crate::{Error, ErrorKind, Result};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use wasmtime::EngineWeak;

/// Time between two ticks: how exactly a deadline is kept.
pub(crate) const TICK_MS: u64 = 10;

/// Ticks an engine's epoch until it is dropped.
pub(crate) struct EpochTicker {
    // Nothing is ever sent: dropping it wakes the thread and ends it.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl EpochTicker {
    /// Starts the thread. It keeps no engine alive.
    pub(crate) fn start(engine: EngineWeak) -> Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let tick = Duration::from_millis(TICK_MS);
        let thread = std::thread::Builder::new()
            .name("howdah-epoch".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                    match engine.upgrade() {
                        Some(engine) => engine.increment_epoch(),
                        None => return,
                    }
                }
            })
            .map_err(|error| {
                let message = format!("cannot start the thread that watches deadlines: {error}");
                Error::with_source(ErrorKind::Host, message, error)
            })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for EpochTicker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic; if it did, there is nothing left to tick.
            let _ = thread.join();
        }
    }
}

/// The number of ticks after which `duration` has certainly passed. The first tick may come
/// at once, hence one more.
pub(crate) fn ticks(duration: Duration) -> u64 {
    let ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    ms.div_ceil(TICK_MS).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use super::ticks;
    use std::time::Duration;

    #[test]
    fn a_deadline_is_never_early() {
        assert_eq!(ticks(Duration::ZERO), 1);
        assert_eq!(ticks(Duration::from_millis(1)), 2);
        assert_eq!(ticks(Duration::from_millis(10)), 2);
        assert_eq!(ticks(Duration::from_millis(11)), 3);
        assert_eq!(ticks(Duration::MAX), u64::MAX / super::TICK_MS + 2);
    }
}
