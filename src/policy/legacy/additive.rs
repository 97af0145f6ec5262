//! The marker of uploads that are plain sums, for services that may see only the sum.
//!
//! [`Method::lift`] makes a part of one upload that the server reads. Under secure aggregation it
//! reads none: each client states its own *summand*, the numbers that are to be added, and the
//! server makes a part of their sum. A method that can say both is [`Additive`] and names itself
//! in [`Method::additive`]; every other one is refused there with its reason.
//!
//! Summands are bodies of f64 tensors with the sections, names and shapes of the Up they stand for.
//! So what is masked has the layout that the method's sketch promises, and its bytes keep their
//! kinds. The meta bytes of a summand travel unmasked and must be the same for all seats of a round.

use super::Method;
use crate::policy::{PolicyError, UpMeta};
use crate::wire::Body;

/// Uploads whose fold is a plain sum of numbers.
///
/// For all uploads of a round, `part` of the added summands must fold like the merged
/// [`lift`](Method::lift)s, up to rounding.
pub trait Additive<M: Method> {
    /// What a client adds to the sum: the Up's tensors as f64, each number weighted as the fold
    /// weights it. Computed on the client.
    ///
    /// # Errors
    /// Where the Up does not fit the Down.
    fn summand(&self, down: &M::Down, up: &M::Up, meta: &UpMeta) -> Result<Body, PolicyError>;

    /// The folded part, from the sum of all summands of a round.
    ///
    /// # Errors
    /// Where it is no sum of this method's summands.
    fn part(&self, sum: &Body) -> Result<M::Part, PolicyError>;
}

/// Why a method that says nothing about it is refused.
pub(in crate::policy) const UNMARKED: &str = "the method does not mark its uploads as sums";
