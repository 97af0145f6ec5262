//! Settings of FedWEIT: defaults are those of the release.

use clap::ValueEnum;

use crate::methods::Requirement;
use crate::model::HeadStart;
use crate::scenario::reader::{Choice, Keys};

/// Layers whose weights are split into a base and adaptive parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum SplitLayers {
    /// All convolutions and linear layers of the backbone.
    ///
    /// Biases, norms and a head per task are the client's own.
    Network,
    /// The head of a task, on frozen features.
    ///
    /// Its rows are those of any task by their place in it; biases are the client's own.
    Head,
}

/// Base with which the weights of earlier tasks are composed that a client must not leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum DriftStart {
    /// The client's own base, before it takes over the base received.
    Own,
    /// The base received in the first round of the task.
    Received,
}

/// Source of the defaults.
const CODE: &str = "the release";

/// Keys of the `[method]` table of FedWEIT.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct FedWeit {
    /// Layers whose weights are split into a base and adaptive parts.
    #[key(default = SplitLayers::Network, source = CODE)]
    pub train: SplitLayers,
    /// Weight of the sum of absolute adaptive parts, and the size above which numbers stay (`lambda_1`).
    #[key(default = 1e-3, at_least = 0.0, source = CODE)]
    pub sparsity: f64,
    /// Weight of the distance of earlier tasks' weights from those at the start of the task (`lambda_2`).
    #[key(default = 100.0, at_least = 0.0, source = CODE)]
    pub drift: f64,
    /// Base with which the weights of earlier tasks at the start of the task are composed.
    #[key(default = DriftStart::Own, source = CODE)]
    pub drift_start: DriftStart,
    /// True if adaptive parts and masks of earlier tasks go on training.
    #[key(default = false, source = "the release; true in the paper")]
    pub retroactive: bool,
    /// Weight decay of adaptive parts and masks, and of the base in a client's first task.
    #[key(default = 1e-4, at_least = 0.0, source = CODE)]
    pub decay: f64,
    /// Fraction of the units of a layer that are not sent, those with the smallest masks.
    #[key(default = 0.3, at_least = 0.0, below = 1.0, source = CODE)]
    pub dropped: f64,
    /// Start values of adaptive parts, as a fraction of the client's first base.
    #[key(default = 1.0 / 3.0, at_least = 0.0, source = CODE)]
    pub adaptive_start: f64,
    /// Start values of a linear head.
    #[key(default = HeadStart::Uniform, source = "PyTorch")]
    pub head_init: HeadStart,
    /// Fraction of a client's samples of a class that decide on its learning rate and do not train.
    #[key(
        default = 0.125,
        at_least = 0.0,
        at_most = 0.5,
        source = "the release: 70 % train, 10 % validate"
    )]
    pub validation: f64,
    /// Rounds without a better validation loss after which the learning rate of a client falls.
    #[key(default = 3, at_least = 1.0, source = CODE)]
    pub patience: u32,
    /// Divisor of the learning rate then.
    #[key(default = 3.0, at_least = 1.0, source = CODE)]
    pub lr_divisor: f64,
}

impl FedWeit {
    /// Returns the method's requirements on a scenario.
    pub(super) fn requirements(&self) -> Vec<Requirement> {
        let why = "clients keep the parts of all their tasks, but fresh clients have none";
        let mut requirements = vec![Requirement::returning_clients(why, None)];
        match self.train {
            SplitLayers::Network => {
                requirements.push(Requirement::trainable_backbone("`method.train = \"head\"`"));
            }
            SplitLayers::Head => requirements.push(super::requirements::equal_tasks()),
        }
        requirements
    }
}
