//! An averaging method as the engine sees it.

use std::sync::Arc;

use super::cut::Cut;
use super::previous::previous_sketch;
use super::server::BaseServer;
use super::{Averaged, Client, Direction, Needs, Parameters};
use crate::data::TaskView;
use crate::learning::TrainingPlan;
use crate::methods::HeadForm;
use crate::model::{Parameter, ParameterSet, is_buffer};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    AssetSketch, ClientState, CohortRule, Failure, Holdings, Lab, Layout, Member, Message, Method,
    ModelFacts, Outcome, Period, Phase, Place, PolicyError, Predictor, Role, RoundContext, Seat,
    Server, SketchFacts, Veto, kind_of,
};
use crate::quantity::{ClientId, TaskId};
use crate::wire::{Body, BodySketch, Kind, NamedTensor, Section, WireError};

/// Bytes of the digest by which a Down names an asset.
const DIGEST_BYTES: usize = 8;

/// A method that averages, for a model of certain dimensions.
#[derive(Clone, Debug)]
pub struct Base<A> {
    /// Its configuration.
    pub method: A,
    /// The model's dimensions.
    pub model: Arc<ModelFacts>,
    /// What it learns of such a model.
    pub(super) parameters: Arc<Parameters>,
}

impl<A: Averaged> Base<A> {
    /// The method for a model of these dimensions.
    pub fn new(method: A, model: &ModelFacts) -> Base<A> {
        let parameters = Arc::new(method.parameters(model));
        Base { method, model: Arc::new(model.clone()), parameters }
    }

    /// What travels between the server and a client with this view.
    pub(super) fn cut(&self, view: &TaskView, direction: Direction) -> Cut {
        Cut::of(&self.method, &self.model, view, direction)
    }

    fn places(&self, cut: &Cut, view: &TaskView, direction: Direction) -> Vec<Place> {
        cut.places(&self.method, &self.model, &self.parameters, view, direction)
    }

    /// Assets that the Downs of an exchange name.
    fn assets(&self, facts: &SketchFacts<'_>) -> Vec<AssetSketch> {
        let mut assets: Vec<AssetSketch> = match is_closing(facts.phase) {
            true if !self.method.closing_names_assets() => return Vec::new(),
            true => Vec::new(),
            false => self.previous(facts.view, facts.role).into_iter().collect(),
        };
        assets.extend(self.method.also_named(facts));
        assets
    }

    fn previous(&self, view: &TaskView, role: Role) -> Option<AssetSketch> {
        let taught = self.method.teaches() && self.method.is_taught(role);
        let before = view.task.0.checked_sub(1).filter(|_| taught)?;
        let mut cut = self.cut(view, Direction::Down);
        if self.method.averaging().head == HeadForm::Growing {
            cut.head = 0..view.rows.start;
        }
        let places = self.places(&cut, view, Direction::Down);
        let shapes: Vec<_> =
            places.into_iter().map(|place| (place.name.to_string(), place.shape)).collect();
        Some(previous_sketch(TaskId(before), &shapes))
    }

    /// A message of a client whose training came to this.
    pub(super) fn upload(
        &self,
        member: &Client<'_, A::State>,
        trained: super::Trained,
        lab: &Lab,
    ) -> Result<Outcome, PolicyError> {
        let (method, model, view) = (&self.method, &*self.model, &member.seat.view);
        let cut = self.cut(view, Direction::Up);
        let round = method.round_told(member.down);
        let travels =
            |name: &str| method.travels(model, name, Direction::Up) && method.uploads(round, name);
        let parameters = cut.take(&self.parameters, &trained.parameters, travels)?;
        let counts = lab.held_counts(member.shard);
        let facts = SketchFacts {
            model,
            view,
            period: view.task,
            phase: 0,
            round_in_phase: round,
            role: member.seat.role,
            counts: &counts,
        };
        let control = method.control(&facts, cut.head.start);
        let mut extra = method.describe(member, &trained, lab)?;
        if let Some(prefix) = method.importance() {
            let all = method.weigh(model, member, &trained, lab)?;
            let weights =
                cut.take(&self.parameters, &all, |name| travels(name) && !is_buffer(name))?;
            let weights = weight_tensors(prefix, &self.parameters, &weights)?;
            match extra.last_mut() {
                Some(said) if said.kind == Kind::Statistics => said.tensors.extend(weights),
                _ => extra.push(Section::new(Kind::Statistics, weights)),
            }
        }
        let up = Message { control, parameters, extra, assets: Vec::new() };
        Ok(Outcome { up, metrics: trained.metrics })
    }

    /// A message of a client after the training of a task.
    fn report(&self, member: &mut Client<'_, A::State>, lab: &Lab) -> Result<Outcome, PolicyError> {
        let (extra, metrics) = self.method.report(&self.model, member, lab)?;
        Ok(Outcome { up: Message { extra, ..Message::default() }, metrics })
    }

    fn train_pack(
        &self,
        members: &mut [Member],
        lab: &Lab,
    ) -> Result<Vec<Result<Outcome, PolicyError>>, PolicyError> {
        let closes = members.first().is_some_and(|member| is_closing(member.phase));
        let mut pack = Vec::with_capacity(members.len());
        for member in &*members {
            let cut = self.cut(&member.seat.view, Direction::Down);
            pack.push(Client {
                seat: &member.seat,
                down: &member.down,
                received: cut.padded(&self.parameters, &member.down.parameters),
                state: A::State::of(&member.state)?,
                shard: &member.shard,
                key: member.key,
                missed: &member.missed,
            });
        }
        let outcomes = match closes {
            true => pack.iter_mut().map(|member| self.report(member, lab)).collect(),
            false => {
                let learnt = self.method.learn(&self.model, &mut pack, lab)?;
                let trained = pack.iter().zip(learnt);
                trained.map(|(member, trained)| self.upload(member, trained?, lab)).collect()
            }
        };
        if !self.method.stateless() {
            let states: Vec<Body> = pack.iter().map(|member| member.state.save()).collect();
            members.iter_mut().zip(states).for_each(|(member, state)| member.state = state);
        }
        Ok(outcomes)
    }
}

/// Whether a phase is the exchange after training.
pub(in crate::methods) fn is_closing(phase: usize) -> bool {
    phase > 0
}

/// Weights of numbers, in the order of the parameters that they are of.
fn weight_tensors(
    prefix: &str,
    all: &Parameters,
    weights: &ParameterSet,
) -> Result<Vec<NamedTensor>, WireError> {
    let found =
        all.iter().filter_map(|parameter| Some((&parameter.name, weights.get(&parameter.name)?)));
    let tensor = |(name, weight): (&String, &Parameter)| {
        let Parameter { shape, values } = weight.clone();
        NamedTensor::f32(format!("{prefix}{name}"), shape, values)
    };
    found.map(tensor).collect()
}

impl<A: Averaged> Method for Base<A> {
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        for need in self.method.needs() {
            if let Needs::Blocks { what, .. } = need {
                lab.backbone.config().blocks_for(what)?;
            }
        }
        Ok(Box::new(BaseServer::new(self.clone(), lab, init)?))
    }

    fn phases(&self, _period: &Period, rounds: u32) -> Vec<Phase> {
        let train = Phase::train(self.method.training_rounds(rounds));
        let closing = self.method.closes_with().map(|name| {
            let cohort = CohortRule::Participants;
            Phase { name, rounds: 1, cohort }
        });
        std::iter::once(train).chain(closing).collect()
    }

    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        self.method.seats(round, cohort)
    }

    fn roles(&self) -> Vec<(Role, &'static str)> {
        self.method.roles()
    }

    fn down(&self, facts: &SketchFacts<'_>) -> Layout {
        let view = facts.view;
        let cut = self.cut(view, Direction::Down);
        let parameters = self.places(&cut, view, Direction::Down);
        let assets = self.assets(facts);
        let mut control = vec![0; DIGEST_BYTES * assets.len()];
        if is_closing(facts.phase) {
            return Layout { control, assets, ..Layout::of(parameters) };
        }
        control.extend(self.method.hears_fields(facts));
        let (extra, at_most) = (self.method.hears(facts), self.method.hears_at_most(facts));
        Layout { control, parameters, extra, assets, at_most, ..Layout::default() }
    }

    fn up(&self, facts: &SketchFacts<'_>) -> Layout {
        if is_closing(facts.phase) {
            return Layout { extra: self.method.reports(facts), ..Layout::default() };
        }
        let cut = self.cut(facts.view, Direction::Up);
        let mut parameters = self.places(&cut, facts.view, Direction::Up);
        parameters.retain(|place| self.method.uploads(facts.round_in_phase, &place.name));
        let weights = parameters.iter().filter_map(Place::weights);
        let extra = self.method.says(facts).into_iter().chain(weights).collect();
        Layout {
            control: self.method.control(facts, cut.head.start),
            parameters,
            extra,
            size: self.method.size(),
            ..Layout::default()
        }
    }

    fn folded(&self, facts: &SketchFacts<'_>) -> Layout {
        match is_closing(facts.phase) {
            true => self.up(facts),
            false => self.method.folds(facts, self.up(facts)),
        }
    }

    fn lift(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        if is_closing(facts.phase) {
            return Ok(update);
        }
        self.method.accepts(&update)?;
        self.method.lift(facts, sent, update)
    }

    fn vetoes(&self) -> Vec<Veto> {
        self.method.vetoes()
    }

    /// What the first task leaves below the head.
    fn feature_sketch(&self) -> BodySketch {
        let classes = (0..self.model.classes as u32).collect();
        let view = TaskView { task: TaskId(0), rows: 0..self.model.classes, classes };
        let cut = self.cut(&view, Direction::Inference);
        let mut places = self.places(&cut, &view, Direction::Inference);
        places.retain(|place| kind_of(&place.name) != Kind::Head);
        Layout::of(places).body()
    }

    fn charged(&self) -> bool {
        self.method.charged()
    }

    fn work(&self, view: &TaskView, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        match is_closing(phase) {
            true => self.method.report_work(&self.model, view, samples),
            false => self.method.work(samples, plan),
        }
    }

    fn seat_work(
        &self,
        seat: &Seat,
        round: &RoundContext,
        samples: usize,
        plan: &TrainingPlan,
    ) -> f64 {
        match is_closing(round.phase) {
            true => self.method.report_work(&self.model, &seat.view, samples),
            false => self.method.seat_work(&self.model, (seat, round), samples, plan),
        }
    }

    fn server_work(&self, round: &RoundContext, updates: usize) -> f64 {
        self.method.server_work(&self.model, round, updates)
    }

    fn stateless(&self) -> bool {
        self.method.stateless()
    }

    fn kept_bytes(&self, state: &Body) -> u64 {
        A::State::of(state).map_or(0, |state| state.kept_bytes())
    }

    fn check_state(&self, state: &Body) -> Result<(), WireError> {
        A::State::of(state).map(drop)
    }

    fn holdings(&self, model: &ModelFacts) -> Option<Holdings> {
        self.method.holdings(model)
    }

    fn train(&self, members: &mut [Member], lab: &Lab) -> Vec<Result<Outcome, Failure>> {
        match self.train_pack(members, lab) {
            Ok(outcomes) => {
                outcomes.into_iter().map(|outcome| outcome.map_err(Failure::from)).collect()
            }
            Err(error) => Failure::of_all(members.len(), error),
        }
    }

    fn largest_pack(&self, _view: &Arc<TaskView>, phase: usize) -> usize {
        match is_closing(phase) {
            true => 1,
            false => self.method.largest_pack(),
        }
    }

    /// A client that received nothing but what it trains cannot answer by itself.
    fn own_model(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        own: &Message,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        if is_closing(facts.phase) || self.method.down_is_lean(&self.model) {
            return Ok(None);
        }
        let (view, all) = (facts.view, &*self.parameters);
        let received = self.cut(view, Direction::Down).padded(all, &sent.parameters);
        let whole = self.cut(view, Direction::Up).put(all, &received, &own.parameters)?;
        let task = view.task.index();
        Ok(Some(self.method.own_predictor(&self.model, task, (sent, &whole), lab)?))
    }
}
