//! What an instance may use.

use wasmtime::ResourceLimiter;

/// Elements of one table: functions that a guest calls by pointer, for most guests some hundreds.
pub(crate) const TABLE_ELEMENTS_LIMIT: usize = 1 << 16;
/// Core modules in a component: interpreters are linked from a dozen or two.
pub(crate) const CORE_INSTANCES_LIMIT: u32 = 64;
/// Tables in a component.
pub(crate) const TABLES_LIMIT: u32 = 64;
/// Linear memories in a component.
pub(crate) const MEMORIES_LIMIT: u32 = 4;

/// What an instance may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Linear memory of the instance.
    pub memory_bytes: usize,
    /// Time of one call, in wall time. When a state call has to wait for the disk, the waiting
    /// does not count.
    pub call_timeout_ms: u64,
    /// Bytes that one call may make the host copy out of guest memory.
    pub batch_bytes: usize,
    /// Rows that one call may emit.
    pub batch_rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            call_timeout_ms: 10_000,
            batch_bytes: 64 << 20,
            batch_rows: 1 << 20,
        }
    }
}

/// Refuses memory past the limit, and remembers that it did: a guest that is refused memory
/// mostly aborts, and the abort alone would not say why.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    limit_bytes: usize,
    used_bytes: usize,
    refused: bool,
}

impl MemoryLimiter {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, used_bytes: 0, refused: false }
    }

    /// Bytes of all linear memories.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Whether memory was refused since the last call of this function.
    pub(crate) fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.refused)
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let used = self.used_bytes.saturating_sub(current).saturating_add(desired);
        if used > self.limit_bytes {
            self.refused = true;
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
        Ok(desired <= TABLE_ELEMENTS_LIMIT)
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

    #[test]
    fn memory_past_the_limit_is_refused_and_remembered_once() {
        let mut limiter = MemoryLimiter::new(100);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.take_refused());
        assert!(!limiter.memory_growing(60, 101, None).unwrap());
        assert!(limiter.take_refused());
        assert!(!limiter.take_refused());
        assert_eq!(limiter.used_bytes(), 60);
    }

    #[test]
    fn the_limit_holds_for_all_memories_together() {
        let mut limiter = MemoryLimiter::new(100);
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 41, None).unwrap());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert_eq!(limiter.used_bytes(), 100);
    }

    #[test]
    fn tables_have_a_limit() {
        let mut limiter = MemoryLimiter::new(0);
        assert!(limiter.table_growing(0, TABLE_ELEMENTS_LIMIT, None).unwrap());
        assert!(!limiter.table_growing(0, TABLE_ELEMENTS_LIMIT + 1, None).unwrap());
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
