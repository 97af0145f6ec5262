//! Tests of the server's use of Gaussians: merged classes and invalid settings.

use std::sync::Arc;

use super::*;
use crate::golden::Golden;
use crate::methods::Registry;
use crate::methods::class_statistics::{ClassGaussian, ClassStatistics, Mixture};
use crate::model::VitConfig;
use crate::numerics::gaussian::{DiagonalGaussian, FullGaussian};
use crate::policy::{ModelFacts, WireForm};
use crate::quantity::ClientId;
use crate::scenario::MethodSection;

type Said = Vec<(ClientId, Vec<Arc<ClassStatistics>>)>;

/// Returns the Gaussian of one class from each client, in one form.
fn reports(form: CovarianceForm, row: u32, clients: &[Vec<Vec<f32>>], least: usize) -> Said {
    let of = |(client, features): (usize, &Vec<Vec<f32>>)| {
        let gaussian = ClassGaussian::fit(form, features[0].len(), features);
        (ClientId(client as u32), vec![Arc::new(ClassStatistics { row, gaussian })])
    };
    clients.iter().enumerate().filter(|(_, own)| own.len() >= least).map(of).collect()
}

fn merged(reports: &Said) -> ClassGaussian {
    let mut all = Prototypes::default();
    all.update(reports, true);
    let merged = all.merged();
    assert_eq!(merged.len(), 1);
    let (_, class) = merged.iter().next().unwrap();
    class.gaussian.clone()
}

/// Mean, covariance and count of a full Gaussian.
fn full(gaussian: ClassGaussian) -> FullGaussian {
    let ClassGaussian::Full(full) = gaussian else { panic!("not full") };
    full
}

fn diagonal(gaussian: ClassGaussian) -> DiagonalGaussian {
    let ClassGaussian::Diagonal(diagonal) = gaussian else { panic!("not diagonal") };
    diagonal
}

#[test]
fn golden_merged_classes() {
    let Some(golden) = Golden::open("statistics") else { return };
    let (features, dim) = (golden.f64("hgp.features"), golden.shape("hgp.features")[1]);
    let (clients, labels) = (golden.i64("hgp.client"), golden.i64("hgp.label"));
    for (suffix, least) in [("", 1), ("_min2", 2)] {
        let (mut means, mut covariances) = (vec![], vec![]);
        for class in 0..4 {
            let mut all = Prototypes::default();
            for client in 0..3 {
                let own: Vec<&[f64]> = (features.chunks(dim).zip(&clients).zip(&labels))
                    .filter(|((_, of), label)| (**of, **label) == (client, class))
                    .map(|((row, _), _)| row)
                    .collect();
                if own.len() < least {
                    continue;
                }
                let gaussian = ClassGaussian::Full(FullGaussian::fit(dim, &own));
                let class = Arc::new(ClassStatistics { row: class as u32, gaussian });
                all.update(&[(ClientId(client as u32), vec![class])], false);
            }
            let (_, class) = all.merged().iter().next().map(|(c, k)| (c, Arc::clone(k))).unwrap();
            let FullGaussian { mean, covariance, .. } = full(class.gaussian.clone());
            means.extend(mean);
            covariances.extend(covariance);
        }
        golden.assert_close(&format!("ccvr.mean{suffix}"), &means);
        golden.assert_close(&format!("ccvr.cov{suffix}"), &covariances);
    }
}

/// Nine features of three numbers, in rows.
fn features() -> Vec<Vec<f32>> {
    (0..9).map(|i| (0..3).map(|j| ((i * 7 + j * 5) % 11) as f32 - 4.0).collect()).collect()
}

/// CCVR card, invariant 1: any split into clients gives what all samples together give, also with clients of a single
/// sample, whose mean counts.
#[test]
fn any_split_merges_to_all_samples() {
    let rows = features();
    let of = |form, cuts: &[usize], least| {
        let bounds: Vec<usize> = [0].into_iter().chain(cuts.iter().copied()).chain([9]).collect();
        let clients: Vec<_> = bounds.windows(2).map(|w| rows[w[0]..w[1]].to_vec()).collect();
        merged(&reports(form, 4, &clients, least))
    };
    let whole = full(of(CovarianceForm::Full, &[], 1));
    let spread = diagonal(of(CovarianceForm::Diagonal, &[], 1));
    let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
    for (cuts, least) in [(&[4][..], 2), (&[2, 5], 2), (&[1, 2, 6], 1), (&[8], 1)] {
        let found = full(of(CovarianceForm::Full, cuts, least));
        assert_eq!(found.count, 9);
        assert!(near(&found.mean, &whole.mean), "{cuts:?}");
        assert!(near(&found.covariance, &whole.covariance), "{cuts:?}");
        let found = diagonal(of(CovarianceForm::Diagonal, cuts, least));
        assert!(near(&found.mean, &spread.mean) && near(&found.variance, &spread.variance));
    }
    // A client with a single sample is left out where two are asked for.
    assert_eq!(full(of(CovarianceForm::Full, &[1], 2)).count, 8);
}

/// CCVR card, invariant 2: the merge of one client is itself; of two that say the same the mean stays and the
/// covariance is `2 (n - 1) / (2 n - 1)` of theirs.
#[test]
fn one_client_merges_to_itself_and_two_alike_to_nearly_the_same() {
    let rows = features();
    let one = reports(CovarianceForm::Full, 4, std::slice::from_ref(&rows), 2);
    assert_eq!(merged(&one), one[0].1[0].gaussian);
    let alone = full(merged(&one));
    let twice = full(merged(&reports(CovarianceForm::Full, 4, &[rows.clone(), rows], 2)));
    assert_eq!((twice.count, &twice.mean), (18, &alone.mean));
    for (two, one) in twice.covariance.iter().zip(&alone.covariance) {
        assert!((two - one * 16.0 / 17.0).abs() < 1e-12);
    }
}

/// CCVR card, invariant 3: both class models have one mean, and second moments that differ by what divides them; they
/// are drawn with all the weight of their class.
#[test]
fn both_class_models_have_the_same_moments() {
    let cell = |count, mean: f64, variance: f64| {
        let gaussian = DiagonalGaussian { count, mean: vec![mean], variance: vec![variance] };
        Arc::new(ClassStatistics { row: 0, gaussian: ClassGaussian::Diagonal(gaussian) })
    };
    let mut all = Prototypes::default();
    all.update(
        &[(ClientId(3), vec![cell(30, 0.0, 1.0)]), (ClientId(5), vec![cell(10, 2.0, 4.0)])],
        true,
    );
    let merge = all.merged();
    // (29 * 1 + 9 * 4 + 30 * 0.25 + 10 * 2.25) / 39 around 0.5.
    let one = merge.iter().next().unwrap().1.gaussian.clone();
    let one = diagonal(one);
    assert!((one.mean[0] - 0.5).abs() < 1e-12 && (one.variance[0] - 95.0 / 39.0).abs() < 1e-12);
    // n / N in place of (n - 1) / (N - 1).
    let mixed = (30.0 * (1.0 + 0.25) + 10.0 * (4.0 + 2.25)) / 40.0;
    assert!((one.variance[0] - mixed).abs() < 0.1, "{}", one.variance[0]);
    let probabilities = |from: &Prototypes| {
        Mixture::new(from, 0..9, |_| 1.0, 1.0).unwrap().unwrap().probabilities()
    };
    assert_eq!(probabilities(&merge), [(0, ClientId(3), 1.0)]);
    assert_eq!(probabilities(&all), [(0, ClientId(3), 0.75), (0, ClientId(5), 0.25)]);
}

/// Keys of the calibration: its scope names the classes, and without an epoch there is none. The defaults are those of
/// HGP's benchmark.
#[test]
fn the_scope_names_the_classes_that_are_calibrated() {
    let over = |change: fn(&mut Calibration)| {
        let mut calibration = Calibration::default();
        change(&mut calibration);
        Rebalancing::from(calibration).over
    };
    assert_eq!(over(|c| c.scope = CalibrationScope::Current), Rebalance::Current);
    assert_eq!(over(|c| c.scope = CalibrationScope::Seen), Rebalance::Both);
    assert_eq!(over(|c| c.epochs = 0), Rebalance::None);
    let default = Ccvr::default();
    assert_eq!(
        (default.calibration.over, default.class_model),
        (Rebalance::Current, ClassModel::Mixture)
    );
}

#[test]
fn only_a_linear_head_on_the_backbone_is_calibrated() {
    let facts = ModelFacts {
        backbone: VitConfig::default().into(),
        classes: 10,
        tasks: 5,
        clients: 1,
        form: WireForm::Full,
        auxiliary: None,
    };
    let refused = |text: &str| {
        let section = MethodSection::new("ccvr", text.parse().unwrap());
        let built = Registry::builtin().build(&section, &facts);
        built.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(refused("train = \"head\""), "");
    for text in ["train = \"module\"", "classifier = \"cosine\""] {
        assert!(refused(text).contains("linear head"), "{text}: {}", refused(text));
    }
}
