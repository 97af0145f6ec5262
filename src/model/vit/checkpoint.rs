//! Checkpoints of vision transformers in any known naming and container. Errors name the tensor.

use std::path::Path;

use super::VitConfig;
use super::position::resample;
use crate::model::ModelError;
use crate::model::parameters::{Parameter, ParameterSet};
use crate::model::weights_file::{OpenWeights, WeightsSource};
use crate::weights::{InferredVit, Network};

/// Checkpoint in memory, with the network's parameters as f32 regardless of the file's type.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Origin of the checkpoint, for errors.
    pub origin: String,
    /// Dimensions, inferred from the shapes.
    pub config: VitConfig,
    /// Exactly the parameters of [`VitConfig::parameter_shapes`].
    pub parameters: ParameterSet,
}

impl Checkpoint {
    /// Reads a file and infers the dimensions from it. If `heads` is not given, it is that of published transformers of
    /// this width.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, and fails as [`Checkpoint::from_bytes`] does.
    pub fn read(path: &Path, heads: Option<usize>) -> Result<Checkpoint, ModelError> {
        Checkpoint::of(OpenWeights::open(&WeightsSource::at(path))?, heads)
    }

    /// Reads a file that must hold a network of these dimensions.
    ///
    /// # Errors
    /// Fails as [`Checkpoint::read`] does. If the dimensions differ, the error has both shapes of the first tensor that
    /// differs.
    pub fn stated(source: &WeightsSource, config: VitConfig) -> Result<Checkpoint, ModelError> {
        config.validate()?;
        let opened = OpenWeights::open(source)?;
        let parameters = opened.parameters(Network::Vit, config.parameter_shapes())?;
        Ok(Checkpoint { origin: source.name.clone(), config, parameters })
    }

    /// Reads the bytes of a safetensors file that comes from `origin`. A classifier is skipped; f16, bf16 and f64
    /// become f32.
    ///
    /// # Errors
    /// Returns an error if the file is malformed, or a tensor is missing, left over, of a wrong shape or type, or not
    /// finite.
    pub fn from_bytes(
        origin: &str,
        bytes: &[u8],
        heads: Option<usize>,
    ) -> Result<Checkpoint, ModelError> {
        Checkpoint::of(OpenWeights::from_bytes(origin, bytes)?, heads)
    }

    fn of(opened: OpenWeights<'_>, heads: Option<usize>) -> Result<Checkpoint, ModelError> {
        let origin = opened.origin().to_owned();
        let shape = InferredVit::of(&origin, &opened.map)?;
        let config = VitConfig::inferred(&origin, shape, heads)?;
        let parameters = opened.parameters(Network::Vit, config.parameter_shapes())?;
        Ok(Checkpoint { origin, config, parameters })
    }

    /// Returns the network for images of `image` x `image` pixels. Position embeddings are resampled; everything else
    /// is shared.
    ///
    /// # Errors
    /// Returns an error if `image` is not a multiple of the patch.
    pub fn at_resolution(mut self, image: usize) -> Result<Checkpoint, ModelError> {
        let config = self.config.at_resolution(image);
        config.validate()?;
        let shape = [1, self.config.tokens(), self.config.dim];
        let old = self.parameters.expect(&self.origin, "pos_embed", &shape)?;
        let values = resample(&old.values, config.dim, self.config.grid(), config.grid()).into();
        let shape = vec![1, config.tokens(), config.dim];
        self.parameters.insert("pos_embed", Parameter { shape, values });
        self.config = config;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Vit, to_safetensors};
    use crate::numerics::streams::{Domain, StreamKey};
    use crate::weights::WeightsError;

    fn small() -> VitConfig {
        let default = VitConfig::default();
        VitConfig { image: 8, patch: 4, dim: 12, depth: 2, heads: 3, mlp: 20, ..default }
    }

    fn parameters() -> ParameterSet {
        Vit::initial_parameters(&small(), StreamKey::new(1, Domain::Init))
    }

    fn reread(set: &ParameterSet) -> Result<Checkpoint, ModelError> {
        Checkpoint::from_bytes("file", &to_safetensors(set).unwrap(), Some(3))
    }

    #[test]
    fn what_is_written_is_read_and_a_head_is_ignored() {
        let mut set = parameters();
        set.insert("head.weight", Parameter { shape: vec![1], values: [f32::NAN].into() });
        let read = reread(&set).unwrap();
        assert_eq!(read.config, small());
        assert_eq!(read.parameters, parameters());
    }

    #[test]
    fn damage_is_reported_by_name() {
        let mut set = parameters();
        set.insert("blocks.1.norm1.bias", Parameter { shape: vec![2], values: [0.0; 2].into() });
        let error = reread(&set).unwrap_err().to_string();
        assert!(error.contains("`blocks.1.norm1.bias` is 2, should be 12"), "{error}");

        let without: ParameterSet = parameters()
            .iter()
            .filter(|(name, _)| &***name != "norm.weight")
            .map(|(n, p)| (n.clone(), p.clone()))
            .collect();
        let error = reread(&without).unwrap_err().to_string();
        assert!(error.contains("no tensor `norm.weight`"), "{error}");

        let mut set = parameters();
        let mut values = vec![0f32; 12];
        values[7] = f32::NAN;
        set.insert("norm.bias", Parameter { shape: vec![12], values: values.into() });
        let error = reread(&set).unwrap_err().to_string();
        assert!(error.contains("norm.bias") && error.contains("element 7"), "{error}");

        let bytes = to_safetensors(&parameters()).unwrap();
        let error = Checkpoint::from_bytes("file", &bytes[..bytes.len() - 9], Some(3));
        assert!(matches!(error, Err(ModelError::File(WeightsError::Malformed { .. }))));
        assert!(matches!(
            Checkpoint::from_bytes("file", &bytes, None),
            Err(ModelError::File(WeightsError::Shape { .. }))
        ));
    }

    #[test]
    fn another_resolution_changes_the_positions_only() {
        let bigger = reread(&parameters()).unwrap().at_resolution(16).unwrap();
        assert_eq!(bigger.config, small().at_resolution(16));
        assert_eq!(bigger.parameters.get("pos_embed").unwrap().shape, [1, 17, 12]);
        assert!(reread(&parameters()).unwrap().at_resolution(10).is_err());
    }
}
