//! Distribution-based label imbalance, the HGP benchmark's rule (protocol section 2).
//!
//! For every class, shares of the clients are drawn from a symmetric Dirichlet distribution, and then the owner of
//! **every single sample** from those shares, so that counts are multinomial. This differs from the usual cutting of a
//! list at cumulative shares.

use rand::RngCore;

use super::Owners;
use crate::numerics::distributions::{Categorical, dirichlet};

/// Shares below this count as zero, as in the benchmark's code.
const NEGLIGIBLE: f64 = 1e-20;

/// Draws the owners of a whole task, class by class and sample by sample.
pub(super) fn draw(rng: &mut impl RngCore, sizes: &[usize], clients: u32, beta: f64) -> Owners {
    sizes
        .iter()
        .map(|&size| {
            let mut shares = dirichlet(rng, beta, clients as usize);
            shares.iter_mut().filter(|s| **s < NEGLIGIBLE).for_each(|s| *s = 0.0);
            // The shares sum to one, so the largest is at least 1 / clients.
            let distribution = Categorical::new(&shares).expect("shares sum to one");
            (0..size).map(|_| distribution.sample(rng) as u32).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests;
