//! Draws of the classes of client tasks.

use super::ClientTaskRules;
use crate::numerics::distributions::{below, choose};
use crate::numerics::streams::{Domain, StreamKey};

/// Draws the class ids of every client task by number, ascending within a client task.
///
/// They are drawn client by client, as the release of Powder does: every client task but the first one drawn may share
/// classes with one drawn before.
pub(super) fn draw(rules: &ClientTaskRules, classes: usize) -> Vec<Vec<u32>> {
    let clients = rules.clients as usize;
    let mut lists = vec![Vec::new(); rules.stages * clients];
    // Number of the client task that is drawn at position `at`.
    let number = |at: usize| at % rules.stages * clients + at / rules.stages;
    for at in 0..lists.len() {
        let (client, stage) = (at / rules.stages, at % rules.stages);
        let key = StreamKey::new(rules.seed, Domain::ClassOrder);
        // Step 0 of task 0 is the order of classes.
        let mut rng = key.task(stage as u32).client(client as u32).step(1).rng();
        let list = match at {
            0 => from_all(&mut rng, rules, classes),
            _ => {
                let like: &Vec<u32> = &lists[number(below(&mut rng, at as u64) as usize)];
                overlapping(&mut rng, rules, classes, like)
            }
        };
        lists[number(at)] = list;
        lists[number(at)].sort_unstable();
    }
    lists
}

fn from_all(rng: &mut impl rand::RngCore, rules: &ClientTaskRules, classes: usize) -> Vec<u32> {
    taken(rng, &(0..classes as u32).collect::<Vec<_>>(), rules.classes)
}

/// Draws some classes from `like`, an earlier client task, and the rest from the other classes.
///
/// Their number is random. If it is 0, all are drawn from all classes, so that some may still be shared.
fn overlapping(
    rng: &mut impl rand::RngCore,
    rules: &ClientTaskRules,
    classes: usize,
    like: &[u32],
) -> Vec<u32> {
    let new = classes - rules.classes;
    // Where there are too few other classes, more have to be shared.
    let least = rules.overlap.max(rules.classes.saturating_sub(new));
    let shared = least + below(rng, (rules.classes - least + 1) as u64) as usize;
    if shared == 0 {
        return from_all(rng, rules, classes);
    }
    let rest: Vec<u32> = (0..classes as u32).filter(|class| !like.contains(class)).collect();
    let mut list = taken(rng, like, shared);
    list.extend(taken(rng, &rest, rules.classes - shared));
    list
}

/// Draws `count` different classes from `of`.
fn taken(rng: &mut impl rand::RngCore, of: &[u32], count: usize) -> Vec<u32> {
    let places = choose(rng, of.len() as u64, count as u64);
    places.into_iter().map(|place| of[place as usize]).collect()
}
