//! The `[method]` table of LoRM, and the layers to which it applies.

use clap::ValueEnum;

use crate::methods::HeadForm;
use crate::methods::averaging::ClientWeighting;
use crate::methods::low_rank::{ALL_BLOCKS, LowRank};
use crate::methods::regression::{InputStatistics, Layer};
use crate::model::{Factor, HeadStart, LinearLayer, LoraPlace, LoraShape};
use crate::policy::ModelFacts;
use crate::scenario::reader::{Choice, Keys};

/// Factor of a pair that a round trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Factors {
    /// B and A in turn, B first in every task.
    Alternate,
    /// B only.
    B,
    /// A only.
    ///
    /// With B at zero nothing is learned below the head.
    A,
}

/// Keys of the `[method]` table of LoRM.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Lorm {
    /// Rank of a LoRA pair.
    #[key(default = 16, source = "HGP's tables: 1 to 32", at_least = 1.0, at_most = 65_536.0)]
    pub rank: u32,
    /// Factor that a round trains.
    #[key(default = Factors::Alternate, source = "the public code of LoRM")]
    pub factors: Factors,
    /// Factor on the learning rate of B.
    #[key(default = 1.0, source = "the public code of LoRM", at_least = 0.0)]
    pub b_lr: f64,
    /// Factor on the learning rate of A.
    #[key(default = 1.0, source = "the public code of LoRM", at_least = 0.0)]
    pub a_lr: f64,
    /// Moments of inputs in messages.
    #[key(read = InputStatistics::read(table, (0.0, 0.5), "HGP's tables; 0.3 on CUB-200"))]
    pub statistics: InputStatistics,
    /// Start values of the head.
    #[key(default = HeadStart::Normal, source = "timm's head, as the public code has it")]
    pub head_init: HeadStart,
    /// Rows of the head in messages.
    #[key(default = HeadForm::Fixed)]
    pub head_form: HeadForm,
    /// Weight of a client in the mean of biases.
    #[key(default = ClientWeighting::BySamples, source = "the public code of LoRM")]
    pub client_weighting: ClientWeighting,
}

impl Lorm {
    /// Returns the places, ranks and shapes of LoRA pairs in a model.
    pub(super) fn shape(&self, model: &ModelFacts) -> LoraShape {
        let at = LinearLayer::ALL.map(LoraPlace::at).to_vec();
        LowRank { rank: self.rank, at, blocks: ALL_BLOCKS }.shape(model, None)
    }

    /// Returns the factor that a round of a task trains.
    pub(super) fn trained(&self, round: u32) -> Factor {
        match (self.factors, round % 2) {
            (Factors::B, _) | (Factors::Alternate, 0) => Factor::B,
            _ => Factor::A,
        }
    }

    /// Returns the linear layers of blocks, with block and place of their pairs.
    pub(super) fn layers(&self, model: &ModelFacts) -> Vec<(usize, LoraPlace, Layer)> {
        let layers = Layer::of_blocks(model);
        layers.map(|(block, layer, of)| (block, LoraPlace::at(layer), of)).collect()
    }

    /// Returns the layers whose input moments travel with uploads: those of blocks, then the head.
    pub(super) fn measured(&self, model: &ModelFacts) -> Vec<Layer> {
        let blocks = self.layers(model).into_iter().map(|(_, _, layer)| layer);
        blocks.chain([Layer::head(model)]).collect()
    }
}
