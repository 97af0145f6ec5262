use proptest::prelude::*;

use super::*;
use crate::golden::{Golden, assert_close};

fn f32s(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

#[test]
fn golden_class_aware_aggregation() {
    let Some(golden) = Golden::open("statistics") else { return };
    let (h, p) = (golden.f64("cpa.H"), f32s(&golden.f64("cpa.P")));
    let (classes, width) = (golden.shape("cpa.H")[1], golden.shape("cpa.P")[1]);
    for (scale, tau, weights, mixed) in [
        (RowScale::Raw, 1.0, Some("cpa.w_raw"), "cpa.out_raw"),
        (RowScale::Unit, 1.0, Some("cpa.w_unit"), "cpa.out_unit"),
        (RowScale::Unit, 0.1, None, "cpa.out_unit_tau0.1"),
    ] {
        let affinity = Affinity::of(&h, classes, scale, tau);
        // Stored rows without a positive score are means of all; here they keep themselves, which has a test of its
        // own.
        let lonely = |row: &usize| affinity.unmatched().contains(row);
        assert_eq!(affinity.unmatched().len(), usize::from(scale == RowScale::Unit));
        let matched = |name: &str, got: Vec<f64>, within: f64| {
            let stored = golden.f64(name);
            let across = stored.len() / affinity.size();
            for row in (0..affinity.size()).filter(|row| !lonely(row)) {
                let of = row * across..(row + 1) * across;
                assert_close(name, &got[of.clone()], &stored[of], within);
            }
        };
        if let Some(name) = weights {
            matched(name, affinity.weights.clone(), golden.tolerance(name));
        }
        // Components are f32 here.
        let values = affinity.mix(&p, width).into_iter().map(f64::from).collect();
        matched(mixed, values, 1e-6);
    }
}

/// Two layers, negative scores, an empty class: all choices.
#[test]
fn scores_are_counted_as_chosen() {
    let entries = |counting: Counting| {
        let mut histogram = ClassHistogram::new(2, 2, 2, counting);
        histogram.add(0, &[1.0, -8.0, 3.0, 4.0]);
        histogram.add(0, &[1.0, 0.0, 1.0, 2.0]);
        assert_eq!(histogram.samples(), 2);
        histogram.entries()
    };
    let usual = Counting::default();
    // The second component has scores of both signs: what is clipped is their mean.
    let kept = Counting { clipped: false, ..usual };
    assert_eq!(entries(usual), [1.5, 0.0, 0.0, 0.0]);
    assert_eq!(entries(kept), [1.5, 0.0, -0.5, 0.0]);
    assert_eq!(entries(Counting { mean_over_samples: false, ..kept }), [3.0, 0.0, -1.0, 0.0]);
    assert_eq!(entries(Counting { mean_over_layers: false, ..kept }), [3.0, 0.0, -1.0, 0.0]);
}

#[test]
fn the_identity_keeps_every_bit() {
    let components = [0.1f32, -0.0, f32::MIN_POSITIVE, 3.0e8, -7.5, 1.0];
    let mixed = Affinity::identity(3).mix(&components, 2);
    let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&mixed), bits(&components));
}

/// A component that goes with no class keeps itself at any temperature.
///
/// In others it weighs as a stranger does.
#[test]
fn a_row_without_a_positive_score_is_not_mixed() {
    let h = [3.0, 0.0, 0.0, 0.0, -1.0, -2.0, 0.0, 2.0];
    for (tau, stranger) in [(1e9, 0.25), (0.5, 1.0 / (3.0 + libm::exp(2.0)))] {
        let affinity = Affinity::of(&h, 2, RowScale::Unit, tau);
        assert_eq!(affinity.unmatched(), [1, 2]);
        assert_eq!(affinity.weights(1), [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(affinity.weights(2), [0.0, 0.0, 1.0, 0.0]);
        let row = affinity.weights(0);
        assert!(row[1..].iter().all(|weight| (weight - stranger).abs() < 1e-8), "{row:?}");
        assert!((affinity.own_weight() - (1.0 - 3.0 * stranger)).abs() < 1e-8);
        let mixed = affinity.mix(&[1.0, 0.1, 0.3, 2.0], 1);
        assert_eq!(mixed[1..3], [0.1, 0.3]);
    }
    let nothing = Affinity::of(&[0.0; 4], 2, RowScale::Unit, 1.0);
    assert_eq!((nothing.own_weight(), nothing.unmatched()), (1.0, &[0, 1][..]));
    assert_eq!(Affinity::identity(3).own_weight(), 1.0);
}

/// Components of 4 values with histograms over 3 classes.
fn stacks() -> impl Strategy<Value = Vec<([f64; 3], [f64; 4])>> {
    let entries = prop::array::uniform3(-1.0..3.0f64);
    prop::collection::vec((entries, prop::array::uniform4(-5.0..5.0f64)), 2..12)
}

fn stacked(stack: &[([f64; 3], [f64; 4])]) -> (Vec<f64>, Vec<f32>) {
    let h = stack.iter().flat_map(|(h, _)| *h).collect();
    (h, f32s(&stack.iter().flat_map(|(_, p)| *p).collect::<Vec<_>>()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn rows_are_positive_and_sum_to_one(stack in stacks(), tau in 0.05..10.0f64) {
        let affinity = Affinity::of(&stacked(&stack).0, 3, RowScale::Unit, tau);
        for (component, (entries, _)) in stack.iter().enumerate() {
            let row = affinity.weights(component);
            let matched = entries.iter().any(|entry| *entry > 0.0);
            prop_assert_eq!(affinity.unmatched().contains(&component), !matched);
            prop_assert!(!matched || row.iter().all(|weight| *weight > 0.0));
            prop_assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            prop_assert!(matched || row[component] == 1.0);
        }
    }

    /// Permuting clients permutes the rows of what they get.
    #[test]
    fn the_order_of_components_does_not_matter(stack in stacks(), seed in 0usize..99) {
        let mut turned = stack.clone();
        turned.rotate_left(seed % stack.len());
        let mix = |stack: &[([f64; 3], [f64; 4])]| {
            let (h, p) = stacked(stack);
            let mixed = Affinity::of(&h, 3, RowScale::Unit, 0.7).mix(&p, 4);
            mixed.into_iter().map(f64::from).collect::<Vec<_>>()
        };
        let mut expected = mix(&stack);
        expected.rotate_left(4 * (seed % stack.len()));
        assert_close("rotated", &mix(&turned), &expected, 1e-6);
    }

    /// Equal histograms: every component gets the mean. A temperature near 0 and distinct unit rows: no component gets
    /// anything new.
    #[test]
    fn temperature_goes_from_keeping_to_the_mean(stack in stacks()) {
        let (_, p) = stacked(&stack);
        let n = stack.len();
        let equal = vec![0.5; 3 * n];
        let mean: Vec<f64> = (0..4)
            .map(|i| (0..n).map(|k| f64::from(p[4 * k + i])).sum::<f64>() / n as f64)
            .collect();
        let all = |affinity: Affinity| {
            affinity.mix(&p, 4).into_iter().map(f64::from).collect::<Vec<_>>()
        };
        let everywhere: Vec<f64> = (0..n).flat_map(|_| mean.clone()).collect();
        assert_close("equal rows", &all(Affinity::of(&equal, 3, RowScale::Unit, 1.0)), &everywhere, 1e-5);
        let apart: Vec<f64> =
            (0..n).flat_map(|k| [libm::cos(0.1 * k as f64), libm::sin(0.1 * k as f64)]).collect();
        let kept: Vec<f64> = p.iter().map(|value| f64::from(*value)).collect();
        assert_close("cold", &all(Affinity::of(&apart, 2, RowScale::Unit, 1e-5)), &kept, 1e-5);
        assert_close("hot", &all(Affinity::of(&apart, 2, RowScale::Unit, 1e9)), &everywhere, 1e-5);
    }
}

/// A score below zero, rows of unlike lengths: a transposed or unscaled product has other weights.
#[test]
fn golden_own_affinity_of_components() {
    let golden = Golden::own("statistics");
    let (h, p) = (golden.f64("cpa.histograms"), golden.f32("cpa.components"));
    for (name, scale) in [("cpa.raw", RowScale::Raw), ("cpa.unit", RowScale::Unit)] {
        let affinity = Affinity::of(&h, 3, scale, 0.3);
        golden.assert_close(name, &affinity.weights);
        golden.assert_close(&format!("{name}.mixed"), &affinity.mix(&p, 6));
    }
}

/// Components are mixed in runs of columns: every column of a wide one is the weighted sum of that column.
#[test]
fn every_column_of_a_wide_component_is_mixed_alike() {
    let width = 2 * COLUMNS + 7;
    let value = |row: usize, column: usize| ((row * 31 + column * 17) % 23) as f32 - 9.0;
    let components: Vec<f32> = (0..3 * width).map(|at| value(at / width, at % width)).collect();
    let affinity = Affinity::of(&[0.1, 0.9, 0.5, 0.5, 1.0, 0.0], 2, RowScale::Unit, 0.4);
    let mixed: Vec<f64> = affinity.mix(&components, width).into_iter().map(f64::from).collect();
    let sum = |at: usize| -> f64 {
        let weights = affinity.weights(at / width).iter().enumerate();
        weights.map(|(of, weight)| weight * f64::from(value(of, at % width))).sum()
    };
    let expected: Vec<f64> = (0..3 * width).map(sum).collect();
    assert_close("wide", &mixed, &expected, 1e-5);
}
