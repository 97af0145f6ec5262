//! Dimensions of a vision transformer and, from them, the name and shape of every parameter.

use crate::model::ModelError;
use crate::model::ops::PerceptronActivation;
use crate::weights::{InferredVit, WeightsError, heads_of_width};

/// Dimensions of a [`Vit`](super::Vit). The default is ViT-Tiny.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VitConfig {
    /// Side of the (square) image in pixels.
    pub image: usize,
    /// Side of a patch in pixels.
    pub patch: usize,
    /// Color channels.
    pub channels: usize,
    /// Width of a token, `d`.
    pub dim: usize,
    /// Number of blocks.
    pub depth: usize,
    /// Number of attention heads; must divide `dim`.
    pub heads: usize,
    /// Hidden width of the blocks' perceptron.
    pub mlp: usize,
    /// Value added to the variance in every layer norm.
    pub norm_eps: f64,
    /// Activation of the blocks' perceptron.
    pub activation: PerceptronActivation,
}

impl Default for VitConfig {
    fn default() -> VitConfig {
        VitConfig {
            image: 224,
            patch: 16,
            channels: 3,
            dim: 192,
            depth: 12,
            heads: 3,
            mlp: 768,
            norm_eps: 1e-6,
            activation: PerceptronActivation::Gelu,
        }
    }
}

impl VitConfig {
    /// Names of [`VitConfig::preset`].
    pub const PRESETS: [&'static str; 3] =
        ["vit-tiny-patch16-224", "vit-small-patch16-224", "vit-base-patch16-224"];

    /// Returns the dimensions of a standard network by name, with or without the suffix `-patch16-224`.
    pub fn preset(name: &str) -> Option<VitConfig> {
        let (dim, heads) = match name.strip_suffix("-patch16-224").unwrap_or(name) {
            "vit-tiny" => (192, 3),
            "vit-small" => (384, 6),
            "vit-base" => (768, 12),
            _ => return None,
        };
        Some(VitConfig { dim, heads, mlp: 4 * dim, ..VitConfig::default() })
    }

    /// Returns the number of patches per side.
    pub fn grid(&self) -> usize {
        self.image / self.patch
    }

    /// Returns the number of tokens: CLS and one per patch.
    pub fn tokens(&self) -> usize {
        self.grid() * self.grid() + 1
    }

    /// Returns the number of values in a patch.
    pub fn patch_values(&self) -> usize {
        self.channels * self.patch * self.patch
    }

    /// Returns the configuration for images of another size.
    pub fn at_resolution(self, image: usize) -> VitConfig {
        VitConfig { image, ..self }
    }

    /// Returns the number of values in all parameters, without a head.
    ///
    /// It follows protocol-hgp.md section 0, for any patch, channels and perceptron. ViT-B/16 has 85,798,656.
    pub fn parameter_count(&self) -> usize {
        let VitConfig { dim: d, mlp: m, .. } = *self;
        let embedding = (self.patch_values() + 1) * d + d + self.tokens() * d;
        let block = (4 * d * d + 4 * d) + (2 * d * m + m + d) + 4 * d;
        embedding + self.depth * block + 2 * d
    }

    /// Returns timm's name and the shape of every parameter, sorted by name.
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let (d, m) = (self.dim, self.mlp);
        let mut shapes = vec![
            ("cls_token".to_owned(), vec![1, 1, d]),
            ("pos_embed".to_owned(), vec![1, self.tokens(), d]),
            ("patch_embed.proj.weight".to_owned(), vec![d, self.channels, self.patch, self.patch]),
            ("patch_embed.proj.bias".to_owned(), vec![d]),
            ("norm.weight".to_owned(), vec![d]),
            ("norm.bias".to_owned(), vec![d]),
        ];
        for block in 0..self.depth {
            for (layer, outputs, inputs) in
                [("attn.qkv", 3 * d, d), ("attn.proj", d, d), ("mlp.fc1", m, d), ("mlp.fc2", d, m)]
            {
                shapes.push((format!("blocks.{block}.{layer}.weight"), vec![outputs, inputs]));
                shapes.push((format!("blocks.{block}.{layer}.bias"), vec![outputs]));
            }
            for norm in ["norm1", "norm2"] {
                shapes.push((format!("blocks.{block}.{norm}.weight"), vec![d]));
                shapes.push((format!("blocks.{block}.{norm}.bias"), vec![d]));
            }
        }
        shapes.sort();
        shapes
    }

    /// Checks that the dimensions fit together.
    ///
    /// # Errors
    /// Returns a [`ModelError::Config`] that says what to change.
    pub fn validate(&self) -> Result<(), ModelError> {
        let refuse = |reason: String| Err(ModelError::Config { reason });
        let all = [self.image, self.patch, self.channels, self.dim, self.heads, self.mlp];
        if all.contains(&0) {
            return refuse(format!("a dimension is zero: {self:?}"));
        }
        if !self.image.is_multiple_of(self.patch) {
            let near = self.image.div_ceil(self.patch) * self.patch;
            return refuse(format!(
                "an image of {} pixels cannot be cut into patches of {}; use a multiple, such as {near}",
                self.image, self.patch
            ));
        }
        if !self.dim.is_multiple_of(self.heads) {
            return refuse(format!(
                "width {} cannot be split into {} heads; give `heads` as a divisor of the width",
                self.dim, self.heads
            ));
        }
        Ok(())
    }

    /// Infers the dimensions from the shapes of tensors. The number of heads cannot be inferred: if not given, it is
    /// that of published transformers of this width.
    ///
    /// # Errors
    /// Returns an error if the number of heads is not known, or dimensions do not fit.
    pub fn inferred(
        file: &str,
        shape: InferredVit,
        heads: Option<usize>,
    ) -> Result<VitConfig, ModelError> {
        let InferredVit { image, patch, channels, dim, depth, mlp } = shape;
        let Some(heads) = heads.or(heads_of_width(dim)) else {
            return Err(WeightsError::Shape {
                file: file.to_owned(),
                what: format!("the number of attention heads does not follow from the width {dim}"),
                advice: "set `heads` (--heads on the command line) to the value in the model card"
                    .to_owned(),
            }
            .into());
        };
        let defaults = VitConfig::default();
        let config = VitConfig { image, patch, channels, dim, depth, heads, mlp, ..defaults };
        config.validate()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_counted_as_the_protocol_counts_them() {
        let base = VitConfig::preset("vit-base").unwrap();
        assert_eq!(base.parameter_count(), 85_798_656);
        for name in VitConfig::PRESETS {
            let config = VitConfig::preset(name).unwrap();
            let listed: usize = config
                .parameter_shapes()
                .iter()
                .map(|(_, shape)| shape.iter().product::<usize>())
                .sum();
            assert_eq!(listed, config.parameter_count(), "{name}");
        }
        assert_eq!(VitConfig::preset("vit-huge"), None);
    }

    #[test]
    fn impossible_dimensions_are_refused_with_advice() {
        let odd = VitConfig::default().at_resolution(100);
        assert!(odd.validate().unwrap_err().to_string().contains("such as 112"));
        let heads = VitConfig { heads: 5, ..VitConfig::default() };
        assert!(heads.validate().unwrap_err().to_string().contains("5 heads"));
    }
}
