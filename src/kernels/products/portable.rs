//! Kernels for any CPU: loops over 16 lanes with `mul_add`. That is one instruction if the CPU has it, and otherwise a
//! correctly rounded function that is some ten times slower.

use super::Real;
use super::driver::{self, ProductTask};
use super::instruction_set::{InstructionSet, Kernel, Tile, Vector, compute, of_rows};

const LANES: usize = 16;

/// Plain Rust, compiled for every machine of the platform.
struct Portable;

/// Plain Rust, compiled with the vectors and fused multiply-add of AVX2: the same bits as [`Portable`], but faster.
#[cfg(target_arch = "x86_64")]
struct PortableInAvx2;

/// Vector of sixteen numbers.
#[derive(Clone, Copy)]
struct Lanes<T>([T; LANES]);

/// Arithmetic of [`Lanes`].
pub(super) trait LaneFloat: Real {
    fn times(self, other: Self) -> Self;
    fn fused(self, other: Self, addend: Self) -> Self;
}

impl LaneFloat for f32 {
    #[inline(always)]
    fn times(self, other: f32) -> f32 {
        self * other
    }

    #[inline(always)]
    fn fused(self, other: f32, addend: f32) -> f32 {
        self.mul_add(other, addend)
    }
}

impl LaneFloat for f64 {
    #[inline(always)]
    fn times(self, other: f64) -> f64 {
        self * other
    }

    #[inline(always)]
    fn fused(self, other: f64, addend: f64) -> f64 {
        self.mul_add(other, addend)
    }
}

/// Runs a product in plain Rust.
///
/// # Safety
/// As for [`Real::run`].
pub(super) unsafe fn run<T: LaneFloat>(task: &ProductTask<T>) {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("fma") {
        // SAFETY: as the caller promises, and the machine has the instructions.
        return unsafe { driver::run::<T, PortableInAvx2>(task) };
    }
    // SAFETY: as the caller promises.
    unsafe { driver::run::<T, Portable>(task) }
}

impl<T: LaneFloat> InstructionSet<T> for Portable {
    type Vector = Lanes<T>;
    const ROWS: usize = 4;
    const VECTORS: usize = 1;

    unsafe fn kernel<const R: usize, const V: usize, const BY_COLUMNS: bool>(tile: &Tile<T>) {
        // SAFETY: as the caller promises.
        unsafe { compute::<T, Lanes<T>, R, V, BY_COLUMNS>(tile) }
    }

    fn select(rows: usize, _vectors: usize, by_columns: bool) -> Kernel<T> {
        of_rows::<T, Portable, 1>(rows, by_columns)
    }
}

#[cfg(target_arch = "x86_64")]
impl<T: LaneFloat> InstructionSet<T> for PortableInAvx2 {
    type Vector = Lanes<T>;
    const ROWS: usize = 4;
    const VECTORS: usize = 1;

    unsafe fn kernel<const R: usize, const V: usize, const BY_COLUMNS: bool>(tile: &Tile<T>) {
        #[target_feature(enable = "avx2,fma")]
        unsafe fn in_avx2<T: LaneFloat, const R: usize, const V: usize, const BY_COLUMNS: bool>(
            tile: &Tile<T>,
        ) {
            // SAFETY: as the caller promises.
            unsafe { compute::<T, Lanes<T>, R, V, BY_COLUMNS>(tile) }
        }
        // SAFETY: as the caller promises.
        unsafe { in_avx2::<T, R, V, BY_COLUMNS>(tile) }
    }

    fn select(rows: usize, _vectors: usize, by_columns: bool) -> Kernel<T> {
        of_rows::<T, PortableInAvx2, 1>(rows, by_columns)
    }
}

// SAFETY of all functions below: as the caller promises, see `Vector`.
impl<T: LaneFloat> Vector<T> for Lanes<T> {
    const LANES: usize = LANES;

    #[inline(always)]
    unsafe fn splat(value: T) -> Self {
        Lanes([value; LANES])
    }

    #[inline(always)]
    unsafe fn load(from: *const T) -> Self {
        unsafe { Lanes(from.cast::<[T; LANES]>().read_unaligned()) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const T, count: usize) -> Self {
        let mut lanes = [T::ZERO; LANES];
        unsafe { std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count) };
        Lanes(lanes)
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut T) {
        unsafe { to.cast::<[T; LANES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut T, count: usize) {
        unsafe { std::ptr::copy_nonoverlapping(self.0.as_ptr(), to, count) }
    }

    #[inline(always)]
    unsafe fn multiply(self, other: Self) -> Self {
        let mut product = self.0;
        product.iter_mut().zip(other.0).for_each(|(own, other)| *own = own.times(other));
        Lanes(product)
    }

    #[inline(always)]
    unsafe fn multiply_add(self, other: Self, addend: Self) -> Self {
        let mut sum = addend.0;
        for (lane, sum) in sum.iter_mut().enumerate() {
            *sum = self.0[lane].fused(other.0[lane], *sum);
        }
        Lanes(sum)
    }
}
