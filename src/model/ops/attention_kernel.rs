//! The loops of [`attention`](super::attention()): per head, strided products on the packed
//! buffer and a softmax over `[prefix | sequence]` columns.

use std::mem::MaybeUninit;

use candle_core::{Result, Tensor};

use super::groups::Groups;
use super::matrix::{Matrix, MatrixMut, Precision};
use super::storage::tensor_like;
use super::wide::{Work, softmax, sum_of_pairs, wide};

/// Numbers that are still to be set.
type Unwritten = [MaybeUninit<f32>];

/// Sizes of one call.
#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub batch: usize,
    /// Tokens of the sequence, that is own keys and values.
    pub tokens: usize,
    /// The first `queries` tokens ask.
    pub queries: usize,
    pub width: usize,
    pub heads: usize,
    /// Prefix keys (and values) in front of the sequence's own; 0 without a prefix.
    pub prefix: usize,
    /// Which samples see which prefix.
    pub members: Groups,
    /// Of the kernel's products.
    pub precision: Precision,
}

/// Prefix keys and values, both `(members, L, d)`; empty without a prefix.
#[derive(Clone, Copy, Default)]
pub(super) struct PrefixValues<'a> {
    pub keys: &'a [f32],
    pub values: &'a [f32],
}

/// Gradients of the call's operands.
pub(super) struct Gradients {
    pub packed: Option<Vec<f32>>,
    pub prefix: Option<[Vec<f32>; 2]>,
}

impl Gradients {
    /// Those of the prefix as tensors, each where its operand is tracked.
    ///
    /// # Errors
    /// Only what candle itself reports.
    pub fn of_prefix(&mut self, keys: &Tensor, values: &Tensor) -> Result<[Option<Tensor>; 2]> {
        let Some([by_keys, by_values]) = self.prefix.take() else { return Ok([None, None]) };
        Ok([
            keys.track_op().then(|| tensor_like(by_keys, keys)).transpose()?,
            values.track_op().then(|| tensor_like(by_values, values)).transpose()?,
        ])
    }
}

/// A run of consecutive query rows that see the same prefix.
struct Group {
    member: usize,
    sample: usize,
    rows: usize,
}

/// Every row of scores becomes probabilities.
struct Softmax<'a> {
    scores: &'a mut [f32],
    span: usize,
}

impl Work for Softmax<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        for row in self.scores.chunks_exact_mut(self.span) {
            softmax(row);
        }
    }
}

/// Gradients of the probabilities become those of the scores: `ds = p (dp - <p, dp>)`.
struct ThroughSoftmax<'a> {
    slopes: &'a mut [f32],
    weights: &'a [f32],
    span: usize,
}

impl Work for ThroughSoftmax<'_> {
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

    /// Columns of the score matrix.
    fn span(&self) -> usize {
        self.prefix + self.tokens
    }

    /// Scores of one head: `(b * queries, L + n)`.
    fn head_scores(&self) -> usize {
        self.batch * self.queries * self.span()
    }

    /// Whose rows meet in one product towards the gradient of a prefix: all queries of its member where every token asks
    /// (they lie at equal distances then), otherwise those of one sample.
    fn groups(&self) -> Vec<Group> {
        if self.prefix == 0 {
            return Vec::new();
        }
        let runs = self.members.runs().enumerate().filter(|(_, run)| !run.is_empty());
        let groups = runs.flat_map(|(member, run)| {
            let (size, count) = match self.queries == self.tokens {
                true => (run.len(), 1),
                false => (1, run.len()),
            };
            let rows = size * self.queries;
            (0..count).map(move |i| Group { member, sample: run.start + i, rows })
        });
        groups.collect()
    }

    /// Part 0 (queries), 1 (keys) or 2 (values) of a head, `rows` rows from `sample` on.
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

    fn output_mut<'a>(&self, data: &'a mut [f32], head: usize, sample: usize) -> MatrixMut<'a> {
        let offset = sample * self.queries * self.width + head * self.head_width();
        MatrixMut::strided(&mut data[offset..], self.queries, self.head_width(), self.width)
            .at(self.precision)
    }

    fn prefix_offset(&self, head: usize, member: usize) -> usize {
        member * self.prefix * self.width + head * self.head_width()
    }

    fn prefix<'a>(&self, data: &'a [f32], head: usize, member: usize) -> Matrix<'a> {
        let offset = self.prefix_offset(head, member);
        Matrix::strided(&data[offset..], self.prefix, self.head_width(), self.width)
    }

    fn prefix_mut<'a>(&self, data: &'a mut [f32], head: usize, member: usize) -> MatrixMut<'a> {
        let offset = self.prefix_offset(head, member);
        MatrixMut::strided(&mut data[offset..], self.prefix, self.head_width(), self.width)
            .at(self.precision)
    }

    /// Prefix columns of `rows` consecutive rows of scores.
    fn towards_prefix<'a>(&self, scores: &'a [f32], rows: usize) -> Matrix<'a> {
        Matrix::strided(scores, rows, self.prefix, self.span())
    }

    fn towards_prefix_mut<'a>(&self, scores: &'a mut Unwritten) -> MatrixMut<'a> {
        MatrixMut::unwritten(scores, self.queries, self.prefix, self.span()).at(self.precision)
    }

    /// Own columns of a sample's scores.
    fn towards_tokens<'a>(&self, scores: &'a [f32]) -> Matrix<'a> {
        Matrix::strided(&scores[self.prefix..], self.queries, self.tokens, self.span())
    }

    fn towards_tokens_mut<'a>(&self, scores: &'a mut Unwritten) -> MatrixMut<'a> {
        let scores = &mut scores[self.prefix..];
        MatrixMut::unwritten(scores, self.queries, self.tokens, self.span()).at(self.precision)
    }

    /// Appends `scale * q [P_k ; K]^T` of a sample to `all`, where `q` asks prefix and tokens.
    fn ask<'a>(
        &self,
        all: &'a mut Vec<f32>,
        scale: f32,
        q: Matrix<'_>,
        (prefix, tokens): (Option<Matrix<'_>>, Matrix<'_>),
    ) -> &'a mut [f32] {
        let (from, more) = (all.len(), self.queries * self.span());
        all.reserve(more);
        let scores = &mut all.spare_capacity_mut()[..more];
        if let Some(prefix) = prefix {
            self.towards_prefix_mut(scores).set(scale, q, prefix.t());
        }
        self.towards_tokens_mut(scores).set(scale, q, tokens.t());
        // SAFETY: of every query all columns were set, those of the prefix, if there are some, and those of the tokens.
        unsafe { all.set_len(from + more) };
        &mut all[from..]
    }

    /// Which member has which sample, sample by sample.
    fn owners(&self) -> Vec<usize> {
        let runs = self.members.runs().enumerate();
        runs.flat_map(|(member, run)| std::iter::repeat_n(member, run.len())).collect()
    }

    /// The output `(b, queries, d)` and, if `keep`, the probabilities of all heads, head by head and sample by sample.
    ///
    /// A sample's scores of one head are made, normalised and used before the next one's, while they are in the cache.
    pub(super) fn forward(
        &self,
        packed: &[f32],
        prefix: PrefixValues<'_>,
        keep: bool,
    ) -> (Vec<f32>, Vec<f32>) {
        let owners = self.owners();
        let mut output = vec![0f32; self.batch * self.queries * self.width];
        let kept_heads = if keep { self.heads } else { 0 };
        let mut kept = Vec::with_capacity(kept_heads * self.head_scores());
        for head in 0..self.heads {
            for (sample, &member) in owners.iter().enumerate() {
                if !keep {
                    kept.clear();
                }
                let of_prefix = |data| (self.prefix > 0).then(|| self.prefix(data, head, member));
                let part = |part, rows| self.packed(packed, part, head, sample, rows);
                let keys = (of_prefix(prefix.keys), part(1, self.tokens));
                let scores = self.ask(&mut kept, self.scale(), part(0, self.queries), keys);
                wide(Softmax { scores, span: self.span() });
                let mut mixed = |accumulate: bool, weights, values| {
                    let output = self.output_mut(&mut output, head, sample);
                    match accumulate {
                        false => output.set(1.0, weights, values),
                        true => output.add(1.0, weights, values),
                    }
                };
                mixed(false, self.towards_tokens(scores), part(2, self.tokens));
                if let Some(values) = of_prefix(prefix.values) {
                    mixed(true, self.towards_prefix(scores, self.queries), values);
                }
            }
        }
        if !keep {
            kept.clear();
        }
        (output, kept)
    }

    /// Gradients of the packed input and of the prefix, each only if asked for.
    pub(super) fn backward(
        &self,
        packed: &[f32],
        prefix: PrefixValues<'_>,
        probabilities: &[f32],
        g: &[f32],
        want_packed: bool,
        want_prefix: bool,
    ) -> Gradients {
        let (owners, groups) = (self.owners(), self.groups());
        let mut by_packed = want_packed.then(|| vec![0f32; packed.len()]);
        let mut by_prefix = (want_prefix && self.prefix > 0)
            .then(|| [vec![0f32; prefix.keys.len()], vec![0f32; prefix.values.len()]]);
        let mut slopes = Vec::with_capacity(self.head_scores());
        let each = self.queries * self.span();
        for head in 0..self.heads {
            let weights = &probabilities[head * self.head_scores()..][..self.head_scores()];
            slopes.clear();
            for (sample, &member) in owners.iter().enumerate() {
                let of_prefix = |data| (self.prefix > 0).then(|| self.prefix(data, head, member));
                let part = |part, rows| self.packed(packed, part, head, sample, rows);
                let (g, weights) =
                    (self.output(g, head, sample, self.queries), &weights[sample * each..][..each]);
                let values = (of_prefix(prefix.values), part(2, self.tokens));
                let slopes = self.ask(&mut slopes, 1.0, g, values);
                wide(ThroughSoftmax { slopes, weights, span: self.span() });
                let Some(by_packed) = &mut by_packed else { continue };
                let (ds, p) = (self.towards_tokens(slopes), self.towards_tokens(weights));
                let (q, k) = (part(0, self.queries), part(1, self.tokens));
                let mut set = |part, rows, scale, a, b| {
                    self.packed_mut(by_packed, part, head, sample, rows).set(scale, a, b);
                };
                set(0, self.queries, self.scale(), ds, k);
                set(1, self.tokens, self.scale(), ds.t(), q);
                set(2, self.tokens, 1.0, p.t(), g);
                if let Some(keys) = of_prefix(prefix.keys) {
                    let ds = self.towards_prefix(slopes, self.queries);
                    let by_queries = self.packed_mut(by_packed, 0, head, sample, self.queries);
                    by_queries.add(self.scale(), ds, keys);
                }
            }
            let Some([by_keys, by_values]) = &mut by_prefix else { continue };
            for Group { member, sample, rows } in &groups {
                let q = self.packed(packed, 0, head, *sample, *rows);
                let g = self.output(g, head, *sample, *rows);
                let ds = self.towards_prefix(&slopes[sample * each..], *rows);
                let p = self.towards_prefix(&weights[sample * each..], *rows);
                self.prefix_mut(by_keys, head, *member).add(self.scale(), ds.t(), q);
                self.prefix_mut(by_values, head, *member).add(1.0, p.t(), g);
            }
        }
        Gradients { packed: by_packed, prefix: by_prefix }
    }
}
