//! A tiny method for tests of the engine: softmax regression on pixels, with ways to misbehave.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use fedcast::data::{
    ClassPermutation, PartitionRule, Partitioner, Shard, TaskSequence, TaskSizes, digits,
};
use fedcast::federation::{
    ComputeRules, Digests, Entry, Event, FederationError, Interrupt, LinkRules, MemorySink, Rules,
    RunEnd, Setup, simulate,
};
use fedcast::learning::{OptimizerConfig, TrainingPlan, train};
use fedcast::model::{Backbone, LinearHead, Parameter, ParameterSet, PixelShape, ops};
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::scenario::{LinksSection, Preset, TimeSection};
use fedcast::wire::{
    Body, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Saved, Section, WireError,
};

const CLASSES: usize = 10;
const PIXELS: usize = 64;

/// Returns the computing times of phones.
pub fn mobile_compute() -> ComputeRules {
    ComputeRules::from(&TimeSection::of(Preset::Mobile))
}

/// Returns the network of phones.
pub fn mobile_links() -> LinkRules {
    LinkRules::from(&LinksSection::of(Preset::Mobile))
}

/// Fault of a client or of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SoftmaxFault {
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
    /// Packs of more than this size find the memory of their device full, halfway.
    Full(usize),
    /// Client 2 meets an image that cannot be read.
    BadImage,
    /// Client 2's upload cannot be transformed.
    TransformPanic,
    /// Every download names an asset of 1000 floats.
    Asset,
    /// No fault: uploads do not say whose they are, so that they can be added in secret.
    Anonymous,
}

/// The method; `S` says whether clients remember anything.
pub struct Softmax<S> {
    pub fault: SoftmaxFault,
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

impl ClientState for Visits {}

impl Saved for Visits {
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

/// Its sample count, in an upload.
const SAMPLES: &str = "samples";

/// Keeps its head in double precision on purpose: its bits show in which order uploads were aggregated.
struct Keeper {
    head: Vec<f64>,
    asset: Option<Arc<Asset>>,
}

impl Keeper {
    fn rounded(&self) -> Arc<[f32]> {
        self.head.iter().map(|value| *value as f32).collect()
    }
}

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

fn head(message: &Message) -> Result<&Parameter, PolicyError> {
    let missing = || PolicyError::Unsupported("a message without its head".into());
    message.parameters.get(LinearHead::WEIGHT).ok_or_else(missing)
}

fn weights(rows: usize, values: Arc<[f32]>) -> ParameterSet {
    [(LinearHead::WEIGHT, Parameter { shape: vec![rows, PIXELS], values })].into_iter().collect()
}

impl<S: Remember> Method for Softmax<S> {
    fn server(&self, _: &RunContext, _: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        let asset = (self.fault == SoftmaxFault::Asset).then(|| {
            let tensor = NamedTensor::f32("teacher", [1000], vec![1.0; 1000]).expect("fills");
            let body = Body::new(vec![], vec![Section::new(Kind::Generator, vec![tensor])]);
            Arc::new(Asset::new("teacher", 1, Kind::Generator, body))
        });
        Ok(Box::new(Keeper { head: vec![0.0; CLASSES * PIXELS], asset }))
    }
    fn profile(&self) -> MethodProfile {
        MethodProfile { stateless: S::STATELESS, ..MethodProfile::default() }
    }
    fn phases(&self, _: &Stage, rounds: u32) -> Vec<Phase> {
        vec![Phase::train(rounds).packed(usize::MAX)]
    }
    fn message_spec(&self, message: MessageKind, _: &ExchangeFacts<'_>) -> MessageSpec {
        let head = TensorSpec::parameter(LinearHead::WEIGHT, &[CLASSES, PIXELS]);
        if message == MessageKind::Download {
            return MessageSpec::of(vec![head]);
        }
        MessageSpec {
            // Who it is.
            control: if self.fault == SoftmaxFault::Anonymous { vec![] } else { vec![0] },
            extra: vec![TensorSpec::new(Kind::Statistics, SAMPLES, &[], Dtype::U32)],
            ..MessageSpec::of(vec![head.averaged(AveragingGroup::All, Weight::Sum(SAMPLES))])
        }
    }
    fn transform_upload(
        &self,
        _: &ExchangeFacts<'_>,
        _: &Message,
        upload: Message,
    ) -> Result<Message, PolicyError> {
        if self.fault == SoftmaxFault::TransformPanic && upload.fields().u64()? == 2 {
            panic!("lifting is beyond me");
        }
        Ok(upload)
    }
    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let pack = members.len();
        let mut outcomes: Vec<_> =
            members.iter_mut().map(|member| self.train_one(member, ctx)).collect();
        if matches!(self.fault, SoftmaxFault::Full(room) if pack > room) {
            outcomes[pack / 2] = Err(Failure::Memory("CUDA_ERROR_OUT_OF_MEMORY".into()));
        }
        outcomes
    }
    fn inspection(&self) -> Option<&dyn MethodInspection> {
        Some(self)
    }
}

impl<S: Remember> MethodInspection for Softmax<S> {
    fn local_model(
        &self,
        _: &ExchangeFacts<'_>,
        _: &Message,
        own: &Message,
        _: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        Ok(Some(Arc::new(Model(Arc::clone(&head(own)?.values)))))
    }
}

impl Server for Keeper {
    fn broadcast(
        &mut self,
        _: &RoundContext,
        participants: &[Participant],
        _: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let assets = self.asset.clone().into_iter().collect();
        let download = Message { assets, ..Message::of(weights(CLASSES, self.rounded())) };
        Ok(shared(download, participants))
    }
    fn end_round(
        &mut self,
        _: &RoundContext,
        aggregate: Option<Aggregate>,
        _: &RunContext,
    ) -> Result<(), PolicyError> {
        let aggregate = aggregate.unwrap_or_default();
        let Some(mean) = aggregate.means.get(&AveragingGroup::All) else { return Ok(()) };
        let sum = mean.sum(LinearHead::WEIGHT).unwrap_or_default();
        self.head.iter_mut().zip(sum).for_each(|(head, sum)| *head += sum / mean.weight());
        Ok(())
    }
    fn predictor(&self, _: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Model(self.rounded())))
    }
    fn save(&self) -> Body {
        let head = NamedTensor::f64(LinearHead::WEIGHT, [CLASSES, PIXELS], self.head.clone());
        Body::new(vec![], vec![Section::new(Kind::Head, vec![head.expect("fills")])])
    }
    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.head = saved.tensor(Kind::Head, LinearHead::WEIGHT)?.as_f64()?.to_vec();
        Ok(())
    }
}

impl<S: Remember> Softmax<S> {
    fn train_one(&self, member: &mut Member, ctx: &RunContext) -> Result<ClientResult, Failure> {
        let failed = |e: PolicyError| Failure::Policy(e.to_string());
        let mut state = S::of(&member.state).map_err(|error| failed(error.into()))?;
        let visits = state.visit();
        member.state = state.save();
        let policy = |e: candle_core::Error| Failure::Policy(e.to_string());
        let received = &head(&member.download).map_err(failed)?.values;
        let head = Tensor::from_slice(received, (CLASSES, PIXELS), &Device::Cpu);
        let head = Var::from_tensor(&head.map_err(policy)?).map_err(policy)?;
        let client = member.participant.client.0;
        let bad = client == 2;
        if bad && self.fault == SoftmaxFault::Panic {
            panic!("out of memory, say");
        }
        if bad && self.fault == SoftmaxFault::PanicOnce && member.participant.view.task.0 == 1 {
            panic!("out of memory, say");
        }
        if bad && self.fault == SoftmaxFault::BadImage {
            return Err(Failure::Data("cat.png is no image".into()));
        }
        if self.fault == SoftmaxFault::Asset && member.download.asset("teacher").is_none() {
            return Err(Failure::Policy("the Down lost its asset".into()));
        }
        let rows = member.participant.view.rows.clone();
        let loader = ctx.train_loader(&member.shard);
        let trainables = [("head".into(), head.clone())];
        let report = train(&ctx.training, &loader, &trainables, member.key, |batch| {
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
        match self.fault {
            SoftmaxFault::Nan if bad => values[7] = f32::NAN,
            SoftmaxFault::WrongShape if bad => {
                values.truncate(PIXELS);
                rows = 1;
            }
            _ => {}
        }
        let samples = NamedTensor::u32(SAMPLES, [], vec![member.shard.len() as u32]);
        let samples = samples.map_err(|error| failed(error.into()))?;
        let mut control = MetaWriter::new();
        if self.fault != SoftmaxFault::Anonymous {
            control.u64(u64::from(client));
        }
        let upload = Message {
            control: control.finish(),
            parameters: weights(rows, values.into()),
            extra: vec![Section::new(Kind::Statistics, vec![samples])],
            assets: Vec::new(),
        };
        let metrics = vec![
            ("loss", f64::from(report.loss_last)),
            ("visits", f64::from(visits)),
            ("missed", member.missed.len() as f64),
        ];
        Ok(ClientResult { upload, metrics })
    }
}

/// Records of a run.
pub struct Ran {
    pub end: Result<RunEnd, FederationError>,
    pub entries: Vec<Entry>,
    pub digests: Digests,
}

impl Ran {
    /// Returns the number of entries with an event of this name.
    pub fn count(&self, name: &str) -> usize {
        self.entries.iter().filter(|e| e.event.name() == name).count()
    }

    /// The reasons of all failed participants.
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
pub fn setup<S: Remember>(rules: Rules, fault: SoftmaxFault) -> Setup {
    let dataset = digits::embedded().expect("embedded");
    let tasks = TaskSizes::Even(5);
    let task_sequence =
        TaskSequence::new(CLASSES, &ClassPermutation::Native, &tasks).expect("divides");
    let partitioner = Partitioner::new(PartitionRule::Dirichlet { beta: 0.5 }, rules.clients, 3);
    let by_class = dataset.train.by_class();
    let shards: Vec<Vec<Shard>> = (task_sequence.tasks.iter())
        .map(|view| partitioner.shards(view, by_class).expect("feasible"))
        .collect();
    let pixels = Backbone::Pixels(PixelShape { channels: 1, image: 8 });
    let ctx = RunContext {
        training: TrainingPlan {
            epochs: 1,
            batch: 10,
            optimizer: OptimizerConfig::sgd(0.1),
            ..TrainingPlan::default()
        },
        evaluation_batch: rules.evaluation_batch,
        ..RunContext::new(pixels, dataset, task_sequence)
    };
    let method = Arc::new(Softmax::<S> { fault, state: std::marker::PhantomData });
    Setup::new("softmax", method, ctx, shards, rules)
}

/// Runs it.
pub fn run(setup: Setup) -> Ran {
    run_with(setup, Interrupt::default())
}

/// Runs it with an interrupt.
pub fn run_with(setup: Setup, interrupt: Interrupt) -> Ran {
    let memory = MemorySink::default();
    let end = simulate(setup, Box::new(memory.clone()), Box::new(()), interrupt);
    Ran { end, entries: memory.entries(), digests: memory.digests() }
}
