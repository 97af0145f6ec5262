//! Gain of wide vectors in loops of the training step.
//!
//! The widest vectors of the machine are compared with those of the baseline.
//!
//! If a loop falls short of its ratio on a machine with AVX-512, it is no longer compiled for that: see
//! `src/kernels/wide.rs`. The last figure is the gain of products in `bf16`.
//!
//! ```text
//! cargo bench --bench vectors
//! ```

#![allow(clippy::disallowed_methods, reason = "benches compare with other arithmetic")]

#[path = "figures/mod.rs"]
mod figures;

use std::hint::black_box;
use std::time::{Duration, Instant};

use candle_core::{DType, Device, Result, Tensor, Var};
use fedcast::model::ops::{self, Precision};
use fedcast::numerics::vectors::Vectors;
use figures::Asked;

/// Returns varied values, of a size that fits into a second-level cache.
fn values(shape: &[usize]) -> Result<Tensor> {
    let count = shape.iter().product::<usize>() as u32;
    let wave = Tensor::arange(0, count, &Device::Cpu)?.to_dtype(DType::F32)?;
    (wave * 0.37)?.sin()?.affine(3.0, 0.0)?.reshape(shape)
}

/// Returns the shortest time of many repetitions, as other load on the machine only adds time.
fn least(mut work: impl FnMut() -> Result<Tensor>) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..60 {
        let start = Instant::now();
        black_box(work()?);
        least = least.min(start.elapsed());
    }
    Ok(least)
}

fn ratio(slow: Duration, fast: Duration) -> f64 {
    slow.as_secs_f64() / fast.as_secs_f64()
}

/// Prints the speedup of `work` by the widest vectors.
fn widened(name: &str, asked: f64, mut work: impl FnMut() -> Result<Tensor>) -> Result<()> {
    let narrow = Vectors::Baseline.limit(|| least(&mut work))?;
    let name = format!("{name} in {:?} against the baseline", Vectors::of_machine());
    figures::print(&name, "times as fast", Asked::AtLeast(asked), ratio(narrow, least(work)?));
    Ok(())
}

fn main() -> Result<()> {
    figures::begin();
    let x = values(&[128, 768])?;
    widened("GELU", 2.0, || ops::gelu(&x))?;

    let variable = Var::from_tensor(&x)?;
    let hidden = ops::gelu(&variable)?;
    let gradient = || {
        let gradients = hidden.backward()?;
        gradients.get(&variable).cloned().ok_or_else(|| candle_core::Error::Msg("none".into()))
    };
    widened("its gradient, with candle's sums", 1.5, gradient)?;

    // With so few columns, softmax dominates.
    let packed = values(&[4, 197, 6])?;
    widened("softmax in attention", 1.3, || ops::attention(&packed, 1, None, 197))?;

    let (x, weight) = (values(&[1576, 192])?, values(&[768, 192])?);
    let product = |precision| least(|| ops::linear_at(precision, &x, &weight, None));
    let gain = ratio(product(Precision::F32)?, product(Precision::Bf16)?);
    figures::print("a product in bf16", "times as fast as in f32", Asked::AtLeast(1.5), gain);
    Ok(())
}
