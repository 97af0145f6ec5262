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

/// Channels whose means are stored.
const CHANNELS: usize = 16;

/// Returns the network with its first stages as they are, and later ones that pass on their input. The first block of
/// each later one passes on the means of two by two pixels, the others everything. So its features are the means over
/// space of the last of the first stages, in as many channels as the narrowest layer behind it has.
fn means_after(stages: usize, set: &ParameterSet) -> ParameterSet {
    let hands_on = |name: &str| {
        let mut parts = name.strip_prefix("layer")?.splitn(3, '.');
        let stage: usize = parts.next()?.parse().ok()?;
        let (block, part) = (parts.next()?, parts.next()?);
        (stage > stages).then(|| (block == "0", part.to_owned()))
    };
    let other = |name: &str, parameter: &Parameter| -> Parameter {
        let Some((first, part)) = hands_on(name) else { return parameter.clone() };
        let shape = parameter.shape.clone();
        // What is added to them under the root is left out.
        let all = if part.ends_with("running_var") { 1.0 - 1e-5 } else { 0.0 };
        let mut values = vec![all; parameter.values.len()];
        match (&*part, &shape[..]) {
            ("bn1.weight" | "bn2.weight" | "bn3.weight", _) if first => values.fill(1.0),
            (
                "conv1.weight" | "conv2.weight" | "conv3.weight",
                [outputs, inputs, height, width],
            ) if first => {
                // Of a kernel 3 x 3 the middle and what lies right of it, below, and both.
                let sides = height * width;
                let kernel: &[usize] = if sides == 1 { &[0] } else { &[4, 5, 7, 8] };
                for channel in 0..*outputs.min(inputs) {
                    let start = channel * (inputs + 1) * sides;
                    kernel.iter().for_each(|at| values[start + at] = 1.0 / kernel.len() as f32);
                }
            }
            _ => (),
        }
        Parameter { values: values.into(), shape }
    };
    set.iter().map(|(name, parameter)| (name.to_string(), other(name, parameter))).collect()
}

fn check(depth: Depth, keys: &str, name: &str) -> Result<(), ModelError> {
    let Some(golden) = Golden::open("resnet152") else { return Ok(()) };
    let config = DeepResNetConfig { depth, image: 64 };
    let mut keys = golden.keys_of(keys);
    keys.retain(|(name, _)| !name.starts_with("fc.") && !name.ends_with("num_batches_tracked"));
    keys.sort();
    assert_eq!(config.parameter_shapes(), keys);
    let set = parameters(&golden, config);
    let network = DeepResNet::from_parameters(config, &set)?;
    let input = golden.fill("resnet152.input", &[2, 3, 64, 64], 1.5);
    let input = Tensor::from_vec(input, (2, 3, 64, 64), &Device::Cpu)?;
    let flat = |features: Tensor| -> Result<Vec<f32>, ModelError> {
        Ok(features.flatten_all()?.to_vec1::<f32>()?)
    };
    let feature = &format!("{name}.feature");
    let features = flat(network.features(&input)?)?;
    golden.assert_close(feature, &features);
    golden.assert_close(&format!("{name}.stage_mean4"), &features[..CHANNELS]);
    for stage in 1..4 {
        let cut = DeepResNet::from_parameters(config, &means_after(stage, &set))?;
        let means = flat(cut.features(&input.narrow(0, 0, 1)?)?)?;
        golden.assert_close(&format!("{name}.stage_mean{stage}"), &means[..CHANNELS]);
    }
    if depth == Depth::Fifty {
        let frozen = crate::model::Backbone::from(network).frozen(&input, FrozenPart::Whole)?;
        golden.assert_close(feature, &flat(frozen)?);
    }
    Ok(())
}

#[test]
fn golden_resnet50_features() -> Result<(), ModelError> {
    check(Depth::Fifty, "resnet50", "r50")
}

#[test]
fn golden_resnet152_features() -> Result<(), ModelError> {
    check(Depth::HundredFiftyTwo, "resnet152", "r152")
}
