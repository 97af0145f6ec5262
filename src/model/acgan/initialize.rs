//! Random initial values, drawn from named streams.

use super::{AcGanConfig, GanForm};
use crate::model::parameters::{Parameter, ParameterSet};
use crate::numerics::distributions::{fill_normal, uniform};
use crate::numerics::streams::StreamKey;

/// Standard deviation of weights, and of batch-norm scales in [`GanForm::Cifar`].
const DEVIATION: f32 = 0.02;

impl AcGanConfig {
    /// Returns initial values as in FedCIL's release.
    ///
    /// Weights of convolutions are normal with a standard deviation of 0.02. In the form for CIFAR, scales of norms are
    /// too, around 1, and linear layers are initialized as in PyTorch; in the form for MNIST, weights of linear layers
    /// are normal, too, and all biases 0. Every parameter has its own stream, keyed by its name.
    pub fn initial_parameters(&self, key: StreamKey) -> ParameterSet {
        let start = |(name, shape): (String, Vec<usize>)| {
            let values = self.start_values(&name, &shape, key.named(&name));
            (name, Parameter { shape, values: values.into() })
        };
        self.parameter_shapes().into_iter().map(start).collect()
    }

    fn start_values(&self, name: &str, shape: &[usize], key: StreamKey) -> Vec<f32> {
        let mut values = vec![0.0; shape.iter().product()];
        let (layer, part) = name.rsplit_once('.').unwrap_or((name, ""));
        let layer = layer.rsplit_once('.').map_or(layer, |(_, layer)| layer);
        let (is_norm, is_conv) = (layer.starts_with("bn"), layer.starts_with("conv"));
        let is_cifar = self.form == GanForm::Cifar;
        let (mean, deviation) = match part {
            "running_var" => (1.0, 0.0),
            "weight" if is_norm => (1.0, if is_cifar { DEVIATION } else { 0.0 }),
            "weight" if is_conv || !is_cifar => (0.0, DEVIATION),
            _ if is_norm || is_conv || !is_cifar => (0.0, 0.0),
            _ => {
                let bound = 1.0 / (self.inputs(layer).max(1) as f64).sqrt();
                let mut rng = key.rng();
                values.fill_with(|| uniform(&mut rng, -bound, bound) as f32);
                return values;
            }
        };
        if deviation > 0.0 {
            fill_normal(&mut key.rng(), &mut values);
        }
        values.iter_mut().for_each(|value| *value = mean + deviation * *value);
        values
    }

    /// Returns the number of inputs of a linear layer.
    fn inputs(&self, layer: &str) -> usize {
        if layer == "fc" { self.noise } else { self.features() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    fn moments(values: &[f32]) -> (f64, f64) {
        let count = values.len() as f64;
        let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / count;
        let square = values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / count;
        (mean, square.sqrt())
    }

    #[test]
    fn start_values_are_those_of_the_release() {
        let cifar = AcGanConfig { divisor: 2, ..AcGanConfig::default() };
        let of = |config: AcGanConfig, seed| {
            config.initial_parameters(StreamKey::new(seed, Domain::Init))
        };
        let set = of(cifar, 5);
        assert_eq!(set.digest(), of(cifar, 5).digest());
        assert_ne!(set.digest(), of(cifar, 6).digest());
        let get = |set: &ParameterSet, name: &str| moments(&set.get(name).unwrap().values);
        for name in ["generator.conv1.weight", "discriminator.conv6.weight"] {
            let (mean, deviation) = get(&set, name);
            assert!(mean.abs() < 1e-3 && (deviation - 0.02).abs() < 1e-3, "{name}");
        }
        let (mean, deviation) = get(&set, "discriminator.bn6.weight");
        assert!((mean - 1.0).abs() < 0.005 && (deviation - 0.02).abs() < 0.005);
        assert_eq!(get(&set, "discriminator.bn6.bias"), (0.0, 0.0));
        assert_eq!(get(&set, "discriminator.bn6.running_var"), (1.0, 0.0));
        // Uniform on ±b has the deviation b / sqrt 3.
        let (_, deviation) = get(&set, "generator.fc.weight");
        assert!((deviation * (3.0f64 * 110.0).sqrt() - 1.0).abs() < 0.05);
        let (_, deviation) = get(&set, "discriminator.classes.weight");
        assert!((deviation * (3.0f64 * 4096.0).sqrt() - 1.0).abs() < 0.05);
        assert_ne!(get(&set, "generator.fc.bias").1, 0.0);

        let small = of(AcGanConfig { form: GanForm::Mnist, ..cifar }, 5);
        let (_, deviation) = get(&small, "generator.fc.weight");
        assert!((deviation - 0.02).abs() < 1e-3);
        assert_eq!(get(&small, "generator.bn1.weight"), (1.0, 0.0));
        for name in ["generator.fc.bias", "discriminator.real.bias", "discriminator.conv1.bias"] {
            assert_eq!(get(&small, name), (0.0, 0.0), "{name}");
        }
    }
}
