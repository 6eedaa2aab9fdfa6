//! The imported interface `timers`: an operator asks to be called again for a key.

use super::HostState;
use super::state::{Answer, malformed, refuse};
use super::task::TimerFamily;
use crate::bindings::TimersHandle;
use crate::bindings::state::Keys;
use crate::bindings::timers::{Host, HostTimerService};
use crate::bindings::types::ErrorKind;
use crate::buffers::{self, BufferError};
use crate::spec::TimeDomain;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{ArrayRef, TimestampMillisecondArray};
use howdah_state::KeyBatch;
use std::sync::Arc;
use wasmtime::component::Resource;

impl Host for HostState {}

impl HostState {
    fn family(&mut self, handle: &Resource<TimersHandle>) -> Answer<&mut TimerFamily> {
        self.opened(handle, |handle| handle.0, |task| &mut task.timers)
    }

    /// Notes in `on-timers` whether timers were set that are due at once.
    fn note_due(&mut self, handle: &Resource<TimersHandle>, domain: TimeDomain, times: &ArrayRef) {
        let Some(watermark) = self.call.watermark else { return };
        let due_ms = match domain {
            TimeDomain::EventTime => watermark,
            TimeDomain::ProcessingTime => self.call.now_ms,
        };
        let times = times.as_primitive::<TimestampMillisecondType>().values();
        if times.iter().any(|time| *time <= due_ms) {
            self.call.set_again = self.handles.get(handle).ok().map(|handle| handle.0);
        }
    }

    /// Keys and the time of each.
    fn timers_of(
        &mut self,
        handle: &Resource<TimersHandle>,
        keys: Keys,
        times: Vec<u8>,
    ) -> Answer<(Arc<KeyBatch>, ArrayRef)> {
        let keys = self.keys(keys)?;
        self.take_budget(times.len())?;
        let family = self.family(handle)?;
        match buffers::i64s("times", keys.len(), times) {
            Ok(times) => Ok((keys, Arc::new(TimestampMillisecondArray::new(times, None)))),
            Err(BufferError(what)) => malformed(format_args!("timers `{}`", family.name), what),
        }
    }
}

impl HostTimerService for HostState {
    fn open(&mut self, name: String) -> Answer<Resource<TimersHandle>> {
        let Some(task) = &self.task else {
            return refuse(ErrorKind::NotDeclared, "describe is pure: it cannot open timers");
        };
        match task.timers.iter().position(|family| family.name == name) {
            Some(index) => self.new_handle(TimersHandle(index)),
            None => {
                let names: Vec<&str> = task.timers.iter().map(|f| f.name.as_str()).collect();
                let (name, names) = (name.escape_debug(), names.join(", "));
                let message = format!("describe declared no timers `{name}`, only: {names}");
                refuse(ErrorKind::NotDeclared, message)
            }
        }
    }

    fn set(&mut self, handle: Resource<TimersHandle>, keys: Keys, times: Vec<u8>) -> Answer<()> {
        self.write_call(|host| {
            let (keys, times) = host.timers_of(&handle, keys, times)?;
            let family = host.family(&handle)?;
            let domain = family.domain;
            let set = family.timers.set(&keys, &times);
            host.answered(set)?;
            host.note_due(&handle, domain, &times);
            Ok(())
        })
    }

    fn delete(&mut self, handle: Resource<TimersHandle>, keys: Keys, times: Vec<u8>) -> Answer<()> {
        self.write_call(|host| {
            let (keys, times) = host.timers_of(&handle, keys, times)?;
            let deleted = host.family(&handle)?.timers.delete(&keys, &times);
            host.answered(deleted)
        })
    }

    fn drop(&mut self, handle: Resource<TimersHandle>) -> wasmtime::Result<()> {
        self.handles.delete(handle)?;
        Ok(())
    }
}
