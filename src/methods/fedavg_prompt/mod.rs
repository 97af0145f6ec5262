//! **FedAvg-Prompt**: HePCo's client with plain averaging on the server.
//!
//! ```text
//! client   pools (P, k) and head W,b  <- down
//!          q = feature of the unprompted frozen transformer, no gradient
//!          rho_j = sum_m cos(q, k_jm) P_jm  is the prefix of block j
//!          E epochs: minimise CE over the rows of the current task
//! server   P, k, W, b  <- mean over the clients that have a sample, each as much as any other
//! ```
//! Baseline of "Continual Adaptation of Vision Transformers for Federated Learning" (TMLR 2024). The mean of
//! prompts and the mean of keys are not the mean of what they do together: that is what
//! [HePCo](super::hepco) repairs. Clients keep nothing between rounds.

mod client;
mod config;
mod local;
mod pool;

use std::ops::Range;
use std::sync::Arc;

pub use client::FedAvgPromptClient;
pub use config::FedAvgPromptConfig;
pub(super) use local::train_pools;
pub use pool::{PoolShape, WeightedPool, keys_name, prompts_name};

use super::fedavg::{self, Down, FedAvgServer, Up};
use super::transformer::needs_blocks;
use crate::data::TaskView;
use crate::learning::Classifier;
use crate::model::{HeadKind, HeadShape, LinearHead, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Additive, ExchangeSketch, Field, Folding, Lab, Method, ModelFacts, ParameterAverage,
    PolicyError, Predictor, SketchFacts, UpMeta, UpSize, WireForm, parameter_sketches,
};
use crate::scenario::{Complaint, Scenario};
use crate::wire::{Body, BodySketch};

/// The method: its settings and what of the model it must know.
#[derive(Clone, Debug)]
pub struct FedAvgPrompt {
    /// The settings.
    pub config: FedAvgPromptConfig,
    /// The pools; no deeper than the backbone.
    pub shape: PoolShape,
    classes: usize,
    form: WireForm,
}

impl FedAvgPrompt {
    /// The method for a model of these dimensions.
    pub fn new(config: FedAvgPromptConfig, facts: &ModelFacts) -> FedAvgPrompt {
        FedAvgPrompt {
            config,
            shape: config.shape(facts),
            classes: facts.classes,
            form: facts.form,
        }
    }

    /// Rows of the head.
    pub(super) fn classes(&self) -> usize {
        self.classes
    }

    /// Head rows of an upload.
    pub(super) fn up_rows(&self, view: &TaskView) -> Range<usize> {
        self.config.head.up_rows(view, self.classes, self.form)
    }

    /// Start values of pools and head.
    pub(super) fn initial_parameters(&self, init: StreamKey) -> ParameterSet {
        let head = LinearHead::initial_parameters(self.classes, self.shape.dim, init);
        let pools = self.shape.initial_parameters(init, self.config.prompt_init);
        let all = pools.iter().chain(head.iter());
        all.map(|(name, parameter)| (Arc::clone(name), parameter.clone())).collect()
    }

    /// Shapes of one exchange.
    pub(super) fn exchange(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let (pools, kind, dim) = (self.shape.shapes(), HeadKind::Linear, self.shape.dim);
        let down = self.config.head.down_rows(facts.view, self.classes).len();
        let up = self.up_rows(facts.view);
        ExchangeSketch {
            down: Down::sketch(&pools, HeadShape { kind, rows: down, dim }),
            up: Up::sketch(&pools, HeadShape { kind, rows: up.len(), dim }, up.start),
            up_size: UpSize::Static,
        }
    }

    /// Shape of what features need.
    pub(super) fn features(&self) -> BodySketch {
        BodySketch::new(0, parameter_sketches(&self.shape.shapes()))
    }
}

impl PoolShape {
    /// How queries become prefixes.
    pub fn prompting(&self) -> WeightedPool {
        WeightedPool { blocks: self.blocks }
    }

    /// The classifier of these parameters, frozen.
    pub(super) fn predictor(
        &self,
        parameters: &ParameterSet,
        lab: &Lab,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        let prompting = Arc::new(self.prompting());
        Ok(Arc::new(Classifier::frozen_with(&lab.backbone, parameters, Some(prompting))?))
    }
}

impl Method for FedAvgPrompt {
    type Down = Down;
    type Up = Up;
    type Part = ParameterAverage;
    type State = ();
    type Server = FedAvgServer;
    type Client = FedAvgPromptClient;

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<FedAvgServer, PolicyError> {
        lab.backbone.config().blocks_for("a pool of prompts")?;
        Ok(FedAvgServer {
            head: self.config.head,
            classes: self.classes,
            parameters: self.initial_parameters(init),
            prompting: Some(Arc::new(self.shape.prompting())),
            teaches: false,
            previous: None,
        })
    }

    fn client(&self) -> FedAvgPromptClient {
        FedAvgPromptClient { method: Arc::new(self.clone()) }
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        self.exchange(facts)
    }

    fn feature_sketch(&self) -> BodySketch {
        self.features()
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "prompts", folding: Folding::Sum },
            Field { name: "head", folding: Folding::Sum },
            Field { name: "samples", folding: Folding::Sum },
        ]
    }

    fn lift(&self, down: &Down, up: Up, meta: &UpMeta) -> Result<ParameterAverage, PolicyError> {
        let whole = up.whole(down)?;
        let weight = self.config.weights.of(up.samples);
        let average = ParameterAverage::one(weight, &down.parameters, &whole)?;
        Ok(average.discounted(meta.discount))
    }

    /// A difference to the Down it began from can be added to any later model.
    fn late(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn additive(&self) -> Result<&dyn Additive<FedAvgPrompt>, &'static str> {
        Ok(self)
    }
}

impl Additive<FedAvgPrompt> for FedAvgPrompt {
    fn summand(&self, down: &Down, up: &Up, _meta: &UpMeta) -> Result<Body, PolicyError> {
        fedavg::summand(self.config.weights.of(up.samples), down, up)
    }

    fn part(&self, sum: &Body) -> Result<ParameterAverage, PolicyError> {
        fedavg::sum_of(sum)
    }
}

/// Pools need blocks to live in.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let instead = "use `method.name = \"fedavg\"`";
    needs_blocks(scenario, "a pool of prompts", instead).into_iter().collect()
}
