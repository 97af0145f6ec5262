//! The marker of uploads that fold to one weighted mean of parameters, for services that take another
//! mean than the weighted one, and for clients that lie.
//!
//! A robust fold needs to know which numbers are averaged, and by which weights; a malicious client moves
//! what it learnt somewhere else. Both make sense only where nothing but a mean of parameters is left of
//! uploads: a method of this kind is [`Averaged`] and names itself in
//! [`Method::averaged`](super::Method::averaged). Every other one is refused there with its reason.

use super::Method;
use crate::policy::{ParameterAverage, PolicyError};

/// Uploads whose fold is one weighted mean of differences to what was sent.
pub trait Averaged<M: Method> {
    /// The mean in a part; there is nothing else in it.
    fn average<'a>(&self, part: &'a mut M::Part) -> &'a mut ParameterAverage;

    /// The upload with every number that was learnt replaced by `change(before, after)`: what the
    /// server sent, and what the client made of it.
    ///
    /// # Errors
    /// Where the Up does not fit the Down.
    fn changed(
        &self,
        down: &M::Down,
        up: &M::Up,
        change: &mut dyn FnMut(f32, f32) -> f32,
    ) -> Result<M::Up, PolicyError>;
}
