//! Method that echoes one number, and its context, for unit tests of the state machines.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::rules::{ComputeRules, LinkRules, Rules};
use super::setup::Setup;
use crate::data::{ClassPermutation, TaskSequence, TaskSizes, digits};
use crate::model::{Backbone, PixelShape};
use crate::numerics::streams::StreamKey;
use crate::policy::*;
use crate::quantity::ParticipantId;
use crate::scenario::{LinksSection, Preset, TimeSection};
use crate::wire::{Body, Dtype, Kind, NamedTensor, Section, WireError};

/// Returns the computing times of phones.
pub(super) fn mobile_compute() -> ComputeRules {
    ComputeRules::from(&TimeSection::of(Preset::Mobile))
}

/// Returns the network of phones.
pub(super) fn mobile_links() -> LinkRules {
    LinkRules::from(&LinksSection::of(Preset::Mobile))
}

/// Method whose clients send their own number, which the server collects.
pub(super) struct Echo;

/// Returns a message of one number.
pub(super) fn number(value: f32) -> Message {
    let tensor = NamedTensor::f32(NUMBER, [1], vec![value]).expect("fills its shape");
    let extra = vec![Section::new(Kind::Statistics, vec![tensor])];
    Message { extra, ..Message::default() }
}

const NUMBER: &str = "number";

fn layout() -> MessageSpec {
    let place = TensorSpec::new(Kind::Statistics, NUMBER, &[1], Dtype::F32).kept();
    MessageSpec { extra: vec![place], ..MessageSpec::default() }
}

/// Numbers of the aggregated clients, in participant order.
pub(super) struct AggregatedIds(Vec<f32>);

struct Silent;

impl Predictor for Silent {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        Ok(pixels.clone())
    }
    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let shape = (pixels.dim(0)?, scope.rows().len());
        Ok(Tensor::zeros(shape, candle_core::DType::F32, &Device::Cpu)?)
    }
}

impl Method for Echo {
    fn server(&self, _: &RunContext, _: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(AggregatedIds(vec![])))
    }
    fn profile(&self) -> MethodProfile {
        MethodProfile::default()
    }
    fn message_spec(&self, _: MessageKind, _: &ExchangeFacts<'_>) -> MessageSpec {
        layout()
    }
    fn train(&self, members: &mut [Member], _: &RunContext) -> Vec<Result<ClientResult, Failure>> {
        let upload = |m: &Member| number(m.participant.client.0 as f32);
        members.iter().map(|m| Ok(ClientResult { upload: upload(m), metrics: vec![] })).collect()
    }
}

/// Echo method with clients that keep a state unchanged.
pub(super) struct Remembering;

impl Method for Remembering {
    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Echo.server(ctx, init)
    }
    fn profile(&self) -> MethodProfile {
        MethodProfile { stateless: false, ..Echo.profile() }
    }
    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        Echo.message_spec(message, facts)
    }
    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        Echo.train(members, ctx)
    }
}

impl Server for AggregatedIds {
    fn broadcast(
        &mut self,
        _: &RoundContext,
        participants: &[Participant],
        _: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        Ok(shared(number(0.0), participants))
    }
    fn end_round(
        &mut self,
        _: &RoundContext,
        aggregate: Option<Aggregate>,
        _: &RunContext,
    ) -> Result<(), PolicyError> {
        let kept = aggregate.map_or(vec![], |aggregate| aggregate.kept_uploads);
        assert!(kept.is_sorted_by_key(|kept| kept.meta.participant.id), "{kept:?}");
        for KeptUpload { update, .. } in kept {
            self.0.push(update.tensor(Kind::Statistics, NUMBER)?.as_f32()?[0]);
        }
        Ok(())
    }
    fn predictor(&self, _: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Silent))
    }
    fn save(&self) -> Body {
        let all = NamedTensor::f32("heard", [self.0.len()], self.0.clone()).expect("fills");
        Body::new(vec![], vec![Section::new(Kind::Head, vec![all])])
    }
    fn load(&mut self, _: &Body) -> Result<(), WireError> {
        Ok(())
    }
}

/// Returns a setup of the echo method among the clients of these rules, in two tasks.
pub(super) fn setup(rules: Rules) -> Setup {
    let dataset = digits::embedded().expect("embedded");
    let tasks = TaskSizes::Even(2);
    let task_sequence = TaskSequence::new(10, &ClassPermutation::Native, &tasks).expect("divides");
    let ctx = RunContext::new(
        Backbone::Pixels(PixelShape { channels: 1, image: 8 }),
        dataset,
        task_sequence,
    );
    let shards = vec![vec![(0..7).collect(); rules.clients as usize]; 2];
    Setup { workers: 1.into(), ..Setup::new("echo", Arc::new(Echo), ctx, shards, rules) }
}

/// Returns a participant of the first task.
pub(super) fn participant(setup: &Setup, place: u32) -> Participant {
    Participant {
        id: ParticipantId(place),
        client: crate::quantity::ClientId(place),
        role: Role::default(),
        dummy_client: None,
        kind: ParticipantKind::Client,
        view: Arc::clone(&setup.ctx.task_sequence.tasks[0]),
    }
}
