//! Multi-head attention on the packed output of a qkv layer, with optional prefix keys and values. Prefix tuning: Li
//! and Liang 2021; HGP's shared prompt.
//!
//! Per sample and head, with `c = d / heads`: `softmax(Q [P_k ; K]^T / sqrt(c)) [P_v ; V]`. Prefix rows are used
//! unchanged: without projection, position or queries. An all-zero prefix of length `l` is not neutral: it multiplies
//! the output by `Z / (Z + l)` with `Z` the sum of `exp(logits)`.
//!
//! The kernel reads and writes each head in place by strides (nothing is transposed or
//! concatenated) and keeps the probabilities for the backward pass only if there is one.

use parking_lot::Mutex;

use candle_core::{CpuStorage, CustomOp1, CustomOp3, D, Layout, Result, Shape, Tensor, bail};

use super::attention_composed::composed;
use super::attention_kernel::{Geometry, PrefixValues};
use super::groups::SampleGroups;
use super::matrix::Precision;
use super::storage::{lent, served, tensor_like, values};

/// Computes attention on `packed` `(b, n, 3 d)`, with columns `[queries | keys | values]`.
///
/// Each is `heads` slices of `d / heads`. `prefix` is `(keys, values)`, both `(L, d)` for all samples or `(b, L, d)`
/// per sample. Only the first `queries` tokens have queries (`n` for all; 1 for CLS alone). Returns `(b, queries,
/// d)`.
///
/// # Errors
/// Returns an error if shapes, heads or queries do not fit.
pub fn attention(
    packed: &Tensor,
    heads: usize,
    prefix: Option<(&Tensor, &Tensor)>,
    queries: usize,
) -> Result<Tensor> {
    attention_at(Precision::F32, packed, heads, prefix, queries)
}

/// Computes [`attention`] with matrix products of a given precision.
///
/// Without the kernels, the type of `packed` decides.
///
/// # Errors
/// Fails as [`attention`] does.
pub fn attention_at(
    precision: Precision,
    packed: &Tensor,
    heads: usize,
    prefix: Option<(&Tensor, &Tensor)>,
    queries: usize,
) -> Result<Tensor> {
    let members = members_of(packed.dim(0)?, prefix, None);
    grouped_attention_at(precision, packed, heads, prefix, queries, &members)
}

/// Returns the samples of each prefix.
///
/// Unless given, all samples share one prefix, or each has its own.
pub(super) fn members_of(
    batch: usize,
    prefix: Option<(&Tensor, &Tensor)>,
    groups: Option<&SampleGroups>,
) -> SampleGroups {
    match (groups, prefix) {
        (Some(members), _) => members.clone(),
        (None, Some((keys, _))) if keys.rank() == 3 => SampleGroups::each(batch),
        (None, _) => SampleGroups::one(batch),
    }
}

/// Computes [`attention`] for the members of a pack.
///
/// The prefix is `(members, L, d)`, or `(L, d)` for a pack of one.
///
/// # Errors
/// Fails as [`attention`] does.
pub fn grouped_attention(
    packed: &Tensor,
    heads: usize,
    prefix: Option<(&Tensor, &Tensor)>,
    queries: usize,
    members: &SampleGroups,
) -> Result<Tensor> {
    grouped_attention_at(Precision::F32, packed, heads, prefix, queries, members)
}

/// Computes [`grouped_attention`] with matrix products of a given precision, as [`attention_at`].
///
/// # Errors
/// Fails as [`attention`] does.
pub fn grouped_attention_at(
    precision: Precision,
    packed: &Tensor,
    heads: usize,
    prefix: Option<(&Tensor, &Tensor)>,
    queries: usize,
    members: &SampleGroups,
) -> Result<Tensor> {
    let geometry =
        Geometry { precision, ..geometry(packed.shape(), heads, prefix, queries, members)? };
    match prefix {
        None if served(&[packed]) => {
            packed.contiguous()?.apply_op1(AttentionOp::new(geometry, packed.track_op()))
        }
        Some((keys, values)) if served(&[packed, keys, values]) => {
            let tracked = packed.track_op() || keys.track_op() || values.track_op();
            let op = AttentionOp::new(geometry, tracked);
            packed.contiguous()?.apply_op3(&keys.contiguous()?, &values.contiguous()?, op)
        }
        _ => composed(packed, prefix, geometry),
    }
}

pub(super) fn geometry(
    packed: &Shape,
    heads: usize,
    prefix: Option<(&Tensor, &Tensor)>,
    queries: usize,
    members: &SampleGroups,
) -> Result<Geometry> {
    let (batch, tokens, packed_width) = packed.dims3()?;
    let width = packed_width / 3;
    if heads == 0
        || width == 0
        || packed_width % 3 != 0
        || width % heads != 0
        || !(1..=tokens).contains(&queries)
    {
        bail!("attention: {heads} heads and {queries} queries on packed {packed:?}");
    }
    members.fit("attention", batch)?;
    let prefix = match prefix {
        None => 0,
        Some((keys, values)) => {
            let fits = match *keys.dims() {
                [_, d] => d == width && members.members() == 1,
                [k, _, d] => k == members.members() && d == width,
                _ => false,
            };
            if !fits || keys.dims() != values.dims() {
                bail!(
                    "attention: prefix keys {:?} and values {:?} on packed {packed:?} of {} members",
                    keys.shape(),
                    values.shape(),
                    members.members()
                );
            }
            keys.dim(D::Minus2)?
        }
    };
    let (members, precision) = (members.clone(), Precision::F32);
    Ok(Geometry { batch, tokens, queries, width, heads, prefix, members, precision })
}

struct AttentionOp {
    geometry: Geometry,
    /// True if a backward pass may follow.
    tracked: bool,
    probabilities: Mutex<Vec<f32>>,
}

impl AttentionOp {
    fn new(geometry: Geometry, tracked: bool) -> AttentionOp {
        AttentionOp { geometry, tracked, probabilities: Mutex::new(Vec::new()) }
    }

    fn run(&self, packed: &[f32], prefix: PrefixValues<'_>) -> (CpuStorage, Shape) {
        let (output, kept) = self.geometry.forward(packed, prefix, self.tracked);
        *self.probabilities.lock() = kept;
        let Geometry { batch, queries, width, .. } = self.geometry;
        (CpuStorage::F32(output), Shape::from((batch, queries, width)))
    }
}

impl CustomOp1 for AttentionOp {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn cpu_fwd(&self, packed: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok(self.run(values(packed, layout)?, PrefixValues::default()))
    }

    fn bwd(&self, packed: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let kept = self.probabilities.lock();
        let (g, none) = (g.contiguous()?, PrefixValues::default());
        let gradients =
            self.geometry.backward(&lent(packed)?, none, &kept, &lent(&g)?, true, false);
        gradients.packed.map(|data| tensor_like(data, packed)).transpose()
    }
}

impl CustomOp3 for AttentionOp {
    fn name(&self) -> &'static str {
        "attention-with-prefix"
    }

    fn cpu_fwd(
        &self,
        packed: &CpuStorage,
        layout: &Layout,
        keys: &CpuStorage,
        keys_layout: &Layout,
        values_: &CpuStorage,
        values_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let prefix = PrefixValues::of((keys, keys_layout), (values_, values_layout))?;
        Ok(self.run(values(packed, layout)?, prefix))
    }

    fn bwd(
        &self,
        packed: &Tensor,
        keys: &Tensor,
        values: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let kept = self.probabilities.lock();
        let (want, want_prefix) = (packed.track_op(), keys.track_op() || values.track_op());
        let g = g.contiguous()?;
        let mut gradients = {
            let (key_data, value_data) = (lent(keys)?, lent(values)?);
            let prefix = PrefixValues { keys: &key_data, values: &value_data };
            self.geometry.backward(&lent(packed)?, prefix, &kept, &lent(&g)?, want, want_prefix)
        };
        let [by_keys, by_values] = gradients.of_prefix(keys, values)?;
        let by_packed = gradients.packed.map(|data| tensor_like(data, packed)).transpose()?;
        Ok((by_packed, by_keys, by_values))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::*;
    use candle_core::{DType, Device, Var};

    /// (b, n, 3d) with 2 samples, 5 tokens, width 8.
    fn packed() -> Tensor {
        (draw("packed", (2, 5, 24)) * 2.0).unwrap()
    }

    #[test]
    fn plain_attention_agrees_with_the_composition() {
        for queries in [5, 1, 3] {
            let op = |t: &[Tensor]| attention(&t[0], 2, None, queries);
            agrees_everywhere(&[&packed()], op);
            finite_difference(&[&packed()], op);
        }
    }

    #[test]
    fn a_prefix_agrees_with_the_composition_shared_and_per_sample() {
        let shapes: [Shape; 2] = [(3, 8).into(), (2, 3, 8).into()];
        for shape in shapes {
            for queries in [5, 1] {
                let inputs = [&packed(), &draw("keys", shape.clone()), &draw("v", shape.clone())];
                let op = |t: &[Tensor]| attention(&t[0], 2, Some((&t[1], &t[2])), queries);
                agrees_everywhere(&inputs, op);
                finite_difference(&inputs, op);
            }
        }
    }

    #[test]
    fn a_prefix_per_member_agrees_with_the_composition_and_with_the_members_alone() -> Result<()> {
        let (packed, members) = (draw("packs", (4, 5, 24)), SampleGroups::new([1, 0, 3]));
        let (keys, values) = (draw("keys", (3, 3, 8)), draw("v", (3, 3, 8)));
        for queries in [5, 1] {
            let inputs = [&packed, &keys, &values];
            let op =
                |t: &[Tensor]| grouped_attention(&t[0], 2, Some((&t[1], &t[2])), queries, &members);
            agrees_everywhere(&inputs, op);
            finite_difference(&inputs, op);

            let stacked = Var::from_tensor(&keys)?;
            let y = op(&[packed.clone(), stacked.as_tensor().clone(), values.clone()])?;
            let by_keys = y.sqr()?.backward()?.remove(&stacked).expect("a gradient");
            for (member, run) in members.runs().enumerate().filter(|(_, run)| !run.is_empty()) {
                let own = Var::from_tensor(&keys.get(member)?.copy()?)?;
                let prefix = Some((own.as_tensor(), &values.get(member)?));
                let packed = packed.narrow(0, run.start, run.len())?;
                let alone = attention(&packed, 2, prefix, queries)?;
                let by_own = alone.sqr()?.backward()?.remove(&own).expect("a gradient");
                assert_eq!(y.to_vec3::<f32>()?[run], alone.to_vec3::<f32>()?);
                assert_eq!(by_keys.get(member)?.to_vec2::<f32>()?, by_own.to_vec2::<f32>()?);
            }
        }
        Ok(())
    }

    #[test]
    fn frozen_operands_get_no_gradient() -> Result<()> {
        let (keys, values) = (draw("keys", (3, 8)), draw("values", (3, 8)));
        let trained = Var::from_tensor(&packed())?;
        let y = attention(&trained, 2, Some((&keys, &values)), 5)?;
        let grads = y.sqr()?.sum_all()?.backward()?;
        assert!(grads.get(&keys).is_none() && grads.get(&values).is_none());
        assert!(grads.get(&trained).is_some());

        let (frozen, trained) = (packed(), Var::from_tensor(&keys)?);
        let y = attention(&frozen, 2, Some((&trained, &values)), 5)?;
        let grads = y.sqr()?.sum_all()?.backward()?;
        assert!(grads.get(&frozen).is_none() && grads.get(&values).is_none());
        assert!(grads.get(&trained).is_some());

        assert!(!attention(&frozen, 2, Some((&keys, &values)), 5)?.track_op());
        Ok(())
    }

    /// hgp.md section 10.4: each head and query is shrunk by Z / (Z + l).
    #[test]
    fn a_zero_prefix_shrinks_the_output_by_z_over_z_plus_l() -> Result<()> {
        let (packed, length) = (packed(), 7);
        let zeros = Tensor::zeros((length, 8), DType::F32, &Device::Cpu)?;
        let plain = attention(&packed, 2, None, 5)?.to_vec3::<f32>()?;
        let shrunk = attention(&packed, 2, Some((&zeros, &zeros)), 5)?.to_vec3::<f32>()?;
        let rows = packed.to_vec3::<f32>()?;
        for (s, sample) in rows.iter().enumerate() {
            for (i, token) in sample.iter().enumerate() {
                for head in 0..2 {
                    let columns = head * 4..head * 4 + 4;
                    let q = &token[columns.clone()];
                    let logit = |other: &Vec<f32>| -> f32 {
                        let k = &other[8 + head * 4..8 + head * 4 + 4];
                        q.iter().zip(k).map(|(q, k)| q * k).sum::<f32>() / 2.0
                    };
                    let z: f32 = sample.iter().map(|other| logit(other).exp()).sum();
                    let factor = z / (z + length as f32);
                    for c in columns {
                        let expected = plain[s][i][c] * factor;
                        assert!((shrunk[s][i][c] - expected).abs() < 1e-6);
                    }
                }
            }
        }
        Ok(())
    }

    #[test]
    fn shapes_that_do_not_fit_are_errors() {
        assert!(attention(&packed(), 3, None, 5).is_err(), "8 columns in 3 heads");
        assert!(attention(&packed(), 2, None, 6).is_err(), "more queries than tokens");
        let (keys, values) = (draw("keys", (3, 8)), draw("values", (2, 8)));
        assert!(attention(&packed(), 2, Some((&keys, &values)), 5).is_err());
    }
}
