//! Promise: the project's own draws, which have the same bits on every platform, follow the same laws as
//! rand_distr's, which do not promise that.

use fedcast::numerics::alias::AliasTable;
use fedcast::numerics::distributions::{
    dirichlet, exponential, log_gamma_draw, normal, standard_normal,
};
use fedcast::numerics::scalar_distribution::{DistributionKind, ScalarDistribution};
use fedcast::numerics::streams::{Domain, StreamKey};
use rand_chacha::ChaCha8Rng;
use rand_distr::weighted::WeightedAliasIndex;
use rand_distr::{Beta, Distribution, Exp, Gamma, LogNormal, Normal, Pareto, Zipf};

const DRAWS: usize = 20_000;

/// Largest distance between two empirical distribution functions (Kolmogorov, Smirnov).
fn distance(mut a: Vec<f64>, mut b: Vec<f64>) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let (mut i, mut j, mut largest) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        let at = a[i].min(b[j]);
        while i < a.len() && a[i] <= at {
            i += 1;
        }
        while j < b.len() && b[j] <= at {
            j += 1;
        }
        largest = largest.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    largest
}

/// Asserts equal laws at a level of one in a thousand; the seeds are fixed, so it never flickers.
fn same_law(
    name: &str,
    mut ours: impl FnMut(&mut ChaCha8Rng) -> f64,
    reference: impl Distribution<f64>,
) {
    let key = StreamKey::new(11, Domain::Method);
    let (mut a, mut b) = (key.step(1).rng(), key.step(2).rng());
    let ours = (0..DRAWS).map(|_| ours(&mut a)).collect();
    let theirs = (0..DRAWS).map(|_| reference.sample(&mut b)).collect();
    let limit = 1.95 * (2.0 / DRAWS as f64).sqrt();
    let found = distance(ours, theirs);
    assert!(found < limit, "{name}: distance {found:.4}, at most {limit:.4} expected");
}

#[test]
fn draws_follow_the_laws_of_rand_distr() {
    same_law("standard normal", standard_normal, Normal::new(0.0, 1.0).unwrap());
    same_law("normal", |r| normal(r, -2.0, 0.3), Normal::new(-2.0, 0.3).unwrap());
    let distribution = ScalarDistribution::log_normal(0.4f64.exp(), 0.6);
    same_law("log-normal", |r| distribution.draw(r), LogNormal::new(0.4, 0.6).unwrap());
    same_law("exponential", |r| exponential(r, 50.0), Exp::new(1.0 / 50.0).unwrap());
    same_law(
        "gamma below 1",
        |r| 2.0 * log_gamma_draw(r, 0.3).exp(),
        Gamma::new(0.3, 2.0).unwrap(),
    );
    same_law(
        "gamma above 1",
        |r| 0.5 * log_gamma_draw(r, 3.5).exp(),
        Gamma::new(3.5, 0.5).unwrap(),
    );
    // A coordinate of a symmetric Dirichlet is Beta(beta, (n - 1) beta).
    same_law("Dirichlet", |r| dirichlet(r, 0.5, 10)[3], Beta::new(0.5, 4.5).unwrap());
    // Half of the values are above the median, so the smallest value is the median / 2^(1 / alpha).
    let (median, alpha) = (2.0, 1.5);
    let distribution = ScalarDistribution::new(DistributionKind::Pareto { median, alpha });
    let least = median / 2.0f64.powf(1.0 / alpha);
    same_law("Pareto", |r| distribution.draw(r), Pareto::new(least, alpha).unwrap());
    let distribution = ScalarDistribution::zipf(100, 1.1);
    same_law("Zipf", |r| distribution.draw(r), Zipf::new(100.0, 1.1).unwrap());
    let weights = [0.5, 0.0, 3.0, 1.25, 0.25];
    let table = AliasTable::new(&weights).unwrap();
    let reference = WeightedAliasIndex::new(weights.to_vec()).unwrap();
    same_law("alias", |r| table.sample(r) as f64, reference.map(|place: usize| place as f64));
}

#[test]
fn the_distance_sees_a_wrong_scale() {
    let mut rng = StreamKey::new(11, Domain::Method).rng();
    let narrow: Vec<f64> = (0..DRAWS).map(|_| standard_normal(&mut rng)).collect();
    let wide = narrow.iter().map(|value| value * 1.1).collect();
    assert!(distance(narrow, wide) > 0.02);
}
