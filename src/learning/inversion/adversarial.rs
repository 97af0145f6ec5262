//! Loss for images on which a student still differs from its teacher.

use candle_core::{Result, Tensor, bail};

use super::largest;
use crate::learning::losses::closed_form;

/// Returns `- mean a KL(softmax f | softmax s)` over the samples of scores `(b, K)`.
///
/// `f` is the teacher, `s` the student, and `a` is 1 if both prefer the same class and 0 otherwise. The loss is never
/// positive. It is differentiable in both scores, with `a` as a constant.
///
/// # Errors
/// Returns an error if the scores have different shapes.
pub fn adversarial(teacher: &Tensor, student: &Tensor) -> Result<Tensor> {
    let (batch, classes) = teacher.dims2()?;
    if student.dims() != teacher.dims() {
        bail!("adversarial: scores {:?} and {:?}", teacher.shape(), student.shape());
    }
    closed_form(&Tensor::cat(&[teacher, student], 0)?, |scores| {
        let (of_teacher, of_student) = scores.split_at(batch * classes);
        let (mut total, mut up, mut down) = (0.0, Vec::new(), Vec::new());
        let rows = of_teacher.chunks_exact(classes).zip(of_student.chunks_exact(classes));
        for (f, s) in rows {
            if largest(f) != largest(s) {
                up.extend(vec![0f32; classes]);
                down.extend(vec![0f32; classes]);
                continue;
            }
            let (log_p, log_q) = (log_softmax(f), log_softmax(s));
            let pairs = || log_p.iter().zip(&log_q);
            let divergence: f64 = pairs().map(|(p, q)| libm::exp(*p) * (p - q)).sum();
            total -= divergence;
            let share = 1.0 / batch as f64;
            up.extend(pairs().map(|(p, q)| (-share * libm::exp(*p) * (p - q - divergence)) as f32));
            down.extend(pairs().map(|(p, q)| (share * (libm::exp(*p) - libm::exp(*q))) as f32));
        }
        up.extend(down);
        (total / batch as f64, up)
    })
}

fn log_softmax(row: &[f32]) -> Vec<f64> {
    let top = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let sum: f64 = row.iter().map(|z| libm::exp(f64::from(*z) - top)).sum();
    let log_sum = top + libm::log(sum);
    row.iter().map(|z| f64::from(*z) - log_sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    const TEACHER: [[f32; 3]; 3] = [[1.0, 0.0, -1.0], [0.2, 0.9, 0.1], [0.0, 0.5, 2.0]];
    const STUDENT: [[f32; 3]; 3] = [[0.5, 0.1, 0.0], [1.0, 0.0, 0.3], [-0.4, 0.3, 0.8]];

    fn value(teacher: &[[f32; 3]; 3], student: &[[f32; 3]; 3]) -> f64 {
        let of = |scores: &[[f32; 3]; 3]| Tensor::new(scores, &Device::Cpu).unwrap();
        f64::from(adversarial(&of(teacher), &of(student)).unwrap().to_scalar::<f32>().unwrap())
    }

    /// TARGET card, invariant 5: the second sample does not count, but in the mean.
    #[test]
    fn it_is_the_divergence_of_those_that_agree() {
        let softmax = |row: [f32; 3]| {
            let powers = row.map(|z| f64::from(z).exp());
            powers.map(|power| power / powers.iter().sum::<f64>())
        };
        let divergence = |row: usize| -> f64 {
            let (p, q) = (softmax(TEACHER[row]), softmax(STUDENT[row]));
            p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum()
        };
        let wanted = -(divergence(0) + divergence(2)) / 3.0;
        assert!((value(&TEACHER, &STUDENT) - wanted).abs() < 1e-6 && wanted < -0.01);
        assert_eq!(value(&TEACHER, &TEACHER), 0.0);
        // The other direction is another number.
        assert!((value(&STUDENT, &TEACHER) - wanted).abs() > 1e-3);
    }

    #[test]
    fn both_gradients_are_slopes() -> Result<()> {
        let (f, s) = (Var::new(&TEACHER, &Device::Cpu)?, Var::new(&STUDENT, &Device::Cpu)?);
        let gradients = adversarial(&f, &s)?.backward()?;
        let slopes = |of: &Var| gradients.get(of).expect("a gradient").to_vec2::<f32>();
        let (up, down) = (slopes(&f)?, slopes(&s)?);
        for row in 0..3 {
            for class in 0..3 {
                let moved = |by: f32, student: bool| {
                    let (mut f, mut s) = (TEACHER, STUDENT);
                    let of = if student { &mut s } else { &mut f };
                    of[row][class] += by;
                    value(&f, &s)
                };
                let slope = |student| (moved(1e-2, student) - moved(-1e-2, student)) / 2e-2;
                assert!((f64::from(up[row][class]) - slope(false)).abs() < 1e-4);
                assert!((f64::from(down[row][class]) - slope(true)).abs() < 1e-4);
            }
        }
        let other = Tensor::zeros((3, 4), candle_core::DType::F32, &Device::Cpu)?;
        assert!(adversarial(&f, &other).is_err());
        Ok(())
    }
}
