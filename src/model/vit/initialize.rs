//! Random initial values, drawn from a named stream.

use super::{Vit, VitConfig};
use crate::model::parameters::{Parameter, ParameterSet};
use crate::numerics::distributions::{fill_normal, uniform};
use crate::numerics::streams::StreamKey;

impl Vit {
    /// Returns initial values as in timm.
    ///
    /// Linear weights and positions are normal with standard deviation 0.02 (its truncation at ±2 is a hundred
    /// deviations away), CLS has standard deviation 1e-6, biases are 0, layer norms 1 and 0, and the patch embedding is
    /// uniform in `±1/sqrt(fan in)`, as is its bias. Every tensor has its own stream, keyed by its name.
    pub fn initial_parameters(config: &VitConfig, key: StreamKey) -> ParameterSet {
        let draw = |name: &str, shape: Vec<usize>| {
            let mut values = vec![0f32; shape.iter().product()];
            let mut rng = key.named(name).rng();
            let mut normal = |deviation: f32, values: &mut [f32]| {
                fill_normal(&mut rng, values);
                values.iter_mut().for_each(|v| *v *= deviation);
            };
            match name {
                "cls_token" => normal(1e-6, &mut values),
                "pos_embed" => normal(0.02, &mut values),
                _ if name.starts_with("patch_embed.") => {
                    let bound = 1.0 / (config.patch_values() as f64).sqrt();
                    values.iter_mut().for_each(|v| *v = uniform(&mut rng, -bound, bound) as f32);
                }
                _ if name.contains("norm") && name.ends_with(".weight") => values.fill(1.0),
                _ if name.ends_with(".weight") => normal(0.02, &mut values),
                _ => {}
            }
            Parameter { shape, values: values.into() }
        };
        config
            .parameter_shapes()
            .into_iter()
            .map(|(name, shape)| {
                let parameter = draw(&name, shape);
                (name, parameter)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    #[test]
    fn the_same_key_gives_the_same_network_and_its_spread_is_timms() {
        let config = VitConfig { image: 32, depth: 2, ..VitConfig::default() };
        let key = StreamKey::new(5, Domain::Init);
        let set = Vit::initial_parameters(&config, key);
        assert_eq!(set.digest(), Vit::initial_parameters(&config, key).digest());
        assert_ne!(
            set.digest(),
            Vit::initial_parameters(&config, StreamKey::new(6, Domain::Init)).digest()
        );
        let qkv = &set.get("blocks.1.attn.qkv.weight").unwrap().values;
        let mean_square = qkv.iter().map(|v| v * v).sum::<f32>() / qkv.len() as f32;
        assert!((mean_square.sqrt() - 0.02).abs() < 2e-4, "{mean_square}");
        assert!(set.get("blocks.0.norm2.weight").unwrap().values.iter().all(|v| *v == 1.0));
        assert!(set.get("blocks.0.mlp.fc1.bias").unwrap().values.iter().all(|v| *v == 0.0));
    }
}
