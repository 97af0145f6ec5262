//! Golden vectors: torchvision's blocks with formula weights, evaluation and two steps of training.

use candle_core::{Device, Tensor, Var};

use super::{ResNet, ResNetConfig, is_buffer};
use crate::golden::{Golden, Wave};
use crate::model::{LinearHead, ModelError, Parameter, ParameterSet, ops};

const SGD: (f64, f64, f64) = (0.04, 0.9, 5e-4);

fn config() -> ResNetConfig {
    ResNetConfig { width: 16, ..ResNetConfig::default() }
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().and_then(|t| t.to_vec1()).expect("an f32 tensor")
}

fn filled(golden: &Golden, name: &str, shape: Vec<usize>) -> Parameter {
    let fan_in = shape.iter().skip(1).product::<usize>() as f64;
    let scale = |w: f64| match name {
        _ if name.ends_with("num_batches_tracked") => 0.0,
        _ if name.ends_with("running_mean") => 0.05 * w,
        _ if name.ends_with("running_var") => 1.0 + 0.1 * w.abs(),
        _ if name.ends_with(".bias") => 0.05 * w,
        _ if shape.len() == 1 => 1.0 + 0.1 * w,
        _ => 2.0 / fan_in.sqrt() * w,
    };
    Parameter { values: golden.map_wave(Wave::Chirp, name, &shape, scale).into(), shape }
}

fn parameters(golden: &Golden) -> ParameterSet {
    let shapes = config().parameter_shapes().into_iter();
    shapes.map(|(name, shape)| (name.clone(), filled(golden, &name, shape))).collect()
}

/// Returns the head under the names of our parameter sets.
fn head(golden: &Golden) -> ParameterSet {
    let shape = vec![golden.shape("eval.logits")[1], config().dim()];
    let bias = filled(golden, "fc.bias", vec![shape[0]]);
    [(LinearHead::WEIGHT, filled(golden, "fc.weight", shape)), (LinearHead::BIAS, bias)]
        .into_iter()
        .collect()
}

fn stored(golden: &Golden, name: &str) -> Tensor {
    Tensor::from_vec(golden.f32(name), golden.shape(name), &Device::Cpu).expect("a tensor")
}

#[test]
fn golden_resnet18_cifar_names_and_evaluation() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("resnet18_cifar") else { return Ok(()) };
    let mut keys = golden.keys();
    keys.retain(|(name, _)| !name.starts_with("fc."));
    keys.sort();
    assert_eq!(config().parameter_shapes(), keys);
    let network = ResNet::from_parameters(config(), &parameters(&golden))?;
    let shape = [golden.shape("eval.feature")[0], 3, 32, 32];
    let input = Tensor::from_vec(golden.fill("resnet18.input", &shape, 1.5), &shape, &Device::Cpu)?;
    let features = network.features(&input)?;
    golden.assert_close("eval.feature", &flat(&features));
    let head = LinearHead::from_parameters(&head(&golden))?;
    golden.assert_close("eval.logits", &flat(&head.logits(&features)?));
    Ok(())
}

/// Two steps of SGD with momentum and weight decay.
///
/// They are written out here so that a failure points at the network.
#[test]
fn golden_resnet18_cifar_training() -> Result<(), ModelError> {
    let Some(golden) = Golden::open("resnet18_cifar") else { return Ok(()) };
    let network = ResNet::with_trainables(config(), &parameters(&golden))?;
    let (head, of_head) = LinearHead::with_trainables(&head(&golden))?;
    let x = stored(&golden, "x_train");
    let labels: Vec<u32> = golden.i64("labels").into_iter().map(|y| y as u32).collect();
    let variables: Vec<(String, Var)> = network
        .variables()
        .iter()
        .chain(&of_head)
        .map(|(name, var)| (name.replace("head.", "fc."), var.clone()))
        .collect();
    assert!(variables.iter().all(|(name, _)| !is_buffer(name)));
    let mut momenta: Vec<Vec<f32>> =
        variables.iter().map(|(_, v)| vec![0.0; v.elem_count()]).collect();
    for step in ["step1", "step2"] {
        let features = network.features(&x)?;
        let logits = head.logits(&features)?;
        let loss = ops::cross_entropy(&logits, &labels, 0..10)?;
        golden.assert_close(&format!("{step}.loss"), &flat(&loss));
        let grads = loss.backward()?;
        if step == "step1" {
            golden.assert_close("train.feature", &flat(&features));
            golden.assert_close("train.logits", &flat(&logits));
            let mut squares = 0f64;
            for (name, variable) in &variables {
                let gradient = flat(grads.get(variable).expect("a trainable has a gradient"));
                squares += gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>();
                let key = format!("train.grad.{name}");
                if golden.names().contains(&key) {
                    golden.assert_close(&key, &gradient);
                }
            }
            golden.assert_close("train.grad_norm", &[squares.sqrt()]);
            for (name, buffer) in network.buffers()?.iter() {
                match name.ends_with("num_batches_tracked") {
                    true => assert_eq!(*buffer.values, [1.0]),
                    false => golden.assert_close(&format!("running1.{name}"), &buffer.values),
                }
            }
        }
        let (rate, momentum, decay) = SGD;
        for ((name, variable), momenta) in variables.iter().zip(&mut momenta) {
            let mut values = flat(variable);
            let gradient = flat(grads.get(variable).expect("a gradient"));
            for ((v, g), m) in values.iter_mut().zip(gradient).zip(momenta.iter_mut()) {
                *m = momentum as f32 * *m + g + decay as f32 * *v;
                *v -= rate as f32 * *m;
            }
            variable.set(&Tensor::from_vec(values.clone(), variable.shape(), &Device::Cpu)?)?;
            let key = format!("{step}.{name}");
            if golden.names().contains(&key) {
                golden.assert_close(&key, &values);
            }
        }
    }
    let after = network.parameters()?;
    for (name, buffer) in network.buffers()?.iter() {
        let key = format!("step2.{name}");
        if golden.names().contains(&key) {
            golden.assert_close(&key, &buffer.values);
        }
    }
    let evaluated = ResNet::from_parameters(config(), &after)?.features(&x)?;
    golden.assert_close("eval_after.feature", &flat(&evaluated));
    Ok(())
}
