//! The settings of the adapter method.

use crate::methods::HeadForm;
use crate::methods::fedavg::Weights;
use crate::scenario::reader::{Param, TableReader, defaults};

/// The `[method]` table.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterConfig {
    /// Width between the two layers of an adapter.
    pub bottleneck: u32,
    /// Share of its hidden entries set to zero in training.
    pub dropout: f64,
    /// How much a client counts.
    pub weights: Weights,
    /// Which head rows messages carry.
    pub head: HeadForm,
}

impl Default for AdapterConfig {
    fn default() -> Self {
        defaults(AdapterConfig::read)
    }
}

impl AdapterConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> AdapterConfig {
        let bottleneck = Param::new("bottleneck", 64, "width between an adapter's two layers");
        let dropout = Param::new("dropout", 0.1, "share of hidden entries dropped in training");
        let weights = Param::new("weights", Weights::Uniform, "how much a client counts");
        let head = Param::new("head", HeadForm::Growing, "head rows in messages");
        AdapterConfig {
            bottleneck: table.get(&bottleneck.source("STSA").at_least(1.0).at_most(65_536.0)),
            dropout: table.get(&dropout.source("STSA").at_least(0.0).below(1.0)),
            weights: table.get(&weights.source("the public code of STSA: plain mean")),
            head: table.get(&head.source("STSA: the classes of its one task")),
        }
    }
}
