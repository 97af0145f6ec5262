//! Legs of secure aggregation: which frames travel when, how large they are, and which participants are left. Pure
//! functions of the links, so that a run and its plan cannot disagree.
//!
//! # Sizes
//! Through the real encoder, as tensors of [`Kind::SecureAggregation`]: a public key is 32 bytes (X25519), two
//! per participant; a secret share is 32 bytes; a sealed pair of shares (of the pair key and of the own
//! mask's seed) is 2 x 32 bytes and a 16-byte authentication tag. Members are one bit each.

use std::sync::Arc;

use super::SecureAggregation;
use crate::federation::event::{Direction, FrameBytes};
use crate::federation::links::{Fate, Links, PROTOCOL_FRAMES, Transfer};
use crate::policy::Participant;
use crate::quantity::{ParticipantId, Round, VirtualTime};
use crate::wire::{BodyShape, CodecPlan, Dtype, FrameSize, Kind, SectionShape, TensorShape};

/// Bytes of a public key or of a secret share.
const KEY: usize = 32;
/// Bytes of a sealed pair of shares, with its authentication tag.
const SEALED: usize = 2 * KEY + 16;

/// A leg of the protocol; uploads are not among them, they travel as any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtocolStep {
    /// upload: own public keys.
    Keys,
    /// download: public keys of all participants.
    Roster,
    /// upload: shares of own secrets for every other participant.
    Shares,
    /// download: the shares that others made for this participant.
    Inbox,
    /// download: the participants whose upload arrived.
    Survivors,
    /// upload: one share for every member.
    Answer,
}

impl ProtocolStep {
    /// Returns the direction of its frames.
    pub fn direction(self) -> Direction {
        match self {
            ProtocolStep::Keys | ProtocolStep::Shares | ProtocolStep::Answer => Direction::Up,
            ProtocolStep::Roster | ProtocolStep::Inbox | ProtocolStep::Survivors => Direction::Down,
        }
    }

    /// Returns the shape of a frame of the leg.
    ///
    /// `others` is the number of participants still there besides the frame's own.
    pub fn shape(self, others: usize) -> BodyShape {
        let all = others + 1;
        let (name, shape, dtype): (&str, Vec<usize>, Dtype) = match self {
            ProtocolStep::Keys => ("keys", vec![2, KEY], Dtype::U8),
            ProtocolStep::Roster => ("keys", vec![all, 2, KEY], Dtype::U8),
            ProtocolStep::Shares | ProtocolStep::Inbox => {
                ("shares", vec![others, SEALED], Dtype::U8)
            }
            ProtocolStep::Survivors => ("arrived", vec![all], Dtype::Bits),
            ProtocolStep::Answer => ("shares", vec![all, KEY], Dtype::U8),
        };
        let tensor = TensorShape::new(name, shape, dtype);
        BodyShape::new(0, vec![SectionShape::new(Kind::SecureAggregation, vec![tensor])])
    }

    fn bytes(self, others: usize) -> FrameBytes {
        FrameBytes::from(&FrameSize::of_shape(&self.shape(others), &CodecPlan::default()))
    }

    /// Returns the frame number of the leg in draws, beyond those of messages and assets.
    fn frame(self) -> u32 {
        PROTOCOL_FRAMES + self as u32
    }
}

/// A frame of the protocol whose fate is known.
#[derive(Clone, Debug)]
pub struct ProtocolFrame {
    /// Time at which it arrives or is lost.
    pub at: VirtualTime,
    /// Time in transit.
    pub latency: VirtualTime,
    /// Place of its participant in the round.
    pub participant: ParticipantId,
    /// Step of the protocol that the frame belongs to.
    pub step: ProtocolStep,
    /// Size of the frame by part.
    pub bytes: Arc<FrameBytes>,
    /// Fate of the frame.
    pub fate: Fate,
    /// True if an equal frame was sent to another participant before.
    pub copy: bool,
}

/// Participants of a round and their links.
#[derive(Clone, Copy)]
pub struct ProtocolContext<'a> {
    /// Links between clients and server.
    pub links: &'a Links,
    /// Number of the round, from 0.
    pub round: Round,
    /// Participants of the round, in order.
    pub participants: &'a [Participant],
    /// Rules of the protocol, such as its threshold.
    pub rules: &'a SecureAggregation,
}

/// The legs before training.
#[derive(Clone, Debug, Default)]
pub struct KeyExchange {
    /// All frames, in the order of their legs.
    pub frames: Vec<ProtocolFrame>,
    /// Participants whose shares arrived: uploads are masked among them.
    pub members: Vec<ParticipantId>,
    /// True if there are enough members to go on.
    pub enough: bool,
    /// Members whose inbox arrived, to which downloads are sent.
    pub ready: Vec<ParticipantId>,
    /// Time at which the fate of all these frames is known.
    pub settled: VirtualTime,
}

impl KeyExchange {
    /// Returns the participants that lost no frame.
    pub fn alive(&self) -> &[ParticipantId] {
        if self.enough { &self.ready } else { &self.members }
    }
}

/// The legs after the last upload.
#[derive(Clone, Debug, Default)]
pub struct Unmasking {
    /// All frames, in the order of their legs.
    pub frames: Vec<ProtocolFrame>,
    /// Number of participants that answered.
    pub answered: usize,
    /// True if there were enough uploads and enough answers.
    pub opened: bool,
    /// Time at which the server knows the outcome.
    pub settled: VirtualTime,
}

/// Runs keys, roster, shares and inbox. The server waits in every leg until each frame arrived or is lost.
pub fn exchange_keys(context: &ProtocolContext<'_>, now: VirtualTime) -> KeyExchange {
    let mut run = ProtocolRun { context, frames: Vec::new() };
    let all_participants =
        context.participants.iter().map(|participant| (participant.id, now)).collect();
    let present = run.step(ProtocolStep::Keys, all_participants, 0);
    let informed = together(run.settled(now), &present);
    let others = present.len().saturating_sub(1);
    let informed = run.step(ProtocolStep::Roster, informed, others);
    let shared = run.step(ProtocolStep::Shares, informed, others);
    let members: Vec<ParticipantId> = shared.iter().map(|(participant, _)| *participant).collect();
    let enough = members.len() >= context.rules.needed(context.participants.len());
    let ready = match enough {
        true => {
            run.step(ProtocolStep::Inbox, together(run.settled(now), &shared), members.len() - 1)
        }
        false => Vec::new(),
    };
    let ready = ready.into_iter().map(|(participant, _)| participant).collect();
    let settled = run.settled(now);
    KeyExchange { frames: run.frames, members, enough, ready, settled }
}

/// Runs the legs of survivors and answers after the uploads of `arrived`, among `members` members.
pub fn unmask(
    context: &ProtocolContext<'_>,
    members: usize,
    arrived: &[ParticipantId],
    now: VirtualTime,
) -> Unmasking {
    let needed = context.rules.needed(context.participants.len());
    if arrived.len() < needed {
        return Unmasking { settled: now, ..Unmasking::default() };
    }
    let mut run = ProtocolRun { context, frames: Vec::new() };
    let others = members.saturating_sub(1);
    let asked = arrived.iter().map(|participant| (*participant, now)).collect();
    let asked = run.step(ProtocolStep::Survivors, asked, others);
    let answered = run.step(ProtocolStep::Answer, asked, others).len();
    let settled = run.settled(now);
    Unmasking { frames: run.frames, answered, opened: answered >= needed, settled }
}

/// Returns the participants, each with the time `at`.
fn together(
    at: VirtualTime,
    participants: &[(ParticipantId, VirtualTime)],
) -> Vec<(ParticipantId, VirtualTime)> {
    participants.iter().map(|(participant, _)| (*participant, at)).collect()
}

struct ProtocolRun<'a, 'r> {
    context: &'r ProtocolContext<'a>,
    frames: Vec<ProtocolFrame>,
}

impl ProtocolRun<'_, '_> {
    /// Sends one frame from or to every participant, each at its own time.
    ///
    /// Returns the participants whose frame arrived, with the times of arrival.
    fn step(
        &mut self,
        step: ProtocolStep,
        senders: Vec<(ParticipantId, VirtualTime)>,
        others: usize,
    ) -> Vec<(ParticipantId, VirtualTime)> {
        let bytes = Arc::new(step.bytes(others));
        // Rosters and lists of survivors are the same for all.
        let shared = matches!(step, ProtocolStep::Roster | ProtocolStep::Survivors);
        let fate_of = |(participant, _): &(ParticipantId, VirtualTime)| {
            let sender = &self.context.participants[participant.index()];
            let transfer = Transfer {
                client: sender.client,
                round: self.context.round,
                unit: sender.dummy_client_in_keys(),
                frame: step.frame(),
                direction: step.direction(),
            };
            self.context.links.send(transfer, bytes.frame())
        };
        let fates: Vec<Fate> = senders.iter().map(fate_of).collect();
        let starts: Vec<VirtualTime> = senders.iter().map(|(_, from)| *from).collect();
        let ends = self.context.links.arrivals(step.direction(), &starts, &fates);
        let mut arrived = Vec::with_capacity(senders.len());
        for (place, ((participant, from), (fate, at))) in
            senders.into_iter().zip(fates.into_iter().zip(ends)).enumerate()
        {
            let (bytes, copy) = (Arc::clone(&bytes), shared && place > 0);
            let latency = VirtualTime(at.0 - from.0);
            self.frames.push(ProtocolFrame { at, latency, participant, step, bytes, fate, copy });
            if fate.arrives {
                arrived.push((participant, at));
            }
        }
        arrived
    }

    /// Returns the time at which the fate of every frame so far is known.
    fn settled(&self, now: VirtualTime) -> VirtualTime {
        self.frames.iter().fold(now, |latest, frame| latest.max(frame.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::FaultRules;
    use crate::federation::privacy::{FixedPoint, Modulus};
    use crate::federation::rules::Rules;
    use crate::federation::testing::{mobile_links, participant, setup};

    const RULES: SecureAggregation = SecureAggregation {
        numbers: FixedPoint { modulus: Modulus::Bits64, bits: 24 },
        threshold: 0.6,
    };

    fn participants(count: u32) -> Vec<Participant> {
        let setup = setup(Rules { clients: count, ..Rules::default() });
        (0..count).map(|place| participant(&setup, place)).collect()
    }

    fn links(loss: f64, seed: u64) -> Links {
        let faults = FaultRules { lose_down: loss, lose_up: loss, ..FaultRules::default() };
        Links::new(mobile_links(), faults, seed)
    }

    #[test]
    fn sizes_are_those_of_the_model() {
        let payload = |step: ProtocolStep, others| step.bytes(others).payload;
        assert_eq!(payload(ProtocolStep::Keys, 9), 64);
        assert_eq!(payload(ProtocolStep::Roster, 9), 640);
        assert_eq!(payload(ProtocolStep::Shares, 9), 720);
        assert_eq!(payload(ProtocolStep::Inbox, 9), 720);
        assert_eq!(payload(ProtocolStep::Survivors, 9), 2);
        assert_eq!(payload(ProtocolStep::Answer, 9), 320);
        let kinds = ProtocolStep::Roster.bytes(9).kinds;
        assert_eq!(kinds.get("secure_aggregation"), Some(&640));
    }

    #[test]
    fn without_losses_all_participants_take_every_step() {
        let (participants, links) = (participants(5), links(0.0, 1));
        let context = ProtocolContext {
            links: &links,
            round: Round(2),
            participants: &participants,
            rules: &RULES,
        };
        let start = VirtualTime(1_000);
        let introduction = exchange_keys(&context, start);
        assert_eq!((introduction.frames.len(), introduction.members.len()), (20, 5));
        assert_eq!(introduction.ready, introduction.members);
        assert_eq!(introduction.frames.iter().filter(|frame| frame.copy).count(), 4);
        let unmasking = unmask(&context, 5, &introduction.members, introduction.settled);
        assert!(unmasking.opened && unmasking.settled > introduction.settled);
        assert_eq!((unmasking.frames.len(), unmasking.answered), (10, 5));
        // A leg begins when the one before has settled.
        let of = |step| introduction.frames.iter().filter(move |frame| frame.step == step);
        let keys = of(ProtocolStep::Keys).map(|frame| frame.at).max().unwrap();
        assert!(of(ProtocolStep::Roster).all(|frame| frame.at > keys));
    }

    #[test]
    fn lost_participants_take_no_further_step() {
        let participants = participants(8);
        let mut refused = 0;
        for seed in 0..50 {
            let links = links(0.1, seed);
            let context = ProtocolContext {
                links: &links,
                round: Round(0),
                participants: &participants,
                rules: &RULES,
            };
            let introduction = exchange_keys(&context, VirtualTime::ZERO);
            let mut alive: Vec<ParticipantId> =
                participants.iter().map(|participant| participant.id).collect();
            for step in [
                ProtocolStep::Keys,
                ProtocolStep::Roster,
                ProtocolStep::Shares,
                ProtocolStep::Inbox,
            ] {
                let frames: Vec<_> =
                    introduction.frames.iter().filter(|frame| frame.step == step).collect();
                if step == ProtocolStep::Inbox && !introduction.enough {
                    assert!(frames.is_empty() && introduction.members.len() < RULES.needed(8));
                    refused += 1;
                    break;
                }
                assert_eq!(frames.iter().map(|frame| frame.participant).collect::<Vec<_>>(), alive);
                let arrived = frames.iter().filter(|frame| frame.fate.arrives);
                alive = arrived.map(|frame| frame.participant).collect();
                if step == ProtocolStep::Shares {
                    assert_eq!(introduction.members, alive);
                }
            }
        }
        assert!(refused > 0, "some rounds end for want of members");
    }

    #[test]
    fn too_few_uploads_are_never_asked_about() {
        let (participants, links) = (participants(5), links(0.0, 1));
        let context = ProtocolContext {
            links: &links,
            round: Round(0),
            participants: &participants,
            rules: &RULES,
        };
        let unmasking = unmask(&context, 5, &[ParticipantId(0), ParticipantId(3)], VirtualTime(7));
        assert!(!unmasking.opened && unmasking.frames.is_empty());
        assert_eq!(unmasking.settled, VirtualTime(7));
        assert_eq!([1, 2, 5, 10].map(|participants| RULES.needed(participants)), [2, 2, 3, 6]);
    }
}
