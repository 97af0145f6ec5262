//! Vision transformer: patches, positions, blocks, final norm.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use candle_core::{DType, Tensor};

use super::block::TransformerBlock;
use super::{Checkpoint, VitConfig};
use crate::model::ops::{self, Affine, SampleGroups};
use crate::model::parameters::{ParameterSet, Variables};
use crate::model::{Adaptation, DeviceSpec, ModelError, PromptTokens};

/// Vision transformer with timm's parameters, frozen or over variables.
///
/// Usually it is frozen: then the graph starts at the first block whose [`Adaptation`] holds a variable, and everything
/// below is computed without a graph. For full fine-tuning, [`Vit::with_trainables`] builds the same network over
/// `Var`s.
///
/// Between patches and final norm a network computes in the type of its [`DeviceSpec`], with products of its precision;
/// features are `f32` everywhere.
#[derive(Clone, Debug)]
pub struct Vit {
    config: VitConfig,
    patch: Affine,
    /// Class token, `(1, 1, d)`.
    cls: Tensor,
    /// Position embeddings, `(1, n, d)`.
    position: Tensor,
    blocks: Vec<TransformerBlock>,
    norm: Affine,
    /// All parameters by name; the fields above share their storage.
    named: BTreeMap<Arc<str>, Tensor>,
    variables: Variables,
    /// Digest of the parameters, computed on first request; frozen networks only.
    digest: OnceLock<blake3::Hash>,
    place: DeviceSpec,
}

impl Vit {
    /// Reads a file of weights in any known naming.
    ///
    /// `resolution` requests another image size than the file's (positions are resampled), `heads` another number of
    /// heads than that of published transformers of this width.
    ///
    /// # Errors
    /// Returns a [`ModelError`] that names file and tensor.
    pub fn load(
        path: &Path,
        resolution: Option<usize>,
        heads: Option<usize>,
    ) -> Result<Vit, ModelError> {
        Vit::from_checkpoint(Checkpoint::read(path, heads)?, resolution)
    }

    /// Reads weights as [`Vit::load`] from bytes in memory; `origin` stands for the file in errors.
    ///
    /// # Errors
    /// Fails as [`Vit::load`] does.
    pub fn from_bytes(
        origin: &str,
        bytes: &[u8],
        resolution: Option<usize>,
        heads: Option<usize>,
    ) -> Result<Vit, ModelError> {
        Vit::from_checkpoint(Checkpoint::from_bytes(origin, bytes, heads)?, resolution)
    }

    /// Returns a frozen network of a checkpoint, for images of `resolution` pixels if given.
    ///
    /// # Errors
    /// Returns an error if `resolution` is not a multiple of the patch.
    pub fn from_checkpoint(read: Checkpoint, resolution: Option<usize>) -> Result<Vit, ModelError> {
        let read = match resolution {
            Some(image) if image != read.config.image => read.at_resolution(image)?,
            _ => read,
        };
        Vit::from_parameters(read.config, &read.parameters)
    }

    /// Returns a frozen network with these parameters, on the CPU. Unused entries are ignored.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing or has another shape.
    pub fn from_parameters(config: VitConfig, set: &ParameterSet) -> Result<Vit, ModelError> {
        Vit::frozen_at(config, set, &DeviceSpec::cpu())
    }

    /// Returns [`Vit::from_parameters`] on another device.
    ///
    /// # Errors
    /// Fails as [`Vit::from_parameters`] does, and if the device has no room.
    pub fn frozen_at(
        config: VitConfig,
        set: &ParameterSet,
        place: &DeviceSpec,
    ) -> Result<Vit, ModelError> {
        let mut named = BTreeMap::new();
        for (name, shape) in config.parameter_shapes() {
            let tensor = set.expect("parameter set", &name, &shape)?.tensor(&place.device)?;
            named.insert(Arc::from(name.as_str()), narrowed(&name, &tensor, place)?);
        }
        Vit::assemble(config, named, Vec::new(), place)
    }

    /// Returns a frozen copy of this network on another device. Every worker of a GPU makes one.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn at(&self, place: &DeviceSpec) -> Result<Vit, ModelError> {
        let mut named = BTreeMap::new();
        for (name, tensor) in &self.named {
            let tensor = tensor.detach().to_device(&place.device)?;
            named.insert(Arc::clone(name), narrowed(name, &tensor, place)?);
        }
        Vit::assemble(self.config, named, Vec::new(), place)
    }

    /// Returns the network over new variables: every parameter trains, on the CPU.
    ///
    /// # Errors
    /// Fails as [`Vit::from_parameters`] does.
    pub fn with_trainables(config: VitConfig, set: &ParameterSet) -> Result<Vit, ModelError> {
        Vit::trainable_at(config, set, &DeviceSpec::cpu())
    }

    /// Returns [`Vit::with_trainables`] on another device. Variables are always `f32`.
    ///
    /// # Errors
    /// Fails as [`Vit::frozen_at`] does.
    pub fn trainable_at(
        config: VitConfig,
        set: &ParameterSet,
        place: &DeviceSpec,
    ) -> Result<Vit, ModelError> {
        let mut own = ParameterSet::new();
        for (name, shape) in config.parameter_shapes() {
            let parameter = set.expect("parameter set", &name, &shape)?.clone();
            own.insert(name, parameter);
        }
        let variables = own.variables(&place.device)?;
        let named = variables.iter().map(|(n, v)| (n.clone(), v.as_tensor().clone())).collect();
        Vit::assemble(config, named, variables, place)
    }

    fn assemble(
        config: VitConfig,
        named: BTreeMap<Arc<str>, Tensor>,
        variables: Variables,
        place: &DeviceSpec,
    ) -> Result<Vit, ModelError> {
        config.validate()?;
        let tensor = |name: &str| named[name].clone();
        let affine = |layer: &str| Affine {
            weight: tensor(&format!("{layer}.weight")),
            bias: tensor(&format!("{layer}.bias")),
            precision: place.products,
        };
        let blocks = (0..config.depth)
            .map(|i| TransformerBlock {
                norm1: affine(&format!("blocks.{i}.norm1")),
                qkv: affine(&format!("blocks.{i}.attn.qkv")),
                proj: affine(&format!("blocks.{i}.attn.proj")),
                norm2: affine(&format!("blocks.{i}.norm2")),
                fc1: affine(&format!("blocks.{i}.mlp.fc1")),
                fc2: affine(&format!("blocks.{i}.mlp.fc2")),
            })
            .collect();
        Ok(Vit {
            config,
            patch: affine("patch_embed.proj"),
            cls: tensor("cls_token"),
            position: tensor("pos_embed"),
            blocks,
            norm: affine("norm"),
            named,
            variables,
            digest: OnceLock::new(),
            place: place.clone(),
        })
    }

    /// Returns the device of its tensors, with the type in which it computes.
    pub fn place(&self) -> &DeviceSpec {
        &self.place
    }

    /// Returns the dimensions.
    pub fn config(&self) -> &VitConfig {
        &self.config
    }

    /// Returns the variables, sorted by name; empty for a frozen network.
    pub fn variables(&self) -> &[(Arc<str>, candle_core::Var)] {
        &self.variables
    }

    /// Copies the current values of all parameters.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        let named: Vec<(&Arc<str>, &Tensor)> = self.named.iter().collect();
        ParameterSet::snapshot(&named)
    }

    /// Returns the digest of the current parameters; computed once if they are frozen.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn digest(&self) -> Result<blake3::Hash, ModelError> {
        if let Some(known) = self.digest.get() {
            return Ok(*known);
        }
        let digest = self.parameters()?.digest();
        if self.variables.is_empty() {
            // If another thread was faster, its result is the same.
            let _ = self.digest.set(digest);
        }
        Ok(digest)
    }

    /// Returns features `(b, d)` of normalized `pixels` `(b, c, h, w)`.
    ///
    /// A feature is CLS after the final norm, unless the prompt tokens of `adaptation` define another pooling.
    ///
    /// # Errors
    /// Returns an error if pixels or adaptation do not fit.
    pub fn features(&self, pixels: &Tensor, adaptation: &Adaptation) -> Result<Tensor, ModelError> {
        self.features_from(&self.embed_with(pixels, adaptation)?, 0, adaptation)
    }

    /// Continues [`Vit::features`] for tokens `(b, n, d)` that have passed the blocks below `first`. With these, a
    /// cache of frozen lower blocks continues (see [`Vit::advance`]).
    ///
    /// # Errors
    /// Returns an error if tokens or adaptation do not fit.
    pub fn features_from(
        &self,
        tokens: &Tensor,
        first: usize,
        adaptation: &Adaptation,
    ) -> Result<Tensor, ModelError> {
        let prompts = adaptation.tokens.as_ref();
        let needed = prompts.map_or(Ok(1), PromptTokens::outputs)?;
        let last = self.blocks.len().saturating_sub(1);
        let outputs = if first <= last && !self.blocks.is_empty() {
            // In the last block, only outputs that make a feature need queries, projection and perceptron.
            let tokens = self.advance(tokens, first..last, adaptation)?;
            let tokens = adaptation.joined(last, &tokens)?;
            // A hook sees all tokens.
            let queries = if adaptation.hook.is_some() { tokens.dim(1)? } else { needed };
            self.block(&tokens, last, adaptation, queries)?.narrow(1, 0, needed)?
        } else {
            tokens.narrow(1, 0, needed)?
        };
        match prompts {
            None => self.final_norm(&outputs.squeeze(1)?),
            Some(prompts) => Ok(prompts.pool(&self.final_norm(&outputs)?)?),
        }
    }

    /// Returns all tokens after the final norm, `(b, n, d)`; token 0 is CLS.
    ///
    /// # Errors
    /// Returns an error if pixels or adaptation do not fit.
    pub fn tokens(&self, pixels: &Tensor, adaptation: &Adaptation) -> Result<Tensor, ModelError> {
        let tokens = self.embed_with(pixels, adaptation)?;
        let tokens = self.advance(&tokens, 0..self.blocks.len(), adaptation)?;
        self.final_norm(&tokens)
    }

    fn final_norm(&self, x: &Tensor) -> Result<Tensor, ModelError> {
        Ok(self.norm.norm(&x.to_dtype(DType::F32)?, self.config.norm_eps)?)
    }

    /// Advances the residual stream `tokens` `(b, n, d)` through a range of blocks, before any final norm.
    ///
    /// # Errors
    /// Returns an error if tokens or adaptation do not fit.
    pub fn advance(
        &self,
        tokens: &Tensor,
        blocks: Range<usize>,
        adaptation: &Adaptation,
    ) -> Result<Tensor, ModelError> {
        let mut tokens = tokens.clone();
        for block in blocks {
            let input = adaptation.joined(block, &tokens)?;
            tokens = self.block(&input, block, adaptation, input.dim(1)?)?;
        }
        Ok(tokens)
    }

    fn block(
        &self,
        tokens: &Tensor,
        block: usize,
        adaptation: &Adaptation,
        queries: usize,
    ) -> Result<Tensor, ModelError> {
        Ok(self.blocks[block].forward(tokens, &self.config, (adaptation, block), queries)?)
    }

    /// Returns the input of block 0: CLS and patch embeddings with their positions, `(b, n, d)`.
    ///
    /// # Errors
    /// Returns an error if the pixels are not `(b, channels, image, image)`.
    pub fn embed(&self, pixels: &Tensor) -> Result<Tensor, ModelError> {
        self.embed_pack(pixels, None)
    }

    /// Returns the input of block 0 with the prompt tokens of an adaptation.
    fn embed_with(&self, pixels: &Tensor, adaptation: &Adaptation) -> Result<Tensor, ModelError> {
        let embedded = self.embed_pack(pixels, adaptation.groups.as_ref())?;
        let Some(prompts) = &adaptation.tokens else { return Ok(embedded) };
        let (cls, positions) = (self.cls.reshape((1, self.config.dim))?, self.position.squeeze(0)?);
        Ok(prompts.insert(&embedded, &cls, &positions)?)
    }

    /// Returns [`Vit::embed`] for the members of a pack.
    fn embed_pack(
        &self,
        pixels: &Tensor,
        groups: Option<&SampleGroups>,
    ) -> Result<Tensor, ModelError> {
        // The bias is merged with CLS and positions in one small table (n, d), so that the big tensor is passed once:
        // row 0 of `unfold` is zero and becomes CLS.
        let (patches, dim) = (self.config.tokens() - 1, self.config.dim);
        let bias = self.patch.bias.to_dtype(self.cls.dtype())?.reshape((1, dim))?;
        let bias = bias.broadcast_as((patches, dim))?.contiguous()?;
        let start = Tensor::cat(&[self.cls.reshape((1, dim))?, bias], 0)?;
        let table = (start + self.position.squeeze(0)?)?.to_dtype(self.place.compute)?;
        let (rows, matrix) = (self.unfold(pixels, 1)?, self.patch_matrix()?);
        let tokens = match groups {
            None => ops::linear_at(self.patch.precision, &rows, &matrix, None)?,
            Some(groups) => {
                ops::grouped_linear_at(self.patch.precision, &rows, &matrix, None, groups)?
            }
        };
        Ok(tokens.broadcast_add(&table)?)
    }

    /// Returns patch embeddings without position or CLS, `(b, n - 1, d)`, as timm's `patch_embed`.
    #[cfg(test)]
    pub(super) fn patch_tokens(&self, pixels: &Tensor) -> Result<Tensor, ModelError> {
        let patches = self.unfold(pixels, 0)?;
        Ok(ops::linear(&patches, &self.patch_matrix()?, Some(&self.patch.bias))?)
    }

    fn patch_matrix(&self) -> Result<Tensor, ModelError> {
        Ok(self.patch.weight.reshape((self.config.dim, self.config.patch_values()))?)
    }

    /// Returns patches as rows, `(b, extra + patches, c p p)`, after `extra` rows of zeros.
    ///
    /// Their values have the order of the convolution's weight.
    fn unfold(&self, pixels: &Tensor, extra: usize) -> Result<Tensor, ModelError> {
        let VitConfig { image, patch: p, channels, .. } = self.config;
        let (b, c, h, w) = pixels.dims4()?;
        if (c, h, w) != (channels, image, image) {
            return Err(ModelError::Input {
                reason: format!(
                    "the network takes images of {channels} x {image} x {image}, got {c} x {h} x {w}; \
                     set the transform's size or the backbone's resolution"
                ),
            });
        }
        let grid = self.config.grid();
        let rows = pixels
            .to_dtype(self.place.compute)?
            .reshape(&[b, c, grid, p, grid, p][..])?
            .permute([0, 2, 4, 1, 3, 5])?
            .contiguous()?
            .reshape((b, grid * grid, c * p * p))?;
        Ok(if extra == 0 { rows } else { rows.pad_with_zeros(1, extra, 0)?.contiguous()? })
    }
}

/// Returns a parameter in the type in which it is used on a device.
///
/// Weights and biases of linear layers are in the compute type. Parameters of sums, norms and positions stay `f32`.
fn narrowed(name: &str, tensor: &Tensor, place: &DeviceSpec) -> Result<Tensor, ModelError> {
    let sums = name.contains("norm") || ["cls_token", "pos_embed"].contains(&name);
    let dtype = if sums { DType::F32 } else { place.compute };
    Ok(tensor.to_dtype(dtype)?)
}

#[cfg(test)]
mod tests;
