//! A method that echoes one number, and its world, for unit tests of the state machines.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::rules::Rules;
use super::world::Setup;
use crate::data::{ClassOrder, Curriculum, TaskSizes, digits};
use crate::model::{Backbone, PixelShape};
use crate::numerics::streams::StreamKey;
use crate::policy::*;
use crate::quantity::SeatId;
use crate::wire::{
    Body, BodySketch, Kind, NamedTensor, Section, SectionSketch, TensorSketch, WireError,
};

/// Every client sends its own id; the server keeps the list.
pub(super) struct Echo;

pub(super) struct Number(f32);

impl Number {
    pub(super) fn new(value: f32) -> Number {
        Number(value)
    }
}

impl Message for Number {
    fn pack(&self) -> Body {
        let tensor = NamedTensor::f32("number", [1], vec![self.0]).expect("fills its shape");
        Body::new(vec![], vec![Section::new(Kind::Head, vec![tensor])])
    }
    fn unpack(body: &Body) -> Result<Self, WireError> {
        Ok(Number(body.tensor(Kind::Head, "number")?.as_f32()?[0]))
    }
}

/// The ids that were folded, in seat order.
pub(super) struct Heard(Vec<f32>);

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
    type Down = Number;
    type Up = Number;
    type Part = Keep<f32>;
    type State = ();
    type Server = Heard;
    type Client = Echo;

    fn server(&self, _: &Lab, _: StreamKey) -> Result<Heard, PolicyError> {
        Ok(Heard(vec![]))
    }
    fn client(&self) -> Echo {
        Echo
    }
    fn sketch(&self, _: &SketchFacts<'_>) -> ExchangeSketch {
        let section = SectionSketch::new(Kind::Head, vec![TensorSketch::f32("number", [1])]);
        let body = BodySketch::new(0, vec![section]);
        ExchangeSketch { down: body.clone(), up: body, up_size: UpSize::Static }
    }
    fn fields(&self) -> &'static [Field] {
        &[Field { name: "number", folding: Folding::Keep }]
    }
    fn lift(&self, _: &Number, up: Number, meta: &UpMeta) -> Result<Keep<f32>, PolicyError> {
        Ok(Keep::one(meta.seat.id, up.0))
    }
}

impl ServerPolicy<Echo> for Heard {
    fn broadcast(
        &mut self,
        _: &RoundContext,
        seats: &[Seat],
        _: &Lab,
    ) -> Result<Vec<Arc<Number>>, PolicyError> {
        Ok(shared(Number(0.0), seats))
    }
    fn end_round(
        &mut self,
        _: &RoundContext,
        folded: Option<Keep<f32>>,
        _: &Lab,
    ) -> Result<Next, PolicyError> {
        let folded = folded.map_or(vec![], |keep| keep.0);
        assert!(folded.is_sorted_by_key(|(seat, _)| *seat), "{folded:?}");
        self.0.extend(folded.into_iter().map(|(_, id)| id));
        Ok(Next::Continue)
    }
    fn predictor(&self, _: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
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

impl ClientPolicy<Echo> for Echo {
    fn train(
        &self,
        members: &mut [Member<'_, Echo>],
        _: &Lab,
    ) -> Vec<Result<Outcome<Number>, Failure>> {
        let up = |m: &Member<'_, Echo>| Number(m.seat.client.0 as f32);
        members.iter().map(|m| Ok(Outcome { up: up(m), metrics: vec![] })).collect()
    }
}

/// An echo among the clients of these rules, in two tasks.
pub(super) fn setup(rules: Rules) -> Setup {
    let dataset = digits::embedded().expect("embedded");
    let tasks = TaskSizes::Even(2);
    let curriculum = Curriculum::new(10, &ClassOrder::Native, &tasks).expect("divides");
    let lab = Lab::new(Backbone::Pixels(PixelShape { channels: 1, image: 8 }), dataset, curriculum);
    let shards = vec![vec![(0..7).collect(); rules.clients as usize]; 2];
    Setup { workers: 1.into(), ..Setup::new("echo", erase(Echo), lab, shards, rules) }
}

/// A seat of the first task.
pub(super) fn seat(setup: &Setup, place: u32) -> Seat {
    Seat {
        id: SeatId(place),
        client: crate::quantity::ClientId(place),
        role: Role::default(),
        unit: None,
        kind: SeatKind::Client,
        view: Arc::clone(&setup.lab.curriculum.tasks[0]),
    }
}
