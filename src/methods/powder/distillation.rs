//! Not-true distillation: the student keeps the teacher's distribution over the wrong classes.

use candle_core::{Result, Tensor};

use crate::learning::losses::closed_form;

/// Teacher's logits of a batch, and the weight of each sample.
#[derive(Clone, Copy, Debug)]
pub struct NotTrue<'a> {
    /// Logits `(b, C)`, row-major.
    pub teacher: &'a [f32],
    /// True class of each sample.
    pub labels: &'a [u32],
    /// Weight `v` of each sample; Powder's sum to 1.
    pub shares: &'a [f64],
    /// Temperature `tau`.
    pub temperature: f64,
}

impl NotTrue<'_> {
    /// Returns `tau^2 sum_b v_b KL(q'_b || q_b)` of student (`logits` `(b, C)`) and teacher, a scalar.
    ///
    /// `q` is the softmax at `tau` over all classes but the true one. The gradient on the true class is exactly zero.
    ///
    /// # Errors
    /// When lengths do not fit.
    pub fn loss(&self, logits: &Tensor) -> Result<Tensor> {
        let (batch, classes) = logits.dims2()?;
        let NotTrue { teacher, labels, shares, temperature } = *self;
        if teacher.len() != batch * classes || labels.len() != batch || shares.len() != batch {
            candle_core::bail!(
                "not-true distillation: {} numbers for {batch} x {classes}",
                teacher.len()
            );
        }
        closed_form(logits, |logits| {
            let mut gradient = vec![0f32; logits.len()];
            let mut total = 0.0;
            for sample in 0..batch {
                let row = sample * classes..(sample + 1) * classes;
                let truth = labels[sample] as usize;
                let student = log_softmax_without(&logits[row.clone()], truth, temperature);
                let target = log_softmax_without(&teacher[row.clone()], truth, temperature);
                let factor = shares[sample] * temperature;
                for (class, slope) in gradient[row].iter_mut().enumerate() {
                    if class == truth {
                        continue;
                    }
                    let (q, wanted) = (libm::exp(student[class]), libm::exp(target[class]));
                    *slope = (factor * (q - wanted)) as f32;
                    total += factor * temperature * wanted * (target[class] - student[class]);
                }
            }
            (total, gradient)
        })
    }
}

/// Returns `log softmax(z / tau)` over all entries but `without`, whose value is 0, in f64.
fn log_softmax_without(z: &[f32], without: usize, temperature: f64) -> Vec<f64> {
    let scaled = |class: usize| f64::from(z[class]) / temperature;
    let others = || (0..z.len()).filter(|class| *class != without);
    let top = others().map(scaled).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = others().map(|class| libm::exp(scaled(class) - top)).sum();
    let log_sum = top + libm::log(sum);
    (0..z.len()).map(|class| if class == without { 0.0 } else { scaled(class) - log_sum }).collect()
}

/// Returns the sample weights `v`: the softmax over a batch of one minus the share of each sample's class.
///
/// Shares are those of [`Likeness::class_shares`](super::Likeness::class_shares), so classes with relatives in other
/// client tasks are distilled more.
pub fn batch_shares(class_shares: impl Iterator<Item = f32>) -> Vec<f64> {
    let mut shares: Vec<f64> = class_shares.map(|own| libm::exp(1.0 - f64::from(own))).collect();
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= sum);
    shares
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    const LABELS: [u32; 2] = [2, 0];

    fn student() -> Var {
        Var::from_vec(vec![0.3f32, -1.0, 2.0, 0.5, 1.0, 0.1, -0.2, 0.7], (2, 4), &Device::Cpu)
            .unwrap()
    }

    fn loss_of(student: &Tensor, teacher: &[f32], tau: f64) -> f32 {
        let not_true =
            NotTrue { teacher, labels: &LABELS, shares: &[0.25, 0.75], temperature: tau };
        not_true.loss(student).unwrap().to_scalar::<f32>().unwrap()
    }

    const TEACHER: [f32; 8] = [1.0, 0.0, -9.0, 0.4, 5.0, 0.3, 0.3, -0.6];

    /// A teacher, a label and a share for each sample, or nothing is learned.
    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let refused = |teacher: &[f32], labels: &[u32], shares: &[f64]| {
            NotTrue { teacher, labels, shares, temperature: 1.0 }.loss(&student()).is_err()
        };
        assert!(!refused(&TEACHER, &LABELS, &[0.25, 0.75]));
        assert!(refused(&TEACHER[1..], &LABELS, &[0.25, 0.75]));
        assert!(refused(&TEACHER, &LABELS[1..], &[0.25, 0.75]));
        assert!(refused(&TEACHER, &LABELS, &[0.25]));
    }

    /// Powder's card, invariant 3.
    #[test]
    fn a_teacher_that_agrees_but_for_the_truth_teaches_nothing() {
        let student = student();
        let mut teacher = student.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        // Neither constants nor what the teacher thinks of the true class matter.
        teacher.iter_mut().take(4).for_each(|z| *z += 3.0);
        teacher[2] = -50.0;
        assert!(loss_of(&student, &teacher, 3.0).abs() < 1e-6);
        let shifted = (student.as_tensor() + 7.0).unwrap();
        let (plain, moved) = (loss_of(&student, &TEACHER, 3.0), loss_of(&shifted, &TEACHER, 3.0));
        assert!(plain > 0.01 && (plain - moved).abs() < 1e-5, "{plain} {moved}");
    }

    #[test]
    fn slopes_are_those_of_the_loss_and_zero_on_the_truth() {
        let (student, tau) = (student(), 2.0);
        let shares = [0.25, 0.75];
        let not_true =
            NotTrue { teacher: &TEACHER, labels: &LABELS, shares: &shares, temperature: tau };
        let gradients = not_true.loss(&student).unwrap().backward().unwrap();
        let found = gradients.get(&student).unwrap().flatten_all().unwrap().to_vec1::<f32>();
        let found = found.unwrap();
        assert_eq!((found[2], found[4]), (0.0, 0.0));
        let values = student.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for place in 0..8 {
            let at = |step: f32| {
                let mut values = values.clone();
                values[place] += step;
                let moved = Tensor::from_vec(values, (2, 4), &Device::Cpu).unwrap();
                f64::from(loss_of(&moved, &TEACHER, tau))
            };
            let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((slope - f64::from(found[place])).abs() < 1e-3, "{place}: {slope}");
        }
    }

    #[test]
    fn two_classes_leave_one_wrong_one_and_nothing_to_learn() {
        let student = Tensor::new(&[[3f32, -1.0]], &Device::Cpu).unwrap();
        let not_true =
            NotTrue { teacher: &[0.0, 9.0], labels: &[0], shares: &[1.0], temperature: 1.0 };
        assert_eq!(not_true.loss(&student).unwrap().to_scalar::<f32>().unwrap(), 0.0);
    }

    /// A class without relatives has all of its row to itself, one with two twins a third.
    #[test]
    fn classes_with_relatives_elsewhere_are_distilled_more() {
        let shares = batch_shares([1.0, 1.0 / 3.0, 1.0].into_iter());
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(shares[0], shares[2]);
        assert!((shares[1] / shares[0] - (2.0f64 / 3.0).exp()).abs() < 1e-6, "{shares:?}");
    }
}
