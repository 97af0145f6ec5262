//! Latent Dirichlet allocation as the MFCL line and FedHAF divide a task. All clients have equally many samples, and
//! each has its own proportions of classes.

use rand::RngCore;

use super::Owners;
use crate::numerics::distributions::{Categorical, dirichlet, shuffle};

/// Added to a client's remaining proportions when a class runs out, so that they never all vanish.
const FLOOR: f64 = 1e-5;

/// Draws an even share of the task for each client, one client after the other.
///
/// Shard sizes differ by at most one. A client draws proportions of the classes from Dirichlet(`alpha`), and then
/// sample by sample a class from them and a random sample of that class; a class without samples left drops out. Late
/// clients get what remains.
pub(super) fn draw(rng: &mut impl RngCore, sizes: &[usize], clients: u32, alpha: f64) -> Owners {
    let clients = clients as usize;
    let total: usize = sizes.iter().sum();
    let mut owners: Owners = sizes.iter().map(|&size| vec![0; size]).collect();
    let mut left: Vec<Vec<usize>> = sizes
        .iter()
        .map(|&size| {
            let mut places: Vec<usize> = (0..size).collect();
            shuffle(rng, &mut places);
            places
        })
        .collect();
    for client in 0..clients {
        let mut shares = dirichlet(rng, alpha, sizes.len());
        let mut distribution = without_empty(&mut shares, &left);
        for _ in 0..total / clients + usize::from(client < total % clients) {
            let Some(class) = distribution.as_ref().map(|distribution| distribution.sample(rng))
            else {
                break;
            };
            if let Some(place) = left[class].pop() {
                owners[class][place] = client as u32;
            }
            if left[class].is_empty() {
                distribution = without_empty(&mut shares, &left);
            }
        }
    }
    owners
}

/// Returns the distribution over classes that have samples left; `None` when there are none.
fn without_empty(shares: &mut [f64], left: &[Vec<usize>]) -> Option<Categorical> {
    let none_empty = left.iter().all(|places| !places.is_empty());
    for (share, places) in shares.iter_mut().zip(left) {
        *share = match places.is_empty() {
            true => 0.0,
            false if none_empty => *share,
            false => *share + FLOOR,
        };
    }
    Categorical::new(shares)
}
