//! What the engine itself costs: a method that learns nothing.
//!
//! * `32kB`, `6.5MB`: 1,000 clients, 100 per round; asked on two cores: 500 rounds per second with 32 kB of
//!   payload, 14 with 6.5 MB;
//! * `registered`: the same with 99,000 idle clients beside them; asked: less than 300 MB resident.
//!
//! ```text
//! cargo bench --bench engine              # or -- 32kB, and so on, for one of them
//! ```
//! Two workers, with the ledger of a run and its journal in a temporary file.

#[path = "../figures/mod.rs"]
mod figures;

use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::{Device, Tensor};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fedcast::data::{ClassOrder, Curriculum, Shard, TaskSizes, Transform, digits};
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
use figures::{Asked, Records, Times};

const CLIENTS: u32 = 1_000;

/// A run of the engine alone.
struct Case {
    name: &'static str,
    /// Of a message, both ways.
    floats: usize,
    idle: u32,
    rounds: u32,
}

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

fn setup(case: &Case) -> Setup {
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
        reported: None,
    };
    let participation = Participation { share: Share::Count(100), ..Participation::default() };
    Setup {
        rules: Rules {
            clients: CLIENTS,
            idle: case.idle,
            rounds: case.rounds,
            participation,
            curve: Curve::Never,
            ..Rules::default()
        },
        name: "echo".to_string(),
        method: erase(Echo(vec![0.5; case.floats].into())),
        lab,
        test_transform: transform,
        shards: ShardSource::Drawn(vec![vec![shard; CLIENTS as usize]]),
        facts: ModelFacts { backbone: vit.into(), classes: 10, form: WireForm::Full },
        coding: Coding::default(),
        charged: true,
        workers: 2.into(),
        shaker: None,
        past: None,
    }
}

/// Wall time of a run.
fn run(case: &Case) -> Duration {
    let setup = setup(case);
    let begun = Instant::now();
    simulate(setup, Records::new(), Box::new(()), Interrupt::default()).expect("ends well");
    begun.elapsed()
}

/// Measures a case; answers what its runs took.
fn measure(criterion: &mut Criterion, case: &Case) -> Times {
    let mut times = Times::default();
    let mut group = criterion.benchmark_group("engine");
    group.sample_size(10).throughput(Throughput::Elements(u64::from(case.rounds)));
    group.warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(2));
    group.bench_function(case.name, |b| b.iter_custom(|n| times.take(n, || run(case))));
    group.finish();
    times
}

fn rounds(criterion: &mut Criterion) {
    figures::begin();
    // Before the others, whose memory the process keeps.
    let case = Case { name: "registered", floats: 8_000, idle: 99_000, rounds: 10 };
    figures::forget_peak();
    let times = measure(criterion, &case);
    times.print_peak("100,000 registered clients", 300.0);

    for (name, floats, rounds, asked) in
        [("32kB", 8_000, 100, 500.0), ("6.5MB", 1_625_000, 25, 14.0)]
    {
        let case = Case { name, floats, idle: 0, rounds };
        let times = measure(criterion, &case);
        let rate = |taken: f64| f64::from(rounds) / taken;
        times.print(&format!("no-op, {name}"), "rounds/s", Asked::AtLeast(asked), rate);
    }
}

criterion_group!(benches, rounds);
criterion_main!(benches);
