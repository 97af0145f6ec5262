//! Equal random parts.

use rand::RngCore;

use super::Owners;
use crate::numerics::distributions::shuffle;

/// Draws owners by dealing out the shuffled task in turn, so that shards differ by at most one sample.
pub(super) fn draw(rng: &mut impl RngCore, sizes: &[usize], clients: u32) -> Owners {
    let total: usize = sizes.iter().sum();
    let mut deal: Vec<u32> = (0..total).map(|k| (k % clients as usize) as u32).collect();
    shuffle(rng, &mut deal);
    let mut rest = deal.as_slice();
    sizes
        .iter()
        .map(|&size| {
            let (class, after) = rest.split_at(size);
            rest = after;
            class.to_vec()
        })
        .collect()
}
