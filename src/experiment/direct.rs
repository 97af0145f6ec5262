//! Slots trained alone: what forward transfer is measured against.
//!
//! Powder's script compares what a slot comes to among others with a "direct" run *of the same method*, in which the model
//! is put back after every round: each slot is one round of local training, from the model as it starts. [`direct`] does
//! that: every slot that a run begins gets a federation of its own client, one round of the method in the slot's period,
//! and a test among its own rows. Nothing else takes part and nothing is kept; links, clocks, privacy and faults have no
//! part in it either.
//!
//! The published script measures models of its third rounds, whose training is distilled from an untrained teacher; here
//! a method sees its period as in the run, so that what it does in the very first round of a run it does for slots of the
//! first period.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use super::ExperimentError;
use super::assemble::{Assembly, assemble};
use crate::data::{Loader, Slot, TaskView, Transform};
use crate::federation::{Coding, Curve, Interrupt, Memory, Rules, Setup, simulate};
use crate::learning::{Asked, Tally, TrainingPlan};
use crate::methods::Registry;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Failure, Folded, Lab, Layout, Member, Message, Method, Outcome, Period, Phase, PolicyError,
    Predictor, RoundContext, Scope, Seat, Server, SketchFacts, Veto,
};
use crate::quantity::{ClientId, TaskId};
use crate::scenario::{DirectLine, Scenario};
use crate::wire::{Body, BodySketch, WireError};

/// Trains every slot of a scenario alone, by number; `told` hears of each.
///
/// # Errors
/// A scenario whose tasks are everybody's, and what assembling and training report.
pub fn direct(
    scenario: &Scenario,
    methods: &Registry,
    workers: Option<u32>,
    mut told: impl FnMut(&DirectLine),
) -> Result<Vec<DirectLine>, ExperimentError> {
    let nobodys = || {
        ExperimentError::unsupported(
            "tasks are everybody's, and none of them can be trained alone",
            "set `tasks.arrival = \"powder\"`",
        )
    };
    if !scenario.tasks.arrival.has_slots() {
        return Err(nobodys());
    }
    let Assembly { setup, .. } = assemble(scenario, methods, workers)?;
    let slots = setup.lab.curriculum.slots.clone().ok_or_else(nobodys)?;
    let last = TaskId((slots.rules().periods - 1) as u16);
    let mut lines = Vec::new();
    for slot in slots.begun(last) {
        let accuracy = alone(&setup, slot, slots.view(slot))?;
        let line = DirectLine { period: slot.period.0 + 1, client: slot.client.0, accuracy };
        told(&line);
        lines.push(line);
    }
    Ok(lines)
}

/// The table that `record.direct` reads.
pub fn direct_table(lines: &[DirectLine]) -> String {
    let mut text = "period,client,finished,accuracy_own\n".to_owned();
    for DirectLine { period, client, accuracy } in lines {
        // A string takes everything.
        let _ = writeln!(text, "{period},{client},1,{accuracy}");
    }
    text
}

/// What a slot comes to alone, in `0..=1`.
fn alone(setup: &Setup, slot: Slot, view: &Arc<TaskView>) -> Result<f64, ExperimentError> {
    let one = Alone {
        inner: Arc::clone(&setup.method),
        slot,
        view: Arc::clone(view),
        test: Arc::clone(&setup.test_transform),
        found: Arc::default(),
    };
    let rules = Rules {
        seed: setup.rules.seed,
        clients: setup.rules.clients,
        rounds: 1,
        curve: Curve::Never,
        evaluation_batch: setup.rules.evaluation_batch,
        pack: setup.rules.pack,
        ..Rules::default()
    };
    let federation = Setup {
        rules,
        name: setup.name.clone(),
        method: Arc::new(one.clone()),
        lab: setup.lab.clone(),
        test_transform: Arc::clone(&setup.test_transform),
        shards: setup.shards.clone(),
        facts: setup.facts.clone(),
        coding: Coding::default(),
        charged: setup.charged,
        workers: setup.workers.clone(),
        shaker: None,
        past: None,
    };
    simulate(federation, Box::new(Memory::default()), Box::new(()), Interrupt::default())?;
    let found = *one.found.lock().unwrap_or_else(PoisonError::into_inner);
    found.ok_or_else(|| {
        ExperimentError::unsupported(
            format!(
                "the slot of period {} of client {} was not tested",
                slot.period.0 + 1,
                slot.client.0
            ),
            "its client must have training and test images",
        )
    })
}

/// A method with one seat: that of a slot's client, in the slot's period.
#[derive(Clone)]
struct Alone {
    inner: Arc<dyn Method>,
    slot: Slot,
    view: Arc<TaskView>,
    test: Arc<Transform>,
    /// The accuracy, once the slot was tested.
    found: Arc<Mutex<Option<f64>>>,
}

impl Alone {
    fn is_here(&self, period: &Period) -> bool {
        period.task == self.slot.period
    }

    /// The share of the slot's test images that are answered right among its rows.
    fn accuracy(&self, predictor: &dyn Predictor, lab: &Lab) -> Result<Option<f64>, PolicyError> {
        let rows = self.view.rows.clone();
        let by_class = lab.dataset.test.by_class();
        let classes = self.view.classes.iter();
        let mut samples: Vec<u32> =
            classes.flat_map(|class| by_class[*class as usize].iter().copied()).collect();
        samples.sort_unstable();
        let count = samples.len();
        let loader = Loader::new(
            Arc::clone(&lab.dataset.test),
            samples.into(),
            Arc::clone(&lab.curriculum),
            Arc::clone(&self.test),
        );
        let loader = lab.frozen_of(loader, predictor)?;
        let (mut tally, asked) = (Tally::new(rows.end), Asked::InSlot(rows.clone()));
        for batch in loader.in_order(lab.evaluation_batch) {
            let batch = batch?;
            let scores = predictor.batch_scores(&batch, &lab.device, &Scope::Task(rows.clone()))?;
            let counted = asked.tally(&mut tally, &scores, batch.labels());
            counted.map_err(|error| PolicyError::Unsupported(error.to_string()))?;
        }
        let right = tally.within.get(&(rows.start as u32)).copied().unwrap_or(0);
        Ok((count > 0).then(|| right as f64 / count as f64))
    }
}

impl Method for Alone {
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(AloneServer { inner: self.inner.server(lab, init)?, method: self.clone() }))
    }

    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        match self.is_here(period) {
            true => self.inner.phases(period, rounds),
            false => Vec::new(),
        }
    }

    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        let own: Vec<ClientId> =
            cohort.iter().copied().filter(|client| *client == self.slot.client).collect();
        if own.is_empty() { Vec::new() } else { self.inner.seats(round, &own) }
    }

    fn down(&self, facts: &SketchFacts<'_>) -> Layout {
        self.inner.down(facts)
    }

    fn up(&self, facts: &SketchFacts<'_>) -> Layout {
        self.inner.up(facts)
    }

    fn folded(&self, facts: &SketchFacts<'_>) -> Layout {
        self.inner.folded(facts)
    }

    fn lift(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        self.inner.lift(facts, sent, update)
    }

    fn vetoes(&self) -> Vec<Veto> {
        self.inner.vetoes()
    }

    fn feature_sketch(&self) -> BodySketch {
        self.inner.feature_sketch()
    }

    fn charged(&self) -> bool {
        self.inner.charged()
    }

    fn work(&self, view: &TaskView, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        self.inner.work(view, phase, samples, plan)
    }

    fn stateless(&self) -> bool {
        self.inner.stateless()
    }

    fn kept_bytes(&self, state: &Body) -> u64 {
        self.inner.kept_bytes(state)
    }

    fn train(&self, members: &mut [Member], lab: &Lab) -> Vec<Result<Outcome, Failure>> {
        self.inner.train(members, lab)
    }

    fn largest_pack(&self, view: &Arc<TaskView>, phase: usize) -> usize {
        self.inner.largest_pack(view, phase)
    }

    fn own_model(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        own: &Message,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        self.inner.own_model(facts, sent, own, lab)
    }
}

/// Its server: prepares the periods before the slot's, in which nobody trains, and tests the slot at its end.
struct AloneServer {
    inner: Box<dyn Server>,
    method: Alone,
}

impl Server for AloneServer {
    fn begin_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        if period.task > self.method.slot.period {
            return Ok(());
        }
        self.inner.begin_period(period, lab)
    }

    fn broadcast(
        &mut self,
        round: &RoundContext,
        seats: &[Seat],
        lab: &Lab,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        self.inner.broadcast(round, seats, lab)
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<Folded>,
        lab: &Lab,
    ) -> Result<(), PolicyError> {
        self.inner.end_round(round, folded, lab)
    }

    fn end_period(&mut self, period: &Period, lab: &Lab) -> Result<(), PolicyError> {
        if self.method.is_here(period) {
            self.inner.end_period(period, lab)?;
            let accuracy = self.method.accuracy(&*self.inner.predictor(lab)?, lab)?;
            *self.method.found.lock().unwrap_or_else(PoisonError::into_inner) = accuracy;
        }
        Ok(())
    }

    fn predictor(&self, lab: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        self.inner.predictor(lab)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.inner.figures()
    }

    fn save(&self) -> Body {
        self.inner.save()
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.inner.load(saved)
    }
}
