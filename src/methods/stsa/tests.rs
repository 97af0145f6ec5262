//! The golden vectors and the invariants of the estimator.

use std::sync::Arc;

use super::config::{Estimation, HeadMode, OneUnit, Payload, StsaConfig, UnitCount, Variant};
use super::estimate::{UnitStatistics, estimate};
use super::features::Collected;
use super::head::Scorer;
use super::messages::{down, of_seed, seed_of, sums_of, unit_of, upload};
use super::server::{StsaServer, cut_by};
use super::{ClassSums, Stsa};
use crate::data::TaskView;
use crate::golden::Golden;
use crate::model::VitConfig;
use crate::numerics::dense::eigenvalues;
use crate::numerics::distributions::{below, standard_normal};
use crate::numerics::projection::Projection;
use crate::numerics::ridge::{Penalty, ridge};
use crate::numerics::streams::{Domain, StreamKey};
use crate::numerics::symmetric::{Gram, Symmetric};
use crate::policy::{
    Aggregate, Capability, KeptUpload, Message, Method, ModelFacts, Participant, Server,
    UploadMeta, WireForm, check_capability,
};
use crate::quantity::{ClientId, ParticipantId, Round, TaskId};
use crate::scenario::reader::defaults;

const NONEMPTY: Estimation = Estimation {
    unit_count: UnitCount::Nonempty,
    one_unit: OneUnit::Mean,
    diagnostics: false,
    head_error: false,
};
const TOTAL: Estimation = Estimation { unit_count: UnitCount::Total, ..NONEMPTY };

/// Random features with a class and a unit each.
struct LabeledFeatures {
    width: usize,
    rows: Vec<f64>,
    classes: Vec<usize>,
    units: Vec<usize>,
}

impl LabeledFeatures {
    fn units(&self) -> Vec<UnitStatistics> {
        let count = |of: &[usize]| of.iter().max().map_or(0, |last| last + 1);
        let classes = count(&self.classes);
        let mut units = vec![UnitStatistics::empty(classes, self.width); count(&self.units)];
        let samples = self.rows.chunks(self.width).zip(self.classes.iter().zip(&self.units));
        samples.for_each(|(row, (class, unit))| units[*unit].add(row, *class));
        units
    }

    fn estimate(&self, rule: &Estimation) -> Symmetric {
        let units = self.units();
        estimate(&units, units.len(), self.width, rule)
    }

    fn gram(&self) -> Symmetric {
        let mut gram = Gram::new(self.width);
        gram.add(&self.rows);
        gram.finish()
    }
}

fn far(a: &Symmetric, b: &Symmetric) -> f64 {
    let mut gap = a.clone();
    gap.add_scaled(-1.0, b);
    gap.norm() / b.norm()
}

fn best(scores: &[f64], classes: usize) -> Vec<i64> {
    let first_best = |row: &[f64]| {
        (0..classes).fold(0, |best, c| if row[c] > row[best] { c } else { best }) as i64
    };
    scores.chunks(classes).map(first_best).collect()
}

fn golden_samples(golden: &Golden, units: &str) -> LabeledFeatures {
    let layer = Projection::from_weights(24, 64, golden.f64("R")).unwrap();
    let whole = |name: &str| golden.i64(name).into_iter().map(|v| v as usize).collect();
    LabeledFeatures {
        width: 64,
        rows: layer.apply(&golden.f64("X")),
        classes: whole("labels"),
        units: whole(units),
    }
}

#[test]
fn golden_estimates() {
    let Some(golden) = Golden::open("stsa") else { return };
    for (units, name) in
        [("client", "e"), ("dummy.unit", "dummy"), ("dummy.unit_code", "dummy_code")]
    {
        let samples = golden_samples(&golden, units);
        let units = samples.units();
        assert!(name != "dummy" || units.len() == 20 - 1, "the last chunk is empty");
        golden.assert_close(&format!("{name}.gram_nonempty"), &samples.estimate(&NONEMPTY).full());
        // Empty units count without being there.
        let all = if name == "e" { 5 } else { 20 };
        let total = estimate(&units, all, 64, &TOTAL);
        golden.assert_close(&format!("{name}.gram_total"), &total.full());
        let nonempty = estimate(&units, all, 64, &NONEMPTY);
        assert_eq!(nonempty, samples.estimate(&NONEMPTY), "and change nothing else");
    }
    let clients = golden_samples(&golden, "client");
    let units = clients.units();
    let sums: Vec<f64> = units.iter().flat_map(|unit| unit.sums.values.clone()).collect();
    golden.assert_close("e.sum", &sums);
    let transposed = |unit: &UnitStatistics| -> Vec<f64> {
        let at = |place: usize| unit.sums.row(place % 6)[place / 6];
        (0..64 * 6).map(at).collect()
    };
    golden.assert_close("client_corr", &units.iter().flat_map(transposed).collect::<Vec<f64>>());
    let counts: Vec<f64> = units.iter().flat_map(|unit| unit.counts.clone()).collect();
    golden.assert_close("e.count", &counts);
    let holders = |class: usize| units.iter().filter(|unit| unit.counts[class] > 0.0).count();
    golden.assert_close("e.units", &(0..6).map(|c| holders(c) as f64).collect::<Vec<f64>>());
    let trace = |client: usize| {
        let rows = clients.rows.chunks(64).zip(&clients.units);
        let mut gram = Gram::new(64);
        rows.filter(|(_, unit)| **unit == client).for_each(|(row, _)| gram.add(row));
        gram.finish().trace()
    };
    golden.assert_close("client_gram_trace", &(0..5).map(trace).collect::<Vec<f64>>());
    let mut samples = clients;
    samples.units = (0..samples.classes.len()).collect();
    golden.assert_close("single.gram_nonempty", &samples.estimate(&NONEMPTY).full());
}

#[test]
fn golden_heads_and_predictions() {
    let Some(golden) = Golden::open("stsa") else { return };
    let layer = Arc::new(Projection::from_weights(24, 64, golden.f64("R")).unwrap());
    let features = golden.f64("X");
    let predicted = |weights: Vec<f64>, mode| {
        best(&Scorer::new(Arc::clone(&layer), mode, weights).score(&features, 0..6), 6)
    };
    for name in ["ridge.1e-2", "ridge.1", "ridge.1e4", "e", "dummy"] {
        let weights = golden.f64(&format!("{name}.w"));
        let linear = predicted(weights.clone(), HeadMode::Linear);
        assert_eq!(linear, golden.i64(&format!("{name}.linear")), "{name}");
        let cosine = predicted(weights, HeadMode::Cosine);
        assert_eq!(cosine, golden.i64(&format!("{name}.cosine")), "{name}");
    }
    for (units, name) in [("client", "e"), ("dummy.unit", "dummy")] {
        let samples = golden_samples(&golden, units);
        let mut sums = ClassSums::zeros(6, 64);
        samples.units().iter().for_each(|unit| sums.add(&unit.sums));
        let head = ridge(&samples.estimate(&NONEMPTY), &sums.values, Penalty::Absolute(1.0), 0);
        golden.assert_close(&format!("{name}.w"), &head.unwrap().weights);
    }
}

/// Gaussian features `mu + L z` of one class in units of these sizes.
fn drawn(draw: u64, counts: &[usize], width: usize) -> LabeledFeatures {
    let mut rng = StreamKey::new(9, Domain::Method).step(draw).rng();
    let total: usize = counts.iter().sum();
    let mut rows = Vec::with_capacity(total * width);
    for _ in 0..total {
        let z: Vec<f64> = (0..width).map(|_| standard_normal(&mut rng)).collect();
        // Covariance with neighbors, deviations 1 .. width, means of both signs.
        rows.extend((0..width).map(|i| {
            let spread = (i + 1) as f64 * (z[i] + 0.5 * z[(i + 1) % width]);
            spread + if i % 2 == 0 { 2.0 } else { -1.0 }
        }));
    }
    let units = counts.iter().enumerate().flat_map(|(unit, n)| vec![unit; *n]).collect();
    LabeledFeatures { width, rows, classes: vec![0; total], units }
}

/// Card, invariant 5: unbiased, with the predicted error.
#[test]
fn the_estimate_is_unbiased_and_its_error_is_the_formula_s() {
    let (width, draws) = (4, 6_000);
    for counts in [&[10, 5, 3, 7][..], &[10, 0, 0, 15], &[2, 1, 0, 3, 1, 2]] {
        let mut bias = Symmetric::zeros(width);
        let mut error = 0.0;
        for draw in 0..draws {
            let samples = drawn(draw, counts, width);
            let truth = samples.gram();
            let mut gap = samples.estimate(&NONEMPTY);
            gap.add_scaled(-1.0, &truth);
            bias.add_scaled(1.0 / draws as f64, &gap);
            error += gap.norm().powi(2) / draws as f64;
        }
        let deviation = |i: usize| (i + 1) as f64;
        let covariance = |i: usize, j: usize| -> f64 {
            let own = f64::from(i == j) * 1.25;
            let next =
                f64::from((i + 1) % width == j) * 0.5 + f64::from((j + 1) % width == i) * 0.5;
            deviation(i) * deviation(j) * (own + next)
        };
        let all = (0..width).flat_map(|i| (0..width).map(move |j| (i, j)));
        let norm: f64 = all.map(|(i, j)| covariance(i, j).powi(2)).sum();
        let trace: f64 = (0..width).map(|i| covariance(i, i)).sum();
        let n: f64 = counts.iter().sum::<usize>() as f64;
        let u = counts.iter().filter(|n| **n > 0).count() as f64;
        let predicted = (n - u) * (n - 1.0) / (u - 1.0) * (norm + trace * trace);
        // What 6,000 draws leave of the mean of an error of this size.
        let noise = (predicted / draws as f64).sqrt();
        assert!(bias.norm() < 2.5 * noise, "{counts:?}: {}, noise {noise}", bias.norm());
        let off = (error / predicted - 1.0).abs();
        assert!(off < 0.05, "{counts:?}: {error} against {predicted}");
    }
}

/// The paper's form, for a class over `units` units.
fn first_form(samples: &LabeledFeatures, units: f64) -> Symmetric {
    let all = samples.units();
    let n: f64 = all.iter().map(|unit| unit.counts[0]).sum();
    let (a, b) = ((n - 1.0) / (units - 1.0), (n - units) / ((units - 1.0) * n));
    let mut result = Symmetric::zeros(samples.width);
    let mut sum = ClassSums::zeros(1, samples.width);
    let outer = |row: &[f64]| {
        let mut gram = Gram::new(samples.width);
        gram.add(row);
        gram.finish()
    };
    for unit in all.iter().filter(|unit| unit.counts[0] > 0.0) {
        result.add_scaled(a / unit.counts[0], &outer(unit.sums.row(0)));
        sum.add(&unit.sums);
    }
    result.add_scaled(-b, &outer(sum.row(0)));
    result
}

/// Card, invariant 4.
#[test]
fn both_forms_agree_and_the_second_is_positive_semidefinite() {
    let mut rng = StreamKey::new(4, Domain::Method).rng();
    for draw in 0..20 {
        let counts: Vec<usize> =
            (0..2 + below(&mut rng, 6)).map(|_| 1 + below(&mut rng, 9) as usize).collect();
        let samples = drawn(draw, &counts, 5);
        let found = samples.estimate(&NONEMPTY);
        assert!(far(&found, &first_form(&samples, counts.len() as f64)) < 1e-11, "{counts:?}");
        for rule in [NONEMPTY, TOTAL] {
            let found = samples.estimate(&rule);
            let smallest = eigenvalues(&found).unwrap()[0];
            assert!(smallest >= -1e-9 * found.trace(), "{counts:?}: {smallest}");
        }
    }
}

#[test]
fn one_sample_per_unit_is_the_gram_matrix_and_empty_units_shrink_the_total_form() {
    let ones = drawn(3, &[1; 12], 5);
    assert!(far(&ones.estimate(&NONEMPTY), &ones.gram()) < 1e-12);
    let mut total = 0.0;
    let mut nonempty = 0.0;
    for draw in 0..50 {
        let samples = drawn(draw, &[10, 0, 0, 15, 0, 9, 4], 5);
        total += samples.estimate(&TOTAL).trace();
        nonempty += samples.estimate(&NONEMPTY).trace();
    }
    assert!(total < 0.9 * nonempty, "{total} against {nonempty}");
}

#[test]
fn a_class_of_one_unit_takes_its_mean_or_the_pooled_scatter() {
    let mut samples = drawn(1, &[6, 6, 6, 8], 5);
    samples.classes[18..].fill(1);
    let mean = samples.estimate(&NONEMPTY);
    let pooled = samples.estimate(&Estimation { one_unit: OneUnit::Pooled, ..NONEMPTY });
    // Class 0 has scatter S over 3 units: 17 / 2 of it are its own, (8 - 1) / 2 are lent.
    let own = LabeledFeatures {
        width: 5,
        rows: samples.rows[..18 * 5].to_vec(),
        classes: vec![0; 18],
        units: samples.units[..18].to_vec(),
    };
    let mut scatter = own.estimate(&NONEMPTY);
    let mut rank_one = Gram::new(5);
    let sum: Vec<f64> = (0..5).map(|i| own.rows.iter().skip(i).step_by(5).sum::<f64>()).collect();
    rank_one.add(&sum);
    scatter.add_scaled(-1.0 / 18.0, &rank_one.finish());
    let mut wanted = mean.clone();
    wanted.add_scaled(3.5 / 8.5, &scatter);
    assert!(far(&pooled, &wanted) < 1e-12);
    // Where no class has a second unit no client has anything to lend.
    let alone = drawn(1, &[6], 5);
    let pooled = alone.estimate(&Estimation { one_unit: OneUnit::Pooled, ..NONEMPTY });
    assert_eq!(pooled, alone.estimate(&NONEMPTY));
}

/// Counts that noise made negative or fractional spoil neither the estimate nor its sign.
#[test]
fn units_of_less_than_a_sample_say_nothing() {
    let samples = drawn(7, &[4, 5, 6], 5);
    let mut units = samples.units();
    let clean = estimate(&units, 3, 5, &NONEMPTY);
    let noise =
        UnitStatistics { sums: ClassSums { width: 5, values: vec![9.0; 5] }, counts: vec![-0.4] };
    units.push(noise.clone());
    units.push(UnitStatistics { counts: vec![0.9], ..noise });
    assert_eq!(estimate(&units, 5, 5, &NONEMPTY), clean);
    assert_eq!(estimate(&[], 0, 5, &NONEMPTY), Symmetric::zeros(5));
}

/// Cosines do not know lengths; rows asked for are rows of the head.
#[test]
fn a_head_scores_the_rows_it_is_asked_for() {
    let layer = Arc::new(Projection::from_weights(2, 2, vec![1.0, 0.0, 0.0, 1.0]).unwrap());
    let weights = vec![9.0, 9.0, 3.0, 4.0, 0.0, 0.0, 0.0, 2.0];
    let score =
        |mode| Scorer::new(Arc::clone(&layer), mode, weights.clone()).score(&[8.0, 6.0], 1..4);
    assert_eq!(score(HeadMode::Linear), [48.0, 0.0, 12.0]);
    let near = |a: &f64, b: f64| (a - b).abs() < 1e-12;
    let cosines = score(HeadMode::Cosine);
    assert!(cosines.iter().zip([0.96, 0.0, 0.6]).all(|(a, b)| near(a, b)), "{cosines:?}");
    assert_eq!(Scorer::new(layer, HeadMode::Linear, weights).classes(), 4);
}

/// The layer that is remembered is that of the seed asked for.
#[test]
fn another_seed_has_another_layer() {
    let (method, facts) = stsa(Payload::F64, Variant::Exact { symmetric: true });
    let wanted = |seed| Projection::draw(seed, facts.backbone.dim(), method.width()).digest();
    for seed in [1, 1, 2, 1] {
        assert_eq!(method.layer(seed).digest(), wanted(seed));
    }
    assert!(Arc::ptr_eq(&method.layer(1), &method.layer(1)), "drawn once");
}

/// The plan of checkpoints matches their content.
#[test]
fn a_server_holds_what_it_saves() {
    let compared = Variant::Estimated(Estimation { head_error: true, ..NONEMPTY });
    for variant in [Variant::Exact { symmetric: false }, Variant::Estimated(NONEMPTY), compared] {
        let (method, _) = stsa(Payload::F64, variant);
        let saved = StsaServer::new(method.clone(), 7).save();
        let tensors = saved.sections.iter().flat_map(|section| &section.tensors);
        let bytes: u64 = tensors.map(|tensor| 8 * tensor.elements()).sum();
        assert_eq!(method.profile().memory_footprint.map(|held| held.server), Some(bytes));
    }
}

fn stsa(payload: Payload, variant: Variant) -> (Stsa, ModelFacts) {
    let backbone = VitConfig::default().into();
    let facts = ModelFacts {
        backbone,
        classes: 10,
        tasks: 5,
        clients: 1,
        form: WireForm::Full,
        auxiliary: None,
    };
    let config = StsaConfig { width: 5, payload, variant, ..defaults(StsaConfig::exact) };
    (Stsa::new(config, &facts), facts)
}

fn participant(id: u32, client: u32, unit: Option<u32>) -> Participant {
    let view = TaskView { task: TaskId(0), rows: 0..1, classes: vec![0] };
    Participant {
        id: ParticipantId(id),
        client: ClientId(client),
        role: Default::default(),
        dummy_client: unit,
        kind: Default::default(),
        view: Arc::new(view),
    }
}

/// The release's `K`: clients times parts, also those that had nothing to send.
#[test]
fn empty_parts_of_a_client_count_among_all_units() {
    let of = |participants: &[(u32, Option<u32>)]| {
        let kept = |(id, (client, unit)): (usize, &(u32, Option<u32>))| KeptUpload {
            meta: UploadMeta::timely(participant(id as u32, *client, *unit), Round(0)),
            sent: Arc::new(Message::default()),
            update: Message::default(),
        };
        let kept = participants.iter().enumerate().map(kept).collect();
        cut_by(&Aggregate { kept_uploads: kept, ..Aggregate::default() })
    };
    assert_eq!(of(&[]), 0);
    assert_eq!(of(&[(3, None), (5, None)]), 2);
    assert_eq!(of(&[(0, Some(0)), (0, Some(1)), (0, Some(2)), (4, Some(2))]), 6);
    // A shard of fewer samples than parts is the last of them.
    assert_eq!(of(&[(1, Some(9)), (2, Some(9))]), 20);
}

/// Two parts that have samples, of two clients that cut three each, count as two or as six.
#[test]
fn the_server_counts_units_as_configured() {
    use crate::data::{ClassPermutation, TaskSequence, TaskSizes, digits};
    use crate::model::{Backbone, PixelShape};
    use crate::policy::{Method, RoundContext, RunContext, Stage};
    let task_sequence =
        TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(10)).unwrap();
    let pixels = Backbone::Pixels(PixelShape { channels: 1, image: 8 });
    let ctx = RunContext::new(pixels, digits::embedded().unwrap(), task_sequence);
    let samples = [drawn(2, &[7], 5), drawn(3, &[4], 5)];
    let solved = |rule: Estimation, unit: Option<u32>| {
        let (method, _) = stsa(Payload::F64, Variant::Estimated(rule));
        let layout = method.statistics(1);
        let sent = Arc::new(of_seed(9).unwrap());
        let summand = |(at, samples): (usize, &LabeledFeatures)| {
            let found = Collected { unit: samples.units().remove(0), gram: Some(samples.gram()) };
            let meta = UploadMeta::timely(participant(at as u32, at as u32, unit), Round(0));
            let update = upload(&layout, &found).unwrap();
            Aggregate::of(&meta, (&sent, &down()), (update, &layout)).unwrap()
        };
        let aggregate = samples.iter().enumerate().map(summand).reduce(Aggregate::merge);
        let view = Arc::clone(&ctx.task_sequence.tasks[0]);
        let round = RoundContext {
            round: Round(0),
            stage: Stage::of(view, 10),
            phase: 0,
            phase_name: "",
            round_in_phase: 0,
            rounds_in_phase: 1,
            run_seed: 0,
        };
        let mut server = method.server(&ctx, StreamKey::new(1, Domain::Init)).unwrap();
        server.end_round(&round, aggregate, &ctx).unwrap();
        server.save().digest()
    };
    assert_ne!(solved(TOTAL, None), solved(TOTAL, Some(2)));
    assert_eq!(solved(NONEMPTY, None), solved(NONEMPTY, Some(2)));
    assert_eq!(solved(TOTAL, None), solved(NONEMPTY, None));
}

/// Uploads match their layouts, and two of them aggregate to the exact sums.
#[test]
fn uploads_fill_their_layouts_and_aggregate_to_the_counts() {
    let participants = [drawn(2, &[7], 5), drawn(3, &[4], 5)];
    let of = |participant: &LabeledFeatures| Collected {
        unit: participant.units().remove(0),
        gram: Some(participant.gram()),
    };
    let found = participants.each_ref().map(of);
    let mut gram = participants[0].gram();
    gram.add(&participants[1].gram());
    let mut sums = found[0].unit.sums.clone();
    sums.add(&found[1].unit.sums);
    let forms = [
        Variant::Exact { symmetric: false },
        Variant::Exact { symmetric: true },
        Variant::Estimated(NONEMPTY),
    ];
    for (payload, variant) in
        [Payload::F32, Payload::F64].iter().flat_map(|payload| forms.map(|form| (*payload, form)))
    {
        let layout = stsa(payload, variant).0.statistics(1);
        let sent = Arc::new(of_seed(9).unwrap());
        let summand = |(at, found): (usize, &Collected)| {
            let update = upload(&layout, found).unwrap();
            assert!(update.body().fills(&layout.body()), "{payload:?} {variant:?}");
            let meta = UploadMeta::timely(participant(at as u32, at as u32, None), Round(0));
            Aggregate::of(&meta, (&sent, &down()), (update, &layout)).unwrap()
        };
        let aggregate = found.iter().enumerate().map(summand).reduce(Aggregate::merge).unwrap();
        let near = |a: &[f64], b: &[f64]| {
            let rounding = if payload == Payload::F64 { 0.0 } else { 1e-6 };
            let close = |(a, b): (&f64, &f64)| (a - b).abs() <= rounding * b.abs().max(100.0);
            assert!(a.len() == b.len() && a.iter().zip(b).all(close), "{a:?} {b:?}");
        };
        if variant == Variant::Estimated(NONEMPTY) {
            let units = aggregate.kept_uploads.iter().map(|kept| unit_of(&kept.update).unwrap());
            let units: Vec<UnitStatistics> = units.collect();
            assert_eq!(units.iter().map(|unit| unit.counts[0]).collect::<Vec<_>>(), [7.0, 4.0]);
            for (unit, found) in units.iter().zip(&found) {
                near(&unit.sums.values, &found.unit.sums.values);
            }
        } else {
            assert!(aggregate.kept_uploads.is_empty(), "no step needs a sum's parts");
            let (folded_gram, folded_sums) = sums_of(&aggregate, 5).unwrap();
            near(folded_gram.packed(), gram.packed());
            near(&folded_sums.values, &sums.values);
        }
    }
    let body = of_seed(u64::MAX - 4).unwrap();
    assert!(body.body().fills(&down().body()));
    assert_eq!(seed_of(&body), Ok(u64::MAX - 4));
}

/// A matrix and sums add up in secret; units must be seen one by one. Neither may wait, mix or be forged.
#[test]
fn sums_allow_secrecy_and_nothing_else() {
    let exact = stsa(Payload::F32, Variant::Exact { symmetric: false });
    let units = stsa(Payload::F32, Variant::Estimated(NONEMPTY));
    for service in Capability::ALL {
        let of = |(method, facts): &(Stsa, ModelFacts)| {
            check_capability(method, facts, service).map(|refusal| refusal.to_string())
        };
        assert_eq!(of(&exact).is_none(), service == Capability::SecureAggregation, "{service:?}");
        let why = of(&units).expect("refused");
        assert_eq!(why.contains("keeps `sums`"), is_kept(service), "{service:?}: {why}");
    }
}

/// Returns true if a service is refused because uploads are kept, not by a veto.
fn is_kept(service: Capability) -> bool {
    !matches!(service, Capability::MixedTasks | Capability::MaliciousClients)
}
