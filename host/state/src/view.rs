//! What the subtasks of a table see: buffers not yet published, and the pinned snapshot.
//!
//! A freeze and a publication each replace the view as a whole, so a reader never sees a pin
//! without the buffers that go with it.

use crate::flush::NewLocations;
use crate::metrics::Instruments;
use crate::pin::Pin;
use crate::write_buffer::{Location, WriteBuffer};
use crate::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Full buffers of one subtask that may wait to be published, whatever their size: a read looks
/// into each of them.
const UNPUBLISHED_LIMIT: usize = 4;
/// Published buffers of one subtask that are kept as a read cache.
const CACHED_LIMIT: usize = 3;

/// A frozen buffer of a subtask.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub(crate) buffer: Arc<WriteBuffer>,
    /// Bytes held in memory.
    pub(crate) bytes: usize,
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
    pub(crate) stops: AtomicU64,
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
    limits: ViewLimits,
    pub(crate) counters: Counters,
    pub(crate) instruments: Instruments,
}

/// What a subtask may hold, and when it has to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewLimits {
    /// Bytes of published buffers that a subtask may keep as a read cache.
    pub(crate) cache_bytes: usize,
    /// Bytes of its unpublished buffers above which the writes of a subtask wait.
    pub(crate) frozen_bytes: usize,
    /// Sorted runs in its bucket at which the writes of a subtask wait.
    pub(crate) stop_runs: usize,
}

#[derive(Debug)]
struct State {
    view: Arc<View>,
    /// For each subtask an empty buffer whose memory can be used again.
    spares: Vec<Option<WriteBuffer>>,
    /// Why the table can't go on.
    failure: Option<String>,
}

impl SharedView {
    pub(crate) fn new(table: &str, pin: Arc<Pin>, subtasks: usize, limits: ViewLimits) -> Self {
        let view = Arc::new(View { pin, layers: vec![Vec::new(); subtasks] });
        let spares = (0..subtasks).map(|_| None).collect();
        Self {
            state: Mutex::new(State { view, spares, failure: None }),
            changed: Condvar::new(),
            limits,
            counters: Counters::default(),
            instruments: Instruments::new(table),
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

    /// The view for a write of a subtask. Waits while too many bytes of the subtask are on their
    /// way to disk, or its bucket has so many sorted runs that merges have to catch up first.
    ///
    /// Only what the subtask itself has frozen counts. So the subtask that is behind all others
    /// always gets on: nothing that it has frozen waits for another one's barrier.
    ///
    /// # Errors
    /// `Closed` after the background part has failed.
    pub(crate) fn current_for_write(&self, subtask: u32) -> Result<Arc<View>> {
        let mut state = self.lock();
        let limits = &self.limits;
        if state.unpublished(subtask).1 > limits.frozen_bytes {
            Counters::add(&self.counters.waits, 1);
            state =
                self.wait_while(state, |state| state.unpublished(subtask).1 > limits.frozen_bytes);
        }
        if state.view.pin.bucket(subtask).len() >= limits.stop_runs {
            Counters::add(&self.counters.stops, 1);
            state = self.wait_while(state, |state| {
                state.view.pin.bucket(subtask).len() >= limits.stop_runs
            });
        }
        state.check()?;
        Ok(state.view.clone())
    }

    /// Waits until the table has failed or the condition no longer holds.
    fn wait_while<'a>(
        &self,
        state: MutexGuard<'a, State>,
        condition: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        self.changed
            .wait_while(state, |state| state.failure.is_none() && condition(state))
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of frozen buffers that are not published, and of published ones kept as a cache.
    pub(crate) fn buffered_bytes(&self) -> (usize, usize) {
        let view = self.lock().view.clone();
        view.layers.iter().flatten().fold((0, 0), |(frozen, cached), layer| match layer.published {
            None => (frozen + layer.bytes, cached),
            Some(_) => (frozen, cached + layer.bytes),
        })
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
        if may_wait && state.unpublished(subtask).0 >= UNPUBLISHED_LIMIT {
            Counters::add(&self.counters.waits, 1);
            state =
                self.wait_while(state, |state| state.unpublished(subtask).0 >= UNPUBLISHED_LIMIT);
        }
        state.check()?;
        // A buffer without rows has nothing to say, and would only push others out of the cache.
        if buffer.rows() > 0
            && let Some(layers) = state.layers_mut(subtask)
        {
            let bytes = buffer.memory_bytes();
            layers.insert(0, Layer { buffer, bytes, published: None });
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
        let old_pin = std::mem::replace(&mut view.pin, pin);
        let mut trimmed = Vec::new();
        for (subtask, buffer, locations) in &published {
            if let Some(layers) = view.layers.get_mut(*subtask as usize) {
                for layer in layers.iter_mut() {
                    if Arc::ptr_eq(&layer.buffer, buffer) {
                        layer.bytes += size_of_val(locations.as_ref());
                        layer.published = Some(locations.clone());
                    }
                }
                trimmed.extend(self.trim(layers).into_iter().map(|layer| (*subtask, layer)));
            }
        }
        drop(state);
        self.changed.notify_all();
        // Unmapping files and freeing rows takes its time: a barrier must not wait for it.
        drop((old_pin, published));
        trimmed.into_iter().for_each(|(subtask, layer)| self.keep_spare(subtask, layer));
    }

    /// An empty buffer that has memory already, if there is one.
    pub(crate) fn take_spare(&self, subtask: u32) -> Option<WriteBuffer> {
        self.lock().spares.get_mut(subtask as usize)?.take()
    }

    /// Keeps the memory of a buffer that is no longer needed for the next one of the subtask:
    /// fresh memory costs a page fault for every 4 KiB that are written, a seventh of the time
    /// of an update.
    fn keep_spare(&self, subtask: u32, layer: Layer) {
        if layer.bytes > self.limits.cache_bytes / 2 {
            return;
        }
        // Who still reads from it frees it.
        let Some(buffer) = Arc::into_inner(layer.buffer) else { return };
        let spare = buffer.cleared();
        let mut state = self.lock();
        let replaced = state.spares.get_mut(subtask as usize).and_then(|slot| slot.replace(spare));
        drop(state);
        drop(replaced);
    }

    /// Takes the oldest published buffers over the limit away. Never one before an older one: an
    /// older one may hold an older row of the same key.
    fn trim(&self, layers: &mut Vec<Layer>) -> Vec<Layer> {
        let (mut bytes, mut cached) = (0_usize, 0);
        let kept = layers
            .iter()
            .take_while(|layer| {
                if layer.published.is_none() {
                    return true;
                }
                bytes = bytes.saturating_add(layer.bytes);
                cached += 1;
                cached <= CACHED_LIMIT && bytes <= self.limits.cache_bytes
            })
            .count();
        layers.split_off(kept)
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

    /// How many buffers of the subtask are not published, and their bytes.
    fn unpublished(&self, subtask: u32) -> (usize, usize) {
        let layers = self.view.layers.get(subtask as usize).into_iter().flatten();
        layers
            .filter(|layer| layer.published.is_none())
            .fold((0, 0), |(count, bytes), layer| (count + 1, bytes + layer.bytes))
    }

    fn layers_mut(&mut self, subtask: u32) -> Option<&mut Vec<Layer>> {
        Arc::make_mut(&mut self.view).layers.get_mut(subtask as usize)
    }
}
