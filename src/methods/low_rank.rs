//! The keys that say where LoRA pairs stand, for all methods that train some.

use crate::model::{LoraPlace, LoraShape, VitConfig};
use crate::policy::ModelFacts;
use crate::scenario::reader::{Param, TableReader};

/// Pairs in the blocks of a transformer.
#[derive(Clone, Debug, PartialEq)]
pub struct LowRank {
    /// `r`.
    pub rank: u32,
    /// At which places of a block.
    pub at: Vec<LoraPlace>,
    /// How many blocks have them, from the first on.
    pub blocks: u32,
}

/// As many as any transformer has.
pub(super) const ALL_BLOCKS: u32 = 99;

impl LowRank {
    /// Reads them as keys of these names, with these defaults.
    pub(super) fn read(
        table: &mut TableReader<'_>,
        [rank, at, blocks]: [&'static str; 3],
        usual: LowRank,
        source: &'static str,
    ) -> LowRank {
        let key = at;
        let rank = Param::new(rank, usual.rank, "rank of a LoRA pair").source(source);
        let at = Param::new(at, usual.at.clone(), "layers of a block with a LoRA pair");
        let blocks = Param::new(blocks, usual.blocks, "first blocks that have LoRA pairs");
        let read = LowRank {
            rank: table.get(&rank.at_least(1.0).at_most(65_536.0)),
            at: table.get(&at.source(source)),
            blocks: table.get(&blocks.source(source).at_least(1.0).at_most(f64::from(ALL_BLOCKS))),
        };
        if read.at.is_empty() {
            table.reject(key, "LoRA at no layer trains nothing", "empty", "name a layer or two");
        }
        read
    }

    /// Their shapes in such a model; none where it has no blocks.
    pub(super) fn shape(&self, model: &ModelFacts, tasks: Option<usize>) -> LoraShape {
        let vit = model.backbone.vit().copied();
        let none = VitConfig { depth: 0, ..VitConfig::default() };
        LoraShape {
            vit: vit.unwrap_or(none),
            blocks: self.blocks as usize,
            places: self.at.clone(),
            rank: self.rank as usize,
            tasks,
        }
    }
}
