//! Unfolding of channels-last images to rows of windows, and back. It turns convolutions into matrix products.
//!
//! With channels last, each line of a window is consecutive in memory, so that unfolding takes a few copies per output
//! pixel, and the product of the rows with the weight is the output, in place. As many output lines are unfolded at
//! once, across samples, as fit into the cache: late stages have images of 4 x 4, whose products would be far too small
//! alone.

use std::ops::Range;

use candle_core::{Result, bail};

use crate::wide::{WideWork, wide};

/// Largest number of unfolded values at a time (4 MB).
const PANEL: usize = 1 << 20;

/// Sizes of a convolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ConvolutionGeometry {
    pub samples: usize,
    pub height: usize,
    pub width: usize,
    pub channels: usize,
    /// Number of output channels.
    pub outputs: usize,
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    pub stride: usize,
    /// Number of zeros on each side of the image.
    pub padding: usize,
}

impl ConvolutionGeometry {
    /// Returns the geometry of the shapes `(b, h, w, c)` and `(out, c, kh, kw)`.
    ///
    /// # Errors
    /// Returns an error if channels differ, a size is zero or a window is larger than the padded image.
    pub fn new(
        x: &[usize],
        weight: &[usize],
        stride: usize,
        padding: usize,
    ) -> Result<ConvolutionGeometry> {
        let (&[samples, height, width, channels], &[outputs, inputs, kh, kw]) = (x, weight) else {
            bail!("conv2d: input {x:?} should be (b, h, w, c), weight {weight:?} (out, c, kh, kw)")
        };
        let kernel = [kh, kw];
        let fits = height + 2 * padding >= kh && width + 2 * padding >= kw;
        if inputs != channels || [kh, kw, stride, channels, outputs].contains(&0) || !fits {
            bail!(
                "conv2d: input {x:?}, weight {weight:?}, stride {stride} and padding {padding} do not fit"
            );
        }
        Ok(ConvolutionGeometry {
            samples,
            height,
            width,
            channels,
            outputs,
            kernel,
            stride,
            padding,
        })
    }

    /// Returns height and width of the output.
    pub fn output(&self) -> [usize; 2] {
        let extent =
            |size: usize, kernel: usize| (size + 2 * self.padding - kernel) / self.stride + 1;
        [extent(self.height, self.kernel[0]), extent(self.width, self.kernel[1])]
    }

    /// Returns the number of values in a window.
    pub fn window(&self) -> usize {
        self.kernel[0] * self.kernel[1] * self.channels
    }

    /// Returns the output's lines (of all samples) in panels, as ranges of lines.
    pub fn panels(&self) -> impl Iterator<Item = Range<usize>> {
        let [height, width] = self.output();
        let lines = self.samples * height;
        let step = (PANEL / (width * self.window())).max(1);
        (0..lines).step_by(step).map(move |from| from..(from + step).min(lines))
    }

    /// Writes the windows of a range of output lines, one row each, into `rows`.
    pub fn unfold(&self, x: &[f32], lines: Range<usize>, rows: &mut Vec<f32>) {
        let [_, width] = self.output();
        rows.clear();
        rows.reserve(lines.len() * width * self.window());
        for line in lines {
            for column in 0..width {
                for ky in 0..self.kernel[0] {
                    let run = self.run(line, column, ky);
                    let before = rows.len();
                    rows.resize(before + run.skipped, 0.0);
                    rows.extend_from_slice(&x[run.inside]);
                    rows.resize(before + self.kernel[1] * self.channels, 0.0);
                }
            }
        }
    }

    /// Adds the rows of a range of output lines to the pixels they were unfolded from.
    pub fn fold(&self, rows: &[f32], lines: Range<usize>, x: &mut [f32]) {
        wide(Fold { geometry: self, rows, lines, x });
    }

    /// Returns line `ky` of the window at an output pixel.
    #[inline(always)]
    fn run(&self, line: usize, column: usize, ky: usize) -> WindowLine {
        let height = self.output()[0];
        let (sample, top) = (line / height, (line % height) * self.stride + ky);
        // Positions count from the padding's edge; the image begins at `padding`.
        let left = column * self.stride;
        let from = left.max(self.padding);
        let to = (left + self.kernel[1]).min(self.width + self.padding).max(from);
        if top < self.padding || top >= self.height + self.padding || from == to {
            return WindowLine { skipped: 0, inside: 0..0 };
        }
        let start = (sample * self.height + top - self.padding) * self.width;
        let at = |column: usize| (start + column - self.padding) * self.channels;
        WindowLine { skipped: (from - left) * self.channels, inside: at(from)..at(to) }
    }
}

/// Consecutive values of an image that form one line of a window, after `skipped` values of padding.
struct WindowLine {
    skipped: usize,
    inside: Range<usize>,
}

struct Fold<'a> {
    geometry: &'a ConvolutionGeometry,
    rows: &'a [f32],
    lines: Range<usize>,
    x: &'a mut [f32],
}

impl WideWork for Fold<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let Fold { geometry, rows, lines, x } = self;
        let [_, width] = geometry.output();
        let mut runs = rows.chunks_exact(geometry.kernel[1] * geometry.channels);
        for line in lines {
            for column in 0..width {
                for ky in 0..geometry.kernel[0] {
                    let (run, Some(values)) = (geometry.run(line, column, ky), runs.next()) else {
                        return;
                    };
                    let values = &values[run.skipped..];
                    for (x, &value) in x[run.inside].iter_mut().zip(values) {
                        *x += value;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(stride: usize, padding: usize, kernel: usize) -> ConvolutionGeometry {
        ConvolutionGeometry::new(&[2, 3, 4, 2], &[1, 2, kernel, kernel], stride, padding).unwrap()
    }

    #[test]
    fn windows_are_what_they_say() {
        let x: Vec<f32> = (1..=48).map(|i| i as f32).collect();
        let (mut rows, g) = (Vec::new(), geometry(2, 1, 3));
        assert_eq!(g.output(), [2, 2]);
        g.unfold(&x, 0..g.samples * 2, &mut rows);
        assert_eq!(rows.len(), 2 * 4 * g.window());
        // The first window hangs over the upper left corner: its center is pixel (0, 0).
        let first = &rows[..18];
        assert_eq!(first[..8], [0.0; 8]);
        assert_eq!(first[8..12], [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(first[12..], [0.0, 0.0, 9.0, 10.0, 11.0, 12.0]);
        // The last one of the second sample has its center at pixel (2, 2).
        assert_eq!(rows[rows.len() - 10..][..2], [45.0, 46.0]);
    }

    #[test]
    fn folding_counts_how_often_a_pixel_is_seen() {
        for (stride, padding, kernel) in [(1, 1, 3), (2, 0, 1), (2, 1, 3), (1, 2, 2), (3, 4, 3)] {
            let g = geometry(stride, padding, kernel);
            let (mut rows, mut ones, mut seen) = (Vec::new(), vec![0f32; 48], vec![0f32; 48]);
            let x: Vec<f32> = (0..48).map(|i| i as f32).collect();
            let all = 0..2 * g.output()[0];
            g.unfold(&x, all.clone(), &mut rows);
            for &value in rows.iter().filter(|v| **v > 0.0) {
                seen[value as usize] += 1.0;
            }
            g.fold(&vec![1.0; rows.len()], all, &mut ones);
            assert_eq!(ones[1..], seen[1..], "{g:?}");
        }
    }

    #[test]
    fn panels_cover_every_line_once() {
        let g = ConvolutionGeometry::new(&[70, 8, 8, 256], &[3, 256, 3, 3], 1, 1).unwrap();
        let panels: Vec<_> = g.panels().collect();
        assert!(panels.len() > 2);
        assert_eq!(
            panels.iter().cloned().flatten().collect::<Vec<_>>(),
            (0..560).collect::<Vec<_>>()
        );
    }
}
