//! Color jitter: brightness, contrast and saturation change by random factors, in random order.
//!
//! A factor blends an image with one that lacks the property: black, the mean gray of the image, the image in gray.
//! Factor 0 gives the latter, 1 the image itself, and more than 1 extrapolates. On bytes it is Pillow's `ImageEnhance`,
//! which truncates after each step and which torchvision's `ColorJitter` calls for images; on floats it is
//! torchvision's own code for tensors.

use rand::RngCore;

use crate::numerics::distributions::{shuffle, uniform};

/// Ranges of the factors: each is uniform in `[max(0, 1 - x), 1 + x]`; 0 leaves the property unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    /// Half the width of the range of brightness factors around 1.
    pub brightness: f64,
    /// Half the width of the range of contrast factors around 1.
    pub contrast: f64,
    /// Half the width of the range of saturation factors around 1.
    pub saturation: f64,
}

/// Property of an image that jitter changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    Brightness,
    Contrast,
    Saturation,
}

impl Jitter {
    /// Draws factors for the properties, in the random order in which they are applied.
    pub fn draw(&self, rng: &mut impl RngCore) -> Vec<(Property, f64)> {
        let ranges = [
            (Property::Brightness, self.brightness),
            (Property::Contrast, self.contrast),
            (Property::Saturation, self.saturation),
        ];
        let moved = ranges.into_iter().filter(|(_, by)| *by > 0.0);
        let mut factors: Vec<(Property, f64)> = moved
            .map(|(property, by)| (property, uniform(rng, (1.0 - by).max(0.0), 1.0 + by)))
            .collect();
        shuffle(rng, &mut factors);
        factors
    }
}

/// Returns the three planes of a colored image; `None` of a gray one.
fn colors<T>(image: &[T], channels: usize) -> Option<[&[T]; 3]> {
    let plane = image.len() / channels.max(1);
    (channels == 3).then(|| [0, 1, 2].map(|c| &image[c * plane..(c + 1) * plane]))
}

/// Converts planes to gray as Pillow does: ITU-R 601 in 16-bit fixed point.
fn gray_u8(image: &[u8], channels: usize) -> Vec<u8> {
    let Some([red, green, blue]) = colors(image, channels) else { return image.to_vec() };
    let weigh = |((r, g), b): ((&u8, &u8), &u8)| {
        (19_595 * u32::from(*r) + 38_470 * u32::from(*g) + 7_471 * u32::from(*b) + 0x8000) >> 16
    };
    red.iter().zip(green).zip(blue).map(|pixel| weigh(pixel) as u8).collect()
}

/// Adjusts planes of bytes as Pillow's `ImageEnhance` does.
pub fn adjust_u8(image: &mut [u8], channels: usize, property: Property, factor: f64) {
    let factor = factor as f32;
    // `as` truncates fractions and saturates at both ends, as Pillow does.
    let blend = |value: &mut u8, lacking: u8| {
        let from = f32::from(lacking);
        *value = (from + factor * (f32::from(*value) - from)) as u8;
    };
    match property {
        Property::Brightness => image.iter_mut().for_each(|value| blend(value, 0)),
        Property::Contrast => {
            let gray = gray_u8(image, channels);
            let sum: u64 = gray.iter().map(|value| u64::from(*value)).sum();
            let mean = (sum as f64 / gray.len().max(1) as f64 + 0.5) as u8;
            image.iter_mut().for_each(|value| blend(value, mean));
        }
        Property::Saturation => {
            let gray = gray_u8(image, channels);
            for plane in image.chunks_exact_mut(gray.len().max(1)) {
                plane.iter_mut().zip(&gray).for_each(|(value, gray)| blend(value, *gray));
            }
        }
    }
}

/// Adjusts planes of floats in `[0, 1]`, clamped to that range.
pub fn adjust_f32(image: &mut [f32], channels: usize, property: Property, factor: f64) {
    let factor = factor as f32;
    let blend = |value: &mut f32, lacking: f32| {
        *value = (factor * *value + (1.0 - factor) * lacking).clamp(0.0, 1.0);
    };
    let gray: Vec<f32> = match (property, colors(image, channels)) {
        (Property::Brightness, _) => Vec::new(),
        (_, None) => image.to_vec(),
        (_, Some([red, green, blue])) => {
            let pixels = red.iter().zip(green).zip(blue);
            pixels.map(|((r, g), b)| 0.2989 * r + 0.587 * g + 0.114 * b).collect()
        }
    };
    match property {
        Property::Brightness => image.iter_mut().for_each(|value| blend(value, 0.0)),
        Property::Contrast => {
            let mean = gray.iter().map(|value| f64::from(*value)).sum::<f64>();
            let mean = (mean / gray.len().max(1) as f64) as f32;
            image.iter_mut().for_each(|value| blend(value, mean));
        }
        Property::Saturation => {
            for plane in image.chunks_exact_mut(gray.len().max(1)) {
                plane.iter_mut().zip(&gray).for_each(|(value, gray)| blend(value, *gray));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::{Domain, StreamKey};
    use Property::{Brightness, Contrast, Saturation};

    /// Three planes of two rows and three columns.
    const IMAGE: [u8; 18] =
        [10, 255, 77, 0, 250, 5, 200, 0, 78, 0, 251, 130, 30, 128, 79, 0, 252, 240];

    fn adjusted(steps: &[(Property, f64)]) -> [u8; 18] {
        let mut image = IMAGE;
        steps.iter().for_each(|(property, factor)| adjust_u8(&mut image, 3, *property, *factor));
        image
    }

    /// Numbers of Pillow 13's `ImageEnhance.Brightness`, `Contrast` and `Color`.
    #[test]
    fn bytes_are_those_of_pillow() {
        for (property, factor, expected) in [
            (
                Brightness,
                0.6,
                [6, 153, 46, 0, 150, 3, 120, 0, 46, 0, 150, 78, 18, 76, 47, 0, 151, 144],
            ),
            (
                Brightness,
                1.3,
                [13, 255, 100, 0, 255, 6, 255, 0, 101, 0, 255, 169, 39, 166, 102, 0, 255, 255],
            ),
            (Contrast, 0.0, [108; 18]),
            (
                Contrast,
                0.6,
                [49, 196, 89, 43, 193, 46, 163, 43, 90, 43, 193, 121, 61, 120, 90, 43, 194, 187],
            ),
            (
                Contrast,
                1.9,
                [0, 255, 49, 0, 255, 0, 255, 0, 51, 0, 255, 149, 0, 146, 52, 0, 255, 255],
            ),
            (
                Saturation,
                0.0,
                [124, 91, 78, 0, 251, 105, 124, 91, 78, 0, 251, 105, 124, 91, 78, 0, 251, 105],
            ),
            (
                Saturation,
                0.6,
                [55, 189, 77, 0, 250, 44, 169, 36, 78, 0, 251, 120, 67, 113, 78, 0, 251, 186],
            ),
            (
                Saturation,
                1.3,
                [0, 255, 76, 0, 249, 0, 222, 0, 78, 0, 251, 137, 1, 139, 79, 0, 252, 255],
            ),
        ] {
            assert_eq!(adjusted(&[(property, factor)]), expected, "{property:?} {factor}");
        }
        let steps = [(Contrast, 1.4), (Brightness, 0.8), (Saturation, 0.5)];
        let expected = [55, 138, 51, 0, 204, 44, 149, 36, 52, 0, 204, 99, 55, 90, 52, 0, 204, 146];
        assert_eq!(adjusted(&steps), expected, "one after the other");
    }

    #[test]
    fn floats_follow_torchvision_on_tensors() {
        // One pixel (0.2, 0.4, 0.9): gray 0.2989 * 0.2 + 0.587 * 0.4 + 0.114 * 0.9 = 0.39718.
        for (property, factor, expected) in [
            (Brightness, 1.5, [0.3, 0.6, 1.0]),
            (Saturation, 0.5, [0.29859, 0.39859, 0.64859]),
            (Contrast, 2.0, [0.00282, 0.40282, 1.0]),
        ] {
            let mut pixel = [0.2, 0.4, 0.9];
            adjust_f32(&mut pixel, 3, property, factor);
            for (got, expected) in pixel.iter().zip(expected) {
                assert!((got - expected).abs() < 1e-6, "{property:?}: {pixel:?}");
            }
        }
        // Two pixels: contrast goes away from the mean of both grays, (0.2989 * 1 + 0) / 2.
        let mut pixels = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        adjust_f32(&mut pixels, 3, Contrast, 0.5);
        let low = 0.5 * 0.2989 / 2.0;
        let expected = [0.5 + low, low, low, low, low, low];
        assert!(pixels.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{pixels:?}");
    }

    #[test]
    fn grey_images_have_no_saturation_to_lose() {
        let mut image = [10, 20, 30, 200];
        adjust_u8(&mut image, 1, Saturation, 0.3);
        assert_eq!(image, [10, 20, 30, 200]);
        // The mean is 65.
        adjust_u8(&mut image, 1, Contrast, 0.5);
        assert_eq!(image, [37, 42, 47, 132]);
    }

    #[test]
    fn factors_lie_around_one_and_every_order_comes() {
        let jitter = Jitter { brightness: 0.247, contrast: 2.0, saturation: 0.5 };
        let mut rng = StreamKey::new(4, Domain::Augment).rng();
        let mut orders = std::collections::BTreeMap::new();
        let (mut low, mut high) = ([9.0f64; 3], [0.0f64; 3]);
        for _ in 0..1_200 {
            let drawn = jitter.draw(&mut rng);
            for (property, factor) in &drawn {
                let place = *property as usize;
                low[place] = low[place].min(*factor);
                high[place] = high[place].max(*factor);
            }
            let order: Vec<usize> = drawn.iter().map(|(property, _)| *property as usize).collect();
            *orders.entry(order).or_insert(0) += 1;
        }
        assert!(orders.len() == 6 && orders.values().all(|n| (150..250).contains(n)), "{orders:?}");
        for (place, [least, most]) in [[0.753, 1.247], [0.0, 3.0], [0.5, 1.5]].iter().enumerate() {
            let width = most - least;
            assert!((0.0..0.01).contains(&((low[place] - least) / width)), "{low:?}");
            assert!((0.0..0.01).contains(&((most - high[place]) / width)), "{high:?}");
        }
        let one = Jitter { brightness: 0.2, ..Jitter::default() };
        assert_eq!(one.draw(&mut rng).len(), 1);
    }
}
