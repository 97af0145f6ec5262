//! Images as PNG files: one of them as it is, or a sheet, where small ones are enlarged pixel by pixel.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage};

/// Pixels between images.
const GAP: u32 = 4;

/// Minimum side of an image in the picture, in pixels; smaller images are enlarged.
const LEAST: u32 = 96;

/// Returns rows of images `[channels, height, width]` of values in `[0, 1]` as a PNG file.
///
/// # Errors
/// Returns an error if the sheet is too large for a PNG.
pub(super) fn sheet(rows: &[Vec<&[f32]>], shape: [usize; 3]) -> Result<Vec<u8>, image::ImageError> {
    let [_, height, width] = shape.map(|extent| extent as u32);
    let scale = LEAST.div_ceil(height.min(width).max(1));
    let columns = rows.iter().map(Vec::len).max().unwrap_or(1) as u32;
    let extent = |images: u32, side: u32| images * (side * scale + GAP) + GAP;
    let (wide, high) = (extent(columns, width), extent(rows.len() as u32, height));
    let mut sheet = RgbImage::from_pixel(wide, high, Rgb([255; 3]));
    for (row, images) in (0..).zip(rows) {
        for (column, image) in (0..).zip(images) {
            let (left, top) = (extent(column, width), extent(row, height));
            for (x, y) in (0..width * scale).flat_map(|x| (0..height * scale).map(move |y| (x, y)))
            {
                let at = ((y / scale) * width + x / scale) as usize;
                sheet.put_pixel(left + x, top + y, color(image, at, shape));
            }
        }
    }
    png(&sheet)
}

/// Returns an image of `[channels, height, width]` as a PNG file, a pixel per pixel.
///
/// # Errors
/// Returns an error if the image is too large for a PNG.
pub(super) fn single(image: &[f32], shape: [usize; 3]) -> Result<Vec<u8>, image::ImageError> {
    let [_, height, width] = shape.map(|extent| extent as u32);
    let pixel = |x: u32, y: u32| color(image, (y * width + x) as usize, shape);
    png(&RgbImage::from_fn(width, height, pixel))
}

fn png(image: &RgbImage) -> Result<Vec<u8>, image::ImageError> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, ImageFormat::Png)?;
    Ok(bytes.into_inner())
}

/// Returns the color of a pixel; one channel is gray, of more than three the first three count.
fn color(image: &[f32], at: usize, [channels, height, width]: [usize; 3]) -> Rgb<u8> {
    let plane = height * width;
    let value = |channel: usize| {
        let channel = if channels < 3 { 0 } else { channel };
        (image[channel * plane + at] * 255.0).round() as u8
    };
    Rgb([value(0), value(1), value(2)])
}
