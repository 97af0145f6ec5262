//! Rate at which a device multiplies large square matrices.

use std::time::Instant;

use candle_core::{DType, Result, Tensor};
use fedcast::model::DeviceSpec;

const REPETITIONS: usize = 10;

/// Returns the operations per second of `side x side` products in the device's type, the best of five repetitions.
pub fn rate(place: &DeviceSpec, side: usize) -> Result<f64> {
    let wave = |speed: f64| -> Result<Tensor> {
        let row = Tensor::arange(0f32, side as f32, &place.device)?;
        let grid = row.unsqueeze(1)?.broadcast_mul(&row.unsqueeze(0)?)?;
        ((grid * speed)?.sin()? / side as f64)?.to_dtype(place.compute)
    };
    let (a, b) = (wave(0.37)?, wave(0.61)?);
    let turn = |repetitions: usize| -> Result<f64> {
        let start = Instant::now();
        for _ in 0..repetitions {
            a.matmul(&b)?;
        }
        place.device.synchronize()?;
        Ok(start.elapsed().as_secs_f64() / repetitions as f64)
    };
    // The first products also load the kernels.
    turn(2)?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        best = best.min(turn(REPETITIONS)?);
    }
    let sum = a.matmul(&b)?.to_dtype(DType::F32)?.sum_all()?.to_scalar::<f32>()?;
    assert!(sum.is_finite(), "the products are numbers");
    Ok(2.0 * (side as f64).powi(3) / best)
}
