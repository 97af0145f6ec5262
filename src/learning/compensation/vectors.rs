//! Value and gradient against the package's own vectors.

use candle_core::Device;

use super::*;
use crate::golden::Golden;

#[test]
fn golden_own_compensation_is_a_negative_log_likelihood() {
    let golden = Golden::own("losses");
    let whitening = Whitening { eps: 1e-2, floor: 0.8 };
    let variance = golden.f64("nll.variance");
    let precision: Vec<f32> = (variance.chunks(4))
        .flat_map(|of_class| whitening.precision(of_class))
        .map(|value| value as f32)
        .collect();
    let precision = Tensor::from_vec(precision, golden.shape("nll.variance"), &Device::Cpu);
    let features = golden.variable("nll.features");
    let losses = compensation_losses(&features, &golden.tensor("nll.mean"), &precision.unwrap());
    let losses = losses.unwrap();
    golden.assert_tensor("nll.each", &losses);
    golden.assert_loss("nll", &losses.sum_all().unwrap(), &features);
}
