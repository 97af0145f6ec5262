//! The base of methods that average parameters: FedAvg, and everything that differs from it by what is learnt, by the
//! loss, by what travels beside parameters, or by what the server does after the mean.
//!
//! A method is a configuration that implements [`Averaged`]; every hook but the parameters has a default, and
//! [`Base`] makes a method of it. The defaults are FedAvg:
//!
//! ```text
//! client   theta <- down;  E epochs: minimise CE over the rows of the current task           (objective, learn)
//!          sends theta_m and n_m                                                             (says, describe)
//! server   theta <- theta + sum_m n_m (theta_m - theta) / sum_m n_m                          (weight, after_mean)
//! ```
//! A task may end with one more exchange, in which everybody who took part looks at the global model and reports, without
//! changing it ([`Averaged::closes_with`]): a Fisher diagonal, sums of features. It takes a number of a round.
//!
//! Which rows of a parameter travel, who may be late, and what may be added in secret follow from the declaration of the
//! parameters; no method writes a line for it.

mod base;
mod beside;
mod closing;
mod cut;
mod hooks;
mod keeping;
mod memory;
mod objective;
mod parameters;
pub(in crate::methods) mod previous;
#[cfg(test)]
pub(in crate::methods) mod quadratics;
mod sample_count;
mod server;
mod settings;
mod slopes;
mod training;
mod variates;
mod vectors;

use std::ops::Range;
use std::sync::Arc;

pub use super::needs::Needs;
pub use base::Base;
pub(in crate::methods) use base::is_closing;
pub(in crate::methods) use beside::{Beside, Sums, fitted, zeros_like};
pub use closing::Closing;
pub use cut::{Cut, Direction};
pub use hooks::{train, train_alone, train_by};
pub(in crate::methods) use keeping::RATES;
pub use keeping::{Keeper, Reset};
pub use memory::{Begun, Memory};
pub use objective::{CrossEntropy, Objective, Pass};
pub use parameters::{Parameter, Parameters, Rows};
pub use sample_count::{SAMPLES, sample_count};
pub use settings::{Averaging, OldLogits, Weights};
pub(in crate::methods) use slopes::{Proximal, Slopes};
pub(in crate::methods) use training::first_of;
pub use training::{Client, Learnt, Trained, one_by_one};
#[cfg(test)]
pub(in crate::methods) use variates::renew;
pub use variates::{CONTROL, ControlVariates, Variates, Way};
pub(in crate::methods) use variates::{way_of, with_variates};
pub use vectors::Vectors;

use super::trainable::Trainable;
use crate::data::{Loader, TaskView};
use crate::learning::{Classifier, Prompting, QueryView, TrainingPlan};
use crate::methods::parts::Adaptation;
use crate::model::{Norms, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Asset, AssetSketch, ClientState, Figures, Holdings, Lab, Layout, Message, ModelFacts, Period,
    Place, PolicyError, Predictor, Role, RoundContext, Seat, SketchFacts, UpSize, Veto,
    one_seat_each,
};
use crate::quantity::ClientId;
use crate::wire::{MetaWriter, Section};

/// A method that averages parameters, by hooks. `self` is its configuration. [`AveragingMethod`] takes its place.
///
/// [`AveragingMethod`]: crate::methods::parts::AveragingMethod
pub trait Averaged: Clone + Send + Sync + 'static {
    /// What a client keeps between rounds; `()` for stateless methods.
    type State: ClientState;
    /// What the server keeps beside the parameters.
    type Memory: Memory;

    /// The settings of FedAvg, for methods that are FedAvg but for some hooks: parameters, weights, needs and rates are
    /// then FedAvg's.
    fn fedavg(&self) -> Option<&Trainable> {
        None
    }

    /// Whether clients keep nothing between rounds, whatever there is a place for.
    fn stateless(&self) -> bool {
        Self::State::STATELESS
    }

    /// What is learnt: names, whole shapes, and whose the rows are.
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        self.fedavg().map(|fedavg| fedavg.parameters(model)).unwrap_or_default()
    }

    /// Start values of all parameters. The head draws at step 0 of `init`, others at their own steps.
    ///
    /// # Errors
    /// When the backbone is not what the method needs.
    fn initial(
        &self,
        model: &ModelFacts,
        lab: &Lab,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        match self.fedavg() {
            Some(fedavg) => fedavg.initial(model, lab, init),
            None => Ok(ParameterSet::new()),
        }
    }

    /// How uploads are averaged and which head rows travel.
    fn averaging(&self) -> Averaging {
        self.fedavg().map(Trainable::averaging).unwrap_or_default()
    }

    /// What it asks of a scenario.
    fn needs(&self) -> Vec<Needs> {
        self.fedavg().map(|fedavg| fedavg.needs()).unwrap_or_default()
    }

    /// Services that its layouts would allow and it cannot bear.
    fn vetoes(&self) -> Vec<Veto> {
        self.fedavg().map(|fedavg| fedavg.vetoes()).unwrap_or_default()
    }

    /// Whether its messages cross a network.
    fn charged(&self) -> bool {
        true
    }

    /// The seats of a round, where clients have roles. A pure function.
    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        one_seat_each(&round.period, cohort)
    }

    /// What seats may do, with a word for each.
    fn roles(&self) -> Vec<(Role, &'static str)> {
        vec![(Role::default(), "")]
    }

    // ---- what travels

    /// Rows of parameters by task that travel, or that answers after the task depend on. Tasks count from 0.
    fn task_rows(&self, model: &ModelFacts, task: usize, direction: Direction) -> Range<usize> {
        let _ = (model, task, direction);
        0..0
    }

    /// Whether a parameter travels.
    fn travels(&self, model: &ModelFacts, name: &str, direction: Direction) -> bool {
        let _ = (model, name, direction);
        true
    }

    /// Whether the Ups of a round hold a parameter that [travels](Averaged::travels); rounds of a task count from 0.
    fn uploads(&self, round_in_phase: u32, name: &str) -> bool {
        let _ = (round_in_phase, name);
        true
    }

    /// The round that a Down belongs to, where [Ups](Averaged::uploads) depend on it; its control fields say it.
    fn round_told(&self, down: &Message) -> u32 {
        let _ = down;
        0
    }

    /// Whether a Down carries nothing but what its receiver trains.
    fn down_is_lean(&self, model: &ModelFacts) -> bool {
        let _ = model;
        false
    }

    /// Head rows that a client of a task trains.
    fn trained_rows(&self, model: &ModelFacts, view: &TaskView) -> Range<usize> {
        let fedavg = self.fedavg();
        fedavg.map_or_else(|| view.rows.clone(), |fedavg| fedavg.trained_rows(model, view))
    }

    /// Control fields of an Up whose head begins at this row: whose rows it holds, where rows have owners, and the row.
    /// The counts are those of the samples that the client holds.
    fn control(&self, facts: &SketchFacts<'_>, first_row: usize) -> Vec<u8> {
        let mut control = MetaWriter::new();
        if self.parameters(facts.model).is_by_owner() {
            control.u64(u64::from(facts.view.task.0));
        }
        control.u64(first_row as u64);
        control.finish()
    }

    /// What an Up holds beside parameters.
    fn says(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let _ = facts;
        vec![sample_count()]
    }

    /// The tensor of an Up that says how much it counts.
    fn weight(&self) -> &'static str {
        SAMPLES
    }

    /// What the names of tensors begin with that weigh every number of a parameter by itself, where clients send such
    /// ([`weigh`](Averaged::weigh)); no other parameter of an Up may be called so.
    fn importance(&self) -> Option<&'static str> {
        None
    }

    /// Whether the server also keeps the parameters of every client whole, beside their mean.
    fn keeps(&self) -> bool {
        false
    }

    /// Whether the size of an Up is known beforehand.
    fn size(&self) -> UpSize {
        UpSize::Static
    }

    /// What every Down holds beside parameters; [`tell`](Averaged::tell) fills it.
    fn hears(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let _ = facts;
        Vec::new()
    }

    /// Whether Downs may hold less of it: what the server knows by then.
    fn hears_at_most(&self, facts: &SketchFacts<'_>) -> bool {
        let _ = facts;
        false
    }

    /// Those tensors of a round's Downs.
    ///
    /// # Errors
    /// What ends the run.
    fn tell(
        &self,
        memory: &Self::Memory,
        round: &RoundContext,
    ) -> Result<Vec<Section>, PolicyError> {
        let _ = (memory, round);
        Ok(Vec::new())
    }

    /// Control fields of every Down, which say more of those tensors: as many bytes as there will be.
    /// [`tell_fields`](Averaged::tell_fields) fills them.
    fn hears_fields(&self, facts: &SketchFacts<'_>) -> Vec<u8> {
        let _ = facts;
        Vec::new()
    }

    /// Those control fields of a round's Downs.
    fn tell_fields(&self, memory: &Self::Memory, round: &RoundContext) -> Vec<u8> {
        let _ = (memory, round);
        Vec::new()
    }

    /// More tensors of a Down, behind those: what depends on the rows of its receiver's view or, where Downs are
    /// [personal](Averaged::personal), on the receiver.
    ///
    /// # Errors
    /// What ends the run.
    fn tell_seat(
        &self,
        model: &ModelFacts,
        memory: &Self::Memory,
        seat: &Seat,
    ) -> Result<Vec<Section>, PolicyError> {
        let _ = (model, memory, seat);
        Ok(Vec::new())
    }

    /// Whether every seat gets a Down of its own; else those of one view share theirs.
    fn personal(&self) -> bool {
        false
    }

    /// Whether clients are sent the model that the previous task left, as an asset.
    fn teaches(&self) -> bool {
        false
    }

    /// Whether seats of this role are sent it, where anybody is.
    fn is_taught(&self, role: Role) -> bool {
        let _ = role;
        true
    }

    /// Whether every task but the first starts from [`initial`](Averaged::initial) parameters, drawn anew, and not
    /// from those that the task before left; only where that one [teaches](Averaged::teaches).
    fn restarts(&self) -> bool {
        false
    }

    /// Further assets that the Downs of a task's training name, behind the previous model.
    fn also_named(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        let _ = facts;
        Vec::new()
    }

    /// Those assets of a seat, in the same order.
    ///
    /// # Errors
    /// What ends the run.
    fn assets(
        &self,
        memory: &Self::Memory,
        seat: &Seat,
        lab: &Lab,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        let _ = (memory, seat, lab);
        Ok(Vec::new())
    }

    // ---- the exchange after training

    /// How many rounds of a task train, of so many that the scenario asks for.
    fn training_rounds(&self, rounds: u32) -> u32 {
        rounds
    }

    /// The name of an exchange after the training of every task, where there is one: everybody who took part gets the
    /// parameters once more and answers with [reports](Averaged::reports), which change no parameter.
    fn closes_with(&self) -> Option<&'static str> {
        None
    }

    /// Whether the Downs of that exchange name [assets](Averaged::also_named), too.
    fn closing_names_assets(&self) -> bool {
        false
    }

    /// What an Up of that exchange holds.
    fn reports(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let _ = facts;
        Vec::new()
    }

    /// Those tensors, and what the journal says of them.
    ///
    /// # Errors
    /// What makes the member fail.
    fn report(
        &self,
        model: &ModelFacts,
        member: &mut Client<'_, Self::State>,
        lab: &Lab,
    ) -> Result<(Vec<Section>, Figures), PolicyError> {
        let _ = (model, member, lab);
        Ok(Default::default())
    }

    /// Sample passes of a seat of this view in that exchange, for virtual time.
    fn report_work(&self, model: &ModelFacts, view: &TaskView, samples: usize) -> f64 {
        let _ = (model, view);
        samples as f64
    }

    /// What reports folded to reaches the server; answers figures of the round.
    ///
    /// # Errors
    /// What ends the run.
    fn after_reports(
        &self,
        memory: &mut Self::Memory,
        closing: Closing<'_>,
    ) -> Result<Figures, PolicyError> {
        let _ = (memory, closing);
        Ok(Vec::new())
    }

    // ---- the client

    /// How prompts among the parameters depend on queries, in training or at inference after a task.
    fn prompting(
        &self,
        model: &ModelFacts,
        task: usize,
        trains: bool,
    ) -> Option<Arc<dyn Prompting>> {
        let _ = (model, task, trains);
        None
    }

    /// Which image a query is of, where prompts depend on queries.
    fn query(&self) -> Option<QueryView> {
        None
    }

    /// Share of hidden entries dropped inside adapters, or in a module.
    fn dropout(&self) -> f64 {
        self.fedavg().map_or(0.0, |fedavg| fedavg.dropout())
    }

    /// By which moments a module upon the backbone normalises in the training of a task.
    fn norms(&self, view: &TaskView) -> Norms {
        self.fedavg().map_or(Norms::Batch, |fedavg| fedavg.norms_of(view))
    }

    /// Factor on the learning rate of a parameter.
    fn rate_factor(&self, name: &str) -> f64 {
        self.fedavg().map_or(1.0, |fedavg| fedavg.rate_factor(name))
    }

    /// The loss of the members of a pack, from what they received. The classifier is the one that trains.
    ///
    /// # Errors
    /// What the network reports.
    fn objective(
        &self,
        model: &ModelFacts,
        pack: &[Client<'_, Self::State>],
        network: &Classifier,
        lab: &Lab,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let _ = (model, pack, network, lab);
        Ok(Box::new(CrossEntropy))
    }

    /// Local training of a pack; by default [`train`], with the hooks above.
    ///
    /// # Errors
    /// What stops all members.
    fn learn(
        &self,
        model: &ModelFacts,
        pack: &mut [Client<'_, Self::State>],
        lab: &Lab,
    ) -> Result<Learnt, PolicyError> {
        train(self, model, pack, lab)
    }

    /// The most members that [`learn`](Averaged::learn) takes together.
    fn largest_pack(&self) -> usize {
        self.fedavg().map_or(usize::MAX, |fedavg| fedavg.largest_pack())
    }

    /// What the journal says of a client after its training, from the loader it trained on.
    ///
    /// # Errors
    /// When parameters do not fit.
    fn figures(
        &self,
        model: &ModelFacts,
        seat: &Seat,
        learnt: &ParameterSet,
        loader: &Loader,
    ) -> Result<Vec<(&'static str, f64)>, PolicyError> {
        let _ = (model, seat, learnt, loader);
        Ok(Vec::new())
    }

    /// The tensors that [`says`](Averaged::says) declares.
    ///
    /// # Errors
    /// What makes the upload unusable.
    fn describe(
        &self,
        member: &Client<'_, Self::State>,
        trained: &Trained,
        lab: &Lab,
    ) -> Result<Vec<Section>, PolicyError> {
        let _ = (member, lab);
        Ok(vec![trained.sample_count()?])
    }

    /// How much every number of every parameter counts in the mean, in its whole shape; only where
    /// [`importance`](Averaged::importance) has a name for it.
    ///
    /// # Errors
    /// What the network reports.
    fn weigh(
        &self,
        model: &ModelFacts,
        member: &Client<'_, Self::State>,
        trained: &Trained,
        lab: &Lab,
    ) -> Result<ParameterSet, PolicyError> {
        let _ = (model, member, trained, lab);
        Ok(ParameterSet::new())
    }

    /// What server and clients hold between rounds of such a model, where the method says so beforehand.
    fn holdings(&self, model: &ModelFacts) -> Option<Holdings> {
        let _ = model;
        None
    }

    /// Sample passes of a seat, for virtual time.
    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        samples as f64 * f64::from(plan.epochs)
    }

    /// The same of a seat in a round, with what depends on what the seat does, on the round or on the model.
    fn seat_work(
        &self,
        model: &ModelFacts,
        (seat, round): (&Seat, &RoundContext),
        samples: usize,
        plan: &TrainingPlan,
    ) -> f64 {
        let _ = (model, seat, round);
        self.work(samples, plan)
    }

    // ---- the server

    /// Refuses an upload that cannot be used.
    ///
    /// # Errors
    /// Why it cannot.
    fn accepts(&self, update: &Message) -> Result<(), PolicyError> {
        let _ = update;
        Ok(())
    }

    /// What becomes of an Up of training with this layout, where the server [lifts](Averaged::lift) it.
    fn folds(&self, facts: &SketchFacts<'_>, up: Layout) -> Layout {
        let _ = facts;
        up
    }

    /// What such an Up contributes, where that is not what travels.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn lift(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        let _ = (facts, sent);
        Ok(update)
    }

    /// A task starts: the server prepares its rows. Called once for each, where its memory knows which have
    /// [begun](Memory::begins).
    fn begin_task(
        &self,
        model: &ModelFacts,
        memory: &mut Self::Memory,
        task: usize,
        theta: ParameterSet,
        init: StreamKey,
    ) -> ParameterSet {
        let _ = (model, memory, task, init);
        theta
    }

    /// The server's own step after the mean; answers figures of the round.
    ///
    /// # Errors
    /// What ends the run.
    fn after_mean(
        &self,
        memory: &mut Self::Memory,
        closing: Closing<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Vec<(&'static str, f64)>, PolicyError> {
        let _ = (memory, closing, theta);
        Ok(Vec::new())
    }

    /// Sample passes of [`after_mean`](Averaged::after_mean) after so many updates, for virtual time.
    fn server_work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        let _ = (model, round, updates);
        0.0
    }

    /// A task is over.
    ///
    /// # Errors
    /// What ends the run.
    fn end_task(
        &self,
        memory: &mut Self::Memory,
        theta: &ParameterSet,
        period: &Period,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        let _ = (memory, theta, period, lab);
        Ok(())
    }

    /// The model that answers for the server, which remembers this beside these whole parameters.
    ///
    /// # Errors
    /// When they do not fit the backbone.
    fn answering(
        &self,
        model: &ModelFacts,
        memory: &Self::Memory,
        theta: &ParameterSet,
        lab: &Lab,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        self.predictor(model, memory.task(), theta, lab)
    }

    /// The model of a client before its upload is averaged: these whole parameters, of which it trained some, and what
    /// else it was sent.
    ///
    /// # Errors
    /// When they do not fit the backbone.
    fn own_predictor(
        &self,
        model: &ModelFacts,
        task: usize,
        (sent, theta): (&Message, &ParameterSet),
        lab: &Lab,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        let _ = sent;
        self.predictor(model, task, theta, lab)
    }

    /// A model of these whole parameters that answers as the method does after a task.
    ///
    /// # Errors
    /// When they do not fit the backbone.
    fn predictor(
        &self,
        model: &ModelFacts,
        task: usize,
        theta: &ParameterSet,
        lab: &Lab,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        let prompting = self.prompting(model, task, false);
        Ok(Arc::new(Classifier::frozen_with(&lab.backbone, theta, prompting)?))
    }
}
