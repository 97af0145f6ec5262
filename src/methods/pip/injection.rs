//! Prototypes among the features that the head learns from.
//!
//! ```text
//! variance   J copies of every class:  mu + u var,  u uniform on [0, 1) number by number, drawn once in a round
//! spread     three of every class:  mu,  mu + u s,  mu - u s,  u on [0, 1/3),  s = sqrt(var), redrawn in every epoch
//!
//! L = CE over the b images of a batch and all that is injected, one mean, on the rows of the task
//! ```
//! Injected features carry no gradient below the head; that of the images is scaled by `b / (b + injected)`.

use candle_core::Tensor;
use clap::ValueEnum;

use super::prototypes::Gaussian;
use crate::learning::{LearningError, PackLogits};
use crate::methods::averaging::{Objective, TrainingStep};
use crate::model::ops::{SampleGroups, grouped_cross_entropy};
use crate::numerics::distributions::uniform;
use crate::numerics::streams::{Domain, StreamKey};
use crate::scenario::reader::Choice;

/// Features that are injected for a prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Injection {
    /// Copies shifted upwards by a part of the variance (code of HGP's benchmark).
    Variance,
    /// Mean, and points on both sides of it at a part of the standard deviation (intent of the release).
    Spread,
}

/// Injected features `(rows, dim)`, flat, and their head rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Injected {
    pub features: Vec<f32>,
    pub rows: Vec<u32>,
}

impl Injection {
    /// Returns the features injected for these prototypes.
    ///
    /// `draw(place, copy, dim)` returns `dim` uniform numbers in [0, 1) for a copy of the prototype at index `place`.
    pub(super) fn of(
        self,
        prototypes: &[(u32, Gaussian)],
        copies: usize,
        draw: impl Fn(usize, usize, usize) -> Vec<f64>,
    ) -> Injected {
        let mut injected = Injected::default();
        let mut inject = |row: u32, features: Vec<f64>| {
            injected.features.extend(features.into_iter().map(|value| value as f32));
            injected.rows.push(row);
        };
        let moved = |one: &Gaussian, by: &dyn Fn(usize) -> f64| -> Vec<f64> {
            one.mean.iter().enumerate().map(|(at, mean)| mean + by(at)).collect()
        };
        match self {
            Injection::Variance => {
                for (place, (row, one)) in prototypes.iter().enumerate() {
                    for copy in 0..copies {
                        let u = draw(place, copy, one.mean.len());
                        inject(*row, moved(one, &|at| u[at] * one.variance[at]));
                    }
                }
            }
            Injection::Spread => {
                for side in [0.0, 1.0, -1.0] {
                    for (place, (row, one)) in prototypes.iter().enumerate() {
                        let u = draw(place, 0, one.mean.len());
                        let part =
                            |at: usize| side * u[at] / 3.0 * one.variance[at].max(0.0).sqrt();
                        inject(*row, moved(one, &part));
                    }
                }
            }
        }
        injected
    }
}

/// Returns the mean cross-entropy of every member over its images and injected features, `(members)`.
///
/// `head` computes logits; `first` is the head row of its first column.
pub(super) fn losses(
    features: &Tensor,
    labels: &[u32],
    groups: &SampleGroups,
    injected: &[&Injected],
    (first, head): (u32, impl Fn(&Tensor, &SampleGroups) -> Result<Tensor, LearningError>),
) -> Result<Tensor, LearningError> {
    let (dim, device) = (features.dim(1)?, features.device());
    let (mut parts, mut all, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for (run, injected) in groups.runs().zip(injected) {
        if run.is_empty() {
            sizes.push(0);
            continue;
        }
        parts.push(features.narrow(0, run.start, run.len())?);
        all.extend(labels[run.clone()].iter().map(|row| row - first));
        let more = injected.rows.len();
        if more > 0 {
            parts.push(Tensor::from_slice(&injected.features, (more, dim), device)?);
            all.extend(injected.rows.iter().map(|row| row - first));
        }
        sizes.push(run.len() + more);
    }
    let (features, groups) = (Tensor::cat(&parts, 0)?.contiguous()?, SampleGroups::new(sizes));
    let logits = head(&features, &groups)?;
    Ok(grouped_cross_entropy(&logits, &all, 0..logits.dim(1)?, &groups)?)
}

/// Prototypes that a member injects, and its random stream.
pub(super) struct InjectionSource {
    pub prototypes: Vec<(u32, Gaussian)>,
    pub key: StreamKey,
    /// Steps per epoch of the member's training.
    pub steps: u64,
    injected: Option<(u64, Injected)>,
}

impl InjectionSource {
    pub fn new(prototypes: Vec<(u32, Gaussian)>, key: StreamKey, steps: usize) -> InjectionSource {
        InjectionSource { prototypes, key, steps: (steps as u64).max(1), injected: None }
    }

    /// Returns the features to inject in a step: drawn once per round (`Variance`), or once per epoch (`Spread`).
    fn at(&mut self, injection: Injection, copies: usize, step: u64) -> &Injected {
        let epoch = match injection {
            Injection::Variance => 0,
            Injection::Spread => step / self.steps,
        };
        if self.injected.as_ref().is_none_or(|(known, _)| *known != epoch) {
            let key = self.key.domain(Domain::Method);
            let draw = |place: usize, copy: usize, dim: usize| {
                let row = u64::from(self.prototypes[place].0);
                let mut rng = key.step(epoch << 48 | row << 24 | copy as u64).rng();
                (0..dim).map(|_| uniform(&mut rng, 0.0, 1.0)).collect()
            };
            self.injected = Some((epoch, injection.of(&self.prototypes, copies, draw)));
        }
        &self.injected.as_ref().expect("it was just made").1
    }
}

/// Loss of a pack whose members received prototypes.
pub(super) struct PipObjective {
    pub injection: Injection,
    pub copies: usize,
    pub sources: Vec<InjectionSource>,
}

impl Objective for PipObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let PipObjective { injection, copies, sources } = self;
        let PackLogits { features, pull, .. } = pass.pack_logits()?;
        let each = sources.iter_mut().zip(&pass.step.steps);
        let injected: Vec<&Injected> =
            each.map(|(source, step)| source.at(*injection, *copies, *step)).collect();
        let (model, step) = (pass.model, pass.step);
        let first = model.rows().start as u32;
        let head = |features: &Tensor, groups: &SampleGroups| {
            Ok(model.head().pack_logits(features, groups)?)
        };
        let labels = step.batch.labels();
        let losses = losses(&features, labels, &step.groups, &injected, (first, head))?;
        Ok(match pull {
            Some(pull) => (losses + pull)?,
            None => losses,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use crate::model::ops::linear;
    use candle_core::{Device, Var};

    fn narrow(values: Vec<f64>) -> Vec<f32> {
        values.into_iter().map(|value| value as f32).collect()
    }

    /// The prototypes of the known classes, which are in the columns from 2 on.
    fn prototypes(golden: &Golden) -> Vec<(u32, Gaussian)> {
        let (mean, variance) = (golden.f64("merged.mean"), golden.f64("merged.var"));
        let known = golden.i64("known");
        let of = |values: &[f64], class: usize| values[class * 5..][..5].to_vec();
        let classes = (0..4).filter(|class| known[*class] == 1);
        classes
            .map(|class| {
                let one = Gaussian { mean: of(&mean, class), variance: of(&variance, class) };
                (2 + class as u32, one)
            })
            .collect()
    }

    struct InjectionGradients {
        loss: f32,
        /// Slopes by features, weight and bias.
        slopes: [Vec<f32>; 3],
    }

    fn found(golden: &Golden, injected: &Injected) -> InjectionGradients {
        let var = |name: &str| {
            let values = narrow(golden.f64(name));
            Var::from_slice(&values, golden.shape(name), &Device::Cpu).unwrap()
        };
        let [f, w, b] = ["f", "W", "b"].map(var);
        let head = |features: &Tensor, _: &SampleGroups| {
            Ok(linear(features, &w, Some(&b))?.narrow(1, 2, 4)?.contiguous()?)
        };
        let labels = golden.labels("labels");
        let loss = losses(&f, &labels, &SampleGroups::one(4), &[injected], (2, head)).unwrap();
        let loss = loss.sum_all().unwrap();
        let gradients = loss.backward().unwrap();
        let slope = |var: &Var| {
            let slope = gradients.get(var).unwrap().flatten_all().unwrap();
            slope.to_vec1::<f32>().unwrap()
        };
        InjectionGradients {
            loss: loss.to_scalar().unwrap(),
            slopes: [slope(&f), slope(&w), slope(&b)],
        }
    }

    #[test]
    fn golden_pip_injects() {
        let Some(golden) = Golden::open("pip") else { return };
        let (prototypes, u, r) = (prototypes(&golden), golden.f64("u"), golden.f64("r"));
        let class = |place: usize| prototypes[place].0 as usize - 2;
        let draw = |place: usize, copy: usize, _| u[(class(place) * 3 + copy) * 5..][..5].to_vec();
        let injected = Injection::Variance.of(&prototypes, 3, draw);
        golden.assert_close_f32("injected", &injected.features);
        let with = found(&golden, &injected);
        golden.assert_close_f32("loss", &[with.loss]);
        for (name, slope) in ["grad_f", "grad_W", "grad_b"].into_iter().zip(&with.slopes) {
            golden.assert_close_f32(name, slope);
        }
        let without = found(&golden, &Injected::default());
        golden.assert_close_f32("plain", &[without.loss]);
        golden.assert_close_f32("plain.grad_f", &without.slopes[0]);
        // PIP card, invariant 4: images count as 4 of 13.
        for (with, without) in with.slopes[0].iter().zip(&without.slopes[0]) {
            assert!((with * 13.0 / 4.0 - without).abs() < 1e-5);
        }
        let thirds =
            |place: usize, _, _| r[class(place) * 5..][..5].iter().map(|part| 3.0 * part).collect();
        let spread = Injection::Spread.of(&prototypes, 0, thirds);
        golden.assert_close_f32("spread", &spread.features);
        golden.assert_close_f32("spread.loss", &[found(&golden, &spread).loss]);
    }

    #[test]
    fn golden_statistics_of_pip() {
        let Some(golden) = Golden::open("statistics") else { return };
        let one = Gaussian { mean: golden.f64("gauss.mean"), variance: golden.f64("gauss.var") };
        let u = golden.f64("gauss.u");
        let draw = |_, copy: usize, _| u[copy * 16..][..16].to_vec();
        let injected = Injection::Variance.of(&[(0, one)], 5, draw);
        golden.assert_close_f32("gauss.pip", &injected.features);
    }

    /// PIP card, invariant 5; and draws: the same in a round, of a spread again in every epoch, never the same for two.
    #[test]
    fn copies_are_of_the_mean_where_nothing_spreads() {
        let one = |variance: f64| Gaussian { mean: vec![1.0, 2.0], variance: vec![variance; 2] };
        let half = |_, _, dim| vec![0.5; dim];
        let of = |variance| Injection::Variance.of(&[(7, one(variance))], 3, half);
        assert_eq!(of(0.0).features, [1.0, 2.0].repeat(3));
        assert_eq!(of(0.0).rows, [7; 3]);
        assert_eq!(of(4.0).features, [3.0, 4.0].repeat(3));
        let spread = Injection::Spread.of(&[(7, one(9.0))], 3, half).features;
        assert_eq!(spread, [1.0, 2.0, 1.5, 2.5, 0.5, 1.5]);

        let source = |client| {
            let key = StreamKey::new(1, Domain::Shuffle).client(client);
            InjectionSource::new(vec![(7, one(1.0)), (8, one(1.0))], key, 4)
        };
        let mut first = source(1);
        let mut drawn = |injection, step| first.at(injection, 2, step).features.clone();
        let round = drawn(Injection::Variance, 0);
        assert_eq!(drawn(Injection::Variance, 9), round);
        assert!(round.chunks(2).zip(round.chunks(2).skip(1)).all(|(a, b)| a != b));
        let epoch = drawn(Injection::Spread, 12);
        assert_eq!(drawn(Injection::Spread, 15), epoch);
        assert_ne!(drawn(Injection::Spread, 16), epoch);
        assert_ne!(source(2).at(Injection::Variance, 2, 0).features, round);
    }
}
