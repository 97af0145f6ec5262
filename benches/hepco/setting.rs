//! The second of ten tasks on CIFAR-100 and ViT-Tiny: five clients of 300 images each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use candle_core::Device;
use fedcast::data::{
    ClassPermutation, Dataset, Loader, Shard, TaskSequence, TaskSizes, TaskView, Transform,
};
use fedcast::learning::{Classifier, MemberData, OptimizerConfig, TrainingPlan, train_pack};
use fedcast::methods::fedavg_prompt::{PoolShape, WeightedPool};
use fedcast::methods::hepco::Hepco;
use fedcast::methods::hepco::consolidation::{Consolidation, Local, Previous};
use fedcast::model::{Backbone, FrozenPart, LinearHead, Parameter, ParameterSet, Vit, VitConfig};
use fedcast::numerics::distributions::standard_normal;
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{ModelFacts, WireForm};

use crate::figures::noise;

const CLASSES: usize = 100;
pub const CLIENTS: u32 = 5;
/// Number of samples per client: six classes of fifty.
pub const SAMPLES: u32 = 300;
/// Number of epochs per round.
pub const EPOCHS: u32 = 10;

/// Data shared by all measurements.
pub struct Setting {
    config: Hepco,
    shape: PoolShape,
    vit: VitConfig,
    view: Arc<TaskView>,
    data: Dataset,
    task_sequence: Arc<TaskSequence>,
    server: ParameterSet,
    clients: Vec<Local>,
    previous: Previous,
}

/// Durations of the parts of a server step.
pub struct Parts {
    pub generators: Duration,
    pub prompts: Duration,
    pub head: Duration,
}

impl Parts {
    pub fn all(&self) -> Duration {
        self.generators + self.prompts + self.head
    }
}

fn key(place: u32) -> StreamKey {
    StreamKey::new(1, Domain::Method).client(place)
}

impl Setting {
    pub fn new(vit: VitConfig) -> Setting {
        let facts = ModelFacts {
            backbone: vit.into(),
            classes: CLASSES,
            tasks: 1,
            clients: 1,
            form: WireForm::Full,
            auxiliary: None,
        };
        let config = Hepco::default();
        let shape = config.client.pools(&facts);
        let task_sequence =
            TaskSequence::new(CLASSES, &ClassPermutation::Native, &TaskSizes::Even(10));
        let task_sequence = Arc::new(task_sequence.expect("divides"));
        let mut server = shape.initial_parameters(key(0), 1.0);
        let head = LinearHead::initial_parameters(CLASSES, shape.dim, key(1));
        head.iter()
            .for_each(|(name, parameter)| server.insert(Arc::clone(name), parameter.clone()));
        let counts = |from: usize| -> Vec<u32> {
            let held = from..from + 6;
            (0..CLASSES).map(|row| 50 * u32::from(held.contains(&row))).collect()
        };
        let local = |client: u32| Local {
            parameters: Arc::new(near(&server, key(2 + client))),
            counts: counts(10 + client as usize % 5),
        };
        let previous = Previous {
            parameters: near(&server, key(20)),
            counts: counts(2).into_iter().map(u64::from).collect(),
        };
        Setting {
            clients: (0..CLIENTS).map(local).collect(),
            view: Arc::clone(&task_sequence.tasks[1]),
            data: noise(CLASSES, 50 * CLASSES as u32, 0, [3, vit.image, vit.image]),
            config,
            shape,
            vit,
            task_sequence,
            previous,
            server,
        }
    }

    /// Measures one server step, part by part.
    pub fn server_step(&self) -> Parts {
        let start = Instant::now();
        let (settings, previous) = ((&self.config.server, self.shape), Some(&self.previous));
        let made = Consolidation::new(
            settings,
            &self.view,
            &self.server,
            &self.clients,
            previous,
            key(40),
        );
        let step = made.expect("fits").expect("clients have samples");
        let generators = step.generators().expect("finite");
        let after_generators = start.elapsed();
        step.prompts(&generators).expect("finite");
        let after_prompts = start.elapsed();
        step.head(&generators).expect("finite");
        Parts {
            generators: after_generators,
            prompts: after_prompts - after_generators,
            head: start.elapsed() - after_prompts,
        }
    }

    /// Measures one epoch of one client on one thread, with known queries.
    pub fn client_epoch(&self) -> Duration {
        let weights = Vit::initial_parameters(&self.vit, key(60));
        let vit = Vit::from_parameters(self.vit, &weights).expect("loads");
        let backbone = Arc::new(Backbone::from(vit));
        let rows = self.view.rows.clone();
        let received = vec![self.server.clone()];
        let pool = Some(Arc::new(WeightedPool { blocks: self.shape.blocks }) as _);
        let model = Classifier::pack_with(&backbone, received, rows, pool).expect("fits");
        let of_task = |sample: &u32| self.view.classes[..6].contains(&(sample % CLASSES as u32));
        let shard: Shard = (0..50 * CLASSES as u32).filter(of_task).collect();
        assert_eq!(shard.len(), SAMPLES as usize);
        let loader = Loader::new(
            Arc::clone(&self.data.train),
            Arc::clone(&shard),
            Arc::clone(&self.task_sequence),
            Arc::new(Transform::default()),
        );
        let mut queries = Vec::new();
        for batch in loader.in_order(SAMPLES as usize) {
            let pixels = batch.and_then(|batch| batch.pixels(&Device::Cpu)).expect("in memory");
            let found = backbone.frozen(&pixels, FrozenPart::Whole).expect("fits");
            queries
                .extend(found.flatten_all().and_then(|t| t.to_vec1::<f32>()).expect("on the host"));
        }
        let rows = fedcast::data::HeldRows::new(&shard, vec![self.shape.dim], queries);
        let loader = loader.with_queries(Arc::new(rows));
        let rule = OptimizerConfig::adamw(1e-3);
        let plan = TrainingPlan {
            epochs: 1,
            batch: 64,
            optimizer: rule.clone(),
            clip: None,
            ..TrainingPlan::default()
        };
        let mut optimizer = rule.over_pack(model.vars(), 1);
        let courses = [MemberData { loader: &loader, key: key(61) }];
        let start = Instant::now();
        train_pack(&plan, &mut optimizer, model.variables(), &courses, |step| {
            model.pack_losses(step, &Device::Cpu, None)
        })
        .expect("trains");
        start.elapsed()
    }
}

/// Returns the model with every value slightly changed.
fn near(of: &ParameterSet, key: StreamKey) -> ParameterSet {
    let mut rng = key.rng();
    let moved = of.iter().map(|(name, parameter)| {
        let values = parameter.values.iter().map(|v| v + 0.01 * standard_normal(&mut rng) as f32);
        let values = values.collect();
        (Arc::clone(name), Parameter { shape: parameter.shape.clone(), values })
    });
    moved.collect()
}
