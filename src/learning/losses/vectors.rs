//! Values and gradients against the package's own vectors.

use super::*;
use crate::golden::Golden;
use crate::model::ops;

#[test]
fn golden_own_cross_entropy_over_the_columns_that_compete() {
    let golden = Golden::own("losses");
    let (z, labels) = (golden.variable("z"), golden.labels("labels"));
    for (name, columns) in [("ce.current", 2..5), ("ce.seen", 0..5)] {
        golden.assert_loss(name, &ops::cross_entropy(&z, &labels, columns).unwrap(), &z);
    }
}

#[test]
fn golden_own_distillation() {
    let golden = Golden::own("losses");
    let (z, t) = (golden.variable("z"), golden.f32("t"));
    for (name, temperature, form) in [
        ("kd.kl", 2.0, Distillation::Kl),
        ("kd.cross", 2.0, Distillation::CrossEntropy),
        ("kd.reverse", 3.0, Distillation::ReverseKl),
    ] {
        let loss = distillation(&z, &t, 0..4, temperature, form).unwrap();
        golden.assert_loss(name, &loss, &z);
    }
    golden.assert_loss("proximal", &proximal(&z, &t, 0.3).unwrap(), &z);
}
