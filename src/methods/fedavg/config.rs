//! The settings of FedAvg.

use std::ops::Range;

use clap::ValueEnum;

use crate::data::TaskView;
use crate::methods::HeadForm;
use crate::model::HeadKind;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// What trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Train {
    /// Every parameter of the backbone, and the head.
    All,
    /// The head on frozen features (linear probe).
    Head,
    /// A prefix prompt and the head.
    ///
    /// The prompt starts from zeros.
    Prompt,
    /// FedHAF's module and head on frozen features, without dropout.
    Module,
}

impl Choice for Train {}

/// What the loss of a client does with the logits of earlier tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OldLogits {
    /// Classes of the current task compete among themselves.
    #[default]
    Mask,
    /// All classes seen compete.
    ///
    /// Those nobody holds are pushed down.
    Keep,
}

impl Choice for OldLogits {}

impl OldLogits {
    /// The head rows that compete, which are those that train.
    pub fn rows(self, view: &TaskView) -> Range<usize> {
        match self {
            OldLogits::Mask => view.rows.clone(),
            OldLogits::Keep => 0..view.seen(),
        }
    }
}

/// How much a client counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Weights {
    /// In proportion to its samples of the task.
    BySamples,
    /// As much as any other that has a sample.
    Uniform,
}

impl Choice for Weights {}

impl Weights {
    /// The weight of a client with so many samples.
    pub fn of(self, samples: u32) -> f64 {
        match self {
            Weights::BySamples => f64::from(samples),
            Weights::Uniform => f64::from(u8::from(samples > 0)),
        }
    }
}

/// The `[method]` table of FedAvg, and of Joint.
#[derive(Clone, Debug, PartialEq)]
pub struct FedAvgConfig {
    /// What trains.
    pub train: Train,
    /// How much a client counts.
    pub weights: Weights,
    /// What the loss does with the logits of earlier tasks.
    pub old_logits: OldLogits,
    /// Which classifier stands upon the features.
    pub classifier: HeadKind,
    /// Which head rows messages carry.
    pub head: HeadForm,
    /// Factor on the learning rate of everything but the head.
    pub backbone_lr: f64,
    /// Rows of the prompt in a block, for [`Train::Prompt`].
    pub prompt_len: u32,
    /// Blocks with a prompt, for [`Train::Prompt`].
    pub n_blocks: u32,
}

impl Default for FedAvgConfig {
    fn default() -> Self {
        defaults(FedAvgConfig::read)
    }
}

impl FedAvgConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedAvgConfig {
        let weights = Param::new("weights", Weights::BySamples, "how much a client counts");
        let old_logits =
            Param::new("old_logits", OldLogits::Mask, "logits of earlier tasks in the loss");
        let config = FedAvgConfig {
            weights: table.get(&weights.source("McMahan et al., algorithm 1")),
            old_logits: table.get(&old_logits.source("HGP; HePCo's FedAvg-FT has keep")),
            ..FedAvgConfig::learning(table)
        };
        let head = Param::new("head", HeadForm::Fixed, "head rows in messages");
        FedAvgConfig { head: table.get(&head), ..config }
    }

    /// The keys that say what trains and how; what concerns a federation stays at its default.
    pub(in crate::methods) fn learning(table: &mut TableReader<'_>) -> FedAvgConfig {
        let train = table.get(&Param::new("train", Train::All, "what trains"));
        let classifier = Param::new("classifier", HeadKind::Linear, "the head upon the features");
        let backbone_lr =
            Param::new("backbone_lr", 1.0, "factor on the learning rate below the head")
                .source("1; the public code of HGP has 0.01 as its `slow learner`")
                .at_least(0.0);
        let prompt_len = Param::new("prompt_len", 200, "rows of a prompt if `train = \"prompt\"`")
            .source("HGP")
            .at_least(2.0);
        let n_blocks = Param::new("n_blocks", 5, "prompted blocks if `train = \"prompt\"`")
            .source("HGP")
            .at_least(1.0)
            .at_most(99.0);
        let config = FedAvgConfig {
            train,
            weights: Weights::BySamples,
            old_logits: OldLogits::Mask,
            classifier: table.get(&classifier.source("linear; STSA's first stage has cosine")),
            head: HeadForm::Fixed,
            backbone_lr: table.get(&backbone_lr),
            prompt_len: table.get(&prompt_len),
            n_blocks: table.get(&n_blocks),
        };
        if !config.prompt_len.is_multiple_of(2) {
            let message = format!("a prompt of {} rows has no two halves", config.prompt_len);
            table.reject("prompt_len", &message, "odd", "give an even number of rows");
        }
        config
    }
}
