//! **FedHAF**, federated hierarchical anti-forgetting: a frozen extractor `phi`, a small module `g` that adjusts
//! its features, and a head `h`. Clients keep a few samples of every class they have held.
//!
//! ```text
//! client   exemplars: of every class the samples nearest to its mean of phi   (exemplars)
//!          stage 1, g frozen: h minimises  l_ce CE(new over current outputs, exemplars over all)
//!                             + l_kd KL(h || previous h) on exemplars         (losses)
//!          stage 2, h frozen: g minimises  l_fd |g - previous g|^2 on exemplars
//!                             + l_fb (norm of new classes - norm of old ones)^2
//! server   g, h  <- mean weighted by n_m, running statistics included
//!          end of a task: (g, h) becomes the previous model                   (server)
//! ```
//! In the first task there is nothing to distil, and `g` and `h` learn from the cross-entropy together: the paper
//! says nothing of it, and stage 2 alone would leave `g` at its random start. Exemplars are chosen when the server
//! next speaks to a client, from features that never change, so it matters to nobody when.
//!
//! Three readings of the paper decide how much it learns, and each is a key with the printed alternative:
//! * `exemplars_in_ce`: equation 4 sums over new samples, algorithm 1 and section 3.3 train the head on exemplars,
//!   too. Without them the outputs of two tasks are never compared;
//! * `squares`: equations 2 and 3 sum squares over the 256 entries of a feature. At the paper's rate of 0.02 such a
//!   step is far beyond what is stable: batch norm hides it as features that are drawn anew in every round;
//! * `norms`: with the moments of small mixed batches a module differs from the very model it came from, so that
//!   the distillation of features pulls where nothing is to be pulled (invariant 2 of any distillation).

mod client;
mod config;
mod exemplars;
mod features;
mod losses;
mod network;
mod server;

use std::ops::Range;
use std::sync::Arc;

pub use crate::model::{ModuleShape, NetworkShape, Norms, Residual};
pub use client::FedHafClient;
pub use config::{FedHafConfig, Squares, Stages, Supervision};
pub use server::FedHafServer;

use crate::data::TaskView;
use crate::learning::TrainingPlan;
use crate::methods::HeadForm;
use crate::methods::fedavg::previous::previous_sketch;
use crate::methods::fedavg::{Down, Up, changed, sum_of, summand};
use crate::methods::held::HeldSamples;
use crate::model::{HeadKind, HeadShape, LinearHead, ParameterSet, of_module};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Additive, AssetSketch, Averaged, ExchangeSketch, Field, Folding, Lab, Method, ModelFacts,
    ParameterAverage, PolicyError, SketchFacts, UpMeta, UpSize, WireForm, parameter_sketches,
};
use crate::quantity::TaskId;
use crate::scenario::{Complaint, Population, Scenario};
use crate::wire::{Body, BodySketch};

/// The method: its settings and what of the model it must know.
#[derive(Clone, Debug)]
pub struct FedHaf {
    /// The settings.
    pub config: FedHafConfig,
    /// Module and head.
    pub shape: NetworkShape,
    form: WireForm,
}

impl FedHaf {
    /// The method for a model of these dimensions.
    pub fn new(config: FedHafConfig, facts: &ModelFacts) -> FedHaf {
        FedHaf { shape: config.shape(facts), config, form: facts.form }
    }

    /// A client changes rows of old classes, too: in the lean form it sends all it has seen.
    fn up_rows(&self, view: &TaskView) -> Range<usize> {
        match (self.form, self.config.head) {
            (WireForm::Full, HeadForm::Fixed) => 0..self.shape.classes,
            _ => 0..view.seen(),
        }
    }
}

/// Rows of the head among parameters.
fn rows_of(parameters: &ParameterSet) -> usize {
    parameters.get(LinearHead::WEIGHT).map_or(0, |weight| weight.shape[0])
}

impl Additive<FedHaf> for FedHaf {
    fn summand(&self, down: &Down, up: &Up, _meta: &UpMeta) -> Result<Body, PolicyError> {
        summand(self.config.weights.of(up.samples), down, up)
    }

    fn part(&self, sum: &Body) -> Result<ParameterAverage, PolicyError> {
        sum_of(sum)
    }
}

impl Averaged<FedHaf> for FedHaf {
    fn average<'a>(&self, part: &'a mut ParameterAverage) -> &'a mut ParameterAverage {
        part
    }

    fn changed(
        &self,
        down: &Down,
        up: &Up,
        change: &mut dyn FnMut(f32, f32) -> f32,
    ) -> Result<Up, PolicyError> {
        changed(down, up, change)
    }
}

impl Method for FedHaf {
    type Down = Down;
    type Up = Up;
    type Part = ParameterAverage;
    type State = HeldSamples;
    type Server = FedHafServer;
    type Client = FedHafClient;

    fn server(&self, _lab: &Lab, init: StreamKey) -> Result<FedHafServer, PolicyError> {
        let (method, parameters) = (Arc::new(self.clone()), self.shape.initial_parameters(init));
        Ok(FedHafServer { method, parameters, previous: None })
    }

    fn client(&self) -> FedHafClient {
        FedHafClient { method: Arc::new(self.clone()) }
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let down = self.config.head.down_rows(facts.view, self.shape.classes);
        let up = self.up_rows(facts.view);
        let (kind, dim) = (HeadKind::Linear, self.shape.head_hidden);
        let head = |rows: &Range<usize>| HeadShape { kind, rows: rows.len(), dim };
        let sketch = match facts.view.task {
            TaskId(0) => Down::sketch,
            _ => Down::naming_sketch,
        };
        ExchangeSketch {
            down: sketch(&self.shape.common(), head(&down)),
            up: Up::sketch(&self.shape.common(), head(&up), up.start),
            up_size: UpSize::Static,
        }
    }

    fn asset_sketches(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        let Some(before) = facts.view.task.0.checked_sub(1) else { return Vec::new() };
        let rows = match self.config.head {
            HeadForm::Fixed => self.shape.classes,
            HeadForm::Growing => facts.view.rows.start,
        };
        vec![previous_sketch(TaskId(before), &self.shape.shapes(rows))]
    }

    fn feature_sketch(&self) -> BodySketch {
        let mut module = self.shape.common();
        module.retain(|(name, _)| of_module(name));
        BodySketch::new(0, parameter_sketches(&module))
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "parameters", folding: Folding::Sum },
            Field { name: "samples", folding: Folding::Sum },
        ]
    }

    fn lift(&self, down: &Down, up: Up, meta: &UpMeta) -> Result<ParameterAverage, PolicyError> {
        let (base, whole) = (&down.parameters, up.whole(down)?);
        let average = ParameterAverage::one(self.config.weights.of(up.samples), base, &whole)?;
        Ok(average.discounted(meta.discount))
    }

    fn late(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn additive(&self) -> Result<&dyn Additive<FedHaf>, &'static str> {
        Ok(self)
    }

    fn averaged(&self) -> Result<&dyn Averaged<FedHaf>, &'static str> {
        Ok(self)
    }

    /// Two stages over the task's samples; how many exemplars are beside them is not known here.
    fn work(&self, _phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        let second = match (self.config.stages, self.config.module) {
            (Stages::Two, true) => self.config.module_epochs.unwrap_or(plan.epochs),
            _ => 0,
        };
        samples as f64 * f64::from(plan.epochs + second)
    }
}

/// Exemplars are kept by clients that come back.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let retention = scenario.method.parameters.get("retention");
    let keeps = retention.is_none_or(|share| {
        share.as_float().or(share.as_integer().map(|n| n as f64)).is_some_and(|share| share > 0.0)
    });
    let fresh = scenario.participation.population == Population::Fresh;
    let complaint = || Complaint {
        key: "participation.population",
        message: "FedHAF's clients keep exemplars, and fresh clients never come back".to_owned(),
        label: "nobody to keep anything".to_owned(),
        help: "set `participation.population = \"fixed\"`, or `method.retention = 0.0`".to_owned(),
    };
    (fresh && keeps).then(complaint).into_iter().collect()
}
