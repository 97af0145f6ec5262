//! The federation of the benchmark: two clients, one round, one task of ten classes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fedcast::data::{ClassPermutation, Dataset, Shard, TaskSequence, TaskSizes};
use fedcast::federation::{Curve, JobKind, ProfileSink, Rules, Setup, Span};
use fedcast::learning::{PromptShape, TrainingPlan};
use fedcast::methods::averaging::Averager;
use fedcast::methods::hgp::Hgp;
use fedcast::model::ops::Precision;
use fedcast::model::{Backbone, DeviceSpec, Vit, VitConfig};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{ModelFacts, RunContext, WireForm};

use crate::figures::noise;

const CLASSES: usize = 10;
const CLIENTS: u32 = 2;
/// Number of samples per client and per batch.
const SAMPLES: u32 = 16;
/// Number of images in a round's cohort.
pub const TRAINED: u32 = CLIENTS * SAMPLES;
/// Number of epochs per round.
pub const EPOCHS: u32 = 2;
/// Number of images tested after the task: two blocks, one for each worker.
pub const TESTED: u32 = 32;

/// Data shared by all runs.
pub struct Setting {
    data: Arc<Dataset>,
    backbone: Arc<Backbone>,
    /// Dimensions of the network.
    pub config: VitConfig,
    /// Shape of the prompt that trains.
    pub prompt: PromptShape,
}

impl Setting {
    /// Creates the setting with matrix products of this precision.
    pub fn new(precision: Precision) -> Setting {
        let config = VitConfig::default();
        let weights = Vit::initial_parameters(&config, StreamKey::new(1, Domain::Init));
        let place = DeviceSpec { products: precision, ..DeviceSpec::cpu() };
        let mut setting = Setting {
            data: Arc::new(noise(CLASSES, TRAINED, TESTED, [3, config.image, config.image])),
            backbone: Arc::new(Vit::frozen_at(config, &weights, &place).expect("loads").into()),
            config,
            prompt: PromptShape { blocks: 0, length: 0, dim: 0 },
        };
        let method = method();
        setting.prompt = setting.facts().prompt_shape(method.n_blocks, method.prompt_len);
        setting
    }

    fn facts(&self) -> ModelFacts {
        ModelFacts {
            backbone: self.config.into(),
            classes: CLASSES,
            tasks: 1,
            clients: 1,
            form: WireForm::Full,
            auxiliary: None,
        }
    }

    pub fn setup(&self, workers: usize) -> Setup {
        let task_sequence =
            TaskSequence::new(CLASSES, &ClassPermutation::Native, &TaskSizes::Even(1));
        let shard = |client: u32| -> Shard { (client * SAMPLES..(client + 1) * SAMPLES).collect() };
        let ctx = RunContext {
            training: TrainingPlan { epochs: EPOCHS, ..TrainingPlan::default() },
            evaluation_batch: SAMPLES as usize,
            ..RunContext::new(
                Arc::clone(&self.backbone),
                Arc::clone(&self.data),
                task_sequence.expect("divides"),
            )
        };
        let rules = Rules {
            clients: CLIENTS,
            curve: Curve::Task,
            evaluation_batch: SAMPLES as usize,
            ..Rules::default()
        };
        let shards = vec![(0..CLIENTS).map(shard).collect()];
        let method = Arc::new(Averager::new(method(), &self.facts()));
        let setup = Setup::new("hgp", method, ctx, shards, rules);
        Setup { workers: workers.into(), ..setup }
    }
}

/// Returns the method with a short rebalancing, which is the server's own work.
fn method() -> Hgp {
    let mut method = Hgp::default();
    method.rebalancing.epochs = 1;
    method.rebalancing.samples_per_class = 16;
    method
}

/// Time of all workers together, by kind of work.
#[derive(Clone, Default)]
pub struct Spent(Arc<Mutex<BTreeMap<JobKind, u64>>>);

impl Spent {
    pub fn of(&self, kind: JobKind) -> Duration {
        let spent = self.0.lock().expect("no holder panics");
        Duration::from_nanos(spent.get(&kind).copied().unwrap_or_default())
    }
}

impl ProfileSink for Spent {
    fn record(&mut self, span: &Span) {
        if span.worker.is_some() {
            *self.0.lock().expect("no holder panics").entry(span.job).or_default() += span.wall;
        }
    }
}
