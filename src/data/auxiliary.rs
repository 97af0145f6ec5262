//! Samples that belong to no client and to no task: a public, unlabeled set from which methods distil.
//!
//! The samples are shuffled and dealt into equal shards; a remainder that does not fill a shard is left out. A client
//! uses the shard of its number modulo the number of shards, so that clients share shards if there are more clients.

use std::sync::Arc;

use super::{DataError, Loader, Shard, Split, TaskSequence, Transform};
use crate::numerics::distributions::shuffle;
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::ClientId;

/// First stream step of the shuffle below `Domain::HoldOut`; smaller steps belong to held-out samples.
const ORDER: u64 = 1 << 32;

/// Facts about auxiliary samples, known before any is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxiliaryFacts {
    /// Number of samples in each shard.
    pub samples: usize,
    /// Channels, rows and columns of a stored image; `None` if images differ in size.
    pub image: Option<[usize; 3]>,
    /// True if the server has its own shard.
    pub server: bool,
}

/// Unlabeled samples in shards.
#[derive(Clone, Debug)]
pub struct Auxiliary {
    /// Samples with all labels set to zero.
    split: Arc<Split>,
    order: Arc<[u32]>,
    /// Number of shards for clients.
    parts: usize,
    /// True if the server has a shard in addition.
    server: bool,
}

impl Auxiliary {
    /// Returns the samples of a split without their labels, for a model of `classes` classes.
    ///
    /// # Errors
    /// Returns an error if there are fewer samples than shards.
    pub fn new(
        split: &Arc<Split>,
        classes: usize,
        (parts, server): (usize, bool),
        seed: u64,
    ) -> Result<Auxiliary, DataError> {
        Auxiliary::check_shards(split.len(), (parts, server))?;
        let all: Vec<u32> = (0..split.len() as u32).collect();
        let unlabeled = Split::chosen(split, all.clone(), vec![0; all.len()], classes)?;
        let mut order = all;
        shuffle(&mut StreamKey::new(seed, Domain::HoldOut).step(ORDER).rng(), &mut order);
        Ok(Auxiliary { split: Arc::new(unlabeled), order: order.into(), parts, server })
    }

    /// Checks that every shard gets a sample, from `samples` samples in all.
    ///
    /// # Errors
    /// Returns an error if there are fewer samples than shards, or no shard for clients.
    pub fn check_shards(samples: usize, (parts, server): (usize, bool)) -> Result<(), DataError> {
        let shards = parts + usize::from(server);
        if parts > 0 && samples >= shards {
            return Ok(());
        }
        Err(DataError::unfit_at(
            "data.auxiliary.parts",
            format!("{samples} auxiliary samples cannot be dealt in {shards} shards"),
            "set a smaller `data.auxiliary.parts`, or use more auxiliary samples",
        ))
    }

    /// Returns the size of every shard, from `samples` samples in all.
    pub fn samples_of_a_shard(samples: usize, (parts, server): (usize, bool)) -> usize {
        samples / (parts + usize::from(server)).max(1)
    }

    /// Returns the index of the shard that a client uses.
    pub fn number_of(&self, client: ClientId) -> usize {
        client.index() % self.parts
    }

    /// Returns the shard of a client.
    pub fn of(&self, client: ClientId) -> Shard {
        self.shard(self.number_of(client))
    }

    /// Returns the shard of the server, where it has one.
    pub fn of_server(&self) -> Option<Shard> {
        self.server.then(|| self.shard(self.parts))
    }

    fn shard(&self, number: usize) -> Shard {
        let each = Auxiliary::samples_of_a_shard(self.order.len(), (self.parts, self.server));
        let mut own = self.order[number * each..(number + 1) * each].to_vec();
        own.sort_unstable();
        own.into()
    }

    /// Returns all auxiliary samples; their labels are zero.
    pub fn split(&self) -> &Arc<Split> {
        &self.split
    }

    /// Returns a loader of a shard, whose images pass through `transform`.
    pub fn loader(
        &self,
        shard: &Shard,
        task_sequence: &Arc<TaskSequence>,
        transform: &Arc<Transform>,
    ) -> Loader {
        let (split, task_sequence) = (Arc::clone(&self.split), Arc::clone(task_sequence));
        Loader::new(split, Arc::clone(shard), task_sequence, Arc::clone(transform))
    }

    /// Returns the bytes of all images of a shard, concatenated.
    ///
    /// # Errors
    /// Returns an error if an image cannot be read.
    pub fn bytes(&self, shard: &Shard) -> Result<Vec<u8>, DataError> {
        let mut bytes = Vec::new();
        for sample in shard.iter() {
            bytes.extend_from_slice(&self.split.image(*sample as usize)?.pixels);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::data::digits;

    #[test]
    fn shards_are_equal_and_disjoint() {
        let digits = digits::embedded().unwrap();
        let of = |parts, server, seed| Auxiliary::new(&digits.train, 4, (parts, server), seed);
        let dealt = of(7, true, 3).unwrap();
        let mut shards: Vec<Shard> = (0..7).map(|client| dealt.of(ClientId(client))).collect();
        shards.push(dealt.of_server().unwrap());
        let each = digits.train.len() / 8;
        assert!(shards.iter().all(|shard| shard.len() == each));
        let all: BTreeSet<u32> = shards.iter().flat_map(|shard| shard.to_vec()).collect();
        assert_eq!(all.len(), 8 * each);
        assert_eq!(dealt.of(ClientId(9)), shards[2]);
        assert_eq!((dealt.number_of(ClientId(9)), of(7, false, 3).unwrap().of_server()), (2, None));
        assert_ne!(of(7, true, 4).unwrap().of(ClientId(0)), shards[0]);
        assert_eq!(dealt.split().labels()[5], 0);
        let first = shards[1][0] as usize;
        assert_eq!(dealt.bytes(&shards[1]).unwrap().len(), 64 * each);
        assert_eq!(
            dealt.bytes(&shards[1]).unwrap()[..64],
            digits.train.image(first).unwrap().pixels[..]
        );
        let error = of(2_000, false, 1).unwrap_err().to_string();
        assert!(error.contains("in 2000 shards"), "{error}");
    }
}
