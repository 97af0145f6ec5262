//! `x W^T` for few rows of `x` and a large `W`.
//!
//! A general product first packs `W` into the order its kernel wants, which pays when every value is used
//! by many rows. With a batch of ten that costs more than the product itself; here each row of `W` is
//! read once, where it lies.

use super::wide::{Work, wide};

/// Lanes of every sum: fixed, so that no vector width shows in a result.
const LANES: usize = 16;

/// Rows of `x` that share the reading of a row of `W`.
const TOGETHER: usize = 4;

/// Whether a product is of this kind: at most 16 rows, a weight of at least a MiB.
pub(super) fn applies(rows: usize, weight: &[f32]) -> bool {
    rows <= 16 && weight.len() >= 1 << 18
}

/// `y += x W^T` for dense `x` `(rows, inputs)`, `weight` `(outputs, inputs)`, `y` `(rows, outputs)`.
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

impl Work for Product<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let outputs = self.weight.len() / self.inputs;
        for (column, w) in self.weight.chunks_exact(self.inputs).enumerate() {
            let mut y = self.y.iter_mut().skip(column).step_by(outputs);
            let mut groups = self.rows.chunks_exact(TOGETHER);
            for group in &mut groups {
                let sums = dots::<TOGETHER>([group[0], group[1], group[2], group[3]], w);
                sums.into_iter().zip(y.by_ref()).for_each(|(sum, y)| *y += sum);
            }
            for (last, y) in groups.remainder().iter().zip(y) {
                *y += dots([*last], w)[0];
            }
        }
    }
}

/// The scalar products of some rows with `w`.
#[inline(always)]
fn dots<const N: usize>(rows: [&[f32]; N], w: &[f32]) -> [f32; N] {
    let mut lanes = [[0f32; LANES]; N];
    let whole = w.len() / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        let w = &w[at..at + LANES];
        for (lanes, row) in lanes.iter_mut().zip(rows) {
            let x = &row[at..at + LANES];
            for lane in 0..LANES {
                lanes[lane] += x[lane] * w[lane];
            }
        }
    }
    let mut sums = [0f32; N];
    for ((sum, lanes), row) in sums.iter_mut().zip(lanes).zip(rows) {
        let rest: f32 = row[whole..].iter().zip(&w[whole..]).map(|(x, w)| x * w).sum();
        *sum = lanes.iter().sum::<f32>() + rest;
    }
    sums
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
