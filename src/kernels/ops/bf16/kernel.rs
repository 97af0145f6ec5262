//! One tile of a product in `bf16`: by a CPU instruction, or step by step with the same bits.
//!
//! The instruction (VDPBF16PS) adds the product of the odd elements of two pairs, then that of the even ones, each time
//! rounding once as a fused multiply-add does. Denormal numbers count as zero, as inputs and as results.

use std::mem::MaybeUninit;

use super::narrowed::Narrowed;
use super::panels::ColumnPanel;
use crate::ops::matrix::Onto;
use crate::vectors::Vectors;

/// Rows of a tile.
pub(super) const ROWS: usize = 8;
/// Columns of a tile: three vectors of 512 bits, so that with 8 rows the sums fill 24 of 32 registers.
pub(super) const COLUMNS: usize = 48;
/// Number of values in a vector of 512 bits.
const LANES: usize = 16;

/// Destination of a tile: `values = scale * sums + onto`.
pub(super) struct TileTarget<'a> {
    /// Values from the tile's first one on.
    pub values: &'a mut [MaybeUninit<f32>],
    pub row_stride: usize,
    /// Number of rows that exist, of [`ROWS`].
    pub rows: usize,
    /// Summand, from the tile's first column on. Values that are added to must be initialized.
    pub onto: Onto<'a>,
    pub scale: f32,
}

/// Function that multiplies the rows of `a` from `top` on with a panel, and writes the result.
pub(super) type Multiply =
    fn(a: &Narrowed<'_>, top: usize, b: &ColumnPanel<'_>, target: &mut TileTarget<'_>);

/// Returns the fastest kernel of this machine.
pub(super) fn multiply() -> Multiply {
    #[cfg(target_arch = "x86_64")]
    match Vectors::in_use() {
        // SAFETY: the machine has the features.
        Vectors::Avx512Bf16 => {
            return |a, top, b, target| unsafe {
                match b.columns.div_ceil(LANES) {
                    1 => by_instruction::<1>(a, top, b, target),
                    2 => by_instruction::<2>(a, top, b, target),
                    _ => by_instruction::<3>(a, top, b, target),
                }
            };
        }
        // SAFETY: the machine has the features.
        Vectors::Avx512 => return |a, top, b, target| unsafe { in_avx512(a, top, b, target) },
        // SAFETY: the machine has the features.
        Vectors::Avx2 => return |a, top, b, target| unsafe { in_avx2(a, top, b, target) },
        Vectors::Baseline => {}
    }
    step_by_step
}

/// Multiplies by the instruction. `VECTORS` is the number of vectors that the columns of `b` fill.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bf16")]
fn by_instruction<const VECTORS: usize>(
    a: &Narrowed<'_>,
    top: usize,
    b: &ColumnPanel<'_>,
    target: &mut TileTarget<'_>,
) {
    use std::arch::x86_64::{
        __m512, __m512bh, __m512i, _mm512_add_ps, _mm512_dpbf16_ps, _mm512_loadu_si512,
        _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_mul_ps, _mm512_set1_epi32,
        _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };
    let (rows, panel) = (rows(a, top), b.values);
    assert!(panel.len() == a.pairs * COLUMNS && b.columns.div_ceil(LANES) == VECTORS);
    let mut totals: [[__m512; VECTORS]; ROWS] = [[_mm512_setzero_ps(); VECTORS]; ROWS];
    for pair in 0..a.pairs {
        // SAFETY: the panel has COLUMNS numbers for each of the pairs; a number and two halves are the same bits.
        let right: [__m512bh; VECTORS] = std::array::from_fn(|v| unsafe {
            let from = panel.as_ptr().add(pair * COLUMNS + LANES * v);
            std::mem::transmute::<__m512i, __m512bh>(_mm512_loadu_si512(from.cast()))
        });
        for (row, totals) in totals.iter_mut().enumerate() {
            // SAFETY: `rows` has checked that the last pair of the last row lies inside.
            let both = unsafe { *rows.get_unchecked(row * a.row_stride + pair * a.pair_stride) };
            // SAFETY: a number and two halves are the same bits.
            let left: __m512bh = unsafe { std::mem::transmute(_mm512_set1_epi32(both as i32)) };
            for (total, right) in totals.iter_mut().zip(right) {
                *total = _mm512_dpbf16_ps(*total, left, right);
            }
        }
    }
    let scale = _mm512_set1_ps(target.scale);
    let filled = |v: usize| u16::MAX >> (LANES * (v + 1)).saturating_sub(b.columns);
    if let Onto::Row(added) = target.onto {
        assert!(added.len() >= b.columns);
    }
    for (row, totals) in totals.iter().take(target.rows).enumerate() {
        let values = &mut target.values[row * target.row_stride..][..b.columns];
        for (v, total) in totals.iter().enumerate() {
            let mut value = _mm512_mul_ps(scale, *total);
            // SAFETY: only the lanes of columns that the row has are read and written.
            unsafe {
                let to = values.as_mut_ptr().cast::<f32>().add(LANES * v);
                let added = match target.onto {
                    Onto::Nothing => None,
                    Onto::Itself => Some(to.cast_const()),
                    Onto::Row(row) => Some(row.as_ptr().add(LANES * v)),
                };
                if let Some(added) = added {
                    value = _mm512_add_ps(_mm512_maskz_loadu_ps(filled(v), added), value);
                }
                // Whole vectors are stored directly, as masked stores are slower.
                match filled(v) {
                    u16::MAX => _mm512_storeu_ps(to, value),
                    some => _mm512_mask_storeu_ps(to, some, value),
                }
            }
        }
    }
}

/// Returns the pairs of [`Narrowed`] from row `top` on.
///
/// # Panics
/// Panics if it does not hold all pairs of a tile's rows.
#[inline(always)]
fn rows<'a>(a: &Narrowed<'a>, top: usize) -> &'a [u32] {
    let rows = &a.values[top * a.row_stride..];
    let last = (ROWS - 1) * a.row_stride + a.pairs.saturating_sub(1) * a.pair_stride;
    assert!(a.pairs == 0 || last < rows.len(), "a tile beyond its rows");
    rows
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512dq,fma")]
fn in_avx512(a: &Narrowed<'_>, top: usize, b: &ColumnPanel<'_>, target: &mut TileTarget<'_>) {
    step_by_step(a, top, b, target);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn in_avx2(a: &Narrowed<'_>, top: usize, b: &ColumnPanel<'_>, target: &mut TileTarget<'_>) {
    step_by_step(a, top, b, target);
}

#[inline(always)]
fn step_by_step(a: &Narrowed<'_>, top: usize, b: &ColumnPanel<'_>, target: &mut TileTarget<'_>) {
    let rows = rows(a, top);
    for row in 0..target.rows {
        let mut totals = [0f32; COLUMNS];
        for (pair, right) in b.values.as_chunks::<COLUMNS>().0.iter().enumerate() {
            let both = rows[row * a.row_stride + pair * a.pair_stride];
            let (even, odd) = (widened(both), f32::from_bits(both & 0xffff_0000));
            for (total, &right) in totals.iter_mut().zip(right) {
                *total = flushed(odd.mul_add(f32::from_bits(right & 0xffff_0000), *total));
                *total = flushed(even.mul_add(widened(right), *total));
            }
        }
        let values = &mut target.values[row * target.row_stride..][..b.columns];
        for (column, (value, total)) in values.iter_mut().zip(totals).enumerate() {
            let scaled = target.scale * total;
            value.write(match target.onto {
                Onto::Nothing => scaled,
                // SAFETY: there are values to be added to.
                Onto::Itself => scaled + unsafe { value.assume_init_read() },
                Onto::Row(row) => row[column] + scaled,
            });
        }
    }
}

/// Returns the `bf16` number in the low half of `bits`.
#[inline(always)]
fn widened(bits: u32) -> f32 {
    f32::from_bits(bits << 16)
}

/// Returns zero with the sign of `value` if that is denormal.
#[inline(always)]
fn flushed(value: f32) -> f32 {
    let bits = value.to_bits();
    f32::from_bits(if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits })
}
