use super::super::Vectors;
use super::super::matrix::Precision;
use super::*;

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
    assert_eq!((a.columns, b.rows), (inner, inner));
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
    [3, 0, 5],
    [17, 65, 100],
    [40, 7, 16],
    [33, 12, 191],
    // More than a block of rows, a group of panels, and both at once.
    [40, 5_000, 3],
    [3, 4_000, 100],
];

/// All four ways in which factors can lie in memory.
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
    matrix.data[row * matrix.row_stride + column * matrix.column_stride]
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

/// Numbers at the edges of the format, where the instruction has rules of its own.
#[test]
fn tiny_and_huge_numbers_are_treated_alike() {
    let edges = [0.0, -0.0, 1e-45, -3e-39, 1.2e-38, 1e-20, 2e-19, -1e-30, 3e38, -2e30, 1.0];
    let some = |step: usize| -> Vec<f32> { (0..48 * 12).map(|i| edges[i * step % 11]).collect() };
    let (a, b) = (some(3), some(7));
    let (a, b) = (Matrix::dense(&a, 48, 12), Matrix::dense(&b, 12, 48));
    let of = |vectors: Vectors| vectors.limit(|| product(false, [48, 12, 48], a, b));
    let narrow = of(Vectors::Baseline);
    for vectors in Vectors::ALL {
        for (found, expected) in of(vectors).into_iter().zip(&narrow) {
            let both_nan = found.is_nan() && expected.is_nan();
            assert!(both_nan || found.to_bits() == expected.to_bits(), "{found:e} {expected:e}");
        }
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
