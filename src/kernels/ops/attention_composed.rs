//! Attention composed of matrix products and tensor operations, for any device and type.
//!
//! Softmax is in `f32` inside, products and scores are in the type of the input. The backward pass computes
//! the probabilities again from the packed input: one more product, and nothing is kept.
//! With `P` the probabilities and `dO` the gradient of the output: `dV = P^T dO`,
//! `dP = dO V^T`, `dS = P (dP - rowsum(dP P)) / sqrt(c)`, `dQ = dS K`, `dK = dS^T Q`.
//!
//! On a GPU, our own kernels compute everything but the products ([`gpu`]). There keys and values are padded with zeros
//! to a length at which rows are aligned; the probabilities of the padding are zero.

use candle_core::{D, Result, Tensor, bail};

use super::attention_kernel::Geometry;
use super::gpu::{self, GpuHeads};
use super::stock::{self, exp, product, sum_of_rows};
use super::storage::wide_type;
use super::with_gradient::{with_gradient, with_gradients};

/// Computes attention of `geometry` on `packed` `(b, n, 3 d)`. `prefix` is as [`attention`](super::attention()) takes
/// it.
pub(super) fn composed(
    packed: &Tensor,
    prefix: Option<(&Tensor, &Tensor)>,
    geometry: Geometry,
) -> Result<Tensor> {
    let operands = Operands::new(packed, prefix, geometry);
    let value = operands.value()?;
    let Some((keys, values)) = prefix else {
        let gradient = move |g: &Tensor| {
            let [by_packed, ..] = operands.gradients(g, [true, false, false])?;
            Ok(by_packed)
        };
        return with_gradient(packed, value, gradient);
    };
    let want = [packed, keys, values].map(Tensor::track_op);
    with_gradients([packed, keys, values], value, move |g| operands.gradients(g, want))
}

/// Operands of one call, without a graph.
pub(super) struct Operands {
    packed: Tensor,
    prefix: Option<(Tensor, Tensor)>,
    geometry: Geometry,
}

/// Contiguous queries `(b, h, q, c)`, keys and values `(b, h, L + n, c)`.
///
/// On a GPU, keys and values are padded with zeros.
struct AttentionHeads {
    q: Tensor,
    k: Tensor,
    v: Tensor,
}

impl Operands {
    /// Detaches the operands of a call.
    pub fn new(
        packed: &Tensor,
        prefix: Option<(&Tensor, &Tensor)>,
        geometry: Geometry,
    ) -> Operands {
        let prefix = prefix.map(|(keys, values)| (keys.detach(), values.detach()));
        Operands { packed: packed.detach(), prefix, geometry }
    }

    /// Returns the result, `(b, queries, d)`.
    pub fn value(&self) -> Result<Tensor> {
        let heads = self.heads()?;
        self.merge(&product(&self.probabilities(&heads)?, &heads.v)?)
    }

    /// Returns true if our GPU kernels compute everything but the products.
    fn on_gpu(&self) -> bool {
        gpu::serves(&[&self.packed])
    }

    fn shape(&self) -> GpuHeads {
        let Geometry { batch, tokens, width, heads, prefix, .. } = self.geometry;
        GpuHeads { batch, tokens, width, heads, ahead: prefix }
    }

    fn scale(&self) -> f64 {
        let Geometry { width, heads, .. } = self.geometry;
        1.0 / ((width / heads) as f64).sqrt()
    }

    /// Returns the probabilities `(b, h, q, L + n)` in the type of the queries.
    ///
    /// On a GPU they are padded with zeros.
    fn probabilities(&self, AttentionHeads { q, k, .. }: &AttentionHeads) -> Result<Tensor> {
        if self.on_gpu() {
            return gpu::softmax(&product(q, &k.t()?)?, self.shape().attended(), self.scale());
        }
        let dtype = q.dtype();
        let scores = product(q, &k.t()?.contiguous()?)?.to_dtype(wide_type(dtype))?;
        let scores = (scores * self.scale())?;
        let shifted = exp(&scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?)?;
        shifted.broadcast_div(&sum_of_rows(&shifted)?)?.to_dtype(dtype)
    }

    /// Returns the gradient of the scores, from the probabilities and their gradient.
    fn by_scores(&self, probabilities: &Tensor, slope: &Tensor) -> Result<Tensor> {
        if self.on_gpu() {
            return gpu::softmax_gradient(probabilities, slope, self.scale());
        }
        let dtype = probabilities.dtype();
        let (slope, wide) = (slope.to_dtype(wide_type(dtype))?, wide_type(dtype));
        let probabilities = probabilities.to_dtype(wide)?;
        let mean = sum_of_rows(&(&slope * &probabilities)?)?;
        ((slope.broadcast_sub(&mean)? * probabilities)? * self.scale())?.to_dtype(dtype)
    }

    /// Splits `(b, m, d)` into heads `(b, h, m, c)`.
    fn split(&self, t: &Tensor) -> Result<Tensor> {
        let (batch, length, width) = t.dims3()?;
        if self.on_gpu() {
            let of = GpuHeads { tokens: length, ..self.shape() };
            return gpu::split(t, &of, (0, length, length), None);
        }
        let heads = self.geometry.heads;
        t.contiguous()?
            .reshape((batch, length, heads, width / heads))?
            .transpose(1, 2)?
            .contiguous()
    }

    /// Reverses [`split`](Operands::split).
    fn merge(&self, t: &Tensor) -> Result<Tensor> {
        if self.on_gpu() {
            return gpu::merge(t, &self.shape());
        }
        let (batch, _, length, _) = t.dims4()?;
        t.transpose(1, 2)?.contiguous()?.reshape((batch, length, self.geometry.width))
    }

    fn heads(&self) -> Result<AttentionHeads> {
        if self.on_gpu() {
            return self.gpu_heads();
        }
        let Geometry { batch, width, queries, ref members, .. } = self.geometry;
        let part = |i: usize| self.packed.narrow(2, i * width, width);
        let q = self.split(&part(0)?.narrow(1, 0, queries)?)?;
        let (mut k, mut v) = (self.split(&part(1)?)?, self.split(&part(2)?)?);
        if let Some((keys, values)) = &self.prefix {
            let before = |own: &Tensor, prefix: &Tensor| -> Result<Tensor> {
                let prefix = prefix.to_dtype(own.dtype())?;
                let prefix = match members.members() {
                    1 => prefix.broadcast_as((batch, prefix.dim(D::Minus2)?, width))?,
                    _ => prefix.contiguous()?.index_select(&members.index(prefix.device())?, 0)?,
                };
                Tensor::cat(&[self.split(&prefix)?, own.clone()], 2)?.contiguous()
            };
            (k, v) = (before(&k, keys)?, before(&v, values)?);
        }
        Ok(AttentionHeads { q, k, v })
    }

    fn gpu_heads(&self) -> Result<AttentionHeads> {
        let (packed, of) = (&self.packed, self.shape());
        let Geometry { width, queries, tokens, ref members, .. } = self.geometry;
        let members = self.prefix.as_ref().map(|_| members.index(packed.device())).transpose()?;
        let attended = |first: usize, prefix: Option<&Tensor>| -> Result<Tensor> {
            let prefix = prefix.map(|prefix| prefix.to_dtype(packed.dtype())).transpose()?;
            let prefix = prefix.as_ref().zip(members.as_ref());
            gpu::split(packed, &of, (first, tokens, of.padded()), prefix)
        };
        Ok(AttentionHeads {
            q: gpu::split(packed, &of, (0, queries, queries), None)?,
            k: attended(width, self.prefix.as_ref().map(|(keys, _)| keys))?,
            v: attended(2 * width, self.prefix.as_ref().map(|(_, values)| values))?,
        })
    }

    /// Returns the gradients of packed rows and prefix from that of the result, each only if it is wanted.
    pub fn gradients(&self, g: &Tensor, want: [bool; 3]) -> Result<[Option<Tensor>; 3]> {
        let heads = self.heads()?;
        let probabilities = self.probabilities(&heads)?;
        let g = self.split(g)?;
        let turned = |t: &Tensor| if self.on_gpu() { t.t() } else { t.t()?.contiguous() };
        let by_v = product(&turned(&probabilities)?, &g)?;
        let scores = self.by_scores(&probabilities, &product(&g, &turned(&heads.v)?)?)?;
        let by_q = product(&scores, &heads.k)?;
        let by_k = product(&turned(&scores)?, &heads.q)?;
        Ok([
            want[0].then(|| self.of_packed(&by_q, &by_k, &by_v)).transpose()?,
            want[1].then(|| self.of_prefix(&by_k)).transpose()?,
            want[2].then(|| self.of_prefix(&by_v)).transpose()?,
        ])
    }

    /// Joins gradients in columns `[queries | keys | values]`. Tokens without queries have a zero gradient there.
    fn of_packed(&self, by_q: &Tensor, by_k: &Tensor, by_v: &Tensor) -> Result<Tensor> {
        if self.on_gpu() {
            return gpu::pack([by_q, by_k, by_v], &self.shape());
        }
        let Geometry { tokens, queries, prefix, .. } = self.geometry;
        let by_q = self.merge(by_q)?.pad_with_zeros(1, 0, tokens - queries)?;
        let own = |t: &Tensor| self.merge(&t.narrow(2, prefix, tokens)?);
        Tensor::cat(&[by_q.contiguous()?, own(by_k)?, own(by_v)?], 2)?.contiguous()
    }

    /// Returns the gradient rows of the prefix, summed over the samples of each member, in its shape.
    fn of_prefix(&self, by: &Tensor) -> Result<Tensor> {
        let Some((keys, _)) = &self.prefix else { bail!("attention: no prefix to differentiate") };
        let Geometry { prefix, ref members, .. } = self.geometry;
        if self.on_gpu() {
            let sum = gpu::prefix_gradient(by, &members.starts(by.device())?, &self.shape())?;
            return sum.to_dtype(keys.dtype())?.reshape(keys.shape());
        }
        let by = self.merge(&by.narrow(2, 0, prefix)?)?.to_dtype(keys.dtype())?;
        match members.members() {
            1 => stock::sum(&by, 0)?.reshape(keys.shape()),
            // Summed by index, not by a matrix product, so that a member's NaN does not reach the others.
            _ => keys.zeros_like()?.index_add(&members.index(by.device())?, &by, 0),
        }
    }
}
