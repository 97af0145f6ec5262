//! The invariants of FedAvg.

use std::sync::Arc;

use candle_core::Device;
use fedcast::data::{ClassPermutation, Shard};
use fedcast::learning::{Classifier, OptimizerConfig, TrainingPlan, train};
use fedcast::methods::HeadForm;
use fedcast::methods::averaging::ClientWeighting::{BySamples, Uniform};
use fedcast::methods::averaging::OldLogits;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::model::{BackboneConfig, ParameterSet, ResNet, ResNetConfig};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{
    ModelFacts, RoundContext, RunContext, Stage, WireForm, one_participant_per_client,
    parameters_of,
};
use fedcast::quantity::{ClientId, Round};

use crate::toys::watched::{Engine, SEED};
use crate::toys::{CLASSES, deal, facts, plan, run_context};
use crate::{built, engine, far, fedavg_of, head, mean_of, values};

/// Invariant 1: one client is central training with the optimizer made again every round.
#[test]
fn one_client_is_central_training() {
    for what in [Train::All, Train::Prompt] {
        let run = engine(fedavg_of(what), 2).run(1, 2);
        let fresh = engine(fedavg_of(what), 2);
        let mut parameters = parameters_of(&fresh.server.save()).unwrap();
        for (round, exchange) in run.exchanges.iter().enumerate() {
            let view = run.view(exchange.task);
            let model = Classifier::trainable(&run.ctx.backbone, &parameters, view.rows.clone());
            let model = model.unwrap();
            let shard = deal(&run.ctx, &view, 1).remove(0);
            let key = exchange.participant.key(SEED, Round(round as u32));
            let loader = run.ctx.train_loader(&shard);
            train(&run.ctx.training, &loader, model.variables(), key, |batch| {
                model.masked_loss(&batch.pixels(&Device::Cpu)?, batch.labels())
            })
            .unwrap();
            parameters = model.parameters().unwrap();
        }
        let central: Vec<f32> = parameters.iter().flat_map(|(_, p)| p.values.to_vec()).collect();
        let federated = parameters_of(&run.server.save()).unwrap();
        let federated: Vec<f32> = federated.iter().flat_map(|(_, p)| p.values.to_vec()).collect();
        // The mean is base + difference in f64, rounded once: equal up to that rounding.
        assert!(far(&central, &federated) < 1e-5, "{what:?}: {}", far(&central, &federated));
    }
}

/// Of a network with batch norm the running statistics are averaged like weights, and so is the number of
/// batches behind them.
#[test]
fn running_statistics_are_averaged_like_weights() {
    let network =
        ResNetConfig { image: 8, channels: 1, width: 4, blocks: [1; 4], ..ResNetConfig::default() };
    let facts = ModelFacts { backbone: BackboneConfig::ResNet(network), ..facts() };
    let start = ResNet::initial_parameters(&network, StreamKey::new(3, Domain::Init));
    let backbone = ResNet::from_parameters(network, &start).unwrap();
    let ctx = RunContext {
        backbone: Arc::new(backbone.into()),
        ..run_context(3, ClassPermutation::Native)
    };
    let method = FedAvg { train: Train::All, ..FedAvg::default() };
    let mut run = Engine::new(built(method, &facts), facts, ctx);
    let all = deal(&run.ctx, &run.view(0), 1).remove(0);
    let shards: Vec<Shard> = vec![all[..7].into(), all[7..].into()];
    let weights = shards.iter().map(|shard| shard.len() as f32 / all.len() as f32);
    let weights: Vec<f32> = weights.collect();
    run.task(0, &shards, 1);

    let uploads = run.exchanges.iter().map(|exchange| exchange.up.as_ref().unwrap());
    let uploads: Vec<ParameterSet> = uploads.map(|upload| parameters_of(upload).unwrap()).collect();
    let server = parameters_of(&run.server.save()).unwrap();
    for name in ["bn1.running_mean", "layer2.0.bn2.running_var", "bn1.num_batches_tracked"] {
        let of = |set: &ParameterSet| set.get(name).unwrap().values.to_vec();
        assert!(uploads.iter().all(|up| of(up) != of(&start)), "{name} moved while training");
        let mean =
            |i: usize| -> f32 { uploads.iter().zip(&weights).map(|(up, w)| w * of(up)[i]).sum() };
        let mean: Vec<f32> = (0..of(&start).len()).map(mean).collect();
        assert!(far(&of(&server), &mean) < 1e-5, "{name}: {:?} and {mean:?}", of(&server));
    }
}

/// Invariant 3: one full-batch SGD step, averaged by sample counts, is one step on all data.
#[test]
fn one_sgd_step_averaged_is_one_step_on_all_data() {
    let run = |clients: usize| {
        let mut run = engine(fedavg_of(Train::All), 3);
        run.ctx.training =
            TrainingPlan { epochs: 1, batch: 1_000, clip: None, ..plan(OptimizerConfig::sgd(0.1)) };
        let all = deal(&run.ctx, &run.view(0), 1).remove(0);
        // Unequal shards: 7 and the rest.
        let shards: Vec<Shard> =
            if clients == 1 { vec![all] } else { vec![all[..7].into(), all[7..].into()] };
        let before = values(&run.server.save());
        run.task(0, &shards, 1);
        (before, values(&run.server.save()))
    };
    let ((before, pooled), (_, averaged)) = (run(1), run(2));
    assert!(far(&before, &pooled) > 1e-3, "the step is visible");
    assert!(far(&pooled, &averaged) < 2e-6, "{}", far(&pooled, &averaged));
}

/// Invariant 5: rows of other tasks never change, whatever the weight decay.
#[test]
fn rows_of_other_tasks_never_change() {
    let mut run = engine(fedavg_of(Train::All), 3);
    run.ctx.training = plan(OptimizerConfig::adamw(1e-2).weight_decay(0.1));
    for task in 0..3 {
        let before = run.server.save();
        let shards = deal(&run.ctx, &run.view(task), 2);
        run.task(task, &shards, 2);
        let after = run.server.save();
        for row in 0..CLASSES {
            let same = head(&before, row..row + 1) == head(&after, row..row + 1);
            assert_eq!(same, !run.view(task).rows.contains(&row), "task {task}, row {row}");
        }
    }
}

/// Card of FedAvg-FT, invariants 4 and 5: without the mask old rows move, and every tensor with them.
#[test]
fn without_the_mask_rows_of_earlier_tasks_move() {
    let method = FedAvg {
        train: Train::All,
        client_weighting: Uniform,
        old_logits: OldLogits::Keep,
        ..FedAvg::default()
    };
    for form in [WireForm::Full, WireForm::Lean] {
        let facts = ModelFacts { form, ..facts() };
        let method = built(method.clone(), &facts);
        let mut run = Engine::new(method, facts, run_context(3, ClassPermutation::Native));
        for task in 0..2 {
            let before = run.server.save();
            run.task(task, &deal(&run.ctx, &run.view(task), 2), 1);
            let after = run.server.save();
            let (was, is) = (parameters_of(&before).unwrap(), parameters_of(&after).unwrap());
            assert!(was.iter().zip(is.iter()).all(|(was, is)| was.1 != is.1), "{form:?}");
            for row in 0..CLASSES {
                let same = head(&before, row..row + 1) == head(&after, row..row + 1);
                let seen = run.view(task).seen();
                assert_eq!(same, row >= seen, "{form:?}, task {task}, row {row}");
            }
        }
    }
}

/// Invariants 4 and 6, through the whole method: equal weights, and the order of clients.
#[test]
fn weights_are_counts_or_equal() {
    for (weights, mean) in [(BySamples, 4.0), (Uniform, 3.0)] {
        let method = FedAvg { train: Train::Head, client_weighting: weights, ..FedAvg::default() };
        let uploads = [(1.0, 10), (5.0, 30), (100.0, 0)];
        let folded = mean_of(&*built(method, &facts()), 0.0, &uploads);
        assert_eq!(folded.len(), 2);
        for (name, parameter) in folded.iter() {
            assert!(parameter.values.iter().all(|value| *value == mean), "{weights:?}: {name}");
        }
        let mut turned = uploads;
        turned.reverse();
        let method = FedAvg { train: Train::Head, client_weighting: weights, ..FedAvg::default() };
        assert_eq!(mean_of(&*built(method, &facts()), 0.0, &turned), folded, "{weights:?}");
    }
}

/// With growing heads each participant is sent the rows up to those of its own task, whatever the others get.
#[test]
fn participants_of_two_tasks_are_sent_their_own_rows() {
    let head = HeadForm::Growing;
    let method = FedAvg { train: Train::Head, head_form: head, ..FedAvg::default() };
    let mut run = engine(built(method, &facts()), 3).tasks(2, 2, 1);
    let round = RoundContext {
        round: Round(9),
        stage: Stage::of(run.view(1), 3),
        phase: 0,
        phase_name: "train",
        round_in_phase: 0,
        rounds_in_phase: 1,
        run_seed: SEED,
    };
    let of_task = |task: usize, client: u32| {
        let stage = Stage::of(run.view(task), 3);
        one_participant_per_client(&stage, &[ClientId(client)]).remove(0)
    };
    let participants = [of_task(1, 0), of_task(0, 1), of_task(1, 2)];
    let together = run.server.broadcast(&round, &participants, &run.ctx).unwrap();
    assert!(Arc::ptr_eq(&together[0], &together[2]) && !Arc::ptr_eq(&together[0], &together[1]));
    for (participant, download) in participants.iter().zip(&together) {
        let alone =
            run.server.broadcast(&round, std::slice::from_ref(participant), &run.ctx).unwrap();
        assert_eq!(alone[0].body().digest(), download.body().digest(), "{:?}", participant.client);
    }
    assert_ne!(together[0].body().digest(), together[1].body().digest());
}
