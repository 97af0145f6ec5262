//! Network whose gradients are sent: three convolutions of 12 channels with sigmoids, and a linear layer.
//!
//! It is written by hand in f64: it is small, its gradients are subtracted from each other, and no optimizer trains it.

use std::ops::Range;

use crate::numerics::distributions::uniform;
use crate::numerics::streams::StreamKey;

/// Channels of every convolution.
const CHANNELS: usize = 12;
/// Kernel size of the convolutions; images are padded by 2.
const KERNEL: usize = 5;
const PADDING: isize = 2;
/// Stride of each convolution.
const STRIDES: [usize; 3] = [2, 2, 1];

/// A LeNet with sigmoids for images of one size.
#[derive(Clone, Debug, PartialEq)]
pub struct LeNet {
    /// Channels, rows and columns of the image and of every convolution's output.
    shapes: [[usize; 3]; 4],
    classes: usize,
    /// Weight and bias of every convolution, then of the linear layer, concatenated.
    parameters: Vec<f64>,
}

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-z))
}

fn volume(shape: [usize; 3]) -> usize {
    shape.iter().product()
}

impl LeNet {
    /// Returns a network with weights uniform in -0.5..0.5. Clients and server draw equal ones from `key`.
    pub fn new(image: [usize; 3], classes: usize, key: StreamKey) -> LeNet {
        let mut shapes = [image; 4];
        for (layer, stride) in STRIDES.into_iter().enumerate() {
            let [_, rows, columns] = shapes[layer];
            shapes[layer + 1] = [CHANNELS, rows.div_ceil(stride), columns.div_ceil(stride)];
        }
        let mut net = LeNet { shapes, classes, parameters: Vec::new() };
        let mut rng = key.rng();
        net.parameters = (0..net.length()).map(|_| uniform(&mut rng, -0.5, 0.5)).collect();
        net
    }

    /// Returns the number of parameters for such images and `classes` classes.
    pub fn length_of(image: [usize; 3], classes: usize) -> usize {
        let side = |side: usize| side.div_ceil(STRIDES[0]).div_ceil(STRIDES[1]);
        let wide = CHANNELS * side(image[1]) * side(image[2]);
        let convolutions: usize = [image[0], CHANNELS, CHANNELS]
            .into_iter()
            .map(|channels| CHANNELS * (channels * KERNEL * KERNEL + 1))
            .sum();
        convolutions + classes * (wide + 1)
    }

    /// Returns the number of multiplications in a forward pass: every weight of a convolution meets every output
    /// position.
    pub fn multiplications_of(image: [usize; 3], classes: usize) -> usize {
        let [mut channels, mut rows, mut columns] = image;
        let mut all = 0;
        for stride in STRIDES {
            (rows, columns) = (rows.div_ceil(stride), columns.div_ceil(stride));
            all += CHANNELS * channels * KERNEL * KERNEL * rows * columns;
            channels = CHANNELS;
        }
        all + classes * channels * rows * columns
    }

    fn length(&self) -> usize {
        LeNet::length_of(self.shapes[0], self.classes)
    }

    /// Returns the number of values of an image.
    pub fn pixels(&self) -> usize {
        volume(self.shapes[0])
    }

    /// Returns channels, rows and columns of an image.
    pub fn image(&self) -> [usize; 3] {
        self.shapes[0]
    }

    /// Returns the ranges of weight and bias of a layer; the linear one is the last.
    fn layer(&self, layer: usize) -> (Range<usize>, Range<usize>) {
        let mut start = 0;
        for before in 0..=layer {
            let (weight, bias) = match before {
                3 => (self.classes * volume(self.shapes[3]), self.classes),
                _ => (CHANNELS * self.shapes[before][0] * KERNEL * KERNEL, CHANNELS),
            };
            if before == layer {
                return (start..start + weight, start + weight..start + weight + bias);
            }
            start += weight + bias;
        }
        (0..0, 0..0)
    }

    /// Returns a copy whose parameters are moved by `times * direction`.
    pub(super) fn moved(&self, direction: &[f64], times: f64) -> LeNet {
        let moved = self.parameters.iter().zip(direction).map(|(p, d)| p + times * d);
        LeNet { parameters: moved.collect(), ..self.clone() }
    }

    /// Returns the label of an image, read off its gradient.
    pub fn label_of(&self, gradient: &[f64]) -> usize {
        let (weight, _) = self.layer(3);
        let width = volume(self.shapes[3]);
        let sums = gradient[weight].chunks(width).map(|row| row.iter().sum::<f64>()).enumerate();
        sums.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |(class, _)| class)
    }

    /// Returns the cross-entropy of an image, and its gradient with respect to all parameters.
    pub fn gradient(&self, image: &[f64], label: usize) -> (f64, Vec<f64>) {
        let values = self.forward(image);
        let (loss, mut slope) = self.loss(&values, label);
        let mut gradient = vec![0.0; self.parameters.len()];
        let (weight, bias) = self.layer(3);
        let wide = &values[3];
        for (row, slope) in gradient[weight].chunks_mut(wide.len()).zip(&slope) {
            row.iter_mut().zip(wide).for_each(|(g, value)| *g = slope * value);
        }
        gradient[bias].copy_from_slice(&slope);
        slope = self.below_linear(&slope);
        for layer in (0..3).rev() {
            below_sigmoid(&mut slope, &values[layer + 1]);
            let (weight, bias) = self.layer(layer);
            let plane = self.shapes[layer + 1][1] * self.shapes[layer + 1][2];
            let sums = slope.chunks(plane).map(|plane| plane.iter().sum::<f64>());
            gradient[bias].iter_mut().zip(sums).for_each(|(g, sum)| *g = sum);
            let own = &mut gradient[weight];
            self.windows(layer, |weight, input, output| {
                own[weight] += slope[output] * values[layer][input]
            });
            if layer > 0 {
                slope = self.below_convolution(layer, &slope);
            }
        }
        (loss, gradient)
    }

    /// Returns the gradient of the cross-entropy with respect to the image.
    pub(super) fn image_gradient(&self, image: &[f64], label: usize) -> Vec<f64> {
        let values = self.forward(image);
        let (_, slope) = self.loss(&values, label);
        let mut slope = self.below_linear(&slope);
        for layer in (0..3).rev() {
            below_sigmoid(&mut slope, &values[layer + 1]);
            slope = self.below_convolution(layer, &slope);
        }
        slope
    }

    /// Returns the image and the output of every convolution.
    fn forward(&self, image: &[f64]) -> [Vec<f64>; 4] {
        let mut values = [image.to_vec(), Vec::new(), Vec::new(), Vec::new()];
        for layer in 0..3 {
            let (weight, bias) = self.layer(layer);
            let (weight, bias) = (&self.parameters[weight], &self.parameters[bias]);
            let plane = self.shapes[layer + 1][1] * self.shapes[layer + 1][2];
            let mut next: Vec<f64> =
                bias.iter().flat_map(|bias| std::iter::repeat_n(*bias, plane)).collect();
            let input = &values[layer];
            self.windows(layer, |at, from, to| next[to] += weight[at] * input[from]);
            next.iter_mut().for_each(|z| *z = sigmoid(*z));
            values[layer + 1] = next;
        }
        values
    }

    /// Returns the cross-entropy, and its gradient with respect to the logits.
    fn loss(&self, values: &[Vec<f64>; 4], label: usize) -> (f64, Vec<f64>) {
        let (weight, bias) = self.layer(3);
        let rows = self.parameters[weight].chunks(values[3].len());
        let logits = rows.zip(&self.parameters[bias]).map(|(row, bias)| {
            bias + row.iter().zip(&values[3]).map(|(w, value)| w * value).sum::<f64>()
        });
        let logits: Vec<f64> = logits.collect();
        let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|z| libm::exp(z - top)).sum();
        let loss = libm::log(sum) + top - logits[label];
        let mut slope: Vec<f64> = logits.iter().map(|z| libm::exp(z - top) / sum).collect();
        slope[label] -= 1.0;
        (loss, slope)
    }

    fn below_linear(&self, slope: &[f64]) -> Vec<f64> {
        let (weight, _) = self.layer(3);
        let width = volume(self.shapes[3]);
        let mut below = vec![0.0; width];
        for (row, slope) in self.parameters[weight].chunks(width).zip(slope) {
            below.iter_mut().zip(row).for_each(|(below, w)| *below += slope * w);
        }
        below
    }

    fn below_convolution(&self, layer: usize, slope: &[f64]) -> Vec<f64> {
        let (weight, _) = self.layer(layer);
        let weight = &self.parameters[weight];
        let mut below = vec![0.0; volume(self.shapes[layer])];
        self.windows(layer, |at, from, to| below[from] += weight[at] * slope[to]);
        below
    }

    /// Visits every weight of a convolution, with every pair of an input and an output that it connects.
    fn windows(&self, layer: usize, mut each: impl FnMut(usize, usize, usize)) {
        let [channels, rows, columns] = self.shapes[layer];
        let [_, high, wide] = self.shapes[layer + 1];
        let stride = STRIDES[layer] as isize;
        // Output positions whose window covers a pixel of the image at this kernel position.
        let inside = |at: usize, extent: usize, outputs: usize| {
            let offset = at as isize - PADDING;
            let first = ((-offset).max(0) + stride - 1) / stride;
            let last = (extent as isize - 1 - offset).div_euclid(stride);
            first as usize..(last + 1).clamp(0, outputs as isize) as usize
        };
        for weight in 0..CHANNELS * channels * KERNEL * KERNEL {
            let (kx, ky) = (weight % KERNEL, weight / KERNEL % KERNEL);
            let plane = weight / (KERNEL * KERNEL);
            let (from, to) = (plane % channels, plane / channels);
            for y in inside(ky, rows, high) {
                let row = (y as isize * stride + ky as isize - PADDING) as usize;
                for x in inside(kx, columns, wide) {
                    let column = (x as isize * stride + kx as isize - PADDING) as usize;
                    let input = (from * rows + row) * columns + column;
                    each(weight, input, (to * high + y) * wide + x);
                }
            }
        }
    }
}

/// Multiplies `slope` by the derivative of the sigmoid that gave `values`.
fn below_sigmoid(slope: &mut [f64], values: &[f64]) {
    slope.iter_mut().zip(values).for_each(|(slope, s)| *slope *= s * (1.0 - s));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    fn net(image: [usize; 3], classes: usize) -> LeNet {
        LeNet::new(image, classes, StreamKey::new(4, Domain::Init))
    }

    fn image(pixels: usize) -> Vec<f64> {
        (0..pixels).map(|i| (i as f64 * 0.37).sin()).collect()
    }

    /// GLFC card, section 2: 85,036 for CIFAR-100.
    #[test]
    fn it_has_the_parameters_of_the_card() {
        assert_eq!(LeNet::length_of([3, 32, 32], 100), 85_036);
        assert_eq!(net([3, 32, 32], 100).shapes[3], [12, 8, 8]);
        let small = net([1, 7, 5], 3);
        assert_eq!((small.shapes[1], small.shapes[3]), ([12, 4, 3], [12, 2, 2]));
        assert_eq!(small.parameters.len(), 12 * 26 + 2 * 12 * 301 + 3 * 49);
        assert!(small.parameters.iter().all(|p| p.abs() <= 0.5));
    }

    #[test]
    fn every_weight_meets_every_place_of_its_output() {
        // 256, 64 and 64 places, and a linear layer of 768 inputs.
        let of_cifar = 12 * 3 * 25 * 256 + 12 * 12 * 25 * 64 + 12 * 12 * 25 * 64 + 100 * 768;
        assert_eq!(LeNet::multiplications_of([3, 32, 32], 100), of_cifar);
        // 4 x 3 places, then 2 x 2 twice.
        let small = 12 * 25 * 12 + 12 * 12 * 25 * 4 + 12 * 12 * 25 * 4 + 3 * 48;
        assert_eq!(LeNet::multiplications_of([1, 7, 5], 3), small);
    }

    /// Both gradients against differences of the loss.
    #[test]
    fn gradients_are_slopes_of_the_loss() {
        let (net, image) = (net([2, 7, 5], 3), image(70));
        let (_, gradient) = net.gradient(&image, 2);
        for at in (0..gradient.len()).step_by(97).chain([gradient.len() - 1]) {
            let mut direction = vec![0.0; gradient.len()];
            direction[at] = 1.0;
            let moved = |by: f64| net.moved(&direction, by).gradient(&image, 2).0;
            let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((difference - gradient[at]).abs() < 1e-8, "{at}: {difference}");
        }
        let slope = net.image_gradient(&image, 2);
        for at in 0..70 {
            let moved = |by: f64| {
                let mut image = image.clone();
                image[at] += by;
                net.gradient(&image, 2).0
            };
            let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((difference - slope[at]).abs() < 1e-8, "{at}: {difference}");
        }
    }

    /// GLFC card, invariant 7.
    #[test]
    fn labels_are_read_off_gradients() {
        let net = net([1, 8, 8], 10);
        for label in 0..10 {
            let (_, gradient) = net.gradient(&image(64), label);
            assert_eq!(net.label_of(&gradient), label);
        }
    }

    /// Every convolution and the linear layer against the library's.
    #[test]
    fn values_are_those_of_convolutions_with_these_weights() {
        use candle_core::{Device, Tensor};
        let (net, image) = (net([2, 7, 5], 3), image(70));
        let values = net.forward(&image);
        let mut known = Tensor::from_vec(image.clone(), (1, 2, 7, 5), &Device::Cpu).unwrap();
        for (layer, stride) in STRIDES.into_iter().enumerate() {
            let (weight, bias) = net.layer(layer);
            let kernel = (CHANNELS, net.shapes[layer][0], KERNEL, KERNEL);
            let kernel = Tensor::from_slice(&net.parameters[weight], kernel, &Device::Cpu).unwrap();
            let bias = Tensor::from_slice(&net.parameters[bias], (1, CHANNELS, 1, 1), &Device::Cpu)
                .unwrap();
            let sums =
                known.conv2d(&kernel, 2, stride, 1, 1).unwrap().broadcast_add(&bias).unwrap();
            known = candle_nn::ops::sigmoid(&sums).unwrap();
            let wanted: Vec<f64> = known.flatten_all().unwrap().to_vec1().unwrap();
            assert_eq!(values[layer + 1].len(), wanted.len());
            let near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
            assert!(values[layer + 1].iter().zip(&wanted).all(near), "convolution {layer}");
        }
    }
}
