//! Index of what a rank was sent and still holds, kept by rank 0.
//!
//! A download, an asset or a model is sent to a rank with the first remote job that names it and by number afterwards.
//! When a rank holds too much, the least recently named items are forgotten; the next remote job lists them, and both
//! forget them.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::packet;
use crate::wire::{Body, WireError};

/// Reference to a body that a rank keeps, by a number that later packets may use again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CachedRef {
    /// Number of the body in the rank's cache.
    pub id: u64,
    /// Index of its frame in this packet; `None` if the rank has the body.
    pub frame: Option<usize>,
}

/// Identity of an item that is sent once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CachedItemKey {
    /// Address of a value that is kept alive here, so that the address is not used again.
    Address(usize),
    /// Digest of the content.
    Content(u64),
}

/// Index of the items that one rank holds.
#[derive(Default)]
pub(crate) struct CacheIndex {
    things: BTreeMap<CachedItemKey, CachedItem>,
    /// Size of all items in bytes.
    bytes: u64,
    /// Number of references made so far; a new item gets the next number.
    named: u64,
    /// Items that the rank is to forget with the next packet.
    forgotten: Vec<u64>,
}

struct CachedItem {
    id: u64,
    bytes: u64,
    /// Number of the last reference to the item.
    used: u64,
    _alive: Option<Arc<dyn Any + Send + Sync>>,
}

/// Bytes that a rank keeps: a few hundred downloads of prompts, or a handful of whole networks.
const ROOM: u64 = 1 << 30;

impl CacheIndex {
    /// Forgets the least recently used items until the rest has at most `room` bytes.
    fn make_room(&mut self, room: u64) {
        while self.bytes > room {
            let oldest = self.things.iter().min_by_key(|(_, thing)| thing.used);
            let Some(key) = oldest.map(|(key, _)| *key) else { break };
            let id = self.drop_thing(key);
            self.forgotten.extend(id);
        }
    }

    fn drop_thing(&mut self, key: CachedItemKey) -> Option<u64> {
        let thing = self.things.remove(&key)?;
        self.bytes -= thing.bytes;
        Some(thing.id)
    }
}

/// Packet for a rank that is being made.
pub(crate) struct Packing<'a> {
    sent: &'a mut CacheIndex,
    bodies: Vec<Body>,
    fresh: Vec<CachedItemKey>,
}

impl<'a> Packing<'a> {
    /// Begins a packet.
    pub fn new(sent: &'a mut CacheIndex) -> Packing<'a> {
        sent.make_room(ROOM);
        Packing { sent, bodies: Vec::new(), fresh: Vec::new() }
    }

    /// Adds a frame that no later packet refers to, and returns its index.
    pub fn frame(&mut self, body: Body) -> usize {
        self.bodies.push(body);
        self.bodies.len() - 1
    }

    /// Adds an item known by its address, which stays in use while `alive` is held.
    pub fn shared<T: Any + Send + Sync>(
        &mut self,
        alive: &Arc<T>,
        body: impl FnOnce() -> Body,
    ) -> CachedRef {
        let key = CachedItemKey::Address(Arc::as_ptr(alive).addr());
        self.name(key, Some(Arc::clone(alive) as _), body)
    }

    /// Adds an item known by a digest of its content.
    pub fn content(&mut self, digest: u64, body: impl FnOnce() -> Body) -> CachedRef {
        self.name(CachedItemKey::Content(digest), None, body)
    }

    fn name(
        &mut self,
        key: CachedItemKey,
        alive: Option<Arc<dyn Any + Send + Sync>>,
        body: impl FnOnce() -> Body,
    ) -> CachedRef {
        self.sent.named += 1;
        let used = self.sent.named;
        if let Some(thing) = self.sent.things.get_mut(&key) {
            thing.used = used;
            return CachedRef { id: thing.id, frame: None };
        }
        let body = body();
        let bytes = body.tensors().map(|(_, tensor)| tensor.values().bytes()).sum();
        self.sent.things.insert(key, CachedItem { id: used, bytes, used, _alive: alive });
        self.sent.bytes += bytes;
        self.fresh.push(key);
        CachedRef { id: used, frame: Some(self.frame(body)) }
    }

    /// Returns the bytes of the packet; `index` builds its index from the items to forget.
    ///
    /// # Errors
    /// Returns an error if a body is too large for a frame; then nothing has been sent to the rank.
    pub fn seal<T: Serialize>(
        self,
        index: impl FnOnce(Vec<u64>) -> T,
    ) -> Result<Vec<u8>, WireError> {
        let index = index(self.sent.forgotten.clone());
        let sealed = packet::seal(&index, &self.bodies);
        match &sealed {
            Ok(_) => self.sent.forgotten.clear(),
            Err(_) => self.fresh.iter().for_each(|key| _ = self.sent.drop_thing(*key)),
        }
        sealed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Kind, NamedTensor, Section};

    fn body(values: usize) -> Body {
        let tensor = NamedTensor::f32("w", [values], vec![1.0; values]).expect("fits");
        Body::new(Vec::new(), vec![Section::new(Kind::Weights, vec![tensor])])
    }

    #[test]
    fn what_was_sent_is_named_and_what_was_not_is_framed() {
        let mut sent = CacheIndex::default();
        let (one, other) = (Arc::new(1), Arc::new(1));
        let mut packing = Packing::new(&mut sent);
        let first = packing.shared(&one, || body(2));
        let second = packing.shared(&other, || body(3));
        assert_eq!((first.frame, second.frame), (Some(0), Some(1)));
        assert_ne!(first.id, second.id, "equal values at two addresses are two things");
        assert_eq!(packing.shared(&one, || panic!("is there")).id, first.id);
        assert_eq!(packing.bodies.len(), 2);
        packing.seal(|_| ()).expect("is small");
        let mut packing = Packing::new(&mut sent);
        let again = packing.shared(&other, || panic!("is there"));
        assert_eq!(again, CachedRef { id: second.id, frame: None });
    }

    #[test]
    fn the_longest_unused_is_forgotten_first() {
        let mut sent = CacheIndex::default();
        let mut packing = Packing::new(&mut sent);
        let ids = [1, 2, 3].map(|digest| packing.content(digest, || body(10)).id);
        packing.content(1, || panic!("is there"));
        assert_eq!(sent.bytes, 120);
        sent.make_room(120);
        assert_eq!(sent.forgotten, Vec::<u64>::new());
        sent.make_room(80);
        assert_eq!(sent.forgotten, [ids[1]]);
        sent.make_room(0);
        assert_eq!(sent.forgotten, [ids[1], ids[2], ids[0]]);
        let mut forgotten = Vec::new();
        Packing::new(&mut sent).seal(|forget| forgotten = forget).expect("is small");
        assert_eq!((forgotten.len(), sent.forgotten.len()), (3, 0), "said once");
    }
}
