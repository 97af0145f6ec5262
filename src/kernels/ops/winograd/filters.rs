//! Transformation of weights for the products, and of gradients back: halvings and additions, 16 pairs of channels at a
//! time.

use super::tiles::{APART, LANES, PRODUCTS};
use crate::wide::{WideWork, wide};

/// Number of values in a 3 x 3 kernel.
const WINDOW: usize = 9;

/// Returns `G g G^T` of every pair of channels of `weight` `(out, c, 3, 3)`.
///
/// They are 16 matrices `(out, c)`, with [`APART`] values between them.
pub(super) fn filters(weight: &[f32]) -> Vec<f32> {
    let pairs = weight.len() / WINDOW;
    let mut filters = vec![0f32; PRODUCTS * (pairs + APART)];
    wide(OfWeight { weight, filters: &mut filters });
    filters
}

/// Returns `G^T u G`, the adjoint of [`filters`].
pub(super) fn of_weight(filters: &[f32]) -> Vec<f32> {
    let pairs = filters.len() / PRODUCTS - APART;
    let mut weight = vec![0f32; WINDOW * pairs];
    wide(ToWeight { filters, weight: &mut weight });
    weight
}

struct OfWeight<'a> {
    weight: &'a [f32],
    filters: &'a mut [f32],
}

impl WideWork for OfWeight<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let OfWeight { weight, filters } = self;
        let each = filters.len() / PRODUCTS;
        for (chunk, windows) in weight.chunks_exact(WINDOW * LANES).enumerate() {
            let mut places = [[0f32; LANES]; PRODUCTS];
            for lane in 0..LANES {
                let g = &windows[WINDOW * lane..][..WINDOW];
                let columns = [
                    widened([g[0], g[3], g[6]]),
                    widened([g[1], g[4], g[7]]),
                    widened([g[2], g[5], g[8]]),
                ];
                for row in 0..4 {
                    let line = widened([columns[0][row], columns[1][row], columns[2][row]]);
                    for column in 0..4 {
                        places[4 * row + column][lane] = line[column];
                    }
                }
            }
            for (place, values) in places.iter().enumerate() {
                filters[place * each + chunk * LANES..][..LANES].copy_from_slice(values);
            }
        }
    }
}

struct ToWeight<'a> {
    filters: &'a [f32],
    weight: &'a mut [f32],
}

impl WideWork for ToWeight<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let ToWeight { filters, weight } = self;
        let each = filters.len() / PRODUCTS;
        for (chunk, windows) in weight.chunks_exact_mut(WINDOW * LANES).enumerate() {
            let mut places = [[0f32; LANES]; PRODUCTS];
            for (place, values) in places.iter_mut().enumerate() {
                values.copy_from_slice(&filters[place * each + chunk * LANES..][..LANES]);
            }
            for lane in 0..LANES {
                let mut columns = [[0f32; 3]; 4];
                for (column, narrow) in columns.iter_mut().enumerate() {
                    let at = |row: usize| places[4 * row + column][lane];
                    *narrow = narrowed([at(0), at(1), at(2), at(3)]);
                }
                for row in 0..3 {
                    let [a, b, c, d] = columns;
                    let line = narrowed([a[row], b[row], c[row], d[row]]);
                    windows[WINDOW * lane + 3 * row..][..3].copy_from_slice(&line);
                }
            }
        }
    }
}

/// Returns `G g` of a column.
#[inline(always)]
fn widened([a, b, c]: [f32; 3]) -> [f32; 4] {
    let (ends, middle) = (0.5 * (a + c), 0.5 * b);
    [a, ends + middle, ends - middle, c]
}

/// Returns `G^T u` of a column.
#[inline(always)]
fn narrowed([a, b, c, d]: [f32; 4]) -> [f32; 3] {
    let (sum, difference) = (0.5 * (b + c), 0.5 * (b - c));
    [a + sum, difference, sum + d]
}
