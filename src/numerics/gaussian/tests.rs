use proptest::prelude::*;

use super::*;
use crate::golden::{Golden, assert_close};
use crate::numerics::streams::{Domain, StreamKey};

/// The samples of the golden file: `(client, class, row)`.
struct GoldenSamples {
    dim: usize,
    clients: usize,
    classes: usize,
    rows: Vec<(i64, i64, Vec<f64>)>,
}

impl GoldenSamples {
    fn read(golden: &Golden) -> GoldenSamples {
        let dim = golden.shape("hgp.features")[1];
        let (client, label) = (golden.i64("hgp.client"), golden.i64("hgp.label"));
        let features = golden.f64("hgp.features");
        let owners = client.into_iter().zip(label);
        let rows = owners.zip(features.chunks(dim)).map(|((m, c), x)| (m, c, x.to_vec())).collect();
        let shape = golden.shape("hgp.count");
        GoldenSamples { dim, clients: shape[0], classes: shape[1], rows }
    }

    fn of(&self, client: usize, class: usize) -> Vec<&[f64]> {
        let mine = |r: &&(i64, i64, Vec<f64>)| (r.0, r.1) == (client as i64, class as i64);
        self.rows.iter().filter(mine).map(|r| &r.2[..]).collect()
    }

    fn diagonal(&self, client: usize, class: usize) -> DiagonalGaussian {
        DiagonalGaussian::fit(self.dim, self.of(client, class))
    }
}

#[test]
fn golden_class_statistics() {
    let Some(golden) = Golden::open("statistics") else { return };
    let samples = GoldenSamples::read(&golden);
    let (mut count, mut mean, mut variance) = (vec![], vec![], vec![]);
    for client in 0..samples.clients {
        for class in 0..samples.classes {
            let fitted = samples.diagonal(client, class);
            count.push(fitted.count as f64);
            // What is not sent (fewer than two samples) is zero in the file.
            let sent = f64::from(u8::from(fitted.count >= 2));
            mean.extend(fitted.mean.iter().map(|m| m * sent));
            variance.extend(fitted.variance.iter().map(|v| v * sent));
        }
    }
    golden.assert_close("hgp.count", &count);
    golden.assert_close("hgp.mean", &mean);
    golden.assert_close("hgp.var", &variance);
}

#[test]
fn golden_mixture_moments() {
    let Some(golden) = Golden::open("statistics") else { return };
    let (shape, pi) = (golden.shape("hgp.mean"), golden.f64("hgp.pi"));
    let (mean, variance) = (golden.f64("hgp.mean"), golden.f64("hgp.var"));
    let [clients, classes, dim] = shape[..] else { panic!("shape {shape:?}") };
    let mix = |class: usize, inflation: f64| {
        let parts = (0..clients).map(|m| {
            let cell = m * classes + class;
            let at = cell * dim..(cell + 1) * dim;
            (pi[cell], &mean[at.clone()], &variance[at])
        });
        mixture_moments(dim, parts, inflation)
    };
    for (name, inflation) in [("hgp.mix_var1", 1.0), ("hgp.mix_var3", 3.0)] {
        let (means, variances): (Vec<_>, Vec<_>) = (0..classes).map(|c| mix(c, inflation)).unzip();
        golden.assert_close("hgp.mix_mean", &means.concat());
        golden.assert_close(name, &variances.concat());
    }
}

#[test]
fn golden_biased_mixture() {
    let Some(golden) = Golden::open("statistics") else { return };
    let samples = GoldenSamples::read(&golden);
    let (mut means, mut variances) = (vec![], vec![]);
    for class in 0..samples.classes {
        let of = |client| ClassMoments::fit(samples.dim, samples.of(client, class));
        let local: Vec<ClassMoments> = (0..samples.clients).map(of).collect();
        let ClassMoments { mean, variance, .. } = ClassMoments::pooled(samples.dim, &local);
        means.extend(mean);
        variances.extend(variance);
    }
    golden.assert_close("c2p.mean", &means);
    golden.assert_close("c2p.var", &variances);
}

#[test]
fn golden_merged_covariance() {
    let Some(golden) = Golden::open("statistics") else { return };
    let samples = GoldenSamples::read(&golden);
    for (suffix, least) in [("", 1), ("_min2", 2)] {
        let (mut means, mut covariances, mut diagonals) = (vec![], vec![], vec![]);
        for class in 0..samples.classes {
            let empty = FullGaussian::fit::<f64>(samples.dim, &[[]; 0]);
            let merged = (0..samples.clients)
                .map(|m| FullGaussian::fit(samples.dim, &samples.of(m, class)))
                .filter(|g| g.count >= least)
                .fold(empty, |all, one| all.merge(&one));
            let diagonal = (0..samples.clients)
                .map(|m| samples.diagonal(m, class))
                .filter(|g| g.count >= least)
                .fold(DiagonalGaussian::default(), |all, one| all.merge(&one));
            let dim = samples.dim;
            diagonals.extend(diagonal.variance.clone());
            let on_diagonal: Vec<f64> = (0..dim).map(|i| merged.covariance[i * dim + i]).collect();
            assert_close("diagonal of the merge", &diagonal.variance, &on_diagonal, 1e-12);
            means.extend(merged.mean);
            covariances.extend(merged.covariance);
        }
        golden.assert_close(&format!("ccvr.mean{suffix}"), &means);
        golden.assert_close(&format!("ccvr.cov{suffix}"), &covariances);
    }
}

#[test]
fn golden_inflated_features() {
    let Some(golden) = Golden::open("statistics") else { return };
    let gaussian = DiagonalGaussian {
        count: 9,
        mean: golden.f64("gauss.mean"),
        variance: golden.f64("gauss.var"),
    };
    let dim = gaussian.dim();
    let sampler = gaussian.sampler(3.0, 0.0).unwrap();
    let noise = golden.f64("gauss.eps");
    let mut drawn = vec![0f32; noise.len()];
    for (noise, out) in noise.chunks(dim).zip(drawn.chunks_mut(dim)) {
        sampler.place(noise, out);
    }
    golden.assert_close_f32("gauss.sample3", &drawn);
}

#[test]
fn draws_have_the_inflated_moments() {
    let rows: Vec<[f64; 3]> = (0..40)
        .map(|i| {
            let x = f64::from(i % 8) - 3.5;
            let y = f64::from(i % 5) - 2.0;
            [x + 10.0, 0.5 * x + y, 3.0 * y - x]
        })
        .collect();
    let full = FullGaussian::fit(3, &rows);
    let diagonal = DiagonalGaussian::fit(3, &rows);
    let samplers = [full.sampler(2.0, 1e-12).unwrap(), diagonal.sampler(2.0, 0.0).unwrap()];
    for (sampler, correlated) in samplers.iter().zip([true, false]) {
        let mut rng = StreamKey::new(1, Domain::Rebalance).rng();
        let mut scratch = vec![];
        let drawn: Vec<[f32; 3]> = (0..60_000)
            .map(|_| {
                let mut out = [0.0; 3];
                sampler.draw(&mut rng, &mut scratch, &mut out);
                out
            })
            .collect();
        let got = FullGaussian::fit(3, &drawn);
        assert_close("mean", &got.mean, &full.mean, 0.1);
        for (i, (got, one)) in got.covariance.iter().zip(&full.covariance).enumerate() {
            let want = if correlated || i % 4 == 0 { 2.0 * one } else { 0.0 };
            assert!((got - want).abs() < 0.7, "covariance {i}: {got}, should be {want}");
        }
    }
}

#[test]
fn a_singular_covariance_gets_jitter_and_a_broken_one_an_error() {
    let rows = [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]];
    let singular = FullGaussian::fit(3, &rows);
    let sampler = singular.sampler(1.0, 1e-8).unwrap();
    let mut out = [0f32; 3];
    sampler.place(&[0.0; 3], &mut out);
    assert_eq!(out, [1.5, 3.0, 4.5]);
    let same = FullGaussian::fit(3, &[[1.0, 2.0, 3.0]; 4]).sampler(3.0, 1e-8).unwrap();
    same.place(&[5.0; 3], &mut out);
    assert_eq!(out, [1.0, 2.0, 3.0]);
    let mut broken = singular.clone();
    broken.covariance[0] = -50.0;
    assert!(matches!(broken.sampler(1.0, 1e-8), Err(GaussianError::NotPositiveDefinite { .. })));
    broken.covariance[0] = f64::NAN;
    assert!(matches!(broken.sampler(1.0, 1e-8), Err(GaussianError::Invalid(_))));
    let negative = DiagonalGaussian { count: 2, mean: vec![0.0], variance: vec![-1.0] };
    assert!(negative.sampler(1.0, 0.0).is_err());
}

#[test]
fn a_duplicated_data_set_shrinks_the_variance_as_the_card_says() {
    // var_dup = var (n - 1) 2 / (2 n - 1)
    let rows = [[0.5f32, -1.0], [2.5, 4.0], [-3.0, 0.25]];
    let once = DiagonalGaussian::fit(2, rows);
    let twice = DiagonalGaussian::fit(2, rows.iter().chain(&rows));
    let want: Vec<f64> = once.variance.iter().map(|v| v * 2.0 * 2.0 / 5.0).collect();
    assert_close("variance", &twice.variance, &want, 1e-12);
    assert_eq!(DiagonalGaussian::fit(2, &rows[..1]).variance, [0.0, 0.0]);
}

proptest! {
    #[test]
    fn merging_is_pooling(
        rows in proptest::collection::vec([-1e3f64..1e3, -1.0f64..1.0], 2..30),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(rows.len());
        let close = |got: &[f64], want: &[f64]| {
            got.iter().zip(want).all(|(g, w)| (g - w).abs() <= 1e-7 * (1.0 + w.abs()))
        };
        let pooled = FullGaussian::fit(2, &rows);
        let merged = FullGaussian::fit(2, &rows[..cut]).merge(&FullGaussian::fit(2, &rows[cut..]));
        prop_assert_eq!(merged.count, pooled.count);
        prop_assert!(close(&merged.mean, &pooled.mean));
        prop_assert!(close(&merged.covariance, &pooled.covariance));
        let packed = FullGaussian::from_packed(pooled.count, pooled.mean.clone(), &pooled.packed());
        prop_assert_eq!(packed.unwrap(), pooled.clone());
        let pooled_diagonal = DiagonalGaussian::fit(2, &rows);
        let merged = DiagonalGaussian::fit(2, &rows[..cut]).merge(&DiagonalGaussian::fit(2, &rows[cut..]));
        prop_assert!(close(&merged.variance, &pooled_diagonal.variance));
        let on_diagonal = [pooled.covariance[0], pooled.covariance[3]];
        prop_assert!(close(&pooled_diagonal.variance, &on_diagonal));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Moments from clients are those of all samples together, for any partition, far from zero as well.
    #[test]
    fn class_moments_do_not_depend_on_the_partition(
        owners in prop::collection::vec(0usize..7, 1..60), offset in -1e3f64..1e3, seed in 0u64..99
    ) {
        let mut rng = StreamKey::new(seed, Domain::Method).rng();
        let mut draw = || crate::numerics::distributions::normal(&mut rng, offset, 2.0);
        let rows: Vec<[f64; 3]> = owners.iter().map(|_| std::array::from_fn(|_| draw())).collect();
        let of = |client: usize| {
            let pairs = rows.iter().zip(&owners);
            ClassMoments::fit(3, pairs.filter(|(_, owner)| **owner == client).map(|(row, _)| row))
        };
        let pooled = ClassMoments::pooled(3, &(0..7).map(of).collect::<Vec<_>>());
        let whole = ClassMoments::fit(3, rows.iter());
        prop_assert_eq!(pooled.count, whole.count);
        let far = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        prop_assert!(far(&pooled.mean, &whole.mean) < 1e-9);
        prop_assert!(far(&pooled.variance, &whole.variance) < 1e-9, "{:?} {:?}", pooled, whole);
    }
}

#[test]
fn a_class_of_one_client_keeps_its_moments_and_an_empty_has_none() {
    let only = ClassMoments::fit(2, [[1.0, 2.0], [3.0, 2.0]].iter());
    let nothing = ClassMoments::fit::<f64>(2, &[[]; 0]);
    assert_eq!(ClassMoments::pooled(2, &[nothing.clone(), only.clone()]), only);
    assert_eq!(ClassMoments::pooled(2, &[nothing]).count, 0);
}

#[test]
fn golden_own_gaussians_of_two_clients() {
    let golden = Golden::own("statistics");
    let rows =
        |name: &str| -> Vec<Vec<f64>> { golden.f64(name).chunks(3).map(<[f64]>::to_vec).collect() };
    let (one, other) = (rows("gauss.one"), rows("gauss.other"));
    let parts = [DiagonalGaussian::fit(3, &one), DiagonalGaussian::fit(3, &other)];
    let both = parts[0].merge(&parts[1]);
    golden.assert_close("gauss.mean", &both.mean);
    golden.assert_close("gauss.variance", &both.variance);
    golden.assert_close("gauss.biased", &both.biased_variance());
    let full = FullGaussian::fit(3, &one).merge(&FullGaussian::fit(3, &other));
    golden.assert_close("gauss.covariance", &full.covariance);
    let weighted = parts
        .each_ref()
        .map(|part| (part.count as f64 / both.count as f64, &part.mean[..], &part.variance[..]));
    let (mean, variance) = mixture_moments(3, weighted, 3.0);
    golden.assert_close("gauss.mixture_mean", &mean);
    golden.assert_close("gauss.mixture_variance", &variance);
}

/// A class whose samples are all alike is drawn around its mean.
///
/// The spread is that of the variance added to its own.
#[test]
fn what_is_added_to_a_variance_widens_it() {
    let point = DiagonalGaussian { count: 4, mean: vec![1.0], variance: vec![0.0] };
    let mut out = [0f32];
    point.sampler(3.0, 0.25).unwrap().place(&[2.0], &mut out);
    assert_eq!(out, [2.0]);
}

/// `mean + L noise`, where `L` is the factor of the covariance with what is added to its diagonal.
#[test]
fn a_feature_is_placed_by_the_lower_factor() {
    let place = |full: &FullGaussian, inflation: f64, jitter: f64, noise: [f64; 2]| {
        let mut out = [0f32; 2];
        full.sampler(inflation, jitter).unwrap().place(&noise, &mut out);
        out.map(f64::from)
    };
    let near = |a: [f64; 2], b: [f64; 2]| {
        assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6), "{a:?} is not {b:?}");
    };
    // The factor of ((4, 2), (2, 5)) is ((2, 0), (1, 2)); three times the covariance has sqrt(3) times the factor.
    let full =
        FullGaussian { count: 9, mean: vec![10.0, 20.0], covariance: vec![4.0, 2.0, 2.0, 5.0] };
    near(place(&full, 1.0, 0.0, [1.0, 0.0]), [12.0, 21.0]);
    near(place(&full, 1.0, 0.0, [0.5, -1.0]), [11.0, 18.5]);
    near(place(&full, 3.0, 0.0, [1.0, 0.0]), [10.0 + 12f64.sqrt(), 20.0 + 3f64.sqrt()]);
    // Jitter counts in mean variances: a tenth of 4 is 0.4.
    let singular = FullGaussian { covariance: vec![4.0; 4], ..full.clone() };
    near(
        place(&singular, 1.0, 0.1, [1.0, 0.0]),
        [10.0 + 4.4f64.sqrt(), 20.0 + 4.0 / 4.4f64.sqrt()],
    );
    // Not positive: a hundredth is too little, the tenth that is tried next is enough.
    let odd = FullGaussian { covariance: vec![1.0, 1.05, 1.05, 1.0], ..full };
    near(place(&odd, 1.0, 0.01, [1.0, 0.0]), [10.0 + 1.1f64.sqrt(), 20.0 + 1.05 / 1.1f64.sqrt()]);
}

#[test]
fn a_packed_covariance_of_three_dimensions_comes_back_and_no_other_length_does() {
    let rows =
        [vec![1.0f32, 2.0, 3.0], vec![2.0, 0.0, 5.0], vec![4.0, 1.0, 1.0], vec![0.5, 3.0, 2.0]];
    let fitted = FullGaussian::fit(3, &rows);
    let packed = fitted.packed();
    let of = |packed: &[f64]| FullGaussian::from_packed(fitted.count, fitted.mean.clone(), packed);
    assert_eq!(of(&packed), Some(fitted.clone()));
    assert_eq!(of(&packed[..5]), None);
    assert_eq!(of(&[&packed[..], &[0.0]].concat()), None);
}

#[test]
fn an_empty_gaussian_changes_nothing() {
    let empty = || FullGaussian { count: 0, mean: vec![0.0; 2], covariance: vec![0.0; 4] };
    assert_eq!(empty().merge(&empty()), empty());
    let one = FullGaussian { count: 1, mean: vec![0.1, 0.7], covariance: vec![0.0; 4] };
    assert_eq!(empty().merge(&one), one);
    assert_eq!(one.merge(&empty()), one);
}
