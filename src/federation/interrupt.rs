//! Request to end a run after its current event.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A handle that any thread (a Ctrl-C handler) may hold. Clones are the same handle.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Requests an interrupt.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Returns true if an interrupt was requested.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
