use super::*;
use crate::numerics::symmetric::{Gram, Symmetric};
use crate::numerics::vectors::Vectors;

/// None of them a multiple of a block but the first.
const ORDERS: [usize; 6] = [1, 2, 31, 97, 131, 200];

/// Numbers in `[-1, 1)` that repeat on every machine.
fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| draw()).collect()
}

/// Sum of the outer products of `rows` rows.
fn gram(order: usize, rows: usize) -> Symmetric {
    let mut gram = Gram::new(order);
    gram.add(&numbers(order * rows, 7));
    gram.finish()
}

fn indefinite(order: usize) -> Symmetric {
    Symmetric::from_full(order, &numbers(order * order, 3)).unwrap()
}

fn diagonal(values: &[f64]) -> Symmetric {
    let order = values.len();
    let mut full = vec![0.0; order * order];
    values.iter().enumerate().for_each(|(i, value)| full[i * order + i] = *value);
    Symmetric::from_full(order, &full).unwrap()
}

/// Rows of `width` times each other: `a b^T`, in plain loops.
fn by_rows(a: &[f64], b: &[f64], width: usize) -> Vec<f64> {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    let b = || b.chunks(width);
    a.chunks(width).flat_map(|x| b().map(move |y| dot(x, y))).collect()
}

fn assert_near(found: &[f64], wanted: &[f64], within: f64) {
    assert_eq!(found.len(), wanted.len());
    for (at, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!((found - wanted).abs() <= within, "{at}: {found} and not {wanted}");
    }
}

fn identity(order: usize) -> Vec<f64> {
    diagonal(&vec![1.0; order]).full()
}

/// `A z = value z` for every row `z`, and rows are orthonormal.
fn assert_decomposes(eigen: &Eigen, matrix: &Symmetric) {
    let order = matrix.order();
    let size = matrix.norm().max(f64::MIN_POSITIVE);
    let products = by_rows(&eigen.vectors, &matrix.full(), order);
    let rows = eigen.vectors.chunks(order.max(1)).zip(&eigen.values);
    let scaled: Vec<f64> = rows.flat_map(|(z, value)| z.iter().map(move |z| z * value)).collect();
    assert_near(&products, &scaled, 1e-14 * size);
    assert_near(&by_rows(&eigen.vectors, &eigen.vectors, order), &identity(order), 1e-13);
    assert!(eigen.values.is_sorted(), "{:?}", eigen.values);
}

#[test]
fn factor_of_a_whole_matrix_is_exact() {
    let full = [4.0, 12.0, -16.0, 12.0, 37.0, -43.0, -16.0, -43.0, 98.0];
    let factor = Cholesky::of(&Symmetric::from_full(3, &full).unwrap()).unwrap();
    assert_eq!(factor.order(), 3);
    assert_eq!(factor.lower(), [2.0, 0.0, 0.0, 6.0, 1.0, 0.0, -8.0, 5.0, 3.0]);
    // A (1, 2, 3) = (-20, -43, 192), and A (1, 0, -1) = (20, 55, -114).
    let found = factor.solve(&[-20.0, -43.0, 192.0, 20.0, 55.0, -114.0]);
    assert_near(&found, &[1.0, 2.0, 3.0, 1.0, 0.0, -1.0], 1e-10);
}

#[test]
fn factor_times_its_transpose_is_the_matrix() {
    for order in ORDERS {
        let matrix = gram(order, order + 20);
        let factor = Cholesky::of(&matrix).unwrap();
        let lower = factor.lower();
        assert_near(&by_rows(lower, lower, order), &matrix.full(), 1e-14 * matrix.norm());
        for i in 0..order {
            assert!(lower[i * order + i] > 0.0);
            assert!(lower[i * order..][i + 1..order].iter().all(|above| *above == 0.0));
        }
    }
}

#[test]
fn solutions_satisfy_their_equations() {
    for order in ORDERS {
        let mut matrix = gram(order, order);
        matrix.add_to_diagonal(1.0);
        let factor = Cholesky::of(&matrix).unwrap();
        for count in [0, 1, 7] {
            let right = numbers(count * order, 5);
            let solved = factor.solve(&right);
            assert_near(&by_rows(&solved, &matrix.full(), order), &right, 1e-12);
        }
    }
}

#[test]
fn solution_does_not_depend_on_its_neighbors() {
    for order in [31, 131] {
        let factor = Cholesky::of(&gram(order, 300)).unwrap();
        let right = numbers(100 * order, 9);
        let together = factor.solve(&right);
        let each: Vec<f64> = right.chunks(order).flat_map(|row| factor.solve(row)).collect();
        assert!(together == each);
        let pieces: Vec<f64> =
            right.chunks(33 * order).flat_map(|rows| factor.solve(rows)).collect();
        assert!(together == pieces);
    }
}

#[test]
fn matrix_without_positive_pivots_has_no_factor() {
    let refused = |matrix: &Symmetric| Cholesky::of(matrix).unwrap_err();
    let mut values = vec![2.0; 150];
    values[130] = -3.0;
    let error = refused(&diagonal(&values));
    assert_eq!(error, NotPositiveDefinite { order: 150, row: 130, pivot: -3.0 });
    assert!(error.to_string().contains("pivot 130 is -3e0"), "{error}");
    let singular = Symmetric::from_packed(2, vec![4.0, 2.0, 1.0]).unwrap();
    assert_eq!(refused(&singular), NotPositiveDefinite { order: 2, row: 1, pivot: 0.0 });
    let saddle = Symmetric::from_packed(2, vec![1.0, 2.0, 1.0]).unwrap();
    assert_eq!(refused(&saddle), NotPositiveDefinite { order: 2, row: 1, pivot: -3.0 });
    assert_eq!(refused(&indefinite(97)).order, 97);
    for broken in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for at in [0, 5, 1_500] {
            let mut packed = gram(97, 200).packed().to_vec();
            packed[at] = broken;
            refused(&Symmetric::from_packed(97, packed).unwrap());
        }
    }
}

#[test]
fn empty_matrix_has_an_empty_factor_and_no_eigenvalues() {
    let empty = Symmetric::zeros(0);
    let factor = Cholesky::of(&empty).unwrap();
    assert!(factor.lower().is_empty() && factor.solve(&[]).is_empty());
    assert_eq!(Eigen::of(&empty), Ok(Eigen { values: vec![], vectors: vec![] }));
    assert_eq!(eigenvalues(&empty), Ok(vec![]));
}

#[test]
fn eigenvalues_of_small_matrices_are_known() {
    let one = Eigen::of(&diagonal(&[-5.0])).unwrap();
    assert_eq!((one.values, one.vectors), (vec![-5.0], vec![1.0]));
    let two = Eigen::of(&Symmetric::from_packed(2, vec![1.0, 2.0, -2.0]).unwrap()).unwrap();
    assert_near(&two.values, &[-3.0, 2.0], 1e-15);
    let sign = two.vectors[2].signum();
    let long: Vec<f64> = two.vectors[2..].iter().map(|z| sign * z).collect();
    assert_near(&long, &[2.0 / 5f64.sqrt(), 1.0 / 5f64.sqrt()], 1e-15);
    assert_eq!(eigenvalues(&Symmetric::zeros(3)), Ok(vec![0.0; 3]));
    assert_eq!(Eigen::of(&Symmetric::zeros(3)).unwrap().vectors, identity(3));
}

#[test]
fn eigenvectors_of_a_diagonal_are_its_axes_by_value() {
    let eigen = Eigen::of(&diagonal(&[3.0, -1.0, 7.0, 0.5])).unwrap();
    assert_eq!(eigen.values, [-1.0, 0.5, 3.0, 7.0]);
    for (row, axis) in eigen.vectors.chunks(4).zip([1, 3, 0, 2]) {
        assert_eq!(row.iter().position(|z| z.abs() == 1.0), Some(axis));
        assert_eq!(row.iter().filter(|z| **z != 0.0).count(), 1);
    }
}

/// The string of `n` equal masses: `2 - 2 cos(k pi / (n + 1))`.
#[test]
fn eigenvalues_of_a_vibrating_string_are_known() {
    for order in [31, 131] {
        let entry = |i: usize, j: usize| match i - j {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        };
        let packed = (0..order).flat_map(|i| (0..=i).map(move |j| entry(i, j))).collect();
        let matrix = Symmetric::from_packed(order, packed).unwrap();
        let angle = |k: usize| k as f64 * std::f64::consts::PI / (order + 1) as f64;
        let wanted: Vec<f64> = (1..=order).map(|k| 2.0 - 2.0 * libm::cos(angle(k))).collect();
        assert_near(&eigenvalues(&matrix).unwrap(), &wanted, 1e-14);
        assert_decomposes(&Eigen::of(&matrix).unwrap(), &matrix);
    }
}

#[test]
fn repeated_eigenvalues_have_orthogonal_vectors() {
    let order = 97;
    let mut matrix = Symmetric::from_full(order, &vec![1.0; order * order]).unwrap();
    matrix.add_to_diagonal(2.0);
    let eigen = Eigen::of(&matrix).unwrap();
    let mut wanted = vec![2.0; order];
    wanted[order - 1] += order as f64;
    assert_near(&eigen.values, &wanted, 1e-12);
    assert_decomposes(&eigen, &matrix);
}

#[test]
fn rank_deficient_matrix_has_as_many_zeros() {
    let matrix = gram(131, 40);
    let eigen = Eigen::of(&matrix).unwrap();
    let largest = eigen.values[130];
    assert!(eigen.values[..91].iter().all(|value| value.abs() < 1e-14 * largest));
    assert!(eigen.values[91..].iter().all(|value| *value > 1e-3 * largest));
    assert_decomposes(&eigen, &matrix);
}

#[test]
fn any_order_decomposes_with_and_without_vectors_alike() {
    for order in ORDERS {
        for matrix in [indefinite(order), gram(order, order / 2 + 1)] {
            let eigen = Eigen::of(&matrix).unwrap();
            assert_decomposes(&eigen, &matrix);
            assert!((eigen.values.iter().sum::<f64>() - matrix.trace()).abs() < 1e-11);
            assert!(eigenvalues(&matrix).unwrap() == eigen.values);
        }
    }
}

/// Powers of two change no digit, even where squares would overflow or vanish.
#[test]
fn scale_of_a_matrix_is_that_of_its_eigenvalues() {
    let matrix = indefinite(31);
    let eigen = Eigen::of(&matrix).unwrap();
    for exponent in [-900, -40, 3, 1_000] {
        let scale = 2f64.powi(exponent);
        let mut scaled = Symmetric::zeros(31);
        scaled.add_scaled(scale, &matrix);
        let found = Eigen::of(&scaled).unwrap();
        let wanted: Vec<f64> = eigen.values.iter().map(|value| scale * value).collect();
        assert!(found.values == wanted && found.vectors == eigen.vectors);
    }
}

/// Blocks of very different size; the squares of the smallest entries vanish.
#[test]
fn graded_matrix_has_orthogonal_vectors() {
    let order = 24;
    let mut packed = indefinite(order).packed().to_vec();
    let sizes = [1.0, 1e-80, 1e-155, 1e-158, 1e-162, 1e-300];
    for i in 0..order {
        for j in 0..=i {
            packed[i * (i + 1) / 2 + j] *= sizes[i / 4] * if i / 4 == j / 4 { 1.0 } else { 0.0 };
        }
    }
    let matrix = Symmetric::from_packed(order, packed).unwrap();
    assert_decomposes(&Eigen::of(&matrix).unwrap(), &matrix);
    let tiny = Symmetric::from_packed(2, vec![5e-324, 5e-324, 0.0]).unwrap();
    assert_decomposes(&Eigen::of(&tiny).unwrap(), &tiny);
}

#[test]
fn matrix_that_is_not_finite_has_no_eigenvalues() {
    for broken in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        for at in [0, 1, 44] {
            let mut packed = gram(9, 9).packed().to_vec();
            packed[at] = broken;
            let matrix = Symmetric::from_packed(9, packed).unwrap();
            assert_eq!(eigenvalues(&matrix), Err(EigenError::NotFinite { order: 9 }));
            assert_eq!(Eigen::of(&matrix), Err(EigenError::NotFinite { order: 9 }));
        }
    }
    // Each entry is finite, their sum is no number of f64.
    let huge = Symmetric::from_full(2, &[f64::MAX; 4]).unwrap();
    assert_eq!(eigenvalues(&huge), Err(EigenError::NotFinite { order: 2 }));
}

#[test]
fn width_of_vectors_never_shows() {
    for order in [31, 131] {
        let matrix = gram(order, order + 10);
        let right = numbers(5 * order, 11);
        let all = || {
            let factor = Cholesky::of(&matrix).unwrap();
            let Eigen { values, vectors } = Eigen::of(&matrix).unwrap();
            let results = [factor.lower(), &factor.solve(&right), &values, &vectors].concat();
            results.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        let widest = all();
        for vectors in Vectors::ALL {
            assert!(vectors.limit(all) == widest, "{vectors:?}");
        }
    }
}
