//! Quantity-based label imbalance: every client holds a fixed number of classes of the task.

use rand::RngCore;

use super::Owners;
use crate::numerics::distributions::{below, choose};

/// Draws the owners of a task: every client chooses `classes` different classes. Every sample of a class goes to one of
/// the clients that chose it, with equal probability. `None` if no client chose some class.
pub(super) fn draw(
    rng: &mut impl RngCore,
    sizes: &[usize],
    clients: u32,
    classes: usize,
) -> Option<Owners> {
    let mut holders = vec![Vec::new(); sizes.len()];
    for client in 0..clients {
        for class in choose(rng, sizes.len() as u64, classes as u64) {
            holders[class as usize].push(client);
        }
    }
    if holders.iter().any(Vec::is_empty) {
        return None;
    }
    let deal = |(holders, &size): (&Vec<u32>, &usize)| {
        (0..size).map(|_| holders[below(rng, holders.len() as u64) as usize]).collect()
    };
    Some(holders.iter().zip(sizes).map(deal).collect())
}
