//! Cache of the items that a rank was sent, by the numbers that rank 0 gave them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cache_index::CachedRef;
use crate::policy::{Asset, Message};
use crate::wire::Body;

/// Cache of one rank: bodies, and the assets and messages made of them.
#[derive(Default)]
pub(super) struct RankCache {
    bodies: BTreeMap<u64, Body>,
    /// Assets by number; made once, because an asset digests its body.
    assets: BTreeMap<u64, Arc<Asset>>,
    messages: BTreeMap<u64, Arc<Message>>,
}

impl RankCache {
    /// Removes items that rank 0 will not refer to again.
    pub fn forget(&mut self, ids: &[u64]) {
        for id in ids {
            self.bodies.remove(id);
            self.assets.remove(id);
            self.messages.remove(id);
        }
    }

    /// Returns a body, from the packet that brings it or from the cache.
    ///
    /// # Errors
    /// Returns a description if it is in neither.
    pub fn body(&mut self, named: CachedRef, bodies: &[Body]) -> Result<Body, String> {
        if let Some(frame) = named.frame {
            let body = bodies.get(frame).ok_or("a frame is missing")?;
            self.bodies.insert(named.id, body.clone());
        }
        let nothing = || format!("number {} was never sent here", named.id);
        self.bodies.get(&named.id).cloned().ok_or_else(nothing)
    }

    /// Returns the asset that `make` builds of a body, made once per body.
    ///
    /// # Errors
    /// Returns a description if the body is neither in the packet nor in the cache.
    pub fn asset(
        &mut self,
        named: CachedRef,
        bodies: &[Body],
        make: impl FnOnce(Body) -> Asset,
    ) -> Result<Arc<Asset>, String> {
        if let Some(known) = self.assets.get(&named.id) {
            return Ok(Arc::clone(known));
        }
        let asset = Arc::new(make(self.body(named, bodies)?));
        self.assets.insert(named.id, Arc::clone(&asset));
        Ok(asset)
    }

    /// Returns a download with the assets that it names.
    ///
    /// # Errors
    /// Returns a description if a body is neither in the packet nor in the cache, or is not that of a message.
    pub fn message(
        &mut self,
        named: CachedRef,
        bodies: &[Body],
        assets: &[Arc<Asset>],
    ) -> Result<Arc<Message>, String> {
        if let Some(known) = self.messages.get(&named.id) {
            return Ok(Arc::clone(known));
        }
        let body = self.body(named, bodies)?;
        let message = Message::from_body(&body, assets).map_err(|error| error.to_string())?;
        let message = Arc::new(message);
        self.messages.insert(named.id, Arc::clone(&message));
        Ok(message)
    }
}
