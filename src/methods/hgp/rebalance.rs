//! Classifier rebalancing: the server retrains the head on features drawn from the mixture, so
//! that neither a client's own classes nor the newest classes weigh more than others.

use std::ops::Range;

use super::{HgpConfig, Mixture, Omega, Prototypes, Rebalance, RebalanceLoss};
use crate::data::TaskView;
use crate::learning::{Head, HeadLoss, HeadTraining, Schedule};
use crate::numerics::streams::StreamKey;
use crate::policy::PolicyError;

/// Head rows that a rebalancing draws and trains: it softmaxes over these, labels them, and
/// leaves every other row alone. Empty where there is nothing to do.
pub(super) fn rows(mode: Rebalance, view: &TaskView) -> Range<usize> {
    match mode {
        Rebalance::None => 0..0,
        Rebalance::Old => 0..view.rows.start,
        Rebalance::Current => view.rows.clone(),
        Rebalance::Both => 0..view.seen(),
    }
}

/// Retrains `head` in place; returns the mean loss of the last epoch, or `None` where there is
/// nothing to draw from.
///
/// An epoch draws `samples_per_class` features per class that has a Gaussian, afresh. The draws are
/// independent, so their order needs no shuffling; batch `b` of epoch `e` draws at a stream of its own.
pub(super) fn rebalance(
    config: &HgpConfig,
    prototypes: &Prototypes,
    head: &mut Head,
    view: &TaskView,
    key: StreamKey,
) -> Result<Option<f64>, PolicyError> {
    let rows = rows(config.rebalance, view);
    let drawn = rows.start as u32..rows.end as u32;
    let totals = prototypes.totals(drawn.clone());
    let omega = |row: u32| match config.omega {
        Omega::Uniform => 1.0,
        Omega::Share => totals.get(&row).copied().unwrap_or(0.0),
    };
    let Some(mixture) = Mixture::new(prototypes, drawn, omega, config.cov_scale)? else {
        return Ok(None);
    };
    let features = config.samples_per_class as usize * mixture.classes();
    let size = features.min(config.rebalance_batch as usize);
    let batches = features.div_ceil(size);
    let training = HeadTraining {
        epochs: config.rebalance_epochs,
        rate: config.rebalance_lr,
        momentum: config.rebalance_momentum,
        weight_decay: 0.0,
        schedule: Schedule::Cosine,
        loss: match config.rebalance_loss {
            RebalanceLoss::Normalised => HeadLoss::Normalised { tau: config.tau as f32 },
            RebalanceLoss::Plain => HeadLoss::Plain,
        },
    };
    let losses = training.run(head, rows, batches, size, |epoch, batch, features, labels| {
        let mut rng = key.step((u64::from(epoch) << 32) | batch as u64).rng();
        mixture.draw(&mut rng, features, labels);
    })?;
    let last = &losses[losses.len() - batches..];
    Ok(Some(last.iter().map(|loss| f64::from(*loss)).sum::<f64>() / batches as f64))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::methods::hgp::{ClassGaussian, ClassStatistics};
    use crate::numerics::gaussian::Diagonal;
    use crate::numerics::streams::Domain;
    use crate::quantity::{ClientId, TaskId};

    const MEANS: [[f64; 3]; 4] =
        [[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [-1.0, 0.0, 0.5], [0.0, -1.0, 0.5]];

    /// A Gaussian of hardly any width per class, each on a client of its own.
    fn points() -> Prototypes {
        let cell = |(row, mean): (usize, &[f64; 3])| {
            let gaussian = Diagonal { count: 2, mean: mean.to_vec(), variance: vec![0.0; 3] };
            let gaussian = ClassGaussian::Diagonal(gaussian);
            let class = Arc::new(ClassStatistics { row: row as u32, gaussian });
            (ClientId(row as u32), vec![class])
        };
        let mut prototypes = Prototypes::default();
        prototypes.update(&MEANS.iter().enumerate().map(cell).collect::<Vec<_>>(), true);
        prototypes
    }

    fn view() -> TaskView {
        TaskView { task: TaskId(1), rows: 2..4, classes: vec![2, 3] }
    }

    fn start() -> Head {
        let weight = (0..18).map(|i| 0.3 * ((i * 7 % 11) as f32 - 5.0) / 5.0).collect();
        Head { weight, bias: vec![0.05; 6] }
    }

    /// HGP's invariant 7: where variances vanish, rebalancing is training on the class means.
    #[test]
    fn without_variance_it_is_training_on_class_means() {
        let config = HgpConfig { samples_per_class: 256, ..HgpConfig::default() };
        let key = StreamKey::new(4, Domain::Rebalance);
        let mut drawn = start();
        rebalance(&config, &points(), &mut drawn, &view(), key).unwrap().unwrap();
        // The expectation of a batch: every class with the same share.
        let mut exact = start();
        let training = HeadTraining::default();
        training
            .run(&mut exact, 0..4, 4, 4, |_, _, features, labels| {
                for (row, feature) in features.chunks_exact_mut(3).enumerate() {
                    feature.iter_mut().zip(MEANS[row]).for_each(|(f, m)| *f = m as f32);
                    labels[row] = row as u32;
                }
            })
            .unwrap();
        let moved = |head: &Head| {
            let pairs = head.weight.iter().zip(&start().weight).map(|(a, b)| a - b).collect();
            let pairs: Vec<f32> = pairs;
            pairs
        };
        let (drawn, exact) = (moved(&drawn), moved(&exact));
        let length = exact.iter().map(|v| v * v).sum::<f32>().sqrt();
        let gap = drawn.iter().zip(&exact).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
        assert!(length > 0.05 && gap < 0.1 * length, "moved {length}, apart {gap}");
    }

    #[test]
    fn the_ablations_choose_their_rows() {
        let rows = |mode| super::rows(mode, &view());
        assert_eq!(rows(Rebalance::None), 0..0);
        assert_eq!(rows(Rebalance::Old), 0..2);
        assert_eq!(rows(Rebalance::Current), 2..4);
        assert_eq!(rows(Rebalance::Both), 0..4);
        let mut head = start();
        let config = HgpConfig { rebalance: Rebalance::None, ..HgpConfig::default() };
        let key = StreamKey::new(4, Domain::Rebalance);
        assert!(rebalance(&config, &points(), &mut head, &view(), key).unwrap().is_none());
        assert_eq!(head, start());
    }

    #[test]
    fn the_same_key_draws_the_same_features() {
        let config =
            HgpConfig { samples_per_class: 16, omega: Omega::Share, ..HgpConfig::default() };
        let run = |round| {
            let mut head = start();
            let key = StreamKey::new(4, Domain::Rebalance).round(round);
            rebalance(&config, &points(), &mut head, &view(), key).unwrap();
            head
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
