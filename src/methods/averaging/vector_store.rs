//! Named sets of vectors that clients and servers keep besides parameters, such as gradients or drifts.

use std::collections::BTreeMap;

use super::{Reset, ServerState, zeros_like};
use crate::model::ParameterSet;
use crate::policy::ClientState;
use crate::quantity::{ClientId, TaskId};
use crate::wire::Saved;

/// Sets of vectors by name, and the task in which they were last used.
///
/// A missing set stands for zeros.
#[derive(Clone, Debug, Default, PartialEq, Saved)]
pub struct VectorStore {
    task: Option<TaskId>,
    sets: BTreeMap<String, ParameterSet>,
}

impl VectorStore {
    /// Returns the set of a name, if there is one.
    pub fn get(&self, name: &str) -> Option<&ParameterSet> {
        self.sets.get(name)
    }

    /// Replaces a set.
    pub fn set(&mut self, name: impl Into<String>, vectors: ParameterSet) {
        self.sets.insert(name.into(), vectors);
    }

    /// Removes and returns a set.
    pub fn take(&mut self, name: &str) -> Option<ParameterSet> {
        self.sets.remove(name)
    }

    /// Removes and returns a set; if it is missing, returns zeros in the shapes of these parameters.
    pub(in crate::methods) fn take_like(
        &mut self,
        name: &str,
        parameters: &ParameterSet,
    ) -> ParameterSet {
        self.take(name).unwrap_or_else(|| zeros_like(parameters))
    }

    /// Returns an iterator over all sets and their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ParameterSet)> {
        self.sets.iter().map(|(name, set)| (name.as_str(), set))
    }

    /// Enters a task; returns true if it differs from the one before.
    pub fn enter(&mut self, task: TaskId) -> bool {
        self.task.replace(task) != Some(task)
    }

    /// Enters a client's task; if it is a new one and `reset` says so, removes all sets.
    pub fn begin(&mut self, task: TaskId, reset: Reset) {
        if self.enter(task) && reset == Reset::Task {
            self.clear();
        }
    }

    /// Removes all sets, which then stand for zeros.
    pub fn clear(&mut self) {
        self.sets.clear();
    }

    /// Returns the name under which the server keeps a client's set, `NAME.CLIENT`.
    pub fn of_client(name: &str, client: ClientId) -> String {
        format!("{name}.{}", client.0)
    }

    /// Returns a client's sets of these names, from the store of all clients.
    pub fn all_of_client(&self, names: &[&str], client: ClientId) -> VectorStore {
        let set = |name: &&str| {
            Some((name.to_string(), self.get(&VectorStore::of_client(name, client))?.clone()))
        };
        VectorStore { task: self.task, sets: names.iter().filter_map(set).collect() }
    }
}

impl<N: Into<String>> FromIterator<(N, ParameterSet)> for VectorStore {
    fn from_iter<I: IntoIterator<Item = (N, ParameterSet)>>(sets: I) -> VectorStore {
        let sets = sets.into_iter().map(|(name, set)| (name.into(), set)).collect();
        VectorStore { task: None, sets }
    }
}

impl ClientState for VectorStore {}

/// The task is saved, so that a server loaded within a task does not enter it again.
impl ServerState for VectorStore {
    fn is_new_task(&mut self, task: usize) -> bool {
        self.enter(TaskId(task as u16))
    }

    fn task(&self) -> usize {
        self.task.map_or(0, TaskId::index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Parameter;
    use crate::policy::{parameter_sections, parameters_of};
    use crate::wire::Body;

    fn set(value: f32) -> ParameterSet {
        let one = Parameter { shape: vec![2], values: [value, 1.0].into() };
        [("head.bias", one.clone()), ("bn1.weight", one)].into_iter().collect()
    }

    /// Sets of the server and of clients survive saving bit for bit, apart from the server's parameters.
    #[test]
    fn vectors_are_saved_and_loaded_whole() {
        let mut kept = VectorStore::default();
        assert!(kept.enter(TaskId(2)) && !kept.enter(TaskId(2)));
        kept.set("control", set(0.1));
        kept.set(VectorStore::of_client("control", ClientId(12)), set(-0.0));
        kept.set(VectorStore::of_client("control", ClientId(1)), set(3.0));
        let saved = kept.save();
        assert_eq!(VectorStore::load(&saved).unwrap().save().digest(), saved.digest());
        assert_eq!(VectorStore::load(&saved).unwrap(), kept);
        assert_eq!(kept.state_bytes(), 3 * 4 * 4);
        assert_eq!(VectorStore::of(&Body::default()).unwrap(), VectorStore::default());

        let mut body = Body::new(Vec::new(), parameter_sections(&set(7.0)));
        body.meta.extend(saved.meta);
        body.sections.extend(saved.sections);
        let mut loaded = VectorStore::load(&body).unwrap();
        assert_eq!((&loaded, parameters_of(&body).unwrap()), (&kept, set(7.0)));
        assert!(!loaded.is_new_task(2) && loaded.is_new_task(3));
        loaded.clear();
        assert!(loaded.get("control").is_none());
    }
}
