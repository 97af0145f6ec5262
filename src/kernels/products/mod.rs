//! Matrix products in `f32` and `f64` by a fixed rule, which gives the same bits on every CPU.
//!
//! ```text
//! blocks   n = max(1, ceil(k / 512)), each of ceil(k / n) places, the last one shorter
//! chain    sum = 0; for p in the block, ascending: sum = fma(a[i, p], b[p, j], sum)
//! result   first block, with nothing to be added to: c = scale * sum; else, and for every later block: c = fma(scale, sum, c)
//! k = 0    c = 0, or the value that is to be added to
//! ```
//!
//! An entry is computed from its own row and column by a sequence of operations that depends on `k` alone. Vector
//! width, tiles, packing, other entries, threads and caches do not affect it. A row of a product therefore does not
//! depend on the other rows either: packs of clients, feature caches and test batches of any size agree. A kernel for
//! another instruction set is correct if it gives these bits; tests compare every kernel with the rule written as
//! loops.
//!
//! Chains of at most 512 terms keep the rounding error as small as in blocked libraries: below `512 * 2^-24` of the sum
//! of absolute values in `f32`.
//!
//! | instruction set | tile (rows x values) | module |
//! |---|---|---|
//! | AVX-512 | 8 x 48 (`f64`: 8 x 24) | `avx512` |
//! | AVX2 and FMA | 6 x 16 (`f64`: 6 x 8) | `avx2` |
//! | any other, by `mul_add` | 4 x 16 | `portable` |
//!
//! The set is [`Vectors::in_use`](crate::vectors::Vectors). Products run on the calling thread.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod driver;
mod instruction_set;
mod packing;
mod portable;
#[cfg(target_arch = "x86_64")]
mod transposing;
mod view;

use std::mem::MaybeUninit;

use driver::ProductTask;
pub use view::{Matrix, Onto, Target};

use crate::vectors::Vectors;

/// Largest length of a chain of fused multiply-adds.
const MAX_CHAIN: usize = 512;

/// Returns the block length of an inner dimension `k`; the last block may be shorter.
fn block_len(k: usize) -> usize {
    k.div_ceil(k.div_ceil(MAX_CHAIN).max(1))
}

/// Type of numbers in matrices: `f32` or `f64`.
pub trait Real: Copy + 'static {
    /// Zero.
    const ZERO: Self;

    /// Runs a product with the kernels of an instruction set.
    ///
    /// # Safety
    /// The machine must have the instructions, and the task's pointers must be readable and writable as its shapes and
    /// strides say.
    unsafe fn run(vectors: Vectors, task: &ProductTask<Self>);
}

impl Real for f32 {
    const ZERO: f32 = 0.0;

    unsafe fn run(vectors: Vectors, task: &ProductTask<f32>) {
        // SAFETY: as the caller promises.
        unsafe {
            match vectors {
                #[cfg(target_arch = "x86_64")]
                Vectors::Avx512 | Vectors::Avx512Bf16 => driver::run::<f32, avx512::Avx512>(task),
                #[cfg(target_arch = "x86_64")]
                Vectors::Avx2 => driver::run::<f32, avx2::Avx2>(task),
                _ => portable::run(task),
            }
        }
    }
}

impl Real for f64 {
    const ZERO: f64 = 0.0;

    unsafe fn run(vectors: Vectors, task: &ProductTask<f64>) {
        // SAFETY: as the caller promises.
        unsafe {
            match vectors {
                #[cfg(target_arch = "x86_64")]
                Vectors::Avx512 | Vectors::Avx512Bf16 => driver::run::<f64, avx512::Avx512>(task),
                #[cfg(target_arch = "x86_64")]
                Vectors::Avx2 => driver::run::<f64, avx2::Avx2>(task),
                _ => portable::run(task),
            }
        }
    }
}

impl<T: Real> Target<'_, T> {
    /// Writes `scale * a b`.
    pub fn set(self, scale: T, a: Matrix<'_, T>, b: Matrix<'_, T>) {
        self.multiply(Onto::Nothing, scale, a, b);
    }

    /// Adds `scale * a b`.
    pub fn add(self, scale: T, a: Matrix<'_, T>, b: Matrix<'_, T>) {
        self.multiply(Onto::Itself, scale, a, b);
    }

    /// Adds `scale * a b` at and below the diagonal.
    ///
    /// Entries above it are either unchanged or added to as well.
    pub fn add_lower(self, scale: T, a: Matrix<'_, T>, b: Matrix<'_, T>) {
        self.run(Onto::Itself, scale, a, b, true);
    }

    /// Writes `scale * a b` plus `onto`.
    pub fn multiply(self, onto: Onto<&[T]>, scale: T, a: Matrix<'_, T>, b: Matrix<'_, T>) {
        self.run(onto, scale, a, b, false);
    }

    /// Computes the product.
    ///
    /// # Panics
    /// Panics if shapes do not agree, or uninitialized values would be added to.
    fn run(self, onto: Onto<&[T]>, scale: T, a: Matrix<'_, T>, b: Matrix<'_, T>, lower: bool) {
        assert!(
            a.rows == self.rows && b.columns == self.columns && a.columns == b.rows,
            "a {} x {} and a {} x {} matrix do not give one of {} x {}",
            a.rows,
            a.columns,
            b.rows,
            b.columns,
            self.rows,
            self.columns
        );
        match onto {
            Onto::Nothing => {}
            Onto::Itself => assert!(self.written, "there are no values to be added to"),
            Onto::Row(row) => assert_eq!(row.len(), self.columns, "a row of another width"),
        }
        let task = ProductTask {
            rows: self.rows,
            columns: self.columns,
            inner: a.columns,
            scale,
            a: a.strided_pointer(),
            b: b.strided_pointer(),
            onto: onto.map_row(<[T]>::as_ptr),
            c: self.data.as_mut_ptr().cast::<T>(),
            c_stride: self.row_stride,
            lower,
        };
        // SAFETY: every view was checked to lie inside its buffer when it was made, and the shapes agree; the target is
        // borrowed exclusively and holds values where it is read. The machine has the instructions that are in use.
        unsafe { T::run(Vectors::in_use(), &task) }
    }
}

/// Views `values` as possibly uninitialized memory.
fn as_uninit<T>(values: &mut [T]) -> &mut [MaybeUninit<T>] {
    // SAFETY: the layout is the same, and nothing here writes anything but numbers.
    unsafe { &mut *(std::ptr::from_mut(values) as *mut [MaybeUninit<T>]) }
}

#[cfg(test)]
mod tests;
