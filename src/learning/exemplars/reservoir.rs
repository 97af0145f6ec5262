//! Reservoir sampling of a stream of samples.

use crate::data::Shard;
use crate::wire::{Kind, Loading, NamedTensor, SavedField, Saving, WireError};

/// Sample with the logits that a model once gave it.
#[derive(Clone, Debug, PartialEq)]
pub struct BufferedSample {
    /// Index of the sample in the data set.
    pub sample: u32,
    /// Logits of the head rows from 0 on; empty if none were stored.
    pub logits: Vec<f32>,
}

/// Uniform sample of a stream: each of `n` samples offered is kept with probability `capacity / n`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reservoir {
    slots: Vec<BufferedSample>,
    offered: u64,
}

impl Reservoir {
    /// Offers the next sample of the stream. It takes a free slot if there is one. Otherwise it replaces the sample in
    /// the slot that `draw` returns, uniform below its argument, if there is such a slot.
    pub fn offer(&mut self, capacity: usize, new: BufferedSample, draw: impl FnOnce(u64) -> u64) {
        let before = self.offered;
        self.offered += 1;
        if self.slots.len() < capacity {
            return self.slots.push(new);
        }
        if capacity == 0 {
            return;
        }
        if let Some(slot) = self.slots.get_mut(draw(before + 1) as usize) {
            *slot = new;
        }
    }

    /// Returns the number of samples ever offered.
    pub fn offered(&self) -> u64 {
        self.offered
    }

    /// Returns the stored samples, by slot.
    pub fn slots(&self) -> &[BufferedSample] {
        &self.slots
    }

    /// Returns the stored samples mutably, so that their logits can be updated.
    pub fn slots_mut(&mut self) -> impl Iterator<Item = &mut BufferedSample> {
        self.slots.iter_mut()
    }

    /// Returns the indices of the stored samples, by slot.
    pub fn samples(&self) -> Shard {
        self.slots.iter().map(|slot| slot.sample).collect()
    }
}

/// The metadata holds the samples and the number of logits of each, a tensor the logits.
impl SavedField for Reservoir {
    fn save_field(&self, into: &mut Saving) {
        into.meta.u64(self.offered);
        let widths: Vec<u32> = self.slots.iter().map(|slot| slot.logits.len() as u32).collect();
        let logits: Vec<f32> = self.slots.iter().flat_map(|slot| slot.logits.clone()).collect();
        into.list(Kind::Exemplars, "samples", self.samples());
        into.list(Kind::Exemplars, "widths", widths);
        let logits = NamedTensor::f32("logits", [logits.len()], logits);
        let logits = logits.expect("a list fills its length");
        into.section(Kind::Exemplars).tensors.push(logits);
    }

    fn load_field(from: &mut Loading<'_>) -> Result<Reservoir, WireError> {
        let offered = from.meta.u64()?;
        let list = |name: &str| from.list(Kind::Exemplars, name);
        let (samples, widths) = (list("samples")?, list("widths")?);
        let mut logits = &from.body.tensor(Kind::Exemplars, "logits")?.as_f32()?[..];
        let slots = samples.iter().zip(widths.iter()).map(|(sample, width)| {
            let cut = || WireError::Malformed("remembered logits are cut short".to_owned());
            let (own, rest) = logits.split_at_checked(*width as usize).ok_or_else(cut)?;
            logits = rest;
            Ok(BufferedSample { sample: *sample, logits: own.to_vec() })
        });
        Ok(Reservoir { slots: slots.collect::<Result<_, WireError>>()?, offered })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use crate::numerics::distributions::below;
    use crate::numerics::streams::{Domain, StreamKey};
    use crate::wire::MetaReader;

    fn plain(sample: u32) -> BufferedSample {
        BufferedSample { sample, logits: Vec::new() }
    }

    #[test]
    fn golden_rehearsal_reservoir() {
        let Some(golden) = Golden::open("rehearsal") else { return };
        let (draws, more) = (golden.i64("reservoir.draws"), golden.i64("reservoir.draws2"));
        let mut memory = Reservoir::default();
        let mut all = Vec::new();
        for (sample, draw) in draws.iter().chain(&more).enumerate() {
            memory.offer(7, plain(sample as u32), |below| {
                assert_eq!(below, sample as u64 + 1);
                *draw as u64
            });
            let mut slots: Vec<i64> = memory.samples().iter().map(|s| i64::from(*s)).collect();
            slots.resize(7, -1);
            all.push(slots);
        }
        assert_eq!(all[..60].concat(), golden.i64("reservoir.slots"));
        assert_eq!(all[119], golden.i64("reservoir.continued"));
        let expected = 20_000.0 * 7.0 / 60.0;
        for kept in golden.i64("reservoir.kept") {
            assert!((kept as f64 - expected).abs() < 5.0 * expected.sqrt(), "{kept}");
        }
    }

    /// Rehearsal card, invariant 2: never more than the capacity; the first always enter, and after n of them each is
    /// there with probability M / n.
    #[test]
    fn every_sample_of_a_stream_is_as_likely_to_be_kept() {
        const STREAMS: u32 = 6_000;
        let mut kept = [0u32; 30];
        for stream in 0..STREAMS {
            let key = StreamKey::new(3, Domain::Method).client(stream);
            let mut memory = Reservoir::default();
            for sample in 0..30 {
                let draw = |n| below(&mut key.step(u64::from(sample)).rng(), n);
                memory.offer(6, plain(sample), draw);
                assert_eq!(memory.slots().len(), 6.min(sample as usize + 1));
            }
            memory.samples().iter().for_each(|sample| kept[*sample as usize] += 1);
        }
        let expected = f64::from(STREAMS) * 6.0 / 30.0;
        for (sample, kept) in kept.iter().enumerate() {
            assert!(
                (f64::from(*kept) - expected).abs() < 5.0 * expected.sqrt(),
                "{sample}: {kept}"
            );
        }
        let mut none = Reservoir::default();
        none.offer(0, plain(1), |_| 0);
        assert!(none.slots().is_empty());
    }

    /// Invariant 9.
    #[test]
    fn a_memory_is_read_back_with_its_counter_and_logits() {
        let mut memory = Reservoir::default();
        for sample in 0..5 {
            let logits = vec![sample as f32; sample as usize];
            memory.offer(3, BufferedSample { sample, logits }, |n| n - 3);
        }
        let mut into = Saving::default();
        into.meta.u64(77);
        memory.save_field(&mut into);
        let saved = into.finish();
        let mut from = Loading { meta: MetaReader::new(&saved.meta), body: &saved };
        assert_eq!(from.meta.u64().unwrap(), 77);
        assert_eq!(Reservoir::load_field(&mut from).unwrap(), memory);
        assert_eq!(memory.offered(), 5);
    }
}
