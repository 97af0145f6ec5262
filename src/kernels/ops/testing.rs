//! Checks of an operation: kernel against composition in `f32` and `bf16`, and both against finite differences.
//!
//! Every function here panics if two results differ. Tests of layers use them, too.

#![expect(clippy::disallowed_methods, reason = "a proof compares with other arithmetic")]

use candle_core::{DType, Device, Result, Shape, Tensor, Var};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::without_kernels;

/// Returns a tensor of values in (-1, 1), fixed by `name`.
pub fn draw(name: &str, shape: impl Into<Shape>) -> Tensor {
    let step =
        name.bytes().fold(0u64, |hash, byte| hash.wrapping_mul(257).wrapping_add(u64::from(byte)));
    let mut rng = ChaCha8Rng::seed_from_u64(step);
    let shape = shape.into();
    let data: Vec<f32> = (0..shape.elem_count()).map(|_| rng.random_range(-1f32..1.0)).collect();
    Tensor::from_vec(data, shape, &Device::Cpu).expect("as many values as the shape has")
}

/// Returns a scalar that depends on every output with a different weight.
fn probe(output: &Tensor) -> Result<Tensor> {
    (output * draw("probe", output.shape().clone()).to_device(output.device())?)?.sum_all()
}

/// Returns all values of an `f32` tensor, row-major.
pub fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().and_then(|t| t.to_vec1()).expect("an f32 tensor")
}

fn assert_close(what: &str, got: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(got.len(), expected.len(), "{what}");
    let scale = expected.iter().fold(1e-6f32, |m, v| m.max(v.abs()));
    for (i, (a, b)) in got.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance * scale, "{what}[{i}]: {a} instead of {b}");
    }
}

/// Environment variable with the device of tests (such as `cuda:0`); without it, the CPU.
const VARIABLE: &str = "FEDCAST_TEST_DEVICE";

/// Opens the device on which ops are tested besides the CPU.
pub fn device() -> Device {
    let Ok(name) = std::env::var(VARIABLE) else { return Device::Cpu };
    let index = name.strip_prefix("cuda:").and_then(|index| index.parse().ok());
    let index = index.unwrap_or_else(|| panic!("{VARIABLE}: {name} instead of cuda:0"));
    Device::new_cuda_with_stream(index).unwrap_or_else(|why| panic!("{VARIABLE}: {why}"))
}

/// Value and gradients of all inputs, as `f32`.
pub struct Pass {
    value: Vec<f32>,
    gradients: Vec<Vec<f32>>,
}

impl Pass {
    /// Returns the bits of the value and all gradients.
    pub fn bits(&self) -> Vec<u32> {
        let all = self.gradients.iter().flatten().chain(&self.value);
        all.map(|v| v.to_bits()).collect()
    }

    pub fn assert_close(&self, expected: &Pass, tolerance: f32) {
        assert_close("value", &self.value, &expected.value, tolerance);
        for (i, (got, expected)) in self.gradients.iter().zip(&expected.gradients).enumerate() {
            let blind = expected.iter().all(|v| *v == 0.0);
            assert!(!blind, "gradient {i} is zero: the test is blind");
            assert_close(&format!("gradient of input {i}"), got, expected, tolerance);
        }
    }
}

/// Runs `op` on variables; `first` is the type in which the first of them enters the op.
pub fn pass(inputs: &[&Tensor], first: DType, op: impl Fn(&[Tensor]) -> Result<Tensor>) -> Pass {
    pass_at(&Device::Cpu, inputs, first, op)
}

/// Runs [`pass`] on a device.
pub fn pass_at(
    device: &Device,
    inputs: &[&Tensor],
    first: DType,
    op: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Pass {
    let place = |t: &&Tensor| t.to_device(device).and_then(|t| Var::from_tensor(&t));
    let vars: Vec<Var> = inputs.iter().map(|t| place(t).expect("a variable")).collect();
    let mut tensors: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
    tensors[0] = tensors[0].to_dtype(first).expect("a float type");
    let output = op(&tensors).and_then(|t| t.to_dtype(DType::F32)).expect("the op runs");
    let grads = probe(&output).and_then(|s| s.backward()).expect("backward runs");
    let gradients = vars.iter().map(|v| values(grads.get(v).expect("a gradient"))).collect();
    Pass { value: values(&output), gradients }
}

/// Checks that value and all gradients of `op` and `reference` agree to 1e-5 of the largest entry.
pub fn agree(
    inputs: &[&Tensor],
    op: impl Fn(&[Tensor]) -> Result<Tensor>,
    reference: impl Fn(&[Tensor]) -> Result<Tensor>,
) {
    let expected = pass(inputs, DType::F32, reference);
    pass(inputs, DType::F32, op).assert_close(&expected, 1e-5);
}

/// Relative rounding error of `bf16` (8 bits), with room for a few operations in a row.
const BF16_TOLERANCE: f32 = 0.03;

/// Checks that the kernel of `op` and its composition agree in value and all gradients. The limits are 1e-5 of the
/// largest entry in `f32`, and 0.03 where the first input and the result are `bf16`.
pub fn agrees_everywhere(inputs: &[&Tensor], op: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let kernel = pass(inputs, DType::F32, &op);
    let composed = without_kernels(|| pass(inputs, DType::F32, &op));
    let half = pass(inputs, DType::BF16, &op);
    composed.assert_close(&kernel, 1e-5);
    half.assert_close(&kernel, BF16_TOLERANCE);
    without_kernels(|| finite_difference(inputs, &op));
}

/// Checks `op` composed on `device` against its kernel on the CPU.
///
/// Its first operand has the type `first`. Value and all gradients must agree, exist and be finite.
pub fn agrees_at(
    device: &Device,
    first: DType,
    inputs: &[&Tensor],
    op: impl Fn(&[Tensor]) -> Result<Tensor>,
) {
    let kernel = pass(inputs, DType::F32, &op);
    let there = without_kernels(|| pass_at(device, inputs, first, &op));
    assert!(there.gradients.iter().flatten().all(|g| g.is_finite()));
    there.assert_close(&kernel, if first == DType::F32 { 1e-5 } else { BF16_TOLERANCE });
}

/// Checks that every gradient entry of `op` equals the central difference of the op's forward pass.
pub fn finite_difference(inputs: &[&Tensor], op: impl Fn(&[Tensor]) -> Result<Tensor>) {
    const STEP: f32 = 1e-2;
    let vars: Vec<Var> = inputs.iter().map(|t| Var::from_tensor(t).expect("a variable")).collect();
    let tensors: Vec<Tensor> = vars.iter().map(|v| v.as_tensor().clone()).collect();
    let output = op(&tensors).expect("the op runs");
    let grads = probe(&output).and_then(|s| s.backward()).expect("backward runs");
    let weights: Vec<f32> = values(&draw("probe", output.shape().clone()));
    // The probe is summed in f64, so that only the op's own rounding remains.
    let at = |tensors: &[Tensor]| -> f64 {
        let output = values(&op(tensors).expect("the op runs"));
        output.iter().zip(&weights).map(|(o, w)| f64::from(*o) * f64::from(*w)).sum()
    };
    for (i, var) in vars.iter().enumerate() {
        let gradient = values(grads.get(var).expect("a gradient"));
        let scale = gradient.iter().fold(1e-3f32, |m, v| m.max(v.abs()));
        let base = values(inputs[i]);
        for (j, expected) in gradient.iter().enumerate() {
            let moved = |by: f32| {
                let mut data = base.clone();
                data[j] += by;
                let mut moved: Vec<Tensor> = inputs.iter().map(|t| (*t).clone()).collect();
                moved[i] = Tensor::from_vec(data, inputs[i].shape().clone(), &Device::Cpu)
                    .expect("the same shape");
                at(&moved)
            };
            let slope = ((moved(STEP) - moved(-STEP)) / (2.0 * f64::from(STEP))) as f32;
            assert!(
                (slope - expected).abs() <= 2e-3 * scale,
                "input {i}, entry {j}: gradient {expected}, finite difference {slope}"
            );
        }
    }
}
