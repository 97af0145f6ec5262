//! Promise: the uploads that are in memory are those in flight, not those of a cohort, also where clients are of any
//! speed and the first to finish is not the first to be trained.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, Weak};

use fedcast::data::{ClassPermutation, Shard, TaskSequence, TaskSizes, digits};
use fedcast::federation::privacy::{FixedPoint, Modulus, PrivacyRules, SecureAggregation};
use fedcast::federation::{
    AggregationRule, ClosingRules, CrashTime, Curve, Digests, Direction, Fault, FaultKind,
    FaultRules, Interrupt, LinkRules, MemorySink, Rules, Setup, Spoilage, simulate,
};
use fedcast::learning::{OptimizerConfig, TrainingPlan};
use fedcast::model::{Backbone, LinearHead, PixelShape};
use fedcast::policy::{ClientResult, Failure, Member, Method, MethodWrapper, RunContext, Wrapped};
use fedcast::quantity::VirtualTime;

use crate::softmax::{Remember, Softmax, SoftmaxFault, Visits, mobile_compute, mobile_links};

const CLIENTS: u32 = 64;
const ROUNDS: usize = 2;

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

/// Softmax regression whose uploads are watched.
struct Watched<S> {
    inner: Softmax<S>,
    watch: Arc<Mutex<UploadWatch>>,
}

impl<S: Remember> MethodWrapper for Watched<S> {
    fn inner(&self) -> &dyn Method {
        &self.inner
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let results = self.inner.train(members, ctx);
        let mut watch = self.watch.lock().expect("no holder panics");
        for (member, result) in members.iter().zip(&results) {
            let upload = &result.as_ref().expect("trains").upload;
            watch.note(&upload.parameters.get(LinearHead::WEIGHT).expect("a head").values);
            watch.order.push(member.participant.id.0);
        }
        results
    }
}

/// Clients of phones: the slowest takes many times as long as the fastest.
fn rules(links: LinkRules) -> Rules {
    let (clients, compute) = (CLIENTS, mobile_compute());
    Rules {
        clients,
        rounds: ROUNDS as u32,
        curve: Curve::Never,
        compute,
        links,
        ..Rules::default()
    }
}

/// Runs a federation with these workers; returns its digests and what was seen of its uploads.
///
/// Clients have other samples each, and more the later they are numbered, so that uploads and their weights differ.
fn ran<S: Remember>(rules: Rules, workers: usize) -> (Digests, UploadWatch) {
    let dataset = digits::embedded().expect("embedded");
    let tasks = TaskSizes::Even(1);
    let tasks = TaskSequence::new(10, &ClassPermutation::Native, &tasks).expect("divides");
    let backbone = Backbone::Pixels(PixelShape { channels: 1, image: 8 });
    let optimizer = OptimizerConfig::sgd(0.1);
    let ctx = RunContext {
        training: TrainingPlan { epochs: 1, batch: 8, optimizer, ..TrainingPlan::default() },
        ..RunContext::new(backbone, dataset, tasks)
    };
    let shard = |client: u32| -> Shard { (10 * client..11 * client + 1).collect() };
    let watch = Arc::<Mutex<UploadWatch>>::default();
    let inner = Softmax::<S> { fault: SoftmaxFault::Anonymous, state: std::marker::PhantomData };
    let method = Arc::new(Wrapped(Watched { inner, watch: Arc::clone(&watch) }));
    let shards = vec![(0..CLIENTS).map(shard).collect()];
    let setup = Setup::new("softmax", method, ctx, shards, rules);
    let setup = Setup { workers: workers.into(), ..setup };
    let memory = MemorySink::default();
    simulate(setup, Box::new(memory.clone()), Box::new(()), Interrupt::default()).expect("ends");
    let watch = std::mem::take(&mut *watch.lock().expect("no holder panics"));
    (memory.digests(), watch)
}

/// A deadline that no client misses: the round cannot know, so that uploads are aggregated when they arrive.
fn late_deadline() -> ClosingRules {
    ClosingRules { deadline: Some(VirtualTime::from_seconds(1e6)), ..ClosingRules::default() }
}

/// Returns the digests of a run that aggregates uploads at once, which are those of one that does so on arrival.
fn digests_either_way<S: Remember>(rules: Rules, case: &str) -> Digests {
    let (at_once, _) = ran::<S>(rules.clone(), 2);
    let (on_arrival, _) = ran::<S>(Rules { closing: late_deadline(), ..rules }, 2);
    assert_eq!(at_once, on_arrival, "{case}");
    at_once
}

#[test]
fn live_uploads_are_those_of_workers() {
    for workers in [1, 2] {
        for links in [LinkRules::IDEAL, mobile_links()] {
            let faults = FaultRules { lose_up: 0.4, ..FaultRules::default() };
            for faults in [FaultRules::default(), faults] {
                let rules = Rules { faults, ..rules(links.clone()) };
                let (_, UploadWatch { most, .. }) = ran::<()>(rules, workers);
                assert!((1..=workers).contains(&most), "{most} alive with {workers} workers");
            }
        }
    }
}

/// Downloads arrive in another order, some after the end of another client's work.
#[test]
fn participants_train_in_their_order_over_any_links() {
    for links in [LinkRules::IDEAL, mobile_links()] {
        let (_, UploadWatch { order, .. }) = ran::<()>(rules(links), 1);
        let rounds: Vec<&[u32]> = order.chunks(CLIENTS as usize).collect();
        assert_eq!(rounds.len(), ROUNDS);
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
        let rules = Rules { faults, ..rules(mobile_links()) };
        seen.insert(digests_either_way::<()>(rules, &format!("{entries:?}")).events);
    }
    assert_eq!(seen.len(), faults.len(), "every fault strikes");
}

/// Whatever becomes of uploads, whether clients keep a state, alone and in packs; some uploads are lost.
///
/// The method's server keeps its head in double precision, so that uploads of another order or another owner show; but for
/// the order under secure aggregation, whose sums are integers.
#[test]
fn rules_and_states_aggregate_at_once_alike() {
    let numbers = FixedPoint { modulus: Modulus::Bits64, bits: 24 };
    let secure = Some(SecureAggregation { numbers, threshold: 0.5 });
    let services: [(&str, AggregationRule, Option<SecureAggregation>); 4] = [
        ("secure aggregation", AggregationRule::Mean, secure),
        ("a median", AggregationRule::Median, None),
        ("a trimmed mean", AggregationRule::TrimmedMean { trim_fraction: 0.1 }, None),
        ("clipped norms", AggregationRule::NormClipped { norm: 0.05 }, None),
    ];
    let lost = Fault { rate: 0.2, ..Fault::of(FaultKind::Lose { direction: Direction::Up }) };
    let mut numbers = BTreeSet::new();
    for (name, aggregation, secure) in services {
        for pack in [1, 4] {
            let faults = FaultRules { entries: vec![lost.clone()], ..FaultRules::default() };
            let privacy = PrivacyRules { secure, ..PrivacyRules::default() };
            let rules = Rules { faults, aggregation, privacy, pack, ..rules(mobile_links()) };
            let case = format!("{name}, packs of {pack}");
            let alone = digests_either_way::<()>(rules.clone(), &case);
            let state = digests_either_way::<Visits>(rules, &format!("{case}, with states"));
            assert_ne!(alone.numbers, state.numbers, "{case}: metrics count visits");
            numbers.insert(alone.numbers);
        }
    }
    assert_eq!(numbers.len(), services.len(), "packs change nothing, services do");
}
