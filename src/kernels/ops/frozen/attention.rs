//! Attention half of a frozen block: `x + W_o attention(W_qkv norm(x) + b_qkv) + b_o`.

use parking_lot::Mutex;

use candle_core::{CpuStorage, CustomOp1, CustomOp3, Layout, Result, Shape, Tensor};

use super::super::affine::Affine;
use super::super::attention::{geometry, members_of};
use super::super::attention_kernel::{Geometry, Gradients, PrefixValues};
use super::super::groups::SampleGroups;
use super::super::storage::{lent, served, tensor_like, values};
use super::composed::{self, composes};
use super::layers::{FrozenLinear, FrozenNorm, Pieces, are_served, fit, part};
use crate::wide::add_rows;

/// Heads, prefix and queries of a block's attention.
#[derive(Clone, Copy)]
pub struct Attended<'a> {
    /// Number of heads, each a slice of the width.
    pub heads: usize,
    /// Prefix keys and values, both `(L, d)` for all samples, `(members, L, d)` or `(b, L, d)`.
    pub prefix: Option<(&'a Tensor, &'a Tensor)>,
    /// Number of first tokens per sample that have queries and an output.
    pub queries: usize,
    /// Samples of each prefix; `None` if all samples share one or each has its own.
    pub members: Option<&'a SampleGroups>,
}

/// Computes a frozen block's attention with its residual, from `x` `(b, n, d)` to `(b, queries, d)`.
///
/// `layers` are the packed one, from `d` to queries, keys and values, and the projection. In a pack, `groups` assigns
/// samples to members. Returns `None` if a layer is not frozen or has another type than `x`; the operations of
/// [`Affine`] and [`attention`](super::super::attention()) then compute the same.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn frozen_attention(
    x: &Tensor,
    norm: &Affine,
    eps: f64,
    layers: [&Affine; 2],
    attended: Attended<'_>,
    groups: Option<&SampleGroups>,
) -> Result<Option<Tensor>> {
    let Attended { heads, prefix, queries, members } = attended;
    let mut operands = vec![x];
    operands.extend(prefix.iter().flat_map(|(keys, values)| [*keys, *values]));
    let by_kernels = are_served(norm, layers) && served(&operands);
    if !by_kernels && (served(&[x]) || !composes(x, norm, layers)) {
        return Ok(None);
    }
    let (batch, tokens, width) = x.dims3()?;
    fit(width, norm, layers, (3 * width, width))?;
    let (members, precision) = (members_of(batch, prefix, members), layers[0].precision);
    let shape = Shape::from((batch, tokens, 3 * width));
    let geometry = Geometry { precision, ..geometry(&shape, heads, prefix, queries, &members)? };
    if !by_kernels {
        return composed::attention(x, norm, eps, layers, prefix, geometry).map(Some);
    }
    let op = FrozenAttention {
        norm: norm.clone(),
        eps,
        layers: layers.map(Affine::clone),
        geometry,
        pieces: Pieces::of(batch, groups, precision)?,
        tracked: operands.iter().any(|operand| operand.track_op()),
        kept: Mutex::default(),
    };
    let x = x.contiguous()?;
    match prefix {
        None => x.apply_op1(op).map(Some),
        Some((keys, values)) => {
            x.apply_op3(&keys.contiguous()?, &values.contiguous()?, op).map(Some)
        }
    }
}

struct FrozenAttention {
    norm: Affine,
    eps: f64,
    layers: [Affine; 2],
    geometry: Geometry,
    pieces: Pieces,
    /// True if a backward pass may follow.
    tracked: bool,
    kept: Mutex<AttentionBuffers>,
}

/// Buffers that are kept for a backward pass.
#[derive(Default)]
struct AttentionBuffers {
    packed: Vec<f32>,
    probabilities: Vec<f32>,
}

impl FrozenAttention {
    fn forward(&self, x: &[f32], prefix: PrefixValues<'_>) -> Result<(CpuStorage, Shape)> {
        let Geometry { batch, tokens, queries, width, .. } = self.geometry;
        let norm = FrozenNorm::new(&self.norm, self.eps)?;
        let [pack, project] =
            [FrozenLinear::new(&self.layers[0])?, FrozenLinear::new(&self.layers[1])?];
        let mut packed = Vec::with_capacity(batch * tokens * pack.outputs);
        let mut buffer = Vec::new();
        let through = pack.forth(&mut buffer);
        for rows in self.pieces.rows(tokens) {
            through.append(&mut packed, &norm.forward(part(x, &rows, width)));
        }
        let (mixed, probabilities) = self.geometry.forward(&packed, prefix, self.tracked);
        if self.tracked {
            let kept = AttentionBuffers { packed, probabilities };
            *self.kept.lock() = kept;
        }
        let mut y = Vec::with_capacity(batch * queries * width);
        let through = project.forth(&mut buffer);
        for rows in self.pieces.rows(queries) {
            through.append(&mut y, part(&mixed, &rows, width));
        }
        let asking = y.chunks_exact_mut(queries * width).zip(x.chunks_exact(tokens * width));
        for (y, x) in asking {
            add_rows(y, &x[..queries * width]);
        }
        Ok((CpuStorage::F32(y), Shape::from((batch, queries, width))))
    }

    /// Returns the gradients of `x` and of the prefix, each only if it is wanted.
    fn backward(
        &self,
        x: &[f32],
        prefix: PrefixValues<'_>,
        g: &[f32],
        (want_x, want_prefix): (bool, bool),
    ) -> Result<Gradients> {
        let Geometry { tokens, queries, width, .. } = self.geometry;
        let norm = FrozenNorm::new(&self.norm, self.eps)?;
        let [pack, project] =
            [FrozenLinear::new(&self.layers[0])?, FrozenLinear::new(&self.layers[1])?];
        let (mut by_mixed, mut buffer) = (Vec::with_capacity(g.len()), Vec::new());
        let through = project.back(&mut buffer);
        for rows in self.pieces.rows(queries) {
            through.append(&mut by_mixed, part(g, &rows, width));
        }
        let AttentionBuffers { packed, probabilities } = &*self.kept.lock();
        let found =
            self.geometry.backward(packed, prefix, probabilities, &by_mixed, want_x, want_prefix);
        let Some(by_packed) = found.packed else { return Ok(found) };
        let (mut by_x, mut by_normed) = (Vec::with_capacity(x.len()), Vec::new());
        let through = pack.back(&mut buffer);
        for rows in self.pieces.rows(tokens) {
            by_normed.clear();
            through.append(&mut by_normed, part(&by_packed, &rows, pack.outputs));
            by_x.extend_from_slice(&norm.backward(part(x, &rows, width), &by_normed));
        }
        let asking = by_x.chunks_exact_mut(tokens * width).zip(g.chunks_exact(queries * width));
        for (by_x, g) in asking {
            add_rows(&mut by_x[..queries * width], g);
        }
        Ok(Gradients { packed: Some(by_x), prefix: found.prefix })
    }
}

impl CustomOp1 for FrozenAttention {
    fn name(&self) -> &'static str {
        "frozen-attention"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.forward(values(x, layout)?, PrefixValues::default())
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let g = g.contiguous()?;
        let none = PrefixValues::default();
        let found = self.backward(&lent(x)?, none, &lent(&g)?, (true, false))?;
        found.packed.map(|data| tensor_like(data, x)).transpose()
    }
}

impl CustomOp3 for FrozenAttention {
    fn name(&self) -> &'static str {
        "frozen-attention-with-prefix"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        keys: &CpuStorage,
        keys_layout: &Layout,
        values_: &CpuStorage,
        values_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let prefix = PrefixValues::of((keys, keys_layout), (values_, values_layout))?;
        self.forward(values(x, layout)?, prefix)
    }

    fn bwd(
        &self,
        x: &Tensor,
        keys: &Tensor,
        values: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let g = g.contiguous()?;
        let mut found = {
            let (key_data, value_data) = (lent(keys)?, lent(values)?);
            let prefix = PrefixValues { keys: &key_data, values: &value_data };
            let wanted = (x.track_op(), keys.track_op() || values.track_op());
            self.backward(&lent(x)?, prefix, &lent(&g)?, wanted)?
        };
        let [by_keys, by_values] = found.of_prefix(keys, values)?;
        let by_x = found.packed.map(|data| tensor_like(data, x)).transpose()?;
        Ok((by_x, by_keys, by_values))
    }
}
