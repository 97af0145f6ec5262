//! `[federation.dummy_clients]`: parts of shards that act as separate clients (dummy clients).

use clap::ValueEnum;
use serde::Serialize;

use super::Scenario;
use super::reader::{Choice, Keys, Node};

/// Phase in which dummy clients act by default.
const STATISTICS: &str = "statistics";

/// Phase in which they act by default if the method has no statistics.
const TRAIN: &str = "train";

/// Dummy clients: every client's shard of a task is cut at random into parts, which act alone in some phases.
///
/// Each part has its own messages.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct DummyClientsSection {
    /// Number of random parts of a shard that act as separate clients; 1: the whole shard.
    #[key(default = 1, at_least = 1.0, at_most = 1e6, source = "STSA: dummy clients")]
    pub count: u32,
    /// Rule for the sizes of the parts.
    #[key(default = DummyClientSplit::Even, source = "STSA's code: remainder-last")]
    #[serde(skip_serializing_if = "DummyClientSplit::is_even")]
    pub split: DummyClientSplit,
    /// Names of the phases in which the parts act; `fedcast methods show NAME` lists a method's phases.
    ///
    /// With a method that has no phase `statistics`, the default is its training: ["train"].
    #[key(default = vec![STATISTICS.to_owned()])]
    pub phases: Vec<String>,
}

/// Rule for the number of samples per part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum DummyClientSplit {
    /// Sizes that differ by at most one.
    ///
    /// A client with fewer samples than parts has one part per sample: the largest number of them, from which an
    /// estimate gains.
    #[default]
    Even,
    /// Equal sizes, with the remainder in the last part (STSA's code).
    ///
    /// A client with fewer samples than parts is a single dummy client.
    RemainderLast,
}

impl DummyClientSplit {
    fn is_even(&self) -> bool {
        *self == DummyClientSplit::Even
    }
}

impl Scenario {
    /// Chooses the phases in which dummy clients act by the method, if the scenario does not state them.
    pub(super) fn choose_phases(&mut self, root: &Node) {
        let stated = root.at("federation.dummy_clients.phases").is_some();
        if stated || self.federation.dummy_clients.is_off() {
            return;
        }
        let known = self.method.phases(self);
        let has = |name: &str| known.iter().any(|phase| phase == name);
        if !has(STATISTICS) && has(TRAIN) {
            self.federation.dummy_clients.phases = vec![TRAIN.to_owned()];
        }
    }
}

impl DummyClientsSection {
    /// Returns true if shards stay whole everywhere, and nothing else is set.
    pub(super) fn is_off(&self) -> bool {
        *self == DummyClientsSection::whole_shards()
    }

    /// Returns the section of shards that stay whole.
    fn whole_shards() -> DummyClientsSection {
        let phases = vec!["statistics".to_owned()];
        DummyClientsSection { count: 1, split: DummyClientSplit::Even, phases }
    }

    /// Resets settings of the parts if shards stay whole, so that they make no difference between runs.
    pub(super) fn forget_unused(&mut self) {
        if self.count == 1 {
            *self = DummyClientsSection::whole_shards();
        }
    }
}
