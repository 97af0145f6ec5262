//! A method that learns nothing, and federations of it: what is left is the engine.

use std::sync::Arc;

use candle_core::Tensor;
use fedcast::data::{ClassOrder, Curriculum, Shard, TaskSizes, digits};
use fedcast::federation::{Curve, Participants, Participation, Rules, Setup};
use fedcast::model::{Backbone, Parameter, PixelShape};
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::{Body, WireError};

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

/// The one parameter.
const ECHO: &str = "echo";

/// Sends the same floats down and up, and the server folds nothing.
#[derive(Clone)]
pub struct Echo(Arc<[f32]>);

impl Echo {
    fn layout(&self) -> Layout {
        Layout::of(vec![Place::parameter(ECHO, &[self.0.len()])])
    }

    fn message(&self) -> Message {
        let floats = Parameter { shape: vec![self.0.len()], values: Arc::clone(&self.0) };
        Message::of([(ECHO, floats)].into_iter().collect())
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
    fn server(&self, _: &Lab, _: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(self.clone()))
    }
    fn down(&self, _: &SketchFacts<'_>) -> Layout {
        self.layout()
    }
    fn up(&self, _: &SketchFacts<'_>) -> Layout {
        self.layout()
    }
    fn train(&self, members: &mut [Member], _: &Lab) -> Vec<Result<Outcome, Failure>> {
        let answer = |member: &Member| Outcome { up: (*member.down).clone(), metrics: vec![] };
        members.iter().map(|member| Ok(answer(member))).collect()
    }
}

impl Server for Echo {
    fn broadcast(
        &mut self,
        _: &RoundContext,
        seats: &[Seat],
        _: &Lab,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        Ok(shared(self.message(), seats))
    }
    fn end_round(
        &mut self,
        _: &RoundContext,
        _: Option<Folded>,
        _: &Lab,
    ) -> Result<(), PolicyError> {
        Ok(())
    }
    fn predictor(&self, _: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Nothing))
    }
    fn save(&self) -> Body {
        self.message().body()
    }
    fn load(&mut self, _: &Body) -> Result<(), WireError> {
        Ok(())
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
        let method = Arc::new(Echo(vec![0.5; self.floats].into()));
        Setup::new("echo", method, lab, vec![vec![shard; self.clients as usize]], rules)
    }
}
