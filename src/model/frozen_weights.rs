//! Weights of an extractor that is never trained, by name: the source of its layers and of its digest.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use candle_core::Tensor;

use super::parameters::{Parameter, ParameterSet};
use super::{DeviceSpec, ModelError};

/// Named tensors that never change. A copy shares them.
#[derive(Clone, Debug)]
pub(super) struct FrozenWeights {
    /// Tensors on the CPU in `f32`; layers that compute there share their storage.
    named: Arc<BTreeMap<Arc<str>, Tensor>>,
    /// Once asked for.
    digest: Arc<OnceLock<blake3::Hash>>,
}

impl FrozenWeights {
    /// Returns the parameters of these names and shapes out of `set`, which `file` names to the user. Others are
    /// ignored.
    ///
    /// # Errors
    /// When one is missing or of another shape.
    pub fn read(
        file: &str,
        shapes: Vec<(String, Vec<usize>)>,
        set: &ParameterSet,
    ) -> Result<FrozenWeights, ModelError> {
        let device = DeviceSpec::cpu().device;
        let mut named = BTreeMap::new();
        for (name, shape) in shapes {
            let tensor = set.expect(file, &name, &shape)?.tensor(&device)?;
            named.insert(Arc::from(name), tensor);
        }
        Ok(FrozenWeights { named: Arc::new(named), digest: Arc::default() })
    }

    /// Returns the tensor of a name that was read, at a place and in the type that it computes in.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn tensor(&self, name: &str, place: &DeviceSpec) -> Result<Tensor, ModelError> {
        Ok(self.named[name].to_device(&place.device)?.to_dtype(place.compute)?)
    }

    /// Copies all of them.
    ///
    /// # Errors
    /// What the device reports.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        self.named.iter().map(|(name, t)| Ok((Arc::clone(name), Parameter::of(t)?))).collect()
    }

    /// Digest of all of them, computed once.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<blake3::Hash, ModelError> {
        if let Some(known) = self.digest.get() {
            return Ok(*known);
        }
        let digest = self.parameters()?.digest();
        // Another thread may have been faster; it found the same.
        Ok(*self.digest.get_or_init(|| digest))
    }
}
