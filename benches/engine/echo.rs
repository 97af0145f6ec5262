//! A method that learns nothing, and federations of it, which measure the engine alone.

use std::sync::Arc;
use std::time::Duration;

use candle_core::Tensor;
use fedcast::data::{ClassPermutation, Shard, TaskSequence, TaskSizes, digits};
use fedcast::federation::{CohortSize, Curve, ParticipationSection, Rules, Setup};
use fedcast::model::{Backbone, Parameter, PixelShape};
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::{Body, WireError};

/// Federation of clients that send back their downloads.
pub struct Federation {
    /// Number of floats in a message, in both directions.
    pub floats: usize,
    /// Number of clients that own data.
    pub clients: u32,
    /// Number of clients sampled per round.
    pub asked: u32,
    /// Number of further clients that are registered and never sampled.
    pub idle: u32,
    pub rounds: u32,
    /// Time that a worker sleeps for each job of a client.
    pub nap: Duration,
    /// True if every client gets different floats.
    pub apart: bool,
}

/// A thousand clients, a tenth of which are sampled in each of ten rounds.
pub const THOUSAND: Federation = Federation {
    floats: 8_000,
    clients: 1_000,
    asked: 100,
    idle: 0,
    rounds: 10,
    nap: Duration::ZERO,
    apart: false,
};

/// Name of the only parameter.
const ECHO: &str = "echo";

/// Method that sends floats down and the same ones up, without a change at the server.
#[derive(Clone)]
pub struct Echo {
    floats: usize,
    /// Floats sent to all clients that do not get separate ones.
    same: Message,
    nap: Duration,
    apart: bool,
}

fn message(floats: usize, value: f32) -> Message {
    let floats = Parameter { shape: vec![floats], values: vec![value; floats].into() };
    Message::of([(ECHO, floats)].into_iter().collect())
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
    fn server(&self, _: &RunContext, _: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(self.clone()))
    }
    fn profile(&self) -> MethodProfile {
        MethodProfile::default()
    }
    fn message_spec(&self, _: MessageKind, _: &ExchangeFacts<'_>) -> MessageSpec {
        MessageSpec::of(vec![TensorSpec::parameter(ECHO, &[self.floats])])
    }
    fn train(&self, members: &mut [Member], _: &RunContext) -> Vec<Result<ClientResult, Failure>> {
        if !self.nap.is_zero() {
            std::thread::sleep(self.nap);
        }
        let answer =
            |member: &Member| ClientResult { upload: (*member.download).clone(), metrics: vec![] };
        members.iter().map(|member| Ok(answer(member))).collect()
    }
}

impl Server for Echo {
    fn broadcast(
        &mut self,
        _: &RoundContext,
        participants: &[Participant],
        _: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        if !self.apart {
            return Ok(shared(self.same.clone(), participants));
        }
        let own =
            |participant: &Participant| Arc::new(message(self.floats, participant.client.0 as f32));
        Ok(participants.iter().map(own).collect())
    }
    fn end_round(
        &mut self,
        _: &RoundContext,
        _: Option<Aggregate>,
        _: &RunContext,
    ) -> Result<(), PolicyError> {
        Ok(())
    }
    fn predictor(&self, _: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Nothing))
    }
    fn save(&self) -> Body {
        self.same.body()
    }
    fn load(&mut self, _: &Body) -> Result<(), WireError> {
        Ok(())
    }
}

impl Federation {
    /// Returns one task on digits, with two workers.
    pub fn setup(&self) -> Setup {
        let dataset = digits::embedded().expect("embedded");
        let task_sequence =
            TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(1)).expect("divides");
        let shard: Shard = (0..10).collect();
        let pixels = Backbone::Pixels(PixelShape { channels: 1, image: 8 });
        let ctx = RunContext::new(pixels, dataset, task_sequence);
        let participation = ParticipationSection {
            participants: CohortSize::Count { count: self.asked },
            ..ParticipationSection::default()
        };
        let rules = Rules {
            clients: self.clients,
            idle: self.idle,
            rounds: self.rounds,
            participation,
            curve: Curve::Never,
            ..Rules::default()
        };
        let Federation { floats, nap, apart, .. } = *self;
        let method = Arc::new(Echo { floats, same: message(floats, 0.5), nap, apart });
        Setup::new("echo", method, ctx, vec![vec![shard; self.clients as usize]], rules)
    }
}
