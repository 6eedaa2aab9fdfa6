//! What an instance may use.

use wasmtime::ResourceLimiter;

/// The most that `Limits::table_elements` can be: what the engine has room for.
pub(crate) const TABLE_ELEMENTS_LIMIT: usize = 1 << 16;
/// Core modules in a component: interpreters are linked from a dozen or two.
pub(crate) const CORE_INSTANCES_LIMIT: u32 = 64;
/// Tables in a component.
pub(crate) const TABLES_LIMIT: u32 = 64;
/// Linear memories in a component.
pub(crate) const MEMORIES_LIMIT: u32 = 4;

/// Bytes that `describe` may hand over, records counted generously: names, mostly.
pub(crate) const DESCRIBE_LIMIT_BYTES: usize = 8 << 20;

/// What a component may use: to be compiled, to be asked what it is, and in each instance.
///
/// Errors name a limit as the pipeline file does, like `limits.memory-bytes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of the instance.
    pub memory_bytes: usize,
    /// Elements of one table: functions that a guest calls by pointer, for most guests some
    /// hundreds. At most 65,536.
    pub table_elements: usize,
    /// Handles of states, timers and metrics that the instance may hold at once.
    pub handles: usize,
    /// Time of one call, in wall time. When a state call has to wait for the disk, the waiting
    /// does not count.
    pub call_timeout_ms: u64,
    /// Bytes that one call may make the host copy out of guest memory, and that the answer of a
    /// state may have (1 MiB it always may).
    pub batch_bytes: usize,
    /// Rows that one call may emit, and that the answer of a state may have.
    pub batch_rows: usize,
    /// Fuel of one call: about one unit for each WebAssembly instruction that it runs. Unlike
    /// time it is the same on every machine. `None`: not counted, which is some percent faster.
    /// Takes effect where the component is loaded with these limits.
    pub call_fuel: Option<u64>,
    /// Wall time to compile the component, where a worker does it.
    pub compile_timeout_ms: u64,
    /// Memory to compile the component, where a worker does it.
    pub compile_memory_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            table_elements: TABLE_ELEMENTS_LIMIT,
            handles: 1024,
            call_timeout_ms: 10_000,
            batch_bytes: 64 << 20,
            batch_rows: 1 << 20,
            call_fuel: None,
            compile_timeout_ms: 300_000,
            compile_memory_bytes: 2 << 30,
        }
    }
}

/// A limit that the guest was refused more than.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// `Limits::memory_bytes`.
    Memory,
    /// `Limits::table_elements`.
    Table,
}

/// Refuses memory and table elements past the limit, and remembers that it did: a guest that is
/// refused memory mostly aborts, and the abort alone would not say why.
#[derive(Debug)]
pub(crate) struct GrowthLimiter {
    memory_bytes: usize,
    table_elements: usize,
    used_bytes: usize,
    refused: Option<Refused>,
}

impl GrowthLimiter {
    pub(crate) fn new(limits: &Limits) -> Self {
        let &Limits { memory_bytes, table_elements, .. } = limits;
        Self { memory_bytes, table_elements, used_bytes: 0, refused: None }
    }

    /// Bytes of all linear memories.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// What was refused first since the last call of this function.
    pub(crate) fn take_refused(&mut self) -> Option<Refused> {
        self.refused.take()
    }
}

impl ResourceLimiter for GrowthLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let used = self.used_bytes.saturating_sub(current).saturating_add(desired);
        if used > self.memory_bytes {
            self.refused.get_or_insert(Refused::Memory);
            return Ok(false);
        }
        self.used_bytes = used;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if desired > self.table_elements {
            self.refused.get_or_insert(Refused::Table);
            return Ok(false);
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES_LIMIT as usize
    }

    fn tables(&self) -> usize {
        TABLES_LIMIT as usize
    }

    fn memories(&self) -> usize {
        MEMORIES_LIMIT as usize
    }
}

/// A number of bytes as people write it: `64 MiB`, `1500 bytes`.
pub(crate) fn display_bytes(bytes: usize) -> String {
    const UNITS: [(usize, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    for (unit, name) in UNITS {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter() -> GrowthLimiter {
        let limits = Limits { memory_bytes: 100, table_elements: 10, ..Limits::default() };
        GrowthLimiter::new(&limits)
    }

    #[test]
    fn memory_past_the_limit_is_refused_and_remembered_once() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert_eq!(limiter.take_refused(), None);
        assert!(!limiter.memory_growing(60, 101, None).unwrap());
        assert_eq!(limiter.take_refused(), Some(Refused::Memory));
        assert_eq!(limiter.take_refused(), None);
        assert_eq!(limiter.used_bytes(), 60);
    }

    #[test]
    fn the_limit_holds_for_all_memories_together() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 41, None).unwrap());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert_eq!(limiter.used_bytes(), 100);
    }

    #[test]
    fn table_elements_past_the_limit_are_refused_and_remembered() {
        let mut limiter = limiter();
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert_eq!(limiter.take_refused(), None);
        assert!(!limiter.table_growing(0, 11, None).unwrap());
        assert_eq!(limiter.take_refused(), Some(Refused::Table));
    }

    #[test]
    fn bytes_are_shown_in_the_largest_whole_unit() {
        assert_eq!(display_bytes(64 << 20), "64 MiB");
        assert_eq!(display_bytes(1 << 30), "1 GiB");
        assert_eq!(display_bytes(1536), "1536 bytes");
        assert_eq!(display_bytes(3 << 10), "3 KiB");
        assert_eq!(display_bytes(0), "0 bytes");
    }
}
