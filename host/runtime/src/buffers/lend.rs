//! Buffers that an operator lends while a call runs: where they lie in its memory, without a copy.

use arrow_buffer::Buffer;
use arrow_buffer::alloc::Allocation;
use std::ptr::NonNull;
use std::sync::Arc;

/// Runs `call`, which can make buffers of slices. None of them may be left when it returns.
pub(crate) fn lend<'a, R>(call: impl FnOnce(&dyn Fn(&'a [u8]) -> Buffer) -> R) -> R {
    let lease = Lease(Arc::new(()));
    call(&|bytes| {
        let owner = Arc::clone(&lease.0);
        // SAFETY: the slice is there until this function returns, and each buffer, clones and
        // slices of it included, keeps the lease, which ends the process if that is not so.
        unsafe { Buffer::from_custom_allocation(NonNull::from(bytes).cast(), bytes.len(), owner) }
    })
}

/// Counts the buffers that are lent.
struct Lease(Arc<dyn Allocation>);

impl Drop for Lease {
    fn drop(&mut self) {
        if Arc::strong_count(&self.0) != 1 {
            // Somebody kept what will not be there: no error can make up for that.
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_not_copied() {
        let bytes = [1_u8, 2, 3];
        let sum = lend(|lend| {
            let buffer = lend(&bytes);
            assert_eq!(buffer.as_ptr(), bytes.as_ptr());
            let part = buffer.slice(1);
            drop(buffer);
            part.iter().sum::<u8>()
        });
        assert_eq!(sum, 5);
        assert_eq!(lend(|lend| lend(&[]).len()), 0);
    }
}
