//! **FedProto** (Tan et al., AAAI 2022) with a shared model: FedAvg that pulls class features to prototypes.
//!
//! The prototype of a class is the mean of its features over all clients of the round before; clients pull their own
//! mean feature towards it.
//!
//! ```text
//! client   theta, p <- down;  minimize  CE + lambda sum_c 1/d |p_c - mean of f(x_i) over the batch's samples of c|^2
//!          sends theta_m and (n_c, mean of f(x; theta_m)) of every class it holds
//! server   theta <- the plain mean;  p_c <- sum_m n_mc p_mc / sum_m n_mc
//! ```
//! The sum is over the classes of a batch that have a prototype: in the first round of a task none has, and the round
//! is FedAvg's. A class that no client reports in a round keeps its prototype. Prototypes of a task are of no use in
//! the next one, so nothing protects old classes.
//!
//! In the paper only prototypes are sent, and every client has its own model; HGP's benchmark averages the models, too.
//! Features for prototypes are those of the statistics transform.
//!
//! The authors' release differs in four choices: each sample is pulled to the prototype of its class
//! (`distance = "samples"`, `weight = 1`), a prototype is the plain mean over clients
//! (`prototype_weighting = "uniform"`), features for it are those of training, in the last epoch (nearest to it:
//! `data.statistics.transform = "train"`), and each client is evaluated with its own model, which is not available
//! here.

use candle_core::Tensor;

use super::averaging::{ClosedRound, Objective, PackClient, TrainingStep, first_of};
use super::class_statistics::{
    DescribesClasses, Descriptions, MeanPrototypes, PrototypeWeighting, flag_bytes,
};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::parts::{
    AveragingMethod, ClientContext, Demands, DownloadExtras, LocalUpdate, Parts, ServerUpdate,
    TaskStart,
};
use super::trainable::TrainableKeys;
use crate::learning::losses::{ClassPrototypes, ProtoDistance};
use crate::learning::{Classifier, LearningError};
use crate::model::ParameterSet;
use crate::policy::{
    Capability, ExchangeFacts, Metrics, ModelFacts, PolicyError, RoundContext, TensorSpec,
};
use crate::scenario::reader::Keys;
use crate::wire::Section;

/// Source of the defaults.
const CODE: &str = "the code of HGP's benchmark";

/// Keys of the `[method]` table of FedProto.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct FedProto {
    /// Trained parameters and their aggregation.
    #[key(read = FedAvg::read_keys(table, TrainableKeys::FEDAVG.uniform(CODE)))]
    pub fedavg: FedAvg,
    /// Weight of the term that pulls features to prototypes (`lambda`).
    #[key(
        default = 0.1,
        at_least = 0.0,
        source = "the code of HGP's benchmark; 1 in the authors'"
    )]
    pub weight: f64,
    /// Distance of a class mean, or of samples, from prototypes.
    #[key(
        default = ProtoDistance::MeanSquare,
        source = "the code of HGP's benchmark; the authors' has samples"
    )]
    pub distance: ProtoDistance,
    /// Weight of a client's class mean in the prototype of the class.
    #[key(
        default = PrototypeWeighting::BySamples,
        source = "Tan et al.; the code of HGP's benchmark; uniform in the authors'"
    )]
    pub prototype_weighting: PrototypeWeighting,
}

impl FedProto {
    /// Returns true if the loss has a term for prototypes, so that they are sent.
    fn pulls(&self) -> bool {
        self.weight > 0.0
    }

    /// Returns true if a download contains prototypes: in all rounds of a task but the first.
    fn sends_prototypes(&self, round_in_phase: u32) -> bool {
        self.pulls() && round_in_phase > 0
    }
}

impl AveragingMethod for FedProto {
    type State = ();
    type Memory = MeanPrototypes;

    fn parts(&self) -> Parts<'_, (), MeanPrototypes> {
        Parts {
            local: self,
            upload: self,
            class_means: self.as_class_means(),
            download: self,
            server: self,
            ..self.fedavg.base()
        }
    }
}

impl DescribesClasses for FedProto {
    /// Describes every class that the client holds by its mean feature.
    fn descriptions(&self) -> Descriptions {
        Descriptions { used: self.pulls(), least: 1, spread: None }
    }

    fn feature_width(&self, model: &ModelFacts) -> usize {
        self.fedavg.feature_width(model)
    }
}

impl DownloadExtras<MeanPrototypes> for FedProto {
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let table = || MeanPrototypes::place(facts.view, self.fedavg.feature_width(facts.model));
        self.sends_prototypes(facts.round_in_phase).then(table).into_iter().collect()
    }

    fn field_template(&self, facts: &ExchangeFacts<'_>) -> Vec<u8> {
        let sends = self.sends_prototypes(facts.round_in_phase);
        vec![0; if sends { flag_bytes(facts.view) } else { 0 }]
    }

    fn sections(
        &self,
        known: &MeanPrototypes,
        round: &RoundContext,
    ) -> Result<Vec<Section>, PolicyError> {
        let sends = self.sends_prototypes(round.round_in_phase);
        Ok(sends.then(|| known.section(&round.stage.view)).transpose()?.into_iter().collect())
    }

    fn fields(&self, known: &MeanPrototypes, round: &RoundContext) -> Vec<u8> {
        match self.sends_prototypes(round.round_in_phase) {
            true => known.flags(&round.stage.view),
            false => Vec::new(),
        }
    }
}

impl LocalUpdate<()> for FedProto {
    fn objective(
        &self,
        _context: &ClientContext<'_>,
        pack: &[PackClient<'_, ()>],
        _network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        // All members of a pack have equal downloads.
        let first = first_of(pack)?;
        let known = MeanPrototypes::from_download(first.download, &first.participant.view)?;
        Ok(Box::new(FedProtoObjective { weight: self.weight, distance: self.distance, known }))
    }

    fn demands(&self) -> Demands {
        match self.pulls() {
            true => Demands::restricting(
                &[Capability::MixedTasks],
                "its prototypes are of one task's classes",
            ),
            false => Demands::default(),
        }
    }
}

impl ServerUpdate<MeanPrototypes> for FedProto {
    /// Sets the width of prototypes, which depends on the model.
    fn begin_task(&self, start: TaskStart<'_>, known: &mut MeanPrototypes, _: &mut ParameterSet) {
        known.dim = self.feature_width(start.model);
    }

    fn server_update(
        &self,
        known: &mut MeanPrototypes,
        ClosedRound { aggregate, round, .. }: ClosedRound<'_>,
        _theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        known.renew(&aggregate, &round.stage.view, self.prototype_weighting)?;
        Ok(Vec::new())
    }
}

/// Cross-entropy plus the pull of features to prototypes.
struct FedProtoObjective {
    weight: f64,
    distance: ProtoDistance,
    known: ClassPrototypes,
}

impl Objective for FedProtoObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
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

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients pull the mean feature of each class to the class's mean over all clients in the \
               previous round.",
        source: "Tan et al.: FedProto: Federated Prototype Learning across Heterogeneous Clients, \
                 AAAI 2022; with a shared model as in HGP's benchmark",
        state: "server: the parameters, a prototype per class of the task; client: nothing",
        ..MethodEntry::averaging("fedproto", FedProto::read)
    }
}

#[cfg(test)]
mod tests;
