//! Set-ups that tests of LANDER's and TARGET's generators share.

use candle_core::{Device, Tensor};

use crate::data::{ClassPermutation, TaskSequence, TaskSizes, digits};
use crate::golden::Golden;
use crate::learning::inversion::CropWindow;
use crate::model::generator::golden::{fill, first_rows};
use crate::model::{
    Backbone, GeneratorForm, ImageGenerator, ImageGeneratorConfig, Parameter, ParameterSet, ResNet,
    ResNetConfig,
};
use crate::numerics::streams::StreamKey;
use crate::policy::RunContext;

/// Windows of the vectors: padding 4, and a flip where it is 1.
pub fn windows(golden: &Golden) -> Vec<CropWindow> {
    let places = golden.i64("crop");
    let window = |(place, flip): (&[i64], i64)| CropWindow {
        top: place[0] as usize,
        left: place[1] as usize,
        flipped: flip == 1,
    };
    places.chunks(2).zip(golden.i64("flip")).map(window).collect()
}

/// The generator of a method's vectors, with formula weights.
pub fn generator(golden: &Golden, method: &str) -> ImageGenerator {
    let form = GeneratorForm::Logistic;
    let config = ImageGeneratorConfig {
        latent: 20,
        width: 16,
        last: 8,
        image: 12,
        form,
        ..Default::default()
    };
    let parameter = |(name, shape): (String, Vec<usize>)| {
        let values = fill(golden, &format!("gen.{method}.{name}"), &shape);
        (name, Parameter { shape, values: values.into() })
    };
    let set: ParameterSet = config.parameter_shapes().into_iter().map(parameter).collect();
    ImageGenerator::trainable(config, &set, &Device::Cpu).unwrap()
}

/// Compares a tensor with a vector, or its first rows with those of the vector.
pub fn assert_part(golden: &Golden, name: &str, rows: Option<usize>, found: &Tensor) {
    match rows {
        None => golden.assert_tensor(name, found),
        Some(rows) => {
            golden.assert_tensor(&format!("{name}.rows{rows}"), &first_rows(found, rows));
        }
    }
}

/// Returns 1 for samples that two networks answer alike, 0 for the others.
pub fn agreement(teacher: &Tensor, student: &Tensor) -> Vec<i64> {
    let best = |scores: &Tensor| scores.argmax(1).unwrap().to_vec1::<u32>().unwrap();
    best(teacher).into_iter().zip(best(student)).map(|(a, b)| i64::from(a == b)).collect()
}

/// Returns the context of a backbone on digits in two tasks, with classes in the order of a seed.
pub fn on_digits(backbone: impl Into<Backbone>, seed: u64) -> RunContext {
    let order = ClassPermutation::Seeded(seed);
    let tasks = TaskSequence::new(10, &order, &TaskSizes::Even(2)).unwrap();
    RunContext::new(backbone.into(), digits::embedded().unwrap(), tasks)
}

/// Returns a residual network of four channels for digits, and its parameters.
pub fn small_resnet(key: StreamKey) -> (ResNet, ParameterSet) {
    let config = ResNetConfig { image: 8, channels: 1, width: 4, ..ResNetConfig::default() };
    let set = ResNet::initial_parameters(&config, key);
    (ResNet::from_parameters(config, &set).unwrap(), set)
}
