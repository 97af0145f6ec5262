//! Distribution-based label imbalance, the HGP benchmark's rule (protocol section 2).
//!
//! For every class, shares over clients from a symmetric Dirichlet; then **every sample on its own** from those
//! shares, so that counts are multinomial. It is not the usual cutting of a list at cumulative shares.

use rand::RngCore;

use super::Owners;
use crate::numerics::distributions::{Categorical, dirichlet};

/// Shares below this count as none (as in the code).
const NEGLIGIBLE: f64 = 1e-20;

/// One draw of the whole task: class by class, sample by sample.
pub(super) fn draw(rng: &mut impl RngCore, sizes: &[usize], clients: u32, beta: f64) -> Owners {
    sizes
        .iter()
        .map(|&size| {
            let mut shares = dirichlet(rng, beta, clients as usize);
            shares.iter_mut().filter(|s| **s < NEGLIGIBLE).for_each(|s| *s = 0.0);
            // Shares of one Dirichlet sum to one: the largest is at least 1 / clients.
            let distribution = Categorical::new(&shares).expect("shares sum to one");
            (0..size).map(|_| distribution.sample(rng) as u32).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests;
