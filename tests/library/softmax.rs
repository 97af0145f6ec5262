//! A tiny method for tests of the engine: softmax regression on pixels, with ways to misbehave.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use fedcast::data::{ClassOrder, Curriculum, PartitionKind, Partitioner, Shard, TaskSizes, digits};
use fedcast::federation::{
    Digests, Entry, Event, FederationError, Interrupt, Memory, Rules, RunEnd, Setup, simulate,
};
use fedcast::learning::{OptimiserConfig, TrainingPlan, train};
use fedcast::model::{Backbone, PixelShape, ops};
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::{Body, BodySketch, Kind, MetaReader, MetaWriter, NamedTensor, Section};
use fedcast::wire::{SectionSketch, TensorSketch, WireError};

const CLASSES: usize = 10;
const PIXELS: usize = 64;

/// What a client does to the engine instead of behaving.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mischief {
    #[default]
    None,
    /// Client 2 sends NaN.
    Nan,
    /// Client 2 sends a head of another shape.
    WrongShape,
    /// Client 2 panics while it trains.
    Panic,
    /// Client 2 panics while it trains in the second task.
    PanicOnce,
    /// Packs of more than so many find the memory of their device full, half-way.
    Full(usize),
    /// Client 2 meets an image that cannot be read.
    BadImage,
    /// Client 2's upload cannot be lifted.
    LiftPanic,
    /// Every Down names an asset of 1000 floats.
    Asset,
}

/// The method; `S` says whether clients remember anything.
pub struct Softmax<S> {
    pub mischief: Mischief,
    pub state: std::marker::PhantomData<S>,
}

/// A state: how often the client was asked.
pub trait Remember: ClientState + Sync {
    fn visit(&mut self) -> u32;
}

impl Remember for () {
    fn visit(&mut self) -> u32 {
        0
    }
}

#[derive(Default)]
pub struct Visits(u32);

impl ClientState for Visits {
    fn save(&self) -> Body {
        let mut meta = MetaWriter::new();
        meta.u64(u64::from(self.0));
        Body::new(meta.finish(), vec![])
    }
    fn load(saved: &Body) -> Result<Self, WireError> {
        Ok(Visits(MetaReader::new(&saved.meta).u64()? as u32))
    }
}

impl Remember for Visits {
    fn visit(&mut self) -> u32 {
        self.0 += 1;
        self.0
    }
}

pub struct Weights {
    head: Arc<[f32]>,
    rows: usize,
    samples: u64,
    asset: Option<Arc<Asset>>,
}

impl Message for Weights {
    fn pack(&self) -> Body {
        let head = NamedTensor::f32("head", [self.rows, PIXELS], Arc::clone(&self.head))
            .expect("the head fills its shape");
        let mut meta = MetaWriter::new();
        meta.u64(self.samples);
        Body::new(meta.finish(), vec![Section::new(Kind::Head, vec![head])])
    }
    fn unpack(body: &Body) -> Result<Self, WireError> {
        let head = body.tensor(Kind::Head, "head")?;
        let samples = MetaReader::new(&body.meta).u64()?;
        let rows = head.shape()[0];
        Ok(Weights { head: Arc::clone(head.as_f32()?), rows, samples, asset: None })
    }
    fn unpack_with(body: &Body, assets: &[Arc<Asset>]) -> Result<Self, WireError> {
        Ok(Weights { asset: assets.first().cloned(), ..Weights::unpack(body)? })
    }
    fn assets(&self) -> Vec<Arc<Asset>> {
        self.asset.clone().into_iter().collect()
    }
}

/// Summed in single precision on purpose: its bits show in which order parts were merged.
pub struct Sum {
    weight: f32,
    delta: Vec<f32>,
}

impl Part for Sum {
    fn merge(mut self, later: Self) -> Self {
        self.weight += later.weight;
        self.delta.iter_mut().zip(later.delta).for_each(|(mine, theirs)| *mine += theirs);
        self
    }
}

pub struct Server {
    head: Arc<[f32]>,
    asset: Option<Arc<Asset>>,
}
pub struct Client(Mischief);
struct Model(Arc<[f32]>);

impl Predictor for Model {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        Ok(pixels.flatten_from(1)?)
    }
    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let head = Tensor::from_slice(&self.0, (CLASSES, PIXELS), &Device::Cpu)?;
        let rows = scope.rows();
        let head = head.narrow(0, rows.start, rows.len())?;
        Ok(self.features(pixels)?.matmul(&head.t()?)?)
    }
}

impl<S: Remember> Method for Softmax<S> {
    type Down = Weights;
    type Up = Weights;
    type Part = Sum;
    type State = S;
    type Server = Server;
    type Client = Client;

    fn server(&self, _: &Lab, _: StreamKey) -> Result<Server, PolicyError> {
        let asset = (self.mischief == Mischief::Asset).then(|| {
            let tensor = NamedTensor::f32("teacher", [1000], vec![1.0; 1000]).expect("fills");
            let body = Body::new(vec![], vec![Section::new(Kind::Generator, vec![tensor])]);
            Arc::new(Asset::new("teacher", 1, Kind::Generator, body))
        });
        Ok(Server { head: vec![0.0; CLASSES * PIXELS].into(), asset })
    }
    fn client(&self) -> Client {
        Client(self.mischief)
    }
    fn sketch(&self, _: &SketchFacts<'_>) -> ExchangeSketch {
        let head = vec![TensorSketch::f32("head", [CLASSES, PIXELS])];
        let body = BodySketch::new(1, vec![SectionSketch::new(Kind::Head, head)]);
        ExchangeSketch { down: body.clone(), up: body, up_size: UpSize::Static }
    }
    fn fields(&self) -> &'static [Field] {
        &[Field { name: "head", folding: Folding::Sum }]
    }
    fn lift(&self, down: &Weights, up: Weights, meta: &UpMeta) -> Result<Sum, PolicyError> {
        if self.mischief == Mischief::LiftPanic && meta.seat.client.0 == 2 {
            panic!("lifting is beyond me");
        }
        let weight = up.samples as f32;
        let step = weight * meta.discount as f32;
        let delta = down.head.iter().zip(up.head.iter()).map(|(d, u)| step * (u - d));
        Ok(Sum { weight, delta: delta.collect() })
    }
    fn late(&self) -> Result<(), &'static str> {
        Ok(())
    }
    fn mixed(&self) -> Result<(), &'static str> {
        Ok(())
    }
}

impl<S: Remember> ServerPolicy<Softmax<S>> for Server {
    fn broadcast(
        &mut self,
        _: &RoundContext,
        seats: &[Seat],
        _: &Lab,
    ) -> Result<Vec<Arc<Weights>>, PolicyError> {
        let (head, asset) = (Arc::clone(&self.head), self.asset.clone());
        Ok(shared(Weights { head, rows: CLASSES, samples: 0, asset }, seats))
    }
    fn end_round(
        &mut self,
        _: &RoundContext,
        folded: Option<Sum>,
        _: &Lab,
    ) -> Result<Next, PolicyError> {
        if let Some(folded) = folded {
            let step = folded.delta.iter().map(|d| d / folded.weight);
            self.head = self.head.iter().zip(step).map(|(h, s)| h + s).collect();
        }
        Ok(Next::Continue)
    }
    fn predictor(&self, _: &Lab) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Model(Arc::clone(&self.head))))
    }
    fn save(&self) -> Body {
        Weights { head: Arc::clone(&self.head), rows: CLASSES, samples: 0, asset: None }.pack()
    }
    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.head = Weights::unpack(saved)?.head;
        Ok(())
    }
}

impl<S: Remember> ClientPolicy<Softmax<S>> for Client {
    fn train(
        &self,
        members: &mut [Member<'_, Softmax<S>>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Weights>, Failure>> {
        let pack = members.len();
        let mut outcomes: Vec<_> =
            members.iter_mut().map(|member| self.train_one(member, lab)).collect();
        if matches!(self.0, Mischief::Full(room) if pack > room) {
            outcomes[pack / 2] = Err(Failure::Memory("CUDA_ERROR_OUT_OF_MEMORY".into()));
        }
        outcomes
    }
    fn largest_pack(&self, _: usize) -> usize {
        usize::MAX
    }
    fn predictor(
        &self,
        _: &Weights,
        up: &Weights,
        _: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        Ok(Some(Arc::new(Model(Arc::clone(&up.head)))))
    }
}

impl Client {
    fn train_one<S: Remember>(
        &self,
        member: &mut Member<'_, Softmax<S>>,
        lab: &Lab,
    ) -> Result<Outcome<Weights>, Failure> {
        let visits = member.state.visit();
        let policy = |e: candle_core::Error| Failure::Policy(e.to_string());
        let head = Tensor::from_slice(&member.down.head, (CLASSES, PIXELS), &Device::Cpu);
        let head = Var::from_tensor(&head.map_err(policy)?).map_err(policy)?;
        let bad = member.seat.client.0 == 2;
        if bad && self.0 == Mischief::Panic {
            panic!("out of memory, say");
        }
        if bad && self.0 == Mischief::PanicOnce && member.seat.view.task.0 == 1 {
            panic!("out of memory, say");
        }
        if bad && self.0 == Mischief::BadImage {
            return Err(Failure::Data("cat.png is no image".into()));
        }
        if self.0 == Mischief::Asset && member.down.asset.is_none() {
            return Err(Failure::Policy("the Down lost its asset".into()));
        }
        let rows = member.seat.view.rows.clone();
        let loader = lab.train_loader(&member.shard);
        let trainables = [("head".into(), head.clone())];
        let report = train(&lab.training, &loader, &trainables, member.key, |batch| {
            let pixels = batch.pixels(&Device::Cpu)?.flatten_from(1)?;
            Ok(ops::cross_entropy(
                &ops::linear(&pixels, &head, None)?,
                batch.labels(),
                rows.clone(),
            )?)
        })
        .map_err(|error| Failure::Policy(error.to_string()))?;
        let mut values = head.flatten_all().and_then(|h| h.to_vec1::<f32>()).map_err(policy)?;
        let mut rows = CLASSES;
        match self.0 {
            Mischief::Nan if bad => values[7] = f32::NAN,
            Mischief::WrongShape if bad => {
                values.truncate(PIXELS);
                rows = 1;
            }
            _ => {}
        }
        let up =
            Weights { head: values.into(), rows, samples: member.shard.len() as u64, asset: None };
        let metrics = vec![
            ("loss", f64::from(report.loss_last)),
            ("visits", f64::from(visits)),
            ("missed", member.missed.len() as f64),
        ];
        Ok(Outcome { up, metrics })
    }
}

/// What a run left behind.
pub struct Ran {
    pub end: Result<RunEnd, FederationError>,
    pub entries: Vec<Entry>,
    pub digests: Digests,
}

impl Ran {
    /// How many entries have an event of this name.
    pub fn count(&self, name: &str) -> usize {
        self.entries.iter().filter(|e| e.event.name() == name).count()
    }

    /// The reasons of all failed seats.
    pub fn failures(&self) -> Vec<String> {
        let reason = |e: &Entry| match &e.event {
            Event::ClientFailed { reason, .. } => Some(reason.clone()),
            _ => None,
        };
        self.entries.iter().filter_map(reason).collect()
    }
}

/// Six clients, digits in five tasks, two rounds each: every client, ideal links.
pub fn rules() -> Rules {
    Rules { seed: 11, clients: 6, rounds: 2, evaluation_batch: 50, ..Rules::default() }
}

/// A setup with a softmax regression.
pub fn setup<S: Remember>(rules: Rules, mischief: Mischief) -> Setup {
    let dataset = digits::embedded().expect("embedded");
    let tasks = TaskSizes::Even(5);
    let curriculum = Curriculum::new(CLASSES, &ClassOrder::Native, &tasks).expect("divides");
    let partitioner = Partitioner::new(PartitionKind::Dirichlet { beta: 0.5 }, rules.clients, 3);
    let by_class = dataset.train.by_class();
    let shards: Vec<Vec<Shard>> = (curriculum.tasks.iter())
        .map(|view| partitioner.shards(view, by_class).expect("feasible"))
        .collect();
    let pixels = Backbone::Pixels(PixelShape { channels: 1, image: 8 });
    let lab = Lab {
        training: TrainingPlan {
            epochs: 1,
            batch: 10,
            optimiser: OptimiserConfig::sgd(0.1),
            ..TrainingPlan::default()
        },
        evaluation_batch: rules.evaluation_batch,
        ..Lab::new(pixels, dataset, curriculum)
    };
    let method = erase(Softmax::<S> { mischief, state: std::marker::PhantomData });
    Setup::new("softmax", method, lab, shards, rules)
}

/// Runs it.
pub fn run(setup: Setup) -> Ran {
    run_with(setup, Interrupt::default())
}

/// Runs it; somebody holds the interrupt.
pub fn run_with(setup: Setup, interrupt: Interrupt) -> Ran {
    let memory = Memory::default();
    let end = simulate(setup, Box::new(memory.clone()), Box::new(()), interrupt);
    Ran { end, entries: memory.entries(), digests: memory.digests() }
}
