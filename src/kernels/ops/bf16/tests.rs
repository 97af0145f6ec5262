use super::super::matrix::{MatrixMut, Precision};
use super::*;
use crate::vectors::Vectors;

/// Values of both signs over a few magnitudes.
fn values(count: usize, step: u32) -> Vec<f32> {
    let hash = |i: u32| (i + step).wrapping_mul(2_654_435_761) >> 7;
    let value = |i: u32| f32::from_bits((hash(i) << 9 >> 9) | 0x3d80_0000 | hash(i) << 31);
    (0..count as u32).map(value).collect()
}

/// `start + scale * a b`, or without the start, by the definition.
fn product(
    accumulate: bool,
    [rows, inner, columns]: [usize; 3],
    a: Matrix<'_>,
    b: Matrix<'_>,
) -> Vec<f32> {
    let stride = columns + 3;
    let mut target = vec![0.5; rows * stride];
    let view = MatrixMut::strided(&mut target, rows, columns, stride).at(Precision::Bf16);
    assert_eq!((a.columns(), b.rows()), (inner, inner));
    if accumulate {
        view.add(0.25, a, b)
    } else {
        view.set(0.25, a, b)
    };
    target
}

const SHAPES: [[usize; 3]; 9] = [
    [1, 1, 1],
    [8, 2, 48],
    [9, 3, 49],
    [30, 0, 5],
    [17, 65, 100],
    [40, 7, 16],
    [33, 12, 191],
    // More than a block of rows, a group of panels, and both at once.
    [40, 5_000, 3],
    [3, 4_000, 100],
];

/// Visits all four ways in which factors can lie in memory.
fn each_layout(shape: [usize; 3], mut visit: impl FnMut(&str, Matrix<'_>, Matrix<'_>)) {
    let [rows, inner, columns] = shape;
    let (a, b) = (values((rows + 2) * (inner + 2), 1), values((inner + 2) * (columns + 2), 7));
    let (by_row, by_column) = (
        Matrix::strided(&a, rows, inner, inner + 2),
        Matrix::strided(&a, inner, rows, rows + 1).t(),
    );
    let (right, turned) = (
        Matrix::strided(&b, inner, columns, columns + 1),
        Matrix::strided(&b, columns, inner, inner + 2).t(),
    );
    visit("rows by rows", by_row, right);
    visit("rows by columns", by_row, turned);
    visit("columns by rows", by_column, right);
    visit("columns by columns", by_column, turned);
}

fn at(matrix: Matrix<'_>, row: usize, column: usize) -> f32 {
    matrix.data()[row * matrix.row_stride() + column * matrix.column_stride()]
}

#[test]
fn a_product_is_that_of_the_rounded_factors() {
    for shape in SHAPES {
        let [rows, inner, columns] = shape;
        each_layout(shape, |layout, a, b| {
            for accumulate in [false, true] {
                let found = product(accumulate, shape, a, b);
                for (row, found) in found.chunks_exact(columns + 3).enumerate() {
                    for (column, value) in found[..columns].iter().enumerate() {
                        let wide = |v: f32| f64::from(half::bf16::from_f32(v));
                        let terms =
                            (0..inner).map(|i| wide(at(a, row, i)) * wide(at(b, i, column)));
                        let (sum, size) =
                            terms.fold((0.0, 0.0), |(s, a), t: f64| (s + t, a + t.abs()));
                        let start = if accumulate { 0.5 } else { 0.0 };
                        let error = (f64::from(*value) - start - 0.25 * sum).abs();
                        assert!(
                            error <= 1e-5 * (size + 0.1),
                            "{shape:?} {layout} {row} {column}: {error}"
                        );
                    }
                    assert!(found[columns..].iter().all(|v| *v == 0.5), "{shape:?} {layout}");
                }
                assert_eq!(found.len(), rows * (columns + 3));
            }
        });
    }
}

/// The promise behind level N: machines without the instruction find the same bits.
#[test]
fn vectors_of_every_width_find_the_same_bits() {
    for shape in [[17, 65, 100], [9, 3, 49], [8, 400, 48]] {
        each_layout(shape, |layout, a, b| {
            let bits = |vectors: Vectors| -> Vec<u32> {
                let found = vectors.limit(|| product(true, shape, a, b));
                found.into_iter().map(f32::to_bits).collect()
            };
            for vectors in Vectors::ALL {
                let same = bits(vectors) == bits(Vectors::Baseline);
                assert!(same, "{shape:?} {layout} in {vectors:?}");
            }
        });
    }
}

/// Numbers at the edges of the format, where the instruction has its own rules: each times each, and added to others.
#[test]
fn tiny_and_huge_numbers_are_treated_alike() {
    let mut edges =
        vec![0.0, 1e-45, 3e-39, 1.2e-38, 1e-20, 2e-19, 1e-30, 3e38, 2e30, 1.0, f32::MAX];
    // The largest numbers below the normal ones, of which rounding would make a normal one, and ties.
    edges.extend(
        [0x007f_ffff, 0x007f_8000, 0x007f_7fff, 0x3f80_8000, 0x3f81_8000].map(f32::from_bits),
    );
    edges.extend([f32::INFINITY, f32::NAN]);
    let edges: Vec<f32> = edges.iter().flat_map(|edge| [*edge, -edge]).collect();
    let n = edges.len();
    for inner in [1, 2] {
        // Each edge is paired with another one of its neighbors.
        let shifted = |at: usize, step: usize| edges[(at + step * 5) % n];
        let a: Vec<f32> = (0..n * inner).map(|i| shifted(i / inner, i % inner)).collect();
        let b: Vec<f32> = (0..n * inner).map(|i| shifted(i % n, 3 * (i / n))).collect();
        for turned in [false, true] {
            let (a, b) = match turned {
                false => (Matrix::dense(&a, n, inner), Matrix::dense(&b, inner, n)),
                true => (Matrix::dense(&b, inner, n).t(), Matrix::dense(&a, n, inner).t()),
            };
            let of = |vectors: Vectors| vectors.limit(|| product(false, [n, inner, n], a, b));
            let plain = of(Vectors::Baseline);
            for vectors in Vectors::ALL {
                for (at, (found, expected)) in of(vectors).into_iter().zip(&plain).enumerate() {
                    let both_nan = found.is_nan() && expected.is_nan();
                    let same = both_nan || found.to_bits() == expected.to_bits();
                    assert!(same, "{inner} {at} in {vectors:?}: {found:e} {expected:e}");
                }
            }
        }
    }
}

/// Earlier products never show, not even where a factor is filled up.
#[test]
fn nothing_of_a_product_is_left_for_the_next() {
    let poison = vec![f32::NAN; 130 * 130];
    for vectors in Vectors::ALL {
        vectors.limit(|| {
            for shape in [[17, 65, 100], [9, 3, 49], [1, 1, 1], [40, 7, 16]] {
                each_layout(shape, |layout, a, b| {
                    let clean = product(false, shape, a, b);
                    let all = Matrix::dense(&poison, 130, 130);
                    product(false, [130; 3], all, all);
                    product(false, [130; 3], all.t(), all.t());
                    assert_eq!(
                        product(false, shape, a, b),
                        clean,
                        "{shape:?} {layout} {vectors:?}"
                    );
                    assert!(clean.iter().all(|value| value.is_finite()));
                });
            }
        });
    }
}

#[test]
fn a_row_has_the_same_bits_whatever_is_around_it() {
    let (rows, inner, columns) = (70, 200, 60);
    let (a, b) = (values(rows * inner, 1), values(columns * inner, 2));
    let weight = Matrix::dense(&b, columns, inner).t();
    let all = product(false, [rows, inner, columns], Matrix::dense(&a, rows, inner), weight);
    let row = Matrix::dense(&a[63 * inner..], 1, inner);
    let alone = product(false, [1, inner, columns], row, weight);
    assert_eq!(all[63 * (columns + 3)..][..columns], alone[..columns]);
}
