//! The first half: `x + W_o attention(W_qkv norm(x) + b_qkv) + b_o`.

use parking_lot::Mutex;

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor};

use super::super::affine::Affine;
use super::super::attention::{geometry, members_of};
use super::super::attention_kernel::{Geometry, PrefixValues};
use super::super::bundle::{Bundle, BundleGradients, no_value};
use super::super::frozen::{Attended, Pieces};
use super::super::groups::SampleGroups;
use super::super::storage::{lent, served, tensor_like, values};
use super::layers::{
    AdaptedLinear, LentLinear, LentNorm, LinearGradients, LinearResult, as_tensors, is_here,
};
use crate::wide::add_rows;

/// Computes the attention of a block with its residual: `x` `(b, n, d)` to `(b, queries, d)`.
///
/// It is that of [`frozen_attention`](super::super::frozen_attention), but norm and layers may train, and so may pairs
/// and the prefix. Returns `None` where
/// the kernels do not serve an operand, or a pair does not fit its layer: the ops compute the same there, or say what is
/// wrong.
///
/// # Errors
/// When the shapes do not fit.
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
    let mut op = TrainedAttention {
        norm: norm.clone(),
        eps,
        layers: [pack, project],
        prefix,
        geometry,
        pieces: Pieces::of(batch, groups, precision)?,
        tracked: x.track_op(),
        gradients: BundleGradients::default(),
        kept: Mutex::default(),
    };
    let x = x.contiguous()?;
    match Bundle::of(&op.tensors())? {
        None => x.apply_op1(op).map(Some),
        Some(bundle) => {
            op.tracked = true;
            op.gradients = bundle.gradients;
            x.apply_op2(&bundle.operand, op).map(Some)
        }
    }
}

struct TrainedAttention {
    norm: Affine,
    eps: f64,
    layers: [AdaptedLinear; 2],
    /// Keys and values; empty without a prefix.
    prefix: Vec<Tensor>,
    geometry: Geometry,
    pieces: Pieces,
    /// True if a backward pass may follow.
    tracked: bool,
    gradients: BundleGradients,
    kept: Mutex<AttentionValues>,
}

/// Values that a backward pass needs.
#[derive(Default)]
struct AttentionValues {
    packed: LinearResult,
    probabilities: Vec<f32>,
    /// Input of the projection, where its layer trains.
    mixed: Vec<f32>,
    low: Vec<Vec<f32>>,
}

impl TrainedAttention {
    /// Tensors that may get gradients, in the order in which the backward pass gives them.
    fn tensors(&self) -> Vec<&Tensor> {
        let layers = self.layers.iter().flat_map(AdaptedLinear::tensors);
        [&self.norm.weight, &self.norm.bias].into_iter().chain(layers).chain(&self.prefix).collect()
    }

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

    fn forward(&self, x: &[f32]) -> Result<(CpuStorage, Shape)> {
        let Geometry { batch, tokens, queries, width, .. } = self.geometry;
        let norm = LentNorm::new(&self.norm, self.eps)?;
        let [pack, project] =
            [LentLinear::new(&self.layers[0])?, LentLinear::new(&self.layers[1])?];
        let packed = pack.forward(&norm.forward(x), &self.pieces, tokens);
        let (mixed, probabilities) =
            self.with_prefix(|prefix| Ok(self.geometry.forward(&packed.y, prefix, self.tracked)))?;
        let LinearResult { mut y, low } = project.forward(&mixed, &self.pieces, queries);
        if self.tracked {
            let mixed = if project.needs_input() { mixed } else { Vec::new() };
            *self.kept.lock() = AttentionValues { packed, probabilities, mixed, low };
        }
        let asking = y.chunks_exact_mut(queries * width).zip(x.chunks_exact(tokens * width));
        for (y, x) in asking {
            add_rows(y, &x[..queries * width]);
        }
        Ok((CpuStorage::F32(y), Shape::from((batch, queries, width))))
    }

    /// Returns the gradient of `x`, where it is wanted, and hands over those of all other tensors.
    fn backward(&self, x: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let Geometry { tokens, queries, width, .. } = self.geometry;
        let (want_x, x_tensor, g) = (x.track_op(), x, g.contiguous()?);
        let (x, g) = (&*lent(x)?, &*lent(&g)?);
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
        let mut of_norm = [None, None];
        let mut by_x = None;
        if let Some(by_normed) = by_normed {
            of_norm = norm.gradients(x, &by_normed);
            by_x = want_x.then(|| norm.by_x(x, &by_normed));
        }
        if let Some(by_x) = &mut by_x {
            let asking = by_x.chunks_exact_mut(tokens * width).zip(g.chunks_exact(queries * width));
            for (by_x, g) in asking {
                add_rows(&mut by_x[..queries * width], g);
            }
        }
        let all = of_norm.into_iter().chain(of_pack.into_values()).chain(of_project.into_values());
        self.gradients.put(as_tensors(self.tensors(), all.chain(by_prefix))?);
        by_x.map(|values| tensor_like(values, x_tensor)).transpose()
    }
}

impl CustomOp1 for TrainedAttention {
    fn name(&self) -> &'static str {
        "adapted-attention"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.forward(values(x, layout)?)
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        self.backward(x, g)
    }
}

impl CustomOp2 for TrainedAttention {
    fn name(&self) -> &'static str {
        "trained-attention"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.forward(values(x, layout)?)
    }

    fn bwd(
        &self,
        x: &Tensor,
        _bundle: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((self.backward(x, g)?, Some(no_value()?)))
    }
}
