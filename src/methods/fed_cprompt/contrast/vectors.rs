//! Values and gradients of contrastive losses against reference vectors.

use super::*;
use crate::golden::Golden;

#[test]
fn golden_own_contrastive_losses() {
    let golden = Golden::own("losses");
    let (received, before) = (golden.tensor("c2l.received"), golden.tensor("c2l.before"));
    let (now, near) = (golden.variable("c2l.now"), golden.variable("c2l.near"));
    let loss = hinge(&near, &received, Some(&before)).unwrap();
    golden.assert_loss("c2l.hinge", &loss, &near);
    golden.assert_loss("c2l.first", &hinge(&near, &received, None).unwrap(), &near);
    let loss = softmax(&now, &received, Some(&before), 0.5).unwrap();
    golden.assert_loss("c2l.softmax", &loss, &now);
    let c2l = C2l { gamma: 0.7, alpha: 5.0, ..C2l::default() };
    let loss = prompts(&now, &received, &[&before, &golden.tensor("c2l.near")], c2l).unwrap();
    golden.assert_loss("c2l.prompts", &loss, &now);
}

/// The release's `TripletLoss` and, in the first task, `positive_loss`.
#[test]
fn golden_released_contrastive_losses() {
    let golden = Golden::own("released_fed_cprompt");
    let (received, before) = (golden.tensor("received"), golden.tensor("before"));
    let now = golden.variable("now");
    golden.assert_loss("c2l", &hinge(&now, &received, Some(&before)).unwrap(), &now);
    golden.assert_loss("c2l.first", &hinge(&now, &received, None).unwrap(), &now);
    let close = (&received + (golden.tensor("step") * 1e-3).unwrap()).unwrap();
    let nothing = hinge(&close, &received, Some(&before)).unwrap();
    golden.assert_tensor("c2l.nothing", &nothing);
    assert_eq!(nothing.to_scalar::<f32>().unwrap(), 0.0);
}
