//! The smallest engine that keeps the promises policies rely on: no clock, no network, no
//! failures. It checks at every exchange that messages equal their layouts and survive their
//! own encoding.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedcast::data::Loader;
use fedcast::data::{Shard, TaskView};
use fedcast::learning::Tally;
use fedcast::learning::evaluation::evaluate;
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{
    Asset, ClassCounts, CohortRule, Failure, Folded, Lab, Member, Message, Method, ModelFacts,
    Period, Phase, Predictor, RoundContext, Scope, Seat, Server, SketchFacts, UpMeta, UpSize,
};
use fedcast::quantity::{ClientId, Round};
use fedcast::wire::{Body, Codec, CodecPlan, FrameHeader, decode, encode};

pub const SEED: u64 = 5;

/// One seat's exchange.
pub struct Exchange {
    pub task: usize,
    pub phase: &'static str,
    pub seat: Seat,
    pub down: Body,
    pub assets: Vec<Arc<Asset>>,
    pub up: Result<Body, Failure>,
    pub metrics: Vec<(&'static str, f64)>,
}

/// A run in the making.
pub struct Engine {
    pub method: Arc<dyn Method>,
    pub facts: ModelFacts,
    pub lab: Lab,
    pub server: Box<dyn Server>,
    pub states: BTreeMap<ClientId, Body>,
    pub exchanges: Vec<Exchange>,
    pub round: u32,
}

impl Engine {
    pub fn new(method: Arc<dyn Method>, facts: ModelFacts, lab: Lab) -> Engine {
        let server = method.server(&lab, StreamKey::new(SEED, Domain::Init)).unwrap();
        let (states, exchanges) = (BTreeMap::new(), Vec::new());
        Engine { method, facts, lab, server, states, exchanges, round: 0 }
    }

    /// All tasks in turn, each dealt to `clients`.
    pub fn run(mut self, clients: usize, rounds: u32) -> Engine {
        for task in 0..self.lab.curriculum.tasks.len() {
            let view = Arc::clone(&self.lab.curriculum.tasks[task]);
            let shards = super::deal(&self.lab, &view, clients);
            self.task(task, &shards, rounds);
        }
        self
    }

    /// One task with these shards.
    pub fn task(&mut self, task: usize, shards: &[Shard], rounds: u32) {
        let period = self.begin(task);
        for (index, phase) in self.method.phases(&period, rounds).iter().enumerate() {
            self.phase(&period, index, phase, shards);
        }
        self.server.end_period(&period, &self.lab).unwrap();
    }

    /// A task up to the end of its first phase.
    pub fn first_phase(&mut self, task: usize, shards: &[Shard], rounds: u32) {
        let period = self.begin(task);
        let phases = self.method.phases(&period, rounds);
        self.phase(&period, 0, &phases[0], shards);
    }

    fn begin(&mut self, task: usize) -> Period {
        let tasks = &self.lab.curriculum.tasks;
        let (view, tasks) = (Arc::clone(&tasks[task]), tasks.len());
        let period = Period::of(view, tasks);
        self.server.begin_period(&period, &self.lab).unwrap();
        period
    }

    fn phase(&mut self, period: &Period, index: usize, phase: &Phase, shards: &[Shard]) {
        // Everybody is sampled, so all three rules ask the same clients.
        let _: CohortRule = phase.cohort;
        let everyone: Vec<ClientId> = (0..shards.len() as u32).map(ClientId).collect();
        for round_in_phase in 0..phase.rounds {
            let context = self.context(period, index, phase, round_in_phase);
            self.round(&context, &everyone, shards);
        }
    }

    fn context(&self, period: &Period, phase: usize, of: &Phase, n: u32) -> RoundContext {
        RoundContext {
            round: Round(self.round),
            period: period.clone(),
            phase,
            phase_name: of.name,
            round_in_phase: n,
            rounds_in_phase: of.rounds,
            run_seed: SEED,
        }
    }

    fn round(&mut self, round: &RoundContext, cohort: &[ClientId], shards: &[Shard]) {
        let seats = self.method.seats(round, cohort);
        let downs = self.server.broadcast(round, &seats, &self.lab).unwrap();
        assert_eq!(downs.len(), seats.len());
        let mut parts = Vec::new();
        for (seat, down) in seats.into_iter().zip(downs) {
            let shard = Arc::clone(&shards[seat.client.index()]);
            let counts = self.counts(&shard);
            let facts = SketchFacts {
                model: &self.facts,
                view: &seat.view,
                phase: round.phase,
                round_in_phase: round.round_in_phase,
                counts: &counts,
            };
            let (down_layout, up_layout) = (self.method.down(&facts), self.method.up(&facts));
            let down_body = through_the_wire(&down.body());
            if up_layout.size != UpSize::FromValues {
                assert_eq!(
                    down_body.sketch(),
                    down_layout.body(),
                    "a Down differs from its layout"
                );
            }
            let named: Vec<_> = down.assets.iter().map(|asset| asset.body.sketch()).collect();
            let promised: Vec<_> =
                down_layout.assets.iter().map(|asset| asset.body.clone()).collect();
            assert_eq!(named, promised, "a Down names other assets than its layout");
            let sent = Arc::new(Message::from_body(&down_body, &down.assets).unwrap());
            assert_eq!(sent.body().digest(), down_body.digest(), "a Down is not its own body");
            let mut member = Member {
                seat: seat.clone(),
                phase: round.phase,
                down: Arc::clone(&sent),
                state: self.states.remove(&seat.client).unwrap_or_default(),
                shard,
                key: seat.key(SEED, round.round),
                missed: Vec::new(),
            };
            let outcome = self.method.train(std::slice::from_mut(&mut member), &self.lab);
            self.states.insert(seat.client, member.state);
            let outcome = outcome.into_iter().next().unwrap();
            let metrics = outcome.as_ref().map(|o| o.metrics.clone()).unwrap_or_default();
            let up = outcome.map(|outcome| through_the_wire(&outcome.up.body()));
            if let Ok(body) = &up {
                if up_layout.size != UpSize::FromValues {
                    assert_eq!(body.sketch(), up_layout.body(), "an Up differs from its layout");
                }
                let update = Message::from_body(body, &[]).unwrap();
                assert_eq!(update.body().digest(), body.digest(), "an Up is not its own body");
                if body.is_finite() {
                    let meta = UpMeta::timely(seat.clone(), round.round);
                    let update = self.method.lift(&facts, &sent, update).unwrap();
                    let update = (update, &self.method.folded(&facts));
                    parts.push(Folded::of(&meta, (&sent, &down_layout), update).unwrap());
                }
            }
            self.exchanges.push(Exchange {
                task: round.period.task.index(),
                phase: round.phase_name,
                assets: down.assets.clone(),
                seat,
                down: down_body,
                up,
                metrics,
            });
        }
        self.round += 1;
        self.server.end_round(round, fold(parts), &self.lab).unwrap();
    }

    fn counts(&self, shard: &Shard) -> ClassCounts {
        let mut counts = ClassCounts::new();
        for sample in shard.iter() {
            let class = self.lab.dataset.train.labels()[*sample as usize];
            *counts.entry(self.lab.curriculum.row_of(class)).or_default() += 1;
        }
        counts
    }

    /// What was predicted of the test samples of the tasks so far, among their classes.
    pub fn tally(&self, seen: usize) -> Tally {
        tally(&*self.server.predictor(&self.lab).unwrap(), &self.lab, seen)
    }

    /// Accuracy on the test samples of the first `seen` head rows, among those.
    pub fn accuracy(&self, seen: usize) -> f64 {
        self.tally(seen).accuracy(0..seen)
    }

    pub fn last(&self) -> &Exchange {
        self.exchanges.last().unwrap()
    }

    pub fn view(&self, task: usize) -> Arc<TaskView> {
        Arc::clone(&self.lab.curriculum.tasks[task])
    }
}

/// A binary tree over seat order.
fn fold(mut parts: Vec<Folded>) -> Option<Folded> {
    while parts.len() > 1 {
        let mut pairs = parts.into_iter();
        let mut merged = Vec::new();
        while let Some(earlier) = pairs.next() {
            merged.push(match pairs.next() {
                Some(later) => earlier.merge(later),
                None => earlier,
            });
        }
        parts = merged;
    }
    parts.pop()
}

/// Scores every test sample of the first `seen` head rows.
pub fn tally(predictor: &dyn Predictor, lab: &Lab, seen: usize) -> Tally {
    let test = &lab.dataset.test;
    let row = |i: &u32| lab.curriculum.row_of(test.labels()[*i as usize]) as usize;
    let shard: Shard = (0..test.len() as u32).filter(|i| row(i) < seen).collect();
    let (curriculum, transform) = (&lab.curriculum, &lab.statistics_transform);
    let loader =
        Loader::new(Arc::clone(test), shard, Arc::clone(curriculum), Arc::clone(transform));
    let scope = Scope::Seen(seen);
    evaluate(&loader, 16, super::CLASSES, 0..seen, |batch| {
        predictor.scores(&lab.pixels(batch)?, &scope)
    })
    .unwrap()
}

/// Encodes and decodes a body.
pub fn through_the_wire(body: &Body) -> Body {
    let frame = encode(&FrameHeader::default(), body, &CodecPlan::new(Codec::F32)).unwrap();
    let (_, decoded) = decode(&frame).unwrap();
    assert_eq!(decoded.digest(), body.digest());
    decoded
}
