//! Network of two blocks with either activation, against a plain program in `f64`.
//!
//! Compared are features, and the gradient in the biases before the activation (central differences of that program).

use candle_core::{Device, Tensor};

use super::{flat, on_both_paths};
use crate::model::ops::PerceptronActivation;
use crate::model::vit::{Vit, VitConfig};
use crate::model::{Adaptation, ModelError, Parameter, ParameterSet};

/// Of an activation: features of two images, and gradients of blocks 0 and 1.
struct ActivationReference {
    activation: PerceptronActivation,
    features: [f32; 8],
    gradients: [[f32; 6]; 2],
}

const KNOWN: [ActivationReference; 2] = [
    ActivationReference {
        activation: PerceptronActivation::QuickGelu,
        features: [
            -1.533_011_1,
            0.717_378_7,
            1.126_847_5,
            -0.608_850_4,
            -1.541_776_8,
            0.728_053,
            1.117_686_8,
            -0.602_190_6,
        ],
        gradients: [
            [0.001_153, -0.133_618, 0.000_009, -0.120_84, 0.001_648, 0.082_588],
            [0.015_541, 0.016_055, -0.065_26, 0.030_229, 0.142_457, 0.185_648],
        ],
    },
    ActivationReference {
        activation: PerceptronActivation::Gelu,
        features: [
            -1.532_989_9,
            0.715_523_3,
            1.128_477_8,
            -0.608_762,
            -1.541_765_9,
            0.726_183_4,
            1.119_345_4,
            -0.602_107_2,
        ],
        gradients: [
            [0.000_876, -0.135_616, -0.000_009, -0.120_756, 0.001_607, 0.082_033],
            [0.019_929, 0.020_652, -0.064_371, 0.030_7, 0.145_147, 0.187_786],
        ],
    },
];

fn config(activation: PerceptronActivation) -> VitConfig {
    let default = VitConfig::default();
    VitConfig {
        image: 4,
        patch: 2,
        channels: 1,
        dim: 4,
        depth: 2,
        heads: 2,
        mlp: 6,
        activation,
        ..default
    }
}

/// Waves that begin elsewhere for every name.
fn parameters() -> ParameterSet {
    let mut set = ParameterSet::new();
    for (name, shape) in config(PerceptronActivation::Gelu).parameter_shapes() {
        let begin = (name.bytes().map(u32::from).sum::<u32>() % 10) as f64;
        let value = |k: usize| {
            let wave = (0.7 * k as f64 + begin).sin();
            match &*name {
                _ if name.contains("norm") && name.ends_with(".weight") => 1.0 + 0.1 * wave,
                _ if name.contains("mlp.fc1") => 2.0 * wave,
                _ => 0.5 * wave,
            }
        };
        let values = (0..shape.iter().product()).map(|k| value(k) as f32).collect();
        set.insert(name.as_str(), Parameter { shape, values });
    }
    set
}

fn images() -> Tensor {
    let values: Vec<f32> = (0..32).map(|i| (0.9 * f64::from(i)).sin() as f32).collect();
    Tensor::from_vec(values, (2, 1, 4, 4), &Device::Cpu).expect("as many values")
}

fn assert_close(what: &str, got: &[f32], wanted: &[f32]) {
    assert_eq!(got.len(), wanted.len(), "{what}");
    for (got, wanted) in got.iter().zip(wanted) {
        assert!((got - wanted).abs() < 2e-5, "{what}: {got} is not {wanted}");
    }
}

#[test]
fn activations_have_known_features_and_gradients() -> Result<(), ModelError> {
    on_both_paths(|| {
        for ActivationReference { activation, features, gradients } in KNOWN {
            let frozen = Vit::from_parameters(config(activation), &parameters())?;
            let found = flat(&frozen.features(&images(), &Adaptation::none())?);
            assert_close(&format!("frozen, {activation:?}"), &found, &features);

            let trained = Vit::with_trainables(config(activation), &parameters())?;
            let found = trained.features(&images(), &Adaptation::none())?;
            assert_close(&format!("trained, {activation:?}"), &flat(&found), &features);
            let weights = Tensor::new(&[1f32, 2.0, 3.0, 4.0], &Device::Cpu)?;
            let grads = found.broadcast_mul(&weights)?.sum_all()?.backward()?;
            for (block, wanted) in gradients.iter().enumerate() {
                let name = format!("blocks.{block}.mlp.fc1.bias");
                let (_, variable) = trained
                    .variables()
                    .iter()
                    .find(|(known, _)| **known == *name)
                    .expect("it trains");
                let found = grads.get(variable).expect("a gradient").to_vec1::<f32>()?;
                assert_close(&format!("{name}, {activation:?}"), &found, wanted);
            }
        }
        Ok(())
    })
}
