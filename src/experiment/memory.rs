//! Treatment of memory that the process has freed.
//!
//! Training allocates and frees the same megabytes at every step. The allocator of glibc hands blocks of that
//! size back to the system, which clears them page by page when they are asked for again: a fifth to a
//! quarter of the time of small trainings, an eighth of a prefix step of ViT-Tiny.
//!
//! Three settings of it keep them. Blocks come from a thread's own heaps, by the first, and not from the system one
//! by one, unless they are larger than a heap; the free end of a heap goes back only beyond the second. Heaps of all
//! threads but the first are pieces of 64 MB, though, and a piece whose blocks are all free goes back regardless of
//! the second, unless less than the third would be left over at the end: with a piece's size no piece ever goes.
//! Memory that is allocated and never written costs nothing.

/// Keeps freed memory for later allocations, up to 256 MB per thread. Elsewhere than with glibc it does nothing.
/// Programs call it once, before anything else.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        #[allow(unsafe_code)]
        // SAFETY: sets numbers of the allocator; no other thread runs yet, and none would mind.
        unsafe {
            libc::mallopt(libc::M_MMAP_MAX, 0);
            libc::mallopt(libc::M_TRIM_THRESHOLD, 256 << 20);
            libc::mallopt(libc::M_TOP_PAD, 64 << 20);
        }
    }
}
