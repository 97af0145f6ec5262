//! State of a client: its generators, the classes on which it trained, and moments of its optimizers.

use std::collections::{BTreeMap, BTreeSet};

use super::MomentSpan;
use super::moments::NetworkMoments;
use crate::model::ParameterSet;
use crate::policy::ClientState;
use crate::quantity::TaskId;
use crate::wire::Saved;

/// Name of the set of the generator trained last; the next is that of an earlier task.
const OWN: &str = "own";
const LAST: &str = "last";

/// State of a FedCIL client.
#[derive(Clone, Debug, Default, PartialEq, Saved)]
pub struct FedCilState {
    /// Latest task that the client trained.
    task: Option<TaskId>,
    /// Head rows of the classes of the latest task on which it trained.
    current: BTreeSet<u32>,
    /// Head rows of the classes of earlier tasks on which it trained.
    past: BTreeSet<u32>,
    steps: u64,
    sets: BTreeMap<String, ParameterSet>,
}

impl ClientState for FedCilState {}

impl FedCilState {
    /// Begins a round of a task, with samples of the head rows `rows`.
    ///
    /// In a new task the generator that the client trained last becomes the one that replays.
    pub(super) fn enter(&mut self, task: TaskId, rows: BTreeSet<u32>, span: MomentSpan) {
        let is_new = self.task.replace(task) != Some(task);
        if is_new {
            if let Some(own) = self.sets.remove(OWN) {
                self.sets.insert(LAST.to_owned(), own);
                self.past.append(&mut self.current);
            }
            self.current.clear();
        }
        self.current.extend(rows);
        if span == MomentSpan::Round || (is_new && span == MomentSpan::Task) {
            self.steps = 0;
            self.sets.retain(|name, _| name == OWN || name == LAST);
        }
    }

    /// Returns the head rows of the classes of the latest task on which the client trained.
    pub(super) fn current(&self) -> &BTreeSet<u32> {
        &self.current
    }

    /// Returns the head rows of the classes of earlier tasks on which the client trained.
    pub(super) fn past(&self) -> &BTreeSet<u32> {
        &self.past
    }

    /// Returns the generator that replays, if the client trained in an earlier task.
    pub(super) fn last(&self) -> Option<&ParameterSet> {
        self.sets.get(LAST)
    }

    /// Stores the generator at the end of a round.
    pub(super) fn keep(&mut self, generator: ParameterSet) {
        self.sets.insert(OWN.to_owned(), generator);
    }

    /// Returns the moments of the optimizers; empty before their first step.
    pub(super) fn moments(&self) -> NetworkMoments {
        NetworkMoments::from_sets(self.steps, &self.sets)
    }

    /// Stores the moments at the end of a round.
    pub(super) fn keep_moments(&mut self, moments: NetworkMoments) {
        self.steps = moments.steps();
        moments.into_sets(&mut self.sets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Parameter;
    use crate::policy::parameter_sections;
    use crate::wire::Body;

    fn set(value: f32) -> ParameterSet {
        let one = Parameter { shape: vec![2], values: [value, 1.0].into() };
        [("generator.fc.bias", one)].into_iter().collect()
    }

    /// FedCIL card, invariant 4: the generator that replays does not change within a task.
    #[test]
    fn a_generator_replays_from_the_next_task_on() {
        let mut state = FedCilState::default();
        let mut round = |task: u16, rows: &[u32], own: f32| {
            let rows = rows.iter().copied().collect();
            state.enter(TaskId(task), rows, MomentSpan::Task);
            let found = (state.last().cloned(), state.past().iter().copied().collect::<Vec<_>>());
            state.keep(set(own));
            found
        };
        assert_eq!(round(0, &[0, 1], 1.0), (None, vec![]));
        assert_eq!(round(0, &[1], 2.0), (None, vec![]));
        assert_eq!(round(1, &[2], 3.0), (Some(set(2.0)), vec![0, 1]));
        assert_eq!(round(1, &[2], 4.0), (Some(set(2.0)), vec![0, 1]));
        // The client did not take part in the third task.
        assert_eq!(round(3, &[6], 5.0), (Some(set(4.0)), vec![0, 1, 2]));
        assert_eq!(state.current().iter().copied().collect::<Vec<_>>(), [6]);
        let saved = state.save();
        assert_eq!(FedCilState::load(&saved).unwrap(), state);
        assert_eq!(state.state_bytes(), 2 * 8);
        let with = Body::new(saved.meta, [saved.sections, parameter_sections(&set(9.0))].concat());
        assert_eq!(FedCilState::load(&with).unwrap(), state);
    }

    #[test]
    fn moments_last_as_long_as_said() {
        let steps = |span| {
            let mut state = FedCilState::default();
            let mut seen = Vec::new();
            for task in [0, 0, 1, 1] {
                state.enter(TaskId(task), [0].into(), span);
                seen.push(state.moments().steps());
                let mut moments = state.moments();
                moments.advance_for_tests(3, &set(0.5));
                state.keep_moments(moments);
                state.keep(set(1.0));
            }
            seen
        };
        assert_eq!(steps(MomentSpan::Run), [0, 3, 6, 9]);
        assert_eq!(steps(MomentSpan::Task), [0, 3, 0, 3]);
        assert_eq!(steps(MomentSpan::Round), [0; 4]);
    }
}
