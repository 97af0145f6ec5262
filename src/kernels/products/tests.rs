//! Every kernel against the rule written as loops, bit for bit.

use super::*;

/// Numbers for shapes and values: a linear congruential sequence, the same on every machine.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % limit
    }

    /// Returns numbers of both signs over 12 binary orders.
    ///
    /// With `wild` there are zeros, infinities and not-a-numbers among them.
    fn values<T: ReferenceFloat>(&mut self, len: usize, wild: bool) -> Vec<T> {
        let mut one = || {
            let size = (self.below(2001) as f64 / 1000.0 - 1.0) * 2f64.powi(self.below(12) as i32);
            match if wild { self.below(200) } else { 200 } {
                0 => T::of(f64::INFINITY),
                1 => T::of(f64::NEG_INFINITY),
                2 => T::of(f64::NAN),
                3..10 => T::of(0.0),
                10..20 => T::of(size * 1e-41),
                _ => T::of(size),
            }
        };
        (0..len).map(|_| one()).collect()
    }
}

trait ReferenceFloat: Real {
    fn of(value: f64) -> Self;
    fn fma(self, by: Self, onto: Self) -> Self;
    fn times(self, by: Self) -> Self;
    fn bits(self) -> u64;
}

/// Bits of a number; every not-a-number counts as one, as CPUs differ in its sign.
impl ReferenceFloat for f32 {
    fn of(value: f64) -> f32 {
        value as f32
    }

    fn fma(self, by: f32, onto: f32) -> f32 {
        self.mul_add(by, onto)
    }

    fn times(self, by: f32) -> f32 {
        self * by
    }

    fn bits(self) -> u64 {
        if self.is_nan() { u64::MAX } else { u64::from(self.to_bits()) }
    }
}

impl ReferenceFloat for f64 {
    fn of(value: f64) -> f64 {
        value
    }

    fn fma(self, by: f64, onto: f64) -> f64 {
        self.mul_add(by, onto)
    }

    fn times(self, by: f64) -> f64 {
        self * by
    }

    fn bits(self) -> u64 {
        if self.is_nan() { u64::MAX - 1 } else { self.to_bits() }
    }
}

/// Returns an entry of a product by the rule.
fn entry<T: ReferenceFloat>(scale: T, a: &[T], b: &[T], onto: Option<T>) -> T {
    let k = a.len();
    if k == 0 {
        return onto.unwrap_or(T::ZERO);
    }
    let blocks = k.div_ceil(512);
    let mut value = onto;
    for (a, b) in a.chunks(k.div_ceil(blocks)).zip(b.chunks(k.div_ceil(blocks))) {
        let sum = a.iter().zip(b).fold(T::ZERO, |sum, (a, b)| a.fma(*b, sum));
        value = Some(match value {
            None => scale.times(sum),
            Some(value) => scale.fma(sum, value),
        });
    }
    value.expect("at least one block")
}

/// A factor of a drawn layout: rows or columns that are neighbors, with gaps, or neither.
struct RandomFactor<T> {
    data: Vec<T>,
    start: usize,
    stride: usize,
    rows: usize,
    columns: usize,
    transposed: bool,
}

impl<T: ReferenceFloat> RandomFactor<T> {
    fn new(draw: &mut Draw, rows: usize, columns: usize, wild: bool) -> RandomFactor<T> {
        let (transposed, start) = (draw.below(2) == 0, draw.below(4));
        let gap = if draw.below(2) == 0 { 0 } else { draw.below(9) };
        let (lines, len) = if transposed { (columns, rows) } else { (rows, columns) };
        let stride = len + gap;
        let data = draw.values(start + lines * stride, wild);
        RandomFactor { data, start, stride, rows, columns, transposed }
    }

    fn view(&self) -> Matrix<'_, T> {
        let data = &self.data[self.start..];
        match self.transposed {
            true => Matrix::strided(data, self.columns, self.rows, self.stride).t(),
            false => Matrix::strided(data, self.rows, self.columns, self.stride),
        }
    }

    fn at(&self, row: usize, column: usize) -> T {
        let (line, place) = if self.transposed { (column, row) } else { (row, column) };
        self.data[self.start + line * self.stride + place]
    }
}

fn drawn_size(draw: &mut Draw, small: usize, large: usize) -> usize {
    match draw.below(4) {
        0 => draw.below(4),
        1 => draw.below(large),
        _ => 1 + draw.below(small),
    }
}

/// Compares products of random shapes, layouts, scales and summands with the rule.
///
/// All vector widths of this machine are tested.
fn holds_for<T: ReferenceFloat + std::fmt::Debug>(seed: u64, count: usize, wild: bool) {
    let mut draw = Draw(seed);
    for case in 0..count {
        let (m, n) = (drawn_size(&mut draw, 20, 140), drawn_size(&mut draw, 60, 200));
        let k = match draw.below(6) {
            0 => [0, 1, 511, 512, 513, 1024, 1025, 1100, 1537][draw.below(9)],
            _ => draw.below(90),
        };
        let (a, b) = (
            RandomFactor::<T>::new(&mut draw, m, k, wild),
            RandomFactor::new(&mut draw, k, n, wild),
        );
        let scale = [T::of(1.0), T::of(0.125), T::of(-3.7)][draw.below(3)];
        let (row, kind, stride) = (draw.values(n, wild), draw.below(4), n + draw.below(3));
        let before: Vec<T> = draw.values(m * stride, wild);
        let columns: Vec<Vec<T>> = (0..n).map(|j| (0..k).map(|p| b.at(p, j)).collect()).collect();
        let rule = |i: usize, j: usize| {
            let left: Vec<T> = (0..k).map(|p| a.at(i, p)).collect();
            let onto = match kind {
                0 => None,
                2 => Some(row[j]),
                _ => Some(before[i * stride + j]),
            };
            entry(scale, &left, &columns[j], onto)
        };
        let expected: Vec<u64> = (0..m)
            .flat_map(|i| (0..n).map(move |j| (i, j)))
            .map(|(i, j)| rule(i, j).bits())
            .collect();
        for vectors in Vectors::ALL {
            let mut found = before.clone();
            let target = Target::strided(&mut found, m, n, stride);
            vectors.limit(|| match kind {
                0 => target.set(scale, a.view(), b.view()),
                1 => target.add(scale, a.view(), b.view()),
                2 => target.multiply(Onto::Row(&row), scale, a.view(), b.view()),
                _ => target.add_lower(scale, a.view(), b.view()),
            });
            for (at, value) in found.iter().enumerate() {
                let (i, j) = (at / stride.max(1), at % stride.max(1));
                let untouched = value.bits() == before[at].bits();
                let right = match j < n {
                    true => {
                        value.bits() == expected[i * n + j] || (kind == 3 && j > i && untouched)
                    }
                    false => untouched,
                };
                assert!(
                    right,
                    "case {case} in {vectors:?}: {m} x {n} x {k}, kind {kind}, entry ({i}, {j}) is {value:?}"
                );
            }
        }
    }
}

#[test]
fn products_in_f32_follow_the_rule() {
    holds_for::<f32>(1, 600, false);
}

#[test]
fn products_in_f64_follow_the_rule() {
    holds_for::<f64>(2, 300, false);
}

#[test]
fn not_finite_and_tiny_values_follow_the_rule() {
    holds_for::<f32>(3, 200, true);
    holds_for::<f64>(4, 100, true);
}

/// Shapes of training: pieces of packed rows and columns, several of each.
#[test]
fn large_products_follow_the_rule() {
    let mut draw = Draw(5);
    for (m, n, k, transposed_a, transposed_b) in
        [(300, 700, 520, true, true), (70, 1300, 600, false, false), (33, 2, 3000, true, false)]
    {
        let (a, b) = (draw.values::<f32>(m * k, false), draw.values::<f32>(k * n, false));
        let left = |i: usize, p: usize| if transposed_a { a[p * m + i] } else { a[i * k + p] };
        let right = |p: usize, j: usize| if transposed_b { b[j * k + p] } else { b[p * n + j] };
        let a_view =
            if transposed_a { Matrix::dense(&a, k, m).t() } else { Matrix::dense(&a, m, k) };
        let b_view =
            if transposed_b { Matrix::dense(&b, n, k).t() } else { Matrix::dense(&b, k, n) };
        let mut first = vec![0f32; m * n];
        Vectors::Baseline.limit(|| Target::dense(&mut first, m, n).set(1.0, a_view, b_view));
        for (i, j) in [(0, 0), (m - 1, n - 1), (m / 2, n / 3), (1, n - 1), (m - 1, 1)] {
            let row: Vec<f32> = (0..k).map(|p| left(i, p)).collect();
            let column: Vec<f32> = (0..k).map(|p| right(p, j)).collect();
            assert_eq!(first[i * n + j].to_bits(), entry(1.0, &row, &column, None).to_bits());
        }
        for vectors in Vectors::ALL {
            let mut found = vec![0f32; m * n];
            vectors.limit(|| Target::dense(&mut found, m, n).set(1.0, a_view, b_view));
            assert!(
                found.iter().zip(&first).all(|(a, b)| a.to_bits() == b.to_bits()),
                "{vectors:?}"
            );
        }
    }
}

/// A row of a product is the same alone and among others.
#[test]
fn rows_do_not_depend_on_other_rows() {
    let mut draw = Draw(6);
    let (m, n, k) = (37, 53, 700);
    let (a, b) = (draw.values::<f32>(m * k, false), draw.values::<f32>(k * n, false));
    let mut all = vec![0f32; m * n];
    Target::dense(&mut all, m, n).set(1.0, Matrix::dense(&a, m, k), Matrix::dense(&b, k, n));
    for row in [0, 17, 36] {
        let mut alone = vec![0f32; n];
        let one = Matrix::dense(&a, m, k).rows_from(row, 1);
        Target::dense(&mut alone, 1, n).set(1.0, one, Matrix::dense(&b, k, n));
        assert_eq!(alone, all[row * n..][..n]);
    }
}

#[test]
fn strided_products_agree_with_the_definition() {
    // A is the middle two columns of a 3 x 4 buffer, B the transpose of a dense 2 x 2.
    let a: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let b = [1f32, 2.0, 3.0, 4.0];
    let mut out = vec![100f32; 9]; // 3 x 2 inside rows of 3
    Target::strided(&mut out, 3, 2, 3).add(
        2.0,
        Matrix::strided(&a[1..], 3, 2, 4),
        Matrix::dense(&b, 2, 2).t(),
    );
    // row 0: (1, 2) . (1, 2) = 5, (1, 2) . (3, 4) = 11, doubled and added to 100
    assert_eq!(out, [110.0, 122.0, 100.0, 134.0, 178.0, 100.0, 158.0, 234.0, 100.0]);
}

#[test]
fn parts_of_a_view_are_rows_and_columns_of_it() {
    let a: Vec<f64> = (0..12).map(f64::from).collect();
    let part = Matrix::dense(&a, 3, 4).rows_from(1, 2).columns_from(1, 3);
    let mut sums = [0f64; 2];
    Target::dense(&mut sums, 2, 1).set(1.0, part, Matrix::dense(&[1.0; 3], 3, 1));
    assert_eq!(sums, [5.0 + 6.0 + 7.0, 9.0 + 10.0 + 11.0]);
    assert_eq!((part.rows(), part.columns()), (2, 3));
}

#[test]
#[should_panic(expected = "does not fit")]
fn a_view_beyond_its_buffer_panics() {
    Matrix::strided(&[0f32; 5], 2, 3, 3);
}

#[test]
#[should_panic(expected = "rows 2 to 4 of 3")]
fn rows_beyond_a_view_panic() {
    Matrix::dense(&[0f32; 6], 3, 2).rows_from(2, 2);
}

#[test]
#[should_panic(expected = "do not give one of")]
fn factors_that_do_not_fit_panic() {
    let mut c = [0f32; 4];
    Target::dense(&mut c, 2, 2).set(
        1.0,
        Matrix::dense(&[0.0; 6], 2, 3),
        Matrix::dense(&[0.0; 4], 2, 2),
    );
}

#[test]
#[should_panic(expected = "no values to be added to")]
fn adding_to_memory_without_values_panics() {
    let mut memory = [MaybeUninit::<f32>::uninit(); 1];
    Target::unwritten(&mut memory, 1, 1, 1).add(
        1.0,
        Matrix::dense(&[1.0], 1, 1),
        Matrix::dense(&[1.0], 1, 1),
    );
}
