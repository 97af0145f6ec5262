//! The settings of C2Prompt: defaults are the paper's where they are known, and ours where it is silent.

use super::{Moments, Scores};
use crate::methods::powder::PowderConfig;
use crate::scenario::reader::{Param, TableReader, defaults};

/// Between no mixing and the plain mean: over all rounds of the studies a component kept 0.35 (ViT-Tiny on CIFAR-100) to
/// 0.84 (digits) of itself at it, and about half where nothing had been mixed before.
///
/// Unit rows of the `N` components of a client, with a mean cosine `c` between them, leave a component
/// `1 / (1 + (N - 1) exp(-(1 - c) / tau))`; rows of clients with other classes are orthogonal and take nothing at such
/// temperatures. One half is `tau = (1 - c) / ln(N - 1)`: for `N = 8` 0.1 at `c = 0.8`, 0.05 at 0.9 and 0.03 at 0.94. The
/// last is what slots of five classes come to in the study of CIFAR-100 with ViT-Tiny, after a round in which nothing
/// had been mixed yet (own weights 0.62, 0.34, 0.23 and 0.16 at 0.02, 0.05, 0.1 and 0.2; 0.125 is the mean of a client's
/// own components). Each mixing makes rows more alike, so that the weight falls from round to round.
const TEMPERATURE: f64 = 0.03;

/// The `[method]` table of C2Prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct C2PromptConfig {
    /// What is learnt and how, as in Powder.
    pub powder: PowderConfig,
    /// Whether classes get compensation prompts.
    pub lcdc: bool,
    /// Whose moments a class's Gaussian is pooled from.
    pub moments: Moments,
    /// How often a step of training uses them.
    pub probability: f64,
    /// Tokens of a compensation prompt.
    pub compensation_len: u32,
    /// Epochs in which they are trained.
    pub compensation_epochs: u32,
    /// Added to every variance of a class.
    pub variance_eps: f64,
    /// No variance counts as less than this share of the mean variance of its class.
    pub variance_floor: f64,
    /// Whether the server mixes components by what classes they match.
    pub cpa: bool,
    /// How the scores of samples become rows that are compared.
    pub cpa_scores: Scores,
    /// Temperature of the mixing.
    pub cpa_temperature: f64,
    /// Whether slots lend each other components as in Powder beside the mixing.
    pub cpa_transfer: bool,
    /// Whether components are mixed after the last round of a period, too.
    pub cpa_last: bool,
    /// Whether the journal says how slots answer right before and after they are mixed.
    pub cpa_accuracy: bool,
}

impl Default for C2PromptConfig {
    fn default() -> Self {
        defaults(C2PromptConfig::read)
    }
}

impl C2PromptConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> C2PromptConfig {
        let (paper, ours) = ("the paper, as a review tells it", "ours; not known of the paper");
        let lcdc = Param::new("lcdc", true, "a compensation prompt for every class");
        let moments =
            Param::new("moments", Moments::All, "whose moments a class's Gaussian is pooled from");
        let probability =
            Param::new("probability", 0.5, "share of training steps with compensation prompts");
        let length = Param::new("compensation_len", 3, "tokens of a compensation prompt");
        let epochs = Param::new("compensation_epochs", 5, "epochs in which they are trained");
        let eps = Param::new("variance_eps", 1e-4, "added to every variance of a class");
        let floor =
            Param::new("variance_floor", 0.01, "least variance, as a share of the class's mean");
        let cpa = Param::new("cpa", true, "components are mixed by the classes that they match");
        let scores =
            Param::new("cpa_scores", Scores::Means, "how scores become rows that are compared");
        let tau = Param::new(
            "cpa_temperature",
            TEMPERATURE,
            "temperature of the mixing; 1e9: plain mean",
        );
        let transfer =
            Param::new("cpa_transfer", false, "slots lend components as in Powder beside `cpa`");
        let last = Param::new("cpa_last", false, "mixes after the last round of a period, too");
        let accuracy =
            Param::new("cpa_accuracy", false, "tests slots before and after every mixing");
        C2PromptConfig {
            powder: PowderConfig::read_with(table, [8, 10], paper),
            lcdc: table.get(&lcdc.source(paper)),
            moments: table.get(&moments.source(ours)),
            probability: table.get(&probability.source(paper).at_least(0.0).at_most(1.0)),
            compensation_len: table.get(&length.source(paper).at_least(1.0).at_most(1000.0)),
            compensation_epochs: table.get(&epochs.source(ours).at_least(1.0).at_most(10_000.0)),
            variance_eps: table.get(&eps.source(ours).above(0.0)),
            variance_floor: table.get(&floor.source(ours).at_least(0.0)),
            cpa: table.get(&cpa.source(paper)),
            cpa_scores: table.get(&scores.source("ours; the review has sums")),
            cpa_temperature: table.get(&tau.source(ours).above(0.0)),
            cpa_transfer: table
                .get(&transfer.source("ours; the review has one in place of the other")),
            cpa_last: table.get(&last.source("ours; heads are tuned to prompts as they were")),
            cpa_accuracy: table.get(&accuracy.source("ours; costs two tests a round")),
        }
    }

    /// Whether anybody ever sees a compensation prompt.
    pub fn compensates(&self) -> bool {
        self.lcdc && self.probability > 0.0
    }

    /// Whether a coin says which steps have compensation prompts, another one for every client.
    pub fn tosses(&self) -> bool {
        self.compensates() && self.probability < 1.0
    }

    /// The settings of the learner: where components are mixed by class, slots do not lend each other any unless they
    /// are told to.
    pub fn learner(&self) -> PowderConfig {
        let transfer = self.powder.transfer && (self.cpa_transfer || !self.cpa);
        PowderConfig { transfer, ..self.powder.clone() }
    }
}
