//! Probes for the next batch of keys while the caller is still at work on this one.

use crate::key::EncodedKeys;
use crate::pin::{FileHits, Pin, Want};
use crate::pool::PoolQueue;
use crate::schema::TableSchema;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A probe that a thread of the pool does, or nobody when it is wanted before one is idle.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    /// What it looks into: what it finds is worth nothing under another pin.
    pub(crate) pin: Arc<Pin>,
    pub(crate) keys: Arc<EncodedKeys>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Waiting,
    Running,
    Done(Result<Vec<FileHits>>),
    /// Wanted before it was begun, or taken.
    Over,
}

impl ReadAhead {
    /// Begins a probe for all of these keys.
    pub(crate) fn begin(
        pool: &PoolQueue,
        schema: &TableSchema,
        bucket: u32,
        pin: Arc<Pin>,
        keys: EncodedKeys,
    ) -> Self {
        let this = Self { pin, keys: Arc::new(keys), shared: Arc::default() };
        let (pin, keys, shared) = (this.pin.clone(), this.keys.clone(), this.shared.clone());
        let schema = schema.clone();
        pool.offer(Box::new(move || {
            shared.run(|| {
                let all: Vec<u32> = (0..).take(keys.len()).collect();
                pin.probe(&schema, bucket, &keys, &all, Want::Values)
            });
        }));
        this
    }

    /// What it found; `None` when no thread has begun with it.
    pub(crate) fn take(&self) -> Option<Result<Vec<FileHits>>> {
        let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self
            .shared
            .changed
            .wait_while(state, |state| matches!(state, State::Running))
            .unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Over) {
            State::Done(result) => Some(result),
            State::Waiting | State::Running | State::Over => None,
        }
    }
}

impl Shared {
    fn run(&self, probe: impl FnOnce() -> Result<Vec<FileHits>>) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if !matches!(*state, State::Waiting) {
                return;
            }
            *state = State::Running;
        }
        let result = catch_unwind(AssertUnwindSafe(probe))
            .unwrap_or_else(|_| Err(Error::internal("reading ahead panicked")));
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Done(result);
        self.changed.notify_all();
    }
}
