//! Division of a batch's samples among the members of a pack.
//!
//! A pack trains several clients in one forward and backward pass: their samples are concatenated in the batch, and
//! everything that belongs to a member (prefix, head, loss) has a leading axis of members. On the CPU every matrix
//! product of a pack has the shape that it has for its member alone, and so the same bits; elsewhere products run over
//! all members at once.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Result, Tensor, bail};

/// Consecutive samples of a batch for each member of a pack, possibly none.
///
/// ```
/// use fedcast_kernels::ops::SampleGroups;
/// let groups = SampleGroups::new([2, 0, 3]);
/// assert_eq!((groups.members(), groups.samples()), (3, 5));
/// assert!(groups.runs().eq([0..2, 2..2, 2..5]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleGroups {
    sizes: Arc<[usize]>,
}

impl SampleGroups {
    /// Returns groups of these sizes.
    pub fn new(sizes: impl Into<Arc<[usize]>>) -> SampleGroups {
        SampleGroups { sizes: sizes.into() }
    }

    /// Returns groups in which all samples are one member's.
    pub fn one(samples: usize) -> SampleGroups {
        SampleGroups::new([samples])
    }

    /// Returns groups of one sample each.
    pub fn each(samples: usize) -> SampleGroups {
        SampleGroups::new(vec![1; samples])
    }

    /// Returns the number of members, including those without samples.
    pub fn members(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the number of samples of all members together.
    pub fn samples(&self) -> usize {
        self.sizes.iter().sum()
    }

    /// Returns the number of samples of each member.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Returns the range of each member's samples.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        self.sizes.iter().scan(0, |next, size| {
            let start = *next;
            *next += size;
            Some(start..*next)
        })
    }

    /// Returns the number of samples per member, if all have equally many.
    pub(super) fn equal_size(&self) -> Option<usize> {
        let first = *self.sizes.first()?;
        self.sizes.iter().all(|size| *size == first).then_some(first)
    }

    /// Returns the member of each sample, `(samples)`.
    pub fn index(&self, device: &Device) -> Result<Tensor> {
        let members = self.sizes.iter().zip(0u32..);
        let index = members.flat_map(|(size, member)| std::iter::repeat_n(member, *size));
        Tensor::from_vec(index.collect(), self.samples(), device)
    }

    /// Returns the first sample of each member, followed by the number of samples, `(members + 1)`.
    pub(super) fn starts(&self, device: &Device) -> Result<Tensor> {
        let ends = self.runs().map(|run| run.end as u32);
        let starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
        Tensor::from_vec(starts, self.members() + 1, device)
    }

    /// Checks that the groups belong to a batch of this size.
    pub(super) fn fit(&self, op: &str, samples: usize) -> Result<()> {
        if self.samples() != samples {
            bail!("{op}: members of {:?} samples in a batch of {samples}", self.sizes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_know_their_member() -> Result<()> {
        let index = SampleGroups::new([2, 0, 1]).index(&Device::Cpu)?;
        assert_eq!(index.to_vec1::<u32>()?, [0, 0, 2]);
        let starts = SampleGroups::new([2, 0, 1]).starts(&Device::Cpu)?;
        assert_eq!(starts.to_vec1::<u32>()?, [0, 2, 2, 3]);
        assert_eq!(SampleGroups::each(3), SampleGroups::new([1, 1, 1]));
        assert_eq!(SampleGroups::one(4).equal_size(), Some(4));
        assert_eq!(SampleGroups::new([1, 2]).equal_size(), None);
        assert!(SampleGroups::one(4).fit("op", 5).is_err());
        Ok(())
    }
}
