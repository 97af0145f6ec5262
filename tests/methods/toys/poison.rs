//! A method whose chosen clients send NaN: everything else is the method inside.

use std::sync::Arc;

use fedcast::data::TaskView;
use fedcast::learning::TrainingPlan;
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::quantity::ClientId;
use fedcast::wire::*;

/// Spoils the uploads of every client for which `spoils` says so.
pub struct Poison {
    pub inner: Arc<dyn Method>,
    pub spoils: fn(&Seat) -> bool,
}

/// The first value of the first f32 tensor becomes NaN.
fn spoil(up: &Message) -> Result<Message, WireError> {
    let mut body = up.body();
    let mut tensors = body.sections.iter_mut().flat_map(|section| &mut section.tensors);
    let real = tensors.find(|tensor| tensor.as_f32().is_ok_and(|values| !values.is_empty()));
    if let Some(tensor) = real {
        let mut values = tensor.as_f32()?.to_vec();
        values[0] = f32::NAN;
        let (name, shape) = (tensor.name().clone(), tensor.shape().to_vec());
        *tensor = NamedTensor::f32(name, shape, values)?;
    }
    Message::from_body(&body, &up.assets)
}

impl Method for Poison {
    fn train(&self, members: &mut [Member], lab: &Lab) -> Vec<Result<Outcome, Failure>> {
        let outcomes = self.inner.train(members, lab);
        let spoiled = |(member, outcome): (&Member, Result<Outcome, Failure>)| {
            let mut outcome = outcome?;
            if (self.spoils)(&member.seat) {
                outcome.up = spoil(&outcome.up).map_err(PolicyError::from)?;
            }
            Ok(outcome)
        };
        members.iter().zip(outcomes).map(spoiled).collect()
    }

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        self.inner.server(lab, init)
    }
    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        self.inner.phases(period, rounds)
    }
    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        self.inner.seats(round, cohort)
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
