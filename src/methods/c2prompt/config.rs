//! The settings of C2Prompt: defaults are the paper's where they are known, and ours where it is silent.

use crate::methods::powder::PowderConfig;
use crate::scenario::reader::{Param, TableReader, defaults};

/// The `[method]` table of C2Prompt.
#[derive(Clone, Debug, PartialEq)]
pub struct C2PromptConfig {
    /// What is learnt and how, as in Powder.
    pub powder: PowderConfig,
    /// Whether classes get compensation prompts.
    pub lcdc: bool,
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
    /// Temperature of the mixing.
    pub cpa_temperature: f64,
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
        let probability =
            Param::new("probability", 0.5, "share of training steps with compensation prompts");
        let length = Param::new("compensation_len", 3, "tokens of a compensation prompt");
        let epochs = Param::new("compensation_epochs", 5, "epochs in which they are trained");
        let eps = Param::new("variance_eps", 1e-4, "added to every variance of a class");
        let floor =
            Param::new("variance_floor", 0.01, "least variance, as a share of the class's mean");
        let cpa = Param::new("cpa", true, "components are mixed by the classes that they match");
        let tau =
            Param::new("cpa_temperature", 1.0, "temperature of the mixing; large: plain mean");
        C2PromptConfig {
            powder: PowderConfig::read_with(table, [8, 10], paper),
            lcdc: table.get(&lcdc.source(paper)),
            probability: table.get(&probability.source(paper).at_least(0.0).at_most(1.0)),
            compensation_len: table.get(&length.source(paper).at_least(1.0).at_most(1000.0)),
            compensation_epochs: table.get(&epochs.source(ours).at_least(1.0).at_most(10_000.0)),
            variance_eps: table.get(&eps.source(ours).above(0.0)),
            variance_floor: table.get(&floor.source(ours).at_least(0.0)),
            cpa: table.get(&cpa.source(paper)),
            cpa_temperature: table.get(&tau.source(ours).above(0.0)),
        }
    }

    /// Whether anybody ever sees a compensation prompt.
    pub fn compensates(&self) -> bool {
        self.lcdc && self.probability > 0.0
    }
}
