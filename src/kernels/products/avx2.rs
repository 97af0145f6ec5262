//! Kernels for AVX2: tiles of 6 rows by 2 vectors of 256 bits, whose sums fill 12 of 16 registers.

use std::arch::x86_64::*;

use super::Real;
use super::instruction_set::{InstructionSet, Kernel, Tile, Vector, compute, of_rows};
use super::transposing::{transpose_f32, transpose_f64};

/// AVX2 with fused multiply-add.
pub(super) struct Avx2;

#[target_feature(enable = "avx2,fma")]
unsafe fn in_avx2<T: Real, X: Vector<T>, const R: usize, const V: usize, const BY_COLUMNS: bool>(
    tile: &Tile<T>,
) {
    // SAFETY: as the caller promises.
    unsafe { compute::<T, X, R, V, BY_COLUMNS>(tile) }
}

impl InstructionSet<f32> for Avx2 {
    type Vector = __m256;
    const ROWS: usize = 6;
    const VECTORS: usize = 2;

    unsafe fn kernel<const R: usize, const V: usize, const BY_COLUMNS: bool>(tile: &Tile<f32>) {
        // SAFETY: as the caller promises.
        unsafe { in_avx2::<f32, __m256, R, V, BY_COLUMNS>(tile) }
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
            1 => of_rows::<f32, Avx2, 1>(rows, by_columns),
            _ => of_rows::<f32, Avx2, 2>(rows, by_columns),
        }
    }
}

impl InstructionSet<f64> for Avx2 {
    type Vector = __m256d;
    const ROWS: usize = 6;
    const VECTORS: usize = 2;

    unsafe fn kernel<const R: usize, const V: usize, const BY_COLUMNS: bool>(tile: &Tile<f64>) {
        // SAFETY: as the caller promises.
        unsafe { in_avx2::<f64, __m256d, R, V, BY_COLUMNS>(tile) }
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
            1 => of_rows::<f64, Avx2, 1>(rows, by_columns),
            _ => of_rows::<f64, Avx2, 2>(rows, by_columns),
        }
    }
}

/// Returns the mask of the first `count` of eight lanes.
#[inline(always)]
unsafe fn mask_of_8(count: usize) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe {
        let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes)
    }
}

/// Returns the mask of the first `count` of four lanes.
#[inline(always)]
unsafe fn mask_of_4(count: usize) -> __m256i {
    // SAFETY: as the caller promises.
    unsafe {
        let lanes = _mm256_setr_epi64x(0, 1, 2, 3);
        _mm256_cmpgt_epi64(_mm256_set1_epi64x(count as i64), lanes)
    }
}

// SAFETY of all functions below: as the caller promises, see `Vector`.
impl Vector<f32> for __m256 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { _mm256_set1_ps(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        unsafe { _mm256_maskload_ps(from, mask_of_8(count)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm256_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        unsafe { _mm256_maskstore_ps(to, mask_of_8(count), self) }
    }

    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        unsafe { _mm256_mul_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, other: Self, addend: Self) -> Self {
        unsafe { _mm256_fmadd_ps(self, other, addend) }
    }
}

// SAFETY of all functions below: as the caller promises, see `Vector`.
impl Vector<f64> for __m256d {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(value: f64) -> Self {
        unsafe { _mm256_set1_pd(value) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        unsafe { _mm256_loadu_pd(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f64, count: usize) -> Self {
        unsafe { _mm256_maskload_pd(from, mask_of_4(count)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        unsafe { _mm256_storeu_pd(to, self) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f64, count: usize) {
        unsafe { _mm256_maskstore_pd(to, mask_of_4(count), self) }
    }

    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        unsafe { _mm256_mul_pd(self, other) }
    }

    #[inline(always)]
    unsafe fn multiply_add(self, other: Self, addend: Self) -> Self {
        unsafe { _mm256_fmadd_pd(self, other, addend) }
    }
}
