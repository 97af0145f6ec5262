//! **FedProto** (Tan et al., AAAI 2022) with a shared model: FedAvg whose clients draw the mean feature of each class
//! towards the mean over all clients of the round before, its prototype.
//!
//! ```text
//! client   theta, p <- down;  minimise  CE + lambda sum_c 1/d |p_c - mean of f(x_i) over the batch's samples of c|^2
//!          sends theta_m and (n_c, mean of f(x; theta_m)) of every class it holds
//! server   theta <- the plain mean;  p_c <- sum_m n_mc p_mc / sum_m n_mc
//! ```
//! The sum is over the classes of a batch that have a prototype: in the first round of a task none has, and the round is
//! FedAvg's. A class that nobody reports in a round keeps its prototype. Prototypes of a task are of no use in the next
//! one, so old classes are protected by nothing.
//!
//! In the paper only prototypes travel and models stay their clients' own; averaging them, too, is what HGP's benchmark
//! does. Features for prototypes are those of the statistics transform.

use std::collections::BTreeMap;

use candle_core::Tensor;

use super::averaged::{
    Averaged, Client, Closing, Memory, Objective, Pass, Trained, Weights, sample_count,
};
use super::class_statistics::{
    ClassMean, described, features_by_class, fields, flag_bytes, flagged, flags,
};
use super::fedavg::FedAvg;
use super::registry::MethodEntry;
use crate::data::TaskView;
use crate::learning::losses::{ClassPrototypes, ProtoDistance};
use crate::learning::{Classifier, LearningError, TrainingPlan};
use crate::model::ParameterSet;
use crate::numerics::gaussian::Diagonal;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Lab, Message, ModelFacts, Place, PolicyError, RoundContext, Service, SketchFacts, UpSize, Veto,
    parameters_of,
};
use crate::scenario::reader::{Param, TableReader, defaults};
use crate::wire::{Body, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};

/// Name of the prototypes in a Down.
const PROTOTYPES: &str = "prototypes";

/// The `[method]` table of FedProto.
#[derive(Clone, Debug, PartialEq)]
pub struct FedProto {
    /// What trains and how.
    pub fedavg: FedAvg,
    /// `lambda`, the strength of the pull.
    pub weight: f64,
    /// How far a class mean is from its prototype.
    pub distance: ProtoDistance,
}

impl Default for FedProto {
    fn default() -> Self {
        defaults(FedProto::read)
    }
}

impl FedProto {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedProto {
        let code = "the code of HGP's benchmark";
        let fedavg = FedAvg::read_weighing(table, Weights::Uniform, code);
        let weight =
            Param::new("weight", 0.1, "weight of the term that draws features to prototypes");
        let distance = ProtoDistance::MeanSquare;
        let distance = Param::new("distance", distance, "of a class mean from its prototype");
        FedProto {
            fedavg,
            weight: table.get(&weight.source(code).at_least(0.0)),
            distance: table.get(&distance.source(code)),
        }
    }

    /// Whether prototypes travel: nobody uses them where nothing pulls.
    fn pulls(&self) -> bool {
        self.weight > 0.0
    }

    /// Whether a Down holds prototypes: not in the first round of a task.
    fn is_told(&self, round_in_phase: u32) -> bool {
        self.pulls() && round_in_phase > 0
    }

    /// Head rows of the classes that an upload describes.
    fn described(&self, facts: &SketchFacts<'_>) -> Vec<u32> {
        if self.pulls() { described(facts.counts, 1) } else { Vec::new() }
    }
}

/// The prototypes of the task's classes, by head row.
#[derive(Debug, Default, PartialEq)]
pub struct Prototypes {
    known: BTreeMap<u32, Vec<f32>>,
    /// Width of a feature.
    dim: usize,
}

impl Prototypes {
    /// `p_c = sum_m n_mc p_mc / sum_m n_mc` of the classes that anybody reports.
    fn take(&mut self, reports: &[ClassMean]) {
        let mut sums: BTreeMap<u32, (f64, Vec<f64>)> = BTreeMap::new();
        for ClassMean { row, count, mean } in reports.iter().filter(|report| report.count > 0) {
            let (total, sum) = sums.entry(*row).or_insert_with(|| (0.0, vec![0.0; mean.len()]));
            *total += *count as f64;
            sum.iter_mut().zip(mean).for_each(|(sum, value)| *sum += *count as f64 * value);
        }
        for (row, (total, sum)) in sums {
            self.known.insert(row, sum.into_iter().map(|value| (value / total) as f32).collect());
        }
    }

    /// One bit for each class of a view: whether it has a prototype.
    fn flags(&self, view: &TaskView) -> Vec<u8> {
        flags(view, |row| self.known.contains_key(&row))
    }

    /// All prototypes of a view, `(classes, dim)`; zeros for a class without one.
    fn table(&self, view: &TaskView) -> Vec<f32> {
        let of = |row: usize| self.known.get(&(row as u32)).cloned();
        view.rows.clone().flat_map(|row| of(row).unwrap_or_else(|| vec![0.0; self.dim])).collect()
    }
}

/// What [`Prototypes::flags`] and [`Prototypes::table`] made of it.
fn heard(down: &Message, view: &TaskView) -> Result<ClassPrototypes, WireError> {
    let Some(table) = down.find(Kind::Prototypes, PROTOTYPES) else {
        return Ok(ClassPrototypes::default());
    };
    let dim = table.shape().last().copied().unwrap_or(0);
    let values = table.shaped(&[view.rows.len(), dim])?.as_f32()?;
    let class =
        |at: usize| ((view.rows.start + at) as u32, values[at * dim..(at + 1) * dim].to_vec());
    Ok(flagged(&down.control, view)?.into_iter().map(class).collect())
}

impl Memory for Prototypes {
    fn save_into(&self, body: &mut Body) {
        let rows: Vec<u32> = self.known.keys().copied().collect();
        let mut meta = MetaWriter::new();
        meta.u64(self.dim as u64).u32s(&rows);
        body.meta.extend(meta.finish());
        let values = self.known.values().flatten().copied().collect::<Vec<f32>>();
        let table = NamedTensor::f32(PROTOTYPES, [rows.len(), self.dim], values);
        let table = table.expect("prototypes of one run are of one width");
        body.sections.push(Section::new(Kind::Prototypes, vec![table]));
    }

    fn load_from(saved: &Body) -> Result<(Prototypes, ParameterSet), WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (dim, rows) = (meta.u64()? as usize, meta.u32s()?);
        meta.finish()?;
        let table = saved.tensor(Kind::Prototypes, PROTOTYPES)?.shaped(&[rows.len(), dim])?;
        let values = table.as_f32()?;
        let class = |(at, row): (usize, u32)| (row, values[at * dim..(at + 1) * dim].to_vec());
        let known = rows.into_iter().enumerate().map(class).collect();
        Ok((Prototypes { known, dim }, parameters_of(saved)?))
    }
}

impl Averaged for FedProto {
    type State = ();
    type Memory = Prototypes;

    fn fedavg(&self) -> Option<&FedAvg> {
        Some(&self.fedavg)
    }

    fn vetoes(&self) -> Vec<Veto> {
        match self.pulls() {
            true => Veto::against(&[Service::Mixed], "its prototypes are of one task's classes"),
            false => self.fedavg.vetoes(),
        }
    }

    fn control(&self, facts: &SketchFacts<'_>, first_row: usize) -> Vec<u8> {
        fields(first_row, &self.described(facts))
    }

    fn says(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let (n, dim) = (self.described(facts).len(), self.fedavg.feature_width(facts.model));
        [sample_count()].into_iter().chain(ClassMean::places(n, dim)).collect()
    }

    fn size(&self) -> UpSize {
        if self.pulls() { UpSize::FromShard } else { UpSize::Static }
    }

    fn hears(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let shape = [facts.view.rows.len(), self.fedavg.feature_width(facts.model)];
        let table = Place::new(Kind::Prototypes, PROTOTYPES, &shape, Dtype::F32);
        self.is_told(facts.round_in_phase).then_some(table).into_iter().collect()
    }

    fn hears_fields(&self, facts: &SketchFacts<'_>) -> Vec<u8> {
        let told = self.is_told(facts.round_in_phase);
        vec![0; if told { flag_bytes(facts.view) } else { 0 }]
    }

    fn tell(&self, known: &Prototypes, round: &RoundContext) -> Result<Vec<Section>, PolicyError> {
        if !self.is_told(round.round_in_phase) {
            return Ok(Vec::new());
        }
        let view = &round.period.view;
        let table = NamedTensor::f32(PROTOTYPES, [view.rows.len(), known.dim], known.table(view))?;
        Ok(vec![Section::new(Kind::Prototypes, vec![table])])
    }

    fn tell_fields(&self, known: &Prototypes, round: &RoundContext) -> Vec<u8> {
        match self.is_told(round.round_in_phase) {
            true => known.flags(&round.period.view),
            false => Vec::new(),
        }
    }

    fn objective(
        &self,
        _model: &ModelFacts,
        pack: &[Client<'_, ()>],
        _network: &Classifier,
        _lab: &Lab,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        // All members of a pack are told the same.
        let known = pack.first().map(|first| heard(first.down, &first.seat.view)).transpose()?;
        let (weight, distance) = (self.weight, self.distance);
        Ok(Box::new(Drawn { weight, distance, known: known.unwrap_or_default() }))
    }

    /// Means of the features of every class that the client holds, by the model as it was just trained here.
    fn describe(
        &self,
        member: &Client<'_, ()>,
        trained: &Trained,
        lab: &Lab,
    ) -> Result<Vec<Section>, PolicyError> {
        let mut said = vec![trained.sample_count()?];
        if self.pulls() {
            let all = features_by_class(member, trained, lab)?;
            let held = all.iter().filter(|class| !class.features.is_empty());
            let means = held.map(|class| {
                let dim = class.features[0].len();
                let Diagonal { count, mean, .. } = Diagonal::fit(dim, class.features.iter());
                ClassMean { row: class.row, count, mean }
            });
            said.extend(ClassMean::section(&means.collect::<Vec<_>>()));
        }
        Ok(said)
    }

    /// Training, and one forward pass (a third of a training pass) for the means.
    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        let means = if self.pulls() { samples as f64 / 3.0 } else { 0.0 };
        self.fedavg.work(samples, plan) + means
    }

    /// The memory learns how wide features are.
    fn begin_task(
        &self,
        model: &ModelFacts,
        known: &mut Prototypes,
        _task: usize,
        theta: ParameterSet,
        _init: StreamKey,
    ) -> ParameterSet {
        known.dim = self.fedavg.feature_width(model);
        theta
    }

    fn after_mean(
        &self,
        known: &mut Prototypes,
        Closing { folded, round, .. }: Closing<'_>,
        _theta: &mut ParameterSet,
    ) -> Result<Vec<(&'static str, f64)>, PolicyError> {
        let rows = &round.period.view.rows;
        known.known.retain(|row, _| rows.contains(&(*row as usize)));
        let mut reports = Vec::new();
        for upload in &folded.kept {
            reports.extend(ClassMean::said(&upload.update)?);
        }
        known.take(&reports);
        Ok(Vec::new())
    }
}

/// The cross-entropy, and the pull towards prototypes.
struct Drawn {
    weight: f64,
    distance: ProtoDistance,
    known: ClassPrototypes,
}

impl Objective for Drawn {
    fn losses(&mut self, pass: &Pass<'_>) -> Result<Tensor, LearningError> {
        let outputs = pass.outputs()?;
        if self.known.is_empty() {
            return Ok(outputs.losses);
        }
        let labels = pass.step.batch.labels();
        let pulls = pass.by_member(|run| {
            let own = outputs.features.narrow(0, run.start, run.len())?.contiguous()?;
            Ok(self.known.pull(&own, &labels[run], self.distance)?)
        })?;
        Ok((outputs.losses + (pulls * self.weight)?)?)
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients draw the mean feature of each class towards the class's mean \
               over all clients of the round before.",
        source: "Tan et al.: FedProto: Federated Prototype Learning across Heterogeneous Clients, \
                 AAAI 2022; with a shared model as in HGP's benchmark",
        state: "server: the parameters, a prototype per class of the task; client: nothing",
        ..MethodEntry::averaging("fedproto", FedProto::read)
    }
}

#[cfg(test)]
mod tests;
