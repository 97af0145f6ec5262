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
