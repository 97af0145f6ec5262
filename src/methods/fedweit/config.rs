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
    /// Rows of the head are shared by their position within a task; biases are the client's own.
    Head,
}

/// Base in the weights of earlier tasks from which the drift is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum DriftStart {
    /// Client's own base, before it takes over the received one.
    Own,
    /// Base received in the first round of the task.
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
    /// L1 weight of adaptive parts, and the size that a value must exceed not to count as 0 (`lambda_1`).
    #[key(default = 1e-3, at_least = 0.0, source = CODE)]
    pub sparsity: f64,
    /// Weight of the squared change of earlier tasks' weights since the start of the task (`lambda_2`).
    #[key(default = 100.0, at_least = 0.0, source = CODE)]
    pub drift: f64,
    /// Base in the weights of earlier tasks from which the drift is measured.
    #[key(default = DriftStart::Own, source = CODE)]
    pub drift_start: DriftStart,
    /// True to keep training adaptive parts and masks of earlier tasks.
    #[key(default = false, source = "the release; true in the paper")]
    pub retroactive: bool,
    /// Weight decay of adaptive parts and masks, and of the base in a client's first task.
    #[key(default = 1e-4, at_least = 0.0, source = CODE)]
    pub decay: f64,
    /// Fraction of a layer's output units that are not sent: those with the smallest masks.
    #[key(default = 0.3, at_least = 0.0, below = 1.0, source = CODE)]
    pub dropped: f64,
    /// Factor on the client's first base that gives the initial values of adaptive parts.
    #[key(default = 1.0 / 3.0, at_least = 0.0, source = CODE)]
    pub adaptive_start: f64,
    /// Start values of a linear head.
    #[key(default = HeadStart::Uniform, source = "PyTorch")]
    pub head_init: HeadStart,
    /// Fraction of a client's samples of each class that are held out to control its learning rate.
    #[key(
        default = 0.125,
        at_least = 0.0,
        at_most = 0.5,
        source = "the release: 70 % train, 10 % validate"
    )]
    pub validation: f64,
    /// Number of rounds without a lower validation loss after which a client's learning rate falls.
    #[key(default = 3, at_least = 1.0, source = CODE)]
    pub patience: u32,
    /// Divisor of a client's learning rate each time that `patience` runs out.
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
