//! Golden vectors: torchvision's networks with formula weights.

use candle_core::{Device, Tensor};

use super::{DeepResNet, DeepResNetConfig, Depth};
use crate::golden::{Golden, Wave};
use crate::model::{FrozenPart, ModelError, Parameter, ParameterSet};

fn filled(golden: &Golden, name: &str, shape: Vec<usize>) -> Parameter {
    let fan_in = shape.iter().skip(1).product::<usize>() as f64;
    let scale = |w: f64| match name {
        _ if name.ends_with("running_mean") => 0.05 * w,
        _ if name.ends_with("running_var") => 1.0 + 0.1 * w.abs(),
        _ if name.ends_with(".bias") => 0.05 * w,
        _ if name.ends_with("bn3.weight") => 0.05 * (1.0 + 0.1 * w),
        _ if shape.len() == 1 => 1.0 + 0.1 * w,
        _ => 2.0 / fan_in.sqrt() * w,
    };
    Parameter { values: golden.map_wave(Wave::Chirp, name, &shape, scale).into(), shape }
}

fn parameters(golden: &Golden, config: DeepResNetConfig) -> ParameterSet {
    let shapes = config.parameter_shapes().into_iter();
    shapes.map(|(name, shape)| (name.clone(), filled(golden, &name, shape))).collect()
}

fn check(depth: Depth, keys: &str, feature: &str) -> Result<(), ModelError> {
    let Some(golden) = Golden::open("resnet152") else { return Ok(()) };
    let config = DeepResNetConfig { depth, image: 64 };
    let mut keys = golden.keys_of(keys);
    keys.retain(|(name, _)| !name.starts_with("fc.") && !name.ends_with("num_batches_tracked"));
    keys.sort();
    assert_eq!(config.parameter_shapes(), keys);
    let network = DeepResNet::from_parameters(config, &parameters(&golden, config))?;
    let input = golden.fill("resnet152.input", &[2, 3, 64, 64], 1.5);
    let input = Tensor::from_vec(input, (2, 3, 64, 64), &Device::Cpu)?;
    let flat = |features: Tensor| -> Result<Vec<f32>, ModelError> {
        Ok(features.flatten_all()?.to_vec1::<f32>()?)
    };
    golden.assert_close(feature, &flat(network.features(&input)?)?);
    if depth == Depth::Fifty {
        let frozen = crate::model::Backbone::from(network).frozen(&input, FrozenPart::Whole)?;
        golden.assert_close(feature, &flat(frozen)?);
    }
    Ok(())
}

#[test]
fn golden_resnet50_features() -> Result<(), ModelError> {
    check(Depth::Fifty, "resnet50", "r50.feature")
}

#[test]
fn golden_resnet152_features() -> Result<(), ModelError> {
    check(Depth::HundredFiftyTwo, "resnet152", "r152.feature")
}
