//! The seam between the SDK and what runs it: the imports in a component, memory in a test.
//!
//! Both sides have the same names with the signatures that `wit-bindgen` gives the imports. The
//! choice is made when the crate is compiled: what an operator does not use is not linked, so a
//! component imports only what its operator needs.

use std::cell::{Cell, RefCell};

use crate::Timestamp;

#[cfg(target_arch = "wasm32")]
mod imports {
    use crate::metrics::Metric;
    use crate::{Timestamp, log::Level, wit};

    pub(crate) use crate::bindings::howdah::operator::state::{
        ListState, MapState, ReducingState, ValueState,
    };
    pub(crate) use crate::bindings::howdah::operator::timers::TimerService;

    /// The host that runs this component.
    #[derive(Clone, Debug)]
    pub(crate) struct Host;

    impl Host {
        pub(crate) fn value(&self, name: &str) -> Result<ValueState, wit::Error> {
            ValueState::open(name)
        }

        pub(crate) fn list(&self, name: &str) -> Result<ListState, wit::Error> {
            ListState::open(name)
        }

        pub(crate) fn map(&self, name: &str) -> Result<MapState, wit::Error> {
            MapState::open(name)
        }

        pub(crate) fn reducing(&self, name: &str) -> Result<ReducingState, wit::Error> {
            ReducingState::open(name)
        }

        pub(crate) fn timers(&self, name: &str) -> Result<TimerService, wit::Error> {
            TimerService::open(name)
        }

        pub(crate) fn log(&self, level: Level, message: &str) {
            wit::logging::log(level, message);
        }

        pub(crate) fn log_enabled(&self, level: Level) -> bool {
            wit::logging::enabled(level)
        }

        pub(crate) fn now(&self) -> Timestamp {
            Timestamp::from_millis(wit::clock::now())
        }

        pub(crate) fn record(&self, name: &str, metric: Metric) {
            match metric {
                Metric::Counter(amount) => wit::metrics::counter_add(name, amount),
                Metric::Gauge(value) => wit::metrics::gauge_set(name, value),
                Metric::Histogram(value) => wit::metrics::histogram_record(name, value),
            }
        }
    }
}

#[cfg(target_arch = "wasm32")]
pub(crate) use imports::{Host, ListState, MapState, ReducingState, TimerService, ValueState};

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use crate::testing::memory::{
    Host, ListState, MapState, ReducingState, TimerService, ValueState,
};

thread_local! {
    /// The host, while it lets the operator call it.
    static HOST: RefCell<Option<Host>> = const { RefCell::new(None) };
    /// The time of the running call, once it was asked for.
    static NOW: Cell<Option<Timestamp>> = const { Cell::new(None) };
}

/// Runs `call`, a call of the host's, with messages and questions going to `host`.
pub(crate) fn within<T>(host: &Host, call: impl FnOnce() -> T) -> T {
    /// Puts the host before back, even if `call` panics.
    struct Restore(Option<Host>);
    impl Drop for Restore {
        fn drop(&mut self) {
            HOST.set(self.0.take());
            NOW.set(None);
        }
    }
    NOW.set(None);
    let _restore = Restore(HOST.replace(Some(host.clone())));
    call()
}

/// The host of the running call; `None` while the operator is only asked what it is.
pub(crate) fn running() -> Option<Host> {
    HOST.with_borrow(Clone::clone)
}

/// The time of the running call, which the host read when the call began: every use in one call
/// gives the same, and it never goes back. A test sets it by hand.
///
/// The Unix epoch while the operator is only asked what it is.
pub fn now() -> Timestamp {
    NOW.get().unwrap_or_else(|| {
        let now = running().map(|host| host.now());
        NOW.set(now);
        now.unwrap_or_default()
    })
}
