//! The server's knowledge of its receivers' asset caches.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::AssetCache;
use crate::quantity::ClientId;

/// Digests of the assets each client holds.
///
/// Dummy clients are parts of one client, which receives an asset once in a round even if it keeps none.
#[derive(Clone, Debug)]
pub(crate) struct AssetCaches {
    rule: AssetCache,
    held: BTreeMap<ClientId, BTreeSet<u64>>,
    /// Assets that arrived in the open round. Rounds end before a snapshot, so none has them.
    in_round: BTreeSet<(ClientId, u64)>,
}

impl AssetCaches {
    pub fn new(rule: AssetCache) -> AssetCaches {
        AssetCaches { rule, held: BTreeMap::new(), in_round: BTreeSet::new() }
    }

    pub fn begin_task(&mut self) {
        if self.rule != AssetCache::Run {
            self.held.clear();
        }
    }

    /// Forgets the assets that arrived in the previous round.
    pub fn begin_round(&mut self) {
        self.in_round.clear();
    }

    /// Returns true if the asset must be sent to the client.
    pub fn lacks(&self, client: ClientId, digest: u64) -> bool {
        !self.in_round.contains(&(client, digest))
            && !self.held.get(&client).is_some_and(|held| held.contains(&digest))
    }

    /// Returns the assets that each client holds, for a snapshot.
    pub fn held(&self) -> Vec<(ClientId, Vec<u64>)> {
        let held = self.held.iter();
        held.map(|(client, held)| (*client, held.iter().copied().collect())).collect()
    }

    /// Restores the assets that each client held when a snapshot was taken.
    pub fn restore(&mut self, held: &[(ClientId, Vec<u64>)]) {
        let held = held.iter();
        self.held = held.map(|(client, held)| (*client, held.iter().copied().collect())).collect();
    }

    /// Records that a client was sent the asset.
    pub fn keep(&mut self, client: ClientId, digest: u64) {
        self.in_round.insert((client, digest));
        if self.rule != AssetCache::None {
            self.held.entry(client).or_default().insert(digest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_keep_assets_as_long_as_the_rule_says() {
        let kept = |rule| {
            let mut caches = AssetCaches::new(rule);
            caches.begin_round();
            caches.keep(ClientId(1), 7);
            assert!(caches.lacks(ClientId(2), 7) && caches.lacks(ClientId(1), 8));
            let in_round = !caches.lacks(ClientId(1), 7);
            caches.begin_round();
            let in_task = !caches.lacks(ClientId(1), 7);
            caches.begin_task();
            caches.begin_round();
            (in_round, in_task, !caches.lacks(ClientId(1), 7))
        };
        assert_eq!(kept(AssetCache::None), (true, false, false));
        assert_eq!(kept(AssetCache::Task), (true, true, false));
        assert_eq!(kept(AssetCache::Run), (true, true, true));
    }

    #[test]
    fn snapshots_have_no_assets_of_a_round_alone() {
        let mut caches = AssetCaches::new(AssetCache::None);
        caches.keep(ClientId(1), 7);
        assert!(caches.held().is_empty());
    }
}
