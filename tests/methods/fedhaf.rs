//! The invariants of FedHAF that are seen from outside. (Losses and stages are tested with their code.)

use std::sync::Arc;

use candle_core::Tensor;
use fedcast::data::{ClassPermutation, Loader, Shard, TaskSequence, TaskSizes};
use fedcast::learning::{Herding, OptimizerConfig, TrainingPlan, exemplars};
use fedcast::methods::HeadForm;
use fedcast::methods::fedhaf::{BatchNormMode, FedHaf, Squares, Stages, Supervision};
use fedcast::model::deep_resnet::Depth;
use fedcast::model::{BackboneConfig, DeepResNetConfig, FrozenPart};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{
    ClassCounts, Member, Message, MessageKind, Method, MissedTask, ModelFacts, Predictor, Scope,
    Stage, WireForm, parameters_of,
};
use fedcast::quantity::TaskId;
use fedcast::wire::{Body, BodyShape, Codec, CodecPlan, FrameSize, Kind};

use crate::gaussians::apart;
use crate::toys::watched::{Engine, SEED, through_the_wire};
use crate::toys::{TRAIN_PER_CLASS, deal, facts, first_exchange, plan, run_context};
use crate::{built, engine, far, values};

fn fedhaf_with(change: impl Fn(&mut FedHaf)) -> Arc<dyn Method> {
    let mut config =
        FedHaf { module_hidden: 24, module_width: 12, head_hidden: 10, ..FedHaf::default() };
    change(&mut config);
    built(config, &facts())
}

fn trained(change: impl Fn(&mut FedHaf), tasks: usize, rounds: u32) -> Engine {
    let mut engine = engine(fedhaf_with(change), tasks);
    engine.ctx.training =
        TrainingPlan { epochs: 4, ..plan(OptimizerConfig::sgd(0.05).momentum(0.9)) };
    engine.run(2, rounds)
}

fn payload(shape: &BodyShape) -> u64 {
    FrameSize::of_shape(shape, &CodecPlan::new(Codec::F32)).payload.0
}

/// Section 4 and invariant 8: 5,966,736 bytes of parameters and 2,816 running statistics each way.
#[test]
fn messages_have_the_bytes_of_the_card() {
    let network = DeepResNetConfig { depth: Depth::HundredFiftyTwo, image: 224 };
    let backbone = BackboneConfig::DeepResNet(network);
    let model = ModelFacts {
        backbone,
        classes: 100,
        tasks: 10,
        clients: 1,
        form: WireForm::Full,
        auxiliary: None,
    };
    let method = built(FedHaf::default(), &model);
    let task_sequence =
        TaskSequence::new(100, &ClassPermutation::Native, &TaskSizes::Even(10)).unwrap();
    let both = 5_966_736 + 4 * 2_816;
    for (task, view) in task_sequence.tasks.iter().enumerate() {
        let counts = ClassCounts::new();
        let facts = first_exchange(&model, view, &counts);
        let (download, upload) = (
            method.message_spec(MessageKind::Download, &facts),
            method.message_spec(MessageKind::Upload, &facts),
        );
        assert_eq!((payload(&download.body()), payload(&upload.body())), (both, both + 4));
        let assets = download.assets;
        assert_eq!(assets.len(), usize::from(task > 0));
        assert!(assets.iter().all(|asset| payload(&asset.body) == both));
    }
}

/// The download of a later task names the model as the task before left it, of the size that was announced.
#[test]
fn the_previous_model_is_an_asset() {
    let run = trained(|_| (), 3, 1);
    for exchange in &run.exchanges {
        assert_eq!(exchange.assets.len(), usize::from(exchange.task > 0));
        let Some(asset) = exchange.assets.first() else { continue };
        assert_eq!(asset.version as usize, exchange.task - 1);
        let view = run.view(exchange.task);
        let counts = ClassCounts::new();
        let facts = first_exchange(&run.facts, &view, &counts);
        assert_eq!(
            asset.body.shape(),
            run.method.message_spec(MessageKind::Download, &facts).assets[0].body
        );
    }
    // What the first round of a task sends is what the last one left, and that is what is distilled from.
    let first = run.exchanges.iter().find(|exchange| exchange.task == 1).unwrap();
    assert_eq!(parameters_of(&first.down).unwrap(), parameters_of(&first.assets[0].body).unwrap());
    let saved = run.server.save();
    let mut again = engine(fedhaf_with(|_| ()), 3);
    again.server.load(&through_the_wire(&saved)).unwrap();
    assert_eq!(again.server.save().digest(), saved.digest());
}

fn kept(run: &Engine, client: usize) -> Body {
    run.states.values().nth(client).unwrap().clone()
}

/// Invariant 6: a share of every class, rounded up, of the client's own; and none of it in a message.
#[test]
fn exemplars_stay_with_their_client() {
    let run = trained(|c| c.retention = 0.2, 3, 2);
    let per_class = (0.2 * (TRAIN_PER_CLASS / 2) as f64).ceil() as usize;
    for client in 0..2 {
        let kept = kept(&run, client);
        let mut samples = 0;
        for (task, view) in run.ctx.task_sequence.tasks.iter().enumerate() {
            let shard = &deal(&run.ctx, view, 2)[client];
            let tensor = kept.tensor(Kind::Exemplars, &format!("task.{task}")).unwrap();
            let own = tensor.as_u32().unwrap();
            assert!(own.iter().all(|sample| shard.contains(sample)));
            assert_eq!(own.len(), per_class * view.classes.len());
            samples += own.len();
        }
        let state = run.states.values().nth(client).unwrap();
        assert_eq!(run.method.state_bytes(state).unwrap(), 64 * samples as u64);
    }
    for exchange in &run.exchanges {
        let upload = exchange.up.as_ref().unwrap();
        for body in [&exchange.down, upload] {
            let kinds = body.sections.iter().map(|section| section.kind);
            assert!(kinds.into_iter().all(|kind| kind != Kind::Exemplars));
        }
    }
    let none = trained(|c| c.retention = 0.0, 2, 1);
    assert!(kept(&none, 0).sections.iter().all(|section| section.tensors.is_empty()));
}

/// Invariant 4: what is kept does not depend on what was learned.
#[test]
fn exemplars_do_not_depend_on_training() {
    let (one, other) = (trained(|_| (), 2, 1), trained(|c| c.lambda_ce = 0.0, 2, 2));
    for client in 0..2 {
        assert_eq!(kept(&one, client).digest(), kept(&other, client).digest());
    }
    let greedy = trained(|c| c.herding = Herding::GreedyUnit, 2, 1);
    assert!((0..2).any(|client| kept(&one, client).digest() != kept(&greedy, client).digest()));
}

/// Exemplars are chosen by features of the images of the statistics transform, not of training images.
#[test]
fn exemplars_are_chosen_by_the_images_that_describe() {
    let config = FedHaf { retention: 0.2, ..FedHaf::default() };
    let mut run = Engine::new(fedhaf_with(|c| c.retention = 0.2), facts(), apart());
    run.ctx.training = plan(OptimizerConfig::sgd(0.05));
    let view = run.view(0);
    let shards = deal(&run.ctx, &view, 2);
    run.task(0, &shards, 1);
    let chosen = |loader: Loader, shard: &Shard| {
        let batch = loader.in_order(shard.len()).next().unwrap().unwrap();
        let pixels = run.ctx.pixels(&batch).unwrap();
        let features = run.ctx.backbone.frozen(&pixels, FrozenPart::Whole).unwrap();
        let features = features.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let labels: Vec<u32> = batch.labels().to_vec();
        let rows = view.rows.clone();
        exemplars(config.herding, config.retention, rows, shard, &labels, &features)
    };
    for (client, shard) in shards.iter().enumerate() {
        let kept = kept(&run, client);
        let kept = kept.tensor(Kind::Exemplars, "task.0").unwrap().as_u32().unwrap();
        assert_eq!(kept[..], chosen(run.ctx.statistics_loader(shard), shard));
        assert_ne!(
            kept[..],
            chosen(run.ctx.train_loader(shard), shard),
            "the pipelines must differ"
        );
    }
}

/// A client that is sampled late chooses from the tasks that it missed, as it would have at their ends.
#[test]
fn missed_tasks_are_made_up_for() {
    let always = trained(|_| (), 3, 1);
    let late = engine(fedhaf_with(|_| ()), 3);
    let participant = always.last().participant.clone();
    let shards: Vec<_> = (0..3).map(|task| deal(&late.ctx, &late.view(task), 2)).collect();
    let client = participant.client.index();
    let last = always.last();
    let mut member = Member {
        phase: 0,
        download: Arc::new(Message::from_body(&last.down, &last.assets).unwrap()),
        state: Body::default(),
        shard: Arc::clone(&shards[2][client]),
        key: participant.key(1, fedcast::quantity::Round(2)),
        missed: [0, 1]
            .map(|task| MissedTask {
                task: TaskId(task),
                shard: Arc::clone(&shards[task as usize][client]),
            })
            .into(),
        participant,
    };
    let outcome = late.method.train(std::slice::from_mut(&mut member), &late.ctx).remove(0);
    let exemplars =
        outcome.unwrap().metrics.iter().find(|(name, _)| *name == "exemplars").unwrap().1;
    assert!(exemplars > 0.0);
    assert_eq!(member.state.digest(), kept(&always, client).digest());
}

/// Stage 2 is the only one that moves the module after the first task, and without its losses there is none.
#[test]
fn without_its_losses_the_module_stays() {
    let moves = |change: fn(&mut FedHaf)| {
        let run = trained(change, 2, 1);
        let exchange = run.last();
        let (download, upload) = (&exchange.down, exchange.up.as_ref().unwrap());
        let module =
            |body: &Body| parameters_of(body).unwrap().filter(|n| n.starts_with("adjust."));
        module(download) != module(upload)
    };
    assert!(moves(|_| ()));
    assert!(!moves(|c| (c.lambda_fd, c.lambda_fb) = (0.0, 0.0)));
    assert!(!moves(|c| c.retention = 0.0), "nothing to distil on");
    assert!(moves(|c| (c.stages, c.lambda_fd, c.lambda_fb) = (Stages::One, 0.0, 0.0)));
}

/// Invariant 1 over a whole round: stage 1 leaves the module, stage 2 leaves the head, running statistics included,
/// and the extractor stays.
#[test]
fn each_stage_moves_its_own_network() {
    let features = |run: &Engine| {
        let batch =
            run.ctx.statistics_loader(&deal(&run.ctx, &run.view(0), 1)[0]).in_order(8).next();
        let pixels = run.ctx.pixels(&batch.unwrap().unwrap()).unwrap();
        run.ctx.backbone.frozen(&pixels, FrozenPart::Whole).unwrap().to_vec2::<f32>().unwrap()
    };
    let before = features(&engine(fedhaf_with(|_| ()), 2));
    // The first task is alike; in the second one has a second stage and one has none.
    let two = trained(|_| (), 2, 1);
    let first_only = trained(|c| (c.lambda_fd, c.lambda_fb) = (0.0, 0.0), 2, 1);
    let network = |body: &Body, module: bool| {
        parameters_of(body).unwrap().filter(|name| name.starts_with("adjust.") == module)
    };
    let (both, first) = (two.last(), first_only.last());
    assert_eq!(parameters_of(&both.down).unwrap(), parameters_of(&first.down).unwrap());
    let (download, both, first) =
        (&both.down, both.up.as_ref().unwrap(), first.up.as_ref().unwrap());
    assert_eq!(network(first, true), network(download, true), "stage 1 left the module");
    assert_eq!(network(both, false), network(first, false), "stage 2 left the head");
    assert_ne!(network(first, false), network(download, false), "stage 1 moved the head");
    assert_ne!(network(both, true), network(download, true), "stage 2 moved the module");
    assert_eq!(features(&two), before);
}

/// Table 2 of the paper: every ablation is a separate run.
#[test]
fn every_ablation_changes_the_run() {
    let changes: [fn(&mut FedHaf); 9] = [
        |_| (),
        |c| c.stages = Stages::One,
        |c| c.supervision = Supervision::All,
        |c| c.lambda_kd = 0.0,
        |c| c.lambda_fd = 0.0,
        |c| c.lambda_fb = 0.0,
        |c| c.module = false,
        |c| c.reinitialize = true,
        |c| c.exemplars_in_ce = false,
    ];
    let ends = changes.map(|change| trained(change, 2, 1).server.save().digest());
    for (at, end) in ends.iter().enumerate() {
        assert!(!ends[..at].contains(end), "ablation {at}");
    }
    let paper = FedHaf::default();
    assert_eq!(
        (paper.lambda_ce, paper.lambda_kd, paper.lambda_fd, paper.lambda_fb),
        (1.0, 1.0, 2.0, 1.0)
    );
    assert_eq!(
        (paper.retention, paper.herding, paper.stages),
        (0.2, Herding::Nearest, Stages::Two)
    );
}

/// Returns distances that a client of the second task changed.
///
/// They are how far its module took old samples from the previous module's features, how far its norms of new and old
/// classes are apart, and how far its old outputs are from the previous model's, by both models' running moments. All
/// exemplars are kept, nothing is dropped.
fn second_task(change: impl Fn(&mut FedHaf)) -> [f64; 3] {
    let mut run = engine(
        fedhaf_with(|config| {
            (config.retention, config.dropout, config.squares) = (1.0, 0.0, Squares::Sum);
            (config.batch_norm, config.exemplars_in_ce) = (BatchNormMode::Running, false);
            change(config);
        }),
        2,
    );
    run.ctx.training = TrainingPlan { epochs: 6, ..plan(OptimizerConfig::sgd(0.02)) };
    let shards = [0, 1].map(|task| deal(&run.ctx, &run.view(task), 1));
    let pixels = [0, 1].map(|task| {
        let all = run.ctx.statistics_loader(&shards[task][0]).in_order(1_000).next();
        run.ctx.pixels(&all.unwrap().unwrap()).unwrap()
    });
    let rows = |run: &Engine, of: &dyn Fn(&dyn Predictor) -> Tensor| {
        of(&*run.server.predictor(&run.ctx).unwrap()).to_vec2::<f32>().unwrap()
    };
    let adjusted =
        |run: &Engine, task: usize| rows(run, &|model| model.features(&pixels[task]).unwrap());
    let outputs = |run: &Engine| {
        let scope = Scope::Task(run.view(0).rows.clone());
        rows(run, &|model| model.scores(&pixels[0], &scope).unwrap())
    };
    run.task(0, &shards[0], 4);
    let (features, target) = (adjusted(&run, 0), outputs(&run));
    run.task(1, &shards[1], 1);
    let squares = |x: &[f32]| x.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let apart = |(one, other): (&Vec<f32>, &Vec<f32>)| {
        let gap: Vec<f32> = one.iter().zip(other).map(|(a, b)| a - b).collect();
        squares(&gap)
    };
    let drift = mean(adjusted(&run, 0).iter().zip(&features).map(apart).collect());
    let norm = |task| mean(adjusted(&run, task).iter().map(|x| squares(x).sqrt()).collect());
    let softmax = |z: &[f32]| -> Vec<f64> {
        let powers: Vec<f64> = z.iter().map(|z| f64::from(*z).exp()).collect();
        powers.iter().map(|p| p / powers.iter().sum::<f64>()).collect()
    };
    let divergence = |(own, target): (&Vec<f32>, &Vec<f32>)| {
        let (own, target) = (softmax(own), softmax(target));
        own.iter().zip(target).map(|(p, q)| p * (p / q).ln()).sum::<f64>()
    };
    let outputs = mean(outputs(&run).iter().zip(&target).map(divergence).collect());
    [drift, (norm(1) - norm(0)).abs(), outputs]
}

/// Every loss has its effect.
///
/// The balance brings norms of old and new classes together and moves the module; the distillation of features holds
/// it where it was; that of outputs holds the head.
#[test]
fn every_loss_pulls_where_it_should() {
    let with = |kd: f64, fd: f64, fb: f64| {
        second_task(|c| (c.lambda_kd, c.lambda_fd, c.lambda_fb) = (kd, fd, fb))
    };
    let [still, unequal, _] = with(1.0, 0.0, 0.0);
    let [moved, equal, _] = with(1.0, 0.0, 1.0);
    let [held, ..] = with(1.0, 4.0, 1.0);
    assert_eq!(still, 0.0, "nothing moves the module");
    assert!(equal < 0.5 * unequal, "norms {equal} apart, {unequal} without the balance");
    assert!(moved > 0.0 && held < 0.5 * moved, "{held} from the teacher, {moved} without it");
    let [.., distilled] = with(4.0, 0.0, 0.0);
    let [.., free] = with(0.0, 0.0, 0.0);
    assert!(distilled < 0.9 * free, "outputs {distilled} from the teacher's, {free} without it");
}

/// Appendix C: the second task begins from networks drawn again, not those of the first task, and the model that
/// teaches is the one that was learned. A server that is loaded within a task does not draw again.
#[test]
fn networks_can_be_redrawn_at_each_task() {
    let run = trained(|c| (c.reinitialize, c.batch_norm) = (true, BatchNormMode::Batch), 2, 2);
    let initial = |task: usize| {
        let first = run.exchanges.iter().find(|exchange| exchange.task == task).unwrap();
        parameters_of(&first.down).unwrap()
    };
    let second = run.exchanges.iter().find(|exchange| exchange.task == 1).unwrap();
    let teacher = parameters_of(&second.assets[0].body).unwrap();
    let (one, other) = (initial(0), initial(1));
    for (name, start) in other.iter() {
        let [first, left] = [&one, &teacher].map(|set| &set.get(name).unwrap().values);
        if name.ends_with("norm.running_var") || name.ends_with("norm.weight") {
            assert!(start.values.iter().all(|v| *v == 1.0), "{name}");
        } else if name.ends_with("weight") {
            assert!(start.values != *first && start.values != *left, "{name}");
            let deviation = |values: &[f32]| {
                (values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32).sqrt()
            };
            let inputs = start.shape[1] as f32;
            let expected = (2.0 / inputs).sqrt();
            assert!((deviation(&start.values) / expected - 1.0).abs() < 0.35, "{name}");
        } else {
            assert!(start.values.iter().all(|v| *v == 0.0), "{name}");
        }
    }
    let later: Vec<_> = run.exchanges.iter().filter(|exchange| exchange.task == 1).collect();
    assert_ne!(parameters_of(&later[2].down).unwrap(), other, "the second round goes on");
    let stage = |task| Stage::of(run.view(task), 2);
    let mut server = run.method.server(&run.ctx, StreamKey::new(SEED, Domain::Init)).unwrap();
    server.begin_stage(&stage(0), &run.ctx).unwrap();
    server.end_stage(&stage(0), &run.ctx).unwrap();
    let before = server.save().digest();
    server.begin_stage(&stage(1), &run.ctx).unwrap();
    let drawn = server.save();
    assert_ne!(drawn.digest(), before);
    let mut again = run.method.server(&run.ctx, StreamKey::new(SEED, Domain::Init)).unwrap();
    again.load(&through_the_wire(&drawn)).unwrap();
    again.begin_stage(&stage(1), &run.ctx).unwrap();
    assert_eq!(again.save().digest(), drawn.digest());
}

/// Rows of classes to come can be left out of messages in either way without changing the result.
#[test]
fn lean_and_growing_messages_change_no_result() {
    let end = |form: WireForm, head: HeadForm| {
        let facts = ModelFacts { form, ..facts() };
        let config = FedHaf {
            module_hidden: 24,
            module_width: 12,
            head_hidden: 10,
            head_form: head,
            ..FedHaf::default()
        };
        let method = built(config, &facts);
        let run = Engine::new(method, facts, run_context(3, ClassPermutation::Native)).run(2, 1);
        let saved = run.server.save();
        parameters_of(&Body::new(Vec::new(), saved.sections[..2].to_vec())).unwrap()
    };
    let full = end(WireForm::Full, HeadForm::Fixed);
    for (form, head) in [
        (WireForm::Full, HeadForm::Growing),
        (WireForm::Lean, HeadForm::Fixed),
        (WireForm::Lean, HeadForm::Growing),
    ] {
        assert_eq!(end(form, head), full, "{form:?} {head:?}");
    }
}

/// Section 6 and subtlety 4: everything is a mean weighted by samples of the task, running statistics included;
/// exemplars do not count.
#[test]
fn the_mean_is_by_samples_of_the_task_and_over_everything() {
    let mut run = engine(fedhaf_with(|_| ()), 2);
    let thirds = |run: &Engine, task: usize| {
        let thirds = deal(&run.ctx, &run.view(task), 3);
        let mut two = [thirds[0].to_vec(), thirds[1].to_vec()].concat();
        two.sort_unstable();
        [two.into(), Arc::clone(&thirds[2])]
    };
    for task in 0..2 {
        let shards = thirds(&run, task);
        run.task(task, &shards, 1);
    }
    let sent: Vec<_> = run.exchanges[2..]
        .iter()
        .map(|exchange| parameters_of(exchange.up.as_ref().unwrap()).unwrap())
        .collect();
    let saved = run.server.save();
    let mean = parameters_of(&Body::new(Vec::new(), saved.sections[..2].to_vec())).unwrap();
    for (name, parameter) in mean.iter() {
        let [one, other] = [0, 1].map(|client| &sent[client].get(name).unwrap().values);
        let expected = one.iter().zip(other.iter()).map(|(a, b)| (2.0 * a + b) / 3.0);
        let expected: Vec<f32> = expected.collect();
        assert!(far(&expected, &parameter.values) < 1e-5, "{name}");
        if name.starts_with("head.norm.running") {
            assert_ne!(one, other, "{name}");
        }
    }
}

/// Invariant 7.
#[test]
fn the_mean_of_one_client_is_its_model() {
    let mut run = engine(fedhaf_with(|_| ()), 1);
    run.ctx.training = plan(OptimizerConfig::sgd(0.05));
    let run = run.run(1, 2);
    let up = parameters_of(run.last().up.as_ref().unwrap()).unwrap();
    let up: Vec<f32> = up.iter().flat_map(|(_, p)| p.values.to_vec()).collect();
    let saved = run.server.save();
    let server = Body::new(Vec::new(), saved.sections[..2].to_vec());
    assert_eq!(far(&up, &values(&server)), 0.0);
}
