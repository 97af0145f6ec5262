//! Named random streams. Every draw of a run comes from a ChaCha8 generator whose key names the purpose, task, round,
//! client and step of the draw, never its time.
//!
//! So another client, worker or logger changes no other draw, round 40 can be drawn
//! without rounds 1 to 39, and a checkpoint stores no generator state.
//!
//! ```
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! use rand::Rng;
//! let key = StreamKey::new(7, Domain::Shuffle).task(2).round(40).client(3);
//! let (a, b): (u64, u64) = (key.rng().random(), key.rng().random());
//! assert_eq!(a, b);
//! ```

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// Purpose of a stream.
///
/// The discriminants are part of the replay format: append new ones, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Domain {
    /// Assignment of samples to clients.
    Partition = 1,
    /// The order in which classes arrive.
    ClassOrder = 2,
    /// Initial values of tensors.
    Init = 3,
    /// Clients that take part in a round.
    Cohort = 4,
    /// Times at which a client can be reached.
    Availability = 5,
    /// Compute speed of a client (step 0) and its jitter per round.
    Compute = 6,
    /// Bandwidth and latency of a client (step 0) and their jitter per round.
    Link = 7,
    /// Failures of messages and clients.
    Fault = 8,
    /// Order of training samples.
    Shuffle = 9,
    /// Image augmentation.
    Augment = 10,
    /// Dropout masks.
    Dropout = 11,
    /// Noise for differential privacy.
    PrivacyNoise = 12,
    /// Stochastic codecs.
    Codec = 13,
    /// Features drawn from prototypes on the server (HGP's rebalancing).
    Rebalance = 14,
    /// Procedurally drawn images for the pretraining of the embedded network.
    Drawing = 15,
    /// Other needs of a single method; `step` distinguishes them.
    Method = 16,
    /// Random layer of closed-form methods (STSA).
    Projection = 17,
    /// Division of a client's shard among dummy clients.
    DummyClients = 18,
    /// Masks of secure aggregation.
    ///
    /// `client` is the earlier participant of a pair, `unit` the later one plus one, or zero for a participant's own
    /// mask.
    Mask = 19,
    /// Times at which tasks reach clients.
    Arrival = 20,
    /// Samples that are held out. Step 0: by `data.test_fraction` of all samples; step 1: class by class (task), for
    /// validation; step 2: auxiliary samples, class by class; step 3: by `data.test_fraction` of every class.
    HoldOut = 21,
    /// Synthetic data. Round 0: mean of a class (step); 1: shift of an owner (step); 2: classes of an owner (client);
    /// 3 and 4: noise of a training or test sample (step).
    Synthetic = 22,
    /// Initial images of feature inversion.
    Attack = 23,
}

/// Key of a random stream: equal keys give the same numbers, different keys independent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKey {
    seed: u64,
    domain: Domain,
    task: u32,
    round: u32,
    client: u32,
    unit: u32,
    step: u64,
}

impl StreamKey {
    /// Returns the stream of `domain` under `seed` at task, round, client and step 0.
    pub fn new(seed: u64, domain: Domain) -> Self {
        StreamKey { seed, domain, task: 0, round: 0, client: 0, unit: 0, step: 0 }
    }

    /// Returns the key with another purpose.
    pub fn domain(self, domain: Domain) -> Self {
        StreamKey { domain, ..self }
    }

    /// Returns the key of another task.
    pub fn task(self, task: u32) -> Self {
        StreamKey { task, ..self }
    }

    /// Returns the key of another round.
    pub fn round(self, round: u32) -> Self {
        StreamKey { round, ..self }
    }

    /// Returns the key of another client.
    pub fn client(self, client: u32) -> Self {
        StreamKey { client, ..self }
    }

    /// Returns the key of a unit of the client, such as a dummy client.
    pub fn unit(self, unit: u32) -> Self {
        StreamKey { unit, ..self }
    }

    /// Returns the key of another step (epoch, sample, attempt, class ...).
    pub fn step(self, step: u64) -> Self {
        StreamKey { step, ..self }
    }

    /// Returns the key with a step derived from a name, the first eight bytes of its hash.
    pub fn named(self, name: &str) -> Self {
        let hash = blake3::hash(name.as_bytes());
        let (first, _) = hash.as_bytes().split_at(8);
        self.step(first.iter().rev().fold(0, |step, byte| (step << 8) | u64::from(*byte)))
    }

    /// Returns a fresh generator at the start of this stream.
    pub fn rng(self) -> ChaCha8Rng {
        let words = self.mix();
        let mut seed = [0u8; 32];
        for (chunk, word) in seed.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        ChaCha8Rng::from_seed(seed)
    }

    /// Absorbs the fields one by one with SplitMix64's finalizer, then squeezes four words. It must never change, as
    /// the test vectors below are part of the replay format.
    fn mix(self) -> [u64; 4] {
        let place = (u64::from(self.task) << 32) | u64::from(self.round);
        let who = (u64::from(self.domain as u16) << 32) | u64::from(self.client);
        let mut state = 0x6665_6463_6173_7431; // "fedcast1"
        for word in [self.seed, who, place, u64::from(self.unit), self.step] {
            state = finalize(state ^ word);
        }
        std::array::from_fn(|i| finalize(state.wrapping_add((i as u64 + 1).wrapping_mul(GOLDEN))))
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the next value of SplitMix64's sequence after `x` (Steele, Lea, Flood 2014).
fn finalize(x: u64) -> u64 {
    let mut z = x.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn every_field_of_the_key_matters() {
        let base = StreamKey::new(1, Domain::Shuffle);
        let keys = [
            base,
            StreamKey::new(2, Domain::Shuffle),
            base.domain(Domain::Augment),
            base.task(1),
            base.round(1),
            base.client(1),
            base.unit(1),
            base.step(1),
        ];
        let firsts: std::collections::BTreeSet<u64> =
            keys.iter().map(|k| k.rng().random()).collect();
        assert_eq!(firsts.len(), keys.len());
    }

    #[test]
    fn the_mix_never_changes() {
        let key = StreamKey::new(42, Domain::Partition).task(3).round(17).client(99).step(5);
        let drawn: [u64; 2] = key.rng().random();
        assert_eq!(drawn, PINNED);
    }

    /// Recorded once; a change breaks the replay of every recorded run.
    const PINNED: [u64; 2] = [12_149_076_605_223_286_706, 10_724_517_526_530_225_270];
}
