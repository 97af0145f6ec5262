//! Named weights of an extractor that never trains, from which its layers and its digest are made.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use candle_core::Tensor;

use super::parameters::{Parameter, ParameterSet};
use super::{DeviceSpec, ModelError};

/// Named tensors that never change. Copies share them.
#[derive(Clone, Debug)]
pub(super) struct FrozenWeights {
    /// Tensors on the CPU in `f32`; layers that compute there share their storage.
    named: Arc<BTreeMap<Arc<str>, Tensor>>,
    /// Digest, computed on first request.
    digest: Arc<OnceLock<blake3::Hash>>,
}

impl FrozenWeights {
    /// Returns the parameters with these names and shapes from `set`. Others are ignored; `file` names the set in
    /// errors.
    ///
    /// # Errors
    /// Returns an error if one is missing or of another shape.
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

    /// Returns the tensor of a name on a device, in the type in which it computes.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn tensor(&self, name: &str, place: &DeviceSpec) -> Result<Tensor, ModelError> {
        Ok(self.named[name].to_device(&place.device)?.to_dtype(place.compute)?)
    }

    /// Copies all weights.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        self.named.iter().map(|(name, t)| Ok((Arc::clone(name), Parameter::of(t)?))).collect()
    }

    /// Returns the digest of all weights, computed once.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn digest(&self) -> Result<blake3::Hash, ModelError> {
        if let Some(known) = self.digest.get() {
            return Ok(*known);
        }
        let digest = self.parameters()?.digest();
        // If another thread was faster, its result is the same.
        Ok(*self.digest.get_or_init(|| digest))
    }
}
