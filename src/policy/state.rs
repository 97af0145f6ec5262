//! What clients keep between rounds, as their methods see it.

use crate::wire::{Body, WireError};

/// What a client keeps between rounds.
pub trait ClientState: Default + Send + 'static {
    /// `true` for methods that keep nothing; `()` alone should say so.
    const STATELESS: bool = false;
    /// As it lies between two rounds, in memory and in checkpoints.
    fn save(&self) -> Body;
    /// The inverse of [`save`](ClientState::save).
    ///
    /// # Errors
    /// Where it was not written by it.
    fn load(saved: &Body) -> Result<Self, WireError>;
    /// The state in a body, which is empty before the client's first round.
    ///
    /// # Errors
    /// As [`load`](ClientState::load).
    fn of(body: &Body) -> Result<Self, WireError> {
        match body.meta.is_empty() && body.sections.is_empty() {
            true => Ok(Self::default()),
            false => Self::load(body),
        }
    }
    /// Bytes that a client must keep in memory or on disk; by default those of the tensors of
    /// [`save`](ClientState::save).
    fn kept_bytes(&self) -> u64 {
        self.save().tensors().map(|(_, tensor)| tensor.values().bytes()).sum()
    }
}

impl ClientState for () {
    const STATELESS: bool = true;
    fn save(&self) -> Body {
        Body::default()
    }
    fn load(_saved: &Body) -> Result<Self, WireError> {
        Ok(())
    }
}
