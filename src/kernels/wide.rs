//! Loops in the widest vectors of the machine, with the same bits on every machine.
//!
//! [`wide`] compiles its work for AVX-512 and AVX2 besides the baseline and picks at run time. Only code that the
//! compiler *inlines* there is compiled so: a [`WideWork`] has a `run` that is `#[inline(always)]` and consists of
//! plain loops. A long closure, or a long fold of an iterator, becomes a separate function, which is silently compiled
//! for the baseline and is four times slower. So [`wide`] takes no closures, and [`each`] and [`joined`] take short
//! ones only. `cargo bench --bench vectors` measures the gain of wide vectors.
//!
//! Rust neither reorders additions nor contracts to fused multiply-add, and sums below use a fixed number of lanes, so
//! vector width changes no result. The exponential is our own because the platform's is scalar and differs between
//! platforms.

#[cfg(target_arch = "x86_64")]
use super::vectors::Vectors;

/// Number of lanes in every sum. It is fixed, as it determines the order of additions.
const LANES: usize = 16;

/// Number of values that are copied and then changed in place while they are in the cache.
pub const PIECE: usize = 1024;

/// Work that [`wide`] runs.
pub trait WideWork {
    /// Type of the result.
    type Answer;

    /// Does the work. Must be `#[inline(always)]`, as must all functions that it calls.
    fn run(self) -> Self::Answer;
}

/// Runs `work` compiled for the best instruction set of the machine.
#[inline(always)]
pub fn wide<W: WideWork>(work: W) -> W::Answer {
    #[cfg(target_arch = "x86_64")]
    match Vectors::in_use() {
        // SAFETY: the machine has the features.
        Vectors::Avx512 | Vectors::Avx512Bf16 => return unsafe { in_avx512(work) },
        // SAFETY: the machine has the features.
        Vectors::Avx2 => return unsafe { in_avx2(work) },
        Vectors::Baseline => {}
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
fn in_avx512<W: WideWork>(work: W) -> W::Answer {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn in_avx2<W: WideWork>(work: W) -> W::Answer {
    work.run()
}

/// Applies `change` to each of `mine` and its partner in `theirs`.
///
/// `change` must be short and own its captures.
#[inline(always)]
pub fn each<A, B>(mine: &mut [A], theirs: &[B], change: impl Fn(&mut A, &B)) {
    wide(Each { mine, theirs, change });
}

struct Each<'a, A, B, F> {
    mine: &'a mut [A],
    theirs: &'a [B],
    change: F,
}

impl<A, B, F: Fn(&mut A, &B)> WideWork for Each<'_, A, B, F> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let Each { mine, theirs, change } = self;
        for (mine, theirs) in mine.iter_mut().zip(theirs) {
            change(mine, theirs);
        }
    }
}

/// Returns `join` of all pairs. It must be short, as for [`each`].
#[inline(always)]
pub fn joined(xs: &[f32], ys: &[f32], join: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    wide(ElementwiseJoin { xs, ys, join })
}

struct ElementwiseJoin<'a, F> {
    xs: &'a [f32],
    ys: &'a [f32],
    join: F,
}

impl<F: Fn(f32, f32) -> f32> WideWork for ElementwiseJoin<'_, F> {
    type Answer = Vec<f32>;

    #[inline(always)]
    fn run(self) -> Vec<f32> {
        let ElementwiseJoin { xs, ys, join } = self;
        let mut all = Vec::with_capacity(xs.len());
        for (xs, ys) in xs.chunks(PIECE).zip(ys.chunks(PIECE)) {
            for (x, &y) in appended(&mut all, xs).iter_mut().zip(ys) {
                *x = join(*x, y);
            }
        }
        all
    }
}

/// Adds all rows of a matrix, in their order, to `sums`.
pub fn add_rows(sums: &mut [f32], rows: &[f32]) {
    wide(AddRows { sums, rows });
}

struct AddRows<'a> {
    sums: &'a mut [f32],
    rows: &'a [f32],
}

impl WideWork for AddRows<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let AddRows { sums, rows } = self;
        for row in rows.chunks_exact(sums.len().max(1)) {
            for (sum, x) in sums.iter_mut().zip(row) {
                *sum += x;
            }
        }
    }
}

/// Appends a copy of `values` to `all` and returns the copy. So a vector is filled without being zeroed first.
#[inline(always)]
pub fn appended<'a>(all: &'a mut Vec<f32>, values: &[f32]) -> &'a mut [f32] {
    let from = all.len();
    all.extend_from_slice(values);
    &mut all[from..]
}

/// Computes `e^x` to about one unit in the last place (Cephes' polynomial).
///
/// NaN stays NaN, results saturate at `e^-87` and `e^88`.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Comparisons instead of `clamp` or `max`, as they let NaN pass.
    let x = if x < -87.0 { -87.0 } else { x };
    let x = if x > 88.0 { 88.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN2_HIGH - n * LN2_LOW;
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_2e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let mantissa = p * (r * r) + r + 1.0;
    // The low bits of `shifted` are n; the rest is shifted out.
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    mantissa * power
}

/// Adds the lanes pairwise by `join`.
#[inline(always)]
fn fold(mut lanes: [f32; LANES], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Returns `sum f(x_i)` in fixed order.
#[inline(always)]
pub fn sum_of(xs: &[f32], f: impl Fn(f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let chunks = xs.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f(x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f(x);
    }
    fold(lanes, |a, b| a + b)
}

/// Returns `sum f(x_i, y_i)` in fixed order.
#[inline(always)]
pub fn sum_of_pairs(xs: &[f32], ys: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut lanes = [0f32; LANES];
    let (xs, ys) = (&xs[..xs.len().min(ys.len())], &ys[..xs.len().min(ys.len())]);
    let (x_chunks, y_chunks) = (xs.chunks_exact(LANES), ys.chunks_exact(LANES));
    let (x_rest, y_rest) = (x_chunks.remainder(), y_chunks.remainder());
    for (x_chunk, y_chunk) in x_chunks.zip(y_chunks) {
        for i in 0..LANES {
            lanes[i] += f(x_chunk[i], y_chunk[i]);
        }
    }
    for (lane, (&x, &y)) in lanes.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *lane += f(x, y);
    }
    fold(lanes, |a, b| a + b)
}

/// Returns the largest value; NaN is skipped (it shows up in the next results).
#[inline(always)]
pub fn largest(xs: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let chunks = xs.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = larger(*lane, x);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = larger(*lane, x);
    }
    fold(lanes, larger)
}

/// Turns a row of scores into probabilities.
#[inline(always)]
pub fn softmax(row: &mut [f32]) {
    let top = largest(row);
    for x in row.iter_mut() {
        *x = exp(*x - top);
    }
    let inverse = 1.0 / sum_of(row, |x| x);
    for x in row.iter_mut() {
        *x *= inverse;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_accurate_to_two_units_in_the_last_place() {
        for i in -86_990..88_000 {
            let x = i as f32 * 1e-3;
            let exact = f64::from(x).exp();
            let error = (f64::from(exp(x)) - exact).abs() / exact;
            assert!(error < 2.4e-7, "exp({x}) is off by {error:e}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!((exp(-1e9), exp(1e9)), (exp(-87.0), exp(88.0)));
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sums_take_every_element_once() {
        for n in 0..70 {
            let xs: Vec<f32> = (1..=n).map(|i| i as f32).collect();
            let expected = (n * (n + 1) / 2) as f32;
            assert_eq!(sum_of(&xs, |x| x), expected);
            assert_eq!(sum_of_pairs(&xs, &xs, |x, _| x), expected);
            assert_eq!(largest(&xs), if n == 0 { f32::NEG_INFINITY } else { n as f32 });
        }
    }

    #[test]
    fn pairs_are_joined_in_order_over_several_pieces() {
        let xs: Vec<f32> = (0..2 * PIECE + 3).map(|i| i as f32).collect();
        let ys: Vec<f32> = xs.iter().map(|x| 2.0 * x).collect();
        let all = joined(&xs, &ys, |x, y| y - 3.0 * x);
        assert!(all.iter().zip(&xs).all(|(all, x)| *all == -x) && all.len() == xs.len());
    }

    #[test]
    fn probabilities_are_the_shares_of_the_powers() {
        let mut row = [0.0, 2f32.ln(), 5f32.ln(), -1e9];
        softmax(&mut row);
        let near = |(p, share): (&f32, &f32)| (p - share).abs() < 1e-7;
        assert!(row.iter().zip(&[0.125, 0.25, 0.625, 0.0]).all(near), "{row:?}");
    }

    #[test]
    fn a_nan_spoils_its_row() {
        let mut row = [0.0, f32::NAN, 1.0];
        softmax(&mut row);
        assert!(row.iter().all(|p| p.is_nan()));
    }
}
