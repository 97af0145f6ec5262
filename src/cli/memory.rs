//! Allocator that reports failed allocations and ends the program with exit code 20.

use std::alloc::{GlobalAlloc, Layout};

#[cfg(target_env = "musl")]
use mimalloc::MiMalloc as Below;
#[cfg(not(target_env = "musl"))]
use std::alloc::System as Below;

use super::{Exit, stderr::print_status};
use crate::quantity::Bytes;

/// Global allocator of the `fedcast` binary: the system's, with an error message on failure.
///
/// Without it, a failed allocation aborts the process without advice. With musl it is mimalloc: musl's own takes four
/// fifths of a training.
pub struct ReportingAllocator;

#[allow(unsafe_code)]
// SAFETY: every call is passed to another allocator unchanged, and its result is returned.
unsafe impl GlobalAlloc for ReportingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        given(unsafe { Below.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        given(unsafe { Below.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        given(unsafe { Below.realloc(place, layout, size) }, size)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { Below.dealloc(place, layout) }
    }
}

#[inline]
fn given(place: *mut u8, size: usize) -> *mut u8 {
    if place.is_null() { refused(size) } else { place }
}

#[cold]
fn refused(size: usize) -> ! {
    // The message needs a little memory itself; if that allocation fails, this function is called once more.
    use std::sync::atomic::{AtomicBool, Ordering};
    static REPORTED: AtomicBool = AtomicBool::new(false);
    if !REPORTED.swap(true, Ordering::SeqCst) {
        print_status(&format!(
            "error: cannot allocate {} of memory\n  help: use fewer workers (--workers), a smaller client.batch_size or \
             cache.features = \"file\", or give the process more memory; `fedcast resume` continues a run",
            Bytes(size as u64)
        ));
    }
    std::process::exit(i32::from(Exit::Device.code()))
}
