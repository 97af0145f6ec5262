use std::borrow::Cow;

use safetensors::tensor::{Dtype, TensorView, serialize};

use super::*;

/// Numbers in `[-1, 1]` from a formula in integers, others for every `salt`.
fn numbers(count: usize, salt: usize) -> Vec<f32> {
    let number = |at: usize| ((at * 7919 + salt * 104_729 + at * at % 613) % 1009) as f32;
    (0..count).map(|at| 2.0 * number(at) / 1008.0 - 1.0).collect()
}

/// Tensors of a whole file, by name and shape; weights of channels are not negative.
fn tensors() -> Vec<(String, Vec<usize>, Vec<f32>)> {
    let mut all = Vec::new();
    for (at, layer) in LAYERS.iter().enumerate() {
        let [outputs, inputs, side] = layer.shape;
        let fan_in = (inputs * side * side) as f32;
        let shape = vec![outputs, inputs, side, side];
        let weight = numbers(shape.iter().product(), at);
        let weight = weight.into_iter().map(|value| value * 2.0 / fan_in.sqrt()).collect();
        all.push((format!("features.{}.weight", layer.number), shape, weight));
        let bias = numbers(outputs, 10 + at).into_iter().map(|value| value * 0.1).collect();
        all.push((format!("features.{}.bias", layer.number), vec![outputs], bias));
        let channels = numbers(outputs, 20 + at).into_iter().map(f32::abs).collect();
        all.push((format!("lin{at}.model.1.weight"), vec![1, outputs, 1, 1], channels));
    }
    all
}

fn file(tensors: &[(String, Vec<usize>, Vec<f32>)]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(.., values)| values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    serialize(views, None).unwrap()
}

fn read(tensors: &[(String, Vec<usize>, Vec<f32>)]) -> Result<Lpips, LpipsError> {
    let mut weights = WeightsFile::from_bytes("alex", Cow::Owned(file(tensors))).unwrap();
    Lpips::from_file(&mut weights, "alex")
}

/// Two images of `[3, 33, 31]`, of which the second is the first with other colors in a corner.
fn images() -> [Vec<f32>; 2] {
    let first: Vec<f32> = numbers(3 * 33 * 31, 40).iter().map(|v| 0.5 + 0.5 * v).collect();
    let mut second = first.clone();
    for channel in 0..3 {
        for y in 0..12 {
            for x in 0..20 {
                second[(channel * 33 + y) * 31 + x] *= 0.25 * (channel + 1) as f32;
            }
        }
    }
    [first, second]
}

/// Layers by loops over channels first, as PyTorch has them.
fn plain(image: &[f32], tensors: &[(String, Vec<usize>, Vec<f32>)]) -> Vec<Vec<f64>> {
    let mut x: Vec<f64> = (0..3 * 33 * 31)
        .map(|at| {
            let channel = at / (33 * 31);
            (2.0 * f64::from(image[at]) - 1.0 - f64::from(SHIFT[channel]))
                / f64::from(SCALE[channel])
        })
        .collect();
    let (mut height, mut width) = (33usize, 31usize);
    let mut taps = Vec::new();
    for (at, layer) in LAYERS.iter().enumerate() {
        let [outputs, inputs, side] = layer.shape;
        if layer.pools {
            let [h, w] = [(height - 3) / 2 + 1, (width - 3) / 2 + 1];
            let mut pooled = Vec::new();
            for (channel, y, columns) in
                (0..inputs).flat_map(|channel| (0..h).map(move |y| (channel, y, w)))
            {
                for column in 0..columns {
                    let window = (0..9).map(|i| {
                        x[(channel * height + 2 * y + i / 3) * width + 2 * column + i % 3]
                    });
                    pooled.push(window.fold(f64::NEG_INFINITY, f64::max));
                }
            }
            (x, height, width) = (pooled, h, w);
        }
        let [h, w] =
            [height, width].map(|extent| (extent + 2 * layer.padding - side) / layer.stride + 1);
        let (weight, bias) = (&tensors[3 * at].2, &tensors[3 * at + 1].2);
        let mut next = vec![0.0; outputs * h * w];
        for (place, value) in next.iter_mut().enumerate() {
            let (output, y, column) = (place / (h * w), place / w % h, place % w);
            let mut sum = f64::from(bias[output]);
            for input in 0..inputs {
                for i in 0..side * side {
                    let row = (y * layer.stride + i / side).wrapping_sub(layer.padding);
                    let own = (column * layer.stride + i % side).wrapping_sub(layer.padding);
                    if row < height && own < width {
                        let weight = weight[(output * inputs + input) * side * side + i];
                        sum += f64::from(weight) * x[(input * height + row) * width + own];
                    }
                }
            }
            *value = sum.max(0.0);
        }
        (x, height, width) = (next, h, w);
        taps.push(x.clone());
    }
    taps
}

#[test]
fn distances_are_those_of_plain_loops_and_of_numpy() {
    let tensors = tensors();
    let lpips = read(&tensors).unwrap();
    let [first, second] = images();
    let [a, b] = [plain(&first, &tensors), plain(&second, &tensors)];
    let mut expected = 0.0;
    for (at, (a, b)) in a.iter().zip(&b).enumerate() {
        let weights = &tensors[3 * at + 2].2;
        let positions = a.len() / weights.len();
        for position in 0..positions {
            let of = |values: &[f64]| -> Vec<f64> {
                let own: Vec<f64> =
                    (0..weights.len()).map(|c| values[c * positions + position]).collect();
                let length = own.iter().map(|v| v * v).sum::<f64>().sqrt() + 1e-10;
                own.into_iter().map(|v| v / length).collect()
            };
            let gaps = of(a).into_iter().zip(of(b)).zip(weights);
            let sum: f64 = gaps.map(|((a, b), w)| f64::from(*w) * (a - b).powi(2)).sum();
            expected += sum / positions as f64;
        }
    }
    let found = lpips.distance(&first, &second, [3, 33, 31]).unwrap();
    assert!((found - expected).abs() < 1e-4 * expected, "{found} {expected}");
    assert!((found - NUMPY).abs() < 1e-4 * NUMPY, "{found}");
    assert_eq!(lpips.distance(&first, &first, [3, 33, 31]).unwrap(), 0.0);
}

/// By NumPy, from the same formulas.
const NUMPY: f64 = 0.161_772_697_833_122_9;

#[test]
fn small_and_gray_images_are_enlarged_and_have_three_channels() {
    let lpips = read(&tensors()).unwrap();
    assert_eq!([8, 16, 31, 32].map(|side| lpips_scale(side, 64)), [4, 2, 1, 1]);
    assert_eq!(lpips_scale(64, 8), 4);
    let [a, b] = [0, 1].map(|salt| numbers(64, salt).iter().map(|v| v.abs()).collect::<Vec<_>>());
    let enlarged = |image: &[f32]| -> Vec<f32> {
        let pixel = |at: usize| image[at / 32 % 32 / 4 * 8 + at % 32 / 4];
        (0..3 * 32 * 32).map(pixel).collect()
    };
    let small = lpips.distance(&a, &b, [1, 8, 8]).unwrap();
    assert_eq!(small, lpips.distance(&enlarged(&a), &enlarged(&b), [3, 32, 32]).unwrap());
    assert!(small > 0.0);
}

#[test]
fn tensors_that_are_missing_or_of_another_shape_are_named() {
    let mut without = tensors();
    without.retain(|(name, ..)| name != "features.6.bias");
    let error = read(&without).unwrap_err();
    assert!(matches!(&error, LpipsError::Missing { name, .. } if name == "features.6.bias"));
    let mut other = tensors();
    let at = other.iter().position(|(name, ..)| name == "lin2.model.1.weight").unwrap();
    other[at].1 = vec![384];
    let LpipsError::Shape { name, found, expected, .. } = read(&other).unwrap_err() else {
        panic!("another error");
    };
    assert_eq!(
        (name.as_str(), found, expected),
        ("lin2.model.1.weight", vec![384], vec![1, 384, 1, 1])
    );
    let error = Lpips::open("no/such.safetensors".as_ref()).unwrap_err();
    assert!(matches!(error, LpipsError::NoFile { .. }), "{error}");
}
