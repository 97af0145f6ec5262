use super::*;
use crate::golden::Golden;
use crate::numerics::distributions::{below, fill_normal};
use crate::numerics::streams::{Domain, StreamKey};

const NORMALIZED: HeadLoss = HeadLoss::Normalized { tau: 0.1 };

fn normal(step: u64, len: usize) -> Vec<f32> {
    let mut out = vec![0.0; len];
    fill_normal(&mut StreamKey::new(11, Domain::Rebalance).step(step).rng(), &mut out);
    out
}

fn labels(n: usize, rows: Range<usize>) -> Vec<u32> {
    let mut rng = StreamKey::new(12, Domain::Rebalance).rng();
    (0..n).map(|_| rows.start as u32 + below(&mut rng, rows.len() as u64) as u32).collect()
}

fn head(rows: usize, dim: usize) -> Head {
    Head { weight: normal(1, rows * dim), bias: normal(2, rows) }
}

/// Returns the mean loss in f64, straight from its definition.
fn loss(
    weight: &[f64],
    bias: &[f64],
    h: &[f32],
    y: &[u32],
    rows: &Range<usize>,
    l: HeadLoss,
) -> f64 {
    let dim = h.len() / y.len();
    let mut total = 0.0;
    for (h, &y) in h.chunks_exact(dim).zip(y) {
        let mut z: Vec<f64> = rows
            .clone()
            .map(|r| {
                let row = &weight[r * dim..(r + 1) * dim];
                bias[r] + row.iter().zip(h).map(|(w, &h)| w * f64::from(h)).sum::<f64>()
            })
            .collect();
        if let HeadLoss::Normalized { tau } = l {
            let length = z.iter().map(|v| v * v).sum::<f64>().sqrt();
            z.iter_mut().for_each(|v| *v /= length * f64::from(tau));
        }
        let sum: f64 = z.iter().map(|v| v.exp()).sum();
        total += sum.ln() - z[y as usize - rows.start];
    }
    total / y.len() as f64
}

/// Two samples on the last two of three rows: `w x + b` by hand.
#[test]
fn logits_are_of_the_rows_that_are_asked() {
    let weight = vec![9.0, 9.0, 1.0, 2.0, -1.0, 0.5];
    let head = Head { weight, bias: vec![9.0, 0.1, 0.2] };
    let logits = head.logits(&[1.0, 1.0, 2.0, -4.0], 1..3);
    let wanted = [3.1, -0.3, -5.9, -3.8];
    assert_eq!(logits.len(), 4);
    assert!(logits.iter().zip(wanted).all(|(one, of)| (one - of).abs() < 1e-6), "{logits:?}");
}

#[test]
fn gradients_are_finite_differences() {
    let (head, h, rows) = (head(7, 5), normal(3, 6 * 5), 2..6);
    let y = labels(6, rows.clone());
    let wide = |v: &[f32]| v.iter().map(|&v| f64::from(v)).collect::<Vec<_>>();
    for l in [HeadLoss::Plain, NORMALIZED] {
        let mut work = HeadGradient::new(6, 4, 5);
        let value = work.compute(&head, rows.clone(), &h, &y, l);
        let at = |w: &[f64], b: &[f64]| loss(w, b, &h, &y, &rows, l);
        let (w, b) = (wide(&head.weight), wide(&head.bias));
        assert!((f64::from(value) - at(&w, &b)).abs() < 1e-5, "{l:?}");
        let near = |what: &str, got: f32, up: f64, down: f64| {
            let want = (up - down) / 2e-6;
            assert!((f64::from(got) - want).abs() < 1e-5, "{l:?} {what}: {got} and {want}");
        };
        for i in 0..20 {
            let mut moved = [w.clone(), w.clone()];
            moved[0][10 + i] += 1e-6;
            moved[1][10 + i] -= 1e-6;
            near("weight", work.weight[i], at(&moved[0], &b), at(&moved[1], &b));
        }
        for i in 0..4 {
            let mut moved = [b.clone(), b.clone()];
            moved[0][2 + i] += 1e-6;
            moved[1][2 + i] -= 1e-6;
            near("bias", work.bias[i], at(&w, &moved[0]), at(&w, &moved[1]));
        }
    }
}

/// HGP's invariant 5: the normalized loss does not change when the head is scaled, so its
/// gradient is orthogonal to the head (Euler).
#[test]
fn the_normalized_loss_is_blind_to_the_length_of_the_head() {
    let (head, h) = (head(8, 16), normal(3, 32 * 16));
    let y = labels(32, 0..6);
    let mut work = HeadGradient::new(32, 6, 16);
    let value = work.compute(&head, 0..6, &h, &y, NORMALIZED);
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let along = dot(&head.weight, &work.weight) + dot(&head.bias, &work.bias);
    let size = (dot(&work.weight, &work.weight) * dot(&head.weight, &head.weight)).sqrt();
    assert!(along.abs() < 1e-6 * size, "{along} against {size}");
    // A power of two changes no mantissa: the loss keeps its bits.
    let doubled = Head {
        weight: head.weight.iter().map(|v| v * 2.0).collect(),
        bias: head.bias.iter().map(|v| v * 2.0).collect(),
    };
    assert_eq!(work.compute(&doubled, 0..6, &h, &y, NORMALIZED), value);
    assert_ne!(work.compute(&doubled, 0..6, &h, &y, HeadLoss::Plain), value);
}

/// HGP's invariant 6: only the rows of the range move.
#[test]
fn rows_outside_the_range_keep_their_bits() {
    for rows in [0..4, 4..6, 0..6, 2..9] {
        let start = head(9, 5);
        let mut trained = start.clone();
        let training = HeadTraining { weight_decay: 1e-2, ..HeadTraining::default() };
        let y = labels(8, rows.clone());
        training
            .run(&mut trained, rows.clone(), 3, 8, |e, b, h, labels| {
                h.copy_from_slice(&normal(u64::from(e) * 10 + b as u64, h.len()));
                labels.copy_from_slice(&y);
            })
            .unwrap();
        for r in 0..9 {
            let same = trained.bias[r].to_bits() == start.bias[r].to_bits()
                && trained.weight[r * 5..(r + 1) * 5] == start.weight[r * 5..(r + 1) * 5];
            assert_eq!(same, !rows.contains(&r), "row {r} of {rows:?}");
        }
    }
}

#[test]
fn a_zero_head_has_no_direction_under_the_normalized_loss() {
    let mut head = Head::zeros(3, 2);
    let losses = HeadTraining::default().run(&mut head, 0..3, 1, 2, |_, _, h, y| {
        h.fill(1.0);
        y.copy_from_slice(&[0, 1]);
    });
    assert!(losses.unwrap().iter().all(|l| (l - 3f32.ln()).abs() < 1e-6));
    assert_eq!(head, Head::zeros(3, 2));
}

#[test]
fn impossible_requests_are_errors() {
    let training = HeadTraining::default();
    let mut two = head(2, 3);
    let error = training.run(&mut two, 0..3, 1, 1, |_, _, _, _| {}).unwrap_err();
    assert!(error.to_string().contains("rows 0..3 of 2"), "{error}");
    let error = training.run(&mut two, 0..1, 1, 1, |_, _, _, y| y.fill(1)).unwrap_err();
    assert!(error.to_string().contains("label 1"), "{error}");
    let error = training.run(&mut two, 0..2, 1, 1, |_, _, h, _| h.fill(f32::NAN)).unwrap_err();
    assert!(matches!(error, LearningError::NonFinite { .. }), "{error}");
}

fn narrow(values: Vec<f64>) -> Vec<f32> {
    values.into_iter().map(|v| v as f32).collect()
}

#[test]
fn golden_losses_of_the_head() {
    let Some(golden) = Golden::open("losses") else { return };
    let head = Head { weight: narrow(golden.f64("nh.W")), bias: narrow(golden.f64("nh.b")) };
    let h = narrow(golden.f64("nh.h"));
    let y: Vec<u32> = golden.i64("nh.y").into_iter().map(|y| y as u32).collect();
    for (name, loss) in [("norm_ce", NORMALIZED), ("plain_ce", HeadLoss::Plain)] {
        let mut work = HeadGradient::new(y.len(), 8, head.dim());
        let value = work.compute(&head, 0..8, &h, &y, loss);
        golden.assert_close_f32(name, &[value]);
        work.weight.resize(head.weight.len(), 0.0);
        work.bias.resize(head.rows(), 0.0);
        golden.assert_close_f32(&format!("{name}.grad_W"), &work.weight);
        golden.assert_close_f32(&format!("{name}.grad_b"), &work.bias);
    }
}

#[test]
fn golden_optimizers_rebalancing() {
    let Some(golden) = Golden::open("optimisers") else { return };
    let shape = golden.shape("rebalance.h");
    let (epochs, batches, size, dim) = (shape[0] as u32, shape[1], shape[2], shape[3]);
    let features = narrow(golden.f64("rebalance.h"));
    let y = golden.i64("rebalance.y");
    let run = |loss: HeadLoss| {
        let weight = narrow(golden.f64("rebalance.W0"));
        let mut head = Head { weight, bias: narrow(golden.f64("rebalance.b0")) };
        let training = HeadTraining { epochs, loss, ..HeadTraining::default() };
        let losses = training.run(&mut head, 0..8, batches, size, |epoch, batch, h, labels| {
            let at = (epoch as usize * batches + batch) * size;
            h.copy_from_slice(&features[at * dim..(at + size) * dim]);
            labels.iter_mut().zip(&y[at..]).for_each(|(to, &y)| *to = y as u32);
        });
        (head, losses.unwrap())
    };
    let (head, losses) = run(NORMALIZED);
    golden.assert_close_f32("rebalance.W", &head.weight);
    golden.assert_close_f32("rebalance.b", &head.bias);
    golden.assert_close_f32("rebalance.losses", &losses);
    golden.assert_close_f32("rebalance.plain_W", &run(HeadLoss::Plain).0.weight);
}

#[test]
fn golden_own_gradients_of_the_head() {
    let golden = Golden::own("losses");
    let head = Head { weight: golden.f32("head.weight"), bias: golden.f32("head.bias") };
    let (h, y) = (golden.f32("head.h"), golden.labels("head.labels"));
    for (name, loss) in [("head.plain", HeadLoss::Plain), ("head.normalised", NORMALIZED)] {
        let mut work = HeadGradient::new(y.len(), 4, 5);
        golden.assert_close(name, &[work.compute(&head, 1..5, &h, &y, loss)]);
        golden.assert_close(&format!("{name}.grad_weight"), &work.weight);
        golden.assert_close(&format!("{name}.grad_bias"), &work.bias);
    }
}
