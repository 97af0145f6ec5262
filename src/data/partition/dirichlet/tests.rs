//! Counts of clients against the beta-binomial law that they follow.

use super::*;
use crate::golden::Golden;
use crate::numerics::streams::{Domain, StreamKey};

const CLIENTS: usize = 10;
const CLASSES: usize = 400;

/// Samples that clients hold of a class of `size`, of many classes.
fn counts(beta: f64, size: usize) -> Vec<f64> {
    let mut rng = StreamKey::new(5, Domain::Partition).rng();
    let owners = draw(&mut rng, &[size; CLASSES], CLIENTS as u32, beta);
    let of_class = |owners: &Vec<u32>| {
        let mut counts = vec![0.0; CLIENTS];
        owners.iter().for_each(|client| counts[*client as usize] += 1.0);
        counts
    };
    owners.iter().flat_map(of_class).collect()
}

/// Means, variances, and how often a client has no sample of a class, or fewer than two.
#[test]
fn golden_metrics_of_dirichlet_counts() {
    let Some(golden) = Golden::open("metrics") else { return };
    let (betas, sizes) = (golden.f64("dirichlet.beta"), golden.i64("dirichlet.N"));
    let both = betas.iter().flat_map(|beta| sizes.iter().map(move |size| (*beta, *size as usize)));
    let all: Vec<Vec<f64>> = both.map(|(beta, size)| counts(beta, size)).collect();
    let mean = |of: &dyn Fn(f64) -> f64| -> Vec<f64> {
        all.iter().map(|counts| counts.iter().map(|n| of(*n)).sum::<f64>() / 4000.0).collect()
    };
    golden.assert_within("dirichlet.mean", &mean(&|n| n), 1e-9);
    golden.assert_within("dirichlet.p0", &mean(&|n| f64::from(u8::from(n == 0.0))), 0.03);
    golden.assert_within("dirichlet.p_lt2", &mean(&|n| f64::from(u8::from(n < 2.0))), 0.03);
    let wanted = golden.f64("dirichlet.var");
    for ((n, square), wanted) in mean(&|n| n).iter().zip(mean(&|n| n * n)).zip(wanted) {
        let found = square - n * n;
        assert!((found / wanted - 1.0).abs() < 0.12, "{found} for {wanted}");
    }
}
