//! Local training on a frozen transformer, in packs: HGP's prefix prompt and head, and LoRA pairs with a head.

use std::sync::Arc;
use std::time::Instant;

use fedcast::data::{
    Batch, ClassPermutation, Kernel, Loader, Step as Resizing, TaskSequence, TaskSizes, Transform,
    digits,
};
use fedcast::learning::{
    Classifier, LearningError, MemberData, Optimizer, OptimizerConfig, PackBatch, PromptShape,
    TrainingPlan, TrainingReport, train_pack,
};
use fedcast::model::ops::SampleGroups;
use fedcast::model::{
    Backbone, DeviceSpec, EMBEDDED_CONFIG, LinearHead, LoraPlace, LoraShape, ParameterSet, Vit,
    VitConfig, embedded_vit,
};
use fedcast::numerics::streams::{Domain, StreamKey};

const CLASSES: usize = 10;
const BATCH: usize = 16;
const PROMPTED: usize = 5;
const PROMPT: usize = 20;
const RANK: usize = 4;

/// Parameters that a client trains in addition to its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trained {
    /// HGP's prompt: 20 prefix tokens in each of the first five blocks.
    Prompt,
    /// LoRA pairs of rank 4 at the queries and values of every block.
    Lora,
}

impl Trained {
    pub const ALL: [Trained; 2] = [Trained::Prompt, Trained::Lora];

    pub fn name(self) -> &'static str {
        match self {
            Trained::Prompt => "hgp",
            Trained::Lora => "lora",
        }
    }

    /// Returns the parameters that a client receives.
    fn received(self, vit: &VitConfig) -> ParameterSet {
        let own = match self {
            Trained::Prompt => {
                let shape =
                    PromptShape { blocks: vit.depth.min(PROMPTED), length: PROMPT, dim: vit.dim };
                shape.initial_parameters(0.02, key())
            }
            Trained::Lora => {
                let places = vec![LoraPlace::Q, LoraPlace::V];
                let (vit, blocks) = (*vit, vit.depth);
                LoraShape { vit, blocks, places, rank: RANK, tasks: None }.initial_parameters(key())
            }
        };
        let head = LinearHead::initial_parameters(CLASSES, vit.dim, key());
        own.iter().chain(head.iter()).map(|(name, p)| (Arc::clone(name), p.clone())).collect()
    }

    /// Returns the necessary multiplications and additions of a step, per image.
    ///
    /// They are the forward pass, the gradient of the input of every product with a frozen weight, and of both operands
    /// in attention. LoRA's own products are left out.
    fn flops_per_image(self, vit: &VitConfig) -> f64 {
        let VitConfig { dim, mlp, depth, .. } = *vit;
        let tokens = vit.tokens();
        let frozen = 2 * tokens * (4 * dim * dim + 2 * dim * mlp);
        let prompted = |block: usize| self == Trained::Prompt && block < PROMPTED;
        let keys = |block: usize| tokens + if prompted(block) { PROMPT / 2 } else { 0 };
        let attention = |block: usize| 2 * 2 * tokens * keys(block) * dim;
        let blocks = (0..depth).map(|block| 2 * frozen + 3 * attention(block));
        blocks.sum::<usize>() as f64
    }
}

fn key() -> StreamKey {
    StreamKey::new(1, Domain::Init)
}

/// Returns digits in the size that `vit` reads, `samples` of them from `first` on.
fn loader(vit: &VitConfig, first: usize, samples: usize) -> Result<Loader, LearningError> {
    let digits = digits::embedded()?;
    let task_sequence = TaskSequence::new(CLASSES, &ClassPermutation::Native, &TaskSizes::Even(1))?;
    let resize = Resizing::Resize { side: vit.image, kernel: Kernel::Torch };
    let channels = (vit.channels != 1).then_some(vit.channels);
    let transform = Transform { steps: vec![resize], channels, ..Transform::default() };
    let all = digits.train.len();
    let shard = (first..first + samples).map(|i| (i % all) as u32).collect();
    Ok(Loader::new(digits.train, shard, Arc::new(task_sequence), Arc::new(transform)))
}

/// One training step of a pack, ready to be repeated.
pub struct Step {
    flops_per_image: f64,
    model: Classifier,
    batch: PackBatch,
}

impl Step {
    /// Creates a step on a network of this shape with random weights.
    pub fn new(
        trained: Trained,
        vit: VitConfig,
        place: &DeviceSpec,
        pack: usize,
    ) -> Result<Step, LearningError> {
        let weights = Vit::initial_parameters(&vit, key());
        let backbone = Arc::new(Backbone::from(Vit::frozen_at(vit, &weights, place)?));
        let model = Classifier::pack(&backbone, vec![trained.received(&vit); pack], 0..CLASSES)?;
        let loader = loader(&vit, 0, pack * BATCH)?;
        let batches = loader.in_order(BATCH).collect::<Result<Vec<_>, _>>()?;
        let (groups, steps) = (SampleGroups::new(vec![BATCH; pack]), vec![0; pack]);
        let batch = PackBatch { batch: Batch::join(batches)?, groups, steps };
        Ok(Step { flops_per_image: trained.flops_per_image(&vit), model, batch })
    }

    /// Returns the number of images per step.
    pub fn images(&self) -> usize {
        self.batch.batch.len()
    }

    /// Returns the multiplications and additions per image.
    pub fn flops_per_image(&self) -> f64 {
        self.flops_per_image
    }

    fn optimizer(&self) -> Optimizer {
        OptimizerConfig::adamw(3e-3).over_pack(self.model.vars(), self.model.members())
    }

    fn take(&self, optimizer: &mut Optimizer) -> Result<(), LearningError> {
        let device = &self.model.backbone().place().device;
        let losses = self.model.pack_losses(&self.batch, device, None)?;
        optimizer.step(&losses.backward()?, 3e-3, 1.0)
    }
}

/// Takes two steps, for a profiler.
pub fn two(step: &Step) -> Result<(), LearningError> {
    let mut optimizer = step.optimizer();
    step.take(&mut optimizer)?;
    step.take(&mut optimizer)?;
    Ok(step.model.backbone().place().device.synchronize()?)
}

/// Returns the images per second, including their uploads; the best of three repetitions.
pub fn images_per_second(step: &Step) -> Result<f64, LearningError> {
    const STEPS: usize = 5;
    let mut optimizer = step.optimizer();
    let device = &step.model.backbone().place().device;
    let mut turn = |steps: usize| -> Result<f64, LearningError> {
        let start = Instant::now();
        for _ in 0..steps {
            step.take(&mut optimizer)?;
        }
        device.synchronize()?;
        Ok((steps * step.images()) as f64 / start.elapsed().as_secs_f64())
    };
    // Loads the kernels and fills the memory pool.
    turn(2)?;
    let mut best = 0f64;
    for _ in 0..3 {
        best = best.max(turn(STEPS)?);
    }
    Ok(best)
}

/// Trained values and losses of eight clients.
pub struct Learned {
    /// Number of steps of each client.
    pub steps: u64,
    values: Vec<f32>,
    losses: Vec<f64>,
}

impl Learned {
    /// Returns the largest difference of epoch losses.
    pub fn loss_distance(&self, other: &Learned) -> f64 {
        let each = self.losses.iter().zip(&other.losses);
        each.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
    }

    /// Returns the largest difference of trained values.
    pub fn largest_distance(&self, other: &Learned) -> f64 {
        self.distances(other).fold(0.0, f64::max)
    }

    /// Returns the mean difference of trained values.
    pub fn mean_distance(&self, other: &Learned) -> f64 {
        self.distances(other).sum::<f64>() / self.values.len() as f64
    }

    fn distances(&self, other: &Learned) -> impl Iterator<Item = f64> {
        self.values.iter().zip(&other.values).map(|(a, b)| f64::from((a - b).abs()))
    }
}

/// Trains eight clients of the embedded network for two epochs of three batches, in one pack.
pub fn learned(trained: Trained, place: &DeviceSpec) -> Result<Learned, LearningError> {
    const CLIENTS: usize = 8;
    let backbone = Arc::new(Backbone::from(embedded_vit()?).to_device(place)?);
    let received = vec![trained.received(&EMBEDDED_CONFIG); CLIENTS];
    let model = Classifier::pack(&backbone, received, 0..CLASSES)?;
    let size = 3 * BATCH;
    let loaders = (0..CLIENTS).map(|client| loader(&EMBEDDED_CONFIG, client * size, size));
    let loaders = loaders.collect::<Result<Vec<_>, _>>()?;
    let courses: Vec<MemberData<'_>> = (loaders.iter().zip(0..))
        .map(|(loader, client)| MemberData { loader, key: key().client(client) })
        .collect();
    let plan = TrainingPlan { epochs: 2, batch: BATCH, ..TrainingPlan::default() };
    let mut optimizer = plan.optimizer.clone().over_pack(model.vars(), CLIENTS);
    let reports = train_pack(&plan, &mut optimizer, model.variables(), &courses, |step| {
        model.pack_losses(step, &place.device, None)
    })?;
    let reports = reports.into_iter().collect::<Result<Vec<TrainingReport>, _>>()?;
    let mut values = Vec::new();
    for set in model.pack_parameters()? {
        set.iter().for_each(|(_, parameter)| values.extend_from_slice(&parameter.values));
    }
    let losses = reports.iter().flat_map(|report| report.epoch_losses.clone()).collect();
    Ok(Learned { steps: reports[0].steps, values, losses })
}
