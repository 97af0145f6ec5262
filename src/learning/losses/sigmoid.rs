//! Sigmoid cross-entropy: one logistic regression per class, possibly with soft targets (LwF.MC, iCaRL, GLFC).

use candle_core::{Result, Tensor, bail};
use clap::ValueEnum;

use super::closed_form;
use crate::scenario::reader::Choice;

/// Reduction over the classes of a sample; over samples it is always the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum ClassReduction {
    /// The mean over classes.
    ///
    /// With SGD steps shrink as classes arrive.
    Mean,
    /// The sum over classes.
    Sum,
}

/// Returns `1 / (1 + e^-z)` in f64.
pub fn sigmoid(z: f32) -> f64 {
    let small = libm::exp(-f64::from(z.abs()));
    match z >= 0.0 {
        true => 1.0 / (1.0 + small),
        false => small / (1.0 + small),
    }
}

/// Returns one-hot targets `(b, columns)` of these labels, row-major, with soft targets on old columns.
///
/// `old` is the number of the first columns and a teacher's logits `(b, old)` for them, whose [`sigmoid`]s are the
/// targets there.
pub fn sigmoid_targets(
    labels: &[u32],
    columns: usize,
    teacher: Option<(&[f32], usize)>,
) -> Vec<f64> {
    let of = |(sample, label): (usize, &u32)| {
        let label = *label as usize;
        (0..columns).map(move |column| match teacher {
            Some((teacher, old)) if column < old => sigmoid(teacher[sample * old + column]),
            _ => f64::from(u8::from(column == label)),
        })
    };
    labels.iter().enumerate().flat_map(of).collect()
}

/// Returns the mean over samples of the binary cross-entropies of `logits` `(b, C)`, a scalar. The `targets` `g` `(b,
/// C)` in `[0, 1]`, row-major, have no gradient. The gradient of the logits is `sigmoid(z) - g`, divided by `b C`, or
/// by `b` for the sum over classes. It is exactly zero where a target is the [`sigmoid`] of its logit.
///
/// # Errors
/// Returns an error if there are no logits, or targets have another size.
pub fn sigmoid_cross_entropy(
    logits: &Tensor,
    targets: &[f64],
    classes: ClassReduction,
) -> Result<Tensor> {
    let (batch, columns) = logits.dims2()?;
    let scale = match classes {
        ClassReduction::Mean => 1.0 / (batch * columns) as f64,
        ClassReduction::Sum => 1.0 / batch as f64,
    };
    scaled(logits, targets, |_| 1.0, scale)
}

/// Returns the mean over samples and classes, with a weight per sample (GLFC, LGA). Neither targets nor weights have
/// gradients.
///
/// # Errors
/// Returns an error if there are no logits, or targets or weights have another size.
pub fn weighted_sigmoid_cross_entropy(
    logits: &Tensor,
    targets: &[f64],
    weights: &[f64],
) -> Result<Tensor> {
    let (batch, columns) = logits.dims2()?;
    if weights.len() != batch {
        bail!("sigmoid cross-entropy: {} weights for {batch} samples", weights.len());
    }
    scaled(logits, targets, |sample| weights[sample], 1.0 / (batch * columns) as f64)
}

fn scaled(
    logits: &Tensor,
    targets: &[f64],
    weight: impl Fn(usize) -> f64,
    scale: f64,
) -> Result<Tensor> {
    let (batch, columns) = logits.dims2()?;
    if batch * columns == 0 || targets.len() != batch * columns {
        bail!("sigmoid cross-entropy: {} targets for {:?}", targets.len(), logits.shape());
    }
    closed_form(logits, |logits| {
        let mut total = 0.0;
        let slopes = logits.iter().zip(targets).enumerate().map(|(at, (z, target))| {
            let (wide, weight) = (f64::from(*z), weight(at / columns));
            total += weight * (wide.max(0.0) - wide * target + libm::log1p(libm::exp(-wide.abs())));
            (scale * weight * (sigmoid(*z) - target)) as f32
        });
        let gradient = slopes.collect();
        (scale * total, gradient)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use candle_core::{DType, Device, Var};

    const REDUCTIONS: [ClassReduction; 2] = [ClassReduction::Mean, ClassReduction::Sum];

    fn loss(
        z: &[f32],
        targets: &[f64],
        columns: usize,
        classes: ClassReduction,
    ) -> (f64, Vec<f32>) {
        let var = Var::from_slice(z, (z.len() / columns, columns), &Device::Cpu).unwrap();
        let loss = sigmoid_cross_entropy(&var, targets, classes).unwrap();
        let gradients = loss.backward().unwrap();
        let slope = gradients.get(&var).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        (f64::from(loss.to_scalar::<f32>().unwrap()), slope)
    }

    #[test]
    fn golden_losses_of_sigmoids() {
        let Some(golden) = Golden::open("losses") else { return };
        let narrow =
            |name: &str| -> Vec<f32> { golden.f64(name).into_iter().map(|v| v as f32).collect() };
        let (z, t, labels) = (narrow("z"), narrow("t"), golden.labels("labels"));
        let targets: Vec<f64> = (0..6 * 8)
            .map(|at| match (at / 8, at % 8) {
                (sample, class) if class < 4 => sigmoid(t[sample * 10 + class]),
                (sample, class) => f64::from(u8::from(labels[sample] as usize == class)),
            })
            .collect();
        for (name, classes) in ["lwf_mc", "lwf_mc_sum"].into_iter().zip(REDUCTIONS) {
            let var = Var::from_slice(&z, (6, 10), &Device::Cpu).unwrap();
            let seen = var.narrow(1, 0, 8).unwrap();
            let loss = sigmoid_cross_entropy(&seen, &targets, classes).unwrap();
            golden.assert_close_f32(name, &[loss.to_scalar::<f32>().unwrap()]);
            let gradients = loss.backward().unwrap();
            let slope = gradients.get(&var).unwrap().flatten_all().unwrap();
            golden.assert_close_f32(&format!("{name}.grad_z"), &slope.to_vec1::<f32>().unwrap());
        }
    }

    /// FedLwF.MC card, invariant 2: the gradient against differences of the value.
    #[test]
    fn the_gradient_is_the_slope_of_the_value() {
        let (z, targets) = ([1.5f32, -2.0, 0.25, -30.0, 40.0, 0.0], [0.7, 0.0, 1.0, 0.0, 1.0, 0.5]);
        for (classes, divisor) in REDUCTIONS.into_iter().zip([6.0, 2.0]) {
            let (_, slope) = loss(&z, &targets, 3, classes);
            for at in 0..z.len() {
                let moved = |by: f32| {
                    let mut z = z;
                    z[at] += by;
                    loss(&z, &targets, 3, classes).0
                };
                let (step, by_hand) = (0.25, (sigmoid(z[at]) - targets[at]) / divisor);
                let difference = (moved(step) - moved(-step)) / (2.0 * f64::from(step));
                // The second difference is what a finite step leaves, at most a hundredth here.
                assert!((difference - f64::from(slope[at])).abs() < 1e-2 / divisor, "{classes:?}");
                assert!((by_hand - f64::from(slope[at])).abs() < 1e-7, "{classes:?} {at}");
            }
        }
    }

    /// FedLwF.MC card, invariant 1: nothing pulls a student towards its own answers, not even by rounding.
    #[test]
    fn a_student_learns_nothing_from_itself() {
        let z = [0.3f32, -7.1, 1e-3, 12.5, -0.0, 2.2];
        let own: Vec<f64> = z.iter().map(|z| sigmoid(*z)).collect();
        for classes in REDUCTIONS {
            assert_eq!(loss(&z, &own, 3, classes).1, [0.0; 6], "{classes:?}");
        }
    }

    /// FedLwF.MC card, invariant 3: one logistic regression per class, which no other class has a part in.
    #[test]
    fn classes_do_not_meet() {
        let (z, targets) = ([1.5f32, -2.0, 0.25, 0.5], [1.0, 0.0, 0.0, 1.0]);
        let (value, slope) = loss(&z, &targets, 2, ClassReduction::Sum);
        let of = |class: usize| {
            let (z, y) = ([z[class], z[2 + class]], [targets[class], targets[2 + class]]);
            loss(&z, &y, 1, ClassReduction::Sum)
        };
        let (first, second) = (of(0), of(1));
        assert!((value - first.0 - second.0).abs() < 1e-6);
        assert_eq!(slope, [first.1[0], second.1[0], first.1[1], second.1[1]]);
        // -log sigma(z) where the class is the label, -log(1 - sigma(z)) where it is not.
        let by_hand = -libm::log(sigmoid(1.5)) - libm::log(1.0 - sigmoid(0.25));
        assert!((first.0 - by_hand / 2.0).abs() < 1e-6);
    }

    #[test]
    fn targets_of_another_size_are_refused() {
        let z = Tensor::new(&[[1f32, 2.0]], &Device::Cpu).unwrap();
        assert!(sigmoid_cross_entropy(&z, &[0.0; 3], ClassReduction::Mean).is_err());
        let no_samples = Tensor::zeros((0, 3), DType::F32, &Device::Cpu).unwrap();
        assert!(sigmoid_cross_entropy(&no_samples, &[], ClassReduction::Mean).is_err());
    }

    /// Two old columns, which the teacher answers, and two that the label says.
    #[test]
    fn a_teacher_says_the_targets_of_its_own_columns_and_no_more() {
        let teacher = [0.0f32, 2.0, -1.0, 3.0];
        let targets = sigmoid_targets(&[0, 3], 4, Some((&teacher, 2)));
        let of = |z: f64| 1.0 / (1.0 + (-z).exp());
        let wanted = [0.5, of(2.0), 0.0, 0.0, of(-1.0), of(3.0), 0.0, 1.0];
        assert!(targets.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-15), "{targets:?}");
        assert_eq!(sigmoid_targets(&[1], 3, None), [0.0, 1.0, 0.0]);
    }

    /// GLFC, LGA: the weighted mean of what each sample loses alone, and its slope.
    #[test]
    fn a_sample_counts_as_much_as_its_weight() {
        let (z, targets) = ([1.5f32, -2.0, 0.25, 0.5], [1.0, 0.0, 0.3, 1.0]);
        let var = Var::from_slice(&z, (2, 2), &Device::Cpu).unwrap();
        let weighted = weighted_sigmoid_cross_entropy(&var, &targets, &[0.5, 3.0]).unwrap();
        let gradients = weighted.backward().unwrap();
        let slope = gradients.get(&var).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let first = loss(&z[..2], &targets[..2], 2, ClassReduction::Mean);
        let second = loss(&z[2..], &targets[2..], 2, ClassReduction::Mean);
        let value = f64::from(weighted.to_scalar::<f32>().unwrap());
        assert!((value - (0.5 * first.0 + 3.0 * second.0) / 2.0).abs() < 1e-6);
        let alone = first.1.iter().map(|s| 0.25 * s).chain(second.1.iter().map(|s| 1.5 * s));
        assert!(slope.iter().zip(alone).all(|(a, b)| (a - b).abs() < 1e-6), "{slope:?}");
        assert!(weighted_sigmoid_cross_entropy(&var, &targets, &[1.0]).is_err());
    }
}
