//! Products of matrices in `bf16` on a CPU: factors are rounded to `bf16`, sums are `f32`.
//!
//! CPUs with AVX512-BF16 multiply twice as many such factors per second as `f32` ones. Elsewhere the same instruction
//! is computed step by step, **to the same bits**: an element of the result is one chain of additions along
//! its row and column, two products at a time, whatever vectors the machine has and wherever the
//! element lies in the matrix. (A product in `f32` has neither property: its order depends on shape and machine.)
//!
//! ```text
//! a (rows, k) ──narrowed──▶ blocks of rows ─┐
//!                                           ├─ tiles of 8 x 48 ──▶ result
//! b (k, columns) ──packed──▶ panels of 48 ──┘
//! ```

#[allow(unsafe_code)]
mod kernel;
mod narrowed;
mod panels;

use super::matrix::{Matrix, MatrixMut};
use kernel::{ROWS, Target};
use narrowed::Narrowed;
use panels::Panels;

/// Values of `a` that are narrowed at a time, and pairs of `b` that they meet before others: both together fit into a
/// cache of the second level.
const BLOCK: usize = 1 << 17;
const GROUP: usize = 1 << 17;

/// `target = scale * a b`, or `target += scale * a b`, of matrices that fit.
pub(super) fn multiply(
    target: MatrixMut<'_>,
    accumulate: bool,
    scale: f32,
    a: Matrix<'_>,
    b: Matrix<'_>,
) {
    let MatrixMut { data, rows, columns, row_stride, .. } = target;
    if rows == 0 || columns == 0 {
        return;
    }
    let (panels, multiply) = (Panels::pack(b), kernel::multiply());
    let block = (BLOCK / a.columns.max(1)).max(1).next_multiple_of(ROWS);
    for first in (0..rows).step_by(block) {
        let end = rows.min(first + block);
        let narrowed = Narrowed::of(a.rows(first, end - first));
        for group in panels.groups(GROUP) {
            for top in (first..end).step_by(ROWS) {
                for panel in group.clone() {
                    let panel = panels.panel(panel);
                    let target = Target {
                        values: &mut data[top * row_stride + panel.left..],
                        row_stride,
                        rows: ROWS.min(end - top),
                        accumulate,
                        scale,
                    };
                    multiply(&narrowed, top - first, panel, target);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
