//! [`attention`](super::attention()) from candle's tensor operations, for any device and type.
//!
//! Scores and softmax are in `f32`, products in the type of the input. The backward pass computes
//! the probabilities again from the packed input: one more product, and nothing is kept.
//! With `P` the probabilities and `dO` the gradient of the output: `dV = P^T dO`,
//! `dP = dO V^T`, `dS = P (dP - rowsum(dP P))`, `dQ = dS K / sqrt(c)`, `dK = dS^T Q / sqrt(c)`.

use candle_core::{D, Result, Tensor, bail};

use super::attention_kernel::Geometry;
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
    let detached = prefix.map(|(keys, values)| (keys.detach(), values.detach()));
    let operands = Operands { packed: packed.detach(), prefix: detached, geometry };
    let heads = operands.heads()?;
    let value = operands.merge(&product(&heads.probabilities()?, &heads.v)?)?;
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

struct Operands {
    packed: Tensor,
    prefix: Option<(Tensor, Tensor)>,
    geometry: Geometry,
}

/// Queries `(b, h, q, c)`, keys and values `(b, h, L + n, c)`, contiguous.
struct Heads {
    q: Tensor,
    k: Tensor,
    v: Tensor,
}

impl Heads {
    fn scale(&self) -> Result<f64> {
        Ok(1.0 / (self.q.dim(D::Minus1)? as f64).sqrt())
    }

    /// Returns the probabilities in the type of the queries, `(b, h, q, L + n)`.
    fn probabilities(&self) -> Result<Tensor> {
        let dtype = self.q.dtype();
        let scores = product(&self.q, &self.k.t()?.contiguous()?)?.to_dtype(wide_type(dtype))?;
        let scores = (scores * self.scale()?)?;
        let shifted = exp(&scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?)?;
        shifted.broadcast_div(&sum_of_rows(&shifted)?)?.to_dtype(dtype)
    }
}

impl Operands {
    /// `(b, m, d)` to `(b, h, m, c)`.
    fn split(&self, t: &Tensor) -> Result<Tensor> {
        let (batch, length, width) = t.dims3()?;
        let heads = self.geometry.heads;
        t.contiguous()?
            .reshape((batch, length, heads, width / heads))?
            .transpose(1, 2)?
            .contiguous()
    }

    /// Reverses [`split`](Operands::split).
    fn merge(&self, t: &Tensor) -> Result<Tensor> {
        let (batch, _, length, _) = t.dims4()?;
        t.transpose(1, 2)?.contiguous()?.reshape((batch, length, self.geometry.width))
    }

    fn heads(&self) -> Result<Heads> {
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
        Ok(Heads { q, k, v })
    }

    fn gradients(&self, g: &Tensor, want: [bool; 3]) -> Result<[Option<Tensor>; 3]> {
        let heads = self.heads()?;
        let dtype = heads.q.dtype();
        let wide = wide_type(dtype);
        let probabilities = heads.probabilities()?;
        let g = self.split(g)?;
        let by_v = product(&probabilities.t()?.contiguous()?, &g)?;
        let slope = product(&g, &heads.v.t()?.contiguous()?)?.to_dtype(wide)?;
        let probabilities = probabilities.to_dtype(wide)?;
        let mean = sum_of_rows(&(&slope * &probabilities)?)?;
        let scores = ((slope.broadcast_sub(&mean)? * probabilities)? * heads.scale()?)?;
        let scores = scores.to_dtype(dtype)?;
        let by_q = product(&scores, &heads.k)?;
        let by_k = product(&scores.t()?.contiguous()?, &heads.q)?;
        Ok([
            want[0].then(|| self.of_packed(&by_q, &by_k, &by_v)).transpose()?,
            want[1].then(|| self.of_prefix(&by_k)).transpose()?,
            want[2].then(|| self.of_prefix(&by_v)).transpose()?,
        ])
    }

    /// Back to columns `[queries | keys | values]`; tokens that do not ask have no query gradient.
    fn of_packed(&self, by_q: &Tensor, by_k: &Tensor, by_v: &Tensor) -> Result<Tensor> {
        let Geometry { tokens, queries, prefix, .. } = self.geometry;
        let by_q = self.merge(by_q)?.pad_with_zeros(1, 0, tokens - queries)?;
        let own = |t: &Tensor| self.merge(&t.narrow(2, prefix, tokens)?);
        Tensor::cat(&[by_q.contiguous()?, own(by_k)?, own(by_v)?], 2)?.contiguous()
    }

    /// Returns the rows in front, summed over the samples of each member, in the shape of the prefix.
    fn of_prefix(&self, by: &Tensor) -> Result<Tensor> {
        let Some((keys, _)) = &self.prefix else { bail!("attention: no prefix to differentiate") };
        let Geometry { prefix, ref members, .. } = self.geometry;
        let by = self.merge(&by.narrow(2, 0, prefix)?)?.to_dtype(keys.dtype())?;
        match members.members() {
            1 => stock::sum(&by, 0)?.reshape(keys.shape()),
            // By index, not by a product: one member's NaN must not reach the others.
            _ => keys.zeros_like()?.index_add(&members.index(by.device())?, &by, 0),
        }
    }
}
