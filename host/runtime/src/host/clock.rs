//! The imported interface `clock`: the time of the running call.

use super::HostState;
use crate::bindings::clock::Host;

impl Host for HostState {
    fn now(&mut self) -> i64 {
        self.call.now_ms
    }
}
