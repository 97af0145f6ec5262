//! Convolution with 3 x 3 kernels and stride 1 by minimal filtering, `F(2 x 2, 3 x 3)`.
//!
//! `2 x 2` pixels of the output are `A^T [(G g G^T) . (B^T d B)] A` of the weight `g` and the `4 x 4` input pixels `d`
//! (Winograd 1980; Lavin and Gray 2016, equations 8 and 9): 16 multiplications where the definition has 36. Over
//! channels and tiles these are 16 matrix products. Gradients are the adjoint of each step, so that those of weight and
//! input share the factors of their products, and all three passes have 4/9 of the multiplications.
//!
//! The transforms are additions and halves; the result differs from that of the definition by rounding alone, by a few
//! times as much as two orders of its sums differ.

mod filters;
mod tiles;

use std::cell::RefCell;
use std::ops::Range;

use filters::{filters, of_weight};
use tiles::{
    APART, LANES, OfInput, OfOutput, PRODUCTS, Tiles, ToInput, append_lines, gather, scatter,
};

use super::matrix::{Matrix, MatrixMut};
use super::unfold::ConvolutionGeometry;

/// Number of values of transformed tiles in one sum of the weight's gradient (4 MB).
///
/// They are those of input and output together.
const PANEL: usize = 1 << 20;

/// Smallest number of tiles in one sum of the weight's gradient. The division of tiles among sums changes its bits.
const FEW: usize = 128;

/// Largest number of tiles in other products, unless one sum has more.
///
/// At this number, packing the weight is a small part of the work.
const MANY: usize = 512;

/// Largest number of values in a panel of several sums (16 MB), of input and output together.
const LARGE: usize = 1 << 22;

thread_local! {
    /// Buffers for transformed tiles of the input and of the output.
    static ROOM: RefCell<[Vec<f32>; 2]> = RefCell::default();
}

/// Convolution that is computed in tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Winograd(ConvolutionGeometry);

/// Gradients of a convolution, each if it was wanted.
pub(super) struct ConvolutionGradients {
    /// Gradient of the input, in its shape.
    pub input: Option<Vec<f32>>,
    /// Gradient of the weight, `(out, c, 3, 3)`.
    pub weight: Option<Vec<f32>>,
}

impl Winograd {
    /// Returns the convolution in tiles; `None` if it does not fit.
    ///
    /// Kernels may have another size or stride, channels may not fill vectors, or there may be fewer pixels than in a
    /// tile.
    pub fn of(geometry: ConvolutionGeometry) -> Option<Winograd> {
        let ConvolutionGeometry { kernel, stride, channels, outputs, .. } = geometry;
        let full = channels.is_multiple_of(LANES) && outputs.is_multiple_of(LANES);
        let [height, width] = geometry.output();
        let fits = kernel == [3, 3] && stride == 1 && full && height > 1 && width > 1;
        fits.then_some(Winograd(geometry))
    }

    /// Returns the output `(b, h', w', out)` for `x` `(b, h, w, c)` and `weight` `(out, c, 3, 3)`.
    pub fn forward(&self, x: &[f32], weight: &[f32]) -> Vec<f32> {
        let ConvolutionGeometry { samples, channels, outputs, .. } = self.0;
        let [height, width] = self.0.output();
        let (of_input, of_output) = (Tiles::of_input(&self.0), Tiles::of_output(&self.0));
        let filters = filters(weight);
        let mut y = Vec::with_capacity(samples * height * width * outputs);
        ROOM.with_borrow_mut(|[seen, products]| {
            for panel in self.panels(self.many().next_multiple_of(of_output.grid[1])) {
                let rows = panel.len();
                let seen = room(seen, rows * channels);
                let products = room(products, rows * outputs);
                gather(&of_input, OfInput, panel.clone(), x, seen);
                for place in 0..PRODUCTS {
                    MatrixMut::dense(one_mut(products, place), rows, outputs).set(
                        1.0,
                        Matrix::dense(one(seen, place), rows, channels),
                        Matrix::dense(one(&filters, place), outputs, channels).t(),
                    );
                }
                append_lines(&of_output, panel, products, &mut y);
            }
        });
        y
    }

    /// Returns the gradients, from that of the result `g` `(b, h', w', out)`.
    pub fn backward(
        &self,
        x: &[f32],
        weight: &[f32],
        g: &[f32],
        wanted: [bool; 2],
    ) -> ConvolutionGradients {
        let ConvolutionGeometry { channels, outputs, .. } = self.0;
        let (of_input, of_output) = (Tiles::of_input(&self.0), Tiles::of_output(&self.0));
        let mut input = wanted[0].then(|| (filters(weight), vec![0f32; x.len()]));
        let mut of_filters = wanted[1].then(|| vec![0f32; PRODUCTS * (outputs * channels + APART)]);
        ROOM.with_borrow_mut(|[seen, products]| {
            for panel in self.panels(self.many()) {
                let rows = panel.len();
                let seen = room(seen, rows * channels);
                let products = room(products, rows * outputs);
                gather(&of_output, OfOutput, panel.clone(), g, products);
                if let Some(of_filters) = &mut of_filters {
                    gather(&of_input, OfInput, panel.clone(), x, seen);
                    self.add_of_filters(of_filters, products, seen, rows);
                }
                if let Some((filters, gradient)) = &mut input {
                    for place in 0..PRODUCTS {
                        MatrixMut::dense(one_mut(seen, place), rows, channels).set(
                            1.0,
                            Matrix::dense(one(products, place), rows, outputs),
                            Matrix::dense(one(filters, place), outputs, channels),
                        );
                    }
                    scatter(&of_input, ToInput, panel, seen, gradient);
                }
            }
        });
        ConvolutionGradients {
            input: input.map(|(_, gradient)| gradient),
            weight: of_filters.map(|gradient| of_weight(&gradient)),
        }
    }

    /// Adds the sum over a panel of `rows` tiles to the gradient of the transformed weights.
    fn add_of_filters(&self, of_filters: &mut [f32], products: &[f32], seen: &[f32], rows: usize) {
        let ConvolutionGeometry { channels, outputs, .. } = self.0;
        for place in 0..PRODUCTS {
            let (products, seen) = (one(products, place), one(seen, place));
            for from in (0..rows).step_by(self.few()) {
                let count = self.few().min(rows - from);
                MatrixMut::dense(one_mut(of_filters, place), outputs, channels).add(
                    1.0,
                    Matrix::dense(&products[from * outputs..], count, outputs).t(),
                    Matrix::dense(&seen[from * channels..], count, channels),
                );
            }
        }
    }

    /// Returns the number of tiles in one sum of the weight's gradient.
    fn few(&self) -> usize {
        (PANEL / self.values_of_tile()).max(FEW)
    }

    /// Returns the number of tiles in a panel of one or more sums.
    fn many(&self) -> usize {
        let few = self.few();
        few * (MANY.min(LARGE / self.values_of_tile()) / few).max(1)
    }

    /// Returns the number of values of a transformed tile, of input and output together.
    fn values_of_tile(&self) -> usize {
        PRODUCTS * (self.0.channels + self.0.outputs)
    }

    /// Returns all tiles, in panels of `step` tiles.
    fn panels(&self, step: usize) -> impl Iterator<Item = Range<usize>> + use<> {
        let [down, across] = Tiles::of_output(&self.0).grid;
        let tiles = self.0.samples * down * across;
        (0..tiles).step_by(step).map(move |from| from..(from + step).min(tiles))
    }
}

/// Returns a buffer for 16 matrices of `values` values.
fn room(buffer: &mut Vec<f32>, values: usize) -> &mut [f32] {
    let values = PRODUCTS * (values + APART);
    if buffer.len() < values {
        buffer.resize(values, 0.0);
    }
    &mut buffer[..values]
}

/// Returns one of 16 matrices.
fn one(all: &[f32], place: usize) -> &[f32] {
    let each = all.len() / PRODUCTS;
    &all[place * each..][..each - APART]
}

/// Returns one of 16 matrices, to write to.
fn one_mut(all: &mut [f32], place: usize) -> &mut [f32] {
    let each = all.len() / PRODUCTS;
    &mut all[place * each..][..each - APART]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{draw, finite_difference, pass, values};
    use super::super::{conv2d, without_kernels};
    use super::tiles::ToOutput;
    use super::*;
    use crate::vectors::Vectors;
    use candle_core::{DType, Tensor};

    fn geometry(x: &[usize], outputs: usize, padding: usize) -> ConvolutionGeometry {
        ConvolutionGeometry::new(x, &[outputs, x[3], 3, 3], 1, padding).unwrap()
    }

    #[test]
    fn tiles_give_the_convolution_and_its_gradients() {
        // Even and odd sizes, with and without padding, more tiles than a panel of few channels, unlike channels.
        let cases = [
            ([2, 4, 6, 16], 32, 1),
            ([1, 5, 3, 32], 16, 1),
            ([3, 6, 5, 16], 16, 0),
            ([1, 2, 2, 16], 16, 1),
            ([2, 3, 4, 16], 16, 2),
            ([40, 16, 16, 16], 16, 1),
        ];
        for (shape, outputs, padding) in cases {
            println!("{shape:?}");
            assert!(Winograd::of(geometry(&shape, outputs, padding)).is_some(), "served");
            let inputs = [&draw("x", shape.to_vec()), &draw("w", (outputs, shape[3], 3, 3))];
            let convolved = |t: &[Tensor]| conv2d(&t[0], &t[1], 1, padding);
            let defined = pass(&inputs, DType::F32, |t| without_kernels(|| convolved(t)));
            pass(&inputs, DType::F32, convolved).assert_close(&defined, 2e-6);
        }
    }

    #[test]
    fn convolutions_of_many_channels_go_this_way() {
        let inputs = [&draw("x", (1, 3, 4, 16)), &draw("w", (16, 16, 3, 3))];
        finite_difference(&inputs, |t| conv2d(&t[0], &t[1], 1, 1));
        let (x, w) = (inputs[0], inputs[1]);
        let tiles = Winograd::of(geometry(x.dims(), 16, 1)).unwrap();
        let y = conv2d(x, w, 1, 1).unwrap();
        assert_eq!(values(&y), tiles.forward(&values(x), &values(w)));
    }

    #[test]
    fn only_what_is_wanted_is_computed() {
        let (x, w) = (values(&draw("x", (1, 4, 4, 16))), values(&draw("w", (16, 16, 3, 3))));
        let tiles = Winograd::of(geometry(&[1, 4, 4, 16], 16, 1)).unwrap();
        let [both, input, weight] = [[true, true], [true, false], [false, true]]
            .map(|wanted| tiles.backward(&x, &w, &x, wanted));
        assert_eq!((input.input, input.weight), (both.input, None));
        assert_eq!((weight.input, weight.weight), (None, both.weight));
    }

    /// Output and gradients of input and weight, in small panels and added to zeros.
    fn in_small_panels(of: &Winograd, x: &[f32], weight: &[f32], g: &[f32]) -> [Vec<f32>; 3] {
        let ConvolutionGeometry { channels, outputs, .. } = of.0;
        let (of_input, of_output) = (Tiles::of_input(&of.0), Tiles::of_output(&of.0));
        let filters = filters(weight);
        let (mut y, mut by_x) = (vec![0f32; g.len()], vec![0f32; x.len()]);
        let mut of_filters = vec![0f32; PRODUCTS * (outputs * channels + APART)];
        for panel in of.panels(of.few()) {
            let rows = panel.len();
            let (mut seen, mut products) = (Vec::new(), Vec::new());
            let seen = room(&mut seen, rows * channels);
            let products = room(&mut products, rows * outputs);
            gather(&of_input, OfInput, panel.clone(), x, seen);
            for place in 0..PRODUCTS {
                let seen = Matrix::dense(one(seen, place), rows, channels);
                let filter = Matrix::dense(one(&filters, place), outputs, channels).t();
                MatrixMut::dense(one_mut(products, place), rows, outputs).set(1.0, seen, filter);
            }
            scatter(&of_output, ToOutput, panel.clone(), products, &mut y);
            gather(&of_output, OfOutput, panel.clone(), g, products);
            for place in 0..PRODUCTS {
                let filter = Matrix::dense(one(&filters, place), outputs, channels);
                let product = Matrix::dense(one(products, place), rows, outputs);
                let tiles = Matrix::dense(one(seen, place), rows, channels);
                let sum = one_mut(&mut of_filters, place);
                MatrixMut::dense(sum, outputs, channels).add(1.0, product.t(), tiles);
                MatrixMut::dense(one_mut(seen, place), rows, channels).set(1.0, product, filter);
            }
            scatter(&of_input, ToInput, panel, seen, &mut by_x);
        }
        [y, by_x, of_weight(&of_filters)]
    }

    #[test]
    fn sizes_of_panels_do_not_show() {
        let bits =
            |all: [&[f32]; 3]| all.map(|v| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>());
        // More tiles than a large panel of many channels, of odd and of even sizes; more panels than one of few.
        for (shape, outputs) in [([9, 15, 16, 16], 496), ([40, 16, 17, 16], 16)] {
            let geometry = geometry(&shape, outputs, 1);
            let tiles = Winograd::of(geometry).unwrap();
            let [height, width] = geometry.output();
            let x = draw("x", shape.to_vec()).relu().unwrap();
            let g = draw("g", (shape[0], height, width, outputs));
            let (x, w, g) = (values(&x), values(&draw("w", (outputs, shape[3], 3, 3))), values(&g));
            for vectors in Vectors::ALL {
                vectors.limit(|| {
                    let ConvolutionGradients { input, weight } =
                        tiles.backward(&x, &w, &g, [true, true]);
                    let (input, weight) = (input.unwrap(), weight.unwrap());
                    let found = bits([&tiles.forward(&x, &w), &input, &weight]);
                    let [y, by_x, by_w] = in_small_panels(&tiles, &x, &w, &g);
                    assert!(found == bits([&y, &by_x, &by_w]), "{shape:?} {vectors:?}");
                });
            }
        }
    }

    #[test]
    fn others_are_left_to_the_definition() {
        let fits = |x: [usize; 4], outputs, kernel, stride, padding| {
            let geometry =
                ConvolutionGeometry::new(&x, &[outputs, x[3], kernel, kernel], stride, padding)
                    .unwrap();
            Winograd::of(geometry).is_some()
        };
        assert!(fits([1, 4, 4, 16], 16, 3, 1, 1));
        assert!(!fits([1, 4, 4, 3], 16, 3, 1, 1));
        assert!(!fits([1, 4, 4, 16], 10, 3, 1, 1));
        assert!(!fits([1, 4, 4, 16], 16, 3, 2, 1));
        assert!(!fits([1, 4, 4, 16], 16, 1, 1, 0));
        assert!(!fits([1, 3, 4, 16], 16, 3, 1, 0));
    }
}
