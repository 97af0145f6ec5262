//! Loops in the widest vectors the machine has, with the same bits on every machine.
//!
//! [`wide`] compiles its closure for AVX-512 and AVX2 besides the baseline and picks at run
//! time. Rust neither reorders additions nor contracts to fused multiply-add, and sums below
//! use a fixed number of lanes, so vector width never shows in a result. The exponential is
//! ours because the platform's is scalar and differs between platforms.

/// Lanes of every sum: fixed, so that the order of additions is.
const LANES: usize = 16;

/// What [`wide`] runs: a closure, or a type whose `run` is `#[inline(always)]`. A long closure is not
/// inlined by itself, and then is compiled for the baseline only.
pub(crate) trait Work {
    /// What it answers.
    type Answer;

    /// Does it.
    fn run(self) -> Self::Answer;
}

impl<R, F: FnOnce() -> R> Work for F {
    type Answer = R;

    #[inline(always)]
    fn run(self) -> R {
        self()
    }
}

/// Runs `work` compiled for the best instruction set at hand.
#[inline(always)]
pub(crate) fn wide<W: Work>(work: W) -> W::Answer {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("avx512dq")
        {
            // Safety: the features were just found.
            return unsafe { in_avx512(work) };
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            // Safety: the feature was just found.
            return unsafe { in_avx2(work) };
        }
    }
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq")]
fn in_avx512<W: Work>(work: W) -> W::Answer {
    work.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn in_avx2<W: Work>(work: W) -> W::Answer {
    work.run()
}

/// `e^x` to about one unit in the last place (Cephes' polynomial); NaN stays NaN, results
/// saturate at `e^-87` and `e^88`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to an integer
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Comparisons, not `clamp`/`max`: they let NaN through.
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

/// Folds the lanes pairwise.
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

/// `sum f(x_i)` in fixed order.
#[inline(always)]
pub(crate) fn sum_of(xs: &[f32], f: impl Fn(f32) -> f32) -> f32 {
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

/// `sum f(x_i, y_i)` in fixed order.
#[inline(always)]
pub(crate) fn sum_of_pairs(xs: &[f32], ys: &[f32], f: impl Fn(f32, f32) -> f32) -> f32 {
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

/// The largest value; NaN is skipped (it shows up in whatever is computed next).
#[inline(always)]
pub(crate) fn largest(xs: &[f32]) -> f32 {
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
pub(crate) fn softmax(row: &mut [f32]) {
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
    fn vector_width_never_shows() {
        let xs: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.37).sin() * 9.0).collect();
        let (mut narrow, mut broad) = (xs.clone(), xs);
        softmax(&mut narrow);
        wide(|| softmax(&mut broad));
        assert_eq!(narrow, broad);
    }

    #[test]
    fn a_nan_spoils_its_row() {
        let mut row = [0.0, f32::NAN, 1.0];
        softmax(&mut row);
        assert!(row.iter().all(|p| p.is_nan()));
    }
}
