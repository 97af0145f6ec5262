//! Arithmetic of a training image, and the rate at which the machine multiplies.

use std::time::{Duration, Instant};

use candle_core::{DType, Device, Tensor};
use fedcast::learning::PromptShape;
use fedcast::model::VitConfig;

/// Floating-point operations (a multiplication and an addition are two) of one training image: forward,
/// backward to the prompts through frozen weights, and its share of one more forward pass after the last
/// epoch. Products of matrices only.
pub fn training_image(vit: VitConfig, prompt: PromptShape, epochs: u32) -> f64 {
    let (tokens, dim, depth) = (vit.tokens(), vit.dim, vit.depth);
    let patches = (tokens - 1) * vit.channels * vit.patch * vit.patch * dim;
    let linear = tokens * dim * (4 * dim + 2 * vit.mlp);
    // Queries times keys, and weights times values; the prompt holds keys and values.
    let attention = |block| {
        let prefix = if block < prompt.blocks { prompt.length / 2 } else { 0 };
        2 * tokens * (tokens + prefix) * dim
    };
    let attention: usize = (0..depth).map(attention).sum();
    let forward = patches + depth * linear + attention;
    // Below the first prompt nothing trains: queries, keys and values of block 0 go without.
    let backward = depth * linear - 3 * tokens * dim * dim + 2 * attention;
    2.0 * (forward as f64 * (1.0 + 1.0 / f64::from(epochs)) + backward as f64)
}

/// Floating-point operations per second of `threads` threads that multiply matrices of 768 rows and columns
/// at the same time, the best of three goes.
pub fn peak(threads: usize) -> f64 {
    let go = || -> f64 {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|_| scope.spawn(rate)).collect();
            all.into_iter().map(|thread| thread.join().expect("multiplies")).sum()
        })
    };
    (0..3).map(|_| go()).fold(0.0, f64::max)
}

fn rate() -> f64 {
    const SIDE: usize = 768;
    let matrix = Tensor::ones((SIDE, SIDE), DType::F32, &Device::Cpu).expect("has room");
    let begun = Instant::now();
    let mut products = 0;
    while begun.elapsed() < Duration::from_millis(500) {
        std::hint::black_box(matrix.matmul(&matrix).expect("fits"));
        products += 1;
    }
    2.0 * SIDE.pow(3) as f64 * f64::from(products) / begun.elapsed().as_secs_f64()
}
