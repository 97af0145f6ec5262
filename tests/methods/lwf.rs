//! The invariants of LwF and FedLwF.MC that are seen from outside.

use std::sync::Arc;

use fedcast::learning::losses::{ClassReduction, Distillation};
use fedcast::learning::{OptimizerConfig, TrainingPlan};
use fedcast::methods::averaging::{ClientWeighting, OldLogits};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::fedlwf_mc::FedLwfMc;
use fedcast::methods::lwf::{DistilledColumns, Lwf};
use fedcast::model::ParameterSet;
use fedcast::policy::{Method, Scope, parameters_of};
use fedcast::wire::{Body, MetaReader};

use crate::toys::watched::Engine;
use crate::toys::{CLASSES, deal, facts, plan};
use crate::{built, engine, far, head, values};

fn lwf(train: Train, columns: DistilledColumns, weight: f64) -> Lwf {
    let fedavg = FedAvg { train, ..FedAvg::default() };
    let (temperature, form) = (2.0, Distillation::CrossEntropy);
    Lwf { fedavg, columns, weight, temperature, form, ..Lwf::default() }
}

/// FedLwF.MC, on a head or a whole network.
pub fn multi_class(train: Train) -> Arc<dyn Method> {
    let fedavg = FedAvg { train, client_weighting: ClientWeighting::Uniform, ..FedAvg::default() };
    let class_reduction = ClassReduction::Mean;
    built(FedLwfMc { fedavg, class_reduction, ..FedLwfMc::default() }, &facts())
}

/// LwF with the columns of the card, on a head or a prompt.
pub fn distilling(train: Train) -> Arc<dyn Method> {
    let mut method = lwf(train, DistilledColumns::Old, 0.5);
    method.fedavg.prompt_len = 6;
    built(method, &facts())
}

fn fedavg(train: Train) -> Arc<dyn Method> {
    built(FedAvg { train, ..FedAvg::default() }, &facts())
}

fn run(method: Arc<dyn Method>, tasks: usize, plan: TrainingPlan) -> Engine {
    let mut engine = engine(method, tasks);
    engine.ctx.training = plan;
    engine.run(2, 2)
}

/// Invariant 1 of LwF: without a weight, or in the first task, it is FedAvg bit for bit, whatever the weight decay; its
/// rows are then those of the task.
#[test]
fn without_a_teacher_lwf_is_fedavg() {
    let decaying = || plan(OptimizerConfig::adamw(1e-2).weight_decay(0.1));
    for train in [Train::Head, Train::All] {
        let of = |columns, weight, tasks| {
            let method = built(lwf(train, columns, weight), &facts());
            run(method, tasks, decaying()).server.save().digest()
        };
        let fedavg = |tasks| run(fedavg(train), tasks, decaying()).server.save();
        for columns in [DistilledColumns::Old, DistilledColumns::Current] {
            assert_eq!(of(columns, 0.0, 3), fedavg(3).digest(), "{train:?} {columns:?}");
        }
        let first = run(distilling(train), 1, decaying());
        assert_eq!(values(&own(&first)), values(&fedavg(1)), "{train:?}");
        assert_ne!(of(DistilledColumns::Old, 0.5, 3), fedavg(3).digest(), "{train:?}");
    }
}

/// The server's parameters, without those that the task before left.
fn own(run: &Engine) -> Body {
    let saved = run.server.save();
    match MetaReader::new(&saved.meta).u64() {
        Ok(own) => Body::new(Vec::new(), saved.sections[..own as usize].to_vec()),
        Err(_) => saved,
    }
}

/// Invariant 4 of LwF: a task begins at its teacher, which then asks for nothing, so its first step is FedAvg's;
/// afterwards rows of old classes move, but not where the current columns are distilled.
#[test]
fn a_teacher_pulls_from_the_second_step_on() {
    let second = |method: Arc<dyn Method>, batch: usize| {
        let mut run = engine(method, 2);
        let shards = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 2));
        run.task(0, &shards[0], 1);
        run.ctx.training =
            TrainingPlan { epochs: 1, batch, clip: None, ..plan(OptimizerConfig::sgd(0.05)) };
        let before = own(&run);
        run.task(1, &shards[1], 1);
        (before, own(&run))
    };
    let plain = |batch| {
        let method = lwf(Train::All, DistilledColumns::Old, 0.0);
        values(&second(built(method, &facts()), batch).1)
    };
    for columns in [DistilledColumns::Old, DistilledColumns::Current] {
        let method = || built(lwf(Train::All, columns, 3.0), &facts());
        let ((_, one), (before, several)) = (second(method(), 1_000), second(method(), 8));
        let gap = far(&values(&one), &plain(1_000));
        assert!(gap < 1e-6, "{columns:?}: the first step is off by {gap}");
        let moved = far(&values(&several), &plain(8));
        assert!(moved > 1e-4, "{columns:?}: {moved}");
        let still = head(&before, 0..3) == head(&several, 0..3);
        assert_eq!(still, columns == DistilledColumns::Current, "{columns:?}");
    }
}

/// A larger weight of distillation keeps answers for old classes nearer to what they were.
///
/// Old classes compete with new ones. (On frozen features the loss is convex, and least at the teacher.)
#[test]
fn a_heavier_teacher_keeps_old_answers() {
    let drift = |weight: f64| {
        let mut method = lwf(Train::Head, DistilledColumns::Old, weight);
        method.fedavg.old_logits = OldLogits::Keep;
        let mut run = engine(built(method, &facts()), 2);
        run.ctx.training = plan(OptimizerConfig::sgd(0.05));
        let shards = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 2));
        run.task(0, &shards[0], 2);
        let before = old_answers(&run);
        run.ctx.training = TrainingPlan { clip: None, ..plan(OptimizerConfig::sgd(0.02)) };
        run.task(1, &shards[1], 2);
        let gaps = before.iter().zip(old_answers(&run)).map(|(a, b)| (a - b).powi(2));
        gaps.sum::<f32>()
    };
    let all = [0.0, 1.0, 5.0].map(drift);
    assert!(all[0] > 1.2 * all[1] && all[1] > 1.2 * all[2], "{all:?}");
}

/// Shares of the old classes among themselves, on images of the second task.
fn old_answers(run: &Engine) -> Vec<f32> {
    let shard = deal(&run.ctx, &run.view(1), 1).remove(0);
    let predictor = run.server.predictor(&run.ctx).unwrap();
    let loader = run.ctx.statistics_loader(&shard);
    let answers = loader.in_order(16).flat_map(|batch| {
        let pixels = run.ctx.pixels(&batch.unwrap()).unwrap();
        predictor.scores(&pixels, &Scope::Task(0..3)).unwrap().to_vec2::<f32>().unwrap()
    });
    let softmax = |row: Vec<f32>| {
        let powers: Vec<f32> = row.into_iter().map(f32::exp).collect();
        let sum = powers.iter().sum::<f32>();
        powers.into_iter().map(move |power| power / sum).collect::<Vec<_>>()
    };
    answers.flat_map(softmax).collect()
}

/// Invariant 5 of LwF: clients with the same samples send the same, and their mean is what each of them sent.
#[test]
fn the_mean_of_identical_clients_is_each_of_them() {
    for method in [distilling(Train::Head), multi_class(Train::Head)] {
        let mut run = engine(method, 2);
        run.ctx.training = TrainingPlan { batch: 1_000, ..plan(OptimizerConfig::sgd(0.1)) };
        for task in 0..2 {
            let shard = deal(&run.ctx, &run.view(task), 2).remove(0);
            run.task(task, &[shard.clone(), shard], 2);
        }
        let [.., first, second] = &run.exchanges[..] else { panic!("four rounds") };
        let of = |body: &Body| values(body);
        let (one, other) = (of(first.up.as_ref().unwrap()), of(second.up.as_ref().unwrap()));
        assert!(far(&one, &other) < 1e-6, "{}", far(&one, &other));
        assert!(far(&one, &values(&own(&run))) < 1e-6);
    }
}

/// FedLwF.MC, invariant 4, and LwF's section 6: the teacher is one and the same within a task, and what the server had
/// as the task before ended; in the first task there is none.
#[test]
fn the_teacher_is_the_model_of_the_last_task_s_end() {
    for method in [distilling(Train::Head), multi_class(Train::Head)] {
        let mut run = engine(method, 3);
        let mut left: Option<ParameterSet> = None;
        for task in 0..3 {
            let start = run.exchanges.len();
            let shards = deal(&run.ctx, &run.view(task), 2);
            run.task(task, &shards, 2);
            for exchange in &run.exchanges[start..] {
                let teacher =
                    exchange.assets.first().map(|asset| parameters_of(&asset.body).unwrap());
                assert_eq!(teacher, left, "task {task}");
            }
            let now = parameters_of(&own(&run)).unwrap();
            assert_ne!(Some(&now), left.as_ref());
            left = Some(now);
        }
        // Clients keep nothing, and a server goes on from what it saved.
        assert!(run.states.values().all(|state| run.method.state_bytes(state).unwrap() == 0));
        let saved = run.server.save();
        let mut again = engine(Arc::clone(&run.method), 3);
        again.server.load(&saved).unwrap();
        assert_eq!(again.server.save().digest(), saved.digest());
    }
}

/// Section 5 of FedLwF.MC: all classes seen enter the loss, so rows of old classes move with the features below them;
/// on frozen features they stay as their teacher has them, exactly, because no class has a part in another's loss.
#[test]
fn sigmoids_of_all_classes_seen_train() {
    for train in [Train::All, Train::Head] {
        let mut run = engine(multi_class(train), 3);
        run.ctx.training = plan(OptimizerConfig::sgd(0.1));
        for task in 0..3 {
            let before = own(&run);
            let shards = deal(&run.ctx, &run.view(task), 2);
            run.task(task, &shards, 2);
            let after = own(&run);
            let (rows, seen) = (run.view(task).rows.clone(), run.view(task).seen());
            for row in 0..CLASSES {
                let same = head(&before, row..row + 1) == head(&after, row..row + 1);
                let trains = if train == Train::Head { rows.contains(&row) } else { row < seen };
                assert_eq!(same, !trains, "{train:?}, task {task}, row {row}");
            }
        }
    }
}
