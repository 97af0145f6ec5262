//! Golden vectors: MFCL's generator in PyTorch, with formula weights.

use candle_core::{Device, Tensor};

use super::{ImageGenerator, ImageGeneratorConfig};
use crate::golden::Golden;
use crate::model::{Parameter, ParameterSet};

/// Returns the dimensions of the generator of these vectors.
pub(crate) fn config() -> ImageGeneratorConfig {
    ImageGeneratorConfig { latent: 20, width: 16, last: 8, image: 12, ..Default::default() }
}

/// Returns the parameters of the generator of these vectors.
pub(crate) fn parameters(golden: &Golden) -> ParameterSet {
    let shapes = config().parameter_shapes().into_iter();
    let parameter = |(name, shape): (String, Vec<usize>)| {
        let values = fill(golden, &format!("gen.mfcl.{name}"), &shape);
        (name, Parameter { shape, values: values.into() })
    };
    shapes.map(parameter).collect()
}

/// Returns the formula fill of a parameter, by what it is: a weight, a norm, a bias, a running moment.
pub(crate) fn fill(golden: &Golden, name: &str, shape: &[usize]) -> Vec<f32> {
    let fan_in = shape.iter().skip(1).product::<usize>() as f64;
    let scale = |w: f64| match name {
        _ if name.ends_with("running_mean") => 0.05 * w,
        _ if name.ends_with("running_var") => 1.0 + 0.1 * w.abs(),
        _ if name.ends_with(".bias") => 0.05 * w,
        _ if shape.len() == 1 => 1.0 + 0.1 * w,
        _ => 2.0 / fan_in.sqrt() * w,
    };
    golden.map_wave(crate::golden::Wave::Chirp, name, shape, scale)
}

/// The first rows of a gradient.
pub(crate) fn first_rows(gradient: &Tensor, rows: usize) -> Tensor {
    gradient.narrow(0, 0, rows).and_then(|rows| rows.contiguous()).expect("rows")
}

#[test]
fn golden_images_gradients_and_moments() {
    let Some(golden) = Golden::open("inversion") else { return };
    let set = parameters(&golden);
    let generator = ImageGenerator::trainable(config(), &set, &Device::Cpu).unwrap();
    let images = generator.images(&golden.tensor("z")).unwrap();
    golden.assert_tensor("mfcl.image", &images);
    let after = generator.parameters().unwrap();
    for (name, parameter) in after.iter().filter(|(name, _)| name.contains("running")) {
        golden.assert_close(&format!("mfcl.running.{name}"), &parameter.values);
    }
    let direction =
        golden.map_wave(crate::golden::Wave::Chirp, "gen.mfcl.direction", &[6, 3, 12, 12], |w| w);
    let direction = Tensor::from_vec(direction, (6, 3, 12, 12), &Device::Cpu).unwrap();
    let loss = (images * direction).unwrap().sum_all().unwrap();
    let gradients = loss.backward().unwrap();
    for (name, rows) in [
        ("bn0.bias", None),
        ("bn1.weight", None),
        ("conv1.weight", Some(4)),
        ("conv3.weight", None),
        ("l1.weight", Some(24)),
    ] {
        let (_, variable) =
            generator.variables().iter().find(|(own, _)| &**own == name).expect("a variable");
        let gradient = gradients.get(variable).expect("a gradient");
        match rows {
            None => golden.assert_tensor(&format!("mfcl.direction.grad.{name}"), gradient),
            Some(rows) => golden.assert_tensor(
                &format!("mfcl.direction.grad.{name}.rows{rows}"),
                &first_rows(gradient, rows),
            ),
        }
    }
}

#[test]
fn golden_images_by_running_moments() {
    let Some(golden) = Golden::open("inversion") else { return };
    let generator = ImageGenerator::frozen(config(), &parameters(&golden), &Device::Cpu).unwrap();
    let images = generator.images(&golden.tensor("z")).unwrap();
    golden.assert_tensor("mfcl.image_eval", &first_rows(&images, 2));
}
