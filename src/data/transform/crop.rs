//! Geometry of crops, without pixels.

use rand::RngCore;

use crate::numerics::distributions::{below, uniform};

/// A window of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// First row.
    pub top: usize,
    /// First column.
    pub left: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

/// Returns the central `side x side` window of an image at least that large.
///
/// Half pixels are rounded to even, as in torchvision.
pub fn center(height: usize, width: usize, side: usize) -> Window {
    let middle = |full: usize| ((full - side) as f64 / 2.0).round_ties_even() as usize;
    Window { top: middle(height), left: middle(width), height: side, width: side }
}

/// Returns a uniformly random `side x side` window of an image at least that large.
pub fn random(rng: &mut impl RngCore, height: usize, width: usize, side: usize) -> Window {
    let top = below(rng, (height - side) as u64 + 1) as usize;
    let left = below(rng, (width - side) as u64 + 1) as usize;
    Window { top, left, height: side, width: side }
}

/// Draws a window as torchvision's `RandomResizedCrop` does.
///
/// It covers a fraction of the area uniform in `scale`, with an aspect ratio log-uniform in `ratio`. After ten attempts
/// that do not fit, it is the largest centered window within the ratios.
pub fn random_resized(
    rng: &mut impl RngCore,
    height: usize,
    width: usize,
    scale: [f64; 2],
    ratio: [f64; 2],
) -> Window {
    let area = (height * width) as f64;
    let logs = ratio.map(libm::log);
    for _ in 0..10 {
        let target = area * uniform(rng, scale[0], scale[1]);
        let aspect = libm::exp(uniform(rng, logs[0], logs[1]));
        let w = (target * aspect).sqrt().round_ties_even() as usize;
        let h = (target / aspect).sqrt().round_ties_even() as usize;
        if (1..=width).contains(&w) && (1..=height).contains(&h) {
            let top = below(rng, (height - h) as u64 + 1) as usize;
            let left = below(rng, (width - w) as u64 + 1) as usize;
            return Window { top, left, height: h, width: w };
        }
    }
    let aspect = width as f64 / height as f64;
    let (h, w) = if aspect < ratio[0] {
        ((width as f64 / ratio[0]).round_ties_even() as usize, width)
    } else if aspect > ratio[1] {
        (height, (height as f64 * ratio[1]).round_ties_even() as usize)
    } else {
        (height, width)
    };
    let (h, w) = (h.max(1), w.max(1));
    Window { top: (height - h) / 2, left: (width - w) / 2, height: h, width: w }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::{Domain, StreamKey};

    #[test]
    fn random_resized_crops_keep_their_bounds_and_their_means() {
        let mut rng = StreamKey::new(1, Domain::Augment).rng();
        let mut share = 0.0;
        for _ in 0..2_000 {
            let w = random_resized(&mut rng, 100, 100, [0.08, 1.0], [0.75, 4.0 / 3.0]);
            assert!(w.top + w.height <= 100 && w.left + w.width <= 100);
            let aspect = w.width as f64 / w.height as f64;
            assert!((0.70..1.43).contains(&aspect), "{w:?}");
            share += (w.width * w.height) as f64 / 10_000.0 / 2_000.0;
        }
        // Uniform on [.08, 1] has mean .54; tries that do not fit cut the largest areas.
        assert!((0.46..0.54).contains(&share), "{share}");
    }

    #[test]
    fn an_image_no_window_fits_falls_back_to_the_centre() {
        let mut rng = StreamKey::new(1, Domain::Augment).rng();
        // 10 x 1000: a window of half the area and ratio 1 would need 70 rows.
        let w = random_resized(&mut rng, 10, 1_000, [0.5, 1.0], [0.75, 4.0 / 3.0]);
        assert_eq!(w, Window { top: 0, left: 493, height: 10, width: 13 });
    }

    #[test]
    fn centres_round_half_to_even() {
        assert_eq!(center(256, 256, 224).top, 16);
        assert_eq!(center(5, 5, 4).top, 0);
        assert_eq!(center(7, 7, 4).top, 2);
    }
}
