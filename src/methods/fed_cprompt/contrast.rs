//! Forms of the contrastive continual loss.

use candle_core::{Result, Tensor};

use super::C2l;
use crate::model::ops;

/// Weight of the distance to the received model, as in the release.
const POSITIVE: f64 = 1e3;
/// Weight of the distance to the previous task's model, as in the release.
const NEGATIVE: f64 = 1e1;
/// Margin of the hinge.
const MARGIN: f64 = 1.0;

/// Returns `ReLU(sum_b [1e3 |z - z_g|^2 - 1e1 |z - z_prev|^2] + 1)` of features `(b, d)`, a scalar.
///
/// In the first task, without a previous model, it is `ReLU(sum_b 1e3 |z - z_g|^2)`. This form is in the released code.
pub fn hinge(now: &Tensor, global: &Tensor, previous: Option<&Tensor>) -> Result<Tensor> {
    let squared = |other: &Tensor| ops::sum_all(&(now - other)?.sqr()?);
    let near = (squared(global)? * POSITIVE)?;
    match previous {
        None => ops::relu(&near),
        Some(previous) => ops::relu(&((near - (squared(previous)? * NEGATIVE)?)? + MARGIN)?),
    }
}

/// Returns the contrastive loss by cosines, a mean over the batch; 0 in the first task.
///
/// With the temperature `tau` it is the mean of `-ln(e^a / (e^a + e^b))` with `a = cos(z, z_g) / tau` and
/// `b = cos(z, z_prev) / tau`. The release contains this form without using it.
pub fn softmax(
    now: &Tensor,
    global: &Tensor,
    previous: Option<&Tensor>,
    temperature: f64,
) -> Result<Tensor> {
    let Some(previous) = previous else { return ops::sum_all(&now.zeros_like()?) };
    let cosine = |other: &Tensor| -> Result<Tensor> {
        let inner = |a: &Tensor, b: &Tensor| ops::sum(&(a * b)?, 1);
        inner(now, other)? / norm(&(inner(now, now)? * inner(other, other)?)?)?
    };
    // -ln(e^a / (e^a + e^b)) = ln(1 + e^(b - a)); cosines keep the exponent small.
    let gap = ((cosine(previous)? - cosine(global)?)? / temperature)?;
    ops::mean_all(&ops::log(&(ops::exp(&gap)? + 1.0)?)?)
}

/// Returns `max(|P - P_g| - gamma min_i |P - P_i| + alpha, 0)` of the components `P` of a task.
///
/// `P_g` are the received components and `P_i` those of earlier tasks; in the first task it is `|P - P_g|`. The formula
/// is the paper's from memory and has not been verified. The components of two tasks start as orthonormal rows,
/// `sqrt(2 n)` apart if a task has `n` in all blocks: a smaller margin has no effect until they come closer.
pub fn prompts(now: &Tensor, global: &Tensor, earlier: &[&Tensor], c2l: C2l) -> Result<Tensor> {
    let distance = |other: &Tensor| norm(&ops::sum_all(&(now - other)?.sqr()?)?);
    let near = distance(global)?;
    let mut least: Option<Tensor> = None;
    for other in earlier {
        let found = distance(other)?;
        least = Some(match least {
            None => found,
            Some(least) => least.minimum(&found)?,
        });
    }
    match least {
        None => Ok(near),
        Some(least) => ops::relu(&((near - (least * c2l.gamma)?)? + c2l.alpha)?),
    }
}

/// Returns the square root, with slope zero at zero.
fn norm(squared: &Tensor) -> Result<Tensor> {
    squared.maximum(1e-24)?.sqrt()
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use candle_core::{Device, Var};

    fn rows(shift: f32) -> Tensor {
        let values: Vec<f32> = (0..12).map(|i| (i as f32 + shift).sin()).collect();
        Tensor::from_vec(values, (3, 4), &Device::Cpu).unwrap()
    }

    fn number(tensor: &Tensor) -> f32 {
        tensor.to_scalar().unwrap()
    }

    #[test]
    fn golden_losses_c2l() -> Result<()> {
        let Some(golden) = Golden::open("losses") else { return Ok(()) };
        let read = |name: &str| {
            let values = golden.f64(name).into_iter().map(|v| v as f32).collect::<Vec<f32>>();
            Tensor::from_vec(values, golden.shape(name), &Device::Cpu)
        };
        let now = Var::from_tensor(&read("c2l.z")?)?;
        let loss = hinge(&now, &read("t")?, Some(&read("c2l.prev")?))?;
        // The loss is the difference of two sums near a thousand.
        golden.assert_within("c2l", &[number(&loss)], 2e-3);
        let grads = loss.backward()?;
        let gradient = grads.get(&now).unwrap().flatten_all()?.to_vec1::<f32>()?;
        golden.assert_within("c2l.grad_z", &gradient, 2e-2);
        Ok(())
    }

    #[test]
    fn at_the_first_step_only_the_previous_model_acts() -> Result<()> {
        let now = Var::from_tensor(&rows(0.0))?;
        let near = (rows(0.0) + 0.01)?;
        let loss = hinge(&now, &rows(0.0), Some(&near))?;
        let expected = 1.0 - 10.0 * 12.0 * 0.01f32.powi(2);
        assert!((number(&loss) - expected).abs() < 1e-4);
        let first = hinge(&now, &rows(0.0), None)?;
        assert_eq!(number(&first), 0.0);
        let grads = first.backward()?;
        let gradient = grads.get(&now).unwrap().flatten_all()?.to_vec1::<f32>()?;
        assert!(gradient.iter().all(|g| *g == 0.0));
        Ok(())
    }

    #[test]
    fn the_softmax_falls_towards_the_received_model() -> Result<()> {
        let of = |now: &Tensor| softmax(now, &rows(0.0), Some(&rows(2.0)), 0.5).map(|l| number(&l));
        assert!(of(&rows(0.0))? < of(&rows(1.0))? && of(&rows(1.0))? < of(&rows(2.0))?);
        let same = softmax(&rows(1.0), &rows(0.0), Some(&rows(0.0)), 0.5)?;
        assert!((number(&same) - std::f32::consts::LN_2).abs() < 1e-6);
        assert_eq!(number(&softmax(&rows(1.0), &rows(0.0), None, 0.5)?), 0.0);
        Ok(())
    }

    #[test]
    fn prompts_are_compared_with_the_nearest_of_earlier_tasks() -> Result<()> {
        let c2l = C2l { gamma: 0.5, alpha: 3.0, ..C2l::default() };
        let vector = |values: [f32; 2]| Tensor::new(&values, &Device::Cpu);
        let now = Var::from_tensor(&vector([0.0, 0.0])?)?;
        let (far, near) = (vector([6.0, 8.0])?, vector([3.0, 4.0])?);
        let loss = prompts(&now, &vector([0.0, 1.0])?, &[&far, &near], c2l)?;
        assert!((number(&loss) - (1.0 - 0.5 * 5.0 + 3.0)).abs() < 1e-6);
        // At the received prompt the distance has slope zero.
        let grads = prompts(&now, &vector([0.0, 0.0])?, &[], c2l)?.backward()?;
        let gradient = grads.get(&now).unwrap().to_vec1::<f32>()?;
        assert_eq!(gradient, [0.0, 0.0]);
        Ok(())
    }
}
