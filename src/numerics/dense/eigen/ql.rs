//! QL algorithm with implicit shifts for tridiagonal matrices.
//!
//! Source: Bowdler, Martin, Reinsch and Wilkinson 1968; `imtql2` of EISPACK.

use super::rotations::Rotated;

/// Largest number of sweeps per eigenvalue; two are usual.
const MAX_SWEEPS: usize = 60;

/// Replaces `diagonal` by the eigenvalues, in no order, and rotates the rows of `rotated` accordingly.
///
/// `below` holds the entries next to the diagonal and one more, which is not used. Returns false if an eigenvalue
/// does not converge.
#[inline(always)]
pub(super) fn ql(
    diagonal: &mut [f64],
    below: &mut [f64],
    mut rotated: Option<&mut Rotated>,
) -> bool {
    let negligible = f64::EPSILON * norm(diagonal, below);
    for l in 0..diagonal.len() {
        let mut sweeps = 0;
        loop {
            let end = block_end(l, below, negligible);
            if end == l {
                break;
            }
            if sweeps == MAX_SWEEPS {
                return false;
            }
            sweeps += 1;
            sweep(l, end, diagonal, below, rotated.as_deref_mut());
        }
    }
    if let Some(rotated) = rotated {
        rotated.apply();
    }
    true
}

/// Returns the largest sum of absolute values in a row.
#[inline(always)]
fn norm(diagonal: &[f64], below: &[f64]) -> f64 {
    let (mut largest, mut before) = (0.0, 0.0);
    for (diagonal, below) in diagonal.iter().zip(below) {
        let sum = before + diagonal.abs() + below.abs();
        if sum > largest {
            largest = sum;
        }
        before = below.abs();
    }
    largest
}

/// Returns the last row of the block that begins at row `l` and ends at a negligible entry.
///
/// Entries are compared with the norm of the whole matrix. Against small neighbors, as in a rank-deficient matrix, the
/// rounding of every sweep would keep them from ever being negligible.
#[inline(always)]
fn block_end(l: usize, below: &[f64], negligible: f64) -> usize {
    let last = below.len() - 1;
    let mut end = l;
    while end < last && below[end].abs() > negligible {
        end += 1;
    }
    end
}

/// Applies one sweep with its shift, from row `end` up to row `l`.
#[inline(always)]
fn sweep(
    l: usize,
    end: usize,
    diagonal: &mut [f64],
    below: &mut [f64],
    mut rotated: Option<&mut Rotated>,
) {
    // Wilkinson's shift: the eigenvalue of the first two rows that is nearer to the first entry.
    let half = (diagonal[l + 1] - diagonal[l]) / (2.0 * below[l]);
    let root = half.mul_add(half, 1.0).sqrt();
    let divisor = half + if half >= 0.0 { root } else { -root };
    let mut bulge = diagonal[end] - diagonal[l] + below[l] / divisor;
    let (mut sine, mut cosine, mut shift) = (1.0, 1.0, 0.0);
    let mut is_cut = false;
    for i in (l..end).rev() {
        let (along, across) = (sine * below[i], cosine * below[i]);
        let length = hypotenuse(along, bulge);
        below[i + 1] = length;
        if length == 0.0 {
            // The matrix splits here; the next sweep begins with the rest.
            diagonal[i + 1] -= shift;
            below[end] = 0.0;
            is_cut = true;
            break;
        }
        (sine, cosine) = (along / length, bulge / length);
        let moved = diagonal[i + 1] - shift;
        let change = (diagonal[i] - moved).mul_add(sine, 2.0 * cosine * across);
        shift = sine * change;
        diagonal[i + 1] = moved + shift;
        bulge = cosine.mul_add(change, -across);
        if let Some(rotated) = rotated.as_deref_mut() {
            rotated.rotate(i, cosine, sine);
        }
    }
    if let Some(rotated) = rotated {
        rotated.end_sweep();
    }
    if !is_cut {
        diagonal[l] -= shift;
        below[l] = bulge;
        below[end] = 0.0;
    }
}

/// Returns `sqrt(x^2 + y^2)`, with full precision even if the squares underflow.
#[inline(always)]
fn hypotenuse(x: f64, y: f64) -> f64 {
    const SMALL: f64 = f64::MIN_POSITIVE / f64::EPSILON;
    // 2^512 and its inverse.
    const SCALE: f64 = f64::from_bits((1023 + 512) << 52);
    const UNSCALE: f64 = f64::from_bits((1023 - 512) << 52);
    let square = x.mul_add(x, y * y);
    if square >= SMALL {
        return square.sqrt();
    }
    let (x, y) = (SCALE * x, SCALE * y);
    UNSCALE * x.mul_add(x, y * y).sqrt()
}
