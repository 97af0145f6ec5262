//! Updates of clients that the server remembers, and the server's step.

use std::collections::{BTreeMap, BTreeSet};

use super::GradMa;
use crate::methods::averaging::{ServerState, VectorStore, fitted, local_trajectory};
use crate::methods::parts::SharedModel;
use crate::model::{Parameter, ParameterSet, is_buffer};
use crate::numerics::cone::{Program, moved};
use crate::policy::{KeptUpload, ModelFacts, PolicyError};
use crate::quantity::ClientId;
use crate::wire::{Kind, Loading, Saved, SavedField, Saving, WireError};

/// State of the server: momentum `m~`, and accumulated updates `G_m` of some clients.
///
/// The number of each client's uploads decides which client leaves a full memory.
#[derive(Clone, Debug, Default, PartialEq, Saved)]
pub struct UpdateMemory {
    vectors: VectorStore,
    answers: BTreeMap<ClientId, u32>,
}

const MOMENTUM: &str = "momentum";
const UPDATE: &str = "update";
const CLIENTS: &str = "clients";
const ANSWERS: &str = "answers";

/// Update `d_m` of a client, relative to the model that it was sent.
pub(super) struct ClientDelta {
    pub client: ClientId,
    pub update: ParameterSet,
}

impl ClientDelta {
    pub fn of(
        shared: &SharedModel<'_>,
        model: &ModelFacts,
        kept: &KeptUpload,
    ) -> Result<ClientDelta, PolicyError> {
        let (from, to) = local_trajectory(shared, model, kept)?;
        // Buffers have no update.
        let update = from.filter(|name| !is_buffer(name)).zipped(&to, |from, to| from - to);
        Ok(ClientDelta { client: kept.meta.participant.client, update })
    }
}

/// Result of the server's step.
pub(super) struct ServerStep {
    /// Parameters after the step.
    pub theta: ParameterSet,
    /// Number of tensors whose step was projected.
    pub turned: u32,
    /// Number of tensors for which no vector satisfies all constraints.
    pub unsolved: u32,
}

impl UpdateMemory {
    /// Returns the number of clients in memory.
    pub(super) fn len(&self) -> usize {
        self.answers.len()
    }

    /// Returns a set by name.
    #[cfg(test)]
    pub(super) fn vector(&self, name: &str) -> Option<&ParameterSet> {
        self.vectors.get(name)
    }

    /// Returns the number of uploads of a client that is in memory.
    #[cfg(test)]
    pub(super) fn answers_of(&self, client: ClientId) -> Option<u32> {
        self.answers.get(&client).copied()
    }

    pub(super) fn forget(&mut self) {
        self.vectors.clear();
        self.answers.clear();
    }

    /// Counts the uploads of clients, and makes room for new ones in a memory of `most` clients.
    pub(super) fn admit(&mut self, present: &BTreeSet<ClientId>, most: usize) {
        for (client, answers) in &mut self.answers {
            *answers += u32::from(present.contains(client));
        }
        for client in present {
            if self.answers.contains_key(client) {
                continue;
            }
            if self.answers.len() >= most {
                let absent = self.answers.iter().filter(|(known, _)| !present.contains(known));
                let Some((least, _)) = absent.min_by_key(|(_, answers)| **answers) else {
                    continue;
                };
                let least = *least;
                self.answers.remove(&least);
                self.vectors.take(&VectorStore::of_client(UPDATE, least));
            }
            self.answers.insert(*client, 1);
        }
    }

    /// Computes `G_m <- G_m + d_m`, if the client is in memory.
    pub(super) fn add(&mut self, answer: &ClientDelta) {
        if !self.answers.contains_key(&answer.client) {
            return;
        }
        let name = VectorStore::of_client(UPDATE, answer.client);
        let old = fitted(self.vectors.get(&name), &answer.update);
        self.vectors.set(name, old.zipped(&answer.update, |old, new| old + new));
    }

    /// Moves the parameters `before` by `-gamma_g m~`, tensor by tensor, and lets updates decay.
    ///
    /// `sum` returns the weighted sum of uploaded changes of a tensor, `weight` is the total weight.
    pub(super) fn step<'s>(
        &mut self,
        method: &GradMa,
        before: &ParameterSet,
        sum: impl Fn(&str) -> Option<&'s [f64]>,
        weight: f64,
    ) -> ServerStep {
        let mut stepped = ServerStep { theta: ParameterSet::new(), turned: 0, unsolved: 0 };
        let remembered: Vec<String> =
            self.answers.keys().map(|client| VectorStore::of_client(UPDATE, *client)).collect();
        let updates: Vec<&ParameterSet> =
            remembered.iter().filter_map(|name| self.vectors.get(name)).collect();
        let last = fitted(self.vectors.get(MOMENTUM), before);
        let mut momentum = ParameterSet::new();
        for (name, w) in before.iter().filter(|(name, _)| !is_buffer(name)) {
            let Some(sum) = sum(name) else { continue };
            let Some(last) = last.get(name) else { continue };
            let moved_by = |at: usize| sum.get(at).map_or(0.0, |sum| -sum / weight);
            let step =
                |(at, last): (usize, &f32)| method.momentum * f64::from(*last) + moved_by(at);
            let mut step: Vec<f64> = last.values.iter().enumerate().map(step).collect();
            // Earlier updates of a head that has grown are shorter; missing rows count as zeros.
            let rows: Vec<&[f32]> =
                updates.iter().filter_map(|set| Some(&set.get(name)?.values[..])).collect();
            match Program::of(&step, &rows, method.server_margin).by_active_sets() {
                None => stepped.unsolved += 1,
                Some(multipliers) if multipliers.iter().all(|z| *z == 0.0) => {}
                Some(multipliers) => {
                    step = moved(&step, &rows, &multipliers);
                    stepped.turned += 1;
                }
            }
            let along = |(w, step): (&f32, &f64)| (f64::from(*w) - method.server_lr * step) as f32;
            let values = w.values.iter().zip(&step).map(along).collect();
            stepped.theta.insert(name.clone(), Parameter { shape: w.shape.clone(), values });
            let values = step.iter().map(|value| *value as f32).collect();
            momentum.insert(name.clone(), Parameter { shape: w.shape.clone(), values });
        }
        self.vectors.set(MOMENTUM, momentum);
        for name in remembered {
            if let Some(update) = self.vectors.take(&name) {
                let decay = method.memory_decay;
                let left = |old: f32, _| (decay * f64::from(old)) as f32;
                self.vectors.set(name, update.zipped(&update, left));
            }
        }
        stepped
    }
}

impl SavedField for BTreeMap<ClientId, u32> {
    fn save_field(&self, into: &mut Saving) {
        let clients: Vec<u32> = self.keys().map(|client| client.0).collect();
        into.list(Kind::Settings, CLIENTS, clients);
        into.list(Kind::Settings, ANSWERS, self.values().copied().collect::<Vec<_>>());
    }

    fn load_field(from: &mut Loading<'_>) -> Result<Self, WireError> {
        let list = |name| from.list(Kind::Settings, name);
        let (clients, answers) = (list(CLIENTS)?, list(ANSWERS)?);
        Ok(clients.iter().map(|client| ClientId(*client)).zip(answers.iter().copied()).collect())
    }
}

impl ServerState for UpdateMemory {
    fn is_new_task(&mut self, task: usize) -> bool {
        self.vectors.is_new_task(task)
    }

    fn task(&self) -> usize {
        self.vectors.task()
    }
}
