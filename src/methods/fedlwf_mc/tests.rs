//! Tests of FedLwF.MC's loss on logits.

use super::*;
use crate::golden::Golden;
use crate::learning::losses::sigmoid;
use crate::methods::lwf::tests::{Case, pair, stored};

/// Value and gradient of what all rows learn; classes 4..8 are the task's.
fn learn(case: &Case, classes: ClassReduction) -> (f64, Vec<f32>) {
    case.learn_by(0..8, 0..4, |teacher| FedLwfMcObjective { classes, teacher: Some(teacher) })
}

#[test]
fn golden_objectives_of_fedlwf_mc() {
    let Some(golden) = Golden::open("losses") else { return };
    let case = stored(&golden);
    for (name, classes) in [("lwf_mc", ClassReduction::Mean), ("lwf_mc_sum", ClassReduction::Sum)] {
        let (value, slope) = learn(&case, classes);
        golden.assert_close_f32(name, &[value as f32]);
        golden.assert_close_f32(&format!("{name}.grad_z"), &slope);
    }
}

/// FedLwF.MC card, invariant 1: a student that answers as its teacher learns nothing of old classes, exactly; the
/// targets of new ones are their labels.
#[test]
fn sigmoids_of_old_classes_stay_with_their_teacher() {
    let case = Case { t: pair().z, ..pair() };
    for (classes, divisor) in [(ClassReduction::Mean, 16.0), (ClassReduction::Sum, 2.0)] {
        let (_, slope) = learn(&case, classes);
        for (sample, row) in slope.chunks(8).enumerate() {
            assert_eq!(row[..4], [0.0; 4], "{classes:?}");
            for (class, found) in row.iter().enumerate().skip(4) {
                let label = f64::from(u8::from(case.labels[sample] as usize == class));
                let wanted = (sigmoid(case.z[8 * sample + class]) - label) / divisor;
                assert!((f64::from(*found) - wanted).abs() < 1e-7, "{classes:?} {class}");
            }
        }
    }
}
