//! A method that learns nothing, and federations of it: what is left is the engine.

use std::sync::Arc;

use candle_core::Tensor;
use fedcast::data::{ClassOrder, Curriculum, Shard, TaskSizes, digits};
use fedcast::federation::{Curve, Participants, Participation, Rules, Setup};
use fedcast::model::{Backbone, PixelShape};
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::{
    Body, BodySketch, Kind, NamedTensor, Section, SectionSketch, TensorSketch, WireError,
};

/// A federation of clients that send back what they get.
pub struct Federation {
    /// Of a message, both ways.
    pub floats: usize,
    /// Clients that own data.
    pub clients: u32,
    /// Of them, asked in a round.
    pub asked: u32,
    /// Clients that are registered beside them and never asked.
    pub idle: u32,
    pub rounds: u32,
}

/// Sends the same floats down and up.
pub struct Echo(Arc<[f32]>);

#[derive(Clone)]
pub struct Floats(Arc<[f32]>);

impl Message for Floats {
    fn pack(&self) -> Body {
        let tensor = NamedTensor::f32("echo", [self.0.len()], Arc::clone(&self.0));
        Body::new(vec![], vec![Section::new(Kind::Weights, vec![tensor.expect("fills")])])
    }
    fn unpack(body: &Body) -> Result<Self, WireError> {
        Ok(Floats(Arc::clone(body.tensor(Kind::Weights, "echo")?.as_f32()?)))
    }
}

struct Nothing;

impl Predictor for Nothing {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        Ok(pixels.clone())
    }
    fn scores(&self, pixels: &Tensor, _: &Scope) -> Result<Tensor, PolicyError> {
        Ok(pixels.clone())
    }
}

impl Method for Echo {
    type Down = Floats;
    type Up = Floats;
    type Part = ();
    type State = ();
    type Server = Echo;
    type Client = Echo;

    fn server(&self, _: &Lab, _: StreamKey) -> Result<Echo, PolicyError> {
        Ok(Echo(Arc::clone(&self.0)))
    }
    fn client(&self) -> Echo {
        Echo(Arc::clone(&self.0))
    }
    fn sketch(&self, _: &SketchFacts<'_>) -> ExchangeSketch {
        let tensors = vec![TensorSketch::f32("echo", [self.0.len()])];
        let body = BodySketch::new(0, vec![SectionSketch::new(Kind::Weights, tensors)]);
        ExchangeSketch { down: body.clone(), up: body, up_size: UpSize::Static }
    }
    fn fields(&self) -> &'static [Field] {
        &[]
    }
    fn lift(&self, _: &Floats, _: Floats, _: &UpMeta) -> Result<(), PolicyError> {
        Ok(())
    }
}

impl ServerPolicy<Echo> for Echo {
    fn broadcast(
        &mut self,
        _: &RoundContext,
        seats: &[Seat],
        _: &Lab,
    ) -> Result<Vec<Arc<Floats>>, PolicyError> {
        Ok(shared(Floats(Arc::clone(&self.0)), seats))
    }
    fn end_round(&mut self, _: &RoundContext, _: Option<()>, _: &Lab) -> Result<Next, PolicyError> {
        Ok(Next::Continue)
    }
    fn predictor(&self, _: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Nothing))
    }
    fn save(&self) -> Body {
        Floats(Arc::clone(&self.0)).pack()
    }
    fn load(&mut self, _: &Body) -> Result<(), WireError> {
        Ok(())
    }
}

impl ClientPolicy<Echo> for Echo {
    fn train(
        &self,
        members: &mut [Member<'_, Echo>],
        _: &Lab,
    ) -> Vec<Result<Outcome<Floats>, Failure>> {
        let answer =
            |m: &mut Member<'_, Echo>| Ok(Outcome { up: (*m.down).clone(), metrics: vec![] });
        members.iter_mut().map(answer).collect()
    }
}

impl Federation {
    /// One task on digits, two workers.
    pub fn setup(&self) -> Setup {
        let dataset = digits::embedded().expect("embedded");
        let curriculum =
            Curriculum::new(10, &ClassOrder::Native, &TaskSizes::Even(1)).expect("divides");
        let shard: Shard = (0..10).collect();
        let pixels = Backbone::Pixels(PixelShape { channels: 1, image: 8 });
        let lab = Lab::new(pixels, dataset, curriculum);
        let participation = Participation {
            participants: Participants::Count { count: self.asked },
            ..Participation::default()
        };
        let rules = Rules {
            clients: self.clients,
            idle: self.idle,
            rounds: self.rounds,
            participation,
            curve: Curve::Never,
            ..Rules::default()
        };
        let method = erase(Echo(vec![0.5; self.floats].into()));
        Setup::new("echo", method, lab, vec![vec![shard; self.clients as usize]], rules)
    }
}
