//! iCaRL's exemplars by value: the model and the images that choose them, their rows, their part in the weight of an
//! upload, and clients that missed the end of a task or a whole one.

use std::collections::BTreeMap;

use fedcast::data::{ClassPermutation, Shard};
use fedcast::learning::exemplars::Quota;
use fedcast::learning::{Classifier, Herding, OptimizerConfig};
use fedcast::methods::averaging::OldLogits;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::icarl::{ExemplarState, Icarl, Keeps};
use fedcast::model::ParameterSet;
use fedcast::policy::{ClientState, RunContext, parameters_of};
use fedcast::quantity::ClientId;
use fedcast::wire::Kind;

use crate::built;
use crate::gaussians::apart;
use crate::toys::watched::{Engine, Exchange};
use crate::toys::{deal, facts, plan, run_context};

/// Exemplars of a client.
const MEMORY: u32 = 18;

type ByRow = BTreeMap<u32, Vec<u32>>;

fn engine(keep: Keeps, ctx: RunContext) -> Engine {
    let fedavg = FedAvg { train: Train::All, old_logits: OldLogits::Keep, ..FedAvg::default() };
    let method = Icarl {
        fedavg,
        keep,
        memory_size: MEMORY,
        quota: Quota::Floor,
        flips: false,
        ..Icarl::default()
    };
    let mut engine = Engine::new(built(method, &facts()), facts(), ctx);
    engine.ctx.training = plan(OptimizerConfig::sgd(0.1));
    engine
}

fn exemplars(run: &Engine, client: ClientId) -> ByRow {
    let state = ExemplarState::of(&run.states[&client]).unwrap();
    state.by_class.iter().map(|(row, samples)| (row, samples.to_vec())).collect()
}

/// Features of samples as statistics passes see them, by head row.
fn features(run: &Engine, at: &ParameterSet, shard: &Shard) -> BTreeMap<u32, Vec<(u32, Vec<f32>)>> {
    let model = Classifier::frozen(&run.ctx.backbone, at).unwrap();
    let mut by_row: BTreeMap<u32, Vec<_>> = BTreeMap::new();
    for batch in run.ctx.statistics_loader(shard).in_order(run.ctx.evaluation_batch) {
        let batch = batch.unwrap();
        let found = model.batch_features(&batch, &run.ctx.device).unwrap().to_vec2().unwrap();
        for ((sample, row), feature) in batch.samples().iter().zip(batch.labels()).zip(found) {
            by_row.entry(*row).or_default().push((*sample, feature));
        }
    }
    by_row
}

/// The first `each` samples of every class in herding order.
fn herded(run: &Engine, at: &ParameterSet, shard: &Shard, each: usize) -> ByRow {
    let classes = features(run, at, shard).into_iter().map(|(row, class)| {
        let all: Vec<f32> = class.iter().flat_map(|(_, feature)| feature.clone()).collect();
        let order = Herding::GreedyUnit.order(&all, all.len() / class.len(), each);
        (row, order.into_iter().map(|place| class[place].0).collect())
    });
    classes.collect()
}

fn of_phase<'a>(
    run: &'a Engine,
    task: usize,
    phase: &'static str,
) -> impl Iterator<Item = &'a Exchange> {
    run.exchanges.iter().filter(move |e| e.task == task && e.phase == phase)
}

/// At the end of a task the global model chooses, by unit features of images without augmentation, and sums are of
/// the same features.
#[test]
fn the_global_model_chooses_exemplars_on_statistics_images() {
    let mut run = engine(Keeps::Herding, apart());
    let shards = deal(&run.ctx, &run.view(0), 2);
    run.task(0, &shards, 2);
    assert_eq!(of_phase(&run, 0, "means").count(), 2);
    for exchange in of_phase(&run, 0, "means") {
        let client = exchange.participant.client;
        let received = parameters_of(&exchange.down).unwrap();
        let held = exemplars(&run, client);
        assert_eq!(held, herded(&run, &received, &shards[client.index()], 9));
        let nearest: Vec<u32> = held.values().flatten().copied().collect();
        let all: Shard = nearest.into();
        let upload = exchange.up.as_ref().unwrap();
        let sums = upload.tensor(Kind::Prototypes, "exemplar_sums").unwrap().as_f32().unwrap();
        for (row, class) in features(&run, &received, &all) {
            let own = &sums[row as usize * 16..][..16];
            for (at, sum) in own.iter().enumerate() {
                let unit = class.iter().map(|(_, feature)| {
                    feature[at] / feature.iter().map(|v| v * v).sum::<f32>().sqrt()
                });
                let expected: f32 = unit.sum();
                assert!((sum - expected).abs() < 1e-4, "{row} {at}: {sum} {expected}");
            }
        }
    }
}

/// An upload is weighted by the samples of the task, without exemplars.
#[test]
fn exemplars_do_not_count_in_the_weight_of_an_upload() {
    let mut run = engine(Keeps::Herding, apart());
    for task in 0..2 {
        let shards = deal(&run.ctx, &run.view(task), 2);
        run.task(task, &shards, 1);
        assert_eq!(of_phase(&run, task, "train").count(), 2);
        for exchange in of_phase(&run, task, "train") {
            let upload = exchange.up.as_ref().unwrap();
            let samples = upload.tensor(Kind::Statistics, "samples").unwrap().as_u32().unwrap()[0];
            assert_eq!(samples as usize, shards[exchange.participant.client.index()].len());
            let replayed = exchange.metrics.iter().find(|(name, _)| *name == "exemplars").unwrap();
            assert_eq!(replayed.1, if task == 0 { 0.0 } else { f64::from(MEMORY) });
        }
    }
}

/// A client that missed the end of a task, or the whole task, chooses in its next round, with the model that it then
/// receives; half of these are left at the end of the second task.
#[test]
fn a_client_that_missed_an_exchange_chooses_in_its_next_round() {
    for missed_task in [false, true] {
        let mut run = engine(Keeps::Herding, apart());
        let [first, second] = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 2));
        run.task(0, &first, 1);
        if missed_task {
            run.states.clear();
            run.task_after_missing(1, &first, &second);
        } else {
            let mut early = engine(Keeps::Herding, apart());
            early.first_phase(0, &first, 1);
            run.states = early.states;
            assert!((0..2).all(|client| exemplars(&run, ClientId(client)).is_empty()));
            run.task(1, &second, 1);
        }
        assert_eq!(of_phase(&run, 1, "train").count(), 2);
        for exchange in of_phase(&run, 1, "train") {
            let client = exchange.participant.client;
            let received = parameters_of(&exchange.down).unwrap();
            let chosen = herded(&run, &received, &first[client.index()], 4);
            let held = exemplars(&run, client);
            assert_eq!(held.len(), 4);
            assert!(chosen.iter().all(|(row, samples)| held[row] == *samples), "{missed_task}");
            let replayed = exchange.metrics.iter().find(|(name, _)| *name == "exemplars").unwrap();
            assert_eq!(replayed.1, f64::from(MEMORY));
        }
    }
}

/// A client that keeps everything keeps it by head row, whatever the order of classes.
#[test]
fn everything_is_kept_by_head_row() {
    let mut run = engine(Keeps::Everything, run_context(3, ClassPermutation::Seeded(4)));
    let view = run.view(0);
    assert_ne!(view.classes, [0, 1]);
    let shards = deal(&run.ctx, &view, 2);
    run.task(0, &shards, 1);
    for (client, shard) in shards.iter().enumerate() {
        let held = exemplars(&run, ClientId(client as u32));
        let mut expected = ByRow::new();
        for sample in shard.iter() {
            let class = run.ctx.dataset.train.labels()[*sample as usize];
            let row = view.classes.iter().position(|other| *other == class).unwrap();
            expected.entry(row as u32).or_default().push(*sample);
        }
        assert_eq!(held, expected);
    }
}
