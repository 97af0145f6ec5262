//! [`Narrowing`](super::narrowing::Narrowing) by AVX512-BF16.
//!
//! Its instructions round exactly as the loops of the other implementation.

use std::arch::x86_64::{
    __m256bh, __m256i, __m512, __m512bh, __m512i, _mm512_cvtepu16_epi32, _mm512_cvtne2ps_pbh,
    _mm512_cvtneps_pbh, _mm512_loadu_ps, _mm512_maskz_loadu_ps, _mm512_or_si512,
    _mm512_setzero_si512, _mm512_shuffle_i32x4, _mm512_slli_epi32, _mm512_storeu_si512,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
};

use super::super::matrix::Matrix;
use super::kernel::COLUMNS;
use super::narrowing::STRIP;

/// Number of values in a vector.
const LANES: usize = STRIP;

const ROOM: &str = "room for whole vectors";

#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn along(pairs: &mut [u32], row: &[f32]) {
    let to = pairs.as_chunks_mut::<LANES>().0;
    let (whole, rest) = row.as_chunks::<{ 2 * LANES }>();
    assert!(to.len() >= row.len().div_ceil(2 * LANES), "{ROOM}");
    for (to, from) in to.iter_mut().zip(whole) {
        store(to, neighbors(from));
    }
    if !rest.is_empty() {
        store(&mut to[whole.len()], neighbors(rest));
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn across(pairs: &mut [u32], upper: &[f32], lower: Option<&[f32]>) {
    let to = pairs.as_chunks_mut::<LANES>().0;
    let (whole, rest) = upper.as_chunks::<LANES>();
    assert!(to.len() >= upper.len().div_ceil(LANES), "{ROOM}");
    let Some(lower) = lower else {
        for (to, upper) in to.iter_mut().zip(upper.chunks(LANES)) {
            store(to, halves(loaded(upper)));
        }
        return;
    };
    let (whole_below, rest_below) = lower.as_chunks::<LANES>();
    for ((to, upper), lower) in to.iter_mut().zip(whole).zip(whole_below) {
        store(to, both(loaded(upper), loaded(lower)));
    }
    if !rest.is_empty() {
        store(&mut to[whole.len()], both(loaded(rest), loaded(rest_below)));
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
pub(super) fn down(pairs: &mut [u32], matrix: Matrix<'_>, first: usize) {
    let (data, rows, columns) = (matrix.data(), matrix.rows(), matrix.columns());
    let column_stride = matrix.column_stride();
    let mut lines = [_mm512_setzero_si512(); STRIP];
    for top in (0..rows.div_ceil(2)).step_by(LANES) {
        for (column, line) in (first..columns).zip(&mut lines) {
            let column = &data[column * column_stride..][..rows][2 * top..];
            *line = neighbors(&column[..column.len().min(2 * LANES)]);
        }
        let below = pairs[top * COLUMNS..].chunks_mut(COLUMNS);
        for (to, line) in below.take(rows.div_ceil(2) - top).zip(turned(lines)) {
            store(to.first_chunk_mut().expect(ROOM), line);
        }
    }
}

/// Loads a vector of at most 16 values, padded with zeros.
#[inline]
#[target_feature(enable = "avx512f")]
fn loaded(values: &[f32]) -> __m512 {
    // SAFETY: only lanes of values that are there are read.
    unsafe {
        match values.len() {
            LANES => _mm512_loadu_ps(values.as_ptr()),
            some => _mm512_maskz_loadu_ps((1u16 << some) - 1, values.as_ptr()),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(to: &mut [u32; LANES], numbers: __m512i) {
    // SAFETY: there are as many places.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), numbers) }
}

/// Loads at most 32 values as 16 pairs, padded with zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn neighbors(values: &[f32]) -> __m512i {
    let (first, second) = values.split_at(values.len().min(LANES));
    let both = _mm512_cvtne2ps_pbh(loaded(second), loaded(first));
    // SAFETY: two halves and a number are the same bits.
    unsafe { std::mem::transmute::<__m512bh, __m512i>(both) }
}

/// Pairs the values of two rows, the upper one in the low halves.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn both(upper: __m512, lower: __m512) -> __m512i {
    _mm512_or_si512(halves(upper), _mm512_slli_epi32::<16>(halves(lower)))
}

/// Rounds values to `bf16`, in the lower halves of 32-bit numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn halves(values: __m512) -> __m512i {
    let halves = _mm512_cvtneps_pbh(values);
    // SAFETY: the same bits.
    _mm512_cvtepu16_epi32(unsafe { std::mem::transmute::<__m256bh, __m256i>(halves) })
}

/// Transposes 16 x 16 numbers by exchanging pairs of neighbors, then groups of four, then quarters.
#[inline]
#[target_feature(enable = "avx512f")]
fn turned(lines: [__m512i; LANES]) -> [__m512i; LANES] {
    let mut twos = lines;
    for (to, from) in twos.chunks_exact_mut(2).zip(lines.chunks_exact(2)) {
        to[0] = _mm512_unpacklo_epi32(from[0], from[1]);
        to[1] = _mm512_unpackhi_epi32(from[0], from[1]);
    }
    let mut fours = twos;
    for (to, from) in fours.chunks_exact_mut(4).zip(twos.chunks_exact(4)) {
        to[0] = _mm512_unpacklo_epi64(from[0], from[2]);
        to[1] = _mm512_unpackhi_epi64(from[0], from[2]);
        to[2] = _mm512_unpacklo_epi64(from[1], from[3]);
        to[3] = _mm512_unpackhi_epi64(from[1], from[3]);
    }
    // Quarter `q` of `fours[4 i + j]` now holds the lines `4 i ..` of column `4 q + j`.
    let mut all = fours;
    for j in 0..4 {
        let (a, b, c, d) = (fours[j], fours[4 + j], fours[8 + j], fours[12 + j]);
        let (even, odd) = (
            [_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0x88>(c, d)],
            [_mm512_shuffle_i32x4::<0xdd>(a, b), _mm512_shuffle_i32x4::<0xdd>(c, d)],
        );
        all[j] = _mm512_shuffle_i32x4::<0x88>(even[0], even[1]);
        all[4 + j] = _mm512_shuffle_i32x4::<0x88>(odd[0], odd[1]);
        all[8 + j] = _mm512_shuffle_i32x4::<0xdd>(even[0], even[1]);
        all[12 + j] = _mm512_shuffle_i32x4::<0xdd>(odd[0], odd[1]);
    }
    all
}
