use super::*;
use crate::model::Stem;
use crate::numerics::streams::{Domain, StreamKey};
use candle_core::Device;
use candle_nn::{Module, VarBuilder};
use candle_transformers::models::resnet::resnet18_no_final_layer;

fn small() -> (ResNetConfig, ParameterSet) {
    let config = ResNetConfig { image: 8, width: 4, ..ResNetConfig::default() };
    (config, ResNet::initial_parameters(&config, StreamKey::new(1, Domain::Init)))
}

fn images(samples: usize) -> Tensor {
    let values: Vec<f32> = (0..samples * 192).map(|i| (i as f32 * 0.7).sin()).collect();
    Tensor::from_vec(values, (samples, 3, 8, 8), &Device::Cpu).unwrap()
}

#[test]
fn every_parameter_trains_and_no_buffer_does() -> Result<(), ModelError> {
    let (config, set) = small();
    let network = ResNet::with_trainables(config, &set)?;
    let grads = network.features(&images(3))?.powf(3.0)?.sum_all()?.backward()?;
    let names: Vec<&str> = network.variables().iter().map(|(name, _)| &**name).collect();
    let shapes = config.parameter_shapes();
    let expected: Vec<&str> =
        shapes.iter().map(|(name, _)| name.as_str()).filter(|name| !is_buffer(name)).collect();
    assert_eq!(names, expected);
    for (name, variable) in network.variables() {
        let gradient = grads.get(variable).unwrap_or_else(|| panic!("{name} does not train"));
        let size = gradient.sqr()?.sum_all()?.to_scalar::<f32>()?;
        assert!(size.is_finite() && size > 0.0, "{name}: {size}");
    }
    Ok(())
}

/// candle's network of the same name has the stem of the paper and evaluates only.
#[test]
fn with_the_stem_of_imagenet_it_is_candle_s_resnet18() -> Result<(), ModelError> {
    let config = ResNetConfig { image: 32, stem: Stem::ImageNet, ..ResNetConfig::default() };
    let mut set = ResNet::initial_parameters(&config, StreamKey::new(2, Domain::Init));
    // Shifts of both signs in front of the maximum, so that zeros are not most of its input.
    let shape = vec![config.width];
    let values = (0..config.width).map(|c| (c as f32 * 0.9).sin()).collect();
    set.insert("bn1.bias", Parameter { shape, values });
    let tensors = set.iter().map(|(name, p)| Ok((name.to_string(), p.tensor(&Device::Cpu)?)));
    let tensors = tensors.collect::<Result<_, ModelError>>()?;
    let tensors = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
    let theirs = resnet18_no_final_layer(tensors)?;
    let values: Vec<f32> = (0..2 * 3 * 36 * 32).map(|i| (i as f32 * 0.7).sin()).collect();
    let images = Tensor::from_vec(values, (2, 3, 36, 32), &Device::Cpu)?;
    let own = ResNet::from_parameters(config, &set)?.features(&images)?;
    assert_eq!(own.dims(), [2, 512]);
    let theirs = theirs.forward(&images)?.flatten_all()?.to_vec1::<f32>()?;
    let largest = theirs.iter().fold(0f32, |m, v| m.max(v.abs()));
    for (a, b) in own.flatten_all()?.to_vec1::<f32>()?.iter().zip(&theirs) {
        assert!((a - b).abs() <= 1e-4 * largest, "{a} {b}");
    }
    Ok(())
}

/// Through the maximum the gradient of the first convolution is the slope of the loss.
#[test]
fn the_stem_of_imagenet_trains() -> Result<(), ModelError> {
    let config =
        ResNetConfig { image: 32, width: 4, blocks: [1; 4], stem: Stem::ImageNet, ..small().0 };
    let set = ResNet::initial_parameters(&config, StreamKey::new(1, Domain::Init));
    let values: Vec<f32> = (0..6 * 3072).map(|i| (i as f32 * 0.7).sin()).collect();
    let images = Tensor::from_vec(values, (6, 3, 32, 32), &Device::Cpu)?;
    let loss = |network: &ResNet| -> Result<Tensor, ModelError> {
        Ok(network.features(&images)?.powf(2.0)?.sum_all()?)
    };
    let network = ResNet::with_trainables(config, &set)?;
    let grads = loss(&network)?.backward()?;
    let of = |wanted: &str| {
        let found = network.variables().iter().find(|(name, _)| &**name == wanted);
        found.map(|(_, variable)| grads.get(variable).expect("a gradient").clone()).unwrap()
    };
    for name in ["conv1.weight", "bn1.weight", "bn1.bias"] {
        let gradient = of(name).flatten_all()?.to_vec1::<f32>()?;
        // Along the gradient itself the slope is its length.
        let length = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        let step = 2e-4;
        let moved = |sign: f64| -> Result<f64, ModelError> {
            let mut set = set.clone();
            let old = set.get(name).expect("a parameter").clone();
            let shift = |(v, g): (&f32, &f32)| v + (sign * step / length * f64::from(*g)) as f32;
            let values = old.values.iter().zip(&gradient).map(shift).collect();
            set.insert(name, Parameter { values, ..old });
            let network = ResNet::with_trainables(config, &set)?;
            Ok(f64::from(loss(&network)?.to_scalar::<f32>()?))
        };
        let slope = (moved(1.0)? - moved(-1.0)?) / (2.0 * step);
        assert!((slope / length - 1.0).abs() < 0.03, "{name}: {slope} and {length}");
    }
    Ok(())
}

#[test]
fn training_moves_the_statistics_and_evaluation_uses_them() -> Result<(), ModelError> {
    let (config, set) = small();
    let trained = ResNet::with_trainables(config, &set)?;
    assert_eq!(trained.parameters()?.digest(), set.digest());
    let by_batch = trained.features(&images(3))?;
    let after = trained.parameters()?;
    assert_eq!(&*after.get("layer4.1.bn2.num_batches_tracked").unwrap().values, [1.0]);
    assert_ne!(after.get("bn1.running_var"), set.get("bn1.running_var"));
    assert_eq!(after.get("bn1.weight"), set.get("bn1.weight"));
    let frozen = ResNet::from_parameters(config, &after)?;
    let evaluated = frozen.features(&images(3))?;
    assert_ne!(evaluated.to_vec2::<f32>()?, by_batch.to_vec2::<f32>()?);
    assert!(!evaluated.track_op());
    assert_eq!(frozen.parameters()?.digest(), after.digest(), "evaluation moves nothing");
    // A sample's features do not depend on the other samples of its batch.
    let alone = frozen.features(&images(1))?.to_vec2::<f32>()?;
    for (a, b) in alone[0].iter().zip(&evaluated.to_vec2::<f32>()?[0]) {
        assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{a} {b}");
    }
    Ok(())
}

/// A frozen network's features to the bit, gradients for every variable, and no statistic moves.
#[test]
fn over_variables_it_may_evaluate() -> Result<(), ModelError> {
    let (config, set) = small();
    let network = ResNet::evaluating_at(config, &set, &DeviceSpec::cpu())?;
    let buffers = network.buffers()?;
    let features = network.features(&images(3))?;
    let frozen = ResNet::from_parameters(config, &set)?.features(&images(3))?;
    assert_eq!(features.to_vec2::<f32>()?, frozen.to_vec2::<f32>()?);
    assert_eq!(network.buffers()?, buffers);
    // The gradient along one scale of the last norm, against a central difference.
    let loss = |set: &ParameterSet| -> Result<Tensor, ModelError> {
        let network = ResNet::evaluating_at(config, set, &DeviceSpec::cpu())?;
        Ok(network.features(&images(3))?.sqr()?.sum_all()?)
    };
    let gradients = features.sqr()?.sum_all()?.backward()?;
    let name = "layer4.0.bn2.weight";
    let (_, variable) = network.variables().iter().find(|(n, _)| &**n == name).unwrap();
    let slope = gradients.get(variable).unwrap().to_vec1::<f32>()?[0];
    let moved = |by: f32| {
        let mut set = set.clone();
        let mut one = set.get(name).unwrap().clone();
        Arc::make_mut(&mut one.values)[0] += by;
        set.insert(name, one);
        loss(&set).and_then(|loss| Ok(loss.to_scalar::<f32>()?))
    };
    let difference = (moved(1e-2)? - moved(-1e-2)?) / 2e-2;
    assert!((slope - difference).abs() < 1e-2 * difference.abs().max(1.0), "{slope} {difference}");
    assert!(network.variables().iter().all(|(_, variable)| gradients.get(variable).is_some()));
    Ok(())
}

#[test]
fn half_precision_inside_trains_wide_variables_nearby() -> Result<(), ModelError> {
    let (config, set) = small();
    let largest = |t: &Tensor| t.abs()?.max_all()?.to_scalar::<f32>();
    let half = DeviceSpec { compute: DType::BF16, ..DeviceSpec::cpu() };
    let pass = |place: &DeviceSpec| -> Result<(Tensor, Tensor, ParameterSet), ModelError> {
        let network = ResNet::trainable_at(config, &set, place)?;
        let features = network.features(&images(8))?;
        let grads = features.sqr()?.sum_all()?.backward()?;
        let (_, variable) = network.variables().last().expect("a variable");
        let gradient = grads.get(variable).expect("a gradient").clone();
        Ok((features, gradient, network.buffers()?))
    };
    let (full, low) = (pass(&DeviceSpec::cpu())?, pass(&half)?);
    for (a, b) in [(&low.0, &full.0), (&low.1, &full.1)] {
        assert_eq!(a.dtype(), DType::F32);
        let off = largest(&(a - b)?)? / largest(b)?;
        assert!(off > 0.0 && off < 0.25, "{off}");
    }
    for ((name, a), (_, b)) in low.2.iter().zip(full.2.iter()) {
        for (a, b) in a.values.iter().zip(&*b.values) {
            assert!((a - b).abs() < 0.02 * b.abs().max(1.0), "{name}: {a} {b}");
        }
    }
    Ok(())
}

#[test]
fn a_single_value_per_channel_is_passed_over() -> Result<(), ModelError> {
    // One image of 8 x 8 is a single pixel in the last stage.
    let (config, set) = small();
    let trained = ResNet::with_trainables(config, &set)?;
    let features = trained.features(&images(1))?.flatten_all()?.to_vec1::<f32>()?;
    assert!(features.iter().all(|f| f.is_finite()));
    let after = trained.parameters()?;
    assert_eq!(after.get("layer4.1.bn2.running_var"), set.get("layer4.1.bn2.running_var"));
    assert_ne!(after.get("layer3.1.bn2.running_var"), set.get("layer3.1.bn2.running_var"));
    Ok(())
}

#[test]
fn what_is_written_is_read_and_a_classifier_is_ignored() -> Result<(), ModelError> {
    let (config, set) = small();
    let mut written = set.clone();
    written.insert("fc.bias", Parameter { shape: vec![1], values: [f32::NAN].into() });
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("resnet.safetensors");
    std::fs::write(&path, crate::model::to_safetensors(&written)?).expect("written");
    let read = ResNet::load(&WeightsSource::at(&path), config)?;
    assert_eq!((read.parameters()?, read.digest()?), (set.clone(), set.digest()));
    let wider = ResNetConfig { width: 8, ..config };
    let error = ResNet::load(&WeightsSource::at(&path), wider).unwrap_err().to_string();
    assert!(error.contains("resnet.safetensors") && error.contains("bn1.bias"), "{error}");
    Ok(())
}

/// The inputs are those of the norms: their moments of one batch are what training moves the statistics to.
#[test]
fn taps_see_the_input_of_every_norm() -> Result<(), ModelError> {
    let (config, set) = small();
    let network = ResNet::from_parameters(config, &set)?;
    let (features, inputs) = network.tapped_features(&images(3))?;
    assert_eq!(features.to_vec2::<f32>()?, network.features(&images(3))?.to_vec2::<f32>()?);
    assert_eq!(inputs.len(), 20, "a stem, sixteen in blocks and three in shortcuts");
    let trained = ResNet::with_trainables(config, &set)?;
    trained.features(&images(3))?;
    // The stem sees the same in both modes.
    let moved = trained.buffers()?.get("bn1.running_mean").expect("a mean").clone();
    let mean = ops::channel_moments(&inputs[0].input)?.mean.to_vec1::<f32>()?;
    for (moved, mean) in moved.values.iter().zip(&mean) {
        assert!((moved - 0.1 * mean).abs() < 1e-6, "{moved} {mean}");
    }
    assert_eq!(inputs[0].running_mean.to_vec1::<f32>()?, [0.0; 4]);
    assert_eq!(inputs[19].running_variance.to_vec1::<f32>()?, [1.0; 32]);
    Ok(())
}

#[test]
fn images_and_parameters_that_do_not_fit_are_refused() {
    let (config, set) = small();
    let network = ResNet::from_parameters(config, &set).unwrap();
    let gray = Tensor::zeros((1, 1, 8, 8), DType::F32, &Device::Cpu).unwrap();
    let error = network.features(&gray).unwrap_err().to_string();
    assert!(error.contains("3 channels, got 1"), "{error}");
    let wider = ResNetConfig { width: 8, ..config };
    let error = ResNet::from_parameters(wider, &set).unwrap_err().to_string();
    assert!(error.contains("bn1.bias"), "{error}");
}
