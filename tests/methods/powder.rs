//! The invariants of Powder. (Distillation's shares and similarities are tested with their code.)

mod distillation;
mod lending;
pub mod messages;
pub mod packs;
mod side_by_side;

use std::sync::Arc;

use fedcast::data::Shard;
use fedcast::learning::Classifier;
use fedcast::methods::powder::{
    ClientTaskForm, ClientTaskPrompts, ClientTaskTable, Downlink, Powder, PowderConfig, is_own,
};
use fedcast::model::{Adaptation, LinearHead, ParameterSet, ops};
use fedcast::policy::{
    Capability, Message, Method, RoundContext, Stage, check_capability, parameters_of,
};
use fedcast::quantity::{ClientId, Round};

use self::messages::payload;
use crate::gradients::every_variable_has_a_gradient;
use crate::toys::watched::Engine;
use crate::toys::{deal, facts};
use crate::{engine, far};

/// Tokens in both blocks, or in the last one alone.
pub fn small() -> PowderConfig {
    let sizes = PowderConfig { components: 3, prompt_len: 2, ..PowderConfig::default() };
    PowderConfig { first_block: 0, n_blocks: 2, ..sizes }
}

fn powder_with(change: impl Fn(&mut PowderConfig)) -> Arc<dyn Method> {
    let mut config = small();
    change(&mut config);
    Arc::new(Powder::new(config, &facts()))
}

pub fn table(run: &Engine) -> ClientTaskTable {
    ClientTaskTable::load(&run.server.save()).unwrap()
}

fn task(run: &mut Engine, task: usize, clients: usize, rounds: u32) {
    let shards = deal(&run.ctx, &run.view(task), clients);
    run.task(task, &shards, rounds);
}

fn uploads(run: &Engine) -> Vec<ParameterSet> {
    let trained = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
    trained.map(|exchange| parameters_of(exchange.up.as_ref().unwrap()).unwrap()).collect()
}

#[test]
fn a_client_task_is_what_its_owner_sent_and_others_stay() {
    let mut run = engine(powder_with(|_| ()), 3);
    task(&mut run, 0, 2, 2);
    let before = table(&run);
    assert_eq!(before.entries().len(), 2);
    for (client_task, sent) in before.entries().iter().zip(&uploads(&run)[2..]) {
        assert_eq!(&client_task.parameters, sent);
        assert_eq!(client_task.rounds, 2);
        assert!(sent.iter().all(|(name, _)| is_own(name)));
    }
    // Client 1 does not take part in the second task.
    task(&mut run, 1, 1, 1);
    let after = table(&run);
    assert_eq!(after.entries().len(), 3);
    for (old, new) in before.entries().iter().zip(after.entries()) {
        assert_eq!(old.parameters, new.parameters);
    }
    assert_eq!(&after.entries()[2].parameters, uploads(&run).last().unwrap());
    assert_eq!(ClientTaskTable::load(&after.save()).unwrap(), after);
}

#[test]
fn components_start_orthogonal_to_those_before() {
    let mut run = engine(powder_with(|c| c.components = 2), 3);
    let shards: Vec<Shard> = vec![[0u32, 1].into(); 3];
    let stage = Stage::of(run.view(0), 3);
    run.server.begin_stage(&stage, &run.ctx).unwrap();
    let context = context(&run, 0, 1);
    let everyone: Vec<ClientId> = (0..shards.len() as u32).map(ClientId).collect();
    let participants = run.method.participants(&context, &everyone);
    run.server.broadcast(&context, &participants, &run.ctx).unwrap();
    for name in ["prompt.00.key", "prompt.00.attention", "prompt.01.component"] {
        let rows: Vec<Vec<f32>> = (table(&run).entries().iter())
            .flat_map(|client_task| {
                let rows = client_task.parameters.get(name).unwrap();
                rows.values.chunks(rows.values.len() / 2).map(<[f32]>::to_vec).collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(rows.len(), 6);
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                let dot: f32 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                let expected = if i == j { 1.0 } else { 0.0 };
                assert!((dot - expected).abs() < 1e-5, "{name}: {i}, {j}: {dot}");
            }
        }
    }
}

/// A round of a phase of a task.
pub fn context(run: &Engine, task: usize, phase: usize) -> RoundContext {
    RoundContext {
        round: Round(run.round),
        stage: Stage::of(run.view(task), 3),
        phase,
        phase_name: "train",
        round_in_phase: 0,
        rounds_in_phase: 1,
        run_seed: 5,
    }
}

fn downs<'a>(run: &'a Engine, phase: &'a str) -> impl Iterator<Item = Message> + 'a {
    let of_phase = run.exchanges.iter().filter(move |exchange| exchange.phase == phase);
    of_phase.map(|exchange| Message::from_body(&exchange.down, &[]).unwrap())
}

fn values<'a>(set: &'a ParameterSet, name: &str) -> &'a [f32] {
    &set.get(name).unwrap().values
}

/// Card, invariant 4: everything else that a client was sent is no variable at all.
#[test]
fn gradients_reach_the_own_client_task_and_its_head_alone() {
    let mut run = engine(powder_with(|_| ()), 3);
    task(&mut run, 0, 2, 1);
    task(&mut run, 1, 2, 1);
    let download = run.exchanges.iter().rfind(|exchange| exchange.phase == "train").unwrap();
    let received = parameters_of(&download.down).unwrap();
    let foreign = received.iter().filter(|(name, _)| !is_own(name)).count();
    assert_eq!(foreign, 2 * 3 + 2); // three parts of two blocks, and two shares
    let prompting =
        Arc::new(ClientTaskPrompts { blocks: 0..2, trains: true, form: ClientTaskForm::Tokens });
    let model =
        Classifier::pack_with(&run.ctx.backbone, vec![received], 0..2, Some(prompting)).unwrap();
    let shard = deal(&run.ctx, &run.view(1), 1).remove(0);
    let batch = run.ctx.train_loader(&shard).in_order(8).next().unwrap().unwrap();
    let features = model.batch_features(&batch, &run.ctx.device).unwrap();
    let labels: Vec<u32> = batch.labels().iter().map(|row| row - 2).collect();
    let loss = ops::cross_entropy(&model.logits(&features).unwrap(), &labels, 0..2).unwrap();
    every_variable_has_a_gradient(&model, &loss);
    let names: Vec<_> = model.variables().iter().map(|(name, _)| name.to_string()).collect();
    assert!(names.len() == 2 * 3 + 2 && names.iter().all(|name| is_own(name)), "{names:?}");
}

/// One client, so that a task has one client task: all of them fit into the rows of the head.
#[test]
fn a_client_that_gets_all_client_tasks_mixes_them_itself() {
    let runs = [Downlink::Needed, Downlink::Table].map(|downlink| {
        let mut run = engine(powder_with(|c| c.downlink = downlink), 3);
        (0..3).for_each(|at| task(&mut run, at, 1, 2));
        run
    });
    assert_eq!(table(&runs[0]), table(&runs[1]));
    let bytes = |run: &Engine| {
        let download = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
        download.map(|exchange| payload(&exchange.down.shape())).max()
    };
    assert!(bytes(&runs[1]) < bytes(&runs[0])); // three client tasks are fewer than one and three sums
}

/// Invariant 7: without tokens the network is the frozen one, and only heads train.
#[test]
fn without_tokens_the_network_is_the_frozen_one() {
    let mut run = engine(powder_with(|c| c.prompt_len = 0), 3);
    task(&mut run, 0, 1, 1);
    let (ctx, table) = (&run.ctx, table(&run));
    let client_task = &table.entries()[0];
    let loader = ctx.statistics_loader(&(0..12).collect());
    let batch = loader.in_order(12).next().unwrap().unwrap();
    let pixels = ctx.pixels(&batch).unwrap();
    let features = ctx.backbone.features(&pixels, &Adaptation::none()).unwrap();
    let head = LinearHead::from_parameters(&client_task.parameters).unwrap();
    let plain = head.logits(&features).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    let scope = fedcast::policy::Scope::Task(client_task.rows.clone());
    let predictor = run.server.predictor(ctx).unwrap();
    let found = predictor.batch_scores(&batch, &ctx.device, &scope).unwrap();
    let found = found.flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert!(far(&plain, &found) < 1e-5);
}

#[test]
fn client_tasks_learn_and_unowned_rows_predict_nothing() {
    let mut run = engine(powder_with(|_| ()), 3);
    task(&mut run, 0, 2, 3);
    let tally = run.tally(6);
    assert_eq!(tally.predicted[2..], [0; 4]);
    assert!(run.accuracy(2) > 0.6, "{}", run.accuracy(2));
    task(&mut run, 1, 2, 2);
    // Knowing the task never makes a right answer wrong.
    let seen = run.tally(4);
    let predictor = run.server.predictor(&run.ctx).unwrap();
    let loader = run.ctx.statistics_loader(&(0..30).collect());
    let batch = loader.in_order(30).next().unwrap().unwrap();
    let scores = |scope| {
        let scores = predictor.batch_scores(&batch, &run.ctx.device, &scope).unwrap();
        scores.to_vec2::<f32>().unwrap()
    };
    let all = scores(fedcast::policy::Scope::Seen(4));
    let own = scores(fedcast::policy::Scope::Task(2..4));
    assert!(all.iter().zip(&own).all(|(all, own)| all[2..] == own[..]));
    assert!(seen.predicted[..4].iter().sum::<u64>() == seen.samples());
}

#[test]
fn client_tasks_of_different_stages_are_as_last_sent() {
    let method = Powder::new(small(), &facts());
    let refused = |service| check_capability(&method, &facts(), service).is_some();
    assert_eq!(
        Capability::ALL.map(refused),
        [true, false, true, true, true],
        "late, mixed, robust, secure, lies"
    );
}
