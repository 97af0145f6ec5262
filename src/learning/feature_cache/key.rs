//! Key that names a cache file: everything on which its values depend.

use candle_core::DType;

use super::blocks::BLOCK;
use crate::data::{Split, Transform};
use crate::learning::LearningError;
use crate::model::ops::Precision;
use crate::model::{Backbone, BackboneConfig, DeviceSpec, FROZEN_BATCH, FrozenPart};

/// Version of the format, raised when values or layout of a file change their meaning.
pub(super) const FORMAT: u32 = 3;

/// Part of the key for a network's values. Workers on several devices have equal ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct NetworkKey {
    config: BackboneConfig,
    weights: blake3::Hash,
    compute: DType,
    products: Precision,
    /// True on GPUs, which round differently: a run on a CPU never reads their values.
    on_gpu: bool,
}

impl NetworkKey {
    pub fn of(backbone: &Backbone) -> Result<NetworkKey, LearningError> {
        let DeviceSpec { device, compute, products } = backbone.place();
        Ok(NetworkKey {
            config: backbone.config(),
            weights: backbone.digest()?,
            compute: *compute,
            products: *products,
            on_gpu: !device.is_cpu(),
        })
    }
}

/// Inputs that the values of a file depend on.
pub(super) struct Inputs<'a> {
    pub network: &'a NetworkKey,
    pub split: &'a Split,
    pub transform: &'a Transform,
    pub part: FrozenPart,
    /// Version and arithmetic of the program, see [`Storage::File`](super::Storage::File).
    pub program: &'a str,
}

impl Inputs<'_> {
    /// Returns the hash of all inputs.
    pub fn key(&self) -> Result<blake3::Hash, LearningError> {
        let mut hasher = blake3::Hasher::new();
        let mut part = |name: &str, bytes: &[u8]| {
            hasher
                .update(name.as_bytes())
                .update(&(bytes.len() as u64).to_le_bytes())
                .update(bytes);
        };
        part("format", &FORMAT.to_le_bytes());
        part("block", &[BLOCK, FROZEN_BATCH].map(|samples| samples as u8));
        part("program", self.program.as_bytes());
        part("network", format!("{:?}", self.network).as_bytes());
        part("split", self.split.digest()?.as_bytes());
        part("transform", format!("{:?}", self.transform).as_bytes());
        part("part", self.part.name().as_bytes());
        Ok(hasher.finalize())
    }
}
