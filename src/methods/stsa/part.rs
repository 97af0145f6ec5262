//! What is left of uploads on the server.

use super::estimate::Unit;
use super::messages::{ClassSums, Spread, Up};
use crate::numerics::symmetric::Symmetric;
use crate::policy::{Keep, Part};
use crate::quantity::SeatId;

/// STSA's sums, which merge as they stream, or STSA-E's units, which are kept.
#[derive(Clone, Debug)]
pub struct StsaPart {
    /// STSA.
    pub sums: Option<Sums>,
    /// STSA-E.
    pub units: Keep<Unit>,
}

/// `G` and `P` of some clients.
#[derive(Clone, Debug)]
pub struct Sums {
    /// `G`.
    pub gram: Symmetric,
    /// `P^T` over the classes of the task.
    pub sums: ClassSums,
}

impl StsaPart {
    /// The part of one seat.
    pub fn one(seat: SeatId, up: Up) -> StsaPart {
        let Up { sums, spread, .. } = up;
        match spread {
            Spread::Gram(gram) => {
                StsaPart { sums: Some(Sums { gram, sums }), units: Keep(Vec::new()) }
            }
            Spread::Counts(counts) => {
                StsaPart { sums: None, units: Keep::one(seat, Unit { sums, counts }) }
            }
        }
    }
}

impl Part for StsaPart {
    fn merge(self, later: Self) -> Self {
        let sums = match (self.sums, later.sums) {
            (Some(mut mine), Some(theirs)) => {
                mine.gram.add(&theirs.gram);
                mine.sums.add(&theirs.sums);
                Some(mine)
            }
            (one, other) => one.or(other),
        };
        StsaPart { sums, units: self.units.merge(later.units) }
    }
}
