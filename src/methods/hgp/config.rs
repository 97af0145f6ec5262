//! The `[method]` table of HGP.

use clap::ValueEnum;

use crate::learning::PromptShape;
use crate::methods::HeadForm;
use crate::methods::class_statistics::{CovarianceForm, GaussianLifetime, Rebalancing};
use crate::methods::prompted::prompt_has_halves;
use crate::model::HeadStart;
use crate::policy::ModelFacts;
use crate::scenario::reader::{Choice, Keys};

/// Parameters that clients train in addition to the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Learns {
    /// Prefix prompt.
    Prompt,
    /// All parameters of the backbone.
    ///
    /// With rebalancing it is FT+CR of the paper's figure 3.
    All,
    /// None: only the head, on frozen features.
    Head,
}

/// Start values of the prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum PromptInit {
    /// Zeros.
    ///
    /// Not neutral: a zero key takes attention, too.
    Zeros,
    /// Normal with standard deviation 0.02.
    Normal,
}

/// Keys of the `[method]` table of HGP.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = prompt_has_halves(table, section.prompt_len))]
pub struct Hgp {
    /// Parameters that clients train in addition to the head.
    #[key(default = Learns::Prompt, source = "paper; its figure 3 trains all, too")]
    pub train: Learns,
    /// Rows of the prompt in a block, half keys and half values.
    #[key(default = 200, source = "public code", at_least = 2.0)]
    pub prompt_len: u32,
    /// Number of blocks with a prompt, from the first; at most the depth of the backbone.
    #[key(default = 5, source = "paper", at_least = 1.0, at_most = 99.0)]
    pub n_blocks: u32,
    /// Start values of the prompt.
    #[key(default = PromptInit::Zeros, source = "public code")]
    pub init: PromptInit,
    /// Start values of the head.
    #[key(
        default = HeadStart::Uniform,
        source = "code with a prompt; timm's normal where it trains all"
    )]
    pub head_init: HeadStart,
    /// Rows of the head in messages.
    #[key(default = HeadForm::Fixed, source = "paper")]
    pub head_form: HeadForm,
    /// Form of the covariance in Gaussians of classes.
    #[key(default = CovarianceForm::Diagonal, source = "paper")]
    pub covariance: CovarianceForm,
    /// Factor on covariances when features are drawn; default: 1 if they are full.
    #[key(default = inflation(covariance), source = "paper", above = 0.0)]
    pub cov_scale: f64,
    /// Time for which Gaussians of the current task are kept.
    #[key(default = GaussianLifetime::Cohort, source = "public code; the paper does not say")]
    pub gaussian_lifetime: GaussianLifetime,
    /// Rebalancing of the head after a round.
    #[key(flatten)]
    pub rebalancing: Rebalancing,
}

/// Returns the default of `cov_scale`: the public code inflates diagonal covariances only.
fn inflation(covariance: CovarianceForm) -> f64 {
    match covariance {
        CovarianceForm::Diagonal => 3.0,
        CovarianceForm::Full => 1.0,
    }
}

impl Hgp {
    /// Returns the shape of the prefix prompt in a model: its blocks, rows and width.
    pub(super) fn prompt(&self, model: &ModelFacts) -> PromptShape {
        model.prompt_shape(self.n_blocks, self.prompt_len)
    }
}
