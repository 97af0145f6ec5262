//! Which classes slots have.

use super::SlotRules;
use crate::numerics::distributions::{below, choose};
use crate::numerics::streams::{Domain, StreamKey};

/// The class ids of every slot by number, ascending within a slot.
pub(super) fn draw(rules: &SlotRules, classes: usize) -> Vec<Vec<u32>> {
    let count = rules.periods * rules.clients as usize;
    let mut lists: Vec<Vec<u32>> = Vec::with_capacity(count);
    for number in 0..count {
        let client = number as u32 % rules.clients;
        let key = StreamKey::new(rules.seed, Domain::ClassOrder);
        // Step 0 of task 0 is the order of classes.
        let key = key.task(number as u32 / rules.clients).client(client).step(1);
        let mut rng = key.rng();
        let first_period = number < rules.clients as usize;
        let mut list = match first_period {
            true => taken(&mut rng, &(0..classes as u32).collect::<Vec<_>>(), rules.classes),
            false => {
                let like = &lists[below(&mut rng, number as u64) as usize];
                let new = classes - rules.classes;
                // Where too few other classes are there, more are shared.
                let least = rules.overlap.max(rules.classes.saturating_sub(new));
                let choices = (rules.classes - least + 1) as u64;
                let shared = least + below(&mut rng, choices) as usize;
                let rest: Vec<u32> =
                    (0..classes as u32).filter(|class| !like.contains(class)).collect();
                let mut list = taken(&mut rng, like, shared);
                list.extend(taken(&mut rng, &rest, rules.classes - shared));
                list
            }
        };
        list.sort_unstable();
        lists.push(list);
    }
    lists
}

/// So many of them.
fn taken(rng: &mut impl rand::RngCore, of: &[u32], count: usize) -> Vec<u32> {
    let places = choose(rng, of.len() as u64, count as u64);
    places.into_iter().map(|place| of[place as usize]).collect()
}
