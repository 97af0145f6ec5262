//! **PIP** (Ma'sum et al., "PIP: Prototypes-Injected Prompt for Federated Class Incremental Learning", CIKM 2024) upon
//! DualPrompt, as in the benchmark of HGP: prototypes of all classes of the task, also of those that a client lacks, are
//! among the features that its head learns from.
//!
//! ```text
//! client   DualPrompt's; from a task's second round on one mean cross-entropy over images and injected prototypes (injection)
//!          sends what DualPrompt sends, and mean and variance of the features of every class with at least two samples
//! server   DualPrompt's; merges the Gaussians of the round by class                                              (prototypes)
//! ```
//! Prototypes last for a task and protect no old class; a class that nobody reports in a round keeps its own, and one that
//! nobody has reported yet does not travel. With `copies = 0` nothing travels and nothing is injected: that is DualPrompt,
//! to the bit.
//!
//! The paper could not be read, and both public codes have slips, which their statements here follow or mend: HGP's
//! benchmark squares the variances of clients and forgets to subtract the squared mean in a task's first round
//! (`merge = "benchmark"`); the release means `inject = "spread"`, takes the fourth power of what should be a root and
//! loses its second moment. The release also leaves the head on clients and averages it in a task's last round only, and
//! weighs parameters by visits: that is not here, only `proto_weights = "visits"` is.
//!
//! Features for prototypes come from the answering model, with the expert whose key is nearest (`features = "matched"`), or
//! with the task's own expert (`"trained"`), which is all that a client knows under `wire.form = "lean"`.

mod injection;
mod prototypes;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use clap::ValueEnum;

pub use self::injection::Injection;
use self::injection::{Injecting, Source};
use self::prototypes::{COUNTS, MEANS, VARIANCES, heard, merged, said};
pub use self::prototypes::{Gaussian, Merge, Prototypes, Weighing};
use super::averaged::{
    Averaged, Averaging, Begun, Client, Closing, CrossEntropy, Direction, Needs, Objective,
    Parameters, SAMPLES, Trained, sample_count,
};
use super::class_statistics::{described, flag_bytes};
use super::dualprompt::DualPrompt;
use super::registry::MethodEntry;
use crate::data::Loader;
use crate::learning::{Classifier, Prompting, QueryView, TrainingPlan};
use crate::model::ParameterSet;
use crate::numerics::gaussian::Diagonal;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Figures, Lab, Message, ModelFacts, Place, PolicyError, RoundContext, Seat, Service,
    SketchFacts, UpSize, Veto,
};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};
use crate::wire::{Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};

/// A class is reported from so many samples on.
const LEAST: u32 = 2;

/// By which expert features for prototypes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Features {
    /// The one whose key is nearest, as in answers (code of HGP's benchmark).
    Matched,
    /// The task's own, as in training (the release).
    Trained,
}

impl Choice for Features {}

/// The `[method]` table of PIP.
#[derive(Clone, Debug, PartialEq)]
pub struct Pip {
    /// Prompts as DualPrompt has them.
    pub base: DualPrompt,
    /// `J`: copies of every prototype; 0 is DualPrompt.
    pub copies: u32,
    /// What they are.
    pub inject: Injection,
    /// How Gaussians become one.
    pub merge: Merge,
    /// How much clients count in it.
    pub proto_weights: Weighing,
    /// By which expert features are made.
    pub features: Features,
}

impl Default for Pip {
    fn default() -> Self {
        defaults(Pip::read)
    }
}

impl Pip {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> Pip {
        let code = "the code of HGP's benchmark";
        let copies = Param::new(
            "copies",
            5,
            "copies of a prototype in every batch with `inject = \"variance\"`; 0 is DualPrompt",
        );
        let inject = Param::new("inject", Injection::Variance, "what is injected of a prototype");
        let merge = Param::new("merge", Merge::Moments, "how Gaussians of clients become one");
        let weights = Param::new("proto_weights", Weighing::Samples, "how clients count in it");
        let features = Param::new("features", Features::Matched, "the expert behind prototypes");
        Pip {
            base: DualPrompt::read(table),
            copies: table.get(&copies.source(code).at_most(1_000.0)),
            inject: table.get(&inject.source(code)),
            merge: table.get(&merge.source("what both codes mean")),
            proto_weights: table.get(&weights.source(code)),
            features: table.get(&features.source(code)),
        }
    }

    fn injects(&self) -> bool {
        self.copies > 0
    }

    /// Whether a Down holds prototypes: not in the first round of a task.
    fn is_told(&self, round_in_phase: u32) -> bool {
        self.injects() && round_in_phase > 0
    }

    /// Head rows of the classes that an upload describes.
    fn described(&self, facts: &SketchFacts<'_>) -> Vec<u32> {
        if self.injects() { described(facts.counts, LEAST) } else { Vec::new() }
    }

    /// Gaussians of the features of every class with enough samples, by the model as it was just trained.
    fn gaussians(
        &self,
        member: &Client<'_, ()>,
        trained: &Trained,
        lab: &Lab,
    ) -> Result<Vec<Diagonal>, PolicyError> {
        let (view, model) = (&member.seat.view, &lab.facts(0));
        let prompting =
            self.base.prompting(model, view.task.index(), self.features == Features::Trained);
        let local = Classifier::frozen_with(&lab.backbone, &trained.parameters, prompting)?;
        let loader = lab.frozen(lab.statistics_loader(member.shard), local.frozen_part())?;
        let loader = lab.queried(loader, self.base.prompted.query)?;
        let mut classes = vec![Vec::new(); view.rows.len()];
        for batch in loader.in_order(lab.evaluation_batch) {
            let batch = batch?;
            let found = local.batch_features(&batch, &lab.device)?.to_vec2::<f32>()?;
            for (feature, label) in found.into_iter().zip(batch.labels()) {
                classes[*label as usize - view.rows.start].push(feature);
            }
        }
        let enough = classes.iter().filter(|class| class.len() >= LEAST as usize);
        Ok(enough.map(|class| Diagonal::fit(lab.backbone.dim(), class.iter())).collect())
    }
}

/// The classes that an upload of a client describes: its control fields are DualPrompt's and these.
fn described_in(update: &Message) -> Result<Vec<u32>, WireError> {
    let mut fields: MetaReader<'_> = update.fields();
    fields.u64()?;
    fields.u64()?;
    let rows = fields.u32s()?;
    fields.finish()?;
    Ok(rows)
}

impl Averaged for Pip {
    type State = ();
    type Memory = Prototypes;

    fn parameters(&self, model: &ModelFacts) -> Parameters {
        self.base.parameters(model)
    }

    fn initial(
        &self,
        model: &ModelFacts,
        lab: &Lab,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        self.base.initial(model, lab, init)
    }

    fn averaging(&self) -> Averaging {
        self.base.averaging()
    }

    fn needs(&self) -> Vec<Needs> {
        let mut needs = self.base.needs();
        if self.injects() && self.features == Features::Matched {
            needs.push(Needs::WholeMessages {
                why: "a client that was sent one expert cannot find the nearest",
                otherwise: "`method.features = \"trained\"`",
            });
        }
        needs
    }

    fn vetoes(&self) -> Vec<Veto> {
        match self.injects() {
            true => Veto::against(&[Service::Mixed], "its prototypes are of one task's classes"),
            false => self.base.vetoes(),
        }
    }

    fn task_rows(&self, model: &ModelFacts, task: usize, direction: Direction) -> Range<usize> {
        self.base.task_rows(model, task, direction)
    }

    fn down_is_lean(&self, model: &ModelFacts) -> bool {
        self.base.down_is_lean(model)
    }

    fn control(&self, facts: &SketchFacts<'_>, first_row: usize) -> Vec<u8> {
        let mut control = self.base.control(facts, first_row);
        if self.injects() {
            let mut rows = MetaWriter::new();
            rows.u32s(&self.described(facts));
            control.extend(rows.finish());
        }
        control
    }

    fn says(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let (n, dim) = (self.described(facts).len(), facts.model.backbone.dim());
        let place =
            |name, shape: &[usize], dtype| Place::new(Kind::Prototypes, name, shape, dtype).kept();
        let mut places = vec![sample_count()];
        if n > 0 {
            places.push(place(MEANS, &[n, dim], Dtype::F32));
            places.push(place(VARIANCES, &[n, dim], Dtype::F32));
            if self.proto_weights == Weighing::Classes {
                places.push(place(COUNTS, &[n], Dtype::U32));
            }
        }
        places
    }

    fn size(&self) -> UpSize {
        if self.injects() { UpSize::FromShard } else { UpSize::Static }
    }

    fn hears(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let shape = [facts.view.rows.len(), facts.model.backbone.dim()];
        let table = |name| Place::new(Kind::Prototypes, name, &shape, Dtype::F32);
        let told = self.is_told(facts.round_in_phase);
        told.then(|| [MEANS, VARIANCES].map(table)).into_iter().flatten().collect()
    }

    /// Of the classes of the task, those that anybody reported.
    fn hears_at_most(&self, facts: &SketchFacts<'_>) -> bool {
        self.is_told(facts.round_in_phase)
    }

    fn hears_fields(&self, facts: &SketchFacts<'_>) -> Vec<u8> {
        vec![0; if self.is_told(facts.round_in_phase) { flag_bytes(facts.view) } else { 0 }]
    }

    fn tell(&self, known: &Prototypes, round: &RoundContext) -> Result<Vec<Section>, PolicyError> {
        match self.is_told(round.round_in_phase) {
            true => Ok(known.section()?.into_iter().collect()),
            false => Ok(Vec::new()),
        }
    }

    fn tell_fields(&self, known: &Prototypes, round: &RoundContext) -> Vec<u8> {
        match self.is_told(round.round_in_phase) {
            true => known.flags(&round.period.view),
            false => Vec::new(),
        }
    }

    fn prompting(
        &self,
        model: &ModelFacts,
        task: usize,
        trains: bool,
    ) -> Option<Arc<dyn Prompting>> {
        self.base.prompting(model, task, trains)
    }

    fn query(&self) -> Option<QueryView> {
        self.base.query()
    }

    fn objective(
        &self,
        _model: &ModelFacts,
        pack: &[Client<'_, ()>],
        _network: &Classifier,
        lab: &Lab,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let source = |member: &Client<'_, ()>| {
            let prototypes = heard(member.down, &member.seat.view)?;
            let steps = member.shard.len().div_ceil(lab.training.batch.max(1));
            Ok(Source::new(prototypes, member.key, steps))
        };
        let sources = pack.iter().map(source).collect::<Result<Vec<_>, WireError>>()?;
        if sources.iter().all(|source| source.prototypes.is_empty()) {
            return Ok(Box::new(CrossEntropy));
        }
        let (injection, copies) = (self.inject, self.copies as usize);
        Ok(Box::new(Injecting { injection, copies, sources }))
    }

    fn figures(
        &self,
        model: &ModelFacts,
        seat: &Seat,
        learnt: &ParameterSet,
        loader: &Loader,
    ) -> Result<Vec<(&'static str, f64)>, PolicyError> {
        self.base.figures(model, seat, learnt, loader)
    }

    fn describe(
        &self,
        member: &Client<'_, ()>,
        trained: &Trained,
        lab: &Lab,
    ) -> Result<Vec<Section>, PolicyError> {
        let mut said = vec![trained.sample_count()?];
        if !self.injects() {
            return Ok(said);
        }
        let gaussians = self.gaussians(member, trained, lab)?;
        if gaussians.is_empty() {
            return Ok(said);
        }
        let narrow = |of: fn(&Diagonal) -> &Vec<f64>| {
            gaussians.iter().flat_map(|one| of(one).iter().map(|v| *v as f32)).collect::<Vec<_>>()
        };
        let (n, dim) = (gaussians.len(), lab.backbone.dim());
        let mut tensors = vec![
            NamedTensor::f32(MEANS, [n, dim], narrow(|one| &one.mean))?,
            NamedTensor::f32(VARIANCES, [n, dim], narrow(|one| &one.variance))?,
        ];
        if self.proto_weights == Weighing::Classes {
            let counts = gaussians.iter().map(|one| one.count as u32).collect::<Vec<u32>>();
            tensors.push(NamedTensor::u32(COUNTS, [n], counts)?);
        }
        said.push(Section::new(Kind::Prototypes, tensors));
        Ok(said)
    }

    /// DualPrompt's, and a forward pass for the prototypes.
    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        let prototypes = if self.injects() { samples as f64 / 3.0 } else { 0.0 };
        self.base.work(samples, plan) + prototypes
    }

    fn begin_task(
        &self,
        model: &ModelFacts,
        known: &mut Prototypes,
        task: usize,
        theta: ParameterSet,
        init: StreamKey,
    ) -> ParameterSet {
        known.dim = model.backbone.dim();
        self.base.begin_task(model, &mut Begun::default(), task, theta, init)
    }

    fn after_mean(
        &self,
        known: &mut Prototypes,
        Closing { folded, round, .. }: Closing<'_>,
        _theta: &mut ParameterSet,
    ) -> Result<Figures, PolicyError> {
        if !self.injects() {
            return Ok(Vec::new());
        }
        let mut reports: BTreeMap<u32, Vec<(f64, Gaussian)>> = BTreeMap::new();
        for kept in &folded.kept {
            let rows = described_in(&kept.update)?;
            let visits = known.visit(kept.meta.seat.client);
            let counts = match self.proto_weights {
                Weighing::Classes if !rows.is_empty() => {
                    let counts = kept.update.tensor(Kind::Prototypes, COUNTS)?;
                    counts.shaped(&[rows.len()])?.numbers()
                }
                Weighing::Samples | Weighing::Classes => {
                    let samples = kept.update.tensor(Kind::Statistics, SAMPLES)?.numbers();
                    vec![samples.iter().sum(); rows.len()]
                }
                Weighing::Visits => vec![visits as f64; rows.len()],
            };
            for ((row, gaussian), count) in said(&kept.update, &rows)?.into_iter().zip(counts) {
                reports.entry(row).or_default().push((count, gaussian));
            }
        }
        for (row, reports) in &reports {
            if let Some(one) = merged(reports, self.merge, round.round_in_phase == 0) {
                known.known.insert(*row, one);
            }
        }
        Ok(vec![("prototypes", known.known.len() as f64)])
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "DualPrompt whose head also learns from prototypes of all classes of the task, which \
               the server merges from those of the clients.",
        source: "Ma'sum et al.: PIP: Prototypes-Injected Prompt for Federated Class Incremental \
                 Learning, CIKM 2024, arXiv 2407.20705; as in the benchmark of HGP",
        state: "server: all prompts and the head, a Gaussian per class of the task; client: nothing",
        ..MethodEntry::averaging("pip", Pip::read)
    }
}
