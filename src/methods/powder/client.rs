//! Powder's client: trains a slot, or looks at what other slots have.

use std::sync::Arc;

use super::Powder;
use super::learner::{Learnt, Pupil};
use super::messages::{Down, Lesson, Up};
use crate::policy::{ClientPolicy, Failure, Lab, Member, Outcome, PolicyError};

/// Serves every client: it keeps nothing.
pub struct PowderClient {
    pub(super) method: Arc<Powder>,
}

impl Powder {
    /// What a learnt slot becomes.
    pub(in crate::methods) fn outcome(learnt: Learnt) -> Outcome<Up> {
        Outcome { up: Up::Learnt(learnt.slot), metrics: learnt.report.metrics() }
    }

    /// A learner's answers, one per member: what stops a pack fails all of it.
    pub(in crate::methods) fn answers<T>(
        members: usize,
        learnt: Result<Vec<Result<T, PolicyError>>, PolicyError>,
    ) -> Vec<Result<T, Failure>> {
        match learnt {
            Ok(learnt) => learnt.into_iter().map(|one| one.map_err(Failure::from)).collect(),
            Err(error) => {
                let failure = Failure::from(error);
                (0..members).map(|_| Err(failure.clone())).collect()
            }
        }
    }
}

impl ClientPolicy<Powder> for PowderClient {
    fn train(
        &self,
        members: &mut [Member<'_, Powder>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        let mut outcomes = Vec::with_capacity(members.len());
        for pack in members.chunk_by(|a, b| match (&*a.down, &*b.down) {
            (Down::Lesson(one), Down::Lesson(other)) => pupil(a, one).alike(&pupil(b, other)),
            _ => false,
        }) {
            let pupils: Vec<Pupil<'_>> = pack
                .iter()
                .filter_map(|member| match &*member.down {
                    Down::Lesson(lesson) => Some(pupil(member, lesson)),
                    Down::Looks(_) => None,
                })
                .collect();
            match (&pack[0], &*pack[0].down) {
                (member, Down::Looks(looks)) => {
                    let found = self.method.attention(&member.seat, looks, &member.shard, lab);
                    let outcome = |found| Outcome { up: Up::Attention(found), metrics: Vec::new() };
                    outcomes.push(found.map(outcome).map_err(Failure::from));
                }
                (_, Down::Lesson(_)) => {
                    let learnt = self.method.learn(&pupils, lab, &mut ());
                    let learnt = Powder::answers(pupils.len(), learnt);
                    outcomes.extend(learnt.into_iter().map(|one| one.map(Powder::outcome)));
                }
            }
        }
        outcomes
    }

    fn largest_pack(&self, phase: usize) -> usize {
        if Powder::trains(phase) { usize::MAX } else { 1 }
    }
}

fn pupil<'a>(member: &'a Member<'_, Powder>, lesson: &'a Lesson) -> Pupil<'a> {
    Pupil { seat: &member.seat, lesson, shard: &member.shard, key: member.key }
}
