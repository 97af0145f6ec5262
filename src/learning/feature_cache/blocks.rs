//! Canonical blocks of a split.
//!
//! A block is the unit that is computed, checked and written at once: for every class its samples in index order, cut
//! in chunks of [`BLOCK`]. Samples of a class are usually requested together, in a task and by its clients. The batches
//! do not depend on who requests first. So the number of workers and clients changes no result, even on a GPU, where
//! bits depend on the batch around a sample.

use crate::data::Split;

/// Samples in a block; the last block of a class may be smaller. The size is part of every key.
pub const BLOCK: usize = 32;

/// Division of a split into blocks.
#[derive(Debug)]
pub(super) struct Blocks {
    /// All samples, block after block.
    samples: Vec<u32>,
    /// Start of each block in `samples`, and the end.
    starts: Vec<usize>,
    /// Block and row within it of every sample.
    places: Vec<(u32, u32)>,
}

impl Blocks {
    pub fn of(split: &Split) -> Blocks {
        let mut samples = Vec::with_capacity(split.len());
        let mut starts = vec![0];
        let mut places = vec![(0, 0); split.len()];
        for chunk in split.by_class().iter().flat_map(|class| class.chunks(BLOCK)) {
            for (row, sample) in chunk.iter().enumerate() {
                places[*sample as usize] = (starts.len() as u32 - 1, row as u32);
            }
            samples.extend(chunk);
            starts.push(samples.len());
        }
        Blocks { samples, starts, places }
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the samples of a block.
    pub fn samples(&self, block: usize) -> &[u32] {
        &self.samples[self.starts[block]..self.starts[block + 1]]
    }

    /// Returns the number of samples before a block.
    pub fn start(&self, block: usize) -> usize {
        self.starts[block]
    }

    /// Returns the number of samples in all blocks.
    pub fn total(&self) -> usize {
        self.samples.len()
    }

    /// Returns the block of a sample and its row within it.
    pub fn place(&self, sample: u32) -> (usize, usize) {
        let (block, row) = self.places[sample as usize];
        (block as usize, row as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::digits;

    #[test]
    fn every_sample_is_in_one_block_of_its_class() {
        let split = digits::embedded().unwrap().train;
        let blocks = Blocks::of(&split);
        let mut seen = vec![false; split.len()];
        for block in 0..blocks.len() {
            let samples = blocks.samples(block);
            assert!(!samples.is_empty() && samples.len() <= BLOCK && samples.is_sorted());
            for (row, sample) in samples.iter().enumerate() {
                assert_eq!(blocks.place(*sample), (block, row));
                assert_eq!(split.labels()[*sample as usize], split.labels()[samples[0] as usize]);
                assert!(!std::mem::replace(&mut seen[*sample as usize], true));
            }
        }
        assert!(seen.into_iter().all(|seen| seen));
        assert_eq!(
            (blocks.total(), blocks.start(blocks.len() - 1) < split.len()),
            (split.len(), true)
        );
    }
}
