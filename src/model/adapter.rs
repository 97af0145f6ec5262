//! Bottleneck adapters: a small perceptron parallel to that of a block (AdaptFormer, Chen et al. 2022; STSA's first
//! stage).
//!
//! With `u` the residual stream after attention, before the block's second norm: `u <- u + MLP(LN(u)) + 0.1 (ReLU(u
//! W_dn + b_dn) W_up + b_up)`, with dropout after the rectifier in training. `W_up` and the biases start at zero, so
//! that a new adapter changes nothing.

use candle_core::{Result, Tensor, bail};

use super::ModelError;
use super::ops::{self, SampleGroups};
use super::parameters::{Parameter, ParameterSet};
use crate::numerics::distributions::{chance, uniform};
use crate::numerics::streams::StreamKey;

/// Factor of an adapter's output.
const SCALE: f64 = 0.1;

/// Adapter of one block. In a pack, every tensor has a leading axis of members.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// Weight `(r, d)` of the layer down.
    pub down_weight: Tensor,
    /// Bias `(r)` of the layer down.
    pub down_bias: Tensor,
    /// Weight `(d, r)` of the layer up.
    pub up_weight: Tensor,
    /// Bias `(d)` of the layer up.
    pub up_bias: Tensor,
}

/// Dropout in a hidden layer during a training step. Kept entries are scaled so that the mean is preserved.
#[derive(Clone, Debug, PartialEq)]
pub struct Dropout {
    /// Fraction of zeros, below 1.
    pub rate: f64,
    /// Place of each member of a pack in the random streams.
    pub places: Vec<MaskPlace>,
}

/// Place in the random streams at which the masks of a step are drawn. Every block has its own masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskPlace {
    /// Stream key of the client.
    pub key: StreamKey,
    /// Step of the client's training, from 0.
    pub step: u64,
}

impl Dropout {
    /// Applies dropout to `x` `(b, ..)`, whose samples belong to `groups`; `block` selects its masks.
    pub(crate) fn apply(&self, x: &Tensor, block: usize, groups: &SampleGroups) -> Result<Tensor> {
        if groups.members() != self.places.len() {
            bail!("dropout: masks of {} for {} members", self.places.len(), groups.members());
        }
        let width = x.elem_count() / groups.samples().max(1);
        let kept = (1.0 / (1.0 - self.rate)) as f32;
        let mut mask = Vec::with_capacity(x.elem_count());
        for (run, place) in groups.runs().zip(&self.places) {
            let mut rng = place.key.named(&format!("{}.{block}", place.step)).rng();
            let mut draw = || if chance(&mut rng, self.rate) { 0.0 } else { kept };
            mask.extend((0..run.len() * width).map(|_| draw()));
        }
        x * Tensor::from_vec(mask, x.shape(), x.device())?.to_dtype(x.dtype())?
    }
}

impl Adapter {
    /// Returns the addition to the residual stream `u` `(b, n, d)` of a block. In a pack, `groups` assigns samples to
    /// members.
    pub(super) fn forward(
        &self,
        u: &Tensor,
        block: usize,
        groups: Option<&SampleGroups>,
        dropout: Option<&Dropout>,
    ) -> Result<Tensor> {
        let one = SampleGroups::one(u.dim(0)?);
        let groups = groups.unwrap_or(&one);
        let linear = |x: &Tensor, weight: &Tensor, bias: &Tensor| {
            ops::grouped_linear(x, weight, Some(bias), groups)
        };
        let hidden = ops::relu(&linear(u, &self.down_weight, &self.down_bias)?)?;
        let hidden = match dropout.filter(|dropout| dropout.rate > 0.0) {
            Some(dropout) => dropout.apply(&hidden, block, groups)?,
            None => hidden,
        };
        linear(&hidden, &self.up_weight, &self.up_bias)?.affine(SCALE, 0.0)
    }
}

/// Shape of the adapters of a transformer, one per block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdapterShape {
    /// Number of blocks.
    pub blocks: usize,
    /// Width of a token, `d`.
    pub dim: usize,
    /// Width of the hidden layer, `r`.
    pub bottleneck: usize,
}

const DOWN_WEIGHT: &str = "down.weight";
const DOWN_BIAS: &str = "down.bias";
const UP_WEIGHT: &str = "up.weight";
const UP_BIAS: &str = "up.bias";

/// Returns the name of an adapter parameter. Names sort in the order of blocks.
fn name_of(block: usize, parameter: &str) -> String {
    format!("adapter.{block:02}.{parameter}")
}

impl AdapterShape {
    /// Returns names and shapes of all parameters.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let (dim, bottleneck) = (self.dim, self.bottleneck);
        let of_block = |block| {
            [
                (name_of(block, DOWN_BIAS), vec![bottleneck]),
                (name_of(block, DOWN_WEIGHT), vec![bottleneck, dim]),
                (name_of(block, UP_BIAS), vec![dim]),
                (name_of(block, UP_WEIGHT), vec![dim, bottleneck]),
            ]
        };
        (0..self.blocks).flat_map(of_block).collect()
    }

    /// Returns initial values: `W_dn` uniform in `±1/sqrt(d)`, all else zero.
    ///
    /// `W_dn` is Kaiming-uniform with a = sqrt 5. Every block has its own stream.
    pub fn initial_parameters(&self, key: StreamKey) -> ParameterSet {
        let bound = 1.0 / (self.dim.max(1) as f64).sqrt();
        let draw = |(name, shape): (String, Vec<usize>)| {
            let mut values = vec![0f32; shape.iter().product()];
            if name.ends_with(DOWN_WEIGHT) {
                let mut rng = key.named(&name).rng();
                values.fill_with(|| uniform(&mut rng, -bound, bound) as f32);
            }
            (name, Parameter { shape, values: values.into() })
        };
        self.shapes().into_iter().map(draw).collect()
    }
}

/// Returns the adapters among named tensors, for blocks 0, 1, ...; empty if there are none.
///
/// # Errors
/// Returns an error if one is incomplete.
pub fn adapters_of(
    named: impl Fn(&str) -> Option<std::result::Result<Tensor, ModelError>>,
) -> std::result::Result<Vec<Adapter>, ModelError> {
    let mut adapters = Vec::new();
    while let Some(down_weight) = named(&name_of(adapters.len(), DOWN_WEIGHT)) {
        let part = |parameter: &str| {
            let name = name_of(adapters.len(), parameter);
            let missing =
                || ModelError::Input { reason: format!("an adapter without `{name}` is none") };
            named(&name).unwrap_or_else(|| Err(missing()))
        };
        let (down_bias, up_weight) = (part(DOWN_BIAS)?, part(UP_WEIGHT)?);
        let (down_weight, up_bias) = (down_weight?, part(UP_BIAS)?);
        adapters.push(Adapter { down_weight, down_bias, up_weight, up_bias });
    }
    Ok(adapters)
}

/// Returns true if a parameter of this name belongs to an adapter.
pub fn is_adapter(name: &str) -> bool {
    name.starts_with("adapter.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ops::testing::{draw, finite_difference};
    use crate::numerics::streams::Domain;
    use candle_core::Device;

    fn adapter(t: &[Tensor]) -> Adapter {
        let [down_weight, down_bias, up_weight, up_bias] = [1, 2, 3, 4].map(|i| t[i].clone());
        Adapter { down_weight, down_bias, up_weight, up_bias }
    }

    fn dropout(rate: f64, step: u64) -> Dropout {
        let key = StreamKey::new(1, Domain::Dropout);
        Dropout { rate, places: vec![MaskPlace { key, step }] }
    }

    #[test]
    fn gradients_are_finite_differences_also_under_dropout() {
        // Inputs far from the kink of the rectifier.
        let bias = (draw("b", 3).sign().unwrap() * 9.0).unwrap();
        let t =
            [&draw("u", (2, 3, 4)), &draw("w", (3, 4)), &bias, &draw("v", (4, 3)), &draw("c", 4)];
        finite_difference(&t, |t| adapter(t).forward(&t[0], 0, None, None));
        let dropout = dropout(0.5, 3);
        finite_difference(&t, |t| adapter(t).forward(&t[0], 0, None, Some(&dropout)));
    }

    #[test]
    fn masks_differ_by_step_and_block_and_keep_the_mean() -> Result<()> {
        let ones = Tensor::ones((40, 50), candle_core::DType::F32, &Device::Cpu)?;
        let mask = |step, block| {
            let dropped = dropout(0.1, step).apply(&ones, block, &SampleGroups::one(40))?;
            dropped.flatten_all()?.to_vec1::<f32>()
        };
        let base = mask(0, 0)?;
        assert_eq!(base, mask(0, 0)?);
        assert!(base != mask(1, 0)? && base != mask(0, 1)?);
        let mean = base.iter().sum::<f32>() / base.len() as f32;
        assert!((mean - 1.0).abs() < 0.03, "{mean}");
        assert!(base.iter().all(|v| *v == 0.0 || (*v - 1.0 / 0.9).abs() < 1e-6));
        assert!(dropout(0.1, 0).apply(&ones, 0, &SampleGroups::new([20, 20])).is_err());
        Ok(())
    }

    #[test]
    fn the_parameters_are_the_cards() -> std::result::Result<(), ModelError> {
        let shape = AdapterShape { blocks: 12, dim: 768, bottleneck: 64 };
        let count = |shape: &AdapterShape| -> usize {
            shape.shapes().iter().map(|(_, s)| s.iter().product::<usize>()).sum()
        };
        assert_eq!(count(&shape), 1_189_632);
        let small = AdapterShape { blocks: 2, dim: 16, bottleneck: 4 };
        let set = small.initial_parameters(StreamKey::new(1, Domain::Init));
        let named = |set: &ParameterSet, name: &str| {
            set.get(name).map(|parameter| parameter.tensor(&Device::Cpu))
        };
        let adapters = adapters_of(|name| named(&set, name))?;
        assert_eq!(adapters.len(), 2);
        let added = adapters[1].forward(&draw("u", (1, 2, 16)), 1, None, None)?;
        assert!(added.flatten_all()?.to_vec1::<f32>()?.iter().all(|v| *v == 0.0));
        let down = adapters[0].down_weight.flatten_all()?.to_vec1::<f32>()?;
        assert!(down.iter().all(|v| v.abs() <= 0.25) && down.iter().any(|v| v.abs() > 0.2));
        let part = set.filter(|name| !name.ends_with("01.up.bias"));
        let error = adapters_of(|name| named(&part, name)).unwrap_err().to_string();
        assert!(error.contains("adapter.01.up.bias"), "{error}");
        Ok(())
    }
}
