//! The one place where time, names and threads come in from outside.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A steady clock, for durations.
#[expect(clippy::disallowed_methods, reason = "the seam through which all others take it")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Milliseconds on the steady clock since the process first asked, for grace periods: the
/// wall clock may jump.
pub(crate) fn steady_ms() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let elapsed = START.get_or_init(now).elapsed();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch, for what is written down.
#[expect(clippy::disallowed_methods, reason = "the seam through which all others take it")]
pub(crate) fn wall_clock_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// A name that nothing else has, for files and what else is told apart by one.
#[expect(clippy::disallowed_methods, reason = "the seam through which all others take it")]
pub fn unique_name() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Tells the scheduler that this thread works in the background: when it is woken it does not take
/// the core from whoever woke it, so a barrier hands its buffer over without losing its turn. It
/// is not nice beyond that: beside other busy programs it would get next to nothing, and writers
/// would wait for it.
pub(crate) fn let_others_go_first() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: all integers, for which zero is a value; this policy has no other priority.
        let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
        // SAFETY: 0 is the calling thread, and the parameters are read during the call only.
        let result =
            unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
        if result != 0 {
            tracing::debug!("the scheduler treats background threads like others");
        }
    }
}

/// Begins to bring what is written of a file to the disk, so that a sync later has less to wait
/// for. A hint: nothing is durable by it. Only Linux knows of this.
pub(crate) fn begin_to_sync(file: &std::fs::File) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;
        // SAFETY: the descriptor is open while `file` is borrowed, and no memory is touched.
        let result =
            unsafe { libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
        if result != 0 {
            tracing::debug!("the file system writes nothing ahead of a sync");
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = file;
}
