//! The loops of [`attention`](super::attention()): per head, strided products on the packed
//! buffer and a softmax over `[prefix | sequence]` columns.

use std::ops::Range;

use candle_core::{CpuStorage, Layout, Result, Tensor};

use super::groups::SampleGroups;
use super::matrix::{Matrix, MatrixMut, Precision};
use super::storage::{tensor_like, values};
use crate::wide::{WideWork, softmax, sum_of_pairs, wide};

/// Sizes of one call of attention.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub batch: usize,
    /// Tokens of the sequence, each with a key and a value.
    pub tokens: usize,
    /// Number of first tokens that have queries.
    pub queries: usize,
    pub width: usize,
    pub heads: usize,
    /// Prefix keys (and values) before those of the sequence; 0 without a prefix.
    pub prefix: usize,
    /// Samples of each prefix.
    pub members: SampleGroups,
    /// Precision of the kernel's matrix products.
    pub precision: Precision,
}

/// Prefix keys and values, both `(members, L, d)`; empty without a prefix.
#[derive(Clone, Copy, Default)]
pub(super) struct PrefixValues<'a> {
    pub keys: &'a [f32],
    pub values: &'a [f32],
}

impl<'a> PrefixValues<'a> {
    /// Returns the kernel's view of contiguous operands, each with its layout.
    ///
    /// # Errors
    /// Returns an error if the operands are not contiguous `f32` on the CPU.
    pub fn of(
        keys: (&'a CpuStorage, &Layout),
        of_values: (&'a CpuStorage, &Layout),
    ) -> Result<Self> {
        Ok(PrefixValues {
            keys: values(keys.0, keys.1)?,
            values: values(of_values.0, of_values.1)?,
        })
    }
}

/// Gradients of the call's operands.
pub(super) struct Gradients {
    pub packed: Option<Vec<f32>>,
    pub prefix: Option<[Vec<f32>; 2]>,
}

impl Gradients {
    /// Returns the gradients of the prefix as tensors, each if its operand is tracked.
    ///
    /// # Errors
    /// Returns an error only if candle fails.
    pub fn of_prefix(&mut self, keys: &Tensor, values: &Tensor) -> Result<[Option<Tensor>; 2]> {
        let Some([by_keys, by_values]) = self.prefix.take() else { return Ok([None, None]) };
        Ok([
            keys.track_op().then(|| tensor_like(by_keys, keys)).transpose()?,
            values.track_op().then(|| tensor_like(by_values, values)).transpose()?,
        ])
    }
}

/// Samples that see the same prefix.
struct PrefixGroup {
    member: usize,
    samples: Range<usize>,
}

/// Consecutive rows of queries, the first ones of sample `sample`.
struct QueryRows {
    sample: usize,
    rows: usize,
}

/// Turns every row of scores into probabilities.
struct AttentionSoftmax<'a> {
    scores: &'a mut [f32],
    span: usize,
}

impl WideWork for AttentionSoftmax<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        for row in self.scores.chunks_exact_mut(self.span) {
            softmax(row);
        }
    }
}

/// Turns gradients of the probabilities into those of the scores: `ds = p (dp - <p, dp>)`.
struct ThroughSoftmax<'a> {
    slopes: &'a mut [f32],
    weights: &'a [f32],
    span: usize,
}

impl WideWork for ThroughSoftmax<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let ThroughSoftmax { slopes, weights, span } = self;
        for (row, p) in slopes.chunks_exact_mut(span).zip(weights.chunks_exact(span)) {
            let mean = sum_of_pairs(row, p, |dp, p| dp * p);
            for (dp, &p) in row.iter_mut().zip(p) {
                *dp = p * (*dp - mean);
            }
        }
    }
}

impl Geometry {
    fn head_width(&self) -> usize {
        self.width / self.heads
    }

    fn scale(&self) -> f32 {
        1.0 / (self.head_width() as f32).sqrt()
    }

    /// Returns the number of columns of the score matrix.
    fn span(&self) -> usize {
        self.prefix + self.tokens
    }

    /// Returns the number of scores of one head, `(b * queries, L + n)`.
    fn head_scores(&self) -> usize {
        self.batch * self.queries * self.span()
    }

    /// Returns the number of scores of one head and sample, `(queries, L + n)`.
    fn sample_scores(&self) -> usize {
        self.queries * self.span()
    }

    /// Returns the samples of each member, without empty ones.
    fn runs(&self) -> impl Iterator<Item = PrefixGroup> {
        let runs = self.members.runs().enumerate().filter(|(_, run)| !run.is_empty());
        runs.map(|(member, samples)| PrefixGroup { member, samples })
    }

    /// Returns the groups of samples whose scores of a head are computed and used together.
    ///
    /// Single samples stay in the cache. In `f32` the samples of a member go together, as their bits depend on the
    /// number of rows in the product with its prefix.
    fn pieces(&self) -> Vec<PrefixGroup> {
        match self.precision {
            Precision::F32 => self.runs().collect(),
            Precision::Bf16 => {
                let each = |PrefixGroup { member, samples }: PrefixGroup| {
                    samples.map(move |sample| PrefixGroup { member, samples: sample..sample + 1 })
                };
                self.runs().flat_map(each).collect()
            }
        }
    }

    /// Returns the rows of queries that are multiplied with the prefix in one product.
    ///
    /// These are all queries of the group if every token has one, as they are then equally spaced, and otherwise those
    /// of one sample.
    fn askers(&self, PrefixGroup { samples, .. }: &PrefixGroup) -> Vec<QueryRows> {
        match self.queries == self.tokens {
            true => vec![QueryRows { sample: samples.start, rows: samples.len() * self.queries }],
            false => {
                samples.clone().map(|sample| QueryRows { sample, rows: self.queries }).collect()
            }
        }
    }

    /// Returns part 0 (queries), 1 (keys) or 2 (values) of a head, `rows` rows from `sample` on.
    fn packed<'a>(
        &self,
        data: &'a [f32],
        part: usize,
        head: usize,
        sample: usize,
        rows: usize,
    ) -> Matrix<'a> {
        let stride = 3 * self.width;
        let offset = sample * self.tokens * stride + part * self.width + head * self.head_width();
        Matrix::strided(&data[offset..], rows, self.head_width(), stride)
    }

    fn packed_mut<'a>(
        &self,
        data: &'a mut [f32],
        part: usize,
        head: usize,
        sample: usize,
        rows: usize,
    ) -> MatrixMut<'a> {
        let stride = 3 * self.width;
        let offset = sample * self.tokens * stride + part * self.width + head * self.head_width();
        MatrixMut::strided(&mut data[offset..], rows, self.head_width(), stride).at(self.precision)
    }

    fn output<'a>(&self, data: &'a [f32], head: usize, sample: usize, rows: usize) -> Matrix<'a> {
        let offset = sample * self.queries * self.width + head * self.head_width();
        Matrix::strided(&data[offset..], rows, self.head_width(), self.width)
    }

    fn output_mut<'a>(
        &self,
        data: &'a mut [f32],
        head: usize,
        sample: usize,
        rows: usize,
    ) -> MatrixMut<'a> {
        let offset = sample * self.queries * self.width + head * self.head_width();
        MatrixMut::strided(&mut data[offset..], rows, self.head_width(), self.width)
            .at(self.precision)
    }

    fn prefix_offset(&self, head: usize, member: usize) -> usize {
        member * self.prefix * self.width + head * self.head_width()
    }

    fn prefix<'a>(&self, data: &'a [f32], head: usize, member: usize) -> Option<Matrix<'a>> {
        let rows = || {
            let data = &data[self.prefix_offset(head, member)..];
            Matrix::strided(data, self.prefix, self.head_width(), self.width)
        };
        (self.prefix > 0).then(rows)
    }

    fn prefix_mut<'a>(&self, data: &'a mut [f32], head: usize, member: usize) -> MatrixMut<'a> {
        let offset = self.prefix_offset(head, member);
        MatrixMut::strided(&mut data[offset..], self.prefix, self.head_width(), self.width)
            .at(self.precision)
    }

    /// Returns the prefix columns of `rows` consecutive rows of scores.
    fn towards_prefix<'a>(&self, scores: &'a [f32], rows: usize) -> Matrix<'a> {
        Matrix::strided(scores, rows, self.prefix, self.span())
    }

    /// Returns the sequence's columns of a sample's scores.
    fn towards_tokens<'a>(&self, scores: &'a [f32]) -> Matrix<'a> {
        Matrix::strided(&scores[self.prefix..], self.queries, self.tokens, self.span())
    }

    /// Appends a head's `scale * q [k_prefix ; k]^T` for all samples of a piece to `all`. `q` and `k` return a matrix
    /// by sample and rows.
    fn asked<'s, 'a>(
        &self,
        all: &'s mut Vec<f32>,
        piece: &PrefixGroup,
        scale: f32,
        q: impl Fn(usize, usize) -> Matrix<'a>,
        (prefix, k): (Option<Matrix<'_>>, impl Fn(usize, usize) -> Matrix<'a>),
    ) -> &'s mut [f32] {
        let (from, more) = (all.len(), piece.samples.len() * self.sample_scores());
        all.reserve(more);
        let scores = &mut all.spare_capacity_mut()[..more];
        let first = |sample: usize| (sample - piece.samples.start) * self.sample_scores();
        if let Some(prefix) = prefix {
            for QueryRows { sample, rows } in self.askers(piece) {
                let scores = &mut scores[first(sample)..];
                let to = MatrixMut::unwritten(scores, rows, self.prefix, self.span());
                to.at(self.precision).set(scale, q(sample, rows), prefix.t());
            }
        }
        for sample in piece.samples.clone() {
            let scores = &mut scores[first(sample) + self.prefix..];
            let to = MatrixMut::unwritten(scores, self.queries, self.tokens, self.span());
            to.at(self.precision).set(scale, q(sample, self.queries), k(sample, self.tokens).t());
        }
        // SAFETY: of every query all columns were set: those of the prefix, where there is one, and of the tokens.
        unsafe { all.set_len(from + more) };
        &mut all[from..]
    }

    /// Computes the output `(b, queries, d)` and, if `keep`, the probabilities by head and sample.
    pub(super) fn forward(
        &self,
        packed: &[f32],
        prefix: PrefixValues<'_>,
        keep: bool,
    ) -> (Vec<f32>, Vec<f32>) {
        let pieces = self.pieces();
        let mut output = vec![0f32; self.batch * self.queries * self.width];
        let kept_heads = if keep { self.heads } else { 0 };
        let mut kept = Vec::with_capacity(kept_heads * self.head_scores());
        for head in 0..self.heads {
            let part = |part| move |sample, rows| self.packed(packed, part, head, sample, rows);
            for piece in &pieces {
                if !keep {
                    kept.clear();
                }
                let of_prefix = |data| self.prefix(data, head, piece.member);
                let keys = (of_prefix(prefix.keys), part(1));
                let scores = self.asked(&mut kept, piece, self.scale(), part(0), keys);
                wide(AttentionSoftmax { scores, span: self.span() });
                let scores = |sample: usize| {
                    &scores[(sample - piece.samples.start) * self.sample_scores()..]
                };
                for sample in piece.samples.clone() {
                    let weights = self.towards_tokens(scores(sample));
                    let mixed = self.output_mut(&mut output, head, sample, self.queries);
                    mixed.set(1.0, weights, part(2)(sample, self.tokens));
                }
                if let Some(values) = of_prefix(prefix.values) {
                    for QueryRows { sample, rows } in self.askers(piece) {
                        let weights = self.towards_prefix(scores(sample), rows);
                        let mixed = self.output_mut(&mut output, head, sample, rows);
                        mixed.add(1.0, weights, values);
                    }
                }
            }
        }
        if !keep {
            kept.clear();
        }
        (output, kept)
    }

    /// Computes the gradients of the packed input and of the prefix, each only if it is wanted.
    pub(super) fn backward(
        &self,
        packed: &[f32],
        prefix: PrefixValues<'_>,
        probabilities: &[f32],
        g: &[f32],
        want_packed: bool,
        want_prefix: bool,
    ) -> Gradients {
        let pieces = self.pieces();
        let mut by_packed = want_packed.then(|| vec![0f32; packed.len()]);
        let mut by_prefix = (want_prefix && self.prefix > 0)
            .then(|| [vec![0f32; prefix.keys.len()], vec![0f32; prefix.values.len()]]);
        let mut all_slopes = Vec::with_capacity(self.head_scores());
        let each = self.sample_scores();
        for head in 0..self.heads {
            let probabilities = &probabilities[head * self.head_scores()..][..self.head_scores()];
            let part = |part| move |sample, rows| self.packed(packed, part, head, sample, rows);
            let g = |sample, rows| self.output(g, head, sample, rows);
            all_slopes.clear();
            for piece in &pieces {
                let Range { start, end } = piece.samples;
                let of_prefix = |data| self.prefix(data, head, piece.member);
                let values = (of_prefix(prefix.values), part(2));
                let slopes = self.asked(&mut all_slopes, piece, 1.0, g, values);
                let weights = &probabilities[start * each..end * each];
                wide(ThroughSoftmax { slopes, weights, span: self.span() });
                let Some(by_packed) = &mut by_packed else { continue };
                for sample in start..end {
                    let at = (sample - start) * each;
                    let ds = self.towards_tokens(&slopes[at..]);
                    let p = self.towards_tokens(&weights[at..]);
                    let q = part(0)(sample, self.queries);
                    let mut set = |part, rows, scale, a, b| {
                        self.packed_mut(by_packed, part, head, sample, rows).set(scale, a, b);
                    };
                    set(0, self.queries, self.scale(), ds, part(1)(sample, self.tokens));
                    set(1, self.tokens, self.scale(), ds.t(), q);
                    set(2, self.tokens, 1.0, p.t(), g(sample, self.queries));
                }
                if let Some(keys) = of_prefix(prefix.keys) {
                    for QueryRows { sample, rows } in self.askers(piece) {
                        let ds = self.towards_prefix(&slopes[(sample - start) * each..], rows);
                        let by_queries = self.packed_mut(by_packed, 0, head, sample, rows);
                        by_queries.add(self.scale(), ds, keys);
                    }
                }
            }
            let Some([by_keys, by_values]) = &mut by_prefix else { continue };
            for run in self.runs() {
                for QueryRows { sample, rows } in self.askers(&run) {
                    let ds = self.towards_prefix(&all_slopes[sample * each..], rows);
                    let p = self.towards_prefix(&probabilities[sample * each..], rows);
                    let (by_keys, by_values) = (
                        self.prefix_mut(by_keys, head, run.member),
                        self.prefix_mut(by_values, head, run.member),
                    );
                    by_keys.add(self.scale(), ds.t(), part(0)(sample, rows));
                    by_values.add(1.0, p.t(), g(sample, rows));
                }
            }
        }
        Gradients { packed: by_packed, prefix: by_prefix }
    }
}
