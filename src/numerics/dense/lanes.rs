//! Dot products and sums of scaled vectors with a fixed order of operations.
//!
//! They are for use in a [`WideWork`](crate::numerics::wide::WideWork), as elsewhere `mul_add` may be a function call.

/// Number of lanes in a sum, which fill the widest vectors.
pub(super) const LANES: usize = 8;

/// Number of independent partial sums, which hide the latency of additions.
const SUMS: usize = 4;

/// Returns the lanes from `at` on.
#[inline(always)]
pub(super) fn lanes_of(values: &[f64], at: usize) -> [f64; LANES] {
    *values[at..].first_chunk().expect("whole lanes")
}

/// Returns `x y + z`, rounded once.
#[inline(always)]
pub(super) fn fused(x: [f64; LANES], y: [f64; LANES], z: [f64; LANES]) -> [f64; LANES] {
    let mut result = z;
    for lane in 0..LANES {
        result[lane] = x[lane].mul_add(y[lane], z[lane]);
    }
    result
}

/// Returns the sum of the lanes, added pairwise.
#[inline(always)]
pub(super) fn fold(lanes: [f64; LANES]) -> f64 {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + e) + (c + g)) + ((b + f) + (d + h))
}

/// Returns the dot product of two vectors of one length.
#[inline(always)]
pub(super) fn dot(x: &[f64], y: &[f64]) -> f64 {
    let y = &y[..x.len()];
    let mut sums = [[0.0; LANES]; SUMS];
    let (xs, ys) = (x.chunks_exact(SUMS * LANES), y.chunks_exact(SUMS * LANES));
    let (x_rest, y_rest) = (xs.remainder(), ys.remainder());
    for (x, y) in xs.zip(ys) {
        for (sum, at) in sums.iter_mut().zip((0..).step_by(LANES)) {
            *sum = fused(lanes_of(x, at), lanes_of(y, at), *sum);
        }
    }
    for (at, (x, y)) in x_rest.iter().zip(y_rest).enumerate() {
        let sum = &mut sums[at / LANES][at % LANES];
        *sum = x.mul_add(*y, *sum);
    }
    let mut lanes = [0.0; LANES];
    for (lane, all) in lanes.iter_mut().enumerate() {
        *all = (sums[0][lane] + sums[1][lane]) + (sums[2][lane] + sums[3][lane]);
    }
    fold(lanes)
}

/// Adds `scale * x` to `y`.
#[inline(always)]
pub(super) fn add_scaled(y: &mut [f64], scale: f64, x: &[f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y = scale.mul_add(*x, *y);
    }
}

/// Adds `a * x`, then `b * z` to `y`.
#[inline(always)]
pub(super) fn add_two_scaled(y: &mut [f64], (a, x): (f64, &[f64]), (b, z): (f64, &[f64])) {
    for ((y, x), z) in y.iter_mut().zip(x).zip(z) {
        *y = b.mul_add(*z, a.mul_add(*x, *y));
    }
}

/// Adds rows, each times its factor, to `sum` in their order.
#[inline(always)]
pub(super) fn add_rows<'a>(
    sum: &mut [f64],
    factors: &[f64],
    mut row: impl FnMut(usize) -> &'a [f64],
) {
    let (fours, rest) = factors.as_chunks::<4>();
    for (at, [a, b, c, d]) in fours.iter().enumerate() {
        let n = sum.len();
        let rows: [&[f64]; 4] = [row(4 * at), row(4 * at + 1), row(4 * at + 2), row(4 * at + 3)];
        let rows = rows.map(|row| &row[..n]);
        for i in 0..n {
            let two = b.mul_add(rows[1][i], a.mul_add(rows[0][i], sum[i]));
            sum[i] = d.mul_add(rows[3][i], c.mul_add(rows[2][i], two));
        }
    }
    for (at, factor) in rest.iter().enumerate() {
        add_scaled(sum, *factor, row(4 * fours.len() + at));
    }
}
