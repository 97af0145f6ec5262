//! What methods with prompts that depend on a query share: federated averaging of prompts and a head on a
//! frozen transformer, cut into tasks.
//!
//! A [`PromptKind`] says which parameters there are, which rows of them belong to a task, and how they
//! become prompts; [`Prompted`] makes a method of it.
//!
//! ```text
//! client   prompts, head <- down;  E epochs: minimise CE over the rows of the current task + the kind's loss
//! server   prompts, head <- means weighted by n_m; rows of a task over the clients that learnt it
//!          as a task starts: the kind prepares its rows
//! ```
//! Clients keep nothing between rounds.

mod additive;
mod client;
mod cut;
mod draws;
mod kind;
mod messages;
mod part;
mod server;
mod settings;

use std::ops::Range;
use std::sync::Arc;

pub use client::PromptedClient;
pub use cut::Cut;
pub(super) use draws::{chosen, uniform_parameter};
pub use kind::{ExtraLoss, PromptKind};
pub use messages::{Down, Up};
pub use part::{Owner, PromptedPart};
pub use server::PromptedServer;
pub use settings::{PoolForm, PromptedConfig};
pub(super) use settings::{check_blocks, given};

use crate::data::TaskView;
use crate::learning::TrainingPlan;
use crate::model::{HeadKind, HeadShape, LinearHead, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Additive, ExchangeSketch, Field, Folding, Lab, Method, ModelFacts, ParameterAverage,
    PolicyError, SketchFacts, UpMeta, UpSize, WireForm, kind_of, parameter_sketches,
};
use crate::wire::{BodySketch, Kind};

/// A method of this kind: its settings and what of the model it must know.
#[derive(Clone, Debug)]
pub struct Prompted<K> {
    /// What is particular to it.
    pub kind: K,
    /// What all of them have.
    pub config: PromptedConfig,
    classes: usize,
    dim: usize,
    form: WireForm,
}

impl<K: PromptKind> Prompted<K> {
    /// The method for a model of these dimensions.
    pub fn new(kind: K, config: PromptedConfig, facts: &ModelFacts) -> Prompted<K> {
        let (classes, dim, form) = (facts.classes, facts.backbone.dim(), facts.form);
        Prompted { kind, config, classes, dim, form }
    }

    /// What a Down of a task carries.
    pub fn down_cut(&self, view: &TaskView) -> Cut {
        let task = view.task.index();
        let head = match self.kind.down_is_lean(self.form) {
            false => self.config.head.down_rows(view, self.classes),
            true => view.rows.clone(),
        };
        Cut { head, pool: self.kind.down_rows(task, self.form) }
    }

    /// What an Up of a task carries.
    pub fn up_cut(&self, view: &TaskView) -> Cut {
        let head = self.config.head.up_rows(view, self.classes, self.form);
        Cut { head, pool: self.up_pool(view.task.index()) }
    }

    /// The rows of prompts in an Up.
    fn up_pool(&self, task: usize) -> Range<usize> {
        match self.form {
            WireForm::Full => self.kind.down_rows(task, self.form),
            WireForm::Lean => self.kind.own_rows(task),
        }
    }

    /// What a client works with: rows that did not travel, below those that did, are zeros.
    fn received(&self, down: &Down, view: &TaskView) -> ParameterSet {
        self.down_cut(view).padded(&down.parameters, |name| self.kind.has_rows(name))
    }

    /// `received` with what an Up brings.
    fn learnt(&self, received: &ParameterSet, up: &Up) -> Result<ParameterSet, PolicyError> {
        let cut = Cut { head: up.head_rows(), pool: self.up_pool(usize::from(up.task)) };
        Ok(cut.put_into(received, &up.parameters, |name| self.kind.has_rows(name))?)
    }

    /// Whether rows of a parameter belong to tasks: those of the head, and of some prompts.
    fn of_a_task(&self, name: &str) -> bool {
        kind_of(name) == Kind::Head || self.kind.has_rows(name)
    }

    /// Start values of prompts and head; the head draws at step 0.
    fn initial_parameters(&self, init: StreamKey) -> ParameterSet {
        let prompts = self.kind.initial_parameters(init);
        let head = LinearHead::initial_parameters(self.classes, self.dim, init);
        let all = prompts.iter().chain(head.iter());
        all.map(|(name, parameter)| (Arc::clone(name), parameter.clone())).collect()
    }

    /// Names and shapes of the prompts in a message.
    fn shapes(&self, cut: &Cut, lean: bool) -> Vec<(String, Vec<usize>)> {
        let shapes = self.kind.shapes().into_iter();
        let sent = shapes.filter(|(name, _)| !lean || self.kind.changes(name));
        sent.map(|(name, mut shape)| {
            if self.kind.has_rows(&name) {
                shape[0] = cut.pool.len();
            }
            (name, shape)
        })
        .collect()
    }

    fn head(&self, rows: usize) -> HeadShape {
        HeadShape { kind: HeadKind::Linear, rows, dim: self.dim }
    }
}

impl<K: PromptKind> Method for Prompted<K> {
    type Down = Down;
    type Up = Up;
    type Part = PromptedPart;
    type State = ();
    type Server = PromptedServer<K>;
    type Client = PromptedClient<K>;

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<PromptedServer<K>, PolicyError> {
        lab.backbone.config().blocks_for("a prompt")?;
        let parameters = self.initial_parameters(init);
        Ok(PromptedServer { method: Arc::new(self.clone()), parameters, init, task: None })
    }

    fn client(&self) -> PromptedClient<K> {
        PromptedClient { method: Arc::new(self.clone()) }
    }

    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        let (down, up) = (self.down_cut(facts.view), self.up_cut(facts.view));
        let lean = self.form == WireForm::Lean;
        ExchangeSketch {
            down: Down::sketch(&self.shapes(&down, false), self.head(down.head.len())),
            up: Up::sketch(&self.shapes(&up, lean), self.head(up.head.len())),
            up_size: UpSize::Static,
        }
    }

    /// What the first task leaves.
    fn feature_sketch(&self) -> BodySketch {
        let cut = Cut { head: 0..0, pool: self.kind.inference_rows(0) };
        BodySketch::new(0, parameter_sketches(&self.shapes(&cut, false)))
    }

    fn fields(&self) -> &'static [Field] {
        &[
            Field { name: "parameters", folding: Folding::Sum },
            Field { name: "samples", folding: Folding::Sum },
        ]
    }

    fn lift(&self, down: &Down, up: Up, meta: &UpMeta) -> Result<PromptedPart, PolicyError> {
        let base = self.received(down, &meta.seat.view);
        let learnt = self.learnt(&base, &up)?;
        let weight = self.config.weights.of(up.samples);
        let average = |of: &dyn Fn(&str) -> bool| -> Result<ParameterAverage, PolicyError> {
            let average = ParameterAverage::one(weight, &base, &learnt.filter(of))?;
            Ok(average.discounted(meta.discount))
        };
        let (task, first_row) = (up.task, meta.seat.view.rows.start as u32);
        let prompts = average(&|name| self.kind.has_rows(name))?;
        let head = average(&|name| kind_of(name) == Kind::Head)?;
        let own = [(Owner::Task(task), prompts), (Owner::Head(first_row), head)];
        Ok(PromptedPart::one(average(&|name| !self.of_a_task(name))?, own))
    }

    /// A difference to the Down it began from can be added to any later model.
    fn late(&self) -> Result<(), &'static str> {
        Ok(())
    }

    /// Every seat gets what belongs to its own task.
    fn mixed(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn additive(&self) -> Result<&dyn Additive<Prompted<K>>, &'static str> {
        Ok(self)
    }

    /// Training, and a third of a training pass for every further forward pass.
    fn work(&self, _phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        let passes = self.kind.extra_passes();
        samples as f64 * (plan.epochs as f64 * (1.0 + passes / 3.0) + 1.0 / 3.0)
    }
}
