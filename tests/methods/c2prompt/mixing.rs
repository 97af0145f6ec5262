//! Class-aware aggregation, through the engine: what becomes of client tasks whose clients say how their components
//! match.

use std::collections::BTreeMap;
use std::sync::Arc;

use fedcast::learning::OptimizerConfig;
use fedcast::learning::evaluation::evaluate;
use fedcast::learning::prompting::ComponentPart;
use fedcast::methods::c2prompt::{C2PromptConfig, Scores};
use fedcast::methods::powder::Powder;
use fedcast::model::{FrozenPart, ParameterSet};
use fedcast::policy::*;
use fedcast::quantity::ClientId;
use fedcast::wire::{Kind, NamedTensor};

use super::c2prompt_with;
use crate::far;
use crate::powder::{small, table};
use crate::toys::watched::Engine;
use crate::toys::{deal, facts};

/// Rows of `H` for two classes: three clients with three components each. Some match a class alone, some both; their
/// neighbors are more or less near, so that rows of `W` have unlike sums and `W` is far from symmetric.
const MATCHED: [[f32; 6]; 3] = [
    [0.9, 0.1, 0.2, 0.8, 0.5, 0.4],
    [0.3, 0.31, 0.7, 0.05, 0.6, 0.02],
    [0.01, 0.4, 0.33, 0.3, 0.8, 0.07],
];

const PARTS: [&str; 3] = ["key", "attention", "component"];

/// C2Prompt whose clients report these histograms, whatever they have seen.
struct FixedHistograms {
    inner: Arc<dyn Method>,
    histograms: [[f32; 6]; 3],
}

impl MethodWrapper for FixedHistograms {
    fn inner(&self) -> &dyn Method {
        &*self.inner
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let outcomes = self.inner.train(members, ctx);
        let replace = |(member, outcome): (&Member, Result<ClientResult, Failure>)| {
            let mut outcome = outcome?;
            let mut body = outcome.upload.body();
            let tensors = body.sections.iter_mut().flat_map(|section| &mut section.tensors);
            for tensor in tensors.filter(|tensor| &**tensor.name() == "histogram") {
                let values = self.histograms[member.participant.client.index()].to_vec();
                *tensor = NamedTensor::f32("histogram", [3, 2], values).unwrap();
            }
            outcome.upload = Message::from_body(&body, &outcome.upload.assets).unwrap();
            Ok(outcome)
        };
        members.iter().zip(outcomes).map(replace).collect()
    }
}

/// Mixing and nothing else, after every round, in both blocks.
fn mixing(change: impl Fn(&mut C2PromptConfig)) -> Arc<dyn Method> {
    c2prompt_with(|c| {
        (c.probability, c.cpa_last, c.powder.first_block) = (0.0, true, 0);
        change(c);
    })
}

/// A run of the first task with three clients.
fn run_with(
    histograms: [[f32; 6]; 3],
    rounds: u32,
    change: impl Fn(&mut C2PromptConfig),
) -> Engine {
    let method = FixedHistograms { inner: mixing(change), histograms };
    let mut run = crate::engine(Arc::new(Wrapped(method)), 3);
    let shards = deal(&run.ctx, &run.view(0), 3);
    run.task(0, &shards, rounds);
    run
}

/// Returns what clients sent in a round of training, or what they received.
fn client_tasks_of(run: &Engine, round: usize, ups: bool) -> Vec<ParameterSet> {
    let trained = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
    let round = trained.skip(3 * round).take(3);
    let body = |exchange: &crate::toys::watched::Exchange| match ups {
        true => parameters_of(exchange.up.as_ref().unwrap()).unwrap(),
        false => parameters_of(&exchange.down).unwrap(),
    };
    round.map(body).collect()
}

fn kept(run: &Engine) -> Vec<ParameterSet> {
    table(run).entries().iter().map(|client_task| client_task.parameters.clone()).collect()
}

/// `softmax(H Hᵀ / tau)` of unit rows, where a row of zeros keeps itself.
fn weights(histograms: &[[f32; 6]; 3], tau: f64) -> Vec<Vec<f64>> {
    weights_of(histograms, tau, unit)
}

/// Returns the weights of rows as `scaled` makes them.
fn weights_of(
    histograms: &[[f32; 6]; 3],
    tau: f64,
    scaled: impl Fn(&[f32]) -> Vec<f64>,
) -> Vec<Vec<f64>> {
    let rows: Vec<Vec<f64>> = histograms.iter().flat_map(|own| own.chunks(2)).map(scaled).collect();
    let row = |(at, own): (usize, &Vec<f64>)| -> Vec<f64> {
        if own.iter().all(|entry| *entry == 0.0) {
            return (0..rows.len()).map(|other| f64::from(u8::from(other == at))).collect();
        }
        let dot = |other: &Vec<f64>| own.iter().zip(other).map(|(a, b)| a * b).sum::<f64>();
        let powers: Vec<f64> = rows.iter().map(|other| (dot(other) / tau).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(|power| power / sum).collect()
    };
    rows.iter().enumerate().map(row).collect()
}

fn unit(row: &[f32]) -> Vec<f64> {
    let clipped: Vec<f64> = row.iter().map(|v| f64::from(v.max(0.0))).collect();
    let length = clipped.iter().map(|v| v * v).sum::<f64>().sqrt();
    clipped.into_iter().map(|v| if length > 0.0 { v / length } else { 0.0 }).collect()
}

/// Component `3 client + c` of `name` as weights make it of all components.
fn mixed(weights: &[Vec<f64>], client_tasks: &[ParameterSet], name: &str) -> Vec<Vec<f32>> {
    let all: Vec<&[f32]> = client_tasks
        .iter()
        .flat_map(|client_task| {
            let values = &client_task.get(name).unwrap().values;
            values.chunks(values.len() / 3)
        })
        .collect();
    let of = |row: &Vec<f64>| -> Vec<f32> {
        (0..all[0].len())
            .map(|at| row.iter().zip(&all).map(|(w, p)| w * f64::from(p[at])).sum::<f64>() as f32)
            .collect()
    };
    let rows: Vec<Vec<f32>> = weights.iter().map(of).collect();
    rows.chunks(3).map(<[Vec<f32>]>::concat).collect()
}

fn names() -> Vec<String> {
    let blocks = ["00", "01"].into_iter();
    blocks.flat_map(|block| PARTS.map(|part| format!("prompt.{block}.{part}"))).collect()
}

/// The largest distance between client tasks and what weights make of `sent`, over keys, attention and tokens of all
/// blocks.
fn off(client_tasks: &[ParameterSet], weights: &[Vec<f64>], sent: &[ParameterSet]) -> f32 {
    let of = |name: &String| {
        let expected = mixed(weights, sent, name);
        let pairs = client_tasks.iter().zip(&expected);
        pairs
            .map(|(client_task, expected)| far(&client_task.get(name).unwrap().values, expected))
            .fold(0.0, f32::max)
    };
    assert!(weights.iter().flatten().all(|weight| weight.is_finite()));
    names().iter().map(of).fold(0.0, f32::max)
}

fn heads(client_tasks: &[ParameterSet]) -> Vec<Vec<u32>> {
    let head = |client_task: &ParameterSet| {
        let own = client_task.iter().filter(|(name, _)| name.starts_with("head"));
        own.flat_map(|(_, part)| part.values.iter().map(|v| v.to_bits())).collect()
    };
    client_tasks.iter().map(head).collect()
}

/// Keys, attention and tokens of every client task are `W` times what its round sent, row for row; heads stay.
#[test]
fn components_are_mixed_by_the_rows_of_their_owner() {
    const TAU: f64 = 0.3;
    let run = run_with(MATCHED, 1, |c| c.cpa_temperature = TAU);
    let (sent, client_tasks) = (client_tasks_of(&run, 0, true), kept(&run));
    let w = weights(&MATCHED, TAU);
    assert!(off(&client_tasks, &w, &sent) < 1e-6, "{}", off(&client_tasks, &w, &sent));
    assert_eq!(heads(&client_tasks), heads(&sent));
    assert!(heads(&client_tasks).iter().all(|head| !head.is_empty()));
    // Precondition of the check: the numbers differ.
    let transposed: Vec<Vec<f64>> = (0..9).map(|i| (0..9).map(|j| w[j][i]).collect()).collect();
    let mut of_another_owner = w.clone();
    of_another_owner.rotate_left(3);
    let unmixed: Vec<Vec<f64>> =
        (0..9).map(|i| (0..9).map(|j| f64::from(u8::from(i == j))).collect()).collect();
    let mean = vec![vec![1.0 / 9.0; 9]; 9];
    for other in [transposed, of_another_owner, unmixed, mean] {
        assert!(off(&client_tasks, &other, &sent) > 1e-3, "{}", off(&client_tasks, &other, &sent));
    }
    // The same of every part alone.
    for name in names() {
        let before = sent.iter().map(|client_task| client_task.get(&name).unwrap());
        for (client_task, before) in client_tasks.iter().zip(before) {
            assert!(far(&client_task.get(&name).unwrap().values, &before.values) > 1e-3, "{name}");
        }
    }
    let own: f64 = (0..9).map(|i| w[i][i]).sum::<f64>() / 9.0;
    let metrics = run.metrics.last().unwrap();
    assert!((metrics["cpa_own_weight"] - own).abs() < 1e-6);
    assert_eq!(metrics["cpa_kept_rows"], 0.0);
}

/// As the review describes it: rows as they are.
#[test]
fn rows_of_sums_are_compared_as_they_are() {
    let run = run_with(MATCHED, 1, |c| (c.cpa_scores, c.cpa_temperature) = (Scores::Sums, 0.3));
    let sent = client_tasks_of(&run, 0, true);
    let raw = weights_of(&MATCHED, 0.3, |row| row.iter().map(|v| f64::from(*v)).collect());
    assert!(off(&kept(&run), &raw, &sent) < 1e-6);
    assert!(off(&kept(&run), &weights(&MATCHED, 0.3), &sent) > 1e-3);
}

/// Scores by hand, where nothing moves: `cos(q * a, k)` of every sample of a class with each component, block by block.
/// Means below 0 are 0, sums are of all, in each of two epochs.
#[test]
fn clients_report_means_or_sums_of_their_scores() {
    for scores in [Scores::Means, Scores::Sums] {
        let mut run = crate::engine(mixing(|c| c.cpa_scores = scores), 3);
        run.ctx.training.optimizer = OptimizerConfig::sgd(0.0);
        let shards = deal(&run.ctx, &run.view(0), 3);
        run.task(0, &shards, 1);
        let (mut both_signs, mut largest) = (false, 0.0_f64);
        for train in run.exchanges.iter().filter(|exchange| exchange.phase == "train") {
            let upload = train.up.as_ref().unwrap();
            let reported =
                upload.tensors().find(|(_, tensor)| &**tensor.name() == "histogram").unwrap().1;
            let sent = parameters_of(upload).unwrap();
            let loader = run.ctx.statistics_loader(&shards[train.participant.client.index()]);
            let batch = loader.in_order(1_000).next().unwrap().unwrap();
            let pixels = run.ctx.pixels(&batch).unwrap();
            let queries = run.ctx.backbone.frozen(&pixels, FrozenPart::Whole).unwrap();
            let queries: Vec<Vec<f32>> = queries.to_vec2().unwrap();
            let (mut wanted, mut signs) = (vec![0.0; 3 * 2], vec![[false; 2]; 3 * 2]);
            for (query, label) in queries.iter().zip(batch.labels()) {
                let of_class = batch.labels().iter().filter(|other| *other == label).count() as f64;
                for (block, component) in (0..2).flat_map(|block| (0..3).map(move |c| (block, c))) {
                    let row = |part: ComponentPart| -> Vec<f64> {
                        let all = sent.get(&part.name(block)).unwrap();
                        let row = all.cut(component..component + 1).unwrap();
                        row.values.iter().map(|value| f64::from(*value)).collect()
                    };
                    let (key, attention) = (row(ComponentPart::Key), row(ComponentPart::Attention));
                    let attended: Vec<f64> =
                        query.iter().zip(&attention).map(|(q, a)| f64::from(*q) * a).collect();
                    let dot =
                        |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                    let lengths = (dot(&key, &key) * dot(&attended, &attended)).sqrt();
                    let score = dot(&attended, &key) / lengths;
                    let entry = 2 * component + *label as usize;
                    signs[entry][usize::from(score > 0.0)] = true;
                    wanted[entry] += match scores {
                        Scores::Means => score / (2.0 * of_class),
                        Scores::Sums => 2.0 * score,
                    };
                }
            }
            both_signs |= signs.contains(&[true; 2]);
            if scores == Scores::Means {
                wanted.iter_mut().for_each(|entry| *entry = entry.max(0.0));
            }
            let gap = |(reported, wanted): (&f32, &f64)| (f64::from(*reported) - wanted).abs();
            let off = reported.as_f32().unwrap().iter().zip(&wanted).map(gap).fold(0.0, f64::max);
            assert!(off < 1e-4, "{scores:?}: {off} of {wanted:?}");
            largest = wanted.iter().fold(largest, |largest, entry| largest.max(entry.abs()));
        }
        assert!(both_signs && largest > 0.02, "scores of both signs and a large entry: {largest}");
    }
}

/// The components that this round sent are mixed, and all clients begin the next round with the result. After the
/// last round client tasks are as their owners sent them.
#[test]
fn uploads_are_aggregated_first_and_mixed_between_rounds() {
    let run = run_with(MATCHED, 2, |c| (c.cpa_temperature, c.cpa_last) = (0.2, false));
    let w = weights(&MATCHED, 0.2);
    let (first, second) = (client_tasks_of(&run, 0, true), client_tasks_of(&run, 1, true));
    assert!(off(&client_tasks_of(&run, 1, false), &w, &first) < 1e-6);
    assert_eq!(kept(&run), second);
    let said: Vec<bool> = run.metrics.iter().map(|f| f.contains_key("cpa_own_weight")).collect();
    assert_eq!(said, [true, false]);
    let to_the_end = run_with(MATCHED, 2, |c| (c.cpa_temperature, c.cpa_last) = (0.2, true));
    assert_eq!(client_tasks_of(&to_the_end, 1, true), second);
    assert!(off(&kept(&to_the_end), &w, &second) < 1e-6);
    assert!(to_the_end.metrics.iter().all(|f| f.contains_key("cpa_own_weight")));
}

/// A component that matches no class would be mixed uniformly, and two of them would be one for ever.
#[test]
fn components_that_match_nothing_keep_themselves() {
    const TAU: f64 = 0.4;
    let mut histograms = MATCHED;
    histograms[0][2..4].copy_from_slice(&[0.0, 0.0]);
    histograms[2][..2].copy_from_slice(&[-0.3, -0.1]);
    let run = run_with(histograms, 1, |c| c.cpa_temperature = TAU);
    let (sent, client_tasks) = (client_tasks_of(&run, 0, true), kept(&run));
    for name in names() {
        for (client, component) in [(0, 1), (2, 0)] {
            let row = |set: &ParameterSet| {
                let values = &set.get(&name).unwrap().values;
                let width = values.len() / 3;
                values[component * width..(component + 1) * width].to_vec()
            };
            assert_eq!(row(&client_tasks[client]), row(&sent[client]), "{name}");
        }
    }
    let w = weights(&histograms, TAU);
    assert!(off(&client_tasks, &w, &sent) < 1e-6);
    let metrics = run.metrics.last().unwrap();
    assert_eq!(metrics["cpa_kept_rows"], 2.0);
    let own: f64 = (0..9).filter(|i| ![1, 6].contains(i)).map(|i| w[i][i]).sum::<f64>() / 7.0;
    assert!((metrics["cpa_own_weight"] - own).abs() < 1e-6);
    assert!(own < 0.5);
}

/// C2Prompt's card, invariant 3.
#[test]
fn a_hot_mixing_is_the_mean_of_all_components_everywhere() {
    let run = run_with(MATCHED, 1, |c| c.cpa_temperature = 1e9);
    let (sent, client_tasks) = (client_tasks_of(&run, 0, true), kept(&run));
    assert!(off(&client_tasks, &vec![vec![1.0 / 9.0; 9]; 9], &sent) < 1e-6);
    let metrics = run.metrics.last().unwrap();
    assert!((metrics["cpa_own_weight"] - 1.0 / 9.0).abs() < 1e-9);
    assert!((metrics["cpa_cosine_within"] - 1.0).abs() < 1e-6);
    assert!((metrics["cpa_cosine_between"] - 1.0).abs() < 1e-6);
    // Components start orthogonal to each other, and a round does not make them one.
    let cold = run_with(MATCHED, 1, |c| c.cpa_temperature = 1e-9);
    let metrics = cold.metrics.last().unwrap();
    assert!(metrics["cpa_cosine_within"].abs() < 0.5, "{metrics:?}");
    assert!(metrics["cpa_cosine_between"].abs() < 0.5, "{metrics:?}");
}

fn three_tasks(method: Arc<dyn Method>) -> Engine {
    crate::engine(method, 3).run(2, 2)
}

/// Card, invariants 4 and 5: rows are distinct, and a temperature near 0 leaves every component to itself.
#[test]
fn a_cold_mixing_is_powder_bit_for_bit() {
    for transfer in [true, false] {
        let powder =
            Powder::new(fedcast::methods::powder::PowderConfig { transfer, ..small() }, &facts());
        let powder = three_tasks(Arc::new(powder));
        let change = |tau| {
            move |c: &mut C2PromptConfig| (c.cpa_transfer, c.cpa_temperature) = (transfer, tau)
        };
        let cold = three_tasks(mixing(change(1e-12)));
        assert_eq!(table(&powder), table(&cold), "transfer = {transfer}");
        assert_eq!(powder.tally(6), cold.tally(6));
        let own = cold.metrics.iter().filter_map(|f| f.get("cpa_own_weight").copied());
        assert!(own.clone().count() == 6 && own.clone().all(|weight| weight == 1.0));
        assert_ne!(table(&three_tasks(mixing(change(0.3)))), table(&cold));
    }
}

/// There is no other client task to mix with.
#[test]
fn a_single_component_of_a_single_client_stays_what_it_is() {
    let run = |cpa: bool| {
        let method = mixing(|c| (c.powder.components, c.powder.transfer, c.cpa) = (1, false, cpa));
        crate::engine(method, 3).run(1, 2)
    };
    assert_eq!(table(&run(true)), table(&run(false)));
}

/// Client tasks that are mixed by class do not lend each other anything in addition unless asked to.
#[test]
fn mixing_by_class_takes_the_place_of_powders() {
    let looks = |change: fn(&mut C2PromptConfig)| {
        let run = three_tasks(mixing(change));
        run.exchanges.iter().filter(|exchange| exchange.phase == "look").count()
    };
    assert_eq!(looks(|_| ()), 0);
    assert_eq!(looks(|c| (c.cpa_transfer, c.powder.transfer) = (true, false)), 0);
    let both = looks(|c| c.cpa_transfer = true);
    assert!(both > 0);
    assert_eq!(looks(|c| c.cpa = false), both);
}

/// Accuracy is of the client tasks as they were sent and as mixing leaves them, and asking for it changes nothing.
#[test]
fn accuracy_is_reported_before_and_after_mixing() {
    let hot = |accuracy: bool| {
        run_with(MATCHED, 2, |c| (c.cpa_temperature, c.cpa_accuracy) = (1e9, accuracy))
    };
    let (asked, plain) = (hot(true), hot(false));
    assert_eq!(table(&asked), table(&plain));
    let names = ["cpa_accuracy_before", "cpa_accuracy_after"];
    assert!(plain.metrics.iter().all(|f| names.iter().all(|name| !f.contains_key(*name))));
    let metrics: Vec<[f64; 2]> = asked.metrics.iter().map(|f| names.map(|name| f[name])).collect();
    // After: as the server would answer now. Before: as it answers to what was sent, without mixing.
    let cold = run_with(MATCHED, 1, |c| (c.cpa_temperature, c.cpa_accuracy) = (1e-9, true));
    let accuracy_before = |run: &Engine| run.metrics[0]["cpa_accuracy_before"];
    assert_eq!(client_tasks_of(&cold, 0, true), client_tasks_of(&asked, 0, true));
    assert_eq!(accuracy_before(&cold), metrics[0][0]);
    assert_eq!(cold.metrics[0]["cpa_accuracy_after"], metrics[0][0]);
    assert!((metrics[1][1] - answered(&asked)).abs() < 1e-12);
    assert!((accuracy_before(&cold) - answered(&cold)).abs() < 1e-12);
    assert!(metrics.iter().any(|[before, after]| before != after), "{metrics:?}");
}

/// Right answers on the test images of the first task, among its classes.
fn answered(run: &Engine) -> f64 {
    let predictor = run.server.predictor(&run.ctx).unwrap();
    let (test, task_sequence) = (&run.ctx.dataset.test, &run.ctx.task_sequence);
    let of_task = |sample: &u32| task_sequence.row_of(test.labels()[*sample as usize]) < 2;
    let shard = (0..test.len() as u32).filter(of_task).collect();
    let transform = Arc::clone(&run.ctx.statistics_transform);
    let loader =
        fedcast::data::Loader::new(Arc::clone(test), shard, Arc::clone(task_sequence), transform);
    let tally = evaluate(&loader, 7, 6, 0..2, |batch| {
        predictor.scores(&run.ctx.pixels(batch)?, &Scope::Task(0..2))
    });
    tally.unwrap().accuracy(0..2).unwrap()
}

/// The histogram of a client is of its own samples; the server gets the one that comes with the client task.
#[test]
fn every_client_has_a_histogram_of_its_own() {
    let run = three_tasks(mixing(|_| ()));
    let trained = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
    let mut by_client: BTreeMap<ClientId, Vec<Vec<f32>>> = BTreeMap::new();
    for exchange in trained {
        let upload = exchange.up.as_ref().unwrap();
        let tensor = upload.tensor(Kind::Statistics, "histogram").unwrap();
        let scores = tensor.as_f32().unwrap().to_vec();
        by_client.entry(exchange.participant.client).or_default().push(scores);
    }
    assert_eq!(by_client.len(), 2);
    assert_ne!(by_client[&ClientId(0)], by_client[&ClientId(1)]);
}
