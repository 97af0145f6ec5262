//! Images from gradients (Zhu, Liu and Han, "Deep Leakage from Gradients", NeurIPS 2019). A server that was sent the
//! gradient of a network that it knows can reconstruct the image.
//!
//! ```text
//! label    argmin over classes of the row sums of the last layer's weight gradient: only the label's row is pulled up, for
//!          what it is fed is not negative
//! image    argmin_x  |grad L(theta; x, label) - g|^2, by L-BFGS from random pixels
//!          its gradient is 2 d/de grad_x L(theta + e v; x) at e = 0,  v = grad L(theta; x) - g:
//!          the central difference of two input gradients, and no second derivative
//! ```
//!
//! ```
//! use fedcast::learning::gradient_matching::{LeNet, Matching};
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! let net = LeNet::new([1, 8, 8], 10, StreamKey::new(1, Domain::Init));
//! let image: Vec<f64> = (0..64).map(|i| f64::from(i % 7) / 6.0).collect();
//! let (_, gradient) = net.gradient(&image, 3);
//! assert_eq!(net.label_of(&gradient), 3);
//! let matching = Matching { net: &net, gradient: &gradient, label: 3 };
//! assert!(matching.value_and_slope(&image).0 < 1e-20);
//! ```

mod lenet;

pub use lenet::LeNet;

use crate::numerics::distributions::standard_normal;
use crate::numerics::lbfgs::Lbfgs;
use crate::numerics::streams::StreamKey;

/// Length of the parameter step in the central difference of two input gradients.
const DIFFERENCE: f64 = 1e-5;

/// Settings of the search for an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// Number of calls of L-BFGS, of at most 20 iterations each.
    pub calls: usize,
    /// Step length of L-BFGS.
    pub rate: f64,
    /// Number of last images that are kept, one per call.
    pub kept: usize,
}

impl Search {
    /// Largest number of iterations per call.
    pub const ITERATIONS: usize = 20;

    /// Returns the last images, oldest first, and the squared distance of the last one's gradient.
    pub fn run(&self, matching: &Matching<'_>, key: StreamKey) -> (Vec<Vec<f64>>, f64) {
        let mut rng = key.rng();
        let mut x: Vec<f64> =
            (0..matching.net.pixels()).map(|_| standard_normal(&mut rng)).collect();
        let mut lbfgs = Lbfgs::new(self.rate, Search::ITERATIONS);
        let mut kept = Vec::with_capacity(self.kept);
        for call in 0..self.calls {
            lbfgs.call(&mut x, |x| matching.value_and_slope(x));
            if call + self.kept >= self.calls {
                kept.push(x.clone());
            }
        }
        let distance = matching.value_and_slope(&x).0;
        (kept, distance)
    }
}

/// Squared distance between the gradient of an image and one that was sent.
pub struct Matching<'a> {
    /// Network that the client and the server both know, with its parameters.
    pub net: &'a LeNet,
    /// Gradient that was sent.
    pub gradient: &'a [f64],
    /// Class of the image, as [`LeNet::label_of`] finds it.
    pub label: usize,
}

impl Matching<'_> {
    /// Returns the squared distance, and its gradient with respect to the image.
    pub fn value_and_slope(&self, image: &[f64]) -> (f64, Vec<f64>) {
        let (_, own) = self.net.gradient(image, self.label);
        let gap: Vec<f64> = own.iter().zip(self.gradient).map(|(own, sent)| own - sent).collect();
        let value: f64 = gap.iter().map(|gap| gap * gap).sum();
        let length = value.sqrt();
        if length == 0.0 {
            return (0.0, vec![0.0; image.len()]);
        }
        let step = DIFFERENCE / length;
        let by_image = |sign: f64| {
            let moved = self.net.moved(&gap, sign * step);
            moved.image_gradient(image, self.label)
        };
        let (up, down) = (by_image(1.0), by_image(-1.0));
        // Twice the central difference: 2 (up - down) / (2 step).
        (value, up.iter().zip(&down).map(|(up, down)| (up - down) / step).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    fn image(pixels: usize) -> Vec<f64> {
        (0..pixels).map(|i| 0.5 + 0.5 * ((i * i) as f64 * 0.13).sin()).collect()
    }

    /// The slope against differences of the value, far from the image that is looked for.
    #[test]
    fn the_slope_of_the_distance_needs_no_second_derivative() {
        let net = LeNet::new([1, 6, 6], 5, StreamKey::new(2, Domain::Init));
        let (_, gradient) = net.gradient(&image(36), 1);
        let matching = Matching { net: &net, gradient: &gradient, label: 1 };
        let x: Vec<f64> = (0..36).map(|i| (f64::from(i) * 0.7).cos()).collect();
        let (value, slope) = matching.value_and_slope(&x);
        assert!(value > 1e-4);
        let scale = slope.iter().map(|s| s.abs()).fold(0.0, f64::max);
        for at in 0..36 {
            let moved = |by: f64| {
                let mut x = x.clone();
                x[at] += by;
                matching.value_and_slope(&x).0
            };
            let difference = (moved(1e-4) - moved(-1e-4)) / 2e-4;
            assert!((difference - slope[at]).abs() < 1e-4 * scale, "{at}: {difference}");
        }
    }

    /// From random pixels the image comes back: its gradient to a part in a thousand, its pixels nearer than a random
    /// image by far.
    #[test]
    fn an_image_is_found_again() {
        let net = LeNet::new([1, 6, 6], 5, StreamKey::new(2, Domain::Init));
        let wanted = image(36);
        let (_, gradient) = net.gradient(&wanted, 4);
        let matching = Matching { net: &net, gradient: &gradient, label: 4 };
        let search = Search { calls: 60, rate: 0.1, kept: 3 };
        let key = StreamKey::new(5, Domain::Method);
        let (images, distance) = search.run(&matching, key);
        assert_eq!(images.len(), 3);
        let whole: f64 = gradient.iter().map(|g| g * g).sum();
        assert!(distance < 1e-3 * whole, "{distance} of {whole}");
        let error =
            |x: &[f64]| x.iter().zip(&wanted).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 36.0;
        assert!(error(&images[2]) < 0.02, "{}", error(&images[2]));
        assert_eq!(search.run(&matching, key).0, images);
    }
}
