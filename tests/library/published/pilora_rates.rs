//! The two rates of PILoRA in its rows of HGP's tables: which of them is that of prototypes.

use super::{FILES, File};

/// A prototype starts as noise of deviation 0.1, and Adam moves a coordinate by at most the rate in a step: it reaches a
/// feature only if the rate times the steps of a task is of the order of one.
#[test]
fn prototypes_can_reach_the_features_of_their_class() {
    let of_pilora = |file: &&File| file.name.starts_with("baselines/pilora-");
    let files: Vec<&File> = FILES.iter().filter(of_pilora).collect();
    assert_eq!(files.len(), 18);
    for file in files {
        let number = |key: &str| {
            let value = file.effective.get(key)?;
            value.as_float().or(value.as_integer().map(|n| n as f64))
        };
        let must = |key: &str| number(key).unwrap_or_else(|| panic!("{}: no {key}", file.name));
        let (pairs, factor) = (must("client.optimizer.lr"), must("method.prototype_lr"));
        // CIFAR-100 has no `nominal`.
        let samples = number("data.nominal.train").unwrap_or(50_000.0) / must("federation.clients");
        let batches = samples / must("tasks.count") / must("client.batch_size");
        let steps = must("federation.rounds") * must("client.epochs") * batches;
        assert!(pairs * factor * steps >= 0.5, "{}: prototypes stay noise", file.name);
        assert!(pairs <= 1e-3, "{}: Adam at {pairs} wrecks the network by its pairs", file.name);
    }
}
