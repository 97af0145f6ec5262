//! The loops of [`attention`](super::attention()): per head, strided products on the packed
//! buffer and a softmax over `[prefix | sequence]` columns.

use super::groups::Groups;
use super::matrix::{Matrix, MatrixMut, Precision};
use super::wide::{Work, softmax, sum_of_pairs, wide};

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
#[derive(Clone, Copy)]
pub(super) struct PrefixValues<'a> {
    pub keys: &'a [f32],
    pub values: &'a [f32],
}

/// Gradients of the call's operands.
pub(super) struct Gradients {
    pub packed: Option<Vec<f32>>,
    pub prefix: Option<[Vec<f32>; 2]>,
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

    /// A prefix meets all queries of its member in one product where every token asks (they lie at
    /// equal distances then); otherwise one product per sample.
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

    fn prefix<'a>(&self, data: &'a [f32], head: usize, member: usize) -> Matrix<'a> {
        let offset = self.prefix_offset(head, member);
        Matrix::strided(&data[offset..], self.prefix, self.head_width(), self.width)
    }

    fn prefix_mut<'a>(&self, data: &'a mut [f32], head: usize, member: usize) -> MatrixMut<'a> {
        let offset = self.prefix_offset(head, member);
        MatrixMut::strided(&mut data[offset..], self.prefix, self.head_width(), self.width)
            .at(self.precision)
    }

    /// Prefix columns of a head's scores for the rows of `group`.
    fn towards_prefix<'a>(&self, scores: &'a [f32], group: &Group) -> Matrix<'a> {
        let offset = group.sample * self.queries * self.span();
        Matrix::strided(&scores[offset..], group.rows, self.prefix, self.span())
    }

    fn towards_prefix_mut<'a>(&self, scores: &'a mut [f32], group: &Group) -> MatrixMut<'a> {
        let offset = group.sample * self.queries * self.span();
        MatrixMut::strided(&mut scores[offset..], group.rows, self.prefix, self.span())
            .at(self.precision)
    }

    /// Own columns of a head's scores for one sample.
    fn towards_tokens<'a>(&self, scores: &'a [f32], sample: usize) -> Matrix<'a> {
        let offset = sample * self.queries * self.span() + self.prefix;
        Matrix::strided(&scores[offset..], self.queries, self.tokens, self.span())
    }

    fn towards_tokens_mut<'a>(&self, scores: &'a mut [f32], sample: usize) -> MatrixMut<'a> {
        let offset = sample * self.queries * self.span() + self.prefix;
        MatrixMut::strided(&mut scores[offset..], self.queries, self.tokens, self.span())
            .at(self.precision)
    }

    /// The output `(b, queries, d)` and, if `keep`, the probabilities of all heads.
    pub(super) fn forward(
        &self,
        packed: &[f32],
        prefix: PrefixValues<'_>,
        keep: bool,
    ) -> (Vec<f32>, Vec<f32>) {
        let (samples, groups) = (0..self.batch, self.groups());
        let mut output = vec![0f32; self.batch * self.queries * self.width];
        let kept_heads = if keep { self.heads } else { 1 };
        let mut kept = vec![0f32; kept_heads * self.head_scores()];
        for head in 0..self.heads {
            let from = if keep { head * self.head_scores() } else { 0 };
            let scores = &mut kept[from..from + self.head_scores()];
            for group in &groups {
                let q = self.packed(packed, 0, head, group.sample, group.rows);
                let keys = self.prefix(prefix.keys, head, group.member);
                self.towards_prefix_mut(scores, group).set(self.scale(), q, keys.t());
            }
            for sample in samples.clone() {
                let q = self.packed(packed, 0, head, sample, self.queries);
                let keys = self.packed(packed, 1, head, sample, self.tokens);
                self.towards_tokens_mut(scores, sample).set(self.scale(), q, keys.t());
            }
            wide(Softmax { scores, span: self.span() });
            for sample in samples.clone() {
                let v = self.packed(packed, 2, head, sample, self.tokens);
                let weights = self.towards_tokens(scores, sample);
                self.output_mut(&mut output, head, sample, self.queries).set(1.0, weights, v);
            }
            for group in &groups {
                let v = self.prefix(prefix.values, head, group.member);
                let weights = self.towards_prefix(scores, group);
                let mut_rows = self.output_mut(&mut output, head, group.sample, group.rows);
                mut_rows.add(1.0, weights, v);
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
        let (samples, groups) = (0..self.batch, self.groups());
        let mut by_packed = want_packed.then(|| vec![0f32; packed.len()]);
        let mut by_prefix = (want_prefix && self.prefix > 0)
            .then(|| [vec![0f32; prefix.keys.len()], vec![0f32; prefix.values.len()]]);
        let mut slopes = vec![0f32; self.head_scores()];
        for head in 0..self.heads {
            let from = head * self.head_scores();
            let weights = &probabilities[from..from + self.head_scores()];
            for group in &groups {
                let g = self.output(g, head, group.sample, group.rows);
                let v = self.prefix(prefix.values, head, group.member);
                self.towards_prefix_mut(&mut slopes, group).set(1.0, g, v.t());
            }
            for sample in samples.clone() {
                let g = self.output(g, head, sample, self.queries);
                let v = self.packed(packed, 2, head, sample, self.tokens);
                self.towards_tokens_mut(&mut slopes, sample).set(1.0, g, v.t());
            }
            wide(ThroughSoftmax { slopes: &mut slopes, weights, span: self.span() });
            if let Some([by_keys, by_values]) = &mut by_prefix {
                for group in &groups {
                    let q = self.packed(packed, 0, head, group.sample, group.rows);
                    let g = self.output(g, head, group.sample, group.rows);
                    let ds = self.towards_prefix(&slopes, group);
                    let p = self.towards_prefix(weights, group);
                    self.prefix_mut(by_keys, head, group.member).add(self.scale(), ds.t(), q);
                    self.prefix_mut(by_values, head, group.member).add(1.0, p.t(), g);
                }
            }
            if let Some(by_packed) = &mut by_packed {
                for sample in samples.clone() {
                    let q = self.packed(packed, 0, head, sample, self.queries);
                    let k = self.packed(packed, 1, head, sample, self.tokens);
                    let g = self.output(g, head, sample, self.queries);
                    let ds = self.towards_tokens(&slopes, sample);
                    let p = self.towards_tokens(weights, sample);
                    let (rows, all) = (self.queries, self.tokens);
                    self.packed_mut(by_packed, 0, head, sample, rows).set(self.scale(), ds, k);
                    self.packed_mut(by_packed, 1, head, sample, all).set(self.scale(), ds.t(), q);
                    self.packed_mut(by_packed, 2, head, sample, all).set(1.0, p.t(), g);
                }
                for group in &groups {
                    let keys = self.prefix(prefix.keys, head, group.member);
                    let ds = self.towards_prefix(&slopes, group);
                    let by_queries = self.packed_mut(by_packed, 0, head, group.sample, group.rows);
                    by_queries.add(self.scale(), ds, keys);
                }
            }
        }
        Gradients { packed: by_packed, prefix: by_prefix }
    }
}
