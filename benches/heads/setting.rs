//! The two federations, one on pixels and one on features of a small transformer.

use std::sync::Arc;

use fedcast::data::{ClassPermutation, Dataset, Shard, TaskSequence, TaskSizes};
use fedcast::federation::{CohortSize, Curve, ParticipationSection, Rules, Setup};
use fedcast::learning::{FeatureCache, OptimizerConfig, TrainingPlan};
use fedcast::methods::averaging::Averager;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::model::{Backbone, PixelShape, Vit, VitConfig};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::RunContext;

use crate::figures::noise;

const CLASSES: usize = 100;
/// Number of samples per client and task.
const SAMPLES: u32 = 10;

/// Federation on the raw pixels of noise, in one task.
pub struct Logistic(Arc<Dataset>);

impl Logistic {
    const CLIENTS: u32 = 1_000;

    pub fn new() -> Logistic {
        let train = Logistic::CLIENTS * SAMPLES;
        Logistic(Arc::new(noise(CLASSES, train, CLASSES as u32, [3, 32, 32])))
    }

    pub fn setup(&self, rounds: u32) -> Setup {
        let shape = PixelShape { channels: 3, image: 32 };
        let shards = (0..Logistic::CLIENTS).map(|client| nth(client, |sample| sample));
        let federation = Federation {
            backbone: Arc::new(Backbone::Pixels(shape)),
            cache: Arc::default(),
            tasks: 1,
            rounds,
            asked: 10,
            curve: Curve::Never,
        };
        federation.setup(&self.0, vec![shards.collect()])
    }
}

/// Federation on features of width 192 in ten tasks.
///
/// A transformer of one block computes them, so that the cache fills quickly.
pub struct Cached {
    data: Arc<Dataset>,
    backbone: Arc<Backbone>,
    cache: Arc<FeatureCache>,
}

impl Cached {
    const TASKS: u32 = 10;
    /// Training samples per task. Clients beyond the hundredth hold the samples of earlier ones.
    const TRAIN: u32 = 1_000;

    pub fn new() -> Cached {
        let config = VitConfig {
            image: 8,
            patch: 4,
            channels: 1,
            dim: 192,
            depth: 1,
            heads: 3,
            mlp: 192,
            ..VitConfig::default()
        };
        let weights = Vit::initial_parameters(&config, StreamKey::new(1, Domain::Init));
        Cached {
            data: Arc::new(noise(CLASSES, Cached::TASKS * Cached::TRAIN, 1_000, [1, 8, 8])),
            backbone: Arc::new(Vit::from_parameters(config, &weights).expect("loads").into()),
            cache: Arc::default(),
        }
    }

    /// Returns the federation of `clients` clients, with a cohort size and rounds per task.
    pub fn setup(&self, clients: u32, asked: u32, rounds: u32) -> Setup {
        // Sample `i` has class `i % 100`, and task `t` has the classes from `10 t` on.
        let of_task = |task: u32, k: u32| (k / 10) * CLASSES as u32 + task * 10 + k % 10;
        let shards = |task: u32| -> Vec<Shard> {
            let shard = |client| nth(client, |k| of_task(task, k % Cached::TRAIN));
            (0..clients).map(shard).collect()
        };
        let federation = Federation {
            backbone: Arc::clone(&self.backbone),
            cache: Arc::clone(&self.cache),
            tasks: Cached::TASKS as usize,
            rounds,
            asked,
            curve: Curve::Task,
        };
        federation.setup(&self.data, (0..Cached::TASKS).map(shards).collect())
    }
}

/// Returns the shard of a client, whose samples are `sample(k)` for consecutive `k`.
fn nth(client: u32, sample: impl Fn(u32) -> u32) -> Shard {
    (client * SAMPLES..(client + 1) * SAMPLES).map(sample).collect()
}

struct Federation {
    backbone: Arc<Backbone>,
    cache: Arc<FeatureCache>,
    tasks: usize,
    /// Number of rounds per task.
    rounds: u32,
    /// Number of clients sampled per round.
    asked: u32,
    curve: Curve,
}

impl Federation {
    fn setup(self, data: &Arc<Dataset>, shards: Vec<Vec<Shard>>) -> Setup {
        let tasks = TaskSizes::Even(self.tasks as u32);
        let task_sequence =
            TaskSequence::new(CLASSES, &ClassPermutation::Native, &tasks).expect("divides");
        let ctx = RunContext {
            training: TrainingPlan {
                epochs: 1,
                batch: SAMPLES as usize,
                optimizer: OptimizerConfig::sgd(0.01),
                clip: None,
                ..TrainingPlan::default()
            },
            cache: self.cache,
            ..RunContext::new(self.backbone, Arc::clone(data), task_sequence)
        };
        let method = FedAvg { train: Train::Head, ..FedAvg::default() };
        let method = Arc::new(Averager::new(method, &ctx.facts(shards[0].len() as u32)));
        let participation = ParticipationSection {
            participants: CohortSize::Count { count: self.asked },
            ..ParticipationSection::default()
        };
        let rules = Rules {
            clients: shards[0].len() as u32,
            rounds: self.rounds,
            participation,
            curve: self.curve,
            ..Rules::default()
        };
        Setup::new("fedavg", method, ctx, shards, rules)
    }
}
