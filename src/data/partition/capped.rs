//! Per-class Dirichlet with a cap (protocol of STSA and LANDER, after the NIID benchmark): like
//! [`dirichlet`](super::dirichlet), but a client that already holds its even share of the task
//! gets nothing of further classes, and a shuffled class is cut at the cumulative shares.

use rand::RngCore;

use super::Owners;
use crate::numerics::distributions::{dirichlet, shuffle};

/// Draws the owners of a whole task, class by class; `None` if all remaining shares underflow to zero.
pub(super) fn draw(
    rng: &mut impl RngCore,
    sizes: &[usize],
    clients: u32,
    beta: f64,
) -> Option<Owners> {
    let clients = clients as usize;
    let cap = sizes.iter().sum::<usize>() as f64 / clients as f64;
    let mut held = vec![0usize; clients];
    let class = |size: &usize| {
        let mut shares = dirichlet(rng, beta, clients);
        let full = held.iter().map(|held| *held as f64 >= cap);
        shares.iter_mut().zip(full).filter(|(_, full)| *full).for_each(|(share, _)| *share = 0.0);
        let sum: f64 = shares.iter().sum();
        if *size > 0 && sum <= 0.0 {
            return None;
        }
        let mut order: Vec<usize> = (0..*size).collect();
        shuffle(rng, &mut order);
        let mut owners = vec![0; *size];
        let (mut before, mut start) = (0.0, 0);
        let last = shares.iter().rposition(|share| *share > 0.0).unwrap_or(0);
        for (client, share) in shares.iter().enumerate() {
            before += share / sum;
            let end = if client >= last { *size } else { (before * *size as f64) as usize };
            let end = end.clamp(start, *size);
            order[start..end].iter().for_each(|place| owners[*place] = client as u32);
            held[client] += end - start;
            start = end;
        }
        Some(owners)
    };
    sizes.iter().map(class).collect()
}
