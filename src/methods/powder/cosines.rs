//! Mean cosines between the attention of many classes or client tasks.
//!
//! With a hundred clients some hundred thousand pairs of classes are compared, each over the components of hundreds of
//! client tasks. So norms are computed once for all that were scored against the same client tasks, and a vector is
//! multiplied with several at once. Every sum runs over components in their order, as if pairs were taken one by one.

use std::collections::BTreeMap;

use super::similarity::Attention;

/// Attention that is compared: of samples of one class of a client task, or of all its classes.
#[derive(Clone, Copy, Debug)]
pub(super) enum ComparedAttention<'a> {
    /// Attention of one class.
    Class(&'a Attention, usize),
    /// Attention of all classes.
    Whole(&'a Attention),
}

impl<'a> ComparedAttention<'a> {
    /// Returns the client tasks whose components were scored.
    fn over(self) -> &'a [u32] {
        let (ComparedAttention::Class(attention, _) | ComparedAttention::Whole(attention)) = self;
        &attention.over
    }

    /// Returns the scores, `(blocks, client tasks, components)`.
    fn scores(self) -> Vec<f64> {
        match self {
            ComparedAttention::Class(attention, class) => attention.class(class),
            ComparedAttention::Whole(attention) => attention.all(),
        }
    }
}

/// Returns the cosine of each of `ours` with each of `theirs`, averaged over blocks.
///
/// Only scores of client tasks that both were scored against count. In a block in which either is zero the cosine is 0.
pub(super) fn mean_cosines(
    ours: &[ComparedAttention<'_>],
    theirs: &[ComparedAttention<'_>],
    (blocks, components): (usize, usize),
) -> Vec<Vec<f64>> {
    let mut found = vec![vec![0.0; theirs.len()]; ours.len()];
    let their_groups = by_over(theirs);
    for (over, own) in by_over(ours) {
        for (their_over, others) in &their_groups {
            let common = common(over, their_over);
            let (here, there): (Vec<usize>, Vec<usize>) = common.into_iter().unzip();
            let scores = |seen: &ComparedAttention<'_>, places: &[usize]| {
                let (scores, client_tasks) = (seen.scores(), seen.over().len());
                let block = |block| chosen(&scores, (block * client_tasks, components), places);
                (0..blocks).map(block).collect::<Vec<Vec<f64>>>()
            };
            let vectors: Vec<_> =
                own.iter().map(|at| ScoreVector::of(scores(&ours[*at], &here))).collect();
            for lanes in others.chunks(LANES) {
                let side_by_side = lanes.iter().map(|at| scores(&theirs[*at], &there));
                let panel = ScorePanel::of(&side_by_side.collect::<Vec<_>>());
                for (at, vector) in own.iter().zip(&vectors) {
                    let means = panel.mean_cosines(vector);
                    lanes.iter().zip(means).for_each(|(other, mean)| found[*at][*other] = mean);
                }
            }
        }
    }
    found
}

/// Groups indices by the client tasks that were scored.
fn by_over<'a>(all: &[ComparedAttention<'a>]) -> BTreeMap<&'a [u32], Vec<usize>> {
    let mut groups = BTreeMap::<_, Vec<usize>>::new();
    for (at, seen) in all.iter().enumerate() {
        groups.entry(seen.over()).or_default().push(at);
    }
    groups
}

/// Returns the positions in both lists of the client tasks that they share, ascending in both.
fn common(ours: &[u32], theirs: &[u32]) -> Vec<(usize, usize)> {
    let place =
        |(client_task, at): (&u32, usize)| Some((at, theirs.binary_search(client_task).ok()?));
    ours.iter().zip(0..).filter_map(place).collect()
}

/// Returns the scores of the client tasks at positions `first + places`, with `components` scores each.
fn chosen(scores: &[f64], (first, components): (usize, usize), places: &[usize]) -> Vec<f64> {
    let client_task = |place: &usize| &scores[(first + place) * components..][..components];
    places.iter().flat_map(client_task).copied().collect()
}

/// Scores by block, each with its sum of squares.
struct ScoreVector(Vec<(Vec<f64>, f64)>);

impl ScoreVector {
    fn of(blocks: Vec<Vec<f64>>) -> ScoreVector {
        let with_square = |scores: Vec<f64>| {
            let square = scores.iter().map(|score| score * score).sum();
            (scores, square)
        };
        ScoreVector(blocks.into_iter().map(with_square).collect())
    }
}

/// Number of vectors that are multiplied at once.
const LANES: usize = 16;

/// Scores of up to [`LANES`] vectors, interleaved, by block, with the vectors' sums of squares.
///
/// Unused lanes are zero.
struct ScorePanel(Vec<(Vec<[f64; LANES]>, [f64; LANES])>);

impl ScorePanel {
    fn of(vectors: &[Vec<Vec<f64>>]) -> ScorePanel {
        let block = |block: usize| {
            let width = vectors.first().map_or(0, |vector| vector[block].len());
            let (mut rows, mut squares) = (vec![[0.0; LANES]; width], [0.0; LANES]);
            for (lane, vector) in vectors.iter().enumerate() {
                rows.iter_mut().zip(&vector[block]).for_each(|(row, score)| row[lane] = *score);
            }
            for row in &rows {
                squares.iter_mut().zip(row).for_each(|(square, score)| *square += score * score);
            }
            (rows, squares)
        };
        ScorePanel((0..vectors.first().map_or(0, Vec::len)).map(block).collect())
    }

    fn mean_cosines(&self, vector: &ScoreVector) -> [f64; LANES] {
        let mut sums = [0.0; LANES];
        for ((ours, square), (theirs, squares)) in vector.0.iter().zip(&self.0) {
            let mut products = [0.0; LANES];
            for (score, row) in ours.iter().zip(theirs) {
                products.iter_mut().zip(row).for_each(|(product, other)| *product += score * other);
            }
            for ((sum, product), other) in sums.iter_mut().zip(products).zip(squares) {
                let norm = (square * other).sqrt();
                *sum += if norm > 0.0 { product / norm } else { 0.0 };
            }
        }
        sums.map(|sum| sum / self.0.len().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scores that say where they stand: of block, client task and component.
    fn attention(over: &[u32], classes: usize, seed: f32) -> Attention {
        let (blocks, components) = SIZES;
        let width = blocks * over.len() * components;
        let mean = |at: usize| {
            let (class, within) = (at / width, at % width);
            let client_task = over[within / components % over.len()];
            ((seed + class as f32) * (1.0 + client_task as f32) + within as f32 * 0.7).sin()
        };
        let means = (0..classes * width).map(mean).collect();
        Attention { over: over.into(), means, counts: vec![1; classes] }
    }

    const SIZES: (usize, usize) = (2, 3);

    /// Pair by pair, number by number, to the bit.
    fn one_by_one(a: ComparedAttention<'_>, b: ComparedAttention<'_>) -> f64 {
        let ((blocks, components), (x, y)) = (SIZES, (a.scores(), b.scores()));
        let mut sum = 0.0;
        for block in 0..blocks {
            let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
            for (at, client_task) in a.over().iter().enumerate() {
                let Some(there) = b.over().iter().position(|other| other == client_task) else {
                    continue;
                };
                for component in 0..components {
                    let x = x[(block * a.over().len() + at) * components + component];
                    let y = y[(block * b.over().len() + there) * components + component];
                    (xy, xx, yy) = (xy + x * y, xx + x * x, yy + y * y);
                }
            }
            let norm = f64::sqrt(xx * yy);
            sum += if norm > 0.0 { xy / norm } else { 0.0 };
        }
        sum / blocks as f64
    }

    #[test]
    fn many_at_once_are_each_of_them_to_the_bit() {
        let of = [
            attention(&[0, 1, 4], 3, 0.3),
            attention(&[1, 4, 7, 9], 9, 1.7),
            attention(&[0, 1, 4], 10, 2.2),
            attention(&[2], 2, 0.1),
        ];
        let classes = of
            .iter()
            .flat_map(|own| (0..own.counts.len()).map(|c| ComparedAttention::Class(own, c)));
        let all: Vec<ComparedAttention<'_>> =
            classes.chain(of.iter().map(ComparedAttention::Whole)).collect();
        assert!(all.len() > LANES);
        let found = mean_cosines(&all[..14], &all, SIZES);
        for (ours, row) in all.iter().zip(&found) {
            for (theirs, cosine) in all.iter().zip(row) {
                assert_eq!(cosine.to_bits(), one_by_one(*ours, *theirs).to_bits());
            }
        }
        assert!(found[0].iter().any(|cosine| cosine.abs() > 0.01));
        // No other was scored against the same client tasks as the last.
        assert_eq!((found.len(), found[0][all.len() - 1]), (14, 0.0));
        assert!(mean_cosines(&[], &all, SIZES).is_empty());
    }
}
