//! Messages and assets: what a method sends, in typed fields, and how it becomes a frame body.

use std::sync::Arc;

use crate::wire::{Body, Kind, WireError};

/// A typed message of a method. The engine sees only its [`Body`]: typed sections of named
/// tensors whose encoded size is charged to the byte.
pub trait Message: Send + Sync + Sized + 'static {
    /// The frame body. Tensors are shared (`Arc`), never copied.
    fn pack(&self) -> Body;

    /// The inverse, used after lossy codecs, in `wire = "verify"` and on resume.
    fn unpack(body: &Body) -> Result<Self, WireError>;

    /// [`unpack`](Message::unpack) with the assets the message named, which its body does not hold.
    /// A message that names assets overrides this and takes them up again.
    fn unpack_with(body: &Body, assets: &[Arc<Asset>]) -> Result<Self, WireError> {
        let _ = assets;
        Self::unpack(body)
    }

    /// Assets this message names; each is shipped once per receiver that lacks it.
    fn assets(&self) -> Vec<Arc<Asset>> {
        Vec::new()
    }
}

/// A versioned, content-addressed blob that a Down names instead of carrying (previous model,
/// Fisher, generator, finished prompts). The engine ships it when the receiver lacks it,
/// charged under its own kind; `wire.cache` in the scenario says what receivers keep.
#[derive(Clone, Debug)]
pub struct Asset {
    /// Name within the method.
    pub name: Arc<str>,
    /// Version; a receiver that holds another version lacks this one.
    pub version: u32,
    /// What its bytes are charged as.
    pub kind: Kind,
    /// The content.
    pub body: Arc<Body>,
    digest: u64,
}

impl Asset {
    /// An asset whose identity is its content.
    pub fn new(name: &str, version: u32, kind: Kind, body: Body) -> Asset {
        let digest = body.digest();
        Asset { name: name.into(), version, kind, body: Arc::new(body), digest }
    }

    /// 64-bit digest of the content; the key of receivers' caches.
    pub fn digest(&self) -> u64 {
        self.digest
    }
}
