//! `x W^T` for few rows of `x` and a large `W`.
//!
//! A general product first packs `W` into the order of its kernel, which pays off if many rows use every value. With a
//! batch of ten, packing costs more than the product itself; here each row of `W` is read once, in place.

use crate::wide::{WideWork, wide};

/// Lanes of every sum. The number is fixed, so that vector width changes no result.
const LANES: usize = 16;

/// Returns true if this product is faster than the general one: at most 16 rows, a weight of at least a MiB.
pub(super) fn applies(rows: usize, weight: &[f32]) -> bool {
    rows <= 16 && weight.len() >= 1 << 18
}

/// Adds `x W^T` to `y`.
///
/// All are dense: `x` `(rows, inputs)`, `weight` `(outputs, inputs)` and `y` `(rows, outputs)`.
pub(super) fn add(x: &[f32], weight: &[f32], y: &mut [f32], inputs: usize) {
    let rows: Vec<&[f32]> = x.chunks_exact(inputs).collect();
    wide(Product { rows: &rows, weight, y, inputs });
}

struct Product<'a> {
    rows: &'a [&'a [f32]],
    weight: &'a [f32],
    y: &'a mut [f32],
    inputs: usize,
}

impl WideWork for Product<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let outputs = self.weight.len() / self.inputs;
        for (column, w) in self.weight.chunks_exact(self.inputs).enumerate() {
            let mut y = self.y.iter_mut().skip(column).step_by(outputs);
            let (fours, rest) = self.rows.as_chunks::<4>();
            for rows in fours {
                four(rows, w).into_iter().zip(y.by_ref()).for_each(|(sum, y)| *y += sum);
            }
            for (row, y) in rest.iter().zip(y) {
                *y += one(row, w);
            }
        }
    }
}

/// Returns the dot product of a row with `w`.
#[inline(always)]
fn one(row: &[f32], w: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    for (x, w) in whole(row).iter().zip(whole(w)) {
        accumulate(&mut lanes, x, w);
    }
    lanes.iter().sum::<f32>() + rest(row, w)
}

/// Returns the dot products of four rows with `w`, which is read once.
///
/// They are written out: compilers keep these sums in registers, but would not do so with an array of arrays.
#[inline(always)]
fn four(rows: &[&[f32]; 4], w: &[f32]) -> [f32; 4] {
    let [mut a, mut b, mut c, mut d] = [[0f32; LANES]; 4];
    let [first, second, third, fourth] = rows.map(whole);
    let rows_of_x = first.iter().zip(second).zip(third).zip(fourth);
    for (w, (((x, y), z), u)) in whole(w).iter().zip(rows_of_x) {
        accumulate(&mut a, x, w);
        accumulate(&mut b, y, w);
        accumulate(&mut c, z, w);
        accumulate(&mut d, u, w);
    }
    // `black_box` keeps the lanes apart from their addition: compilers that see both together spread each lane of the
    // four over one vector, at a shuffle per addition.
    let lanes = std::hint::black_box([a, b, c, d]);
    let mut sums = lanes.map(|lanes| lanes.iter().sum::<f32>());
    for (sum, row) in sums.iter_mut().zip(rows) {
        *sum += rest(row, w);
    }
    sums
}

#[inline(always)]
fn accumulate(sums: &mut [f32; LANES], x: &[f32; LANES], w: &[f32; LANES]) {
    for lane in 0..LANES {
        sums[lane] += x[lane] * w[lane];
    }
}

#[inline(always)]
fn whole(values: &[f32]) -> &[[f32; LANES]] {
    values.as_chunks::<LANES>().0
}

/// Returns the dot product of the values after the last whole chunk.
#[inline(always)]
fn rest(row: &[f32], w: &[f32]) -> f32 {
    let (row, w) = (row.as_chunks::<LANES>().1, w.as_chunks::<LANES>().1);
    row.iter().zip(w).map(|(x, w)| x * w).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_product_of_the_definition() {
        for (rows, inputs, outputs) in [(1, 1, 1), (3, 17, 5), (10, 64, 7), (16, 100, 2)] {
            let value = |i: usize| ((i * 37) % 19) as f32 * 0.125 - 1.0;
            let x: Vec<f32> = (0..rows * inputs).map(value).collect();
            let weight: Vec<f32> = (0..outputs * inputs).map(|i| value(i + 5)).collect();
            let mut y = vec![0.5; rows * outputs];
            add(&x, &weight, &mut y, inputs);
            for row in 0..rows {
                for column in 0..outputs {
                    let sum: f32 = (0..inputs)
                        .map(|i| x[row * inputs + i] * weight[column * inputs + i])
                        .sum();
                    let got = y[row * outputs + column];
                    assert!(
                        (got - 0.5 - sum).abs() < 1e-4,
                        "{rows} {inputs} {outputs}: {got} {sum}"
                    );
                }
            }
        }
    }
}
