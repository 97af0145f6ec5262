//! A method whose chosen clients send NaN: everything else is the method inside.

use std::sync::Arc;

use fedcast::data::TaskView;
use fedcast::learning::TrainingPlan;
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::*;

/// Spoils the uploads of every client for which `spoils` says so.
pub struct Poison {
    pub inner: Arc<dyn Method>,
    pub spoils: fn(&Seat) -> bool,
}

/// The first value of the first f32 tensor becomes NaN.
fn spoil(body: &mut Body) {
    for section in &mut body.sections {
        for tensor in &mut section.tensors {
            if let Ok(values) = tensor.as_f32() {
                let mut values = values.to_vec();
                let Some(first) = values.first_mut() else { continue };
                *first = f32::NAN;
                let (name, shape) = (tensor.name().clone(), tensor.shape().to_vec());
                *tensor = NamedTensor::f32(name, shape, values).unwrap();
                return;
            }
        }
    }
}

impl Method for Poison {
    fn train(&self, members: &mut [Member], lab: &Lab) -> Vec<Result<Outcome, Failure>> {
        let outcomes = self.inner.train(members, lab);
        let spoiled = |(member, outcome): (&Member, Result<Outcome, Failure>)| {
            let mut outcome = outcome?;
            if (self.spoils)(&member.seat) {
                let mut body = self.inner.pack_up(&outcome.up);
                spoil(&mut body);
                let up = self.inner.unpack_up(&body);
                outcome.up = up.map_err(|error| Failure::Policy(error.to_string()))?;
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
    fn sketch(&self, facts: &SketchFacts<'_>) -> ExchangeSketch {
        self.inner.sketch(facts)
    }
    fn fields(&self) -> Vec<Field> {
        self.inner.fields()
    }
    fn charged(&self) -> bool {
        self.inner.charged()
    }
    fn work(&self, phase: usize, samples: usize, plan: &TrainingPlan) -> f64 {
        self.inner.work(phase, samples, plan)
    }
    fn stateless(&self) -> bool {
        self.inner.stateless()
    }
    fn fresh_state(&self) -> AnyState {
        self.inner.fresh_state()
    }
    fn save_state(&self, state: &AnyState) -> Body {
        self.inner.save_state(state)
    }
    fn load_state(&self, saved: &Body) -> Result<AnyState, WireError> {
        self.inner.load_state(saved)
    }
    fn largest_pack(&self, view: &Arc<TaskView>, phase: usize) -> usize {
        self.inner.largest_pack(view, phase)
    }
    fn client_predictor(
        &self,
        down: &Payload,
        up: &Payload,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        self.inner.client_predictor(down, up, lab)
    }
    fn pack_down(&self, down: &Payload) -> Body {
        self.inner.pack_down(down)
    }
    fn down_assets(&self, down: &Payload) -> Vec<Arc<Asset>> {
        self.inner.down_assets(down)
    }
    fn unpack_down(&self, body: &Body, assets: &[Arc<Asset>]) -> Result<Payload, WireError> {
        self.inner.unpack_down(body, assets)
    }
    fn pack_up(&self, up: &Payload) -> Body {
        self.inner.pack_up(up)
    }
    fn unpack_up(&self, body: &Body) -> Result<Payload, WireError> {
        self.inner.unpack_up(body)
    }
    fn lift(&self, down: &Payload, up: &Body, meta: &UpMeta) -> Result<AnyPart, PolicyError> {
        self.inner.lift(down, up, meta)
    }
    fn not_late(&self) -> Option<String> {
        self.inner.not_late()
    }
    fn not_mixed(&self) -> Option<String> {
        self.inner.not_mixed()
    }
    fn merge(&self, earlier: AnyPart, later: AnyPart) -> AnyPart {
        self.inner.merge(earlier, later)
    }
}
