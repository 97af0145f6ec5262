//! Masks that hide an upload and cancel in the sum.
//!
//! Participant i adds its own mask, and for every other member j a mask that both know: the earlier participant of a
//! pair adds it, the later one subtracts it. Added over all members the pairs cancel.

use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ParticipantId, Round};
use rand::RngCore;

/// The masks of one round.
#[derive(Clone, Copy, Debug)]
pub struct Masks {
    key: StreamKey,
}

/// Direction of masking: mask added or removed.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    On,
    Off,
}

impl Masks {
    /// Returns the masks of a round of a run.
    pub fn new(run_seed: u64, round: Round) -> Masks {
        Masks { key: StreamKey::new(run_seed, Domain::Mask).round(round.0) }
    }

    /// Masks what a member sends: its own mask, and one for every other member.
    pub fn put(&self, words: &mut [u64], participant: ParticipantId, members: &[ParticipantId]) {
        self.own(words, participant, Turn::On);
        for other in members.iter().filter(|other| **other != participant) {
            self.pair(words, participant, *other, Turn::On);
        }
    }

    /// Subtracts the masks that have not cancelled from a sum.
    ///
    /// These are the own masks of members that `arrived`, and their masks with members that `dropped` out, whose
    /// uploads never entered the sum.
    pub fn remove(&self, sum: &mut [u64], arrived: &[ParticipantId], dropped: &[ParticipantId]) {
        for participant in arrived {
            self.own(sum, *participant, Turn::Off);
            for other in dropped {
                self.pair(sum, *participant, *other, Turn::Off);
            }
        }
    }

    fn own(&self, words: &mut [u64], participant: ParticipantId, turn: Turn) {
        add(words, self.key.client(participant.0), turn);
    }

    /// Applies the mask that `participant` shares with `other`, with the sign that `participant` uses.
    fn pair(
        &self,
        words: &mut [u64],
        participant: ParticipantId,
        other: ParticipantId,
        turn: Turn,
    ) {
        let key = self.key.client(participant.min(other).0).unit(participant.max(other).0 + 1);
        let turn = match (participant < other, turn) {
            (true, turn) => turn,
            (false, Turn::On) => Turn::Off,
            (false, Turn::Off) => Turn::On,
        };
        add(words, key, turn);
    }
}

fn add(words: &mut [u64], key: StreamKey, turn: Turn) {
    let mut rng = key.rng();
    for word in words {
        let mask = rng.next_u64();
        *word = match turn {
            Turn::On => word.wrapping_add(mask),
            Turn::Off => word.wrapping_sub(mask),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(rows: &[Vec<u64>]) -> Vec<u64> {
        let mut sum = vec![0u64; rows.first().map_or(0, Vec::len)];
        for row in rows {
            sum.iter_mut().zip(row).for_each(|(sum, word)| *sum = sum.wrapping_add(*word));
        }
        sum
    }

    fn masked(
        masks: &Masks,
        words: &[u64],
        participant: ParticipantId,
        members: &[ParticipantId],
    ) -> Vec<u64> {
        let mut words = words.to_vec();
        masks.put(&mut words, participant, members);
        words
    }

    proptest! {
        /// For every set of dropouts, the result is the ring sum of those that did not drop out, to the bit.
        #[test]
        fn what_is_left_is_the_sum_of_those_who_arrived(
            seed: u64,
            round: u32,
            contents in prop::collection::vec((prop::collection::vec(any::<u64>(), 5), any::<bool>()), 2..9),
            gaps in prop::collection::vec(0u32..3, 9),
        ) {
            let masks = Masks::new(seed, Round(round));
            // Participants that failed to introduce themselves leave gaps among the members.
            let members: Vec<ParticipantId> = gaps
                .iter()
                .take(contents.len())
                .scan(0, |next, gap| { *next += gap + 1; Some(ParticipantId(*next)) })
                .collect();
            let (mut arrived, mut dropped, mut sent, mut plain) = (vec![], vec![], vec![], vec![]);
            for ((content, arrives), participant) in contents.iter().zip(&members) {
                if *arrives {
                    arrived.push(*participant);
                    sent.push(masked(&masks, content, *participant, &members));
                    plain.push(content.clone());
                } else {
                    dropped.push(*participant);
                }
            }
            let mut total = sum(&sent);
            masks.remove(&mut total, &arrived, &dropped);
            prop_assert_eq!(total, sum(&plain));
        }

        /// An upload is its content plus a mask that does not depend on the content. So under a uniform mask a given
        /// upload is equally likely for any content: it reveals nothing about it.
        #[test]
        fn the_mask_does_not_depend_on_the_content(seed: u64, a: [u64; 3], b: [u64; 3]) {
            let masks = Masks::new(seed, Round(1));
            let members = [ParticipantId(0), ParticipantId(4), ParticipantId(5)];
            let mask_of = |content: &[u64]| -> Vec<u64> {
                let upload = masked(&masks, content, ParticipantId(4), &members);
                upload.iter().zip(content).map(|(y, x)| y.wrapping_sub(*x)).collect()
            };
            prop_assert_eq!(mask_of(&a), mask_of(&b));
        }
    }

    /// Uploads of two very different contents, under many seeds: every bit is set half of the
    /// time and every value of the top byte is as frequent as any other, for both.
    #[test]
    fn a_single_upload_looks_the_same_whatever_it_holds() {
        const SEEDS: u64 = 20_000;
        let members = [ParticipantId(0), ParticipantId(1)];
        for content in [0u64, 0x0123_4567_89ab_cdef] {
            let (mut ones, mut bytes) = ([0u32; 64], [0u32; 256]);
            for seed in 0..SEEDS {
                let word =
                    masked(&Masks::new(seed, Round(3)), &[content], ParticipantId(1), &members)[0];
                (0..64).for_each(|bit| ones[bit] += (word >> bit & 1) as u32);
                bytes[(word >> 56) as usize] += 1;
            }
            let (mean, deviation) = (SEEDS as f64 / 2.0, (SEEDS as f64 / 4.0).sqrt());
            for (bit, count) in ones.iter().enumerate() {
                let off = (f64::from(*count) - mean) / deviation;
                assert!(off.abs() < 4.5, "bit {bit} of {content:x} is off by {off} deviations");
            }
            let expected = SEEDS as f64 / 256.0;
            let square = |count: &u32| (f64::from(*count) - expected).powi(2) / expected;
            let chi: f64 = bytes.iter().map(square).sum();
            // 255 degrees of freedom: mean 255, deviation 22.6.
            assert!((160.0..370.0).contains(&chi), "chi-square {chi} of {content:x}");
        }
    }

    /// Equal seeds give equal masks; another round or another pair gives other ones.
    #[test]
    fn masks_belong_to_a_round_and_a_pair() {
        let of = |seed, round, participant, members: &[u32]| {
            let members: Vec<ParticipantId> =
                members.iter().map(|participant| ParticipantId(*participant)).collect();
            masked(&Masks::new(seed, Round(round)), &[0; 2], ParticipantId(participant), &members)
        };
        let base = of(1, 1, 0, &[0, 1]);
        assert_eq!(base, of(1, 1, 0, &[0, 1]));
        for other in
            [of(2, 1, 0, &[0, 1]), of(1, 2, 0, &[0, 1]), of(1, 1, 1, &[0, 1]), of(1, 1, 0, &[0, 2])]
        {
            assert_ne!(base, other);
        }
    }
}
