//! State that clients keep between rounds, as their methods see it.

use crate::wire::{Body, Saved, WireError};

/// State that a client keeps between rounds.
pub trait ClientState: Saved + Default + Send + 'static {
    /// True for methods whose clients keep nothing; only `()` should set it.
    const STATELESS: bool = false;
    /// Reads the state from a body, which is empty before the client's first round.
    ///
    /// # Errors
    /// As [`load`](Saved::load).
    fn of(body: &Body) -> Result<Self, WireError> {
        match body.meta.is_empty() && body.sections.is_empty() {
            true => Ok(Self::default()),
            false => Self::load(body),
        }
    }
    /// Returns the bytes that a client must keep in memory or on disk.
    ///
    /// By default these are the tensors of [`save`](Saved::save).
    fn state_bytes(&self) -> u64 {
        self.save().tensors().map(|(_, tensor)| tensor.values().bytes()).sum()
    }
}

impl ClientState for () {
    const STATELESS: bool = true;
}
