//! Limits that a process takes on itself, and how one that went past them looks.

#[cfg(unix)]
pub(super) use unix::{take, was_processor_time};

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    /// Memory that this process may write to, and processor time that it may use, from its start.
    pub(in super::super) fn take(memory_bytes: u64, cpu_seconds: u64) -> io::Result<()> {
        // Memory that is only reserved, of which the allocator has much, does not count.
        set(libc::RLIMIT_DATA, memory_bytes, memory_bytes)?;
        // The system warns at the first limit, which ends the process, and ends it at the second.
        set(libc::RLIMIT_CPU, cpu_seconds, cpu_seconds.saturating_add(1))?;
        set(libc::RLIMIT_CORE, 0, 0)
    }

    #[cfg(target_os = "linux")]
    type Resource = libc::__rlimit_resource_t;
    #[cfg(not(target_os = "linux"))]
    type Resource = libc::c_int;

    fn set(resource: Resource, soft: u64, hard: u64) -> io::Result<()> {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        // SAFETY: the pointer is to a local that outlives the call, which only reads it.
        match unsafe { libc::setrlimit(resource, &raw const limit) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Whether a process was ended because it used too much processor time.
    pub(in super::super) fn was_processor_time(status: ExitStatus) -> bool {
        status.signal() == Some(libc::SIGXCPU)
    }
}

#[cfg(not(unix))]
pub(super) fn take(_memory_bytes: u64, _cpu_seconds: u64) -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn was_processor_time(_status: std::process::ExitStatus) -> bool {
    false
}
