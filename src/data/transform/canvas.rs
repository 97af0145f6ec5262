//! Image during its transforms: bytes or floats, in scratch memory that is reused from image to image.

use std::collections::BTreeMap;

use super::crop::Window;
use super::jitter::{self, Property};
use super::resize::{Kernel, ResizeWeights, resize_f32, resize_u8};
use super::{DataError, Image, Normalization};

/// Scratch memory and resize weights, best kept one per worker. Its content never changes results.
#[derive(Debug, Default)]
pub struct Workspace {
    channels: usize,
    height: usize,
    width: usize,
    depth: PixelForm,
    bytes: Planes<u8>,
    floats: Planes<f32>,
    tables: BTreeMap<(Kernel, usize, usize), ResizeWeights>,
}

/// Representation of the current image.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum PixelForm {
    #[default]
    Bytes,
    Floats,
}

/// An image, and buffers for the results of the next step.
#[derive(Debug, Default)]
struct Planes<T> {
    image: Vec<T>,
    middle: Vec<T>,
    next: Vec<T>,
}

/// Limit of cached resize weights. Random crops have many sizes; a table is small, but they add up.
const MOST_TABLES: usize = 1_024;

/// Returns the size after the shorter side is resized to `side`.
///
/// The longer side is rounded down, as in torchvision.
pub(crate) fn shorter_to(height: usize, width: usize, side: usize) -> (usize, usize) {
    if height <= width {
        (side, (side * width / height.max(1)).max(1))
    } else {
        ((side * height / width.max(1)).max(1), side)
    }
}

impl Workspace {
    pub(super) fn load(&mut self, image: &Image<'_>) {
        (self.channels, self.height, self.width) = (image.channels, image.height, image.width);
        self.depth = PixelForm::Bytes;
        self.bytes.image.clear();
        self.bytes.image.extend_from_slice(&image.pixels);
    }

    pub(super) fn load_floats(&mut self, image: &Image<'_, f32>) {
        (self.channels, self.height, self.width) = (image.channels, image.height, image.width);
        self.depth = PixelForm::Floats;
        self.floats.image.clear();
        self.floats.image.extend_from_slice(&image.pixels);
    }

    /// Returns the current height and width.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.height, self.width)
    }

    pub(super) fn check_window(&self, side: usize) -> Result<(), DataError> {
        if side <= self.height && side <= self.width {
            return Ok(());
        }
        let (h, w) = self.size();
        Err(DataError::unfit(
            format!("a crop of {side} pixels does not fit an image of {h} x {w}"),
            "resize before the crop, or use a smaller crop",
        ))
    }

    pub(super) fn resize(&mut self, kernel: Kernel, height: usize, width: usize) {
        if (height, width) == (self.height, self.width) {
            return;
        }
        // Pillow's arithmetic needs bytes. Other kernels need floats, as do images that already are floats.
        if !kernel.on_bytes() {
            self.widen();
        }
        if self.tables.len() >= MOST_TABLES {
            self.tables.clear();
        }
        for (from, to) in [(self.height, height), (self.width, width)] {
            self.tables
                .entry((kernel, from, to))
                .or_insert_with(|| ResizeWeights::new(kernel, from, to));
        }
        let rows = &self.tables[&(kernel, self.height, height)];
        let columns = &self.tables[&(kernel, self.width, width)];
        match self.depth {
            PixelForm::Bytes => {
                let Planes { image, middle, next } = &mut self.bytes;
                resize_u8(rows, columns, image, middle, next);
                std::mem::swap(image, next);
            }
            PixelForm::Floats => {
                let Planes { image, middle, next } = &mut self.floats;
                resize_f32(rows, columns, image, middle, next);
                std::mem::swap(image, next);
            }
        }
        (self.height, self.width) = (height, width);
    }

    /// Crops the image to a window inside it.
    pub(super) fn cut(&mut self, window: Window) {
        match self.depth {
            PixelForm::Bytes => self.bytes.cut(self.height, self.width, window),
            PixelForm::Floats => self.floats.cut(self.height, self.width, window),
        }
        (self.height, self.width) = (window.height, window.width);
    }

    /// Adds black pixels at every border.
    pub(super) fn pad(&mut self, by: usize) {
        if by == 0 {
            return;
        }
        match self.depth {
            PixelForm::Bytes => self.bytes.pad(self.height, self.width, by),
            PixelForm::Floats => self.floats.pad(self.height, self.width, by),
        }
        (self.height, self.width) = (self.height + 2 * by, self.width + 2 * by);
    }

    pub(super) fn mirror(&mut self) {
        match self.depth {
            PixelForm::Bytes => {
                self.bytes.image.chunks_exact_mut(self.width).for_each(<[_]>::reverse)
            }
            PixelForm::Floats => {
                self.floats.image.chunks_exact_mut(self.width).for_each(<[_]>::reverse)
            }
        }
    }

    /// Changes the colors: one property becomes `factor` times as strong.
    pub(super) fn adjust(&mut self, property: Property, factor: f64) {
        let planes = self.channels;
        match self.depth {
            PixelForm::Bytes => jitter::adjust_u8(&mut self.bytes.image, planes, property, factor),
            PixelForm::Floats => {
                jitter::adjust_f32(&mut self.floats.image, planes, property, factor)
            }
        }
    }

    /// Appends the normalized floats to `out`; a gray image may be repeated to `channels`.
    pub(super) fn finish(
        &mut self,
        normalization: &Normalization,
        channels: Option<usize>,
        out: &mut Vec<f32>,
    ) -> Result<[usize; 3], DataError> {
        let channels = channels.unwrap_or(self.channels);
        if channels != self.channels && self.channels != 1 {
            return Err(DataError::unfit(
                format!(
                    "the network takes {}, and these have {} channels",
                    match channels {
                        1 => "gray images (1 channel)".to_owned(),
                        channels => format!("images of {channels} channels"),
                    },
                    self.channels
                ),
                "choose another backbone, such as backbone.kind = \"resnet18\"; only gray images can be repeated",
            ));
        }
        let scales = normalization.channels(channels)?;
        self.widen();
        let plane = self.height * self.width;
        for (c, (mean, deviation)) in scales.into_iter().enumerate() {
            let from = if self.channels == 1 { 0 } else { c * plane };
            let values = &self.floats.image[from..from + plane];
            out.extend(values.iter().map(|v| (v - mean) / deviation));
        }
        Ok([channels, self.height, self.width])
    }

    fn widen(&mut self) {
        if self.depth == PixelForm::Bytes {
            self.floats.image.clear();
            self.floats.image.extend(self.bytes.image.iter().map(|&v| f32::from(v) / 255.0));
            self.depth = PixelForm::Floats;
        }
    }
}

impl<T: Copy + Default> Planes<T> {
    fn cut(&mut self, height: usize, width: usize, window: Window) {
        self.next.clear();
        for plane in self.image.chunks_exact(height * width) {
            for row in window.top..window.top + window.height {
                let start = row * width + window.left;
                self.next.extend_from_slice(&plane[start..start + window.width]);
            }
        }
        std::mem::swap(&mut self.image, &mut self.next);
    }

    fn pad(&mut self, height: usize, width: usize, by: usize) {
        let (wide, high) = (width + 2 * by, height + 2 * by);
        let planes = self.image.len() / (height * width);
        self.next.clear();
        self.next.resize(planes * high * wide, T::default());
        for (from, to) in
            self.image.chunks_exact(height * width).zip(self.next.chunks_exact_mut(high * wide))
        {
            for (row, line) in from.chunks_exact(width).enumerate() {
                to[(row + by) * wide + by..][..width].copy_from_slice(line);
            }
        }
        std::mem::swap(&mut self.image, &mut self.next);
    }
}
