//! **HGP**, hierarchical generative prototypes (Salami et al., arXiv 2406.02447).
//!
//! The backbone is frozen; one prefix prompt, shared by all tasks, and a linear head are learned
//! by federated averaging. So nearly all of the bias of clients (towards their classes) and of tasks (towards
//! new classes) ends up in the head. After every round the server removes it: each client also
//! sends a Gaussian of the features of each of its classes, and the server retrains the head on
//! features drawn from all of them, old classes included.
//!
//! ```text
//! client   prompt P, head W,b  <- down
//!          E epochs: minimize CE over the rows of the current task
//!          (n, mu, var) of f(x; P) for every class with n >= 2
//! server   P, W, b  <- mean weighted by n_m
//!          Gaussians of the task are replaced by those of the round
//!          W, b  <- SGD on features drawn from the mixture
//! ```
//! The Gaussians, the mixture and the rebalancing are [class statistics](super::class_statistics).
//! Clients keep nothing between rounds. What differs between paper and public code is a key of
//! [`Hgp`], with the source of its default; which combination made the published numbers is not known.

mod config;

pub use config::{Hgp, Learns, PromptInit};

use super::averaging::{AveragingConfig, ClientWeighting, ClosedRound, Parameters, Requirement};
use super::class_statistics::{DescribesClasses, Descriptions, FeatureSpread, Prototypes};
use super::entry::MethodEntry;
use super::parts::{
    AveragingMethod, Demands, LocalUpdate, ModelAdaptation, Parts, ServerUpdate, TrainingSettings,
    Workload,
};
use crate::data::TaskView;
use crate::model::{HeadKind, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Capability, Metrics, ModelFacts, PolicyError, RoundContext, RunContext, UploadSize,
};

impl AveragingMethod for Hgp {
    type State = ();
    type Memory = Prototypes;

    fn parts(&self) -> Parts<'_, (), Prototypes> {
        let averaging =
            AveragingConfig { weights: ClientWeighting::BySamples, head: self.head_form };
        Parts {
            local: self,
            upload: self,
            class_means: self.as_class_means(),
            server: self,
            ..Parts::fedavg(self, averaging)
        }
    }
}

impl ModelAdaptation for Hgp {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let below = match self.train {
            Learns::Prompt => self.prompt(model).shapes(),
            Learns::All => model.backbone.parameter_shapes(),
            Learns::Head => Vec::new(),
        };
        Parameters::shared(below).head(HeadKind::Linear, model.classes, model.backbone.dim())
    }

    /// Draws the head at step 0 and block `j` of the prompt at step `1 + j`; the backbone is as loaded.
    fn initial(
        &self,
        model: &ModelFacts,
        ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let deviation = match self.init {
            PromptInit::Zeros => 0.0,
            PromptInit::Normal => 0.02,
        };
        let below = match self.train {
            Learns::Prompt => self.prompt(model).initial_parameters(deviation, init),
            Learns::All => ctx.backbone.parameters()?,
            Learns::Head => ParameterSet::new(),
        };
        let (classes, dim) = (model.classes, model.backbone.dim());
        Ok(below.merge(&self.head_init.parameters(classes, dim, init)))
    }

    /// Requires blocks for a prompt, and a trainable backbone if all parameters are trained.
    fn demands(&self) -> Demands {
        let instead = "`method.train = \"head\"`";
        match self.train {
            Learns::Prompt => {
                Demands::requiring([Requirement::blocks("the prompt of HGP", instead)])
            }
            Learns::All => Demands::requiring([Requirement::trainable_backbone(instead)]),
            Learns::Head => Demands::default(),
        }
    }

    /// Returns settings that train clients one by one if the backbone trains, which each of them changes.
    fn settings(&self, _view: &TaskView) -> TrainingSettings {
        let max_pack = match self.train {
            Learns::All => 1,
            Learns::Prompt | Learns::Head => usize::MAX,
        };
        TrainingSettings { max_pack, ..TrainingSettings::default() }
    }
}

impl DescribesClasses for Hgp {
    fn descriptions(&self) -> Descriptions {
        let spread = FeatureSpread { form: self.covariance, scale: self.cov_scale };
        Descriptions { used: self.rebalancing.is_on(), least: 2, spread: Some(spread) }
    }

    fn feature_width(&self, model: &ModelFacts) -> usize {
        model.backbone.dim()
    }

    fn size(&self) -> UploadSize {
        UploadSize::FromShard
    }

    /// Returns 0: the forward pass is part of the work of training.
    fn work(&self, _samples: usize) -> f64 {
        0.0
    }
}

impl LocalUpdate<()> for Hgp {
    /// Returns the passes of training, and one forward pass (a third of a training pass) for the Gaussians.
    fn work(&self, load: &Workload<'_>) -> f64 {
        load.samples as f64 * (f64::from(load.plan.epochs) + 1.0 / 3.0)
    }
}

impl ServerUpdate<Prototypes> for Hgp {
    fn server_update(
        &self,
        memory: &mut Prototypes,
        ClosedRound { aggregate, round, .. }: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        memory.take(&aggregate, self.gaussian_lifetime, round.stage.view.rows.clone())?;
        self.rebalancing.apply((memory, self.cov_scale), theta, round)?;
        Ok(Vec::new())
    }

    fn work(&self, model: &ModelFacts, round: &RoundContext, _updates: usize) -> f64 {
        self.rebalancing.work(model, &round.stage.view)
    }

    fn demands(&self) -> Demands {
        match self.rebalancing.is_on() {
            true => {
                let why = "its server balances old classes against those of one task";
                Demands::restricting(&[Capability::MixedTasks], why)
            }
            false => Demands::default(),
        }
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "One prefix prompt and a linear head on a frozen backbone, averaged over clients; \
               after every round the server rebalances the head on features drawn from the \
               clients' per-class Gaussians.",
        source: "Salami, Buzzega, Mosconi, Verasani, Calderara: Federated Class-Incremental \
                 Learning with Hierarchical Generative Prototypes, arXiv 2406.02447",
        state: "server: prompt, head, a Gaussian per class and client; client: nothing",
        clip: Some(1.0),
        ..MethodEntry::averaging("hgp", Hgp::read)
    }
}
