//! Memory that the system refuses ends the program with the code of a device that failed, and says how much it was.

use std::alloc::{GlobalAlloc, Layout, System};

use super::{Exit, stderr::print_status};
use crate::quantity::Bytes;

/// The allocator of the `fedcast` binary: that of the system, which never answers nothing.
///
/// Without it a refusal is an abort without a word of what to do.
pub struct ReportingAllocator;

#[allow(unsafe_code)]
// SAFETY: every call goes to the system's allocator with what it was given, and its answer comes back.
unsafe impl GlobalAlloc for ReportingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        given(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        given(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        given(unsafe { System.realloc(place, layout, size) }, size)
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(place, layout) }
    }
}

#[inline]
fn given(place: *mut u8, size: usize) -> *mut u8 {
    if place.is_null() { refused(size) } else { place }
}

#[cold]
fn refused(size: usize) -> ! {
    // Telling needs a little memory itself; where even that is refused, this comes back here once.
    use std::sync::atomic::{AtomicBool, Ordering};
    static TOLD: AtomicBool = AtomicBool::new(false);
    if !TOLD.swap(true, Ordering::SeqCst) {
        print_status(&format!(
            "error: the system refuses {} of memory; use fewer workers (--workers), a smaller client.batch or \
             cache.features = \"file\", or give the process more; a run goes on with `fedcast resume`",
            Bytes(size as u64)
        ));
    }
    std::process::exit(i32::from(Exit::Device.code()))
}
