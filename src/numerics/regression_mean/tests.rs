use super::*;
use crate::golden::Golden;
use crate::numerics::symmetric::Gram;

fn gram(rows: &[f64], order: usize) -> SecondMoments {
    let mut gram = Gram::new(order);
    gram.add(rows);
    SecondMoments::Full(gram.finish())
}

/// Means of weights by moments: numerators and moments summed.
fn merged(of: &[(Vec<f64>, SecondMoments)]) -> (Vec<f64>, SecondMoments) {
    let mut clients = of.iter();
    let (weights, moments) = clients.next().expect("a client");
    let (mut sum, mut total) = (moments.after(weights), moments.clone());
    for (weights, moments) in clients {
        sum.iter_mut().zip(moments.after(weights)).for_each(|(sum, own)| *sum += own);
        total.add(moments);
    }
    (sum, total)
}

fn mean(of: &[(Vec<f64>, SecondMoments)]) -> Vec<f64> {
    let (sum, total) = merged(of);
    regression_mean(&sum, &total, 0.0).unwrap()
}

fn near(a: &[f64], b: &[f64], within: f64) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < within)
}

/// Three clients of `reg.*`: inputs of each, and moments shrunk so.
fn clients(golden: &Golden, gamma: f64, dead: bool) -> Vec<SecondMoments> {
    let mut all = golden.f64("reg.X");
    if dead {
        all.iter_mut().enumerate().filter(|(at, _)| at % 8 == 3).for_each(|(_, x)| *x = 0.0);
    }
    let mut rest = all.as_slice();
    let rows = golden.i64("reg.rows");
    let of = |rows: i64| {
        let (own, others) = rest.split_at(8 * rows as usize);
        rest = others;
        gram(own, 8).shrunk(gamma)
    };
    rows.into_iter().map(of).collect()
}

fn chunk(values: &[f64], of: usize, at: usize) -> Vec<f64> {
    let width = values.len() / of;
    values[at * width..(at + 1) * width].to_vec()
}

#[test]
fn golden_regression_means() {
    let Some(golden) = Golden::open("statistics") else { return };
    let weights = golden.f64("reg.W");
    let with = |moments: Vec<SecondMoments>| -> Vec<(Vec<f64>, SecondMoments)> {
        moments.into_iter().enumerate().map(|(m, g)| (chunk(&weights, 3, m), g)).collect()
    };
    for (name, gamma) in [("1.0", 1.0), ("0.5", 0.5), ("0.1", 0.1), ("0.0", 0.0)] {
        let found = mean(&with(clients(&golden, gamma, false)));
        golden.assert_close(&format!("reg.merged_g{name}"), &found);
    }
    let dead = mean(&with(clients(&golden, 1.0, true)));
    golden.assert_close("reg.merged_dead", &dead);
    assert!(dead.iter().skip(3).step_by(8).all(|value| value.abs() < 1e-12));
    // Biases are means by rows.
    let (bias, rows) = (golden.f64("reg.bias"), golden.i64("reg.rows"));
    let all: i64 = rows.iter().sum();
    let of =
        |at: usize| (0..3).map(|m| rows[m] as f64 * bias[6 * m + at]).sum::<f64>() / all as f64;
    golden.assert_close("reg.bias_merged", &(0..6).map(of).collect::<Vec<f64>>());
}

#[test]
fn golden_factors_and_tasks() {
    let Some(golden) = Golden::open("statistics") else { return };
    let (a, b) = (golden.f64("lorm.A"), golden.f64("lorm.B"));
    let (a0, b0) = (golden.f64("lorm.A0"), golden.f64("lorm.B0"));
    assert_eq!(b0.len(), 12, "the common B cancels");
    let times = |b: &[f64], a: &[f64]| product(b, Matrix::dense(a, 2, 8));
    for (name, gamma, dead) in [("", 1.0, false), ("_diag", 0.0, false), ("_dead", 0.0, true)] {
        let moments = clients(&golden, gamma, dead);
        let of = |weights: &dyn Fn(usize) -> Vec<f64>| -> Vec<(Vec<f64>, SecondMoments)> {
            moments.iter().enumerate().map(|(m, g)| (weights(m), g.clone())).collect()
        };
        golden.assert_close(&format!("lorm.A_merged{name}"), &mean(&of(&|m| chunk(&a, 3, m))));
        if dead {
            continue;
        }
        let behind: Vec<_> =
            moments.iter().enumerate().map(|(m, g)| (chunk(&b, 3, m), g.through(&a0))).collect();
        golden.assert_close(&format!("lorm.B_merged{name}"), &mean(&behind));
        let tasks = if gamma == 0.0 { "lorm.tasks_diag" } else { "lorm.tasks_full" };
        let found = mean(&of(&|m| times(&chunk(&b, 3, m), &chunk(&a, 3, m))));
        golden.assert_close(tasks, &found);
    }
}

fn wave(count: usize, phase: f64) -> Vec<f64> {
    (0..count).map(|at| (1.7 * at as f64 + phase).sin() + 0.3 * (0.3 * at as f64).cos()).collect()
}

/// Cards of RegMean and LoRM, invariants 1 to 5.
#[test]
fn equal_moments_are_means_one_client_changes_nothing_and_diagonals_are_convex() {
    let (one, other) = (wave(12, 0.0), wave(12, 2.0));
    let moments = gram(&wave(40, 1.0), 4);
    let plain: Vec<f64> = one.iter().zip(&other).map(|(a, b)| 0.5 * (a + b)).collect();
    let two = [(one.clone(), moments.clone()), (other.clone(), moments.clone())];
    assert!(near(&mean(&two), &plain, 1e-10));
    // Three times the inputs, three times the say.
    let mut thrice = moments.clone();
    (0..2).for_each(|_| thrice.add(&moments));
    let by: Vec<f64> = one.iter().zip(&other).map(|(a, b)| 0.25 * a + 0.75 * b).collect();
    let uneven = [(one.clone(), moments.clone()), (other.clone(), thrice)];
    assert!(near(&mean(&uneven), &by, 1e-10));
    assert!(near(&mean(&two[..1]), &one, 1e-9));
    let turned = [two[1].clone(), two[0].clone()];
    assert!(near(&mean(&turned), &mean(&two), 1e-10));

    let unlike = [(one.clone(), moments.clone()), (other.clone(), gram(&wave(40, 4.0), 4))];
    let diagonal: Vec<_> = unlike.iter().map(|(w, g)| (w.clone(), g.clone().shrunk(0.0))).collect();
    for (at, found) in mean(&diagonal).iter().enumerate() {
        let (low, high) = (one[at].min(other[at]), one[at].max(other[at]));
        assert!(low - 1e-12 <= *found && *found <= high + 1e-12);
    }
    // Normal equations.
    let found = mean(&unlike);
    let mut left = vec![0.0; 12];
    for (weights, moments) in &unlike {
        let gap: Vec<f64> = found.iter().zip(weights).map(|(w, own)| w - own).collect();
        left.iter_mut().zip(moments.after(&gap)).for_each(|(left, own)| *left += own);
    }
    assert!(left.iter().all(|left| left.abs() < 1e-9), "{left:?}");
}

/// Card of RegMean, invariants 2 and 6: clients of orthogonal inputs both get their own answers, and directions that
/// no client sees get none.
#[test]
fn orthogonal_inputs_keep_both_answers_and_unseen_ones_get_none() {
    let (first, second) = ([1.0, 2.0, 0.0, 0.0, 0.5, -1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 0.0]);
    let (one, other) = (wave(8, 0.0), wave(8, 3.0));
    let found = mean(&[(one.clone(), gram(&first, 4)), (other.clone(), gram(&second, 4))]);
    assert!(near(
        &[found[0], found[1], found[4], found[5]],
        &[one[0], one[1], one[4], one[5]],
        1e-9
    ));
    assert!(near(&[found[2], found[6]], &[other[2], other[6]], 1e-9));
    assert!(near(&[found[3], found[7]], &[0.0, 0.0], 1e-12));
    let broken = SecondMoments::Diagonal(vec![f64::NAN, 1.0]);
    let exact = |sum: &[f64], moments: &SecondMoments| regression_mean(sum, moments, 0.0);
    assert_eq!(exact(&[1.0, 1.0], &broken), Err(NotFinite));
    assert_eq!(exact(&[f64::INFINITY], &SecondMoments::Diagonal(vec![1.0])), Err(NotFinite));
    assert_eq!(exact(&[5.0], &SecondMoments::Diagonal(vec![0.0])), Ok(vec![0.0]));
}

/// Five inputs of eight numbers leave three directions unseen. What f32 makes of these is no direction: without a
/// cut-off that knows of f32 the merged weights are thousands, with it they are what the exact matrix gives.
#[test]
fn what_f32_leaves_of_unseen_directions_is_cut_off() {
    let precision = f64::from(f32::EPSILON);
    let decoded = |moments: &SecondMoments| match moments {
        SecondMoments::Full(matrix) => {
            let packed = matrix.packed().iter().map(|value| f64::from(*value as f32)).collect();
            SecondMoments::Full(Symmetric::from_packed(matrix.order(), packed).unwrap())
        }
        SecondMoments::Diagonal(diagonal) => {
            SecondMoments::Diagonal(diagonal.iter().map(|value| f64::from(*value as f32)).collect())
        }
    };
    // Two clients of one subspace: a third input is the sum of two others.
    let mut inputs = wave(40, 1.0);
    for row in inputs.chunks_mut(8) {
        (5..8).for_each(|at| row[at] = row[at - 5] + 0.5 * row[at - 3]);
    }
    let clients =
        [(wave(16, 0.0), gram(&inputs[..24], 8)), (wave(16, 2.0), gram(&inputs[16..], 8))];
    let exact = mean(&clients);
    let sent = clients.clone().map(|(weights, moments)| (weights, decoded(&moments)));
    let (sum, total) = merged(&sent);
    let rounding = total.rounding(precision);
    let found = regression_mean(&sum, &total, rounding).unwrap();
    assert!(near(&found, &exact, 1e-4), "{found:?} {exact:?}");
    let blind = regression_mean(&sum, &total, 0.0).unwrap();
    assert!(blind.iter().zip(&exact).any(|(a, b)| (a - b).abs() > 1.0), "{blind:?}");
    let SecondMoments::Full(matrix) = &total else { panic!("all of it") };
    assert_eq!(rounding, precision * matrix.trace());

    // The same behind a common A of eight rows, through which no more is seen.
    let a = wave(64, 0.7);
    let behind = |of: &[(Vec<f64>, SecondMoments)]| {
        merged(&of.iter().map(|(w, g)| (w.clone(), g.through(&a))).collect::<Vec<_>>())
    };
    let (sum, through) = behind(&sent);
    let cut = total.rounding_through(&a, precision);
    let found = regression_mean(&sum, &through, cut).unwrap();
    let (sum, through) = behind(&clients);
    let wanted = regression_mean(&sum, &through, 0.0).unwrap();
    assert!(near(&found, &wanted, 1e-3), "{found:?} {wanted:?}");
    let one = SecondMoments::Full(Symmetric::from_packed(2, vec![4.0, 0.0, 9.0]).unwrap());
    assert_eq!(one.rounding_through(&[1.0, -2.0, 0.5, 0.0], 0.5), 0.5 * (64.0 + 1.0));

    // A diagonal that was rounded is a diagonal: however little an input sees, its weight is a mean.
    let small = SecondMoments::Diagonal(vec![1.0, 1e-12]);
    assert_eq!(small.rounding(precision), 0.0);
    assert!(near(&regression_mean(&[2.0, 3e-12], &small, 0.0).unwrap(), &[2.0, 3.0], 1e-12));
}

/// A direction with a billionth of the energy counts if off-diagonals are shrunk.
///
/// Otherwise it is noise of f32.
#[test]
fn small_directions_of_shrunk_moments_count() {
    let precision = f64::from(f32::EPSILON);
    let whole = SecondMoments::Full(Symmetric::from_packed(2, vec![1.0, 3e-5, 1e-9]).unwrap());
    assert!(whole.rounding(precision) > 1e-9);
    let shrunk = whole.shrunk(0.5);
    let weights = [0.25, -2.0];
    let solved = regression_mean(&shrunk.after(&weights), &shrunk, 0.0).unwrap();
    assert!(near(&solved, &weights, 1e-6), "{solved:?}");
    let cut =
        regression_mean(&shrunk.after(&weights), &shrunk, shrunk.rounding(precision)).unwrap();
    assert!(cut[1].abs() < 1e-3, "the second column is cut: {cut:?}");
}
