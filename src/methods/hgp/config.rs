//! The `[method]` table of HGP.

use clap::ValueEnum;

use crate::learning::PromptShape;
use crate::methods::HeadForm;
use crate::methods::class_statistics::{
    CovarianceForm, KeptFor, Omega, Rebalance, RebalanceLoss, Rebalancing,
};
use crate::methods::prompted::prompt_has_halves;
use crate::model::HeadStart;
use crate::policy::ModelFacts;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// What clients learn beside the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Learns {
    /// A prefix prompt.
    Prompt,
    /// Every parameter of the backbone.
    ///
    /// With rebalancing it is FT+CR of the paper's figure 3.
    All,
    /// Nothing: the head alone, on frozen features.
    Head,
}

/// How the prompt starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum PromptInit {
    /// All zeros.
    ///
    /// Not neutral: a zero key takes attention, too.
    Zeros,
    /// Normal with standard deviation 0.02.
    Normal,
}

/// The `[method]` table of HGP.
#[derive(Clone, Debug, PartialEq)]
pub struct Hgp {
    /// What clients learn beside the head.
    pub train: Learns,
    /// Rows of the prompt in a block, half keys and half values.
    pub prompt_len: u32,
    /// How many blocks, from the first, have a prompt; at most the depth of the backbone.
    pub n_blocks: u32,
    /// How the prompt starts.
    pub init: PromptInit,
    /// How the head starts.
    pub head_init: HeadStart,
    /// Which head rows messages carry.
    pub head: HeadForm,
    /// What the Gaussians remember.
    pub covariance: CovarianceForm,
    /// What covariances are multiplied by before features are drawn.
    pub cov_scale: f64,
    /// How long Gaussians of the current task are kept.
    pub memory: KeptFor,
    /// How the head is rebalanced after a round.
    pub rebalancing: Rebalancing,
}

impl Default for Hgp {
    fn default() -> Self {
        defaults(Hgp::read)
    }
}

impl Hgp {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> Hgp {
        let (paper, code) = ("paper", "public code");
        let train = Param::new("train", Learns::Prompt, "what is learnt beside the head");
        let train = table.get(&train.source("paper; its figure 3 trains all, too"));
        let length =
            Param::new("prompt_len", 200, "rows of a block's prompt, half keys, half values");
        let prompt_len: u32 = table.get(&length.source(code).at_least(2.0));
        prompt_has_halves(table, prompt_len);
        let n_blocks =
            Param::new("n_blocks", 5, "prompted blocks from the first on, at most the depth");
        let n_blocks = table.get(&n_blocks.source(paper).at_least(1.0).at_most(99.0));
        let init = Param::new("init", PromptInit::Zeros, "how the prompt starts");
        let init = table.get(&init.source(code));
        let head_init = Param::new("head_init", HeadStart::Uniform, "how the head starts");
        let head_init =
            table.get(&head_init.source("code with a prompt; timm's normal where it trains all"));
        let head = Param::new("head", HeadForm::Fixed, "head rows in messages");
        let head = table.get(&head.source(paper));
        let covariance =
            Param::new("covariance", CovarianceForm::Diagonal, "what Gaussians remember");
        let covariance = table.get(&covariance.source(paper));
        // The public code inflates diagonal covariances only.
        let inflation = if covariance == CovarianceForm::Full { 1.0 } else { 3.0 };
        let scale = "factor on covariances when drawing; 1 if full";
        let cov_scale = Param::new("cov_scale", inflation, scale).source(paper).above(0.0);
        let memory = Param::new("memory", KeptFor::Round, "how long Gaussians of a task are kept");
        Hgp {
            train,
            prompt_len,
            n_blocks,
            init,
            head_init,
            head,
            covariance,
            cov_scale: table.get(&cov_scale),
            memory: table.get(&memory.source(code)),
            rebalancing: Rebalancing::read(table),
        }
    }

    /// The prefix prompt of such a model.
    pub(super) fn prompt(&self, model: &ModelFacts) -> PromptShape {
        model.prompt_shape(self.n_blocks, self.prompt_len)
    }
}

impl Default for Rebalancing {
    fn default() -> Self {
        defaults(Rebalancing::read)
    }
}

impl Rebalancing {
    /// Reads its keys of the `[method]` table of HGP.
    pub(super) fn read(table: &mut TableReader<'_>) -> Rebalancing {
        let (paper, code) = ("paper", "public code");
        let over = Param::new("rebalance", Rebalance::Both, "classes the head is rebalanced over");
        let omega = Param::new(
            "omega",
            Omega::Uniform,
            "how often each class is drawn; shares count the samples behind Gaussians",
        );
        let samples = Param::new("samples_per_class", 256, "features drawn per class and epoch");
        let epochs = Param::new("rebalance_epochs", 5, "epochs of rebalancing per round");
        let batch = Param::new("rebalance_batch", 256, "features per step of rebalancing");
        let lr = Param::new("rebalance_lr", 0.01, "learning rate at the start of the cosine");
        let momentum = Param::new("rebalance_momentum", 0.9, "momentum of the rebalancing SGD");
        let loss = Param::new("rebalance_loss", RebalanceLoss::Normalised, "what it minimises");
        let tau = Param::new("tau", 0.1, "temperature of the normalised logits");
        Rebalancing {
            over: table.get(&over.source(paper)),
            omega: table.get(&omega.source(code)),
            samples_per_class: table.get(&samples.source(paper).at_least(1.0)),
            epochs: table.get(&epochs.source(paper).at_least(1.0)),
            batch: table.get(&batch.source(paper).at_least(1.0)),
            lr: table.get(&lr.source(paper).above(0.0)),
            momentum: table.get(&momentum.source(paper).at_least(0.0).below(1.0)),
            loss: table.get(&loss.source("public code; the paper says plain")),
            tau: table.get(&tau.source(code).above(0.0)),
        }
    }
}
