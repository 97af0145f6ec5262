//! DualPrompt's prompting (Wang et al., ECCV 2022): general prefixes in early blocks, and in later ones those
//! of one expert, given in training and chosen by its key at inference.

use std::ops::Range;

use candle_core::Tensor;

use super::{PromptTensors, Prompting};
use crate::model::{Adaptation, ModelError, Prefix, prompts};

/// `(experts, d)`.
pub const EXPERT_KEYS: &str = "prompt.keys";

/// Name of the general prefix of a block, `(2 L, d)`: keys, then values.
pub fn general_name(block: usize) -> String {
    format!("prompt.{block:02}.general")
}

/// Name of the experts' prefixes of a block, `(experts, 2 L, d)`.
pub fn expert_name(block: usize) -> String {
    format!("prompt.{block:02}.expert")
}

/// Who the expert of an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expert {
    /// This one, whatever the image; it trains.
    Given(usize),
    /// The one among these whose key is nearest to the query.
    Nearest(Range<usize>),
}

/// General prefixes and one expert's.
#[derive(Clone, Debug)]
pub struct Experts {
    /// Blocks with a general prefix.
    pub general: Range<usize>,
    /// Blocks with an expert's prefix.
    pub experts: Range<usize>,
    /// Who the expert is.
    pub expert: Expert,
    /// `w` of `- w mean_i cos(q_i, key)` in the loss, for the key of a given expert.
    pub pull: f64,
}

impl Experts {
    /// The expert of each image at inference, among the candidates.
    ///
    /// # Errors
    /// When queries and keys do not fit.
    pub(super) fn nearest(
        &self,
        keys: &Tensor,
        queries: &Tensor,
        among: &Range<usize>,
    ) -> Result<Tensor, ModelError> {
        let keys = keys.narrow(0, among.start, among.len())?;
        let similar = prompts::cosines(queries, &keys)?;
        let best = prompts::selection(&similar, 1)?.concat();
        let experts: Vec<u32> = best.into_iter().map(|at| at + among.start as u32).collect();
        Ok(Tensor::from_vec(experts, queries.dim(0)?, queries.device())?)
    }
}

impl Prompting for Experts {
    fn first_block(&self) -> usize {
        let first = |blocks: &Range<usize>| (!blocks.is_empty()).then_some(blocks.start);
        let all = [first(&self.general), first(&self.experts)];
        all.into_iter().flatten().min().unwrap_or(0)
    }

    fn trained(&self, name: &str, rows: usize) -> Range<usize> {
        match &self.expert {
            Expert::Nearest(_) => 0..0,
            Expert::Given(expert) if name == EXPERT_KEYS => match self.pull > 0.0 {
                true => *expert..expert + 1,
                false => 0..0,
            },
            Expert::Given(expert) if name.ends_with(".expert") => *expert..expert + 1,
            Expert::Given(_) => 0..rows,
        }
    }

    fn adapt(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Adaptation, ModelError> {
        let mut prefix = vec![None; self.general.end.max(self.experts.end)];
        for block in self.general.clone() {
            prefix[block] = Some(Prefix::halves(pool.get(&general_name(block))?)?);
        }
        let chosen = match &self.expert {
            Expert::Nearest(among) => Some(self.nearest(pool.get(EXPERT_KEYS)?, queries, among)?),
            Expert::Given(_) => None,
        };
        for block in self.experts.clone() {
            let experts = pool.get(&expert_name(block))?;
            let prompt = match (&self.expert, &chosen) {
                (Expert::Given(expert), _) => experts.get(*expert)?,
                (_, Some(chosen)) => experts.index_select(chosen, 0)?,
                (Expert::Nearest(_), None) => continue,
            };
            prefix[block] = Some(Prefix::halves(&prompt)?);
        }
        Ok(Adaptation { prefix, ..Adaptation::none() })
    }

    fn loss(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Option<Tensor>, ModelError> {
        match &self.expert {
            Expert::Given(expert) if self.pull > 0.0 => {
                let key = pool.get(EXPERT_KEYS)?.narrow(0, *expert, 1)?;
                let similar = prompts::cosines(queries, &key)?;
                Ok(Some((similar.mean_all()? * -self.pull)?))
            }
            _ => Ok(None),
        }
    }
}
