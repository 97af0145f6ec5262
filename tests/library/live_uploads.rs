//! Promise: the uploads that are in memory are those in flight, not those of a cohort, also where clients are of any
//! speed and the first to finish is not the first to be trained.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};

use candle_core::Tensor;
use fedcast::data::{ClassPermutation, Shard, TaskSequence, TaskSizes, digits};
use fedcast::federation::{
    ClosingRules, ComputeRules, CrashTime, Curve, Digests, Direction, Fault, FaultKind, FaultRules,
    Interrupt, LinkRules, MemorySink, Rules, Setup, Spoilage, simulate,
};
use fedcast::model::{Backbone, Parameter, PixelShape};
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::quantity::VirtualTime;
use fedcast::wire::{Body, Dtype, Kind, NamedTensor, Section, WireError};

const CLIENTS: u32 = 64;
const NUMBERS: usize = 16;
const MODEL: &str = "head.bias";
const COUNT: &str = "count";

/// Uploads made so far, as long as anything holds their values.
#[derive(Default)]
struct UploadWatch {
    made: Vec<Weak<[f32]>>,
    /// The most that were alive at once.
    most: usize,
    /// Participants in the order of their training.
    order: Vec<u32>,
}

impl UploadWatch {
    fn note(&mut self, values: &Arc<[f32]>) {
        self.made.push(Arc::downgrade(values));
        let alive = self.made.iter().filter(|values| values.strong_count() > 0).count();
        self.most = self.most.max(alive);
    }
}

/// Every client moves the model by a value of its own, and the server takes the mean.
struct Moving {
    watch: Arc<Mutex<UploadWatch>>,
}

struct Mean(Parameter);

struct Blind;

fn model(values: Arc<[f32]>) -> Message {
    let parameter = Parameter { shape: vec![values.len()], values };
    Message::of([(MODEL, parameter)].into_iter().collect())
}

impl Method for Moving {
    fn server(&self, _: &RunContext, _: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(Mean(Parameter { shape: vec![NUMBERS], values: vec![0.5; NUMBERS].into() })))
    }
    fn profile(&self) -> MethodProfile {
        MethodProfile::default()
    }
    fn message_spec(&self, message: MessageKind, _: &ExchangeFacts<'_>) -> MessageSpec {
        let place = TensorSpec::parameter(MODEL, &[NUMBERS]);
        if message == MessageKind::Download {
            return MessageSpec::of(vec![place]);
        }
        MessageSpec {
            extra: vec![TensorSpec::new(Kind::Statistics, COUNT, &[1], Dtype::F32)],
            ..MessageSpec::of(vec![place.averaged(AveragingGroup::All, Weight::Sum(COUNT))])
        }
    }
    fn train(&self, members: &mut [Member], _: &RunContext) -> Vec<Result<ClientResult, Failure>> {
        let answer = |member: &Member| {
            let moved = 1.0 / (3.0 + member.participant.client.0 as f32);
            let values: Arc<[f32]> = vec![moved; NUMBERS].into();
            let mut watch = self.watch.lock().unwrap();
            watch.note(&values);
            watch.order.push(member.participant.id.0);
            let count = vec![1.0 + (member.participant.client.0 % 7) as f32];
            let count = NamedTensor::f32(COUNT, [1], count).expect("fills its shape");
            let extra = vec![Section::new(Kind::Statistics, vec![count])];
            Ok(ClientResult { upload: Message { extra, ..model(values) }, metrics: vec![] })
        };
        members.iter().map(answer).collect()
    }
}

impl Server for Mean {
    fn broadcast(
        &mut self,
        _: &RoundContext,
        participants: &[Participant],
        _: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        Ok(shared(model(Arc::clone(&self.0.values)), participants))
    }
    fn end_round(
        &mut self,
        _: &RoundContext,
        aggregate: Option<Aggregate>,
        _: &RunContext,
    ) -> Result<(), PolicyError> {
        let before = [(MODEL, self.0.clone())].into_iter().collect();
        let after = aggregate.map(|aggregate| aggregate.apply(&before));
        self.0 = after.and_then(|after| after.get(MODEL).cloned()).unwrap_or(self.0.clone());
        Ok(())
    }
    fn predictor(&self, _: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        Ok(Arc::new(Blind))
    }
    fn save(&self) -> Body {
        model(Arc::clone(&self.0.values)).body()
    }
    fn load(&mut self, _: &Body) -> Result<(), WireError> {
        Ok(())
    }
}

impl Predictor for Blind {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        Ok(pixels.clone())
    }
    fn scores(&self, pixels: &Tensor, _: &Scope) -> Result<Tensor, PolicyError> {
        Ok(pixels.clone())
    }
}

/// Clients of phones: the slowest takes many times as long as the fastest.
fn rules(links: LinkRules) -> Rules {
    let (clients, compute) = (CLIENTS, ComputeRules::MOBILE);
    Rules { clients, rounds: 2, curve: Curve::Never, compute, links, ..Rules::default() }
}

/// Runs a federation with these workers; returns its digests and what was seen of its uploads.
fn ran(rules: Rules, workers: usize) -> (Digests, UploadWatch) {
    let dataset = digits::embedded().expect("embedded");
    let tasks = TaskSizes::Even(1);
    let tasks = TaskSequence::new(10, &ClassPermutation::Native, &tasks).expect("divides");
    let backbone = Backbone::Pixels(PixelShape { channels: 1, image: 8 });
    let ctx = RunContext::new(backbone, dataset, tasks);
    let shard: Shard = (0..10).collect();
    let watch = Arc::<Mutex<UploadWatch>>::default();
    let method = Arc::new(Moving { watch: Arc::clone(&watch) });
    let shards = vec![vec![shard; CLIENTS as usize]];
    let setup = Setup::new("moving", method, ctx, shards, rules);
    let setup = Setup { workers: workers.into(), ..setup };
    let memory = MemorySink::default();
    simulate(setup, Box::new(memory.clone()), Box::new(()), Interrupt::default()).expect("ends");
    let watch = std::mem::take(&mut *watch.lock().unwrap());
    (memory.digests(), watch)
}

/// A deadline that no client misses: the round cannot know, so that uploads are aggregated when they arrive.
fn late_deadline() -> ClosingRules {
    ClosingRules { deadline: Some(VirtualTime::from_seconds(1e6)), ..ClosingRules::default() }
}

#[test]
fn live_uploads_are_those_of_workers() {
    for workers in [1, 2] {
        for links in [LinkRules::IDEAL, LinkRules::MOBILE] {
            let faults = FaultRules { lose_up: 0.4, ..FaultRules::default() };
            for faults in [FaultRules::default(), faults] {
                let rules = Rules { faults, ..rules(links.clone()) };
                let (_, UploadWatch { most, .. }) = ran(rules, workers);
                assert!((1..=workers).contains(&most), "{most} alive with {workers} workers");
            }
        }
    }
}

/// Downloads arrive in another order, some after the end of another client's work.
#[test]
fn participants_train_in_their_order_over_any_links() {
    for links in [LinkRules::IDEAL, LinkRules::MOBILE] {
        let (_, UploadWatch { order, .. }) = ran(rules(links), 1);
        let rounds: Vec<&[u32]> = order.chunks(CLIENTS as usize).collect();
        assert_eq!(rounds.len(), 2);
        assert!(rounds.iter().all(|round| round.iter().copied().eq(0..CLIENTS)), "{rounds:?}");
    }
}

#[test]
fn aggregation_at_once_changes_no_digest() {
    let of = |kind| Fault { rate: 0.3, ..Fault::of(kind) };
    let when = [CrashTime::Before, CrashTime::While, CrashTime::After];
    let mut faults = vec![vec![]];
    faults.extend(when.map(|when| vec![of(FaultKind::Crash { when })]));
    for direction in [Direction::Down, Direction::Up] {
        faults.push(vec![of(FaultKind::Lose { direction })]);
        faults.push(vec![of(FaultKind::Corrupt { direction })]);
        faults.push(vec![of(FaultKind::Duplicate { direction })]);
    }
    faults.push(vec![of(FaultKind::BadUpdate { how: Spoilage::NotANumber })]);
    let mut seen = BTreeSet::new();
    for entries in &faults {
        let faults = FaultRules { entries: entries.clone(), ..FaultRules::default() };
        let rules = Rules { faults, ..rules(LinkRules::MOBILE) };
        let (at_once, _) = ran(rules.clone(), 2);
        let (on_arrival, _) = ran(Rules { closing: late_deadline(), ..rules }, 2);
        assert_eq!(at_once, on_arrival, "{entries:?}");
        seen.insert(at_once.events);
    }
    assert_eq!(seen.len(), faults.len(), "every fault strikes");
}
