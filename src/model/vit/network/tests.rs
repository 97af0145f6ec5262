//! The network as a whole: variables, graphs, types and packs.

use super::*;
use crate::model::Prefix;
use crate::model::ops::Precision;
use crate::numerics::streams::{Domain, StreamKey};
use candle_core::{Device, Var};

fn small() -> (VitConfig, ParameterSet) {
    let default = VitConfig::default();
    let config = VitConfig { image: 8, patch: 4, dim: 12, depth: 3, heads: 3, mlp: 20, ..default };
    (config, Vit::initial_parameters(&config, StreamKey::new(1, Domain::Init)))
}

/// Images of values that differ everywhere.
fn images() -> Tensor {
    let values: Vec<f32> = (0..2 * 3 * 64).map(|i| (i as f32 * 0.7).sin()).collect();
    Tensor::from_vec(values, (2, 3, 8, 8), &Device::Cpu).unwrap()
}

fn sum_of_squares(tensor: &Tensor) -> f32 {
    tensor.sqr().and_then(|t| t.sum_all()?.to_scalar()).unwrap()
}

#[test]
fn every_trainable_trains_and_has_its_name() -> Result<(), ModelError> {
    let (config, set) = small();
    let vit = Vit::with_trainables(config, &set)?;
    let loss = vit.features(&images(), &Adaptation::none())?.powf(3.0)?.sum_all()?;
    let grads = loss.backward()?;
    let names: Vec<&str> = vit.variables().iter().map(|(name, _)| &**name).collect();
    let expected: Vec<String> = config.parameter_shapes().into_iter().map(|p| p.0).collect();
    assert_eq!(names, expected);
    for (name, variable) in vit.variables() {
        let gradient = grads.get(variable).unwrap_or_else(|| panic!("{name} does not train"));
        let size = sum_of_squares(gradient);
        assert!(size.is_finite() && size > 0.0, "{name}: {size}");
    }
    assert_eq!(vit.parameters()?.digest(), set.digest());
    Ok(())
}

#[test]
fn trained_and_frozen_networks_compute_the_same() -> Result<(), ModelError> {
    let (config, set) = small();
    let frozen = Vit::from_parameters(config, &set)?;
    assert!(frozen.variables().is_empty());
    let none = Adaptation::none();
    let a = frozen.features(&images(), &none)?;
    let b = Vit::with_trainables(config, &set)?.features(&images(), &none)?;
    assert_eq!(a.to_vec2::<f32>()?, b.to_vec2::<f32>()?);
    let tokens = frozen.tokens(&images(), &none)?.narrow(1, 0, 1)?.squeeze(1)?;
    assert!(sum_of_squares(&(a - tokens)?) < 1e-9);
    Ok(())
}

#[test]
fn blocks_below_the_first_prefix_build_no_graph() -> Result<(), ModelError> {
    let (config, set) = small();
    let vit = Vit::from_parameters(config, &set)?;
    let prompt = Var::zeros((4, config.dim), DType::F32, &Device::Cpu)?;
    let adaptation = Adaptation {
        prefix: vec![None, None, Some(Prefix::halves(prompt.as_tensor())?)],
        ..Adaptation::none()
    };
    assert_eq!(adaptation.first_adapted_block(), Some(2));
    let below = vit.advance(&vit.embed(&images())?, 0..2, &adaptation)?;
    assert!(!below.track_op());
    let features = vit.features_from(&below, 2, &adaptation)?;
    assert_eq!(features.to_vec2::<f32>()?, vit.features(&images(), &adaptation)?.to_vec2::<f32>()?);
    let grads = features.powf(3.0)?.sum_all()?.backward()?;
    assert!(sum_of_squares(grads.get(&prompt).expect("a gradient")) > 0.0);
    Ok(())
}

/// Returns the largest difference of two feature matrices, relative to the largest entry.
fn difference(a: &Tensor, b: &Tensor) -> f32 {
    let largest = |t: &Tensor| t.abs().unwrap().max_all().unwrap().to_scalar::<f32>().unwrap();
    largest(&(a - b).unwrap()) / largest(b)
}

/// Tensors of `bf16`, as on a GPU, and products of `bf16`, as on a CPU.
fn halves() -> [DeviceSpec; 2] {
    [
        DeviceSpec { compute: DType::BF16, ..DeviceSpec::cpu() },
        DeviceSpec { products: Precision::Bf16, ..DeviceSpec::cpu() },
    ]
}

#[test]
fn half_precision_inside_gives_full_precision_features_nearby() -> Result<(), ModelError> {
    let (config, set) = small();
    let full = Vit::from_parameters(config, &set)?;
    let none = Adaptation::none();
    let expected = full.features(&images(), &none)?;
    for place in halves() {
        for half in [full.at(&place)?, Vit::trainable_at(config, &set, &place)?] {
            let features = half.features(&images(), &none)?;
            assert_eq!(features.dtype(), DType::F32);
            let off = difference(&features, &expected);
            assert!(off > 0.0 && off < 0.05, "{off}");
            assert_eq!(half.tokens(&images(), &none)?.dtype(), DType::F32);
        }
    }
    Ok(())
}

#[test]
fn trainables_stay_wide_and_train_through_half_precision() -> Result<(), ModelError> {
    let (config, set) = small();
    let gradients = |place: &DeviceSpec| -> Result<Vec<Tensor>, ModelError> {
        let vit = Vit::trainable_at(config, &set, place)?;
        let prompt = Var::ones((4, config.dim), DType::F32, &Device::Cpu)?;
        let adaptation = Adaptation::prompts([prompt.as_tensor()])?;
        let loss = vit.features(&images(), &adaptation)?.powf(3.0)?.sum_all()?;
        let grads = loss.backward()?;
        let variables = vit.variables().iter().map(|(_, v)| v).chain([&prompt]);
        let of = |v: &Var| grads.get(v).expect("every trainable trains").clone();
        Ok(variables.map(of).collect())
    };
    for place in halves() {
        for (got, expected) in gradients(&place)?.iter().zip(gradients(&DeviceSpec::cpu())?) {
            assert_eq!(got.dtype(), DType::F32);
            let off = difference(got, &expected);
            assert!(off > 0.0 && off < 0.1, "{off} of {:?}", got.shape());
        }
    }
    Ok(())
}

/// Also where a member has a single image.
#[test]
fn a_member_of_a_pack_gets_the_features_it_gets_alone() -> Result<(), ModelError> {
    let (config, set) = small();
    let vit = Vit::from_parameters(config, &set)?;
    let groups = SampleGroups::new([1, 0, 3]);
    let values: Vec<f32> = (0..4 * 3 * 64).map(|i| (i as f32 * 0.3).cos()).collect();
    let pixels = Tensor::from_vec(values, (4, 3, 8, 8), &Device::Cpu)?;
    let values: Vec<f32> = (0..3 * 4 * config.dim).map(|i| (i as f32 * 0.9).sin()).collect();
    let prompts = Tensor::from_vec(values, (3, 4, config.dim), &Device::Cpu)?;
    let pack = Adaptation::prompts([&prompts])?.grouped(&groups);
    let together = vit.features(&pixels, &pack)?.to_vec2::<f32>()?;
    for (member, run) in groups.runs().enumerate().filter(|(_, run)| !run.is_empty()) {
        let own = Adaptation::prompts([&prompts.get(member)?])?;
        let alone = vit.features(&pixels.narrow(0, run.start, run.len())?, &own)?;
        assert_eq!(together[run], alone.to_vec2::<f32>()?);
    }
    Ok(())
}

#[test]
fn images_of_another_size_are_refused_with_advice() {
    let (config, set) = small();
    let vit = Vit::from_parameters(config, &set).unwrap();
    let wide = Tensor::zeros((1, 3, 8, 12), DType::F32, &Device::Cpu).unwrap();
    let error = vit.features(&wide, &Adaptation::none()).unwrap_err().to_string();
    assert!(error.contains("3 x 8 x 8, got 3 x 8 x 12"), "{error}");
}

#[test]
fn networks_are_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Vit>();
}
