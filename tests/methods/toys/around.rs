//! A method around another one: what it does not do itself, the method inside does.

use std::sync::Arc;

use fedcast::data::TaskView;
use fedcast::learning::TrainingPlan;
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::quantity::ClientId;
use fedcast::wire::*;

/// What may be done otherwise than inside.
pub trait Hooks: Send + Sync {
    fn inner(&self) -> &dyn Method;

    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        self.inner().server(lab, init)
    }

    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        self.inner().phases(period, rounds)
    }

    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        self.inner().seats(round, cohort)
    }

    fn train(&self, members: &mut [Member], lab: &Lab) -> Vec<Result<Outcome, Failure>>;
}

pub struct Around<H>(pub H);

impl<H: Hooks> Method for Around<H> {
    fn server(&self, lab: &Lab, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        self.0.server(lab, init)
    }
    fn phases(&self, period: &Period, rounds: u32) -> Vec<Phase> {
        self.0.phases(period, rounds)
    }
    fn seats(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Seat> {
        self.0.seats(round, cohort)
    }
    fn train(&self, members: &mut [Member], lab: &Lab) -> Vec<Result<Outcome, Failure>> {
        self.0.train(members, lab)
    }
    fn down(&self, facts: &SketchFacts<'_>) -> Layout {
        self.0.inner().down(facts)
    }
    fn up(&self, facts: &SketchFacts<'_>) -> Layout {
        self.0.inner().up(facts)
    }
    fn folded(&self, facts: &SketchFacts<'_>) -> Layout {
        self.0.inner().folded(facts)
    }
    fn lift(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        self.0.inner().lift(facts, sent, update)
    }
    fn vetoes(&self) -> Vec<Veto> {
        self.0.inner().vetoes()
    }
    fn feature_sketch(&self) -> BodySketch {
        self.0.inner().feature_sketch()
    }
    fn charged(&self) -> bool {
        self.0.inner().charged()
    }
    fn work(&self, view: &TaskView, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        self.0.inner().work(view, phase, samples, plan)
    }
    fn stateless(&self) -> bool {
        self.0.inner().stateless()
    }
    fn kept_bytes(&self, state: &Body) -> u64 {
        self.0.inner().kept_bytes(state)
    }
    fn largest_pack(&self, view: &Arc<TaskView>, phase: usize) -> usize {
        self.0.inner().largest_pack(view, phase)
    }
    fn own_model(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        own: &Message,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        self.0.inner().own_model(facts, sent, own, lab)
    }
}
