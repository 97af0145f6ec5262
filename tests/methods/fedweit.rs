//! The invariants of FedWEIT that are seen from outside: who sends and receives what, and whose parts answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::Tensor;
use fedcast::data::ClassPermutation;
use fedcast::learning::{OptimizerConfig, TrainingPlan};
use fedcast::methods::fedweit::{FedWeit, FedWeitMethod, SplitLayers};
use fedcast::model::{BackboneConfig, ParameterSet};
use fedcast::policy::{
    ClassCounts, ExchangeFacts, MessageKind, Method, ModelFacts, RoundContext, RoundWork, Scope,
    Stage, UploadSize, WireForm, one_participant_per_client, parameters_of,
};
use fedcast::quantity::ClientId;
use fedcast::wire::{Body, Codec, CodecPlan, FrameSize, Kind, MetaReader, TensorValues};

use crate::toys::watched::{Engine, Exchange};
use crate::toys::{deal, facts, first_exchange, plan, run_context};
use crate::{client_passes, engine};

fn method(change: impl Fn(&mut FedWeit)) -> Arc<dyn Method> {
    on(change, &facts())
}

fn on(change: impl Fn(&mut FedWeit), model: &ModelFacts) -> Arc<dyn Method> {
    let mut config = FedWeit { validation: 0.25, ..FedWeit::default() };
    change(&mut config);
    Arc::new(FedWeitMethod::new(config, model))
}

fn head(config: &mut FedWeit) {
    config.train = SplitLayers::Head;
}

fn at_rate(method: Arc<dyn Method>, rate: f64) -> Engine {
    let mut engine = engine(method, 3);
    engine.ctx.training = plan(OptimizerConfig::adamw(rate));
    engine.ctx.training.clip = None;
    engine
}

fn of<'e>(engine: &'e Engine, task: usize, phase: &str) -> Vec<&'e Exchange> {
    let own = engine.exchanges.iter().filter(|one| one.task == task && one.phase == phase);
    own.collect()
}

fn up(exchange: &Exchange) -> &Body {
    exchange.up.as_ref().expect("an upload")
}

/// Numbers of an upload of training by layer, `None` where they were not sent.
fn sent(exchange: &Exchange) -> BTreeMap<String, Vec<Option<f32>>> {
    let layers = parameters_of(&exchange.down).unwrap();
    let TensorValues::U8(bits) = up(exchange).tensor(Kind::Settings, "units").unwrap().values()
    else {
        panic!("bits are bytes");
    };
    let values = up(exchange).tensor(Kind::Weights, "values").unwrap().as_f32().unwrap();
    let (mut unit, mut next, mut found) = (0, 0, BTreeMap::new());
    for (name, layer) in layers.iter() {
        let (units, mut own) = (layer.shape[0], Vec::new());
        let width = layer.values.len() / units;
        for _ in 0..units {
            let is_sent = bits[unit / 8] >> (unit % 8) & 1 == 1;
            unit += 1;
            for _ in 0..width {
                own.push(is_sent.then(|| values[next]));
                next += usize::from(is_sent);
            }
        }
        found.insert(name.to_string(), own);
    }
    assert_eq!(next, values.len());
    found
}

/// Card, invariants 3 and 5: the next download is the mean over those who sent a number, and zero for none.
#[test]
fn downloads_are_means_over_senders() {
    let engine = at_rate(method(|_| ()), 3e-3).tasks(1, 2, 2);
    let train = of(&engine, 0, "train");
    let uploads: Vec<_> = train[..2].iter().map(|exchange| sent(exchange)).collect();
    let next = parameters_of(&train[2].down).unwrap();
    let (mut zeros, mut means, mut copies) = (0, 0, 0);
    for (name, layer) in next.iter() {
        for (at, value) in layer.values.iter().enumerate() {
            let numbers: Vec<f32> =
                uploads.iter().filter_map(|upload| upload[&**name][at]).collect();
            match numbers[..] {
                [] => zeros += usize::from(*value == 0.0),
                [only] => copies += usize::from((only - value).abs() <= 1e-6 * only.abs()),
                [a, b] => means += usize::from(((a + b) / 2.0 - value).abs() <= 1e-6),
                _ => panic!("two clients"),
            }
        }
    }
    assert!(zeros > 0 && means > 0 && copies > 0);
    assert_eq!(zeros + means + copies, next.flat_length(), "every number is one of the three");
    for (name, layer) in next.iter() {
        let units = layer.shape[0];
        let count = uploads[0][&**name].iter().filter(|one| one.is_some()).count();
        let limit = (0.3 * units as f64).floor() as usize;
        assert_eq!(count * units / layer.values.len(), units - limit - 1, "{name}");
    }
    assert_eq!(engine.metrics[0].get("sent_fraction").map(|part| *part < 1.0), Some(true));
}

/// The knowledge base holds what both clients reported as the task before ended, and is one for a whole task.
#[test]
fn a_task_has_the_knowledge_of_the_task_before() {
    for change in [(|_| ()) as fn(&mut FedWeit), head] {
        let engine = at_rate(method(change), 3e-3).run(2, 2);
        assert!(of(&engine, 0, "train").iter().all(|exchange| exchange.assets.is_empty()));
        let digests: Vec<u64> = (1..3)
            .map(|task| {
                let train = of(&engine, task, "train");
                assert_eq!(train.len(), 4);
                let asset = &train[0].assets[0];
                assert_eq!(
                    (&*asset.name, asset.version, asset.kind),
                    ("knowledge", task as u32, Kind::Weights)
                );
                assert!(train.iter().all(|one| one.assets[0].digest() == asset.digest()));
                assert_eq!(MetaReader::new(&asset.body.meta).u32s().unwrap(), [0, 1]);
                for exchange in of(&engine, task - 1, "share") {
                    let client = exchange.participant.client.0;
                    let own = up(exchange).tensor(Kind::Weights, "0.values").unwrap();
                    let lent = asset.body.tensor(Kind::Weights, &format!("{client}.values"));
                    let own = own.as_f32().unwrap();
                    assert_eq!(own, lent.unwrap().as_f32().unwrap());
                    assert!(own.iter().all(|value| value.abs() > 1e-3));
                }
                asset.digest()
            })
            .collect();
        assert_ne!(digests[0], digests[1]);
    }
}

/// Scores of the test samples within a task.
fn scores(engine: &Engine, task: usize) -> Vec<Vec<f32>> {
    let predictor = engine.server.predictor(&engine.ctx).unwrap();
    let pixels = pixels(engine);
    let scope = Scope::Task(engine.view(task).rows.clone());
    predictor.scores(&pixels, &scope).unwrap().to_vec2().unwrap()
}

fn pixels(engine: &Engine) -> Tensor {
    let dataset = Arc::clone(&engine.ctx.dataset.test);
    let samples: Vec<u32> = (0..12).collect();
    let stacked = dataset.pixels(&engine.ctx.statistics_transform, &samples).unwrap();
    Tensor::from_vec(stacked.pixels, stacked.shape.as_slice(), &engine.ctx.device).unwrap()
}

/// Card, invariant 6: where nothing moves, later tasks leave the answers of an earlier one as they are.
#[test]
fn answers_of_a_task_stay_where_nothing_moves() {
    for change in [(|_| ()) as fn(&mut FedWeit), head] {
        let mut engine = at_rate(method(change), 0.0);
        let mut first = Vec::new();
        for task in 0..3 {
            let shards = deal(&engine.ctx, &engine.view(task), 2);
            engine.task(task, &shards, 2);
            if task == 0 {
                first = scores(&engine, 0);
            }
            assert_eq!(scores(&engine, 0), first, "after task {task}");
        }
        let (second, third) = (scores(&engine, 1), scores(&engine, 2));
        assert!(first != second && second != third, "every task has parts of its own");
        // Without a task the heads stand side by side.
        let predictor = engine.server.predictor(&engine.ctx).unwrap();
        let all = predictor.scores(&pixels(&engine), &Scope::Seen(6)).unwrap();
        let all: Vec<Vec<f32>> = all.to_vec2().unwrap();
        let joined = |at: usize| [&first[at][..], &second[at], &third[at]].concat();
        assert!(all.iter().enumerate().all(|(at, row)| *row == joined(at)));
    }
}

/// Clients learn their task, and parts of earlier ones move only if they may.
#[test]
fn clients_learn_and_keep_what_they_learned() {
    let accuracy = |engine: &Engine, task: usize| {
        let (predictor, view) = (engine.server.predictor(&engine.ctx).unwrap(), engine.view(task));
        let transform = Arc::clone(&engine.ctx.statistics_transform);
        let found = engine.ctx.accuracy_within(view.rows.clone(), &transform, &*predictor);
        found.unwrap().expect("test samples")
    };
    let engine = at_rate(method(|config| config.sparsity = 1e-4), 3e-3).run(2, 4);
    for exchange in of(&engine, 1, "train") {
        let metric = |name: &str| {
            exchange.metrics.iter().find(|(other, _)| *other == name).expect("a metric").1
        };
        assert!(metric("loss_first").is_finite() && metric("validation_loss") > 0.0);
    }
    let mean = (0..3).map(|task| accuracy(&engine, task)).sum::<f64>() / 3.0;
    assert!(mean > 0.7, "{mean} of two classes a task");
    let past = |retroactive: bool| {
        let mut engine = at_rate(method(|config| config.retroactive = retroactive), 3e-3);
        let mut reports = Vec::new();
        for task in 0..2 {
            let shards = deal(&engine.ctx, &engine.view(task), 2);
            engine.task(task, &shards, 2);
            reports.push(up(of(&engine, task, "share")[0]).clone());
        }
        let masks = |body: &Body| -> Vec<(String, Vec<f32>)> {
            let all = body.tensors().filter(|(_, tensor)| tensor.name().starts_with("0.mask/"));
            all.map(|(_, t)| (t.name().to_string(), t.as_f32().unwrap().to_vec())).collect()
        };
        let rows = |body: &Body| MetaReader::new(&body.meta).u32s().unwrap();
        (rows(&reports[1]), masks(&reports[0]) != masks(&reports[1]))
    };
    assert_eq!(past(false).0, [2]);
    assert_eq!(past(true), (vec![0, 2], true));
}

/// A rate that makes nothing better falls by three after three rounds.
#[test]
fn the_rate_falls_after_rounds_without_a_better_loss() {
    let factors = |patience: u32| -> Vec<f64> {
        let engine = at_rate(method(|config| config.patience = patience), 0.0).tasks(1, 1, 5);
        let factor = |one: &&Exchange| {
            one.metrics.iter().find(|(name, _)| *name == "lr_factor").expect("a factor").1
        };
        of(&engine, 0, "train").iter().map(factor).collect()
    };
    let third = 1.0 / 3.0;
    assert_eq!(factors(3), [1.0, 1.0, 1.0, third, third]);
    assert_eq!(factors(2), [1.0, 1.0, third, third, third / 3.0]);
    let constant = at_rate(method(|config| config.validation = 0.0), 0.0).tasks(1, 1, 5);
    let metrics = &of(&constant, 0, "train")[4].metrics;
    assert!(metrics.contains(&("lr_factor", 1.0)));
    assert!(metrics.iter().all(|(name, _)| *name != "validation_loss"));
}

fn payload(body: &fedcast::wire::BodyShape) -> u64 {
    FrameSize::of_shape(body, &CodecPlan::new(Codec::F32)).payload.0
}

/// Card, section 4, on ResNet-18 and on the head of a ViT-B/16, which is wide as 768 features are.
#[test]
fn messages_have_the_bytes_of_the_card() {
    let of = |backbone: BackboneConfig, train: SplitLayers, task: usize| {
        let form = WireForm::Full;
        let model =
            ModelFacts { backbone, classes: 100, tasks: 10, clients: 5, form, auxiliary: None };
        let method = Arc::new(FedWeitMethod::new(FedWeit { train, ..FedWeit::default() }, &model));
        let rows = 10 * task..10 * task + 10;
        let classes = rows.clone().map(|row| row as u32).collect();
        let id = fedcast::quantity::TaskId(task as u16);
        let view = Arc::new(fedcast::data::TaskView { task: id, rows, classes });
        let counts = ClassCounts::new();
        let facts = first_exchange(&model, &view, &counts);
        let share = ExchangeFacts { phase: 1, ..facts.clone() };
        let down = method.message_spec(MessageKind::Download, &facts);
        let up = method.message_spec(MessageKind::Upload, &facts);
        assert_eq!(up.size, UploadSize::FromValues);
        let report = method.message_spec(MessageKind::Upload, &share);
        let assets: Vec<u64> = down.assets.iter().map(|asset| payload(&asset.body)).collect();
        let answers = report.extra.iter().filter(|place| place.kind == Kind::Statistics);
        let answers: usize = answers.map(|place| 4 * place.shape.iter().product::<usize>()).sum();
        let share = payload(&report.body()) - answers as u64;
        (payload(&down.body()), assets, payload(&up.body()), share)
    };
    // Ten units of 768: floor(0.3 * 10) and one more are left out.
    let vit = || fedcast::model::VitConfig::preset("vit-base-patch16-224").unwrap().into();
    let (numbers, bits) = (7_680u64, 960u64);
    assert_eq!(
        of(vit(), SplitLayers::Head, 0),
        (4 * numbers, vec![], 4 * 6 * 768 + 2, 4 * numbers + bits)
    );
    let assets = vec![5 * (4 * numbers + bits)];
    assert_eq!(of(vit(), SplitLayers::Head, 3).1, assets);
    // ResNet-18: of 64, 128, 256 and 512 filters 44, 89, 179 and 358 are sent.
    let resnet = || BackboneConfig::ResNet(Default::default());
    let model: Vec<Vec<usize>> = resnet().parameter_shapes().into_iter().map(|(_, s)| s).collect();
    let (mut base, mut sent, mut units) = (0, 0, 0);
    for shape in model.iter().filter(|shape| shape.len() == 4) {
        let width: usize = shape[1..].iter().product();
        let kept = match shape[0] {
            64 => 44,
            128 => 89,
            256 => 179,
            512 => 358,
            other => panic!("{other} filters"),
        };
        (base, sent, units) = (base + shape[0] * width, sent + kept * width, units + shape[0]);
    }
    let (down, assets, up, share) = of(resnet(), SplitLayers::Network, 1);
    let dense = 4 * base as u64 + (base as u64).div_ceil(8);
    assert_eq!((down, up), (4 * base as u64, 4 * sent as u64 + (units as u64).div_ceil(8)));
    assert_eq!((assets, share), (vec![5 * dense], dense));
}

/// Passes are over the samples that train, and every step composes all weights.
#[test]
fn work_counts_samples_and_compositions() {
    let plain = method(head);
    let plan = TrainingPlan { epochs: 2, batch: 8, ..TrainingPlan::default() };
    let view = |task: usize| {
        Arc::clone(&run_context(3, ClassPermutation::Native).task_sequence.tasks[task])
    };
    let steps = 2.0 * 5.0;
    let model = facts();
    // Two rows of sixteen features; two entries from the second task on, and earlier tasks.
    for (task, each) in [(0, 4), (1, 4 + 2 * 2 + 3), (2, 4 + 2 * 2 + 3 * 2)] {
        let wanted = 2.0 * 30.0 + 10.0 / 3.0 + model.passes(steps * (2 * 16 * each) as f64);
        let found = client_passes(&*plain, &view(task), 40, &plan);
        assert!((found - wanted).abs() < 1e-9, "{found} instead of {wanted}");
    }
    let stage = Stage::of(view(1), 3);
    let participant = &one_participant_per_client(&stage, &[ClientId(0)])[0];
    let work = RoundWork::Participant { participant, samples: 40, plan: &plan };
    assert_eq!(plain.cost(&RoundContext::alone(&stage, 1), &work), 0.0, "a report");
    let cost = plain.sample_cost(&model, &view(1), 0);
    let below = model.backbone.multiplications();
    assert_eq!((cost.forward, cost.backward), (below + 32.0, 32.0));
    assert_eq!(cost.inference, below + 4.0 * 32.0);
    let whole = method(|_| ()).sample_cost(&model, &view(0), 0);
    assert_eq!((whole.backward, whole.inference), (2.0 * whole.forward, 2.0 * whole.forward));
}

/// A server that saved and loaded answers and sends as before.
#[test]
fn servers_load_what_they_save() {
    let engine = at_rate(method(|_| ()), 3e-3).tasks(2, 2, 2);
    let saved = engine.server.save();
    let mut again = at_rate(method(|_| ()), 3e-3);
    again.server.load(&saved).unwrap();
    assert_eq!(again.server.save().digest(), saved.digest());
    assert_eq!(scores(&again, 1), scores(&engine, 1));
    let set: ParameterSet = parameters_of(&of(&engine, 1, "train")[0].down).unwrap();
    assert!(set.len() > 1);
}
