//! Keys of the rank and places of LoRA pairs, for all methods that train some.

use crate::model::{LoraPlace, LoraShape, VitConfig};
use crate::policy::ModelFacts;
use crate::scenario::reader::{Keys, TableReader};

/// Number of blocks above the depth of any transformer.
pub(super) const ALL_BLOCKS: u32 = 99;

/// LoRA pairs in the blocks of a transformer, with these key names and defaults.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(
    given(names: [&'static str; 3], usual: LowRank, source: &'static str),
    check = section.refuse_nowhere(table, names[1])
)]
pub struct LowRank {
    /// Rank of a LoRA pair.
    #[key(
        name = names[0],
        default = usual.rank,
        source = source,
        at_least = 1.0,
        at_most = 65_536.0
    )]
    pub rank: u32,
    /// Layers of a block with a LoRA pair.
    #[key(name = names[1], default = usual.at.clone(), source = source)]
    pub at: Vec<LoraPlace>,
    /// Number of blocks with LoRA pairs, from the first.
    #[key(
        name = names[2],
        default = usual.blocks,
        source = source,
        at_least = 1.0,
        at_most = f64::from(ALL_BLOCKS)
    )]
    pub blocks: u32,
}

impl LowRank {
    fn refuse_nowhere(&self, table: &mut TableReader<'_>, key: &str) {
        if self.at.is_empty() {
            table.reject(key, "LoRA at no layer trains nothing", "empty", "name a layer or two");
        }
    }

    /// Returns the shapes of the pairs in a model; none if it has no blocks.
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
