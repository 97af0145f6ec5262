//! The server's knowledge of its receivers' asset caches.

use std::collections::{BTreeMap, BTreeSet};

use super::rules::AssetCache;
use crate::quantity::ClientId;

/// Digests of the assets each client holds.
#[derive(Clone, Debug)]
pub(crate) struct AssetCaches {
    rule: AssetCache,
    held: BTreeMap<ClientId, BTreeSet<u64>>,
}

impl AssetCaches {
    pub fn new(rule: AssetCache) -> AssetCaches {
        AssetCaches { rule, held: BTreeMap::new() }
    }

    pub fn begin_task(&mut self) {
        if self.rule != AssetCache::Run {
            self.held.clear();
        }
    }

    /// Returns true if the asset must be sent to the client.
    pub fn lacks(&self, client: ClientId, digest: u64) -> bool {
        !self.held.get(&client).is_some_and(|held| held.contains(&digest))
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
            caches.keep(ClientId(1), 7);
            let at_once = !caches.lacks(ClientId(1), 7);
            assert!(caches.lacks(ClientId(2), 7) && caches.lacks(ClientId(1), 8));
            caches.begin_task();
            (at_once, !caches.lacks(ClientId(1), 7))
        };
        assert_eq!(kept(AssetCache::None), (false, false));
        assert_eq!(kept(AssetCache::Task), (true, false));
        assert_eq!(kept(AssetCache::Run), (true, true));
    }
}
