//! Golden vectors: the pretrained ViT-Tiny on real images, and a small ViT with formula
//! weights, against timm and PyTorch in float64. Where `FEDCAST_TEST_DEVICE` says so, on a GPU.

mod activation;
pub(crate) mod lora;
mod pretrained;
mod small;

use candle_core::{Tensor, Var, backprop::GradStore};

pub(crate) use small::small_vit;

use crate::golden::Golden;
use crate::model::{LinearHead, ModelError, Prefix, ops, testing};

pub(super) fn tensor(values: Vec<f32>, shape: &[usize]) -> Tensor {
    Tensor::from_vec(values, shape, &testing::device()).expect("as many values as the shape has")
}

pub(crate) fn stored(golden: &Golden, name: &str) -> Tensor {
    tensor(golden.f32(name), &golden.shape(name))
}

pub(crate) fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().and_then(|t| t.to_vec1()).expect("an f32 tensor")
}

pub(super) fn labels(golden: &Golden) -> Vec<u32> {
    golden.i64("labels").into_iter().map(|y| y as u32).collect()
}

/// Returns the CLS rows of `(b, n, d)`.
pub(super) fn cls(tokens: &Tensor) -> Vec<f32> {
    flat(&tokens.narrow(1, 0, 1).expect("a CLS token"))
}

/// Returns a head over variables: weight, bias, and the head itself.
pub(super) fn trained_head(weight: Tensor, bias: Tensor) -> (Var, Var, LinearHead) {
    let weight = Var::from_tensor(&weight).expect("a variable");
    let bias = Var::from_tensor(&bias).expect("a variable");
    let head = LinearHead { weight: weight.as_tensor().clone(), bias: bias.as_tensor().clone() };
    (weight, bias, head)
}

/// Runs a test with the kernels of the CPU, and once more as another device would.
pub(crate) fn on_both_paths(test: impl Fn() -> Result<(), ModelError>) -> Result<(), ModelError> {
    test()?;
    ops::without_kernels(test)
}

pub(super) fn prefixes(prompts: &[Var]) -> Vec<Prefix> {
    prompts.iter().map(|p| Prefix::halves(p).expect("an even prompt")).collect()
}

/// Returns the gradient of a declared trainable: present, finite, not all zero.
pub(super) fn gradient(grads: &GradStore, variable: &Var) -> Vec<f32> {
    let gradient = flat(grads.get(variable).expect("a trainable has a gradient"));
    assert!(gradient.iter().all(|g| g.is_finite()) && gradient.iter().any(|g| *g != 0.0));
    gradient
}
