//! `[federation.dummy_clients]`: parts of shards that act as separate clients (dummy clients).

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys};

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
    #[key(default = vec!["statistics".to_owned()])]
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

    /// Forgets settings of parts that there are not, which make no difference between runs.
    pub(super) fn forget_unused(&mut self) {
        if self.count == 1 {
            *self = DummyClientsSection::whole_shards();
        }
    }
}
