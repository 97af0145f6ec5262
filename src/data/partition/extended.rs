//! Mode of the HGP code for many clients (protocol section 5). Before the Dirichlet draw, a few samples are reserved
//! for every client, so that no client is left with nothing.

use rand::RngCore;

use super::Owners;
use crate::numerics::distributions::{Categorical, below, dirichlet};

/// Client that each sample is reserved for, if any: per class, per position within the class.
pub(super) type Reserved = Vec<Vec<Option<u32>>>;

/// Reserves positions of classes for each client.
///
/// `V` (classes x clients) has rows from Dirichlet(`beta`). Every client picks `reserved_samples` classes from its
/// normalized column of `V`; of each class it then takes as many positions **with replacement**, client after client. A
/// later client takes a position over, so one may end with fewer than `reserved_samples`.
pub(super) fn reserve(
    rng: &mut impl RngCore,
    sizes: &[usize],
    clients: u32,
    beta: f64,
    picks: u32,
) -> Reserved {
    let rows: Vec<Vec<f64>> =
        sizes.iter().map(|_| dirichlet(rng, beta, clients as usize)).collect();
    let mut asked = vec![vec![0u32; clients as usize]; sizes.len()];
    for client in 0..clients as usize {
        let column: Vec<f64> = rows.iter().map(|row| row[client]).collect();
        // A column that underflowed to zero carries no information: all classes are equally likely.
        let distribution = Categorical::new(&column)
            .or_else(|| Categorical::new(&vec![1.0; sizes.len()]))
            .expect("a task has classes");
        (0..picks).for_each(|_| asked[distribution.sample(rng)][client] += 1);
    }
    let mut reserved: Reserved = sizes.iter().map(|&size| vec![None; size]).collect();
    for (class, asked) in reserved.iter_mut().zip(&asked) {
        for (client, &count) in asked.iter().enumerate() {
            for _ in 0..count {
                let at = below(rng, class.len() as u64) as usize;
                if let Some(place) = class.get_mut(at) {
                    *place = Some(client as u32);
                }
            }
        }
    }
    reserved
}

/// Overwrites the owners of reserved samples with the clients that they are reserved for.
pub(super) fn keep(reserved: &Reserved, owners: &mut Owners) {
    for (class, owners) in reserved.iter().zip(owners) {
        for (kept, owner) in class.iter().zip(owners) {
            *owner = kept.unwrap_or(*owner);
        }
    }
}
