//! STSA's server: adds sums up over clients and tasks and solves for the head.

use std::sync::Arc;

use super::class_sums::ClassSums;
use super::config::{Estimation, Variant};
use super::estimate::{Unit, estimate};
use super::features::{Frozen, collect};
use super::head::{RidgeHead, Scorer};
use super::{Stsa, messages};
use crate::data::{Shard, TaskView};
use crate::numerics::ridge::ridge;
use crate::numerics::symmetric::{Symmetric, packed_len};
use crate::policy::{
    Folded, Lab, Message, PolicyError, Predictor, RoundContext, Seat, Server, shared,
};
use crate::wire::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};

/// What the server knows.
pub struct StsaServer {
    method: Stsa,
    seed: u64,
    /// `G` over all clients and tasks so far.
    gram: Symmetric,
    /// `P^T` over all classes; rows not seen yet are zero.
    sums: ClassSums,
    /// `W`, `(classes, D)`; rows not seen yet are zero.
    weights: Vec<f64>,
    figures: Vec<(&'static str, f64)>,
}

impl StsaServer {
    pub(super) fn new(method: Stsa, seed: u64) -> StsaServer {
        let (classes, width) = (method.classes, method.width());
        StsaServer {
            seed,
            gram: Symmetric::zeros(width),
            sums: ClassSums::zeros(classes, width),
            weights: vec![0.0; classes * width],
            figures: Vec::new(),
            method,
        }
    }

    /// `G` and `P^T` of what arrived from units: the matrix is estimated.
    fn estimated(
        &mut self,
        units: &[Unit],
        (rule, view): (&Estimation, &TaskView),
        lab: &Lab,
    ) -> Result<(Symmetric, ClassSums), PolicyError> {
        let width = self.method.width();
        let mut sums = ClassSums::zeros(view.rows.len(), width);
        units.iter().for_each(|unit| sums.add(&unit.sums));
        let gram = estimate(units, width, rule);
        if rule.diagnostics {
            let truth = self.truth(view, lab)?;
            let mut gap = gram.clone();
            gap.add_scaled(-1.0, &truth);
            self.figures.push(("gram_error", gap.norm() / truth.norm()));
            self.figures.push(("gram_trace", gram.trace() / truth.trace()));
        }
        Ok((gram, sums))
    }

    /// The Gram matrix of all training samples of a task, which no server of a federation could know.
    fn truth(&self, view: &TaskView, lab: &Lab) -> Result<Symmetric, PolicyError> {
        let by_class = lab.dataset.train.by_class();
        let samples = view.classes.iter().flat_map(|class| &by_class[*class as usize]);
        let mut samples: Vec<u32> = samples.copied().collect();
        samples.sort_unstable();
        let shard: Shard = samples.into();
        let found = collect(lab, &shard, view, &self.method.layer(self.seed), true)?;
        Ok(found.gram.unwrap_or_default())
    }

    /// `W^T = (G + lambda I)^-1 P` over the classes seen.
    fn solve(&mut self, seen: usize) -> Result<(), PolicyError> {
        let (config, width) = (&self.method.config, self.method.width());
        let correlation = &self.sums.values[..seen * width];
        let solution = ridge(&self.gram, correlation, config.lambda, config.raises)
            .map_err(|error| PolicyError::Unsupported(error.to_string()))?;
        self.weights[..seen * width].copy_from_slice(&solution.weights);
        self.figures.push(("lambda", solution.penalty));
        self.figures.push(("lambda_raised", f64::from(solution.raised)));
        Ok(())
    }
}

impl Server for StsaServer {
    fn broadcast(
        &mut self,
        _round: &RoundContext,
        seats: &[Seat],
        _lab: &Lab,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        Ok(shared(messages::of_seed(self.seed)?, seats))
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<Folded>,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        self.figures.clear();
        let Some(folded) = folded else { return Ok(()) };
        let view = &round.period.view;
        let (gram, sums) = match self.method.config.variant {
            Variant::Exact { .. } => messages::sums_of(&folded, self.method.width())?,
            Variant::Estimated(rule) => {
                let units = folded.kept.iter().map(|kept| messages::unit_of(&kept.update));
                let units: Vec<Unit> = units.collect::<Result<_, _>>()?;
                self.estimated(&units, (&rule, view), lab)?
            }
        };
        self.gram.add(&gram);
        for (class, row) in view.rows.clone().enumerate() {
            let to = self.sums.row_mut(row).iter_mut();
            to.zip(sums.row(class)).for_each(|(to, sum)| *to += sum);
        }
        self.solve(view.seen())
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        let (layer, mode) = (self.method.layer(self.seed), self.method.config.head_mode);
        let scorer = Scorer::new(layer, mode, self.weights.clone());
        Ok(Arc::new(RidgeHead { frozen: Frozen::of(lab), scorer: Arc::new(scorer) }))
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.figures.clone()
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
        let tensors = tensors.map(|tensor| tensor.expect("sums fill their shapes"));
        Body::new(meta.finish(), vec![Section::new(Kind::Statistics, tensors.into())])
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
        let gram = Symmetric::from_packed(width, values("gram", &[packed_len(width)])?);
        self.gram = gram.ok_or_else(|| WireError::Malformed("`gram` is no triangle".into()))?;
        self.sums = ClassSums { width, values: values("sums", &rows)? };
        self.weights = values("weights", &rows)?;
        Ok(())
    }
}
