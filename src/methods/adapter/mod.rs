//! **Adapters**: a bottleneck adapter beside the perceptron of every block of a frozen transformer, and a
//! cosine head, averaged over clients. The first stage of STSA (arXiv 2506.01327, section 2 and table of
//! hyperparameters), as a method of its own: name it in `[method.first]`, or run it alone.
//!
//! ```text
//! client   theta <- down;  E epochs: minimise CE over the rows of the current task, dropout in adapters
//! server   theta <- theta + mean_m (theta_m - theta)
//! ```
//! On ViT-B/16 with a bottleneck of 64 the adapters are 1,189,632 parameters, and 7,681 the head of ten
//! classes. Messages are FedAvg's; clients keep nothing between rounds.

mod client;
mod config;

use std::ops::Range;
use std::sync::Arc;

pub use client::AdapterClient;
pub use config::AdapterConfig;

use crate::data::TaskView;
use crate::methods::fedavg::{self, Down, FedAvgServer, Up};
use crate::methods::transformer::needs_blocks;
use crate::model::{AdapterShape, CosineHead, HeadKind, HeadShape};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Additive, Averaged, ExchangeSketch, Field, Folding, Lab, Method, ModelFacts, ParameterAverage,
    PolicyError, SketchFacts, UpMeta, UpSize, WireForm, parameter_sketches,
};
use crate::scenario::{Complaint, Scenario};
use crate::wire::{Body, BodySketch};

/// The method: its settings and what of the model it must know.
#[derive(Clone, Debug)]
pub struct AdapterMethod {
    /// The settings.
    pub config: AdapterConfig,
    shape: AdapterShape,
    classes: usize,
    form: WireForm,
}

impl AdapterMethod {
    /// The method for a model of these dimensions.
    pub fn new(config: AdapterConfig, facts: &ModelFacts) -> AdapterMethod {
        let shape = AdapterShape {
            blocks: facts.backbone.vit().map_or(0, |vit| vit.depth),
            dim: facts.backbone.dim(),
            bottleneck: config.bottleneck as usize,
        };
        AdapterMethod { config, shape, classes: facts.classes, form: facts.form }
    }

    fn up_rows(&self, view: &TaskView) -> Range<usize> {
        self.config.head.up_rows(view, self.classes, self.form)
    }

    fn head(&self, rows: usize) -> HeadShape {
        HeadShape { kind: HeadKind::Cosine, rows, dim: self.shape.dim }
    }
}

impl Additive<AdapterMethod> for AdapterMethod {
    fn summand(&self, down: &Down, up: &Up, _meta: &UpMeta) -> Result<Body, PolicyError> {
        fedavg::summand(self.config.weights.of(up.samples), down, up)
    }

    fn part(&self, sum: &Body) -> Result<ParameterAverage, PolicyError> {
        fedavg::sum_of(sum)
    }
}

impl Averaged<AdapterMethod> for AdapterMethod {
    fn average<'a>(&self, part: &'a mut ParameterAverage) -> &'a mut ParameterAverage {
        part
    }

    fn changed(
        &self,
        down: &Down,
        up: &Up,
        change: &mut dyn FnMut(f32, f32) -> f32,
    ) -> Result<Up, PolicyError> {
        fedavg::changed(down, up, change)
    }
}

impl Method for AdapterMethod {
    type Down = Down;
    type Up = Up;
    type Part = ParameterAverage;
    type State = ();
    type Server = FedAvgServer;
    type Client = AdapterClient;

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<FedAvgServer, PolicyError> {
        lab.backbone.config().blocks_for("an adapter")?;
        let adapters = self.shape.initial_parameters(init);
        let head = CosineHead::initial_parameters(self.classes, self.shape.dim, init);
        let all = adapters.iter().chain(head.iter());
        Ok(FedAvgServer {
            head: self.config.head,
            classes: self.classes,
            parameters: all.map(|(name, p)| (Arc::clone(name), p.clone())).collect(),
            prompting: None,
            teaches: false,
            previous: None,
        })
    }

    fn client(&self) -> AdapterClient {
        AdapterClient { method: Arc::new(self.clone()) }
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let adapters = self.shape.shapes();
        let down = self.config.head.down_rows(facts.view, self.classes);
        let up = self.up_rows(facts.view);
        ExchangeSketch {
            down: Down::sketch(&adapters, self.head(down.len())),
            up: Up::sketch(&adapters, self.head(up.len()), up.start),
            up_size: UpSize::Static,
        }
    }

    fn feature_sketch(&self) -> BodySketch {
        BodySketch::new(0, parameter_sketches(&self.shape.shapes()))
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "parameters", folding: Folding::Sum },
            Field { name: "samples", folding: Folding::Sum },
        ]
    }

    fn lift(&self, down: &Down, up: Up, _meta: &UpMeta) -> Result<ParameterAverage, PolicyError> {
        let weight = self.config.weights.of(up.samples);
        ParameterAverage::one(weight, &down.parameters, &up.whole(down)?)
    }

    fn additive(&self) -> Result<&dyn Additive<AdapterMethod>, &'static str> {
        Ok(self)
    }

    fn averaged(&self) -> Result<&dyn Averaged<AdapterMethod>, &'static str> {
        Ok(self)
    }

    fn mixed(&self) -> Result<(), &'static str> {
        self.config.head.mixed()
    }
}

/// Adapters need blocks to live in.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let instead = "train the whole network with `method.name = \"fedavg\"`";
    needs_blocks(scenario, "an adapter", instead).into_iter().collect()
}
