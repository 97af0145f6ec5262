//! Keys of the `[method]` table of FedCIL.

use clap::ValueEnum;

use super::losses::ConsistencyWeights;
use crate::learning::optimizer::{Adam, Decay};
use crate::learning::{OptimizerConfig, TrainingPlan};
use crate::methods::averaging::ClientWeighting;
use crate::model::{AcGanConfig, GanForm};
use crate::policy::ModelFacts;
use crate::scenario::reader::{Choice, Keys};

/// Source of most defaults.
const RELEASE: &str = "the release";
/// Source of the defaults of the consistency weights.
const UNWEIGHTED: &str = "the release, which multiplies the paper's term by 0";
/// Upper bound of the keys for steps, batch size and noise width.
const LARGEST: f64 = 100_000.0;

/// Generator that replays the classes of earlier tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum LastGenerator {
    /// Generator that the client trained last in an earlier task, for classes that it has trained.
    Own,
    /// Generator of the server at the end of the task before, for all classes seen before.
    ///
    /// Every client downloads it once per task.
    Server,
}

/// Time over which the moments of a client's optimizers last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum MomentSpan {
    /// All rounds of a task.
    Task,
    /// All rounds of the run.
    Run,
    /// One round.
    Round,
}

/// Keys of the `[method]` table of FedCIL.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct FedCil {
    /// Weight of a client in the mean.
    #[key(default = ClientWeighting::BySamples, source = RELEASE)]
    pub client_weighting: ClientWeighting,
    /// Architecture of generator and discriminator.
    #[key(default = GanForm::Cifar, source = "the release on CIFAR-10; mnist on MNIST and EMNIST")]
    pub gan: GanForm,
    /// Divisor of the channels of all hidden layers, for small images.
    #[key(default = 1, at_least = 1.0, at_most = 16.0, source = RELEASE)]
    pub channel_divisor: u32,
    /// Number of training batches of a client per round, in place of `client.epochs`; the release has 400.
    #[key(at_least = 1.0)]
    pub steps: Option<u32>,
    /// Size of the generator's noise vector, whose first entries hold the class, one-hot.
    ///
    /// It must exceed the number of classes: with 100 classes, 110 entries leave 10 for noise.
    #[key(
        default = 110,
        at_least = 2.0,
        at_most = LARGEST,
        source = "the release; 126 on EMNIST"
    )]
    pub noise: u32,
    /// Dropout rate of the discriminator, with `gan = "cifar"`.
    #[key(default = 0.5, at_least = 0.0, below = 1.0, source = RELEASE)]
    pub dropout: f64,
    /// Weight of the current task in the discriminator's loss; replayed images get the rest.
    #[key(default = 0.5, at_least = 0.0, at_most = 1.0, source = RELEASE)]
    pub new_weight: f64,
    /// Generator that replays the classes of earlier tasks.
    #[key(default = LastGenerator::Own, source = RELEASE)]
    pub last_generator: LastGenerator,
    /// Time over which the moments of a client's optimizers last.
    #[key(default = MomentSpan::Task, source = "the release on CIFAR-10; run on MNIST and EMNIST")]
    pub moments: MomentSpan,
    /// Weights of the agreement with the server's generator.
    #[key(flatten)]
    pub consistency: ConsistencySettings,
    /// Training of the averaged networks at the server.
    #[key(flatten)]
    pub server: FineTuning,
}

/// Weights of the agreement with the server's generator, from the second round of a task on.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
pub struct ConsistencySettings {
    /// Weight of the divergence of predictions for real and generated images of equal classes (`K1`).
    #[key(name = "real_consistency", default = 0.0, at_least = 0.0, source = UNWEIGHTED)]
    pub real: f64,
    /// Weight of the divergence of predictions for the client's and the server's generated images (`K2`).
    #[key(name = "generated_consistency", default = 0.0, at_least = 0.0, source = UNWEIGHTED)]
    pub generated: f64,
    /// Weight of the cross-entropy of predictions for the server's generated images (`K3`).
    #[key(name = "server_images", default = 0.0, at_least = 0.0, source = UNWEIGHTED)]
    pub labels: f64,
}

/// Training of the averaged networks on images of the clients' generators.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct FineTuning {
    /// Number of training steps at the server after every aggregation; 0 only averages.
    #[key(name = "server_steps", default = 100, at_most = LARGEST, source = RELEASE)]
    pub steps: u32,
    /// Number of images in a step, and of images that each client's generator makes for it.
    #[key(name = "server_batch", default = 32, at_least = 2.0, at_most = LARGEST, source = RELEASE)]
    pub batch: u32,
    /// Learning rate, by Adam.
    #[key(
        name = "server_lr",
        default = 2e-4,
        above = 0.0,
        source = "the release on CIFAR-10; 1e-4 on MNIST and EMNIST"
    )]
    pub rate: f64,
    /// Decay rates of Adam's moments, which last for the whole run.
    #[key(
        name = "server_betas",
        default = [0.5, 0.999],
        at_least = 0.0,
        below = 1.0,
        source = "the release on CIFAR-10; 0.5 and 0.99 on MNIST and EMNIST"
    )]
    pub betas: [f64; 2],
    /// Weight decay in the gradient.
    #[key(
        name = "server_weight_decay",
        default = 0.0,
        at_least = 0.0,
        source = "the release on CIFAR-10; 1e-5 on MNIST and EMNIST"
    )]
    pub weight_decay: f64,
}

impl FedCil {
    /// Returns the dimensions of both networks for a model's images and classes.
    pub fn config(&self, model: &ModelFacts) -> AcGanConfig {
        let [channels, image, _] = model.backbone.input();
        AcGanConfig {
            form: self.gan,
            noise: self.noise as usize,
            classes: model.classes,
            channels,
            image,
            divisor: self.channel_divisor as usize,
        }
    }

    /// Returns the plan of a client's training, with the method's number of steps if it sets one.
    pub(super) fn plan(&self, plan: &TrainingPlan) -> TrainingPlan {
        TrainingPlan { steps: self.steps.map(u64::from).or(plan.steps), ..plan.clone() }
    }

    /// Returns true if clients keep nothing between rounds.
    pub fn is_stateless(&self) -> bool {
        self.last_generator == LastGenerator::Server && self.moments == MomentSpan::Round
    }

    /// Returns true if the server trains the averaged networks on images of all clients' generators.
    pub(super) fn fine_tunes(&self) -> bool {
        self.server.steps > 0
    }
}

impl ConsistencySettings {
    /// Returns the weights in a round of a task, from 0; `None` in the first one, or if all are 0.
    pub(super) fn weights(&self, round: u32) -> Option<ConsistencyWeights> {
        let ConsistencySettings { real, generated, labels } = *self;
        let weighs = round > 0 && [real, generated, labels].iter().any(|weight| *weight > 0.0);
        weighs.then_some(ConsistencyWeights { real, generated, labels })
    }
}

impl FineTuning {
    /// Returns the optimizer of both networks at the server.
    pub(super) fn optimizer(&self) -> OptimizerConfig {
        let [beta1, beta2] = self.betas;
        OptimizerConfig::Adam(Adam {
            learning_rate: self.rate,
            beta1,
            beta2,
            weight_decay: self.weight_decay,
            decay: Decay::Coupled,
            ..Adam::default()
        })
    }
}
