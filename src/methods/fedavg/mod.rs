//! **FedAvg** (McMahan et al., AISTATS 2017): every client trains what the server sent on its
//! shard, the server takes the mean weighted by sample counts.
//!
//! In class-incremental benchmarks it is the lower bound: nothing but the mask of the
//! loss (only rows of the current task compete) keeps old classes alive.
//!
//! ```text
//! client   theta <- down;  E epochs: minimise CE over the rows of the current task, or of all seen
//! server   theta <- theta + sum_m n_m (theta_m - theta) / sum_m n_m
//! ```
//! `train` says what theta is: the whole network, the head alone (linear probe), a prefix prompt and
//! the head, or FedHAF's module and head, which makes FedHAF's baselines. With `old_logits = "keep"`,
//! uniform weights and clipping at 1 it is HePCo's lower bound FedAvg-FT. On plain pixels, which have no
//! parameters, all there is is the head: logistic regression. Clients keep nothing between rounds.

mod additive;
mod averaged;
mod client;
mod config;
mod local;
mod local_rule;
mod messages;
pub(super) mod previous;
mod server;

use std::ops::Range;
use std::sync::Arc;

pub(super) use additive::{part, sum_of, summand};
pub(super) use averaged::changed;
pub use client::FedAvgClient;
pub use config::{FedAvgConfig, OldLogits, Train, Weights};
pub(super) use local::{Trained, train_members, uploads};
pub use local_rule::{FedAvgBy, LocalClient, LocalRule};
pub use messages::{Down, Up};
pub use server::FedAvgServer;

use crate::data::TaskView;
use crate::learning::{Classifier, Optimiser, PromptShape, TrainingPlan};
use crate::methods::HeadForm;
use crate::methods::transformer::{needs_blocks, needs_training};
use crate::model::{Backbone, BackboneConfig, HeadShape, NetworkShape, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Additive, AssetSketch, Averaged, ExchangeSketch, Field, Folding, Lab, Method, ModelFacts,
    ParameterAverage, PolicyError, SketchFacts, UpMeta, UpSize, WireForm, kind_of,
    parameter_sketches,
};
use crate::quantity::TaskId;
use crate::scenario::{Complaint, Scenario};
use crate::wire::{BodySketch, Kind};

/// The method: its settings and what of the model it must know.
#[derive(Clone, Debug)]
pub struct FedAvg {
    /// The settings.
    pub config: FedAvgConfig,
    backbone: BackboneConfig,
    prompt: Option<PromptShape>,
    classes: usize,
    form: WireForm,
}

impl FedAvg {
    /// The method for a model of these dimensions.
    pub fn new(config: FedAvgConfig, facts: &ModelFacts) -> FedAvg {
        let prompt = (config.train == Train::Prompt)
            .then(|| facts.prompt_shape(config.n_blocks, config.prompt_len));
        let (backbone, classes, form) = (facts.backbone, facts.classes, facts.form);
        FedAvg { config, backbone, prompt, classes, form }
    }

    /// How much an upload counts.
    fn weight(&self, up: &Up) -> f64 {
        self.config.weights.of(up.samples)
    }

    /// Head rows of an upload: in the lean form those that train.
    pub(super) fn up_rows(&self, view: &TaskView) -> Range<usize> {
        match self.form {
            WireForm::Full => self.config.head.down_rows(view, self.classes),
            WireForm::Lean => self.config.old_logits.rows(view),
        }
    }

    /// Names and shapes of what trains beside the head.
    pub(super) fn others(&self) -> Vec<(String, Vec<usize>)> {
        match self.config.train {
            Train::All => self.backbone.parameter_shapes(),
            Train::Head => Vec::new(),
            Train::Prompt => self.prompt.map(|shape| shape.shapes()).unwrap_or_default(),
            Train::Module => self.networks().common(),
        }
    }

    /// FedHAF's networks upon this backbone.
    fn networks(&self) -> NetworkShape {
        NetworkShape::table_6(self.backbone.dim(), self.classes)
    }

    /// Width of what the rows of the head get.
    fn width(&self) -> usize {
        match self.config.train {
            Train::Module => self.networks().head_hidden,
            _ => self.backbone.dim(),
        }
    }

    /// The head that a Down of this task carries.
    fn down_head(&self, view: &TaskView) -> HeadShape {
        let rows = self.config.head.down_rows(view, self.classes).len();
        HeadShape { kind: self.config.classifier, rows, dim: self.width() }
    }

    /// A Down that names what the previous task left.
    fn naming_sketch(&self, view: &TaskView) -> BodySketch {
        Down::naming_sketch(&self.others(), self.down_head(view))
    }

    /// What the task before left, where there was one.
    fn previous_sketch(&self, view: &TaskView) -> Option<AssetSketch> {
        let before = view.task.0.checked_sub(1)?;
        let head = match self.config.head {
            HeadForm::Fixed => self.down_head(view),
            HeadForm::Growing => HeadShape { rows: view.rows.start, ..self.down_head(view) },
        };
        let shapes = messages::with_head(&self.others(), head);
        Some(previous::previous_sketch(TaskId(before), &shapes))
    }

    /// Start values: the backbone as loaded, a prompt of zeros, a head drawn at `init`.
    pub(super) fn initial_parameters(
        &self,
        backbone: &Backbone,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let kind = self.config.classifier;
        let head = kind.initial_parameters(self.classes, self.width(), init);
        let others = match self.config.train {
            Train::All => backbone.parameters()?,
            Train::Head => ParameterSet::new(),
            Train::Prompt => {
                self.prompt.map(|shape| shape.initial_parameters(0.0, init)).unwrap_or_default()
            }
            Train::Module => self.networks().initial_common(init),
        };
        let all = others.iter().chain(head.iter());
        Ok(all.map(|(name, parameter)| (Arc::clone(name), parameter.clone())).collect())
    }

    /// A fresh optimiser of a classifier's variables, with the rate of all but the head scaled.
    pub(super) fn optimiser(&self, model: &Classifier, plan: &TrainingPlan) -> Optimiser {
        let factor = |name: &str| match kind_of(name) {
            Kind::Head => 1.0,
            _ => self.config.backbone_lr,
        };
        let factors = model.variables().iter().map(|(name, _)| factor(name)).collect();
        let mut optimiser = plan.optimiser.clone().over_pack(model.vars(), model.members());
        optimiser.set_rate_factors(factors);
        optimiser
    }
}

impl Method for FedAvg {
    type Down = Down;
    type Up = Up;
    type Part = ParameterAverage;
    type State = ();
    type Server = FedAvgServer;
    type Client = FedAvgClient;

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<FedAvgServer, PolicyError> {
        if self.prompt.is_some() {
            self.backbone.blocks_for("a prefix prompt")?;
        }
        Ok(FedAvgServer {
            head: self.config.head,
            classes: self.classes,
            parameters: self.initial_parameters(&lab.backbone, init)?,
            prompting: None,
            teaches: false,
            previous: None,
        })
    }

    fn client(&self) -> FedAvgClient {
        FedAvgClient { method: Arc::new(self.clone()) }
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let (others, head) = (self.others(), self.down_head(facts.view));
        let up = self.up_rows(facts.view);
        ExchangeSketch {
            down: Down::sketch(&others, head),
            up: Up::sketch(&others, HeadShape { rows: up.len(), ..head }, up.start),
            up_size: UpSize::Static,
        }
    }

    fn feature_sketch(&self) -> BodySketch {
        let mut below_head = self.others();
        below_head.retain(|(name, _)| kind_of(name) != Kind::Head);
        BodySketch::new(0, parameter_sketches(&below_head))
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "parameters", folding: Folding::Sum },
            Field { name: "samples", folding: Folding::Sum },
        ]
    }

    fn lift(&self, down: &Down, up: Up, meta: &UpMeta) -> Result<ParameterAverage, PolicyError> {
        let whole = up.whole(down)?;
        let average = ParameterAverage::one(self.weight(&up), &down.parameters, &whole)?;
        Ok(average.discounted(meta.discount))
    }

    /// A difference to the Down it began from can be added to any later model.
    fn late(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn mixed(&self) -> Result<(), &'static str> {
        self.config.head.mixed()
    }

    fn additive(&self) -> Result<&dyn Additive<FedAvg>, &'static str> {
        Ok(self)
    }

    fn averaged(&self) -> Result<&dyn Averaged<FedAvg>, &'static str> {
        Ok(self)
    }
}

/// A prompt needs blocks to live in, and training everything a backbone that can be trained.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    const HEAD: &str = "`method.train = \"head\"`";
    let train = scenario.method.parameters.get("train").and_then(toml::Value::as_str);
    let complaint = match train {
        Some("prompt") => needs_blocks(scenario, "a prefix prompt", HEAD),
        Some("head" | "module") => None,
        _ => needs_training(scenario, HEAD),
    };
    complaint.into_iter().collect()
}
