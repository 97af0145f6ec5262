//! Reduction of a symmetric matrix to a tridiagonal one by Householder reflectors.
//!
//! Columns are reduced in panels. Within a panel the stored matrix does not change and stands for `A - V W^T - W V^T`;
//! afterwards it is updated by one product (Dongarra, Sorensen and Hammarling 1989; `dsytrd` of LAPACK).

use super::reflectors::Reflectors;
use crate::numerics::dense::lanes::{
    LANES, add_scaled, add_two_scaled, dot, fold, fused, lanes_of,
};
use crate::numerics::products::{Matrix, Target};

/// Number of columns in a panel.
const PANEL: usize = 32;

/// Sum of squares below which a column counts as zero, as a reflector of it would be too inexact.
const NEGLIGIBLE: f64 = f64::MIN_POSITIVE / f64::EPSILON;

/// Tridiagonal matrix `T` of `A = Q T Q^T`, and the reflectors `Q = H_0 H_1 ...`.
pub(super) struct Tridiagonal {
    /// Diagonal of `T`.
    pub(super) diagonal: Vec<f64>,
    /// Entries below the diagonal, followed by a zero.
    pub(super) below: Vec<f64>,
    pub(super) reflectors: Reflectors,
}

/// Reduces a matrix `(order, order)`, row-major, of which the lower triangle is read.
///
/// The largest entry should be near one, so that squares neither overflow nor vanish.
#[inline(always)]
pub(super) fn tridiagonal(order: usize, mut a: Vec<f64>) -> Tridiagonal {
    let n = order;
    let (mut diagonal, mut below) = (vec![0.0; n], vec![0.0; n]);
    let mut scales = vec![0.0; n.saturating_sub(1)];
    let mut columns = vec![0.0; PANEL * n];
    // Rows of V followed by those of W, and the other way round.
    let (mut vw, mut wv) = (vec![0.0; 2 * PANEL * n], vec![0.0; 2 * PANEL * n]);
    for first in (0..scales.len()).step_by(PANEL) {
        let (count, m) = (PANEL.min(scales.len() - first), n - first);
        for i in 0..m {
            for j in 0..count.min(i + 1) {
                columns[j * m + i] = a[(first + i) * n + first + j];
            }
        }
        let (v, w) = vw[..2 * count * m].split_at_mut(count * m);
        for j in 0..count {
            let column = &mut columns[j * m + j..(j + 1) * m];
            for (v, w) in v.chunks_exact(m).zip(w.chunks_exact(m)).take(j) {
                add_two_scaled(column, (-w[j], &v[j..]), (-v[j], &w[j..]));
            }
            diagonal[first + j] = column[0];
            let Reflection { scale, result } = reflect(&mut column[1..]);
            below[first + j] = result;
            scales[first + j] = scale;

            let (v_before, v_own) = v.split_at_mut(j * m);
            let (w_before, w_own) = w.split_at_mut(j * m);
            let (v_own, w_own) = (&mut v_own[..m], &mut w_own[..m]);
            v_own[..=j].fill(0.0);
            w_own.fill(0.0);
            v_own[j + 1..].copy_from_slice(&column[1..]);
            a[(first + j) * n + first + j + 1..][..m - j - 1].copy_from_slice(&column[1..]);
            if scale == 0.0 {
                continue;
            }
            let (v_own, w_own) = (&v_own[j + 1..], &mut w_own[j + 1..]);
            multiply(&a[(first + j + 1) * (n + 1)..], n, v_own, w_own);
            for (v, w) in v_before.chunks_exact(m).zip(w_before.chunks_exact(m)) {
                let (v, w) = (&v[j + 1..], &w[j + 1..]);
                let (along_w, along_v) = (dot(w, v_own), dot(v, v_own));
                add_two_scaled(w_own, (-along_w, v), (-along_v, w));
            }
            w_own.iter_mut().for_each(|w| *w *= scale);
            let half = -0.5 * scale * dot(w_own, v_own);
            add_scaled(w_own, half, v_own);
        }
        let rest = m - count;
        let (w_first, v_last) = wv[..2 * count * m].split_at_mut(count * m);
        w_first.copy_from_slice(w);
        v_last.copy_from_slice(v);
        let left = Matrix::strided(&vw[count..], 2 * count, rest, m);
        let right = Matrix::strided(&wv[count..], 2 * count, rest, m);
        let corner = &mut a[(first + count) * (n + 1)..];
        Target::strided(corner, rest, rest, n).add_lower(-1.0, left.t(), right);
    }
    if n > 0 {
        diagonal[n - 1] = a[n * n - 1];
    }
    Tridiagonal { diagonal, below, reflectors: Reflectors { order, vectors: a, scales } }
}

/// Householder reflector that maps a vector to a multiple of the first axis.
struct Reflection {
    /// Factor `tau`; 0 if the vector is already such a multiple.
    scale: f64,
    /// First entry after the reflection.
    result: f64,
}

/// Replaces `x` by the reflector's vector, whose first entry is one.
#[inline(always)]
fn reflect(x: &mut [f64]) -> Reflection {
    let (first, rest) = x.split_at_mut(1);
    let head = first[0];
    let square = dot(rest, rest);
    if square < NEGLIGIBLE {
        x.fill(0.0);
        return Reflection { scale: 0.0, result: head };
    }
    let length = head.mul_add(head, square).sqrt();
    // Sign that avoids cancellation in `head - result`.
    let result = if head > 0.0 { -length } else { length };
    let factor = 1.0 / (head - result);
    rest.iter_mut().for_each(|x| *x *= factor);
    first[0] = 1.0;
    Reflection { scale: (result - head) / result, result }
}

/// Writes `A v` to `w`. Only the lower triangle of `A` is read, with rows `stride` apart.
#[inline(always)]
fn multiply(a: &[f64], stride: usize, v: &[f64], w: &mut [f64]) {
    const ROWS: usize = 4;
    w.fill(0.0);
    let whole = v.len() / ROWS * ROWS;
    for i in (0..whole).step_by(ROWS) {
        multiply_rows::<ROWS>(&a[i * stride..], stride, i, v, w);
    }
    for i in whole..v.len() {
        multiply_rows::<1>(&a[i * stride..], stride, i, v, w);
    }
}

/// Adds the contribution of `R` rows from row `i` on, and of their mirror images above the diagonal.
#[inline(always)]
fn multiply_rows<const R: usize>(a: &[f64], stride: usize, i: usize, v: &[f64], w: &mut [f64]) {
    let rows: [&[f64]; R] = std::array::from_fn(|r| &a[r * stride..][..i + r + 1]);
    let own: [f64; R] = std::array::from_fn(|r| v[i + r]);
    let mut sums = [[0.0; LANES]; R];
    let whole = i / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let (along, mut sum) = (lanes_of(v, at), lanes_of(w, at));
        for r in 0..R {
            let row = lanes_of(rows[r], at);
            sums[r] = fused(row, along, sums[r]);
            sum = fused(row, [own[r]; LANES], sum);
        }
        w[at..at + LANES].copy_from_slice(&sum);
    }
    for at in whole..i {
        for r in 0..R {
            let sum = &mut sums[r][at - whole];
            *sum = rows[r][at].mul_add(v[at], *sum);
            w[at] = rows[r][at].mul_add(own[r], w[at]);
        }
    }
    for r in 0..R {
        w[i + r] += fold(sums[r]);
        for c in 0..r {
            w[i + r] = rows[r][i + c].mul_add(own[c], w[i + r]);
            w[i + c] = rows[r][i + c].mul_add(own[r], w[i + c]);
        }
        w[i + r] = rows[r][i + r].mul_add(own[r], w[i + r]);
    }
}
