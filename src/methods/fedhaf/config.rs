//! The settings of FedHAF.

use clap::ValueEnum;

use super::{ModuleShape, NetworkShape, Norms, Residual};
use crate::learning::Herding;
use crate::methods::HeadForm;
use crate::methods::fedavg::Weights;
use crate::policy::ModelFacts;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// Which outputs compete in the cross-entropy of new samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Supervision {
    /// Outputs of the current task (head splitting).
    Split,
    /// Outputs of all classes seen (the ablation "w/o CE").
    All,
}

impl Choice for Supervision {}

/// How a client trains from the second task on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stages {
    /// First the head, then the module.
    Two,
    /// Both at once, on the sum of all losses (ablation).
    One,
}

impl Choice for Stages {}

/// How the module's losses take the squares of a feature's entries together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Squares {
    /// Their mean over the width, as a mean squared error has it.
    Mean,
    /// Their sum, as printed.
    Sum,
}

impl Choice for Squares {}

/// The `[method]` table of FedHAF.
#[derive(Clone, Debug, PartialEq)]
pub struct FedHafConfig {
    /// Whether there is a module between features and head.
    pub module: bool,
    /// Width of the module's first two layers.
    pub module_hidden: u32,
    /// Width of what the module gives.
    pub module_width: u32,
    /// Width of the head's hidden layer.
    pub head_hidden: u32,
    /// Where the module adds its input.
    pub residual: Residual,
    /// Share of entries dropped in training.
    pub dropout: f64,
    /// Moments of the module's batch norms after the first task.
    pub norms: Norms,
    /// Squares of features in the module's losses.
    pub squares: Squares,
    /// Two stages or one.
    pub stages: Stages,
    /// Epochs of the second stage; those of `[client]` where not given.
    pub module_epochs: Option<u32>,
    /// Which outputs compete.
    pub supervision: Supervision,
    /// Whether exemplars have a cross-entropy, over all classes seen.
    pub exemplars_in_ce: bool,
    /// Factor on the cross-entropy.
    pub lambda_ce: f64,
    /// Factor on the distillation of old outputs.
    pub lambda_kd: f64,
    /// Factor on the distillation of features.
    pub lambda_fd: f64,
    /// Factor on the balance of feature norms.
    pub lambda_fb: f64,
    /// Share of the samples of a class that a client keeps.
    pub retention: f64,
    /// Which of them.
    pub herding: Herding,
    /// How much a client counts.
    pub weights: Weights,
    /// Which head rows messages carry.
    pub head: HeadForm,
}

impl Default for FedHafConfig {
    fn default() -> Self {
        defaults(FedHafConfig::read)
    }
}

impl FedHafConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedHafConfig {
        let width = |name, default, doc| {
            Param::new(name, default, doc).source("Table 6").at_least(1.0).at_most(65_536.0)
        };
        let factor = |name, default, doc| {
            Param::new(name, default, doc).source("section 4.1").at_least(0.0).at_most(1e6)
        };
        let module = Param::new("module", true, "the feature adjustment module");
        let residual =
            Param::new("residual", Residual::Identity, "where the module adds its input").source(
                "Table 6 has a \"residual add\" that fits no place; around a layer of equal widths",
            );
        let dropout = Param::new("dropout", 0.1, "share of entries dropped in training")
            .source("not in the paper")
            .at_least(0.0)
            .below(1.0);
        let norms =
            Param::new("norms", Norms::Settled, "moments in the module after the first task");
        let squares = Param::new("squares", Squares::Mean, "squares in the module's losses")
            .source("equations 2 and 3 have the sum, which at a rate of 0.02 is no longer stable");
        let stages = Param::new("stages", Stages::Two, "how a client trains after the first task");
        let module_epochs = Param::unset("module_epochs", "epochs of the module's stage");
        let supervision = Param::new("supervision", Supervision::Split, "outputs that compete");
        let exemplars_in_ce =
            Param::new("exemplars_in_ce", true, "cross-entropy of exemplars over all seen classes")
                .source("algorithm 1 and section 3.3; equation 4 has new samples only");
        let retention = Param::new("retention", 0.2, "share of a class that a client keeps")
            .source("section 4.1")
            .at_least(0.0)
            .at_most(1.0);
        let herding = Param::new("herding", Herding::Nearest, "which samples of a class are kept");
        let weights = Param::new("weights", Weights::BySamples, "how much a client counts");
        let head = Param::new("head", HeadForm::Fixed, "head rows in messages");
        FedHafConfig {
            module: table.get(&module),
            module_hidden: table.get(&width("module_hidden", 512, "width inside the module")),
            module_width: table.get(&width("module_width", 256, "width of an adjusted feature")),
            head_hidden: table.get(&width("head_hidden", 128, "width inside the head")),
            residual: table.get(&residual),
            dropout: table.get(&dropout),
            norms: table.get(&norms.source("not in the paper")),
            squares: table.get(&squares),
            stages: table.get(&stages),
            module_epochs: table.optional(&module_epochs.at_least(1.0)),
            supervision: table.get(&supervision.source("head splitting, section 3.3")),
            exemplars_in_ce: table.get(&exemplars_in_ce),
            lambda_ce: table.get(&factor("lambda_ce", 1.0, "factor on the cross-entropy")),
            lambda_kd: table.get(&factor("lambda_kd", 1.0, "factor on output distillation")),
            lambda_fd: table.get(&factor("lambda_fd", 2.0, "factor on feature distillation")),
            lambda_fb: table.get(&factor("lambda_fb", 1.0, "factor on feature balance")),
            retention: table.get(&retention),
            herding: table.get(&herding.source("equation 6")),
            weights: table.get(&weights.source("section 3.5")),
            head: table.get(&head),
        }
    }

    /// The networks for a model of these dimensions.
    pub fn shape(&self, facts: &ModelFacts) -> NetworkShape {
        let module = ModuleShape {
            hidden: self.module_hidden as usize,
            output: self.module_width as usize,
            residual: self.residual,
        };
        NetworkShape {
            features: facts.backbone.dim(),
            module: self.module.then_some(module),
            head_hidden: self.head_hidden as usize,
            classes: facts.classes,
        }
    }
}
