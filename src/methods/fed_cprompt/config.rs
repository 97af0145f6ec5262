//! The settings of Fed-CPrompt.

use clap::ValueEnum;

use crate::methods::coda_prompt::{CodaConfig, Orthogonal};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// What the contrastive continual loss compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum C2lForm {
    /// Squared distances of features, in a hinge.
    #[default]
    FeatureHinge,
    /// Cosines of features, in a softmax.
    FeatureSoftmax,
    /// Distances of prompts, in a hinge.
    Prompt,
    /// Nothing.
    Off,
}

impl Choice for C2lForm {}

/// The contrastive continual loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct C2l {
    /// What it compares.
    pub form: C2lForm,
    /// Of the softmax.
    pub temperature: f64,
    /// Weight of the distance to earlier prompts.
    pub gamma: f64,
    /// Margin of the hinge over prompts.
    pub alpha: f64,
}

/// The keys of Fed-CPrompt's own.
#[derive(Clone, Debug, PartialEq)]
pub struct FedCPromptConfig {
    /// Components as CODA-Prompt has them.
    pub components: CodaConfig,
    /// The contrastive continual loss.
    pub c2l: C2l,
}

impl Default for FedCPromptConfig {
    fn default() -> Self {
        defaults(FedCPromptConfig::read)
    }
}

impl FedCPromptConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedCPromptConfig {
        let softmax =
            Param::new("attention_softmax", true, "attention passes a softmax over its entries");
        let orthogonal =
            Param::new("orthogonal", Orthogonal::Once, "when rows are made orthogonal");
        let source = "the release of Fed-CPrompt";
        let components = CodaConfig {
            attention_softmax: table.get(&softmax.source(source)),
            orthogonal: table.get(&orthogonal.source(source)),
            ..CodaConfig::sizes(table)
        };
        let form = Param::new("c2l", C2lForm::FeatureHinge, "the contrastive continual loss");
        let temperature =
            Param::new("c2l_temperature", 0.5, "temperature of `c2l = \"feature-softmax\"`");
        let gamma = Param::new("c2l_gamma", 1.0, "weight of earlier prompts in `c2l = \"prompt\"`");
        let margin = "margin of `c2l = \"prompt\"`; earlier prompts that are farther do not act";
        let alpha = Param::new("c2l_alpha", 1.0, margin);
        let unknown = "our choice; the paper's value is not known";
        let c2l = C2l {
            form: table.get(&form.source(source)),
            temperature: table.get(&temperature.source(unknown).above(0.0)),
            gamma: table.get(&gamma.source(unknown).above(0.0)),
            alpha: table.get(&alpha.source(unknown).at_least(0.0)),
        };
        FedCPromptConfig { components, c2l }
    }
}
