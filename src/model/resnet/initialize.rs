//! Random initial values, drawn from named streams.

use super::config::VARIANCE;
use super::{ResNet, ResNetConfig};
use crate::model::parameters::{Parameter, ParameterSet};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;

impl ResNet {
    /// Returns initial values as in torchvision.
    ///
    /// Convolutions are normal with variance `2 / (out k k)` (He et al. 2015, by fan out), batch norms 1 and 0, running
    /// means 0 and variances 1, with no batch counted. Every convolution has its own stream, keyed by its name.
    pub fn initial_parameters(config: &ResNetConfig, key: StreamKey) -> ParameterSet {
        let draw = |name: &str, shape: Vec<usize>| {
            let mut values = vec![0f32; shape.iter().product()];
            if let &[outputs, _, height, width] = shape.as_slice() {
                let deviation = (2.0 / (outputs * height * width) as f64).sqrt() as f32;
                fill_normal(&mut key.named(name).rng(), &mut values);
                values.iter_mut().for_each(|v| *v *= deviation);
            } else if name.ends_with(".weight") || name.ends_with(VARIANCE) {
                values.fill(1.0);
            }
            Parameter { shape, values: values.into() }
        };
        let shapes = config.parameter_shapes().into_iter();
        shapes.map(|(name, shape)| (name.clone(), draw(&name, shape))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    #[test]
    fn the_same_key_gives_the_same_network_and_its_spread_is_he_s() {
        let config = ResNetConfig { width: 32, blocks: [1; 4], ..ResNetConfig::default() };
        let of = |seed| ResNet::initial_parameters(&config, StreamKey::new(seed, Domain::Init));
        let set = of(5);
        assert_eq!(set.digest(), of(5).digest());
        assert_ne!(set.digest(), of(6).digest());
        let values = &set.get("layer4.0.conv2.weight").unwrap().values;
        let mean_square = values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32;
        let expected = 2.0 / (256.0 * 9.0);
        assert!((mean_square / expected - 1.0).abs() < 0.01, "{mean_square} {expected}");
        assert!(set.get("bn1.running_var").unwrap().values.iter().all(|v| *v == 1.0));
        assert!(set.get("bn1.running_mean").unwrap().values.iter().all(|v| *v == 0.0));
        assert!(set.get("layer2.0.downsample.1.weight").unwrap().values.iter().all(|v| *v == 1.0));
    }
}
