//! What the engine itself costs: a method that learns nothing, 1,000 clients, 100 per round.
//!
//! `cargo bench --bench engine` (`-- 32kB` or `-- 6.5MB` for one of them): criterion's throughput is rounds
//! per second on two workers, with the ledger of a run and its journal in a temporary file.
//! Asked on two cores: 500 with 32 kB of payload, 14 with 6.5 MB.

#[path = "../records/mod.rs"]
mod records;

use std::sync::Arc;

use candle_core::{Device, Tensor};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fedcast::data::{ClassOrder, Curriculum, Shard, TaskSizes, Transform, digits};
use fedcast::experiment::keep_freed_memory;
use fedcast::federation::{
    Coding, Curve, Interrupt, Participation, Rules, Setup, ShardSource, Share, simulate,
};
use fedcast::learning::TrainingPlan;
use fedcast::model::{Vit, VitConfig};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::*;
use fedcast::wire::{
    Body, BodySketch, Kind, NamedTensor, Section, SectionSketch, TensorSketch, WireError,
};
use records::Records;

const ROUNDS: u32 = 100;

/// Sends the same floats down and up.
struct Echo(Arc<[f32]>);

#[derive(Clone)]
struct Floats(Arc<[f32]>);

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

fn setup(clients: u32, cohort: u32, floats: usize, workers: usize) -> Setup {
    let dataset = digits::embedded().expect("embedded");
    let curriculum =
        Curriculum::new(10, &ClassOrder::Native, &TaskSizes::Even(1)).expect("divides");
    let shard: Shard = (0..10).collect();
    let vit = VitConfig {
        image: 8,
        patch: 4,
        channels: 1,
        dim: 8,
        depth: 1,
        heads: 2,
        mlp: 16,
        ..VitConfig::default()
    };
    let weights = Vit::initial_parameters(&vit, StreamKey::new(1, Domain::Init));
    let transform = Arc::new(Transform::default());
    let lab = Lab {
        device: Device::Cpu,
        backbone: Arc::new(Vit::from_parameters(vit, &weights).expect("loads").into()),
        dataset: Arc::new(dataset),
        curriculum: Arc::new(curriculum),
        train_transform: Arc::clone(&transform),
        statistics_transform: Arc::clone(&transform),
        training: TrainingPlan::default(),
        evaluation_batch: 64,
        cache: Arc::default(),
        staged: None,
    };
    let participation = Participation { share: Share::Count(cohort), ..Participation::default() };
    Setup {
        rules: Rules {
            clients,
            rounds: ROUNDS,
            participation,
            curve: Curve::Never,
            ..Rules::default()
        },
        name: "echo".to_string(),
        method: erase(Echo(vec![0.5; floats].into())),
        lab,
        test_transform: transform,
        shards: ShardSource::Drawn(vec![vec![shard; clients as usize]]),
        facts: ModelFacts { backbone: vit.into(), classes: 10, form: WireForm::Full },
        coding: Coding::default(),
        charged: true,
        workers: workers.into(),
        shaker: None,
    }
}

fn rounds(criterion: &mut Criterion) {
    keep_freed_memory();
    let mut group = criterion.benchmark_group("rounds");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(ROUNDS)));
    for (name, floats) in [("32kB", 8_000), ("6.5MB", 1_625_000)] {
        let id = BenchmarkId::new("1000 clients, 100 per round", name);
        group.bench_with_input(id, &floats, |bencher, &floats| {
            bencher.iter(|| {
                let setup = setup(1_000, 100, floats, 2);
                simulate(setup, Records::new(), Box::new(()), Interrupt::default())
                    .expect("ends well")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, rounds);
criterion_main!(benches);
