//! Settings of C2Prompt: the paper's values where they are known, otherwise our own.

use super::{PooledMoments, Scores};
use crate::methods::powder::PowderConfig;
use crate::scenario::reader::Keys;

/// Default temperature of mixing, between no mixing and the plain mean.
///
/// Over all rounds of the study on digits a component kept 0.73 of itself at this temperature. In the study of
/// CIFAR-100 with ViT-Tiny it kept 0.35, and about half where nothing had been mixed before. Numbers of that study, here
/// and below, are of scores clipped at 0 sample by sample; now their mean is clipped.
///
/// With unit rows of the `N` components of a client and a mean cosine `c` between them, a component keeps the weight
/// `1 / (1 + (N - 1) exp(-(1 - c) / tau))`; rows of clients with other classes are orthogonal and get no weight at such
/// temperatures. A weight of one half needs `tau = (1 - c) / ln(N - 1)`: for `N = 8` this is 0.1 at `c = 0.8`, 0.05 at
/// 0.9 and 0.03 at 0.94. The last `c` is that of client tasks of five classes in the study of CIFAR-100 with ViT-Tiny,
/// after a round in which nothing had been mixed yet (own weights 0.62, 0.34, 0.23 and 0.16 at `tau` 0.02, 0.05, 0.1
/// and 0.2; 0.125 is the mean of a client's own components). Each mixing makes rows more alike, so the weight falls
/// from round to round.
const TEMPERATURE: f64 = 0.03;

/// Source of defaults that are known from the paper.
const PAPER: &str = "the paper, as described in a review";

/// Source of all other defaults.
const OURS: &str = "ours; unknown for the paper";

/// Keys of the `[method]` table of C2Prompt.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct C2PromptConfig {
    /// Keys of Powder.
    #[key(read = PowderConfig::read_with(table, [8, 10], PAPER))]
    pub powder: PowderConfig,
    /// Compensation prompt for every class (LCDC).
    #[key(default = true, source = PAPER)]
    pub lcdc: bool,
    /// Moments from which the Gaussian of a class is pooled.
    #[key(default = PooledMoments::All, source = OURS)]
    pub moments: PooledMoments,
    /// Fraction of training steps with compensation prompts.
    #[key(default = 0.5, source = PAPER, at_least = 0.0, at_most = 1.0)]
    pub probability: f64,
    /// Tokens per compensation prompt.
    #[key(default = 3, source = PAPER, at_least = 1.0, at_most = 1000.0)]
    pub compensation_len: u32,
    /// Epochs of training of compensation prompts.
    #[key(default = 5, source = OURS, at_least = 1.0, at_most = 10_000.0)]
    pub compensation_epochs: u32,
    /// Number added to every variance of a class.
    #[key(default = 1e-4, source = OURS, above = 0.0)]
    pub variance_eps: f64,
    /// Smallest variance, as a fraction of the mean variance of its class.
    #[key(default = 0.01, source = OURS, at_least = 0.0)]
    pub variance_floor: f64,
    /// Mixing of components by the classes that they match (CPA).
    #[key(default = true, source = PAPER)]
    pub cpa: bool,
    /// Form of the score rows that are compared.
    #[key(default = Scores::Means, source = "ours; the review has sums")]
    pub cpa_scores: Scores,
    /// Temperature of the mixing; 1e9 gives the plain mean.
    #[key(default = TEMPERATURE, source = OURS, above = 0.0)]
    pub cpa_temperature: f64,
    /// Lending of components between client tasks as in Powder, in addition to `cpa`.
    #[key(default = false, source = "ours; the review has one in place of the other")]
    pub cpa_transfer: bool,
    /// Mixing after the last round of a stage, too.
    #[key(default = false, source = "ours; heads are tuned to the prompts before the mixing")]
    pub cpa_last: bool,
    /// Tests of client tasks right before and after every mixing, for the journal.
    #[key(default = false, source = "ours; costs two tests per round")]
    pub cpa_accuracy: bool,
}

impl C2PromptConfig {
    /// Returns true if some training steps have compensation prompts.
    pub fn compensates(&self) -> bool {
        self.lcdc && self.probability > 0.0
    }

    /// Returns true if every client draws at random which steps have compensation prompts.
    pub fn tosses(&self) -> bool {
        self.compensates() && self.probability < 1.0
    }

    /// Returns the settings of the Powder learner.
    ///
    /// If components are mixed by class, client tasks lend each other none, unless `cpa_transfer` is set.
    pub fn learner(&self) -> PowderConfig {
        let transfer = self.powder.transfer && (self.cpa_transfer || !self.cpa);
        PowderConfig { transfer, ..self.powder.clone() }
    }
}
