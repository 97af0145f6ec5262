//! Packs: participants of a round that are trained together, as one device job.
//!
//! A round's broadcast plans the packs ([`plan`]). Each participant asks for its computation when its download has
//! arrived; a pack starts when every participant in it has asked or dropped out. If the end of a participant's work
//! comes up on the simulated clock while others of its pack are still to ask (a slow link), the pack starts without
//! those, and they form a separate pack. So the packs follow from virtual time alone, and no participant waits forever:
//! one that has asked has its end in the queue.
//!
//! In rounds that wait for all of their participants, those of stateless clients that are certain to train ask as soon as
//! the round opens, so that their packs are full.
//!
//! Packs change no virtual time and no order of events; participants that are in no plan start at once.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::policy::{Participant, Role};
use crate::quantity::{ParticipantId, Round, TaskId};

/// Participant of any round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    pub round: Round,
    pub participant: ParticipantId,
}

/// Participant as the planner of packs sees it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    participant: ParticipantId,
    alike: Alike,
    steps: u64,
}

/// Properties that all participants of a pack have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Alike {
    task: TaskId,
    rows: Range<usize>,
    role: Role,
}

impl Candidate {
    /// Creates a candidate of `steps` training steps.
    pub fn new(participant: &Participant, steps: u64) -> Candidate {
        let (task, rows, role) =
            (participant.view.task, participant.view.rows.clone(), participant.role);
        Candidate { participant: participant.id, alike: Alike { task, rows, role }, steps }
    }
}

/// Plans packs of at most `pack` participants that learn the same classes in the same role.
///
/// Participants with similar step counts are together: a member that has no step left only waits for the others.
/// Participants of equal counts stay in order.
pub(super) fn plan(candidates: Vec<Candidate>, pack: usize) -> Vec<Vec<ParticipantId>> {
    let mut kinds: Vec<Vec<Candidate>> = Vec::new();
    for candidate in candidates {
        match kinds.iter_mut().find(|kind| kind[0].alike == candidate.alike) {
            Some(kind) => kind.push(candidate),
            None => kinds.push(vec![candidate]),
        }
    }
    let packs = kinds.into_iter().flat_map(|mut kind| {
        kind.sort_by_key(|candidate| std::cmp::Reverse(candidate.steps));
        let participants: Vec<ParticipantId> =
            kind.iter().map(|candidate| candidate.participant).collect();
        participants.chunks(pack.max(1)).map(<[ParticipantId]>::to_vec).collect::<Vec<_>>()
    });
    packs.collect()
}

/// Packs that have not started, with the jobs of participants that have asked.
pub(super) struct Packs<J> {
    /// The pack of every participant that has neither started nor dropped out.
    pack_of: BTreeMap<Ticket, u64>,
    waiting: BTreeMap<u64, Waiting<J>>,
    made: u64,
}

struct Waiting<J> {
    /// Number of participants that have not asked yet.
    missing: usize,
    requests: Vec<(Ticket, J)>,
}

impl<J> Default for Packs<J> {
    fn default() -> Self {
        Packs { pack_of: BTreeMap::new(), waiting: BTreeMap::new(), made: 0 }
    }
}

impl<J> Packs<J> {
    /// Adds the planned packs of a round.
    pub fn open(&mut self, round: Round, packs: Vec<Vec<ParticipantId>>) {
        for participants in packs {
            let waiting = Waiting { missing: participants.len(), requests: Vec::new() };
            self.waiting.insert(self.made, waiting);
            let tickets = participants
                .into_iter()
                .map(|participant| (Ticket { round, participant }, self.made));
            self.pack_of.extend(tickets);
            self.made += 1;
        }
    }

    /// Marks a participant as ready to be computed. Returns the jobs that start now, in participant order.
    pub fn ask(&mut self, ticket: Ticket, job: J) -> Vec<J> {
        let Some(pack) = self.pack_of.get(&ticket).copied() else { return vec![job] };
        let Some(waiting) = self.waiting.get_mut(&pack) else { return vec![job] };
        waiting.missing -= 1;
        waiting.requests.push((ticket, job));
        self.start_if(pack, |waiting| waiting.missing == 0)
    }

    /// Removes a participant that will never ask. Returns the jobs that start now.
    pub fn drop_out(&mut self, ticket: Ticket) -> Vec<J> {
        let Some(pack) = self.pack_of.remove(&ticket) else { return Vec::new() };
        if let Some(waiting) = self.waiting.get_mut(&pack) {
            waiting.missing -= 1;
        }
        self.start_if(pack, |waiting| waiting.missing == 0)
    }

    /// Starts the pack of a participant whose answer is needed now. Returns the jobs that start now.
    pub fn need(&mut self, ticket: Ticket) -> Vec<J> {
        let Some(pack) = self.pack_of.get(&ticket).copied() else { return Vec::new() };
        self.start_if(pack, |_| true)
    }

    fn start_if(&mut self, pack: u64, now: impl FnOnce(&Waiting<J>) -> bool) -> Vec<J> {
        let Some(waiting) = self.waiting.get_mut(&pack).filter(|waiting| now(waiting)) else {
            return Vec::new();
        };
        let mut requests = std::mem::take(&mut waiting.requests);
        if waiting.missing == 0 {
            self.waiting.remove(&pack);
        }
        requests.sort_by_key(|(ticket, _)| *ticket);
        for (ticket, _) in &requests {
            self.pack_of.remove(ticket);
        }
        requests.into_iter().map(|(_, job)| job).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn candidate(participant: u32, task: u16, role: u8, steps: u64) -> Candidate {
        let alike = Alike { task: TaskId(task), rows: 0..2, role: Role(role) };
        Candidate { participant: ParticipantId(participant), alike, steps }
    }

    fn ticket(participant: u32) -> Ticket {
        Ticket { round: Round(0), participant: ParticipantId(participant) }
    }

    fn packs(plan: &[&[u32]]) -> Packs<u32> {
        let mut packs = Packs::default();
        let participants =
            |pack: &&[u32]| pack.iter().map(|participant| ParticipantId(*participant)).collect();
        packs.open(Round(0), plan.iter().map(participants).collect());
        packs
    }

    proptest! {
        #[test]
        fn a_plan_groups_each_participant_once_with_its_like(
            participants in prop::collection::vec((0u16..2, 0u8..2, 0u64..5), 0..40),
            pack in 1usize..9,
        ) {
            let each = participants.iter().zip(0u32..);
            let all: Vec<Candidate> =
                each.map(|((task, role, steps), participant)| candidate(participant, *task, *role, *steps)).collect();
            let planned = plan(all, pack);
            let placed: BTreeSet<ParticipantId> = planned.iter().flatten().copied().collect();
            prop_assert_eq!(placed.len(), participants.len());
            prop_assert_eq!(planned.iter().map(Vec::len).sum::<usize>(), participants.len());
            let of = |participant: &ParticipantId| participants[participant.index()];
            let kind = |participant: &ParticipantId| (of(participant).0, of(participant).1);
            for members in &planned {
                prop_assert!((1..=pack).contains(&members.len()));
                prop_assert!(members.iter().all(|participant| kind(participant) == kind(&members[0])));
            }
            // No pack lies across another's step counts, and only the last of a kind is not full.
            for (one, next) in planned.iter().zip(planned.iter().skip(1)) {
                if kind(&one[0]) == kind(&next[0]) {
                    prop_assert_eq!(one.len(), pack);
                    let fewest = one.iter().map(|participant| of(participant).2).min();
                    prop_assert!(fewest >= next.iter().map(|participant| of(participant).2).max());
                }
            }
        }

        /// In every order of events, each participant that asks starts exactly once.
        #[test]
        fn all_that_ask_start_once(
            events in Just((0u32..12).collect::<Vec<_>>()).prop_shuffle(),
            fates in prop::collection::vec(0u8..3, 12),
        ) {
            let mut packs = packs(&[&[0, 1, 2, 3, 4], &[5, 6, 7], &[8]]);
            let mut started = Vec::new();
            for participant in &events {
                started.extend(match fates[*participant as usize] {
                    0 => packs.drop_out(ticket(*participant)),
                    fate => {
                        let mut now = packs.ask(ticket(*participant), *participant);
                        if fate == 2 {
                            now.extend(packs.need(ticket(*participant)));
                        }
                        now
                    }
                });
            }
            let mut requests: Vec<u32> = (0..12).filter(|participant| fates[*participant as usize] > 0).collect();
            started.sort_unstable();
            requests.sort_unstable();
            prop_assert_eq!(started, requests);
            prop_assert!(packs.pack_of.is_empty() && packs.waiting.is_empty());
        }
    }

    #[test]
    fn like_step_counts_sit_together() {
        let steps = [3, 9, 3, 9, 1];
        let all = (0..5)
            .map(|participant| candidate(participant, 0, 0, steps[participant as usize]))
            .collect();
        assert_eq!(
            plan(all, 2),
            [
                vec![ParticipantId(1), ParticipantId(3)],
                vec![ParticipantId(0), ParticipantId(2)],
                vec![ParticipantId(4)]
            ]
        );
    }

    #[test]
    fn a_pack_starts_when_all_have_asked_or_dropped_out() {
        let mut packs = packs(&[&[2, 0, 1]]);
        assert!(packs.ask(ticket(2), 2).is_empty());
        assert!(packs.drop_out(ticket(1)).is_empty());
        assert_eq!(packs.ask(ticket(0), 0), [0, 2], "in the order of participants");
        assert!(packs.need(ticket(0)).is_empty(), "started already");
        assert_eq!(packs.ask(ticket(7), 7), [7], "in no plan");
    }

    #[test]
    fn needed_participants_do_not_wait_for_slow_ones() {
        let mut packs = packs(&[&[0, 1, 2, 3]]);
        assert!(packs.ask(ticket(1), 1).is_empty());
        assert!(packs.ask(ticket(0), 0).is_empty());
        assert_eq!(packs.need(ticket(1)), [0, 1]);
        assert!(packs.ask(ticket(3), 3).is_empty());
        assert_eq!(packs.ask(ticket(2), 2), [2, 3]);
    }
}
