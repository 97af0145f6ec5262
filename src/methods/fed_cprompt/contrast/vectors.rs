//! Values and gradients against the package's own vectors.

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
