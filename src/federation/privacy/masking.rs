//! The masking of one round: what a member puts on its upload, and what the server takes off the sum.

use std::sync::Arc;

use super::{Masks, Modulus, SecureAggregation};
use crate::federation::FrameBytes;
use crate::quantity::ParticipantId;
use crate::wire::{Body, BodyShape, CodecPlan, Dtype, FrameSize, WireError};

/// Agreement of the members of a round, with which uploads are masked and their sum is opened.
pub(crate) struct Masking {
    pub rules: SecureAggregation,
    pub masks: Masks,
    /// Participants whose uploads are masked, in participant order.
    pub members: Vec<ParticipantId>,
    /// Number of participants of the round, members or not: an upper bound of the number of summands.
    pub participants: usize,
    /// Shape of the first participant's upload, which those of all others must have.
    pub up: BodyShape,
}

impl Masking {
    /// Returns the size of a masked upload: no codec can make it smaller.
    pub fn size(&self) -> Arc<FrameBytes> {
        let masked = contributions(self.up.clone(), self.rules.numbers.modulus.dtype());
        Arc::new(FrameBytes::from(&FrameSize::of_shape(&masked, &CodecPlan::default())))
    }

    /// Returns the masked summand that a member sends.
    ///
    /// # Errors
    /// Returns a description if the ring cannot carry a number or the summand has another layout.
    pub fn mask(&self, participant: ParticipantId, contribution: &Body) -> Result<Body, String> {
        if contribution.shape() != contributions(self.up.clone(), Dtype::F64) {
            return Err("its summands are not laid out like those of the round".into());
        }
        let numbers = &self.rules.numbers;
        let mut words = numbers.words(contribution, self.participants)?;
        self.masks.put(&mut words, participant, &self.members);
        numbers.pack(&words, contribution).map_err(|error| error.to_string())
    }

    /// Returns the numbers of a sum of uploads, after the masks that did not cancel are subtracted.
    pub fn open(&self, sum: MaskedSum) -> Result<Body, WireError> {
        let numbers = &self.rules.numbers;
        let mut words = sum.words;
        let dropped: Vec<ParticipantId> = self
            .members
            .iter()
            .copied()
            .filter(|participant| !sum.participants.contains(participant))
            .collect();
        self.masks.remove(&mut words, &sum.participants, &dropped);
        numbers.numbers(&words, &sum.like)
    }
}

/// Returns the shape of the summands of an upload, or of their masked forms: the same tensors of another type.
pub fn contributions(upload: BodyShape, dtype: Dtype) -> BodyShape {
    let mut shape = upload;
    let tensors = shape.sections.iter_mut().flat_map(|section| &mut section.tensors);
    tensors.for_each(|tensor| tensor.dtype = dtype);
    shape
}

/// Masked uploads, added. Addition in a ring is associative: any tree gives the same bits.
pub(crate) struct MaskedSum {
    words: Vec<u64>,
    /// Participants of these uploads, in participant order.
    participants: Vec<ParticipantId>,
    /// Shapes and the meta that all uploads have in common.
    like: Arc<Body>,
}

impl MaskedSum {
    /// Creates the sum of one upload.
    pub fn one(
        modulus: Modulus,
        participant: ParticipantId,
        upload: &Body,
    ) -> Result<MaskedSum, WireError> {
        let numbers = super::FixedPoint { modulus, bits: 0 };
        let words = numbers.unpack(upload)?;
        Ok(MaskedSum { words, participants: vec![participant], like: Arc::new(upload.clone()) })
    }

    /// Merges both sums.
    ///
    /// # Panics
    /// Panics if the sums differ in layout or meta. Members check the layout, and control fields of a round are equal
    /// if its participants learn the same task.
    pub fn merge(mut self, later: MaskedSum) -> MaskedSum {
        assert!(
            self.like.meta == later.like.meta,
            "the meta of summands differs between participants"
        );
        assert_eq!(self.words.len(), later.words.len(), "summands differ in length");
        for (word, more) in self.words.iter_mut().zip(&later.words) {
            *word = word.wrapping_add(*more);
        }
        self.participants.extend(later.participants);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::privacy::FixedPoint;
    use crate::quantity::Round;
    use crate::wire::{Kind, NamedTensor, Section};
    use proptest::prelude::*;

    fn body(values: &[f64]) -> Body {
        let (first, rest) = values.split_at(1);
        let weight = NamedTensor::f64("weight", [rest.len()], rest).unwrap();
        let count = NamedTensor::f64("samples", [], first).unwrap();
        let sections = vec![
            Section::new(Kind::Head, vec![weight]),
            Section::new(Kind::Statistics, vec![count]),
        ];
        Body::new(vec![7], sections)
    }

    fn flat(body: &Body) -> Vec<f64> {
        body.tensors().flat_map(|(_, tensor)| tensor.as_f64().unwrap().to_vec()).collect()
    }

    proptest! {
        /// From messages to messages: for every set of dropouts, the opened sum is the integer sum of the others'
        /// encoded values, in either ring and merged in any grouping.
        #[test]
        fn an_opened_sum_is_exact(
            seed: u64,
            bits in 4u32..16,
            wide: bool,
            contents in prop::collection::vec((prop::collection::vec(-50.0f64..50.0, 4), any::<bool>()), 2..8),
        ) {
            let modulus = if wide { Modulus::Bits64 } else { Modulus::Bits32 };
            let numbers = FixedPoint { modulus, bits };
            let members: Vec<ParticipantId> = (0..contents.len() as u32).map(ParticipantId).collect();
            let masking = Masking {
                rules: SecureAggregation { numbers, threshold: 0.5 },
                masks: Masks::new(seed, Round(0)),
                members: members.clone(),
                participants: members.len(),
                up: body(&[0.0; 4]).shape(),
            };
            let mut exact = [0i64; 4];
            let mut sums = Vec::new();
            for (participant, (content, _)) in members.iter().zip(&contents).filter(|(_, c)| c.1) {
                let upload = masking.mask(*participant, &body(content)).unwrap();
                prop_assert!(upload.tensors().all(|(_, tensor)| tensor.dtype() == modulus.dtype()));
                sums.push(MaskedSum::one(modulus, *participant, &upload).unwrap());
                for (sum, value) in exact.iter_mut().zip(flat(&body(content))) {
                    *sum += (value * f64::from(1 << bits)).round_ties_even() as i64;
                }
            }
            let later = sums.split_off(sums.len() / 2);
            let halves = [sums, later].into_iter().filter_map(|h| h.into_iter().reduce(MaskedSum::merge));
            if let Some(sum) = halves.reduce(MaskedSum::merge) {
                let opened = masking.open(sum).unwrap();
                prop_assert_eq!(&opened.meta, &vec![7]);
                let exact: Vec<f64> =
                    exact.iter().map(|sum| *sum as f64 / f64::from(1 << bits)).collect();
                prop_assert_eq!(flat(&opened), exact);
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_said_and_never_wraps() {
        let numbers = FixedPoint { modulus: Modulus::Bits32, bits: 16 };
        let masking = Masking {
            rules: SecureAggregation { numbers, threshold: 0.5 },
            masks: Masks::new(1, Round(0)),
            members: vec![ParticipantId(0), ParticipantId(1)],
            participants: 2,
            up: body(&[0.0; 3]).shape(),
        };
        let error = masking.mask(ParticipantId(0), &body(&[1.0, 1e9, 0.0])).unwrap_err();
        assert!(error.contains("`weight`") && error.contains("2 summands"), "{error}");
        let error = masking.mask(ParticipantId(0), &body(&[0.0; 5])).unwrap_err();
        assert!(error.contains("laid out"), "{error}");
    }
}
