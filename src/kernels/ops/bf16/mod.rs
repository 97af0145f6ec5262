//! Matrix products in `bf16` on a CPU: factors are rounded to `bf16`, sums are `f32`.
//!
//! CPUs with AVX512-BF16 multiply twice as many such factors per second as `f32` ones. On other CPUs the same
//! instruction is computed step by step, **with the same bits**: an element of the result is one chain of additions
//! along its row and column, two products at a time, independent of the machine's vectors and of the element's place in
//! the matrix.
//!
//! ```text
//! a (rows, k) ──narrowed──▶ blocks of rows ─┐
//!                                           ├─ tiles of 8 x 48 ──▶ result
//! b (k, columns) ──packed──▶ panels of 48 ──┘
//! ```

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod instructions;
#[allow(unsafe_code)]
mod kernel;
mod narrowed;
#[allow(unsafe_code)]
mod narrowing;
mod panels;

use std::cell::RefCell;

use super::matrix::{Matrix, Onto};
use crate::products::Target;
use kernel::{ROWS, TileTarget};
use narrowed::Narrowed;
use narrowing::{Narrowing, STRIP};
pub(super) use panels::Panels;

/// Size of blocks: values of `a` that are narrowed at a time, and pairs of `b` that they are multiplied with before
/// others. Both together fit into the second-level cache.
const BLOCK: usize = 1 << 17;
const GROUP: usize = 1 << 17;

/// Largest size of a right factor's buffer that is kept until the next product, in pairs: 16 MB.
const KEPT: usize = 1 << 22;

thread_local! {
    /// Buffers for left and right factors during a product, reused by the next one.
    static LEFT: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    static RIGHT: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Returns `numbers` uninteresting numbers of a buffer, followed by room for whole vectors.
fn room(buffer: &mut Vec<u32>, numbers: usize) -> &mut [u32] {
    let numbers = numbers + STRIP;
    if buffer.len() < numbers {
        buffer.resize(numbers, 0);
    }
    &mut buffer[..numbers]
}

/// Computes `target = scale * a b + onto` for matrices that fit.
pub(super) fn multiply(
    target: Target<'_>,
    onto: Onto<'_>,
    scale: f32,
    a: Matrix<'_>,
    b: Matrix<'_>,
) {
    RIGHT.with_borrow_mut(|right| {
        multiply_packed(target, onto, scale, a, &Panels::pack(b, right));
        if right.len() > KEPT {
            *right = Vec::new();
        }
    });
}

/// Computes [`multiply`] with a right factor that is already packed.
pub(super) fn multiply_packed(
    target: Target<'_>,
    onto: Onto<'_>,
    scale: f32,
    a: Matrix<'_>,
    panels: &Panels<'_>,
) {
    let (rows, columns) = (target.rows(), target.columns());
    assert!(a.rows() == rows && panels.fits(a.columns(), columns), "a factor of another shape");
    match onto {
        Onto::Nothing => {}
        Onto::Itself => assert!(target.is_written(), "there are no values to be added to"),
        Onto::Row(row) => assert_eq!(row.len(), columns, "a row of another width"),
    }
    let (data, row_stride) = target.into_memory();
    if rows == 0 || columns == 0 {
        return;
    }
    let (narrowing, multiply) = (Narrowing::fastest(), kernel::multiply());
    let block = (BLOCK / a.columns().max(1)).max(1).next_multiple_of(ROWS);
    LEFT.with_borrow_mut(|left| {
        for first in (0..rows).step_by(block) {
            let end = rows.min(first + block);
            let narrowed = Narrowed::of(a.rows_from(first, end - first), narrowing, left);
            for group in panels.groups(GROUP) {
                for top in (first..end).step_by(ROWS) {
                    for panel in group.clone() {
                        let panel = panels.panel(panel);
                        let mut target = TileTarget {
                            values: &mut data[top * row_stride + panel.left..],
                            row_stride,
                            rows: ROWS.min(end - top),
                            onto: onto.columns_from(panel.left),
                            scale,
                        };
                        multiply(&narrowed, top - first, &panel, &mut target);
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests;
