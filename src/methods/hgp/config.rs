//! The settings of HGP: every default is the paper's or its public code's, as noted.

use clap::ValueEnum;

use crate::methods::HeadForm;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// How the prompt starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PromptInit {
    /// All zeros.
    ///
    /// Not neutral: a zero key takes attention, too.
    Zeros,
    /// Normal with standard deviation 0.02.
    Normal,
}

impl Choice for PromptInit {}

/// What the Gaussian of a class remembers of its features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CovarianceForm {
    /// One variance per dimension.
    Diagonal,
    /// The whole matrix; no gain, says the paper.
    Full,
}

impl Choice for CovarianceForm {}

/// Which classes the server rebalances the head over after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rebalance {
    /// The head stays as averaged.
    None,
    /// Classes of earlier tasks, among themselves.
    ///
    /// The ablation's CR_old.
    Old,
    /// Classes of the current task, among themselves.
    ///
    /// The ablation's CR_cur.
    Current,
    /// All classes seen.
    Both,
}

impl Choice for Rebalance {}

/// What rebalancing minimises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RebalanceLoss {
    /// Cross-entropy of z / (|z| tau).
    Normalised,
    /// Cross-entropy of z.
    Plain,
}

impl Choice for RebalanceLoss {}

/// How often each class is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Omega {
    /// Every class equally often.
    Uniform,
    /// By the class's share of the samples behind the Gaussians.
    Share,
}

impl Choice for Omega {}

/// How long the server keeps a client's Gaussian of the current task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Memory {
    /// Until anybody describes the class anew.
    Round,
    /// Until the same client describes the class anew.
    Task,
}

impl Choice for Memory {}

/// The `[method]` table of HGP.
#[derive(Clone, Debug, PartialEq)]
pub struct HgpConfig {
    /// Whether there is a prompt; without one only the head is learnt.
    pub prompt: bool,
    /// Rows of the prompt in a block, half keys and half values.
    pub prompt_len: u32,
    /// How many blocks, from the first, have a prompt; at most the depth of the backbone.
    pub n_blocks: u32,
    /// How the prompt starts.
    pub init: PromptInit,
    /// Which head rows messages carry.
    pub head: HeadForm,
    /// What the Gaussians remember.
    pub covariance: CovarianceForm,
    /// What covariances are multiplied by before features are drawn.
    pub cov_scale: f64,
    /// How long Gaussians of the current task are kept.
    pub memory: Memory,
    /// Which classes the head is rebalanced over.
    pub rebalance: Rebalance,
    /// How often each class is drawn.
    pub omega: Omega,
    /// Features drawn per class and epoch.
    pub samples_per_class: u32,
    /// Epochs of rebalancing; each draws afresh.
    pub rebalance_epochs: u32,
    /// Features per step of rebalancing.
    pub rebalance_batch: u32,
    /// Learning rate at the start of the cosine.
    pub rebalance_lr: f64,
    /// Momentum of the rebalancing SGD.
    pub rebalance_momentum: f64,
    /// What rebalancing minimises.
    pub rebalance_loss: RebalanceLoss,
    /// Temperature of the normalised logits.
    pub tau: f64,
}

impl Default for HgpConfig {
    fn default() -> Self {
        defaults(HgpConfig::read)
    }
}

impl HgpConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> HgpConfig {
        let code = "public code";
        let prompt = table.get(
            &Param::new("prompt", true, "learn a prefix prompt; without one only the head")
                .source("ablation of the paper"),
        );
        let prompt_len: u32 = table.get(
            &Param::new("prompt_len", 200, "rows of a block's prompt, half keys, half values")
                .source(code)
                .at_least(2.0),
        );
        if !prompt_len.is_multiple_of(2) {
            let message = format!("a prompt of {prompt_len} rows has no two halves");
            table.reject("prompt_len", &message, "odd", "give an even number of rows");
        }
        let n_blocks =
            Param::new("n_blocks", 5, "prompted blocks from the first on, at most the depth");
        let init = Param::new("init", PromptInit::Zeros, "how the prompt starts").source(code);
        let head = Param::new("head", HeadForm::Fixed, "head rows in messages").source("paper");
        let covariance =
            Param::new("covariance", CovarianceForm::Diagonal, "what Gaussians remember");
        let (n_blocks, init, head, covariance) = (
            table.get(&n_blocks.source("paper").at_least(1.0).at_most(99.0)),
            table.get(&init),
            table.get(&head),
            table.get(&covariance.source("paper")),
        );
        // The public code inflates diagonal covariances only.
        let inflation = if covariance == CovarianceForm::Full { 1.0 } else { 3.0 };
        HgpConfig {
            prompt,
            prompt_len,
            n_blocks,
            init,
            head,
            covariance,
            cov_scale: table.get(
                &Param::new(
                    "cov_scale",
                    inflation,
                    "factor on covariances when drawing; 1 if full",
                )
                .source("paper")
                .above(0.0),
            ),
            memory: table.get(
                &Param::new("memory", Memory::Round, "how long Gaussians of a task are kept")
                    .source(code),
            ),
            rebalance: table.get(
                &Param::new("rebalance", Rebalance::Both, "classes the head is rebalanced over")
                    .source("paper"),
            ),
            omega: table.get(
                &Param::new(
                    "omega",
                    Omega::Uniform,
                    "how often each class is drawn; shares count the samples behind Gaussians",
                )
                .source(code),
            ),
            samples_per_class: table.get(
                &Param::new("samples_per_class", 256, "features drawn per class and epoch")
                    .source("paper")
                    .at_least(1.0),
            ),
            rebalance_epochs: table.get(
                &Param::new("rebalance_epochs", 5, "epochs of rebalancing per round")
                    .source("paper")
                    .at_least(1.0),
            ),
            rebalance_batch: table.get(
                &Param::new("rebalance_batch", 256, "features per step of rebalancing")
                    .source("paper")
                    .at_least(1.0),
            ),
            rebalance_lr: table.get(
                &Param::new("rebalance_lr", 0.01, "learning rate at the start of the cosine")
                    .source("paper")
                    .above(0.0),
            ),
            rebalance_momentum: table.get(
                &Param::new("rebalance_momentum", 0.9, "momentum of the rebalancing SGD")
                    .source("paper")
                    .at_least(0.0)
                    .below(1.0),
            ),
            rebalance_loss: table.get(
                &Param::new("rebalance_loss", RebalanceLoss::Normalised, "what it minimises")
                    .source("public code; the paper says plain"),
            ),
            tau: table.get(
                &Param::new("tau", 0.1, "temperature of the normalised logits")
                    .source(code)
                    .above(0.0),
            ),
        }
    }
}
