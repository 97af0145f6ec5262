//! Attention half of a block that trains: `x + W_o attention(W_qkv norm(x) + b_qkv) + b_o`.

use parking_lot::Mutex;

use candle_core::{Result, Shape, Tensor};

use super::super::affine::Affine;
use super::super::attention::{geometry, members_of};
use super::super::attention_kernel::{Geometry, PrefixValues};
use super::super::frozen::{Attended, Pieces};
use super::super::groups::SampleGroups;
use super::super::storage::{lent, served};
use super::half::{self, HalfGradients, HalfKernel};
use super::layers::{AdaptedLinear, LentLinear, LentNorm, LinearGradients, LinearResult, is_here};
use crate::wide::add_rows;

/// Computes the attention of a block with its residual, from `x` `(b, n, d)` to `(b, queries, d)`.
///
/// It equals [`frozen_attention`](super::super::frozen_attention), but norm, layers, pairs and prefix may train.
/// Returns `None` if the kernels do not support an operand, or a pair does not fit its layer. The single operations
/// then compute the same, or report the error.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn trained_attention(
    x: &Tensor,
    norm: &Affine,
    eps: f64,
    [pack, project]: [AdaptedLinear; 2],
    attended: Attended<'_>,
    groups: Option<&SampleGroups>,
) -> Result<Option<Tensor>> {
    let Attended { heads, prefix, queries, members } = attended;
    let (batch, tokens, width) = x.dims3()?;
    let pack_size = groups.map_or(1, SampleGroups::members);
    let extents = [pack.extents(pack_size), project.extents(pack_size)];
    let fits = extents == [Some((3 * width, width)), Some((width, width))]
        && norm.weight.dims() == [width]
        && pack.layer.precision == project.layer.precision;
    let prefixed: Vec<&Tensor> =
        prefix.iter().flat_map(|(keys, values)| [*keys, *values]).collect();
    let empty = prefixed.iter().any(|of| of.elem_count() == 0);
    if !fits || !is_here(norm) || !served(&[x]) || !served(&prefixed) || empty {
        return Ok(None);
    }
    let (members, precision) = (members_of(batch, prefix, members), pack.layer.precision);
    let shape = Shape::from((batch, tokens, 3 * width));
    let geometry = Geometry { precision, ..geometry(&shape, heads, prefix, queries, &members)? };
    let prefix = prefixed.into_iter().map(Tensor::contiguous).collect::<Result<Vec<_>>>()?;
    let kernel = TrainedAttention {
        norm: norm.clone(),
        eps,
        layers: [pack, project],
        prefix,
        geometry,
        pieces: Pieces::of(batch, groups, precision)?,
        kept: Mutex::default(),
    };
    half::apply(x, kernel).map(Some)
}

struct TrainedAttention {
    norm: Affine,
    eps: f64,
    layers: [AdaptedLinear; 2],
    /// Prefix keys and values; empty without a prefix.
    prefix: Vec<Tensor>,
    geometry: Geometry,
    pieces: Pieces,
    kept: Mutex<AttentionValues>,
}

/// Values that are kept for a backward pass.
#[derive(Default)]
struct AttentionValues {
    packed: LinearResult,
    probabilities: Vec<f32>,
    /// Input of the projection, if its layer trains.
    mixed: Vec<f32>,
    low: Vec<Vec<f32>>,
}

impl TrainedAttention {
    /// Calls `work` with the values of the prefix.
    fn with_prefix<R>(&self, work: impl FnOnce(PrefixValues<'_>) -> Result<R>) -> Result<R> {
        match &self.prefix[..] {
            [keys, values] => {
                let (keys, values) = (lent(keys)?, lent(values)?);
                work(PrefixValues { keys: &keys, values: &values })
            }
            _ => work(PrefixValues::default()),
        }
    }
}

impl HalfKernel for TrainedAttention {
    const NAME: &'static str = "trained-attention";

    fn tensors(&self) -> Vec<&Tensor> {
        let layers = self.layers.iter().flat_map(AdaptedLinear::tensors);
        [&self.norm.weight, &self.norm.bias].into_iter().chain(layers).chain(&self.prefix).collect()
    }

    fn forward(&self, x: &[f32], tracked: bool) -> Result<(Vec<f32>, Shape)> {
        let Geometry { batch, tokens, queries, width, .. } = self.geometry;
        let norm = LentNorm::new(&self.norm, self.eps)?;
        let [pack, project] =
            [LentLinear::new(&self.layers[0])?, LentLinear::new(&self.layers[1])?];
        let packed = pack.forward(&norm.forward(x), &self.pieces, tokens);
        let (mixed, probabilities) =
            self.with_prefix(|prefix| Ok(self.geometry.forward(&packed.y, prefix, tracked)))?;
        let LinearResult { mut y, low } = project.forward(&mixed, &self.pieces, queries);
        if tracked {
            let mixed = if project.needs_input() { mixed } else { Vec::new() };
            *self.kept.lock() = AttentionValues { packed, probabilities, mixed, low };
        }
        let asking = y.chunks_exact_mut(queries * width).zip(x.chunks_exact(tokens * width));
        for (y, x) in asking {
            add_rows(y, &x[..queries * width]);
        }
        Ok((y, Shape::from((batch, queries, width))))
    }

    fn backward(&self, x: &[f32], g: &[f32], want_x: bool) -> Result<HalfGradients> {
        let Geometry { tokens, queries, width, .. } = self.geometry;
        let norm = LentNorm::new(&self.norm, self.eps)?;
        let [pack, project] =
            [LentLinear::new(&self.layers[0])?, LentLinear::new(&self.layers[1])?];
        let want_normed = want_x || norm.trains();
        let want_packed = want_normed || self.layers[0].trains();
        let want_prefix = self.prefix.iter().any(Tensor::track_op);
        let AttentionValues { packed, probabilities, mixed, low } = &*self.kept.lock();
        let through = (&self.pieces, queries);
        let want_mixed = want_packed || want_prefix;
        let (by_mixed, of_project) = project.backward((mixed, low), g, through, want_mixed);
        let (mut by_prefix, mut by_packed) = ([None, None], None);
        if let Some(by_mixed) = by_mixed {
            let found = self.with_prefix(|prefix| {
                let want = (want_packed, want_prefix);
                let packed = &packed.y;
                Ok(self.geometry.backward(packed, prefix, probabilities, &by_mixed, want.0, want.1))
            })?;
            by_packed = found.packed;
            by_prefix = found.prefix.map_or([None, None], |found| found.map(Some));
        }
        let (mut by_normed, mut of_pack) = (None, LinearGradients::none(&self.layers[0]));
        if let Some(by_packed) = by_packed {
            let normed = if pack.needs_input() { norm.forward(x) } else { Vec::new() };
            let through = (&self.pieces, tokens);
            (by_normed, of_pack) =
                pack.backward((&normed, &packed.low), &by_packed, through, want_normed);
        }
        let (mut by_x, of_norm) = norm.backward(x, by_normed, want_x);
        if let Some(by_x) = &mut by_x {
            let asking = by_x.chunks_exact_mut(tokens * width).zip(g.chunks_exact(queries * width));
            for (by_x, g) in asking {
                add_rows(&mut by_x[..queries * width], g);
            }
        }
        let all = of_norm.into_iter().chain(of_pack.into_values()).chain(of_project.into_values());
        Ok(HalfGradients { x: by_x, others: all.chain(by_prefix).collect() })
    }
}
