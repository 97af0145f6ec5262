//! DualPrompt's prompting (Wang et al., ECCV 2022): general and expert prefixes. Early blocks get general prefixes,
//! later blocks those of one expert, which is given in training and chosen by its key at inference.

use std::ops::Range;

use candle_core::Tensor;
use clap::ValueEnum;

use super::{PromptTensors, Prompting};
use crate::model::{Adaptation, ModelError, Prefix, ops, prompts};
use crate::scenario::reader::Choice;

/// Name of the experts' keys, `(experts, d)`.
pub const EXPERT_KEYS: &str = "prompt.keys";

/// Returns the name of the general prefix of a block, `(2 L, d)`: keys, then values.
pub fn general_name(block: usize) -> String {
    format!("prompt.{block:02}.general")
}

/// Returns the name of the experts' prefixes of a block, `(experts, 2 L, d)`.
pub fn expert_name(block: usize) -> String {
    format!("prompt.{block:02}.expert")
}

/// Choice of an image's expert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expert {
    /// This expert for every image; it trains.
    Given(usize),
    /// The expert in this range whose key is nearest to the query.
    Nearest(Range<usize>),
}

/// Layout of the keys and values that the images of a batch get of their experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum ExpertLayout {
    /// An image gets the keys and values of its expert.
    #[default]
    Own,
    /// Mixed up between images, an error of HGP's public code.
    ///
    /// Image b of B gets parts 2b and 2b + 1 of a list of B keys and then B values.
    Reference,
}

/// DualPrompt's general prefixes and those of one expert.
#[derive(Clone, Debug)]
pub struct Experts {
    /// Blocks with a general prefix.
    pub general: Range<usize>,
    /// Blocks with an expert's prefix.
    pub experts: Range<usize>,
    /// Choice of the expert.
    pub expert: Expert,
    /// Weight `w` of the loss `- w mean_i cos(q_i, key)` for the key of a given expert.
    pub pull: f64,
    /// Layout of the keys and values of an image.
    pub layout: ExpertLayout,
}

impl Experts {
    /// Returns the expert of each image at inference, among the candidates.
    ///
    /// # Errors
    /// Returns an error if queries and keys do not fit.
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

/// Returns the prefixes `(b, 2 L, d)` of a batch's experts, mixed up as in HGP's public code.
///
/// `_networks/vit_prompt_dual.py` gathers `(2, b, L, d)`, keys and then values, and takes that for `(b, 2, L, d)`
/// without moving an axis. So key and value of image `i` are entries `2 i` and `2 i + 1` of a list of `b` keys and
/// `b` values: the first half of a batch gets keys of experts as both, the second half values as both, and the
/// experts are those of images `2 i mod b` and `2 i + 1 mod b`.
fn mixed_up(prompts: &Tensor) -> Result<Tensor, ModelError> {
    let (images, length, dim) = prompts.dims3()?;
    let halves = prompts.reshape((images, 2, length / 2, dim))?.transpose(0, 1)?.contiguous()?;
    Ok(halves.reshape((images, length, dim))?)
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
            let prompt = match (self.layout, &self.expert) {
                (ExpertLayout::Own, _) => prompt,
                (ExpertLayout::Reference, Expert::Nearest(_)) => mixed_up(&prompt)?,
                (ExpertLayout::Reference, Expert::Given(_)) => {
                    let (length, dim) = prompt.dims2()?;
                    mixed_up(&prompt.unsqueeze(0)?.broadcast_as((queries.dim(0)?, length, dim))?)?
                }
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
                Ok(Some((ops::mean_all(&similar)? * -self.pull)?))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    const LENGTH: usize = 3;
    const DIM: usize = 2;

    /// Returns a number that says where in the pool it is from.
    fn entry(expert: usize, half: usize, row: usize, axis: usize) -> f32 {
        (1000 * expert + 100 * half + 10 * row + axis) as f32
    }

    /// Keys and values `(b, L, d)` of a batch for one block.
    ///
    /// The batch has four experts that are this expert's or nearest.
    fn prefixes(layout: ExpertLayout, expert: Expert, nearest: &[usize]) -> [Vec<Vec<f32>>; 2] {
        let mut values = Vec::new();
        for (expert, half) in (0..4).flat_map(|expert| [(expert, 0), (expert, 1)]) {
            let row = |row| (0..DIM).map(move |axis| entry(expert, half, row, axis));
            values.extend((0..LENGTH).flat_map(row));
        }
        let device = Device::Cpu;
        let pool = Tensor::from_vec(values, (4, 2 * LENGTH, DIM), &device).unwrap();
        // Key k points at angle k; an image's query at that of its expert.
        let angles = |of: &[usize]| {
            let at: Vec<f32> =
                of.iter().flat_map(|k| [(*k as f32).cos(), (*k as f32).sin()]).collect();
            Tensor::from_vec(at, (of.len(), 2), &device).unwrap()
        };
        let named = [(expert_name(0), pool), (EXPERT_KEYS.to_owned(), angles(&[0, 1, 2, 3]))];
        let pool: PromptTensors = named.into_iter().collect();
        let prompting = Experts { general: 0..0, experts: 0..1, expert, pull: 0.0, layout };
        let adapted = prompting.adapt(&pool, &angles(nearest)).unwrap();
        let prefix = adapted.prefix[0].clone().unwrap();
        [prefix.keys, prefix.values].map(|half| {
            let all = half.broadcast_as((nearest.len(), LENGTH, DIM)).unwrap();
            let all = all.contiguous().unwrap().to_vec3::<f32>().unwrap();
            all.into_iter().map(|image| image.concat()).collect()
        })
    }

    /// Of the reference entry `f` of the list, keys of all images and then values: the half it is of and the expert of
    /// the image it is of. Written out for five images by hand.
    const OF_FIVE: [[(usize, usize); 2]; 5] = [
        [(0, 0), (0, 1)],
        [(0, 2), (0, 3)],
        // The middle image of an odd batch has a key and a value, of the last and of the first image.
        [(0, 4), (1, 0)],
        [(1, 1), (1, 2)],
        [(1, 3), (1, 4)],
    ];

    fn whole(expert: usize, half: usize) -> Vec<f32> {
        let row = |row| (0..DIM).map(move |axis| entry(expert, half, row, axis));
        (0..LENGTH).flat_map(row).collect()
    }

    #[test]
    fn an_image_gets_keys_and_values_of_its_own_expert() {
        let nearest = [2, 0, 3, 1, 2];
        let [keys, values] = prefixes(ExpertLayout::Own, Expert::Nearest(0..4), &nearest);
        for (image, expert) in nearest.into_iter().enumerate() {
            assert_eq!([&keys[image], &values[image]], [&whole(expert, 0), &whole(expert, 1)]);
        }
        let [keys, values] = prefixes(ExpertLayout::Own, Expert::Given(1), &nearest);
        assert!(keys.iter().all(|own| *own == whole(1, 0)));
        assert!(values.iter().all(|own| *own == whole(1, 1)));
    }

    #[test]
    fn the_reference_mixes_up_halves_and_experts_of_a_batch() {
        let nearest = [2, 0, 3, 1, 2];
        let [keys, values] = prefixes(ExpertLayout::Reference, Expert::Nearest(0..4), &nearest);
        for (image, parts) in OF_FIVE.into_iter().enumerate() {
            let [key, value] = parts.map(|(half, image)| whole(nearest[image], half));
            assert_eq!([&keys[image], &values[image]], [&key, &value], "image {image}");
        }
        // In training all have one expert: only halves are mixed up.
        let [keys, values] = prefixes(ExpertLayout::Reference, Expert::Given(3), &nearest[..4]);
        let halves: [&[Vec<f32>]; 2] = [&keys, &values];
        for half in halves {
            assert_eq!(half[0], whole(3, 0));
            assert_eq!(half[1], whole(3, 0));
            assert_eq!(half[2], whole(3, 1));
            assert_eq!(half[3], whole(3, 1));
        }
    }
}
