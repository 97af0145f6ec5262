//! Set-ups and checks that methods which replay images share: MFCL, LANDER and TARGET.

use std::ops::Range;
use std::sync::Arc;

use fedcast::data::ClassPermutation;
use fedcast::learning::{OptimizerConfig, TrainingPlan};
use fedcast::methods::HeadForm;
use fedcast::methods::averaging::ClientWeighting;
use fedcast::methods::fedavg::FedAvg;
use fedcast::methods::parts::AveragingMethod;
use fedcast::model::{Backbone, ParameterSet, ResNet, ResNetConfig};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{Asset, Method, parameters_of};
use fedcast::wire::Kind;

use crate::toys::watched::Engine;
use crate::toys::{deal, facts, plan, run_context};
use crate::{built, engine, far, head, own, values};

/// Returns FedAvg as these methods are without replay.
pub fn without_replay() -> Arc<dyn Method> {
    let (client_weighting, head_form) = (ClientWeighting::Uniform, HeadForm::Growing);
    built(FedAvg { client_weighting, head_form, ..FedAvg::default() }, &facts())
}

/// Runs tasks on a transformer, with weight decay.
pub fn decayed(method: Arc<dyn Method>, tasks: usize) -> Engine {
    let mut engine = engine(method, tasks);
    engine.ctx.training = plan(OptimizerConfig::sgd(0.05).weight_decay(0.1));
    engine.run(2, 2)
}

/// A method that averages on a residual network of four channels, with batch norms, and three tasks.
pub fn on_resnet(method: impl AveragingMethod) -> Engine {
    let config = ResNetConfig { image: 8, channels: 1, width: 4, ..ResNetConfig::default() };
    let set = ResNet::initial_parameters(&config, StreamKey::new(3, Domain::Init));
    let backbone: Backbone = ResNet::from_parameters(config, &set).unwrap().into();
    let mut model = facts();
    model.backbone = backbone.config();
    let mut ctx = run_context(3, ClassPermutation::Native);
    ctx.training = plan(OptimizerConfig::sgd(0.05));
    ctx.backbone = Arc::new(backbone);
    Engine::new(built(method, &model), model, ctx)
}

/// Assets of a kind that the downloads of a task name, one per exchange; `None` where there is none.
pub fn sent(run: &Engine, task: usize, kind: Kind) -> Vec<Option<Arc<Asset>>> {
    let of = run.exchanges.iter().filter(|exchange| exchange.task == task);
    let one = |assets: &[Arc<Asset>]| assets.iter().find(|asset| asset.kind == kind).cloned();
    of.map(|exchange| one(&exchange.assets)).collect()
}

/// Images that the downloads of a task name, one set per exchange.
pub fn images(run: &Engine, task: usize) -> Vec<Arc<Asset>> {
    sent(run, task, Kind::SyntheticData).into_iter().flatten().collect()
}

/// Checks that a replaying method is FedAvg in the first task, and another method in the second.
pub fn assert_replays_from_the_second_task(replaying: impl Fn() -> Arc<dyn Method>) {
    let first = values(&own(&decayed(replaying(), 1)));
    assert_eq!(first, values(&decayed(without_replay(), 1).server.save()));
    let second = values(&own(&decayed(replaying(), 2)));
    assert_ne!(second, values(&decayed(without_replay(), 2).server.save()));
}

/// Runs three tasks of two clients and two rounds, and checks the assets of downloads.
///
/// The first task has none; a later one has the model that the task before left, perhaps with more head rows, and an
/// asset of this kind. Clients keep nothing.
pub fn with_one_old_model_per_task(mut run: Engine, kind: Kind) -> Engine {
    let mut left: Option<ParameterSet> = None;
    for task in 0..3 {
        let start = run.exchanges.len();
        let shards = deal(&run.ctx, &run.view(task), 2);
        run.task(task, &shards, 2);
        for exchange in &run.exchanges[start..] {
            let kinds: Vec<Kind> = exchange.assets.iter().map(|asset| asset.kind).collect();
            let Some(left) = &left else {
                assert!(kinds.is_empty());
                continue;
            };
            assert_eq!(kinds, [Kind::Weights, kind]);
            for (name, old) in parameters_of(&exchange.assets[0].body).unwrap().iter() {
                let whole = &left.get(name).expect("a parameter").values;
                assert!(whole.starts_with(&old.values), "task {task}: {name}");
            }
        }
        left = Some(parameters_of(&own(&run)).unwrap());
    }
    let [second, third] = [1, 2].map(|task| -> Vec<Arc<Asset>> {
        sent(&run, task, kind).into_iter().map(|asset| asset.expect("one of the kind")).collect()
    });
    assert_eq!((second.len(), third.len()), (4, 4));
    for of_task in [&second, &third] {
        assert!(of_task.iter().all(|asset| asset.digest() == of_task[0].digest()));
    }
    assert_ne!(second[0].digest(), third[0].digest());
    assert_eq!((second[0].version, third[0].version), (0, 1));
    assert!(run.states.values().all(|state| run.method.state_bytes(state).unwrap() == 0));
    run
}

/// Checks that a new server goes on from what the server of a run saved.
pub fn assert_server_is_saved(run: &Engine, mut again: Engine) {
    let kept = run.server.save();
    again.server.load(&kept).unwrap();
    assert_eq!(again.server.save().digest(), kept.digest());
}

/// Returns true if the second task changes these rows of the head, which belong to the first.
pub fn moves_old_rows(mut run: Engine, rows: Range<usize>) -> bool {
    let shards = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 2));
    run.task(0, &shards[0], 1);
    let before = head(&own(&run), rows.clone());
    run.task(1, &shards[1], 1);
    before != head(&own(&run), rows)
}

/// Checks that clients with the same samples send different models, and the same ones if repeated.
pub fn assert_clients_replay_their_own(run: impl Fn() -> Engine) {
    let [one, other] = replays_of_twins(run());
    assert!(far(&one, &other) > 1e-6);
    assert_eq!(replays_of_twins(run()), [one, other]);
}

/// Uploads of two clients with the same samples, who replay in the second task.
fn replays_of_twins(mut run: Engine) -> [Vec<f32>; 2] {
    let shards = deal(&run.ctx, &run.view(0), 2);
    run.task(0, &shards, 1);
    run.ctx.training = TrainingPlan { batch: 1_000, ..plan(OptimizerConfig::sgd(0.1)) };
    let shard = deal(&run.ctx, &run.view(1), 2).remove(0);
    run.task(1, &[shard.clone(), shard], 1);
    let [.., one, other] = &run.exchanges[..] else { panic!("four exchanges") };
    [one, other].map(|exchange| values(exchange.up.as_ref().unwrap()))
}
