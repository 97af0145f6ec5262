//! **HGP**, hierarchical generative prototypes (Salami et al., arXiv 2406.02447).
//!
//! The backbone is frozen; one prefix prompt, shared by all tasks, and a linear head are learnt
//! by federated averaging. So nearly all of the bias of clients (towards their classes) and of tasks (towards
//! new classes) ends up in the head. After every round the server removes it: each client also
//! sends a Gaussian of the features of each of its classes, and the server retrains the head on
//! features drawn from all of them, old classes included.
//!
//! ```text
//! client   prompt P, head W,b  <- down
//!          E epochs: minimise CE over the rows of the current task        (client)
//!          (n, mu, var) of f(x; P) for every class with n >= 2            (client)
//! server   P, W, b  <- mean weighted by n_m                               (policy::ParameterAverage)
//!          Gaussians of the classes described anew are replaced           (mixture)
//!          W, b  <- SGD on features drawn from the mixture                (rebalance)
//! ```
//! Clients keep nothing between rounds. What differs between paper and public code is a key of
//! [`HgpConfig`]; the defaults are the combination behind the published numbers.

mod client;
mod config;
mod messages;
mod mixture;
mod prototypes;
mod rebalance;
mod server;

use std::sync::Arc;

pub use client::HgpClient;
pub use config::{CovarianceForm, HgpConfig, Memory, Omega, PromptInit, Rebalance, RebalanceLoss};
pub use messages::{Down, Up};
pub use mixture::Mixture;
pub use prototypes::{Cells, ClassGaussian, ClassStatistics, Prototypes};
pub use server::HgpServer;

use crate::data::TaskView;
use crate::learning::{PromptShape, TrainingPlan};
use crate::methods::fedavg;
use crate::methods::transformer::needs_blocks;
use crate::model::{HeadKind, HeadShape, LinearHead, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Additive, Averaged, ExchangeSketch, Field, Folding, Keep, Lab, Method, ModelFacts, OldMessage,
    ParameterAverage, Part, PolicyError, SketchFacts, UpMeta, UpSize, WireForm, parameter_sketches,
};
use crate::quantity::ClientId;
use crate::scenario::{Complaint, Scenario};
use crate::wire::{Body, BodySketch, MetaReader};

/// The method: its settings and what of the model it must know.
#[derive(Clone, Debug)]
pub struct Hgp {
    /// The settings.
    pub config: HgpConfig,
    /// The prompt, where there is one; no deeper than the backbone.
    pub prompt: Option<PromptShape>,
    classes: usize,
    dim: usize,
    form: WireForm,
}

impl Hgp {
    /// The method for a model of these dimensions.
    pub fn new(config: HgpConfig, facts: &ModelFacts) -> Hgp {
        let prompt = config.prompt.then(|| facts.prompt_shape(config.n_blocks, config.prompt_len));
        let (classes, dim, form) = (facts.classes, facts.backbone.dim(), facts.form);
        Hgp { config, prompt, classes, dim, form }
    }

    fn up_rows(&self, view: &TaskView) -> std::ops::Range<usize> {
        self.config.head.up_rows(view, self.classes, self.form)
    }

    /// Start values of prompt and head. The head draws at step 0, block `j` of the prompt at
    /// step `1 + j`.
    fn initial_parameters(&self, init: StreamKey) -> ParameterSet {
        let head = LinearHead::initial_parameters(self.classes, self.dim, init);
        let deviation = match self.config.init {
            PromptInit::Zeros => 0.0,
            PromptInit::Normal => 0.02,
        };
        let prompt = self.prompt.map(|shape| shape.initial_parameters(deviation, init));
        let all = prompt.iter().chain([&head]).flat_map(ParameterSet::iter);
        all.map(|(name, parameter)| (Arc::clone(name), parameter.clone())).collect()
    }
}

/// What is left of an upload: the mean streams, the Gaussians are kept.
#[derive(Clone, Debug)]
pub struct HgpPart {
    average: ParameterAverage,
    classes: Keep<(ClientId, Vec<Arc<ClassStatistics>>)>,
}

impl Part for HgpPart {
    fn merge(self, later: Self) -> Self {
        HgpPart {
            average: self.average.merge(later.average),
            classes: self.classes.merge(later.classes),
        }
    }
}

/// Without rebalancing an upload is FedAvg's.
impl Additive<Hgp> for Hgp {
    fn summand(&self, down: &Down, up: &Up, _meta: &UpMeta) -> Result<Body, PolicyError> {
        let summand = fedavg::summand(f64::from(up.learnt.samples), down, &up.learnt)?;
        Ok(Body { meta: up.pack().meta, ..summand })
    }

    fn part(&self, sum: &Body) -> Result<HgpPart, PolicyError> {
        let first_row = MetaReader::new(&sum.meta).u64()? as usize;
        Ok(HgpPart { average: fedavg::part(sum, first_row)?, classes: Keep(Vec::new()) })
    }
}

/// Without rebalancing an upload is FedAvg's.
impl Averaged<Hgp> for Hgp {
    fn average<'a>(&self, part: &'a mut HgpPart) -> &'a mut ParameterAverage {
        &mut part.average
    }

    fn changed(
        &self,
        down: &Down,
        up: &Up,
        change: &mut dyn FnMut(f32, f32) -> f32,
    ) -> Result<Up, PolicyError> {
        Ok(Up { learnt: fedavg::changed(down, &up.learnt, change)?, ..up.clone() })
    }
}

impl Method for Hgp {
    type Down = Down;
    type Up = Up;
    type Part = HgpPart;
    type State = ();
    type Server = HgpServer;
    type Client = HgpClient;

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<HgpServer, PolicyError> {
        if self.prompt.is_some() {
            lab.backbone.config().blocks_for("a prefix prompt")?;
        }
        Ok(HgpServer {
            method: Arc::new(self.clone()),
            parameters: self.initial_parameters(init),
            prototypes: Prototypes::default(),
        })
    }

    fn client(&self) -> HgpClient {
        HgpClient { method: Arc::new(self.clone()) }
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let prompt = self.prompt.map(|shape| shape.shapes()).unwrap_or_default();
        let down = self.config.head.down_rows(facts.view, self.classes).len();
        let (kind, dim, up) = (HeadKind::Linear, self.dim, self.up_rows(facts.view));
        let head = HeadShape { kind, rows: up.len(), dim };
        let learnt = fedavg::Up::sketch(&prompt, head, up.start);
        let full = self.config.covariance == CovarianceForm::Full;
        // Nobody draws from Gaussians where nothing is rebalanced: they are not sent.
        let described = match self.config.rebalance {
            Rebalance::None => Vec::new(),
            _ => messages::described(facts.counts),
        };
        ExchangeSketch {
            down: Down::sketch(&prompt, HeadShape { kind, rows: down, dim }),
            up: Up::sketch(learnt, &described, self.dim, full),
            up_size: UpSize::FromShard,
        }
    }

    fn feature_sketch(&self) -> BodySketch {
        let prompt = self.prompt.map(|shape| shape.shapes()).unwrap_or_default();
        BodySketch::new(0, parameter_sketches(&prompt))
    }

    fn fields(&self) -> &'static [Field] {
        const FIELDS: [Field; 4] = [
            Field { name: "prompt", folding: Folding::Sum },
            Field { name: "head", folding: Folding::Sum },
            Field { name: "samples", folding: Folding::Sum },
            Field { name: "gaussians", folding: Folding::Keep },
        ];
        // Gaussians that nobody draws from are not sent.
        if self.config.rebalance == Rebalance::None { &FIELDS[..3] } else { &FIELDS }
    }

    fn lift(&self, down: &Down, up: Up, meta: &UpMeta) -> Result<HgpPart, PolicyError> {
        let whole = up.learnt.whole(down)?;
        // A Gaussian nobody can draw from is this seat's bad update, not the end of the run.
        for class in &up.classes {
            class.gaussian.sampler(self.config.cov_scale, mixture::ADDED)?;
        }
        let weight = f64::from(up.learnt.samples);
        let average = ParameterAverage::one(weight, &down.parameters, &whole)?;
        Ok(HgpPart {
            average: average.discounted(meta.discount),
            classes: Keep::one(meta.seat.id, (meta.seat.client, up.classes)),
        })
    }

    fn additive(&self) -> Result<&dyn Additive<Hgp>, &'static str> {
        match self.config.rebalance {
            Rebalance::None => Ok(self),
            _ => Err("to draw from each of them"),
        }
    }

    fn averaged(&self) -> Result<&dyn Averaged<Hgp>, &'static str> {
        match self.config.rebalance {
            Rebalance::None => Ok(self),
            _ => Err("to draw from each of them"),
        }
    }

    fn late(&self) -> Result<(), &'static str> {
        match self.config.rebalance {
            Rebalance::None => Ok(()),
            _ => Err("its server draws from Gaussians of the features of one round's model"),
        }
    }

    fn mixed(&self) -> Result<(), &'static str> {
        match self.config.rebalance {
            Rebalance::None => self.config.head.mixed(),
            _ => Err("its server balances old classes against those of one task"),
        }
    }

    /// Training, and one forward pass (a third of a training pass) for the Gaussians.
    fn work(&self, _phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        samples as f64 * (plan.epochs as f64 + 1.0 / 3.0)
    }
}

/// A prompt needs blocks to live in.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let prompted = scenario.method.parameters.get("prompt").and_then(toml::Value::as_bool);
    let complaint = || needs_blocks(scenario, "the prompt of HGP", "`method.prompt = false`");
    prompted.unwrap_or(true).then(complaint).flatten().into_iter().collect()
}
