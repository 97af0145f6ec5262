//! The `[method]` table of LoRM, and which layers it is about.

use clap::ValueEnum;

use crate::methods::HeadForm;
use crate::methods::averaged::Weights;
use crate::methods::low_rank::{ALL_BLOCKS, LowRank};
use crate::methods::regression::{InputStatistics, Layer};
use crate::model::{Factor, HeadStart, LinearLayer, LoraPlace, LoraShape};
use crate::policy::ModelFacts;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// Which factor trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Factors {
    /// B and A in turns, B first in every task.
    Alternate,
    /// B alone.
    B,
    /// A alone.
    ///
    /// With B at zero nothing is learnt below the head.
    A,
}

/// The `[method]` table of LoRM.
#[derive(Clone, Debug, PartialEq)]
pub struct Lorm {
    /// Rank of a pair.
    pub rank: u32,
    /// Which factor trains.
    pub factors: Factors,
    /// Factors on the learning rates of B and A.
    pub rates: [f64; 2],
    /// What is sent of inputs.
    pub statistics: InputStatistics,
    /// How a linear head starts.
    pub head_init: HeadStart,
    /// Which head rows messages carry.
    pub head: HeadForm,
    /// How much a client counts in the mean of biases.
    pub weights: Weights,
}

impl Default for Lorm {
    fn default() -> Self {
        defaults(Lorm::read)
    }
}

impl Lorm {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> Lorm {
        let code = "the public code of LoRM";
        let rank = Param::new("rank", 16, "rank of a LoRA pair").source("HGP's tables: 1 to 32");
        let factors = Param::new("factors", Factors::Alternate, "the factor that a round trains");
        let rate = |name, doc| Param::new(name, 1.0, doc).source(code).at_least(0.0);
        let b = rate("b_lr", "factor on the learning rate of B");
        let a = rate("a_lr", "factor on the learning rate of A");
        let head_init = Param::new("head_init", HeadStart::Normal, "how the head starts");
        let head = Param::new("head", HeadForm::Fixed, "head rows in messages");
        let weights = Param::new("weights", Weights::BySamples, "how much a client's bias counts");
        Lorm {
            rank: table.get(&rank.at_least(1.0).at_most(65_536.0)),
            factors: table.get(&factors.source(code)),
            rates: [table.get(&b), table.get(&a)],
            statistics: InputStatistics::read(table, (0.0, 0.5), "HGP's tables; 0.3 on CUB-200"),
            head_init: table.get(&head_init.source("timm's head, as the public code has it")),
            head: table.get(&head),
            weights: table.get(&weights.source(code)),
        }
    }

    /// Its pairs in such a model.
    pub(super) fn shape(&self, model: &ModelFacts) -> LoraShape {
        let at = LinearLayer::ALL.map(LoraPlace::at).to_vec();
        LowRank { rank: self.rank, at, blocks: ALL_BLOCKS }.shape(model, None)
    }

    /// The factor that a round of a task trains.
    pub(super) fn trained(&self, round: u32) -> Factor {
        match (self.factors, round % 2) {
            (Factors::B, _) | (Factors::Alternate, 0) => Factor::B,
            _ => Factor::A,
        }
    }

    /// The layers of blocks, with the places of their pairs.
    pub(super) fn layers(&self, model: &ModelFacts) -> Vec<(usize, LoraPlace, Layer)> {
        let layers = Layer::of_blocks(model);
        layers.map(|(block, layer, of)| (block, LoraPlace::at(layer), of)).collect()
    }

    /// The layers whose moments travel after training, in their order.
    pub(super) fn measured(&self, model: &ModelFacts) -> Vec<Layer> {
        let blocks = self.layers(model).into_iter().map(|(_, _, layer)| layer);
        blocks.chain([Layer::head(model)]).collect()
    }
}
