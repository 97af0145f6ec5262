//! Random initial values, drawn from named streams.

use super::{ImageGenerator, ImageGeneratorConfig};
use crate::model::parameters::{Parameter, ParameterSet};
use crate::numerics::distributions::uniform;
use crate::numerics::streams::StreamKey;

impl ImageGenerator {
    /// Returns initial values as in PyTorch: weights and biases uniform in `±1/sqrt(inputs)`, norms 1 and 0, running
    /// means 0 and variances 1.
    ///
    /// Every parameter has its own stream, keyed by its name.
    pub fn initial_parameters(config: &ImageGeneratorConfig, key: StreamKey) -> ParameterSet {
        let shapes = config.parameter_shapes();
        let inputs = |layer: &str| {
            let weight = shapes.iter().find(|(name, _)| *name == format!("{layer}.weight"));
            weight.map_or(1, |(_, shape)| shape.iter().skip(1).product::<usize>())
        };
        let start = |(name, shape): &(String, Vec<usize>)| {
            let count = shape.iter().product();
            let (layer, part) = name.rsplit_once('.').unwrap_or((name, ""));
            let values: Vec<f32> = match (layer.starts_with("bn"), part) {
                (true, "weight" | "running_var") => vec![1.0; count],
                (true, _) => vec![0.0; count],
                (false, _) => {
                    let bound = 1.0 / (inputs(layer).max(1) as f64).sqrt();
                    let mut rng = key.named(name).rng();
                    (0..count).map(|_| uniform(&mut rng, -bound, bound) as f32).collect()
                }
            };
            (name.clone(), Parameter { shape: shape.clone(), values: values.into() })
        };
        shapes.iter().map(start).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    #[test]
    fn start_values_are_pytorch_s() {
        let config = ImageGeneratorConfig { latent: 100, width: 8, last: 4, ..Default::default() };
        let of =
            |seed| ImageGenerator::initial_parameters(&config, StreamKey::new(seed, Domain::Init));
        let set = of(5);
        assert_eq!(set.digest(), of(5).digest());
        assert_ne!(set.digest(), of(6).digest());
        let values = |name: &str| set.get(name).unwrap().values.to_vec();
        // A uniform variable on ±b has the mean square b²/3.
        for (name, inputs) in [("l1.weight", 100.0), ("conv2.weight", 72.0)] {
            let values = values(name);
            let square = values.iter().map(|v| f64::from(v * v)).sum::<f64>() / values.len() as f64;
            assert!((3.0 * inputs * square - 1.0).abs() < 0.15, "{name}: {square}");
            assert!(values.iter().all(|v| f64::from(v * v) * inputs <= 1.0 + 1e-6), "{name}");
        }
        assert!(values("conv3.bias").iter().all(|v| v.abs() < 1.0 / 6.0 + 1e-6));
        assert_eq!((values("bn0.weight"), values("bn0.bias")), (vec![1.0; 8], vec![0.0; 8]));
        assert_eq!(
            (values("bn3.running_mean"), values("bn3.running_var")),
            (vec![0.0; 3], vec![1.0; 3])
        );
        assert!(set.get("bn3.weight").is_none(), "the last norm has neither scale nor shift");
    }
}
