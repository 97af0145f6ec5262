//! Some tens of milliseconds of fixed arithmetic whose bits tell whether two processes compute alike.
//!
//! Names of processors say little: the same one computes otherwise under another kernel, C library or emulation. So all
//! ranks compute the same products, activations, normalisations and solutions as training does, forward and backward,
//! and compare a digest.

#![allow(clippy::disallowed_methods, reason = "it is here to see machines differ")]

use std::sync::OnceLock;

use candle_core::{DType, Device, Result, Tensor, Var};

use crate::model::ops::{attention, cross_entropy, gelu, layer_norm, linear};
use crate::numerics::ridge::{Penalty, ridge};
use crate::numerics::symmetric::Gram;

/// Inner dimensions of products: kernels cut long ones into blocks.
const INNER: [usize; 4] = [64, 600, 3072, 5000];

/// Sixteen hexadecimal digits over all results, computed once; the reason where the arithmetic itself failed.
pub fn canary() -> &'static str {
    static CANARY: OnceLock<String> = OnceLock::new();
    CANARY.get_or_init(|| digest().unwrap_or_else(|error| format!("failed: {error}")))
}

fn digest() -> Result<String> {
    let mut hash = blake3::Hasher::new();
    for inner in INNER {
        // Odd sizes leave remainders in every direction.
        let (left, right) = (wave(&[37, inner], 3)?, wave(&[inner, 29], 7)?);
        add(&mut hash, &left.matmul(&right)?)?;
    }
    network(&mut hash)?;
    let features = wave(&[65, 33], 11)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
    let mut gram = Gram::new(33);
    gram.add(&features);
    let solved = ridge(&gram.finish(), &features[..66], Penalty::Relative(0.01), 0);
    let solved = solved.map_err(candle_core::Error::wrap)?;
    solved.weights.iter().for_each(|weight| _ = hash.update(&weight.to_le_bytes()));
    Ok(hash.finalize().to_hex()[..16].to_owned())
}

/// A block of a network and its gradient.
fn network(hash: &mut blake3::Hasher) -> Result<()> {
    let (width, tokens, batch) = (48, 17, 5);
    let var = |shape: &[usize], step| Var::from_tensor(&wave(shape, step)?);
    let weight = var(&[3 * width, width], 5)?;
    let (scale, shift) = (var(&[width], 13)?, var(&[width], 17)?);
    let head = var(&[10, width], 19)?;
    let x = wave(&[batch, tokens, width], 23)?;
    let normed = layer_norm(&x, &scale, &shift, 1e-6)?;
    let packed = linear(&normed, &weight, None)?;
    let seen = gelu(&attention(&packed, 3, None, tokens)?)?.tanh()?.mean(1)?;
    let logits = linear(&seen, &head, None)?;
    let labels: Vec<u32> = (0..batch as u32).map(|sample| sample % 10).collect();
    let loss = cross_entropy(&logits, &labels, 0..10)?;
    add(hash, &candle_nn::ops::softmax(&logits, 1)?)?;
    add(hash, &logits.exp()?)?;
    add(hash, &loss)?;
    let gradients = loss.backward()?;
    for var in [&weight, &scale, &shift, &head] {
        if let Some(gradient) = gradients.get(var) {
            add(hash, gradient)?;
        }
    }
    Ok(())
}

/// Numbers of both signs that no product of them rounds to evenly.
fn wave(shape: &[usize], step: usize) -> Result<Tensor> {
    let count = shape.iter().product::<usize>();
    let value = |at: usize| ((at * step + at / 7) % 101) as f32 * 0.0123 - 0.6;
    Tensor::from_vec((0..count).map(value).collect::<Vec<f32>>(), shape, &Device::Cpu)
}

fn add(hash: &mut blake3::Hasher, tensor: &Tensor) -> Result<()> {
    let values = tensor.flatten_all()?.to_vec1::<f32>()?;
    values.iter().for_each(|value| _ = hash.update(&value.to_le_bytes()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sings_the_same_twice_and_hears_another_kernel() {
        let here = canary();
        assert_eq!(here.len(), 16, "{here}");
        assert_eq!(digest().unwrap(), here);
        // Sums in another order, as another kernel has them.
        let (left, right) = (wave(&[37, 5000], 3).unwrap(), wave(&[5000, 29], 7).unwrap());
        let halves = |tensor: &Tensor, dim| {
            [0, 2500].map(|start| tensor.narrow(dim, start, 2500).unwrap().contiguous().unwrap())
        };
        let ([a, b], [c, d]) = (halves(&left, 1), halves(&right, 0));
        let other = (a.matmul(&c).unwrap() + b.matmul(&d).unwrap()).unwrap();
        let sum = |tensor: &Tensor| {
            let mut hash = blake3::Hasher::new();
            add(&mut hash, tensor).unwrap();
            hash.finalize()
        };
        assert_ne!(sum(&other), sum(&left.matmul(&right).unwrap()));
    }
}
