//! What the subtasks of a table see: buffers not yet published, and the pinned snapshot.
//!
//! A freeze and a publication each replace the view as a whole, so a reader never sees a pin
//! without the buffers that go with it.

use crate::flush::NewLocations;
use crate::pin::Pin;
use crate::write_buffer::{Location, WriteBuffer};
use crate::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Frozen buffers of one subtask that may wait to be published before its writes wait too.
const UNPUBLISHED_LIMIT: usize = 4;
/// Published buffers of one subtask that are kept as a read cache.
const CACHED_LIMIT: usize = 3;

/// A frozen buffer of a subtask.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) buffer: Arc<WriteBuffer>,
    /// Where its rows lie, once it is published; then it is only a cache.
    pub(crate) published: Option<NewLocations>,
}

impl Layer {
    /// Where the row of a key lies on disk, as far as this layer knows.
    pub(crate) fn location(&self, row: u32) -> Location {
        match &self.published {
            Some(locations) => locations.get(row as usize).copied().unwrap_or(Location::Unknown),
            // Its own row will supersede what it knows of.
            None if self.buffer.status(row).is_dirty() => Location::Unknown,
            None => self.buffer.location(row),
        }
    }
}

/// An unchanging picture of a table.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) pin: Arc<Pin>,
    /// For each subtask, newest first.
    pub(crate) layers: Vec<Vec<Layer>>,
}

impl View {
    /// What the newest layer that has the key says of it.
    pub(crate) fn find(&self, subtask: u32, key: &[u8], hash: u64) -> Option<(&Layer, u32)> {
        let layers = self.layers.get(subtask as usize)?;
        layers.iter().find_map(|layer| Some((layer, layer.buffer.find(key, hash)?)))
    }
}

/// Counters of a table; all only ever grow.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) probes: AtomicU64,
    pub(crate) gets: AtomicU64,
    pub(crate) keys_read: AtomicU64,
    pub(crate) keys_written: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) waits: AtomicU64,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, n: usize) {
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// The view of a table, shared by its subtasks and its worker.
#[derive(Debug)]
pub(crate) struct SharedView {
    state: Mutex<State>,
    changed: Condvar,
    /// Bytes of published buffers that a subtask may keep as a read cache.
    cache_limit_bytes: usize,
    pub(crate) counters: Counters,
}

#[derive(Debug)]
struct State {
    view: Arc<View>,
    /// Why the table can't go on.
    failure: Option<String>,
}

impl SharedView {
    pub(crate) fn new(pin: Arc<Pin>, subtasks: usize, cache_limit_bytes: usize) -> Self {
        let view = Arc::new(View { pin, layers: vec![Vec::new(); subtasks] });
        Self {
            state: Mutex::new(State { view, failure: None }),
            changed: Condvar::new(),
            cache_limit_bytes,
            counters: Counters::default(),
        }
    }

    /// No code panics while it holds the lock, so a poisoned one still guards whole data.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The view as it is now.
    ///
    /// # Errors
    /// `Closed` after the background part has failed.
    pub(crate) fn current(&self) -> Result<Arc<View>> {
        let state = self.lock();
        state.check()?;
        Ok(state.view.clone())
    }

    /// The pinned snapshot, whatever has failed.
    pub(crate) fn pin(&self) -> Arc<Pin> {
        self.lock().view.pin.clone()
    }

    /// Puts a frozen buffer before those of the subtask; waits while too many are unpublished
    /// and `may_wait`.
    pub(crate) fn freeze(
        &self,
        subtask: u32,
        buffer: Arc<WriteBuffer>,
        may_wait: bool,
    ) -> Result<()> {
        let mut state = self.lock();
        if may_wait && state.unpublished(subtask) >= UNPUBLISHED_LIMIT {
            Counters::add(&self.counters.waits, 1);
            state = self
                .changed
                .wait_while(state, |state| {
                    state.failure.is_none() && state.unpublished(subtask) >= UNPUBLISHED_LIMIT
                })
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.check()?;
        // A buffer without rows has nothing to say, and would only push others out of the cache.
        if buffer.rows() > 0
            && let Some(layers) = state.layers_mut(subtask)
        {
            layers.insert(0, Layer { buffer, published: None });
        }
        Ok(())
    }

    /// Swaps in a new pin; these buffers (of these subtasks) are published by it.
    pub(crate) fn publish(
        &self,
        pin: Arc<Pin>,
        published: Vec<(u32, Arc<WriteBuffer>, NewLocations)>,
    ) {
        let mut state = self.lock();
        let view = Arc::make_mut(&mut state.view);
        view.pin = pin;
        for (subtask, buffer, locations) in published {
            if let Some(layers) = view.layers.get_mut(subtask as usize) {
                for layer in layers.iter_mut() {
                    if Arc::ptr_eq(&layer.buffer, &buffer) {
                        layer.published = Some(locations.clone());
                    }
                }
                self.trim(layers);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Drops the oldest published buffers over the limit. Never one before an older one: an
    /// older one may hold an older row of the same key.
    fn trim(&self, layers: &mut Vec<Layer>) {
        let (mut bytes, mut cached) = (0_usize, 0);
        let kept = layers
            .iter()
            .take_while(|layer| {
                if layer.published.is_none() {
                    return true;
                }
                bytes = bytes.saturating_add(layer.buffer.memory_bytes());
                cached += 1;
                cached <= CACHED_LIMIT && bytes <= self.cache_limit_bytes
            })
            .count();
        layers.truncate(kept);
    }

    /// Stops the table for this reason; those who wait are woken.
    pub(crate) fn fail(&self, reason: &str) {
        self.lock().failure.get_or_insert_with(|| reason.to_owned());
        self.changed.notify_all();
    }
}

impl State {
    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(reason) => Err(Error::new(ErrorKind::Closed, reason.clone())),
            None => Ok(()),
        }
    }

    fn unpublished(&self, subtask: u32) -> usize {
        let layers = self.view.layers.get(subtask as usize);
        layers.map_or(0, |layers| layers.iter().filter(|l| l.published.is_none()).count())
    }

    fn layers_mut(&mut self, subtask: u32) -> Option<&mut Vec<Layer>> {
        Arc::make_mut(&mut self.view).layers.get_mut(subtask as usize)
    }
}
