//! Value and gradient against the package's own vectors.

use candle_core::{Device, Var};

use super::*;
use crate::golden::Golden;

#[test]
fn golden_own_not_true_distillation() {
    let golden = Golden::own("losses");
    let (z, teacher, labels) = (golden.variable("z"), golden.f32("t"), golden.labels("labels"));
    let shares = batch_shares(golden.f32("nottrue.close").into_iter());
    golden.assert_within("nottrue.shares", &shares, 1e-7);
    let not_true =
        NotTrue { teacher: &teacher, labels: &labels, shares: &shares, temperature: 3.0 };
    golden.assert_loss("nottrue", &not_true.loss(&z).unwrap(), &z);
}

/// Over the classes of the client task's group; a class without relatives has a score of 1.
#[test]
fn golden_losses_not_true() {
    let Some(golden) = Golden::open("losses") else { return };
    let group = |name: &str, width: usize| -> Vec<f32> {
        golden.f64(name).chunks(width).flat_map(|row| &row[4..8]).map(|z| *z as f32).collect()
    };
    let (z, teacher) = (group("z", 10), group("t", 10));
    let labels: Vec<u32> = golden.labels("labels").into_iter().map(|label| label - 4).collect();
    let close = golden.f64("nt.score").into_iter().map(|score| 1.0 - score as f32);
    let shares = batch_shares(close);
    let not_true =
        NotTrue { teacher: &teacher, labels: &labels, shares: &shares, temperature: 3.0 };
    let z = Var::from_vec(z, (labels.len(), 4), &Device::Cpu).unwrap();
    let loss = not_true.loss(&z).unwrap();
    golden.assert_close_f32("not_true", &[loss.to_scalar::<f32>().unwrap()]);
    let gradients = loss.backward().unwrap();
    let found = gradients.get(&z).unwrap().to_vec2::<f32>().unwrap();
    let padded = |row: &Vec<f32>| [&[0f32; 4][..], &row[..], &[0f32; 2][..]].concat();
    let found: Vec<f32> = found.iter().flat_map(padded).collect();
    golden.assert_close_f32("not_true.grad_z", &found);
}
