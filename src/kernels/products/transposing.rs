//! Transposition of columns into packed rows, in registers of 256 bits.

use std::arch::x86_64::*;

use super::instruction_set::one_by_one;

/// Transposes 8 x 8 values at a time.
///
/// See [`InstructionSet::transpose`](super::instruction_set::InstructionSet::transpose).
///
/// # Safety
/// As for that function, on a machine with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_f32(
    from: *const f32,
    stride: isize,
    columns: usize,
    inner: usize,
    to: *mut f32,
    width: usize,
) {
    // SAFETY: as the caller promises; `square` stays inside of `inner` values of the columns that are there.
    unsafe {
        for left in (0..width).step_by(8) {
            let there = columns.saturating_sub(left).min(8);
            let (from, to) = (from.offset(left as isize * stride), to.add(left));
            for first in starts(inner, 8) {
                let square: [__m256; 8] = std::array::from_fn(|column| match column < there {
                    true => _mm256_loadu_ps(from.offset(column as isize * stride).add(first)),
                    false => _mm256_setzero_ps(),
                });
                for (row, values) in transposed_8(square).into_iter().enumerate() {
                    _mm256_storeu_ps(to.add((first + row) * width), values);
                }
            }
            if inner < 8 {
                one_by_one(from, stride, there, inner, to, width, 8);
            }
        }
    }
}

/// Transposes 4 x 4 values at a time.
///
/// See [`InstructionSet::transpose`](super::instruction_set::InstructionSet::transpose).
///
/// # Safety
/// As for that function, on a machine with AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_f64(
    from: *const f64,
    stride: isize,
    columns: usize,
    inner: usize,
    to: *mut f64,
    width: usize,
) {
    // SAFETY: as the caller promises; `square` stays inside of `inner` values of the columns that are there.
    unsafe {
        for left in (0..width).step_by(4) {
            let there = columns.saturating_sub(left).min(4);
            let (from, to) = (from.offset(left as isize * stride), to.add(left));
            for first in starts(inner, 4) {
                let square: [__m256d; 4] = std::array::from_fn(|column| match column < there {
                    true => _mm256_loadu_pd(from.offset(column as isize * stride).add(first)),
                    false => _mm256_setzero_pd(),
                });
                for (row, values) in transposed_4(square).into_iter().enumerate() {
                    _mm256_storeu_pd(to.add((first + row) * width), values);
                }
            }
            if inner < 4 {
                one_by_one(from, stride, there, inner, to, width, 4);
            }
        }
    }
}

/// Returns the starts of squares of `size` that cover `inner` positions.
///
/// The last square may overlap the one before. There are none if `inner` is smaller than a square.
fn starts(inner: usize, size: usize) -> impl Iterator<Item = usize> {
    let squares = if inner < size { 0 } else { inner.div_ceil(size) };
    (0..squares).map(move |square| (square * size).min(inner - size))
}

#[target_feature(enable = "avx2")]
fn transposed_4(rows: [__m256d; 4]) -> [__m256d; 4] {
    let [a, b, c, d] = rows;
    let (ab_even, ab_odd) = (_mm256_unpacklo_pd(a, b), _mm256_unpackhi_pd(a, b));
    let (cd_even, cd_odd) = (_mm256_unpacklo_pd(c, d), _mm256_unpackhi_pd(c, d));
    [
        _mm256_permute2f128_pd::<0x20>(ab_even, cd_even),
        _mm256_permute2f128_pd::<0x20>(ab_odd, cd_odd),
        _mm256_permute2f128_pd::<0x31>(ab_even, cd_even),
        _mm256_permute2f128_pd::<0x31>(ab_odd, cd_odd),
    ]
}

#[target_feature(enable = "avx2")]
fn transposed_8(rows: [__m256; 8]) -> [__m256; 8] {
    // Pairs of rows, then fours, then halves: the names count columns modulo four.
    let pairs: [[__m256; 2]; 4] = std::array::from_fn(|pair| {
        let (upper, lower) = (rows[2 * pair], rows[2 * pair + 1]);
        [_mm256_unpacklo_ps(upper, lower), _mm256_unpackhi_ps(upper, lower)]
    });
    let fours: [[__m256; 4]; 2] = std::array::from_fn(|four| {
        let ([a_low, a_high], [b_low, b_high]) = (pairs[2 * four], pairs[2 * four + 1]);
        [
            _mm256_shuffle_ps::<0x44>(a_low, b_low),
            _mm256_shuffle_ps::<0xee>(a_low, b_low),
            _mm256_shuffle_ps::<0x44>(a_high, b_high),
            _mm256_shuffle_ps::<0xee>(a_high, b_high),
        ]
    });
    let [upper, lower] = fours;
    std::array::from_fn(|column| match column {
        0..4 => _mm256_permute2f128_ps::<0x20>(upper[column], lower[column]),
        _ => _mm256_permute2f128_ps::<0x31>(upper[column - 4], lower[column - 4]),
    })
}
