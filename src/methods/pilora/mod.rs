//! **PILoRA** (Guo et al., ECCV 2024): a LoRA pair per task at queries and values of the first block, kept apart from
//! those of earlier tasks, and a learnt prototype per class in place of a linear head. The server averages the pairs and
//! counts a client's prototype of a class by how close it is to the mean features that clients report of it.
//!
//! ```text
//! client   A_t, B_t, p <- down;  D_c = |f(x) - p_c| / sqrt(d);  minimise
//!          CE(-D / T, y) + .001 mean D_y + .5 sum_{s<t} |A_t A_s^T|_1 + .01 |A_t|_1 + 1e-5/2 |trained|^2
//!          sends A_t, B_t, p_m, n_m, and of every class the count and mean of the features met in training
//! server   A_t, B_t <- means by samples;  p_c <- sum_m w_mc p_mc                    (weights)
//! answer   the nearest prototype among those of classes seen
//! ```
//! Means are taken factor by factor, and the mean of products is not the product of means. A class that nobody met more
//! than `min_features` times keeps its prototype. Features of the count are those of the moving model, so a client that
//! trains five epochs meets every sample five times.
//!
//! What papers and code say otherwise has keys. The benchmark's port of HGP, which made its tables and is the default here,
//! adds the pairs of all tasks; the authors' code passes through the current one alone (`forward = "current"`), takes the
//! plain mean of prototypes where nobody reports (`unreported = "mean"`) and has two rates, for pairs and for prototypes
//! (`prototype_lr`), of which that of prototypes is the larger; which one the tables of HGP call so is not known. Adam's
//! weight decay of both is a term of the loss (`decay`): set that of the optimiser to 0.

mod objective;
mod server;
mod weights;

use std::ops::Range;
use std::sync::Arc;

use clap::ValueEnum;

use self::objective::{Met, OfPrototypes};
use super::HeadForm;
use super::averaged::{
    Averaging, Begun, Client, Cut, Direction, Learnt, Parameters, Requirement, Trained, Weights,
    sample_count,
};
use super::class_statistics::{ClassMean, described, fields};
use super::entry::MethodEntry;
use super::low_rank::LowRank;
use super::parts::{
    Adaptation, AveragingMethod, ClientContext, LocalTraining, LocalUpdate, Parts, RowQuery,
    UploadExtras,
};
use crate::data::TaskView;
use crate::learning::Classifier;
use crate::model::{
    Factor, HeadKind, LoraPlace, LoraShape, Parameter, ParameterSet, PrototypeHead,
};
use crate::numerics::streams::StreamKey;
use crate::policy::{Lab, ModelFacts, Place, PolicyError, Predictor, SketchFacts, UpSize};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};
use crate::wire::Section;

/// Which prototypes compete in the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Compete {
    /// Those of all classes of the run.
    ///
    /// Prototypes of classes to come are noise, and travel.
    All,
    /// Those of classes seen so far.
    Seen,
    /// Those of the task's classes.
    Current,
}

impl Compete {
    fn rows(self, view: &TaskView, classes: usize) -> Range<usize> {
        match self {
            Compete::All => 0..classes,
            Compete::Seen => 0..view.seen(),
            Compete::Current => view.rows.clone(),
        }
    }
}

/// Through which pairs a sample passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Forward {
    /// Those of all tasks so far, added.
    Sum,
    /// The current task's alone.
    Current,
}

/// What becomes of the prototype of a class of which nobody reports a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Unreported {
    /// It stays.
    Keep,
    /// It is the plain mean of the clients'.
    Mean,
}

/// The `[method]` table of PILoRA.
#[derive(Clone, Debug, PartialEq)]
pub struct PiLora {
    /// Its pairs.
    pub lora: LowRank,
    /// Through which of them a sample passes.
    pub forward: Forward,
    /// Which prototypes compete.
    pub compete: Compete,
    /// Divides distances in the cross-entropy.
    pub temperature: f64,
    /// Weight of the distance from the own prototype.
    pub pull: f64,
    /// Weight of products with the `A` of earlier tasks.
    pub orthogonality: f64,
    /// Weight of the sum of magnitudes of `A`.
    pub sparsity: f64,
    /// Weight decay in the gradient.
    pub decay: f64,
    /// Factor on the learning rate of prototypes.
    pub prototype_lr: f64,
    /// A class counts as met with more features than so many.
    pub min_features: u32,
    /// How much the closest prototype counts.
    pub sharpness: f64,
    /// What becomes of a prototype without a report.
    pub unreported: Unreported,
    /// How much a client counts in the means of pairs.
    pub weights: Weights,
}

impl Default for PiLora {
    fn default() -> Self {
        defaults(PiLora::read)
    }
}

impl PiLora {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> PiLora {
        let (paper, port) = ("PILoRA", "the port in HGP's benchmark");
        let lora = LowRank { rank: 4, at: vec![LoraPlace::Q, LoraPlace::V], blocks: 1 };
        let forward = Param::new("forward", Forward::Sum, "pairs that a sample passes through");
        let compete = Param::new("compete", Compete::All, "prototypes that compete in the loss");
        let temperature = Param::new("temperature", 1.0, "divides distances in the cross-entropy");
        let pull = Param::new("pull", 0.001, "weight of the distance from the own prototype");
        let orthogonality = "weight of the products of A with those of earlier tasks";
        let orthogonality = Param::new("orthogonality", 0.5, orthogonality);
        let sparsity = Param::new("sparsity", 0.01, "weight of the magnitudes in A");
        let decay = Param::new("decay", 1e-5, "weight decay, as a term of the loss");
        let prototype_lr =
            Param::new("prototype_lr", 1.0, "factor on the learning rate of prototypes");
        let min_features = "features of a class in training that a report needs more of";
        let min_features = Param::new("min_features", 5, min_features);
        let sharpness = Param::new("sharpness", 5.0, "how much the closest prototype counts");
        let unreported = "the prototype of a class that nobody reports";
        let unreported = Param::new("unreported", Unreported::Keep, unreported);
        let weights = Param::new("weights", Weights::BySamples, "how much a client's pairs count");
        PiLora {
            lora: LowRank::read(table, ["rank", "at", "blocks"], lora, paper),
            forward: table.get(&forward.source("the port; the authors' code has current")),
            compete: table.get(&compete.source("both codes")),
            temperature: table.get(&temperature.source(paper).above(0.0)),
            pull: table.get(&pull.source(paper).at_least(0.0)),
            orthogonality: table.get(&orthogonality.source(paper).at_least(0.0)),
            sparsity: table.get(&sparsity.source(paper).at_least(0.0)),
            decay: table.get(&decay.source(paper).at_least(0.0)),
            prototype_lr: table
                .get(&prototype_lr.source("200 in the authors' code on CIFAR-100").at_least(0.0)),
            min_features: table.get(&min_features.source("the port; 0 in the authors' code")),
            sharpness: table.get(&sharpness.source("both codes: 1 / 0.2").at_least(0.0)),
            unreported: table.get(&unreported.source("the port; the authors' code has mean")),
            weights: table.get(&weights.source(port)),
        }
    }

    fn shape(&self, model: &ModelFacts) -> LoraShape {
        self.lora.shape(model, Some(model.tasks.max(1)))
    }

    /// The same parameters, in which nothing passes through pairs that are not to be passed.
    fn passing(&self, set: &ParameterSet, task: usize) -> ParameterSet {
        let mut set = set.clone();
        if self.forward == Forward::Sum {
            return set;
        }
        let of_b = |name: &str| Factor::of(name) == Some(Factor::B);
        for (name, parameter) in set.filter(of_b).iter() {
            let Parameter { shape, values } = parameter.clone();
            let (mut values, width) = (values.to_vec(), parameter.width());
            let end = values.len().min(task * width);
            values[..end].fill(0.0);
            set.insert(Arc::clone(name), Parameter { shape, values: values.into() });
        }
        set
    }
}

impl AveragingMethod for PiLora {
    type State = ();
    type Memory = Begun;

    /// The server reads the prototypes of every client.
    fn parts(&self) -> Parts<'_, (), Begun> {
        let head = match self.compete {
            Compete::All => HeadForm::Fixed,
            Compete::Seen | Compete::Current => HeadForm::Growing,
        };
        Parts {
            local: self,
            upload: self,
            server: self,
            keeps_uploads: true,
            ..Parts::fedavg(self, Averaging { weights: self.weights, head })
        }
    }
}

impl Adaptation for PiLora {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let pairs = Parameters::default().by_task(self.shape(model).shapes());
        pairs.head(HeadKind::Distance, model.classes, model.backbone.dim())
    }

    /// Pairs of all tasks, which add nothing yet, and noise for prototypes.
    fn initial(
        &self,
        model: &ModelFacts,
        _lab: &Lab,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let (classes, dim) = (model.classes, model.backbone.dim());
        let head = HeadKind::Distance.initial_parameters(classes, dim, init);
        Ok(self.shape(model).initial_parameters(init).merge(&head))
    }

    fn rows(&self, query: &RowQuery<'_>) -> Cut {
        let task = query.task().min(query.model.tasks.max(1) - 1);
        let first = if query.direction == Direction::Up { task } else { 0 };
        Cut { pool: first..task + 1, ..query.rows(query.view.rows.clone()) }
    }

    fn rate_factor(&self, name: &str) -> f64 {
        match name {
            PrototypeHead::PROTOTYPES => self.prototype_lr,
            _ => 1.0,
        }
    }

    fn predictor(
        &self,
        _model: &ModelFacts,
        task: usize,
        theta: &ParameterSet,
        lab: &Lab,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Classifier::frozen(&lab.backbone, &self.passing(theta, task))?))
    }

    fn requirements(&self) -> Vec<Requirement> {
        let instead = "train the head alone with `method.name = \"fedavg\"` and `train = \"head\"`";
        vec![Requirement::blocks("a LoRA", instead)]
    }
}

impl LocalUpdate<()> for PiLora {
    fn client_update(
        &self,
        training: &LocalTraining<'_, ()>,
        pack: &mut [Client<'_, ()>],
    ) -> Result<Learnt, PolicyError> {
        let ClientContext { model, lab, .. } = training.context;
        for member in pack.iter_mut() {
            member.received = self.passing(&member.received, member.seat.view.task.index());
        }
        let Some(first) = pack.first() else { return Ok(Vec::new()) };
        let mut met = vec![Met::default(); pack.len()];
        let learnt = training.train_with_objective(pack, |_| {
            Ok(Box::new(OfPrototypes::new(self, first, &mut met, &lab.device)?))
        })?;
        let dim = model.backbone.dim();
        let told = pack.iter().zip(met).zip(learnt).map(|((member, met), trained)| {
            let rows = described(&lab.held_counts(member.shard), 1);
            Ok(Trained { beside: met.beside(&rows, dim), ..trained? })
        });
        Ok(told.collect())
    }
}

impl UploadExtras<()> for PiLora {
    fn places(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let (n, dim) = (described(facts.counts, 1).len(), facts.model.backbone.dim());
        [sample_count()].into_iter().chain(ClassMean::places(n, dim)).collect()
    }

    fn sections(
        &self,
        context: &ClientContext<'_>,
        member: &Client<'_, ()>,
        trained: &Trained,
    ) -> Result<Vec<Section>, PolicyError> {
        let rows = described(&context.lab.held_counts(member.shard), 1);
        let means = Met::told(&rows, &trained.beside);
        Ok([trained.sample_count()?].into_iter().chain(ClassMean::section(&means)).collect())
    }

    fn fields(&self, facts: &SketchFacts<'_>, first_row: usize, _usual: Vec<u8>) -> Vec<u8> {
        fields(first_row, &described(facts.counts, 1))
    }

    fn size(&self) -> UpSize {
        UpSize::FromShard
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "A LoRA pair per task in the first block, orthogonal to those before, and learnt \
               prototypes that the server weighs by their distance from clients' features.",
        source: "Guo, Zhu, Liu, Zhang, Liu: PILoRA: Prototype Guided Incremental LoRA for \
                 Federated Class-Incremental Learning, ECCV 2024",
        state: "server: the pairs of all tasks and all prototypes; client: nothing",
        ..MethodEntry::averaging("pilora", PiLora::read)
    }
}

#[cfg(test)]
mod tests;
