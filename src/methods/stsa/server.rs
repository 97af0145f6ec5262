//! STSA's server: adds sums over clients and tasks and solves for the head.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::class_sums::ClassSums;
use super::config::{Estimation, Variant};
use super::estimate::{UnitStatistics, estimate};
use super::exactness::{Exact, Statistics, expected_square, head_error};
use super::features::{Collected, Frozen, collect};
use super::head::{RidgeHead, Scorer};
use super::{Stsa, messages};
use crate::data::{Shard, TaskView};
use crate::numerics::ridge::{Ridge, ridge};
use crate::numerics::symmetric::{Symmetric, packed_len};
use crate::policy::{
    Aggregate, Message, Participant, PolicyError, Predictor, RoundContext, RunContext, Server,
    shared,
};
use crate::wire::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};

const EXACT_GRAM: &str = "exact.gram";
const EXACT_SUMS: &str = "exact.sums";

/// Server of STSA and STSA-E.
pub struct StsaServer {
    method: Stsa,
    seed: u64,
    /// Gram matrix `G` of all clients and tasks so far.
    gram: Symmetric,
    /// Class sums `P^T` of all classes; rows not seen yet are zero.
    sums: ClassSums,
    /// Head `W`, `(classes, D)`; rows not seen yet are zero.
    weights: Vec<f64>,
    /// Exact statistics with which the head is compared, if requested: a diagnostic of the simulator, no part of the
    /// method.
    exact: Option<Exact>,
    metrics: Vec<(&'static str, f64)>,
}

impl StsaServer {
    pub(super) fn new(method: Stsa, seed: u64) -> StsaServer {
        let (classes, width) = (method.classes, method.width());
        let compared = matches!(method.config.variant, Variant::Estimated(rule) if rule.head_error);
        let exact =
            || Exact { gram: Symmetric::zeros(width), sums: ClassSums::zeros(classes, width) };
        StsaServer {
            seed,
            exact: compared.then(exact),
            gram: Symmetric::zeros(width),
            sums: ClassSums::zeros(classes, width),
            weights: vec![0.0; classes * width],
            metrics: Vec::new(),
            method,
        }
    }

    /// Returns the estimated `G`, and `P^T`, from the units of a round; `all` also counts empty units.
    fn estimated(
        &mut self,
        (units, all): (&[UnitStatistics], usize),
        (rule, view): (&Estimation, &TaskView),
        ctx: &RunContext,
    ) -> Result<(Symmetric, ClassSums), PolicyError> {
        let width = self.method.width();
        let mut sums = ClassSums::zeros(view.rows.len(), width);
        units.iter().for_each(|unit| sums.add(&unit.sums));
        let gram = estimate(units, all, width, rule);
        if rule.diagnostics {
            let truth = self.truth(view, &view.classes, ctx)?.gram.unwrap_or_default();
            let mut gap = gram.clone();
            gap.add_scaled(-1.0, &truth);
            self.metrics.push(("gram_error", gap.norm() / truth.norm()));
            self.metrics.push(("gram_trace", gram.trace() / truth.trace()));
        }
        if rule.head_error {
            self.know_exactly(units, view, ctx)?;
        }
        Ok((gram, sums))
    }

    /// Returns the sums over all training samples of some classes of a task.
    ///
    /// No server of a federation could know them.
    fn truth(
        &self,
        view: &TaskView,
        classes: &[u32],
        ctx: &RunContext,
    ) -> Result<Collected, PolicyError> {
        let shard: Shard = ctx.dataset.train.of_classes(classes.iter().copied()).into();
        collect(ctx, &shard, view, &self.method.layer(self.seed), true)
    }

    /// Adds the exact sums of a task, class by class, and reports the error that Proposition 3.2 predicts.
    fn know_exactly(
        &mut self,
        units: &[UnitStatistics],
        view: &TaskView,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let mut task = Symmetric::zeros(self.method.width());
        let mut expected = 0.0;
        for class in &view.classes {
            let found = self.truth(view, &[*class], ctx)?;
            let gram = found.gram.unwrap_or_default();
            for (place, samples) in found.unit.counts.iter().enumerate() {
                if *samples == 0.0 {
                    continue;
                }
                let holders = units.iter().filter(|unit| unit.counts[place] >= 1.0).count();
                let sum = found.unit.sums.row(place);
                expected += expected_square(&gram, sum, *samples, holders as f64);
                if let Some(exact) = &mut self.exact {
                    let row = exact.sums.row_mut(view.rows.start + place);
                    row.iter_mut().zip(sum).for_each(|(to, sum)| *to += sum);
                }
            }
            task.add(&gram);
        }
        self.metrics.push(("gram_expected", expected.sqrt() / task.norm()));
        if let Some(exact) = &mut self.exact {
            exact.gram.add(&task);
        }
        Ok(())
    }

    /// Solves `W^T = (G + lambda I)^-1 P` for the classes seen, and compares the head if requested.
    fn solve(&mut self, seen: usize) -> Result<(), PolicyError> {
        let width = self.method.width();
        let solution = self.head(&self.gram, &self.sums.values[..seen * width])?;
        self.weights[..seen * width].copy_from_slice(&solution.weights);
        self.metrics.push(("lambda", solution.penalty));
        self.metrics.push(("lambda_raised", f64::from(solution.raised)));
        if let Some(Exact { gram, sums }) = &self.exact {
            let correlation = &sums.values[..seen * width];
            let head = self.head(gram, correlation)?;
            let exact = Statistics { gram, correlation, head: &head };
            let correlation = &self.sums.values[..seen * width];
            let estimated = Statistics { gram: &self.gram, correlation, head: &solution };
            if let Some(found) = head_error(&estimated, &exact) {
                self.metrics.push(("head_error", found.error));
                let bound = Some(found.bound).filter(|bound| bound.is_finite());
                self.metrics.extend(bound.map(|bound| ("head_bound", bound)));
            }
        }
        Ok(())
    }

    fn head(&self, gram: &Symmetric, correlation: &[f64]) -> Result<Ridge, PolicyError> {
        let config = &self.method.config;
        ridge(gram, correlation, config.penalty(), config.raises)
            .map_err(|error| PolicyError::Unsupported(error.to_string()))
    }
}

/// Returns the number of parts into which the clients of these uploads were cut, empty ones included.
///
/// A client with few samples fills fewer parts than others, but was cut into the same number.
pub(super) fn cut_by(aggregate: &Aggregate) -> usize {
    let participants = || aggregate.kept_uploads.iter().map(|kept| &kept.meta.participant);
    let clients: BTreeSet<_> = participants().map(|participant| participant.client).collect();
    let each = participants()
        .map(|participant| participant.dummy_client.map_or(1, |dummy_client| dummy_client + 1))
        .max()
        .unwrap_or(0);
    clients.len() * each as usize
}

impl Server for StsaServer {
    fn broadcast(
        &mut self,
        _round: &RoundContext,
        participants: &[Participant],
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        Ok(shared(messages::of_seed(self.seed)?, participants))
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        self.metrics.clear();
        let Some(aggregate) = aggregate else { return Ok(()) };
        let view = &round.stage.view;
        let (gram, sums) = match self.method.config.variant {
            Variant::Exact { .. } => messages::sums_of(&aggregate, self.method.width())?,
            Variant::Estimated(rule) => {
                let units =
                    aggregate.kept_uploads.iter().map(|kept| messages::unit_of(&kept.update));
                let units: Vec<UnitStatistics> = units.collect::<Result<_, _>>()?;
                self.estimated((&units, cut_by(&aggregate)), (&rule, view), ctx)?
            }
        };
        self.gram.add(&gram);
        for (class, row) in view.rows.clone().enumerate() {
            let to = self.sums.row_mut(row).iter_mut();
            to.zip(sums.row(class)).for_each(|(to, sum)| *to += sum);
        }
        self.solve(view.seen())
    }

    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        let (layer, mode) = (self.method.layer(self.seed), self.method.config.head_mode);
        let scorer = Scorer::new(layer, mode, self.weights.clone());
        Ok(Arc::new(RidgeHead { frozen: Frozen::of(ctx), scorer: Arc::new(scorer) }))
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.metrics.clone()
    }

    fn save(&self) -> Body {
        let mut meta = MetaWriter::new();
        meta.u64(self.seed);
        let (classes, width) = (self.sums.classes(), self.sums.width);
        let rows = [classes, width];
        let tensors = [
            NamedTensor::f64("gram", [packed_len(width)], self.gram.packed()),
            NamedTensor::f64("sums", rows, &self.sums.values[..]),
            NamedTensor::f64("weights", rows, &self.weights[..]),
        ];
        let mut tensors: Vec<_> = tensors.into();
        if let Some(Exact { gram, sums }) = &self.exact {
            tensors.push(NamedTensor::f64(EXACT_GRAM, [packed_len(width)], gram.packed()));
            tensors.push(NamedTensor::f64(EXACT_SUMS, rows, &sums.values[..]));
        }
        let tensors = tensors.into_iter().map(|tensor| tensor.expect("sums fill their shapes"));
        Body::new(meta.finish(), vec![Section::new(Kind::Statistics, tensors.collect())])
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        self.seed = meta.u64()?;
        meta.finish()?;
        let width = self.method.width();
        let values = |name: &str, shape: &[usize]| {
            saved.tensor(Kind::Statistics, name)?.shaped(shape)?.as_f64().map(|v| v.to_vec())
        };
        let rows = [self.method.classes, width];
        let triangle = |name: &str| {
            let gram = Symmetric::from_packed(width, values(name, &[packed_len(width)])?);
            gram.ok_or_else(|| WireError::Malformed(format!("`{name}` is no triangle")))
        };
        self.gram = triangle("gram")?;
        self.sums = ClassSums { width, values: values("sums", &rows)? };
        self.weights = values("weights", &rows)?;
        if let Some(exact) = &mut self.exact {
            exact.gram = triangle(EXACT_GRAM)?;
            exact.sums = ClassSums { width, values: values(EXACT_SUMS, &rows)? };
        }
        Ok(())
    }
}
