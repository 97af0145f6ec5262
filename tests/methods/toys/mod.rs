//! A tiny world, and toy methods, for tests of policies.

pub mod nearest_mean;
pub mod personal;
pub mod poison;

pub mod two_phase;
pub mod visits;
pub mod watched;

use std::ops::Range;
use std::sync::Arc;

use fedcast::data::{ClassPermutation, Dataset, Shard, Split, TaskSequence, TaskSizes, TaskView};
use fedcast::learning::{OptimizerConfig, TrainingPlan};
use fedcast::model::{Backbone, Vit, VitConfig};
use fedcast::numerics::distributions::{standard_normal, uniform};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{ClassCounts, ExchangeFacts, ModelFacts, RunContext, WireForm};

pub const CLASSES: usize = 6;
pub const TRAIN_PER_CLASS: usize = 24;
const TEST_PER_CLASS: usize = 10;

/// Two blocks of width 16 on gray images of 8 x 8.
pub fn config() -> VitConfig {
    VitConfig {
        image: 8,
        patch: 4,
        channels: 1,
        dim: 16,
        depth: 2,
        heads: 2,
        mlp: 32,
        ..VitConfig::default()
    }
}

pub fn facts() -> ModelFacts {
    ModelFacts {
        backbone: config().into(),
        classes: CLASSES,
        tasks: 3,
        clients: 2,
        form: WireForm::Full,
        auxiliary: None,
    }
}

/// An exchange of a task's first phase, in its first round.
pub fn first_exchange<'a>(
    model: &'a ModelFacts,
    view: &'a Arc<TaskView>,
    counts: &'a ClassCounts,
) -> ExchangeFacts<'a> {
    ExchangeFacts {
        model,
        view,
        stage: view.task,
        phase: 0,
        round_in_phase: 0,
        role: Default::default(),
        counts,
    }
}

/// A class is a random picture; a sample is the picture with noise. Sample `i` is of class
/// `i % CLASSES`.
fn dataset() -> Dataset {
    let key = StreamKey::new(11, Domain::Drawing);
    let pictures: Vec<Vec<f64>> = (0..CLASSES)
        .map(|class| {
            let mut rng = key.step(class as u64).rng();
            (0..64).map(|_| uniform(&mut rng, 40.0, 215.0)).collect()
        })
        .collect();
    let split = |per_class: usize, client: u32| {
        let labels: Vec<u32> = (0..per_class * CLASSES).map(|i| (i % CLASSES) as u32).collect();
        let mut rng = key.client(client).rng();
        let bytes = labels.iter().flat_map(|class| &pictures[*class as usize]);
        let bytes = bytes.map(|value| (value + 30.0 * standard_normal(&mut rng)) as u8).collect();
        Arc::new(Split::from_buffer(bytes, [1, 8, 8], labels, CLASSES).unwrap())
    };
    Dataset {
        name: "pictures".into(),
        class_names: (0..CLASSES).map(|class| format!("picture {class}")).collect(),
        train: split(TRAIN_PER_CLASS, 1),
        test: split(TEST_PER_CLASS, 2),
        notes: Vec::new(),
    }
}

/// Context in which `tasks` tasks arrive.
pub fn run_context(tasks: usize, order: ClassPermutation) -> RunContext {
    let parameters = Vit::initial_parameters(&config(), StreamKey::new(3, Domain::Init));
    // Wider than timm's start: a network that has not been pretrained must still distinguish pictures
    // apart.
    let wider = parameters.iter().map(|(name, parameter)| {
        let mut parameter = parameter.clone();
        if name.ends_with("weight") && !name.contains("norm") && name.starts_with("blocks") {
            parameter.values = parameter.values.iter().map(|v| 8.0 * v).collect();
        }
        (Arc::clone(name), parameter)
    });
    let vit = Vit::from_parameters(config(), &wider.collect()).unwrap();
    let task_sequence = TaskSequence::new(CLASSES, &order, &TaskSizes::Even(tasks as u32)).unwrap();
    RunContext {
        training: plan(OptimizerConfig::adamw(1e-2)),
        evaluation_batch: 16,
        ..RunContext::new(Backbone::from(vit), dataset(), task_sequence)
    }
}

pub fn plan(optimizer: OptimizerConfig) -> TrainingPlan {
    TrainingPlan { epochs: 2, batch: 8, optimizer, clip: Some(1.0), ..TrainingPlan::default() }
}

/// The training samples of a task, dealt to `clients` in turn within each class.
pub fn deal(ctx: &RunContext, view: &TaskView, clients: usize) -> Vec<Shard> {
    let by_class = ctx.dataset.train.by_class();
    let of_client = |client: usize| -> Shard {
        let mut own: Vec<u32> = view
            .classes
            .iter()
            .flat_map(|class| by_class[*class as usize].iter().skip(client).step_by(clients))
            .copied()
            .collect();
        own.sort_unstable();
        own.into()
    };
    (0..clients).map(of_client).collect()
}

/// Values of a named tensor in a body, rows `rows` of width `width`.
pub fn rows_of(
    body: &fedcast::wire::Body,
    kind: fedcast::wire::Kind,
    name: &str,
    rows: Range<usize>,
) -> Vec<u32> {
    let tensor = body.tensor(kind, name).unwrap();
    let width: usize = tensor.shape()[1..].iter().product();
    let values = &tensor.as_f32().unwrap()[rows.start * width..rows.end * width];
    values.iter().map(|value| value.to_bits()).collect()
}
