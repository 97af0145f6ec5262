//! Kernels for AVX-512: tiles of 8 rows by 3 vectors of 512 bits, whose sums fill 24 of 32 registers.

use std::arch::x86_64::*;

use super::Real;
use super::instruction_set::{InstructionSet, Kernel, Tile, Vector, compute, of_rows};
use super::transposing::{transpose_f32, transpose_f64};

/// AVX-512, only its foundation instructions.
pub(super) struct Avx512;

#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn in_avx512<
    T: Real,
    X: Vector<T>,
    const R: usize,
    const V: usize,
    const BY_COLUMNS: bool,
>(
    tile: &Tile<T>,
) {
    // SAFETY: as the caller promises.
    unsafe { compute::<T, X, R, V, BY_COLUMNS>(tile) }
}

impl InstructionSet<f32> for Avx512 {
    type Vector = __m512;
    const ROWS: usize = 8;
    const VECTORS: usize = 3;

    unsafe fn kernel<const R: usize, const V: usize, const BY_COLUMNS: bool>(tile: &Tile<f32>) {
        // SAFETY: as the caller promises.
        unsafe { in_avx512::<f32, __m512, R, V, BY_COLUMNS>(tile) }
    }

    unsafe fn transpose(
        from: *const f32,
        stride: isize,
        columns: usize,
        inner: usize,
        to: *mut f32,
        width: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe { transpose_f32(from, stride, columns, inner, to, width) }
    }

    fn select(rows: usize, vectors: usize, by_columns: bool) -> Kernel<f32> {
        match vectors {
            1 => of_rows::<f32, Avx512, 1>(rows, by_columns),
            2 => of_rows::<f32, Avx512, 2>(rows, by_columns),
            _ => of_rows::<f32, Avx512, 3>(rows, by_columns),
        }
    }
}

impl InstructionSet<f64> for Avx512 {
    type Vector = __m512d;
    const ROWS: usize = 8;
    const VECTORS: usize = 3;

    unsafe fn kernel<const R: usize, const V: usize, const BY_COLUMNS: bool>(tile: &Tile<f64>) {
        // SAFETY: as the caller promises.
        unsafe { in_avx512::<f64, __m512d, R, V, BY_COLUMNS>(tile) }
    }

    unsafe fn transpose(
        from: *const f64,
        stride: isize,
        columns: usize,
        inner: usize,
        to: *mut f64,
        width: usize,
    ) {
        // SAFETY: as the caller promises.
        unsafe { transpose_f64(from, stride, columns, inner, to, width) }
    }

    fn select(rows: usize, vectors: usize, by_columns: bool) -> Kernel<f64> {
        match vectors {
            1 => of_rows::<f64, Avx512, 1>(rows, by_columns),
            2 => of_rows::<f64, Avx512, 2>(rows, by_columns),
            _ => of_rows::<f64, Avx512, 3>(rows, by_columns),
        }
    }
}

/// Returns the mask of the first `count` of up to 16 lanes.
#[inline(always)]
fn mask(count: usize) -> u16 {
    ((1u32 << count) - 1) as u16
}

// SAFETY of all functions below: as the caller promises, see `Vector`.
impl Vector<f32> for __m512 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { _mm512_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        unsafe { _mm512_maskz_loadu_ps(mask(count), from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        unsafe { _mm512_mask_storeu_ps(to, mask(count), self) }
    }

    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        unsafe { _mm512_mul_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, other: Self, addend: Self) -> Self {
        unsafe { _mm512_fmadd_ps(self, other, addend) }
    }
}

// SAFETY of all functions below: as the caller promises, see `Vector`.
impl Vector<f64> for __m512d {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f64) -> Self {
        unsafe { _mm512_set1_pd(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        unsafe { _mm512_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f64, count: usize) -> Self {
        unsafe { _mm512_maskz_loadu_pd(mask(count) as u8, from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        unsafe { _mm512_storeu_pd(to, self) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f64, count: usize) {
        unsafe { _mm512_mask_storeu_pd(to, mask(count) as u8, self) }
    }

    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        unsafe { _mm512_mul_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, other: Self, addend: Self) -> Self {
        unsafe { _mm512_fmadd_pd(self, other, addend) }
    }
}
