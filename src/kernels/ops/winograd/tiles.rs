//! Tiles of images and their transformations: additions only, 16 channels at a time.

use std::ops::Range;

use super::super::unfold::ConvolutionGeometry;
use crate::wide::{WideWork, wide};

/// Number of channels that are processed at once.
pub(super) const LANES: usize = 16;

/// Number of products per tile and pair of channels.
pub(super) const PRODUCTS: usize = 16;

/// Index of a pixel outside of the image.
const OUTSIDE: usize = usize::MAX;

/// Number of values between one matrix of a product and the next.
///
/// At distances of a power of two, all of them would share a few cache sets.
pub(super) const APART: usize = 5 * LANES;

/// Values of 16 channels at each of the 16 positions of a tile.
type Lanes = [[f32; LANES]; PRODUCTS];

/// Tiles of a convolution: `2 x 2` pixels of the output each, and the `4 x 4` of the input that they need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiles {
    /// Height, width and channels of the images.
    pub image: [usize; 3],
    /// Number of tiles of an image, down and across.
    pub grid: [usize; 2],
    /// Number of pixels by which the first tile begins before the image.
    pub before: usize,
}

impl Tiles {
    /// Returns the input in tiles: the pixels that the output's tiles need.
    pub fn of_input(geometry: &ConvolutionGeometry) -> Tiles {
        let image = [geometry.height, geometry.width, geometry.channels];
        Tiles { image, before: geometry.padding, ..Tiles::of_output(geometry) }
    }

    /// Returns the output in tiles, of which the last of a row may exceed the image.
    pub fn of_output(geometry: &ConvolutionGeometry) -> Tiles {
        let [height, width] = geometry.output();
        let grid = [height.div_ceil(2), width.div_ceil(2)];
        Tiles { image: [height, width, geometry.outputs], grid, before: 0 }
    }

    /// Returns the index of the first channel of each pixel in a tile of this side.
    ///
    /// The order is row by row; pixels beyond the image have [`OUTSIDE`].
    #[inline(always)]
    fn pixels(&self, tile: usize, side: usize) -> [usize; PRODUCTS] {
        let ([height, width, channels], [down, across]) = (self.image, self.grid);
        let (sample, top, left) =
            (tile / (down * across), tile / across % down * 2, tile % across * 2);
        let mut pixels = [OUTSIDE; PRODUCTS];
        for (at, pixel) in pixels.iter_mut().enumerate().take(side * side) {
            let (row, column) = (top + at / side, left + at % side);
            let inside =
                |place: usize, size: usize| place >= self.before && place - self.before < size;
            if inside(row, height) && inside(column, width) {
                let line = sample * height + row - self.before;
                *pixel = (line * width + column - self.before) * channels;
            }
        }
        pixels
    }
}

/// Linear map between the pixels of a tile and its 16 positions, equal for every channel.
pub(super) trait Change: Copy {
    /// Number of rows and columns of pixels in a tile. Positions beyond these are zero.
    const SIDE: usize;

    /// Transforms the positions of a tile. Must be `#[inline(always)]`.
    fn change(self, places: &Lanes) -> Lanes;
}

/// Applies `before` to every column of a `4 x 4` tile, then to every row.
#[inline(always)]
fn twice(tile: &Lanes, before: impl Fn([f32; 4]) -> [f32; 4]) -> Lanes {
    let mut changed = [[0.0; LANES]; PRODUCTS];
    for lane in 0..LANES {
        let mut half = [0f32; 16];
        for column in 0..4 {
            let at = |row: usize| tile[4 * row + column][lane];
            let out = before([at(0), at(1), at(2), at(3)]);
            for row in 0..4 {
                half[4 * row + column] = out[row];
            }
        }
        for row in 0..4 {
            let out =
                before([half[4 * row], half[4 * row + 1], half[4 * row + 2], half[4 * row + 3]]);
            for column in 0..4 {
                changed[4 * row + column][lane] = out[column];
            }
        }
    }
    changed
}

/// Places `2 x 2` consecutive pixels in the corner of a `4 x 4` tile.
#[inline(always)]
fn spread(pixels: &Lanes) -> Lanes {
    let mut tile = [[0.0; LANES]; PRODUCTS];
    (tile[0], tile[1], tile[4], tile[5]) = (pixels[0], pixels[1], pixels[2], pixels[3]);
    tile
}

/// Reverses [`spread`].
#[inline(always)]
fn corner(tile: &Lanes) -> Lanes {
    let mut pixels = [[0.0; LANES]; PRODUCTS];
    (pixels[0], pixels[1], pixels[2], pixels[3]) = (tile[0], tile[1], tile[4], tile[5]);
    pixels
}

/// Map `B^T d B` of a tile's input.
#[derive(Clone, Copy)]
pub(super) struct OfInput;

impl Change for OfInput {
    const SIDE: usize = 4;

    #[inline(always)]
    fn change(self, places: &Lanes) -> Lanes {
        twice(places, |[a, b, c, d]| [a - c, b + c, c - b, b - d])
    }
}

/// Map `B v B^T`, the adjoint of [`OfInput`].
#[derive(Clone, Copy)]
pub(super) struct ToInput;

impl Change for ToInput {
    const SIDE: usize = 4;

    #[inline(always)]
    fn change(self, places: &Lanes) -> Lanes {
        twice(places, |[a, b, c, d]| [a, b - c + d, b + c - a, -d])
    }
}

/// Map `A^T m A` to the output's pixels.
#[derive(Clone, Copy)]
pub(super) struct ToOutput;

impl Change for ToOutput {
    const SIDE: usize = 2;

    #[inline(always)]
    fn change(self, places: &Lanes) -> Lanes {
        corner(&twice(places, |[a, b, c, d]| [a + b + c, b - c - d, 0.0, 0.0]))
    }
}

/// Map `A y A^T`, the adjoint of [`ToOutput`].
#[derive(Clone, Copy)]
pub(super) struct OfOutput;

impl Change for OfOutput {
    const SIDE: usize = 2;

    #[inline(always)]
    fn change(self, places: &Lanes) -> Lanes {
        twice(&spread(places), |[a, b, _, _]| [a, a + b, a - b, -b])
    }
}

/// Transforms tiles of `images` into 16 matrices `(tiles, channels)` in `places`.
///
/// There are [`APART`] values between them.
pub(super) fn gather<C: Change>(
    tiles: &Tiles,
    change: C,
    range: Range<usize>,
    images: &[f32],
    places: &mut [f32],
) {
    wide(TileGather { tiles, change, range, images, places });
}

struct TileGather<'a, C> {
    tiles: &'a Tiles,
    change: C,
    range: Range<usize>,
    images: &'a [f32],
    places: &'a mut [f32],
}

impl<C: Change> WideWork for TileGather<'_, C> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let TileGather { tiles, change, range, images, places } = self;
        let channels = tiles.image[2];
        let apart = range.len() * channels + APART;
        for (row, tile) in range.enumerate() {
            let pixels = tiles.pixels(tile, C::SIDE);
            for channel in (0..channels).step_by(LANES) {
                let mut seen = [[0f32; LANES]; PRODUCTS];
                for (seen, &pixel) in seen.iter_mut().zip(&pixels).take(C::SIDE * C::SIDE) {
                    if pixel != OUTSIDE {
                        seen.copy_from_slice(&images[pixel + channel..][..LANES]);
                    }
                }
                for (place, values) in change.change(&seen).iter().enumerate() {
                    let at = place * apart + row * channels + channel;
                    places[at..][..LANES].copy_from_slice(values);
                }
            }
        }
    }
}

/// Transforms 16 matrices `(tiles, channels)` and adds the results to the pixels of the tiles.
pub(super) fn scatter<C: Change>(
    tiles: &Tiles,
    change: C,
    range: Range<usize>,
    places: &[f32],
    images: &mut [f32],
) {
    wide(Scatter { tiles, change, range, places, images });
}

struct Scatter<'a, C> {
    tiles: &'a Tiles,
    change: C,
    range: Range<usize>,
    places: &'a [f32],
    images: &'a mut [f32],
}

impl<C: Change> WideWork for Scatter<'_, C> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let Scatter { tiles, change, range, places, images } = self;
        let channels = tiles.image[2];
        let apart = range.len() * channels + APART;
        for (row, tile) in range.enumerate() {
            let pixels = tiles.pixels(tile, C::SIDE);
            for channel in (0..channels).step_by(LANES) {
                let changed = change.change(&held(places, apart, row * channels + channel));
                for (values, &pixel) in changed.iter().zip(&pixels).take(C::SIDE * C::SIDE) {
                    if pixel != OUTSIDE {
                        let pixel = &mut images[pixel + channel..][..LANES];
                        for (x, value) in pixel.iter_mut().zip(values) {
                            *x += value;
                        }
                    }
                }
            }
        }
    }
}

/// Returns the values of some channels of a tile from all 16 matrices.
#[inline(always)]
fn held(places: &[f32], apart: usize, from: usize) -> Lanes {
    let mut held = [[0f32; LANES]; PRODUCTS];
    for (place, held) in held.iter_mut().enumerate() {
        held.copy_from_slice(&places[place * apart + from..][..LANES]);
    }
    held
}

/// Transforms 16 matrices `(tiles, channels)` and appends the resulting rows of pixels.
///
/// The tiles fill whole rows. The bits equal those of adding to zeros, so that no zero is negative.
pub(super) fn append_lines(
    tiles: &Tiles,
    range: Range<usize>,
    places: &[f32],
    images: &mut Vec<f32>,
) {
    let [height, width, channels] = tiles.image;
    let [down, across] = tiles.grid;
    let mut lines = vec![0f32; 2 * 2 * across * channels];
    let first = range.start;
    for start in range.clone().step_by(across) {
        let rows = start - first..start - first + across;
        wide(TileLines {
            rows,
            apart: range.len() * channels + APART,
            places,
            channels,
            lines: &mut lines,
        });
        let top = start / across % down * 2;
        for line in lines.chunks_exact(2 * across * channels).take(height - top) {
            images.extend_from_slice(&line[..width * channels]);
        }
    }
}

/// Two rows of pixels, from the matrices' rows for their tiles.
struct TileLines<'a> {
    rows: Range<usize>,
    apart: usize,
    places: &'a [f32],
    channels: usize,
    lines: &'a mut [f32],
}

impl WideWork for TileLines<'_> {
    type Answer = ();

    #[inline(always)]
    fn run(self) {
        let TileLines { rows, apart, places, channels, lines } = self;
        let across = rows.len();
        for (tile, row) in rows.enumerate() {
            for channel in (0..channels).step_by(LANES) {
                let changed = ToOutput.change(&held(places, apart, row * channels + channel));
                for (at, values) in changed.iter().enumerate().take(4) {
                    let pixel = at / 2 * 2 * across + 2 * tile + at % 2;
                    let pixel = &mut lines[pixel * channels + channel..][..LANES];
                    for (x, value) in pixel.iter_mut().zip(values) {
                        *x = 0.0 + value;
                    }
                }
            }
        }
    }
}
