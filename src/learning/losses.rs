//! Losses in closed form: value and gradient are computed together, with one bridge to candle's graph.
//!
//! [`closed_form`] makes a differentiable scalar from any function of the values that returns `(loss, gradient)`;
//! distillation losses below use it. The masked cross-entropy of local training is
//! [`model::ops::cross_entropy`](crate::model::ops::cross_entropy); losses of a linear head on given features live in
//! `head_training`.
//!
//! ```
//! use candle_core::{Device, Var};
//! use fedcast::learning::losses::{distillation, Distillation};
//! # fn main() -> candle_core::Result<()> {
//! let student = Var::new(&[[2f32, 0.0, 9.0]], &Device::Cpu)?;
//! let teacher = [1f32, -1.0, 0.0];
//! // The student differs from the teacher by a constant on columns 0..2: nothing to learn.
//! let loss = distillation(&student, &teacher, 0..2, 2.0, Distillation::Kl)?;
//! assert!(loss.to_scalar::<f32>()?.abs() < 1e-6);
//! # Ok(())
//! # }
//! ```

mod anchored;
mod members;
mod prototypes;
mod sigmoid;
mod squared_gap;
mod stored_logits;

use std::ops::Range;

pub use members::{Linear, proximals};

use candle_core::{CpuStorage, CustomOp1, DType, Layout, Result, Shape, Tensor, bail};
use clap::ValueEnum;

pub use anchored::anchored;
pub use prototypes::{ClassPrototypes, ProtoDistance};
pub use sigmoid::{
    ClassReduction, sigmoid, sigmoid_cross_entropy, sigmoid_targets, weighted_sigmoid_cross_entropy,
};
pub use squared_gap::squared_gap;
pub use stored_logits::stored_logits;

use super::optimizer::lend;
use crate::model::ops;
use crate::scenario::reader::Choice;

/// Returns the differentiable scalar `f(x)`.
///
/// `f` returns the value and the gradient, which is row-major and of the length of `x`.
///
/// # Errors
/// Returns an error if the gradient has another length.
pub fn closed_form(x: &Tensor, f: impl FnOnce(&[f32]) -> (f64, Vec<f32>)) -> Result<Tensor> {
    let (value, gradient) = lend(x, |values| Ok(f(values)))?;
    if gradient.len() != x.elem_count() {
        bail!("a gradient of {} values for {:?}", gradient.len(), x.shape());
    }
    let slope = Tensor::from_vec(gradient, x.shape().clone(), x.device())?;
    let value = value as f32;
    if x.device().is_cpu() && x.dtype() == DType::F32 {
        return x.apply_op1(ClosedForm { value, slope });
    }
    // On other devices and types: a linear function with the right slope, shifted to the right value.
    let linear = ops::sum_all(&(x * slope.to_dtype(x.dtype())?)?)?;
    let offset = (linear.detach().affine(-1.0, f64::from(value)))?;
    linear + offset
}

struct ClosedForm {
    value: f32,
    slope: Tensor,
}

impl CustomOp1 for ClosedForm {
    fn name(&self) -> &'static str {
        "closed-form"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![self.value]), Shape::from(())))
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        (&self.slope * f64::from(g.to_scalar::<f32>()?)).map(Some)
    }
}

/// Forms of distillation in the literature.
///
/// `q` is the teacher, `p` the student, both softmax at the temperature over the columns. None carries the factor
/// `T^2`: multiply where a paper does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Distillation {
    /// `mean sum q log (q / p)`.
    Kl,
    /// `-mean sum q log p`: the same gradient, another value (LwF, TARGET).
    CrossEntropy,
    /// `mean sum p log (p / q)` (FedHAF).
    ReverseKl,
}

/// Returns the distillation loss of `logits` `(b, C)` towards `teacher` `(b, C)` on a range of columns.
///
/// It is a scalar. The teacher is row-major and has no gradient; the other columns get a gradient of exactly zero.
///
/// # Errors
/// Returns an error if columns exceed `C`, the teacher has another size, or the temperature is not positive.
pub fn distillation(
    logits: &Tensor,
    teacher: &[f32],
    columns: Range<usize>,
    temperature: f64,
    form: Distillation,
) -> Result<Tensor> {
    let (batch, classes) = logits.dims2()?;
    if columns.is_empty() || columns.end > classes || batch == 0 {
        bail!("distillation: columns {columns:?} of logits {:?}", logits.shape());
    }
    if teacher.len() != batch * classes || temperature.is_nan() || temperature <= 0.0 {
        bail!(
            "distillation: teacher of {} values for {:?} at temperature {temperature}",
            teacher.len(),
            logits.shape()
        );
    }
    closed_form(logits, |logits| {
        let mut gradient = vec![0f32; logits.len()];
        let mut total = 0.0;
        let rows = logits.chunks_exact(classes).zip(teacher.chunks_exact(classes));
        for ((z, t), g) in rows.zip(gradient.chunks_exact_mut(classes)) {
            let log_p = log_softmax(&z[columns.clone()], temperature);
            let log_q = log_softmax(&t[columns.clone()], temperature);
            let scale = 1.0 / (temperature * batch as f64);
            let g = &mut g[columns.clone()];
            let pairs = || log_p.iter().zip(&log_q);
            let loss: f64 = match form {
                Distillation::Kl => pairs().map(|(p, q)| libm::exp(*q) * (q - p)).sum(),
                Distillation::CrossEntropy => pairs().map(|(p, q)| -libm::exp(*q) * p).sum(),
                Distillation::ReverseKl => pairs().map(|(p, q)| libm::exp(*p) * (p - q)).sum(),
            };
            for (g, (log_p, log_q)) in g.iter_mut().zip(pairs()) {
                let p = libm::exp(*log_p);
                *g = match form {
                    Distillation::ReverseKl => scale * p * (log_p - log_q - loss),
                    _ => scale * (p - libm::exp(*log_q)),
                } as f32;
            }
            total += loss;
        }
        (total / batch as f64, gradient)
    })
}

/// Returns `log softmax(z / T)` in f64.
fn log_softmax(z: &[f32], temperature: f64) -> Vec<f64> {
    let scaled: Vec<f64> = z.iter().map(|&v| f64::from(v) / temperature).collect();
    let top = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = scaled.iter().map(|v| libm::exp(v - top)).sum();
    let log_sum = top + libm::log(sum);
    scaled.into_iter().map(|v| v - log_sum).collect()
}

/// Returns FedProx's proximal term towards the received weights, `mu/2 |w - anchor|^2`, as a scalar.
///
/// # Errors
/// Returns an error if the anchor has another length.
pub fn proximal(w: &Tensor, anchor: &[f32], mu: f64) -> Result<Tensor> {
    if anchor.len() != w.elem_count() {
        bail!("proximal term: {} values for {:?}", anchor.len(), w.shape());
    }
    closed_form(w, |w| {
        let mut total = 0.0;
        let pull = w.iter().zip(anchor).map(|(w, a)| {
            let gap = f64::from(*w) - f64::from(*a);
            total += gap * gap;
            (mu * gap) as f32
        });
        let gradient = pull.collect();
        (0.5 * mu * total, gradient)
    })
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use candle_core::{Device, Var};

    fn narrow(values: Vec<f64>) -> Vec<f32> {
        values.into_iter().map(|v| v as f32).collect()
    }

    /// Value and gradient against `name` and `name.grad_z`, times `factor`.
    fn check(golden: &Golden, name: &str, factor: f64, loss: impl Fn(&Tensor) -> Result<Tensor>) {
        let z = Tensor::from_vec(narrow(golden.f64("z")), golden.shape("z"), &Device::Cpu).unwrap();
        let z = Var::from_tensor(&z).unwrap();
        let loss = (loss(&z).unwrap() * factor).unwrap();
        golden.assert_close_f32(name, &[loss.to_scalar::<f32>().unwrap()]);
        let gradients = loss.backward().unwrap();
        let gradient = gradients.get(&z).unwrap().flatten_all().unwrap();
        golden.assert_close_f32(&format!("{name}.grad_z"), &gradient.to_vec1::<f32>().unwrap());
    }

    #[test]
    fn golden_losses_of_distillation() {
        let Some(golden) = Golden::open("losses") else { return };
        let t = narrow(golden.f64("t"));
        let at = |columns: Range<usize>, temperature, form| {
            let t = &t;
            move |z: &Tensor| distillation(z, t, columns.clone(), temperature, form)
        };
        check(&golden, "kl_T2", 1.0, at(0..4, 2.0, Distillation::Kl));
        check(&golden, "kl_T2_scaled", 4.0, at(0..4, 2.0, Distillation::Kl));
        check(&golden, "lwf", 1.0, at(0..4, 2.0, Distillation::CrossEntropy));
        check(&golden, "target", 25.0, at(0..4, 2.0, Distillation::CrossEntropy));
        check(&golden, "lwf_current", 1.0, at(4..8, 2.0, Distillation::CrossEntropy));
        check(&golden, "cfed", 0.1, at(0..10, 2.0, Distillation::CrossEntropy));
        check(&golden, "kl_reverse_T1", 1.0, at(0..4, 1.0, Distillation::ReverseKl));
        check(&golden, "fedprox_term", 1.0, |z| proximal(z, &t, 0.01));
    }

    #[test]
    fn golden_losses_of_cross_entropy() {
        let Some(golden) = Golden::open("losses") else { return };
        let labels: Vec<u32> = golden.i64("labels").into_iter().map(|y| y as u32).collect();
        for (name, columns) in [("ce_cur", 4..8), ("ce_seen", 0..8)] {
            check(&golden, name, 1.0, |z| {
                crate::model::ops::cross_entropy(z, &labels, columns.clone())
            });
        }
    }

    /// Elsewhere than on the CPU in `f32` the bridge is a linear function: same value, same gradient.
    #[test]
    fn the_bridge_is_the_same_in_another_type() {
        let x = Tensor::new(&[[1.5f64, -2.0], [0.25, 3.0]], &Device::Cpu).unwrap();
        let x = Var::from_tensor(&x).unwrap();
        let loss = closed_form(&x, |values| {
            assert_eq!(values, [1.5, -2.0, 0.25, 3.0]);
            (7.5, vec![0.5, -1.0, 2.0, 4.0])
        });
        let loss = (loss.unwrap() * 3.0).unwrap();
        assert_eq!(loss.to_scalar::<f64>().unwrap(), 22.5);
        let gradients = loss.backward().unwrap();
        let gradient = gradients.get(&x).unwrap().to_vec2::<f64>().unwrap();
        assert_eq!(gradient, [[1.5, -3.0], [6.0, 12.0]]);
    }

    #[test]
    fn distillation_says_what_does_not_fit() {
        let z = Tensor::new(&[[1f32, 2.0, 0.5]], &Device::Cpu).unwrap();
        let of = |teacher: &[f32], columns, temperature| {
            distillation(&z, teacher, columns, temperature, Distillation::Kl).is_ok()
        };
        assert!(of(&[0.0; 3], 0..3, 0.5));
        assert!(!of(&[0.0; 3], 0..4, 0.5), "a column too many");
        assert!(!of(&[0.0; 3], 1..1, 0.5), "no column");
        assert!(!of(&[0.0; 2], 0..2, 0.5), "a teacher of fewer values");
        for temperature in [0.0, -1.0, f64::NAN] {
            assert!(!of(&[0.0; 3], 0..3, temperature), "{temperature}");
        }
        let no_samples = Tensor::zeros((0, 3), DType::F32, &Device::Cpu).unwrap();
        assert!(distillation(&no_samples, &[], 0..3, 1.0, Distillation::Kl).is_err());
        assert!(proximal(&z, &[0.0; 2], 0.1).is_err());
    }

    #[test]
    fn the_bridge_refuses_gradients_of_another_size() {
        let x = Tensor::new(&[1f32, 2.0], &Device::Cpu).unwrap();
        assert!(closed_form(&x, |_| (0.0, vec![0.0; 3])).is_err());
        assert!(distillation(&x, &[0.0; 2], 0..2, 1.0, Distillation::Kl).is_err());
    }
}
