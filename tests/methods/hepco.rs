//! The invariants of HePCo and FedAvg-Prompt that concern whole rounds. (Those of the server's step, the
//! generators and the pools are tested with their code.)

use std::collections::BTreeMap;
use std::sync::Arc;

use fedcast::data::{ClassPermutation, Shard};
use fedcast::methods::averaging::ClientWeighting;
use fedcast::methods::fedavg_prompt::FedAvgPrompt;
use fedcast::methods::hepco::Hepco;
use fedcast::methods::hepco::consolidation::ConsolidationSettings;
use fedcast::model::{LinearHead, ParameterSet};
use fedcast::policy::{Message, Method, ModelFacts, WireForm, parameters_of};
use fedcast::wire::{Body, Kind, MetaReader};

use crate::toys::watched::Engine;
use crate::toys::{CLASSES, deal, facts, run_context};
use crate::{built, engine, far, head};

/// Three prompts of four rows in both blocks.
fn pools() -> FedAvgPrompt {
    FedAvgPrompt { pool: 3, prompt_len: 4, ..FedAvgPrompt::default() }
}

fn small(change: impl Fn(&mut Hepco)) -> Hepco {
    let server = ConsolidationSettings {
        generator_steps: 4,
        old_steps_per_task: 3,
        prompt_steps: 4,
        head_steps: 4,
        server_batch: 8,
        server_lr: 1e-3,
        hidden: [12, 16],
        ..ConsolidationSettings::default()
    };
    let mut method = Hepco { client: pools(), server };
    change(&mut method);
    method
}

pub fn hepco_with(change: impl Fn(&mut Hepco)) -> Arc<dyn Method> {
    built(small(change), &facts())
}

pub fn fedavg_prompt() -> Arc<dyn Method> {
    built(pools(), &facts())
}

/// Pools and head as they are now.
fn current(saved: &Body) -> ParameterSet {
    parameters_of(saved).unwrap().filter(|name| !name.starts_with("previous."))
}

/// Pools and head as they were at the end of the last task.
fn previous(saved: &Body) -> ParameterSet {
    parameters_of(saved).unwrap().filter(|name| name.starts_with("previous."))
}

fn flat(set: &ParameterSet) -> Vec<f32> {
    set.iter().flat_map(|(_, parameter)| parameter.values.to_vec()).collect()
}

/// The first head row that an upload counts samples of, and the counts from there on.
fn counted(upload: &Body) -> (usize, Vec<u32>) {
    let upload = Message::from_body(upload, &[]).unwrap();
    let mut control = upload.fields();
    let (_, first_counted) = (control.u64().unwrap(), control.u64().unwrap());
    control.finish().unwrap();
    let counts = upload.tensor(Kind::Statistics, "label_counts").unwrap();
    (first_counted as usize, counts.as_u32().unwrap().to_vec())
}

/// FedAvg-Prompt's invariant 3.
#[test]
fn without_server_steps_it_is_fedavg_prompt_to_the_bit() {
    let none = |c: &mut Hepco| (c.server.prompt_steps, c.server.head_steps) = (0, 0);
    let run = |method| engine(method, 3).run(3, 2);
    let plain = run(fedavg_prompt());
    let zero = run(hepco_with(none));
    assert_eq!(current(&zero.server.save()), current(&plain.server.save()));
    let full = run(hepco_with(|_| ()));
    for (name, parameter) in current(&full.server.save()).iter() {
        assert_ne!(Some(parameter), current(&plain.server.save()).get(name), "{name}");
    }
    assert!(zero.server.metrics().is_empty());
    let metrics = full.server.metrics();
    let names: Vec<&str> = metrics.iter().map(|(name, _)| *name).collect();
    assert_eq!(names[..2], ["generator_classification", "generator_divergence"]);
    assert!(names.contains(&"old_generator_distance"));
    assert!(metrics.iter().all(|(_, figure)| figure.is_finite()), "{metrics:?}");
}

/// HePCo's invariant 3: in the first task there is no old generator; later the previous server stays as it
/// was at the end of the task.
#[test]
fn the_previous_server_never_changes() {
    let mut run = engine(hepco_with(|_| ()), 3);
    run.task(0, &deal(&run.ctx, &run.view(0), 2), 2);
    assert!(!run.server.metrics().iter().any(|(name, _)| name.starts_with("old_generator")));
    let kept = previous(&run.server.save());
    assert_eq!(flat(&kept), flat(&current(&run.server.save())));
    let shards = deal(&run.ctx, &run.view(1), 2);
    run.first_phase(1, &shards, 2);
    assert!(run.server.metrics().iter().any(|(name, _)| name.starts_with("old_generator")));
    assert_eq!(previous(&run.server.save()), kept);
    assert_ne!(flat(&kept), flat(&current(&run.server.save())));
}

/// HePCo's invariant 6, on the client; label counts come up as they are.
#[test]
fn clients_leave_old_rows_alone_and_count_their_labels() {
    let run = engine(hepco_with(|_| ()), 3).run(2, 1);
    for exchange in &run.exchanges {
        let (download, upload) = (&exchange.down, exchange.up.as_ref().unwrap());
        let rows = run.view(exchange.task).rows.clone();
        for row in 0..CLASSES {
            let same = head(download, row..row + 1) == head(upload, row..row + 1);
            assert_eq!(same, !rows.contains(&row), "task {}, row {row}", exchange.task);
        }
        let before = parameters_of(download).unwrap();
        for (name, parameter) in parameters_of(upload).unwrap().iter() {
            assert_ne!(Some(parameter), before.get(name), "{name} does not train");
        }
        assert_eq!(counted(upload), (rows.start, vec![12, 12]));
    }
}

/// Invariant 4 of FedAvg-Prompt and 6 of HePCo: nothing of the backbone travels or moves.
#[test]
fn the_backbone_never_changes() {
    for method in [hepco_with(|_| ()), fedavg_prompt()] {
        let mut run = engine(method, 2);
        let before = run.ctx.backbone.digest().unwrap();
        run.task(0, &deal(&run.ctx, &run.view(0), 2), 1);
        assert_eq!(run.ctx.backbone.digest().unwrap(), before);
        let sent = parameters_of(&run.last().down).unwrap();
        assert!(
            sent.iter().all(|(name, _)| name.starts_with("prompt.") || name.starts_with("head."))
        );
    }
}

/// Invariant 5 of HePCo and 2 of FedAvg-Prompt: who has no data changes nothing, and clients that learn the
/// same average to it.
#[test]
fn idle_clients_change_nothing() {
    for method in [hepco_with(|_| ()), fedavg_prompt()] {
        let mut alone = engine(Arc::clone(&method), 2);
        let shards = deal(&alone.ctx, &alone.view(0), 1);
        alone.task(0, &shards, 1);
        let mut joined = engine(Arc::clone(&method), 2);
        joined.task(0, &[shards[0].clone(), Shard::from([])], 1);
        assert_eq!(joined.server.save().digest(), alone.server.save().digest());
    }
    // The mean of one client is what it sent.
    let mut run = engine(fedavg_prompt(), 2);
    run.task(0, &deal(&run.ctx, &run.view(0), 1), 1);
    let sent = parameters_of(run.last().up.as_ref().unwrap()).unwrap();
    assert!(far(&flat(&sent), &flat(&current(&run.server.save()))) < 1e-6);
}

/// Labels are counted by head row, whatever class stands there.
#[test]
fn counts_follow_the_order_of_classes() {
    let mut run =
        Engine::new(hepco_with(|_| ()), facts(), run_context(3, ClassPermutation::Seeded(4)));
    let view = run.view(1);
    assert_ne!(view.classes, [2, 3]);
    let by_class = run.ctx.dataset.train.by_class();
    let of = |place: usize, count: usize| &by_class[view.classes[place] as usize][..count];
    let mut shard = [of(0, 5), of(1, 9)].concat();
    shard.sort_unstable();
    run.task(1, &[shard.into()], 1);
    assert_eq!(counted(run.last().up.as_ref().unwrap()), (2, vec![5, 9]));
    let saved = run.server.save().meta;
    let mut of_server = MetaReader::new(&saved);
    let rows = of_server.u64().unwrap();
    let counts: Vec<u64> = (0..rows).map(|_| of_server.u64().unwrap()).collect();
    assert_eq!(counts, [0, 0, 5, 9, 0, 0]);
}

/// The old generator asks for classes as often as clients of all earlier rounds reported them.
#[test]
fn counts_add_up_and_those_of_the_last_task_are_kept() {
    let counts = |run: &Engine| {
        let saved = run.server.save();
        let mut meta = MetaReader::new(&saved.meta);
        let mut list = || -> Vec<u64> {
            let rows = meta.u64().unwrap();
            (0..rows).map(|_| meta.u64().unwrap()).collect()
        };
        (list(), list())
    };
    let mut run = engine(hepco_with(|_| ()), 3);
    run.task(0, &deal(&run.ctx, &run.view(0), 2), 2);
    let first = vec![48, 48, 0, 0, 0, 0];
    assert_eq!(counts(&run), (first.clone(), first.clone()));
    run.first_phase(1, &deal(&run.ctx, &run.view(1), 2), 1);
    assert_eq!(counts(&run), (vec![48, 48, 24, 24, 0, 0], first));
}

/// Subtlety 2 of FedAvg-Prompt, step 1 of HePCo's round.
#[test]
fn clients_count_alike_or_by_their_samples() {
    for (weights, share) in
        [(ClientWeighting::Uniform, 0.5), (ClientWeighting::BySamples, 4.0 / 48.0)]
    {
        let client = FedAvgPrompt { client_weighting: weights, ..pools() };
        let plain = built(client, &facts());
        let averaging = hepco_with(|c| {
            c.client = client;
            (c.server.prompt_steps, c.server.head_steps) = (0, 0);
        });
        for method in [plain, averaging] {
            let mut run = engine(method, 3);
            let whole = deal(&run.ctx, &run.view(0), 1).remove(0);
            run.task(0, &[whole[..4].into(), whole[4..].into()], 1);
            let sent = |place: usize| {
                flat(&parameters_of(run.exchanges[place].up.as_ref().unwrap()).unwrap())
            };
            let pairs = sent(0).into_iter().zip(sent(1));
            let mean: Vec<f32> = pairs.map(|(a, b)| share * a + (1.0 - share) * b).collect();
            assert!(far(&sent(0), &sent(1)) > 1e-3);
            assert!(far(&mean, &flat(&current(&run.server.save()))) < 1e-6, "{weights:?}");
        }
    }
}

/// A saved server goes on as if it had never stopped, the previous one with it.
#[test]
fn a_loaded_hepco_goes_on() {
    let whole = engine(hepco_with(|_| ()), 2).run(2, 1);
    let mut first = engine(hepco_with(|_| ()), 2);
    first.task(0, &deal(&first.ctx, &first.view(0), 2), 1);
    let mut resumed = engine(hepco_with(|_| ()), 2);
    resumed.server.load(&first.server.save()).unwrap();
    resumed.round = first.round;
    resumed.task(1, &deal(&resumed.ctx, &resumed.view(1), 2), 1);
    assert_eq!(resumed.server.save().digest(), whole.server.save().digest());
}

/// Lean and growing messages carry less and teach the same.
#[test]
fn lean_messages_teach_the_same() {
    let run = |form: WireForm, head: fedcast::methods::HeadForm| {
        let facts = ModelFacts { form, ..facts() };
        let method = built(small(|c| c.client.head_form = head), &facts);
        Engine::new(method, facts, run_context(3, ClassPermutation::Native)).run(2, 1)
    };
    use fedcast::methods::HeadForm::{Fixed, Growing};
    let full = run(WireForm::Full, Fixed);
    let rows = |run: &Engine| {
        let up = parameters_of(run.last().up.as_ref().unwrap()).unwrap();
        up.get(LinearHead::WEIGHT).unwrap().shape[0]
    };
    for (form, head) in [(WireForm::Lean, Fixed), (WireForm::Full, Growing)] {
        let other = run(form, head);
        assert_eq!(current(&other.server.save()), current(&full.server.save()), "{form:?}");
        assert_eq!(rows(&other), if form == WireForm::Lean { 2 } else { CLASSES });
    }
}

/// The method learns well above chance on pictures that a frozen random network can distinguish.
#[test]
fn both_learn() {
    for method in [hepco_with(|_| ()), fedavg_prompt()] {
        let mut run = engine(method, 1);
        run.task(0, &deal(&run.ctx, &run.view(0), 2), 3);
        let accuracy = run.accuracy(CLASSES);
        assert!(accuracy > 0.5, "{accuracy}");
    }
}

/// The server's steps do what they are for, and do not spoil what clients learned: after one round teachers answer
/// pseudo-queries as they were asked for, and what is distilled on them falls far from the first step to the last.
#[test]
fn the_server_s_steps_learn() {
    let run = |steps: u32, rate: f64| {
        let method = hepco_with(|c| {
            (c.server.generator_steps, c.server.server_batch) = (100, 32);
            (c.server.prompt_steps, c.server.head_steps) = (steps, steps);
            // Divergence has no bound: at this rate a factor of 1 would outweigh the labels of old classes.
            (c.server.server_lr, c.server.lambda_kl) = (rate, 0.05);
        });
        let mut run = engine(method, 2);
        run.task(0, &deal(&run.ctx, &run.view(0), 2), 3);
        run.task(1, &deal(&run.ctx, &run.view(1), 2), 3);
        let metrics: BTreeMap<&str, f64> = run.server.metrics().iter().copied().collect();
        (metrics, run.accuracy(CLASSES))
    };
    let ((first, _), (last, accuracy)) = (run(1, 1e-2), run(100, 1e-2));
    for answered in ["generator_accuracy", "old_generator_accuracy"] {
        assert!(last[answered] > 0.95, "{last:?}");
    }
    for falls in ["prompt_distillation_loss", "head_distillation_loss"] {
        assert!(last[falls] < 0.5 * first[falls], "{falls}: {first:?} {last:?}");
    }
    assert!(accuracy > 0.5, "{accuracy}");
}
