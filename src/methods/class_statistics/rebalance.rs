//! Classifier rebalancing, which CCVR calls calibration.
//!
//! The server retrains the head on features drawn from the mixture, so that neither a client's own classes nor the
//! newest classes have more weight than others.

use std::ops::Range;

use clap::ValueEnum;

use super::{Mixture, Prototypes};
use crate::data::TaskView;
use crate::learning::{Head, HeadLoss, HeadTraining, Schedule};
use crate::model::{LinearHead, Parameter, ParameterSet};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{ModelFacts, PolicyError, RoundContext};
use crate::scenario::reader::{Choice, Keys};

/// Classes over which the server rebalances the head after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Rebalance {
    /// None: the head stays as averaged.
    None,
    /// Classes of earlier tasks, among themselves.
    ///
    /// CR_old of the ablation.
    Old,
    /// Classes of the current task, among themselves.
    ///
    /// CR_cur of the ablation.
    Current,
    /// All classes seen.
    Both,
}

impl Rebalance {
    /// Returns the head rows that a rebalancing trains; empty if there is none.
    ///
    /// Features of their classes are drawn and labeled, the softmax is over them, and all other rows stay as they are.
    pub(in crate::methods) fn rows(self, view: &TaskView) -> Range<usize> {
        match self {
            Rebalance::None => 0..0,
            Rebalance::Old => 0..view.rows.start,
            Rebalance::Current => view.rows.clone(),
            Rebalance::Both => 0..view.seen(),
        }
    }
}

/// Loss of rebalancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum RebalanceLoss {
    /// Cross-entropy of z / (|z| tau).
    Normalized,
    /// Cross-entropy of z.
    Plain,
}

/// Frequency of each class among drawn features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Omega {
    /// Equal for all classes.
    Uniform,
    /// By the class's fraction of the samples behind the Gaussians.
    Share,
}

/// Learning rate over the epochs of a rebalancing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum RebalanceSchedule {
    /// Cosine from the initial rate towards zero.
    #[default]
    Cosine,
    /// Constant rate in all epochs.
    Constant,
}

impl From<RebalanceSchedule> for Schedule {
    fn from(schedule: RebalanceSchedule) -> Schedule {
        match schedule {
            RebalanceSchedule::Cosine => Schedule::Cosine,
            RebalanceSchedule::Constant => Schedule::Constant,
        }
    }
}

/// Rebalancing of the head, with the keys of HGP.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Rebalancing {
    /// Classes over which the head is rebalanced.
    #[key(name = "rebalance", default = Rebalance::Both, source = "paper")]
    pub over: Rebalance,
    /// Frequency of each class among drawn features.
    #[key(default = Omega::Uniform, source = "public code")]
    pub omega: Omega,
    /// Features drawn per class and epoch.
    #[key(default = 256, source = "paper", at_least = 1.0)]
    pub samples_per_class: u32,
    /// Epochs of rebalancing per round, each with new draws.
    #[key(name = "rebalance_epochs", default = 5, source = "paper", at_least = 1.0)]
    pub epochs: u32,
    /// Features per step of rebalancing.
    #[key(name = "rebalance_batch", default = 256, source = "paper", at_least = 1.0)]
    pub batch: u32,
    /// Learning rate of rebalancing, in its first epoch.
    #[key(name = "rebalance_lr", default = 0.01, source = "paper", above = 0.0)]
    pub lr: f64,
    /// Learning rate over the epochs of a rebalancing.
    #[key(
        name = "rebalance_schedule",
        default = RebalanceSchedule::Cosine,
        source = "paper; constant in the last revision of the public code"
    )]
    pub schedule: RebalanceSchedule,
    /// Momentum of the SGD of rebalancing.
    #[key(
        name = "rebalance_momentum",
        default = 0.9,
        source = "paper",
        at_least = 0.0,
        below = 1.0
    )]
    pub momentum: f64,
    /// Loss of rebalancing.
    #[key(
        name = "rebalance_loss",
        default = RebalanceLoss::Normalized,
        source = "public code; the paper says plain"
    )]
    pub loss: RebalanceLoss,
    /// Temperature of the normalized logits.
    #[key(default = 0.1, source = "public code", above = 0.0)]
    pub tau: f64,
}

impl Rebalancing {
    /// Returns true if the head is rebalanced, for which clients must send Gaussians.
    pub fn is_on(&self) -> bool {
        self.over != Rebalance::None
    }

    /// Rebalances the linear head among the parameters `theta` after a round, by [`run`](Rebalancing::run).
    ///
    /// # Errors
    /// As [`run`](Rebalancing::run), and when there is no linear head.
    pub fn apply(
        &self,
        drawn: (&Prototypes, f64),
        theta: &mut ParameterSet,
        round: &RoundContext,
    ) -> Result<Option<f64>, PolicyError> {
        let mut head = head_of(theta)?;
        let key = round.key(Domain::Rebalance);
        let loss = self.run(drawn, &mut head, &round.stage.view, key)?;
        if loss.is_some() {
            put_head(theta, head);
        }
        Ok(loss)
    }

    /// Returns the maximum cost of a rebalancing, in sample passes of the model.
    pub fn work(&self, model: &ModelFacts, view: &TaskView) -> f64 {
        model.passes(self.multiplications(view, model.backbone.dim()))
    }

    /// Returns the maximum number of multiplications of a rebalancing, with features of width `dim`.
    ///
    /// Every drawn feature takes a forward pass over the rows, and a backward pass of twice that cost.
    fn multiplications(&self, view: &TaskView, dim: usize) -> f64 {
        let rows = self.over.rows(view).len() as f64;
        let features = f64::from(self.samples_per_class) * f64::from(self.epochs) * rows;
        3.0 * features * rows * dim as f64
    }

    /// Retrains `head` in place on features drawn with covariances times `scale`.
    ///
    /// Returns the mean loss of the last epoch, or `None` if there is nothing to draw from. Every epoch draws
    /// `samples_per_class` new features per class that has a Gaussian. The draws are independent, so they need no
    /// shuffling; batch `b` of epoch `e` has its own random stream.
    pub fn run(
        &self,
        (prototypes, scale): (&Prototypes, f64),
        head: &mut Head,
        view: &TaskView,
        key: StreamKey,
    ) -> Result<Option<f64>, PolicyError> {
        let rows = self.over.rows(view);
        let drawn = rows.start as u32..rows.end as u32;
        let totals = prototypes.totals(drawn.clone());
        let omega = |row: u32| match self.omega {
            Omega::Uniform => 1.0,
            Omega::Share => totals.get(&row).copied().unwrap_or(0.0),
        };
        let Some(mixture) = Mixture::new(prototypes, drawn, omega, scale)? else {
            return Ok(None);
        };
        let features = self.samples_per_class as usize * mixture.classes();
        let size = features.min(self.batch as usize);
        let batches = features.div_ceil(size);
        let training = HeadTraining {
            epochs: self.epochs,
            rate: self.lr,
            momentum: self.momentum,
            weight_decay: 0.0,
            schedule: self.schedule.into(),
            loss: match self.loss {
                RebalanceLoss::Normalized => HeadLoss::Normalized { tau: self.tau as f32 },
                RebalanceLoss::Plain => HeadLoss::Plain,
            },
        };
        let losses =
            training.run(head, rows, batches, size, |epoch, batch, features, labels| {
                let mut rng = key.step((u64::from(epoch) << 32) | batch as u64).rng();
                mixture.draw(&mut rng, features, labels);
            })?;
        let last = &losses[losses.len() - batches..];
        Ok(Some(last.iter().map(|loss| f64::from(*loss)).sum::<f64>() / batches as f64))
    }
}

fn head_of(parameters: &ParameterSet) -> Result<Head, PolicyError> {
    let values = |name: &str| {
        let found = parameters.get(name).map(|parameter| parameter.values.to_vec());
        found.ok_or_else(|| PolicyError::Unsupported(format!("the server lost `{name}`")))
    };
    Ok(Head { weight: values(LinearHead::WEIGHT)?, bias: values(LinearHead::BIAS)? })
}

fn put_head(parameters: &mut ParameterSet, head: Head) {
    let (rows, dim) = (head.rows(), head.dim());
    let weight = Parameter { shape: vec![rows, dim], values: head.weight.into() };
    parameters.insert(LinearHead::WEIGHT, weight);
    let bias = Parameter { shape: vec![rows], values: head.bias.into() };
    parameters.insert(LinearHead::BIAS, bias);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::methods::class_statistics::{ClassGaussian, ClassStatistics};
    use crate::numerics::gaussian::DiagonalGaussian;
    use crate::numerics::streams::Domain;
    use crate::quantity::{ClientId, TaskId};

    const SCALE: f64 = 3.0;
    const MEANS: [[f64; 3]; 4] =
        [[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [-1.0, 0.0, 0.5], [0.0, -1.0, 0.5]];

    /// Returns a Gaussian without variance per class, each on its own client.
    fn points() -> Prototypes {
        let cell = |(row, mean): (usize, &[f64; 3])| {
            let gaussian =
                DiagonalGaussian { count: 2, mean: mean.to_vec(), variance: vec![0.0; 3] };
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

    /// Draws 5 features per class in 7 epochs, for classes 0 to 3 or the last two.
    #[test]
    fn work_is_counted_by_features_and_rows() {
        let of = |over| Rebalancing { over, samples_per_class: 5, epochs: 7, ..Default::default() };
        let work = |over| of(over).multiplications(&view(), 3);
        assert_eq!(work(Rebalance::Both), f64::from(3 * 5 * 7 * 4 * 4 * 3));
        assert_eq!(work(Rebalance::Current), f64::from(3 * 5 * 7 * 2 * 2 * 3));
        assert_eq!(work(Rebalance::None), 0.0);
    }

    fn start() -> Head {
        let weight = (0..18).map(|i| 0.3 * ((i * 7 % 11) as f32 - 5.0) / 5.0).collect();
        Head { weight, bias: vec![0.05; 6] }
    }

    /// HGP's invariant 7: without variance, rebalancing is training on the class means.
    #[test]
    fn without_variance_it_is_training_on_class_means() {
        let rates = |schedule: RebalanceSchedule| {
            let schedule = Schedule::from(schedule);
            (0..5).map(|epoch| (1e5 * schedule.rate(0.01, epoch, 5)).round()).collect::<Vec<_>>()
        };
        assert_eq!(rates(RebalanceSchedule::Constant), [1000.0; 5]);
        assert_eq!(rates(RebalanceSchedule::Cosine), [1000.0, 905.0, 655.0, 345.0, 95.0]);
        assert_eq!(Rebalancing::default().schedule, RebalanceSchedule::Cosine);
        let [cosine, constant] =
            [RebalanceSchedule::Cosine, RebalanceSchedule::Constant].map(trained_on_class_means);
        assert!(constant > 1.3 * cosine, "twice the rates: {constant} {cosine}");
    }

    /// Checks a rebalancing without variance against training on the means.
    ///
    /// Returns the distance that it moves the head.
    fn trained_on_class_means(schedule: RebalanceSchedule) -> f32 {
        let config = Rebalancing { samples_per_class: 256, schedule, ..Rebalancing::default() };
        let key = StreamKey::new(4, Domain::Rebalance);
        let mut drawn = start();
        let reported = config.run((&points(), SCALE), &mut drawn, &view(), key).unwrap().unwrap();
        // The expected batch has every class with the same share.
        let mut exact = start();
        let training = HeadTraining { schedule: schedule.into(), ..HeadTraining::default() };
        let losses = training
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
        // The reported loss is the mean over the last epoch.
        let last =
            losses[losses.len() - 4..].iter().map(|loss| f64::from(*loss)).sum::<f64>() / 4.0;
        // At a constant rate the head still moves in the last epoch.
        assert!((reported - last).abs() < 0.1 * last, "reported {reported}, expected {last}");
        length
    }

    #[test]
    fn the_ablations_choose_their_rows() {
        let rows = |mode: Rebalance| mode.rows(&view());
        assert_eq!(rows(Rebalance::None), 0..0);
        assert_eq!(rows(Rebalance::Old), 0..2);
        assert_eq!(rows(Rebalance::Current), 2..4);
        assert_eq!(rows(Rebalance::Both), 0..4);
        let mut head = start();
        let config = Rebalancing { over: Rebalance::None, ..Rebalancing::default() };
        let key = StreamKey::new(4, Domain::Rebalance);
        assert!(config.run((&points(), SCALE), &mut head, &view(), key).unwrap().is_none());
        assert_eq!(head, start());
    }

    #[test]
    fn the_same_key_draws_the_same_features() {
        let config =
            Rebalancing { samples_per_class: 16, omega: Omega::Share, ..Rebalancing::default() };
        let run = |round| {
            let mut head = start();
            let key = StreamKey::new(4, Domain::Rebalance).round(round);
            config.run((&points(), SCALE), &mut head, &view(), key).unwrap();
            head
        };
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }
}
