//! Promise: HGP, FedAvg and Joint keep every invariant of their method cards, on a tiny network.
//! (Mixture weights, means of parameters, the zero prefix and the normalised loss are tested
//! beside their code.)

mod toys;

use std::ops::Range;
use std::sync::Arc;

use candle_core::Device;
use fedcast::data::{ClassOrder, Shard};
use fedcast::learning::{Classifier, OptimiserConfig, TrainingPlan, train};
use fedcast::methods::HeadForm;
use fedcast::methods::fedavg::{self, FedAvg, FedAvgConfig, Train};
use fedcast::methods::hgp::{CovarianceForm, Hgp, HgpConfig, Rebalance};
use fedcast::methods::joint::{Joint, JointConfig};
use fedcast::model::{LinearHead, ParameterSet, VitConfig, ops};
use fedcast::policy::{
    AnyMethod, ClassCounts, ExchangeSketch, ModelFacts, SketchFacts, WireForm, erase, parameters_of,
};
use fedcast::wire::{Body, BodySketch, Codec, CodecPlan, FrameSize, Kind};
use toys::round_loop::{Engine, SEED};
use toys::{CLASSES, deal, facts, lab, plan, rows_of};

/// A small HGP: six prompt rows in both blocks, few draws.
fn hgp(change: impl Fn(&mut HgpConfig)) -> Arc<dyn AnyMethod> {
    erase(Hgp::new(small(change), &facts()))
}

fn small(change: impl Fn(&mut HgpConfig)) -> HgpConfig {
    let mut config = HgpConfig {
        prompt_len: 6,
        samples_per_class: 64,
        rebalance_batch: 32,
        ..HgpConfig::default()
    };
    change(&mut config);
    config
}

fn fedavg_of(train: Train) -> Arc<dyn AnyMethod> {
    let config = FedAvgConfig { train, prompt_len: 6, ..FedAvgConfig::default() };
    erase(FedAvg::new(config, &facts()))
}

fn joint_of(train: Train, keep_optimiser: bool) -> Arc<dyn AnyMethod> {
    let learning = FedAvgConfig { train, ..FedAvgConfig::default() };
    erase(Joint::new(JointConfig { learning, keep_optimiser }, &facts()))
}

fn engine(method: Arc<dyn AnyMethod>, tasks: usize) -> Engine {
    Engine::new(method, facts(), lab(tasks, ClassOrder::Native))
}

/// The head's bits over some rows, weights then biases.
fn head(saved: &Body, rows: Range<usize>) -> Vec<u32> {
    let weight = rows_of(saved, Kind::Head, LinearHead::WEIGHT, rows.clone());
    weight.into_iter().chain(rows_of(saved, Kind::Head, LinearHead::BIAS, rows)).collect()
}

fn values(saved: &Body) -> Vec<f32> {
    let set = parameters_of(saved).unwrap();
    set.iter().flat_map(|(_, parameter)| parameter.values.to_vec()).collect()
}

fn far(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

// ---- bytes -----------------------------------------------------------------------------------

fn payload(sketch: &BodySketch) -> u64 {
    FrameSize::of_sketch(sketch, &CodecPlan::new(Codec::F32)).payload.0
}

/// The exchange of task `task` (of ten) on ViT-B/16 and CIFAR-100, all ten classes present.
fn on_cifar100(
    task: usize,
    form: WireForm,
    method: impl Fn(&ModelFacts) -> Arc<dyn AnyMethod>,
) -> ExchangeSketch {
    let vit = VitConfig::preset("vit-base-patch16-224").unwrap();
    let model = ModelFacts { vit, classes: 100, form };
    let curriculum = fedcast::data::Curriculum::new(
        100,
        &ClassOrder::Native,
        &fedcast::data::TaskSizes::Even(10),
    );
    let view = &curriculum.unwrap().tasks[task - 1];
    let counts: ClassCounts = view.rows.clone().map(|row| (row as u32, 50)).collect();
    let facts = SketchFacts { model: &model, view, phase: 0, round_in_phase: 0, counts: &counts };
    method(&model).sketch(&facts)
}

#[test]
fn hgp_sends_the_bytes_of_its_card() {
    let bytes = |head: HeadForm, form: WireForm, task: usize| {
        let config = HgpConfig { head, ..HgpConfig::default() };
        let sketch = on_cifar100(task, form, |facts| erase(Hgp::new(config.clone(), facts)));
        (payload(&sketch.down), payload(&sketch.up))
    };
    use HeadForm::{Fixed, Growing};
    use WireForm::{Full, Lean};
    for task in [1, 5, 10] {
        assert_eq!(bytes(Fixed, Full, task), (3_379_600, 3_441_084));
        assert_eq!(bytes(Fixed, Lean, task), (3_379_600, 3_164_244));
        assert_eq!(bytes(Growing, Lean, task).1, 3_164_244);
    }
    assert_eq!(bytes(Growing, Full, 1), (3_102_760, 3_164_244));
    assert_eq!(bytes(Growing, Full, 10), (3_379_600, 3_441_084));
    let full = HgpConfig { covariance: CovarianceForm::Full, ..HgpConfig::default() };
    let up = on_cifar100(1, Full, |facts| erase(Hgp::new(full.clone(), facts))).up;
    assert_eq!(payload(&up), 3_379_604 + 10 * 4 * (1 + 768 + 768 * 769 / 2));
    let bare = HgpConfig { prompt: false, ..HgpConfig::default() };
    let down = on_cifar100(1, Full, |facts| erase(Hgp::new(bare.clone(), facts))).down;
    assert_eq!(payload(&down), 307_600);
}

#[test]
fn fedavg_sends_the_bytes_of_its_card() {
    let bytes = |train: Train, head: HeadForm, task: usize| {
        let config = FedAvgConfig { train, head, ..FedAvgConfig::default() };
        let method = |facts: &ModelFacts| erase(FedAvg::new(config.clone(), facts));
        let sketch = on_cifar100(task, WireForm::Full, method);
        (payload(&sketch.down), payload(&sketch.up))
    };
    assert_eq!(bytes(Train::All, HeadForm::Fixed, 1), (343_502_224, 343_502_228));
    assert_eq!(bytes(Train::All, HeadForm::Growing, 1), (343_225_384, 343_225_388));
    assert_eq!(bytes(Train::All, HeadForm::Growing, 10), (343_502_224, 343_502_228));
    assert_eq!(bytes(Train::Head, HeadForm::Growing, 1), (30_760, 30_764));
    assert_eq!(bytes(Train::Head, HeadForm::Growing, 10), (307_600, 307_604));
}

#[test]
fn kinds_say_what_the_bytes_are_for() {
    let sketch =
        on_cifar100(1, WireForm::Full, |facts| erase(Hgp::new(HgpConfig::default(), facts)));
    let kinds = FrameSize::of_sketch(&sketch.up, &CodecPlan::new(Codec::F32)).kinds;
    assert_eq!(kinds.get(Kind::Prompt).0, 5 * 200 * 768 * 4);
    assert_eq!(kinds.get(Kind::Head).0, 769 * 100 * 4);
    assert_eq!(kinds.get(Kind::Prototypes).0, 10 * 4 * (2 * 768 + 1));
    assert_eq!(kinds.get(Kind::Statistics).0, 4);
}

/// The engine of these tests compares every message with its sketch.
#[test]
fn messages_equal_their_sketches_in_every_form() {
    for form in [WireForm::Full, WireForm::Lean] {
        for head in [HeadForm::Fixed, HeadForm::Growing] {
            for covariance in [CovarianceForm::Diagonal, CovarianceForm::Full] {
                let facts = ModelFacts { form, ..facts() };
                let config = small(|c| (c.head, c.covariance) = (head, covariance));
                let method = erase(Hgp::new(config, &facts));
                let run = Engine::new(method, facts, lab(3, ClassOrder::Native)).run(2, 1);
                assert!(run.exchanges.iter().all(|exchange| exchange.up.is_ok()));
            }
        }
    }
}

#[test]
fn lean_and_growing_messages_change_no_result() {
    let run = |form: WireForm, head: HeadForm| {
        let facts = ModelFacts { form, ..facts() };
        let method = erase(Hgp::new(small(|c| c.head = head), &facts));
        Engine::new(method, facts, lab(3, ClassOrder::Native)).run(2, 2).server.save().digest()
    };
    let full = run(WireForm::Full, HeadForm::Fixed);
    assert_eq!(run(WireForm::Lean, HeadForm::Fixed), full);
    assert_eq!(run(WireForm::Full, HeadForm::Growing), full);
    assert_eq!(run(WireForm::Lean, HeadForm::Growing), full);
}

// ---- gradients -------------------------------------------------------------------------------

/// Every declared trainable gets a gradient that is present, finite and not all zero.
#[test]
fn every_trainable_trains() {
    let lab = lab(3, ClassOrder::Native);
    for method in
        [hgp(|_| ()), fedavg_of(Train::All), fedavg_of(Train::Head), fedavg_of(Train::Prompt)]
    {
        let run = Engine::new(method, facts(), lab.clone());
        let received = parameters_of(&run.server.save()).unwrap();
        let model = Classifier::trainable(&lab.backbone, &received, 2..4).unwrap();
        let shard = deal(&lab, &run.view(1), 1).remove(0);
        let batch = lab.train_loader(&shard).in_order(16).next().unwrap().unwrap();
        let loss = model.masked_loss(&lab.pixels(&batch).unwrap(), batch.labels()).unwrap();
        let gradients = loss.backward().unwrap();
        assert_eq!(model.variables().len(), received.len());
        for (name, variable) in model.variables() {
            let gradient = gradients.get(variable).unwrap_or_else(|| panic!("{name}: none"));
            let gradient = gradient.flatten_all().unwrap().to_vec1::<f32>().unwrap();
            assert!(gradient.iter().all(|g| g.is_finite()), "{name} is not finite");
            assert!(gradient.iter().any(|g| *g != 0.0), "{name} is all zero");
        }
    }
}

/// Protocol 9.5: the masked loss gives rows outside the task a gradient of exactly zero, so
/// leaving those rows out altogether is the same.
#[test]
fn the_mask_keeps_other_rows_out() {
    let lab = lab(3, ClassOrder::Native);
    let run = Engine::new(fedavg_of(Train::Head), facts(), lab.clone());
    let received = parameters_of(&run.server.save()).unwrap();
    let shard = deal(&lab, &run.view(1), 1).remove(0);
    let batch = lab.train_loader(&shard).in_order(16).next().unwrap().unwrap();
    let pixels = lab.pixels(&batch).unwrap();

    let whole = Classifier::trainable(&lab.backbone, &received, 0..CLASSES).unwrap();
    let logits = whole.logits(&whole.features(&pixels).unwrap()).unwrap();
    let masked = ops::cross_entropy(&logits, batch.labels(), 2..4).unwrap();
    let part = Classifier::trainable(&lab.backbone, &received, 2..4).unwrap();
    let own = part.masked_loss(&pixels, batch.labels()).unwrap();
    let number = |loss: &candle_core::Tensor| loss.to_scalar::<f32>().unwrap();
    assert!((number(&masked) - number(&own)).abs() < 1e-6);

    let rows = |model: &Classifier, loss: &candle_core::Tensor| -> Vec<Vec<f32>> {
        let (_, weight) =
            model.variables().iter().find(|(n, _)| &**n == LinearHead::WEIGHT).unwrap();
        loss.backward().unwrap().get(weight).unwrap().to_vec2().unwrap()
    };
    let (all, some) = (rows(&whole, &masked), rows(&part, &own));
    for row in [0, 1, 4, 5] {
        assert!(all[row].iter().all(|g| *g == 0.0), "row {row}");
    }
    assert!(far(&all[2..4].concat(), &some.concat()) < 1e-6);
}

// ---- HGP -------------------------------------------------------------------------------------

/// Invariant 3: without rebalancing and prompt, HGP is FedAvg on a linear probe.
#[test]
fn hgp_without_prompt_and_rebalancing_is_a_linear_probe() {
    let bare = |c: &mut HgpConfig| (c.prompt, c.rebalance) = (false, Rebalance::None);
    let hgp = engine(hgp(bare), 3).run(3, 2);
    let probe = engine(fedavg_of(Train::Head), 3).run(3, 2);
    assert_eq!(head(&hgp.server.save(), 0..CLASSES), head(&probe.server.save(), 0..CLASSES));
    assert_eq!(hgp.tally(CLASSES), probe.tally(CLASSES));
    // With the prompt it is FedAvg on prompt and head.
    let hgp = engine(self::hgp(|c| c.rebalance = Rebalance::None), 3).run(3, 1);
    let prompted = engine(fedavg_of(Train::Prompt), 3).run(3, 1);
    assert_eq!(head(&hgp.server.save(), 0..CLASSES), head(&prompted.server.save(), 0..CLASSES));
}

/// Invariant 3: with one client the mean is what that client sent.
#[test]
fn the_mean_of_one_client_is_its_upload() {
    let run = engine(hgp(|c| c.rebalance = Rebalance::None), 2).run(1, 1);
    let up = run.last().up.as_ref().unwrap();
    assert!(far(&values(up), &values(&run.server.save())) < 1e-7);
}

/// Invariant 6: each kind of rebalancing moves its own rows and nothing else.
#[test]
fn rebalancing_moves_its_own_rows_only() {
    let mut begun = engine(hgp(|_| ()), 3);
    let shards = deal(&begun.lab, &begun.view(0), 3);
    begun.task(0, &shards, 2);
    let second = |mode: Rebalance| {
        let mut run = engine(hgp(|c| c.rebalance = mode), 3);
        run.server.load(&begun.server.save()).unwrap();
        run.round = begun.round;
        let shards = deal(&run.lab, &run.view(1), 3);
        run.task(1, &shards, 1);
        run.server.save()
    };
    let plain = second(Rebalance::None);
    let bits = |body: &Body, kind| -> Vec<u32> {
        body.of_kind(kind).flat_map(|t| t.as_f32().unwrap().iter().map(|v| v.to_bits())).collect()
    };
    for (mode, moved) in
        [(Rebalance::Old, 0..2), (Rebalance::Current, 2..4), (Rebalance::Both, 0..4)]
    {
        let saved = second(mode);
        assert_eq!(bits(&saved, Kind::Prompt), bits(&plain, Kind::Prompt), "{mode:?}: prompt");
        for row in 0..CLASSES {
            let same = head(&saved, row..row + 1) == head(&plain, row..row + 1);
            assert_eq!(same, !moved.contains(&row), "{mode:?}: row {row}");
        }
    }
    // In the first task there is nothing old.
    let first = |mode| engine(hgp(|c| c.rebalance = mode), 3);
    let shards = deal(&begun.lab, &begun.view(0), 3);
    let [mut old, mut none] = [Rebalance::Old, Rebalance::None].map(first);
    old.task(0, &shards, 1);
    none.task(0, &shards, 1);
    assert_eq!(old.server.save().digest(), none.server.save().digest());
}

/// Invariant 7: a class with a single sample is never described.
#[test]
fn a_single_sample_gives_no_gaussian() {
    let mut run = engine(hgp(|_| ()), 3);
    let by_class = run.lab.dataset.train.by_class();
    let mut one_of_class_1: Vec<u32> = by_class[0][..5].to_vec();
    one_of_class_1.push(by_class[1][0]);
    one_of_class_1.sort_unstable();
    let shards: [Shard; 2] = [one_of_class_1.into(), by_class[0][5..7].into()];
    run.task(0, &shards, 1);
    let counts: Vec<Vec<u32>> = run
        .exchanges
        .iter()
        .map(|e| e.up.as_ref().unwrap().tensor(Kind::Prototypes, "counts").unwrap())
        .map(|counts| counts.as_u32().unwrap().to_vec())
        .collect();
    assert_eq!(counts, [[5], [2]], "class 1 has one sample");
    // Nobody described class 1, so its row was not drawn; the server still goes on.
    assert!(run.server.save().is_finite());
    // A client without two samples of any class sends no Gaussian at all.
    let mut run = engine(hgp(|_| ()), 3);
    let pair: [Shard; 1] = [[0, 1].into()];
    run.task(0, &pair, 1);
    assert_eq!(run.last().up.as_ref().unwrap().of_kind(Kind::Prototypes).count(), 0);
}

/// Rebalancing does what it is for: skewed clients forget less.
#[test]
fn rebalancing_helps_when_tasks_arrive() {
    let accuracy =
        |mode: Rebalance| engine(hgp(|c| c.rebalance = mode), 3).run(2, 3).accuracy(CLASSES);
    let (none, both) = (accuracy(Rebalance::None), accuracy(Rebalance::Both));
    assert!(both > none + 0.1, "none {none}, both {both}");
}

#[test]
fn a_loaded_server_goes_on_as_if_it_had_never_stopped() {
    for method in [hgp(|_| ()), hgp(|c| c.covariance = CovarianceForm::Full), fedavg_of(Train::All)]
    {
        let whole = Engine::new(Arc::clone(&method), facts(), lab(2, ClassOrder::Native)).run(2, 1);
        let mut begun = Engine::new(Arc::clone(&method), facts(), lab(2, ClassOrder::Native));
        let shards = deal(&begun.lab, &begun.view(0), 2);
        begun.task(0, &shards, 1);
        let mut resumed = Engine::new(method, facts(), lab(2, ClassOrder::Native));
        resumed.server.load(&begun.server.save()).unwrap();
        resumed.round = begun.round;
        let shards = deal(&resumed.lab, &resumed.view(1), 2);
        resumed.task(1, &shards, 1);
        assert_eq!(resumed.server.save().digest(), whole.server.save().digest());
    }
}

/// The client's own model before synchronisation is the one it sent.
#[test]
fn a_client_predicts_with_what_it_sent() {
    let method = hgp(|c| c.rebalance = Rebalance::None);
    let run = engine(Arc::clone(&method), 2).run(1, 1);
    let last = run.last();
    let down = method.unpack_down(&last.down).unwrap();
    let up = method.unpack_up(last.up.as_ref().unwrap()).unwrap();
    let own = method.client_predictor(&down, &up, &run.lab).unwrap().unwrap();
    // One client, no rebalancing: the server's model is the client's.
    assert_eq!(toys::round_loop::tally(&*own, &run.lab, CLASSES), run.tally(CLASSES));
}

// ---- FedAvg ----------------------------------------------------------------------------------

/// Invariant 1: one client is central training with the optimiser made anew every round.
#[test]
fn one_client_is_central_training() {
    for what in [Train::All, Train::Prompt] {
        let run = engine(fedavg_of(what), 2).run(1, 2);
        let fresh = engine(fedavg_of(what), 2);
        let mut parameters = parameters_of(&fresh.server.save()).unwrap();
        for (round, exchange) in run.exchanges.iter().enumerate() {
            let view = run.view(exchange.task);
            let model = Classifier::trainable(&run.lab.backbone, &parameters, view.rows.clone());
            let model = model.unwrap();
            let shard = deal(&run.lab, &view, 1).remove(0);
            let key = exchange.seat.key(SEED, fedcast::quantity::Round(round as u32));
            let loader = run.lab.train_loader(&shard);
            train(&run.lab.training, &loader, model.variables(), key, |batch| {
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

/// Invariant 3: one full-batch SGD step, averaged by sample counts, is one step on all data.
#[test]
fn one_sgd_step_averaged_is_one_step_on_all_data() {
    let run = |clients: usize| {
        let mut run = engine(fedavg_of(Train::All), 3);
        run.lab.training =
            TrainingPlan { epochs: 1, batch: 1_000, clip: None, ..plan(OptimiserConfig::sgd(0.1)) };
        let all = deal(&run.lab, &run.view(0), 1).remove(0);
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
    run.lab.training = plan(OptimiserConfig::adamw(1e-2).weight_decay(0.1));
    for task in 0..3 {
        let before = run.server.save();
        let shards = deal(&run.lab, &run.view(task), 2);
        run.task(task, &shards, 2);
        let after = run.server.save();
        for row in 0..CLASSES {
            let same = head(&before, row..row + 1) == head(&after, row..row + 1);
            assert_eq!(same, !run.view(task).rows.contains(&row), "task {task}, row {row}");
        }
    }
}

/// Invariants 4 and 6, through the whole method: equal weights, and the order of clients.
#[test]
fn weights_are_counts_or_equal() {
    let upload = |value: f32, samples: u32| {
        let mut set = ParameterSet::new();
        for (name, shape) in [(LinearHead::WEIGHT, vec![6, 16]), (LinearHead::BIAS, vec![6])] {
            let values = vec![value; shape.iter().product()].into();
            set.insert(name, fedcast::model::Parameter { shape, values });
        }
        fedavg::Up { parameters: set, first_row: 0, samples }
    };
    use fedcast::methods::fedavg::Weights::{BySamples, Uniform};
    use fedcast::policy::{Method, Part, UpMeta};
    let run = engine(fedavg_of(Train::Head), 3).run(1, 1);
    let meta =
        UpMeta { seat: run.last().seat.clone(), base: fedcast::quantity::Round(0), staleness: 0 };
    for (weights, mean) in [(BySamples, 4.0), (Uniform, 3.0)] {
        let config = FedAvgConfig { train: Train::Head, weights, ..FedAvgConfig::default() };
        let method = FedAvg::new(config, &facts());
        let down = fedavg::Down { parameters: upload(0.0, 0).parameters };
        let parts = [upload(1.0, 10), upload(5.0, 30), upload(100.0, 0)];
        let parts = parts.map(|up| method.lift(&down, up, &meta).unwrap());
        let folded = parts.into_iter().reduce(Part::merge).unwrap().apply(&down.parameters);
        assert_eq!(folded, upload(mean, 0).parameters, "{weights:?}");
    }
}

// ---- Joint -----------------------------------------------------------------------------------

/// Invariant 1: Joint is FedAvg with one client and one task; keeping the optimiser is the only
/// difference, and none in the first round.
#[test]
fn joint_is_fedavg_with_one_client_and_one_task() {
    let run = |method, rounds| engine(method, 1).run(1, rounds).server.save().digest();
    let (kept, anew) = (|| joint_of(Train::All, true), || joint_of(Train::All, false));
    assert_eq!(run(kept(), 1), run(fedavg_of(Train::All), 1));
    assert_eq!(run(anew(), 3), run(fedavg_of(Train::All), 3));
    assert_ne!(run(kept(), 3), run(anew(), 3));
    assert!(!kept().stateless() && !kept().charged() && fedavg_of(Train::All).charged());
}

/// With one optimiser for the run, rounds of one epoch and SGD with momentum are one training.
#[test]
fn the_optimiser_goes_on_from_round_to_round() {
    let mut run = engine(joint_of(Train::Head, true), 1);
    let plan =
        TrainingPlan { epochs: 1, batch: 1_000, ..plan(OptimiserConfig::sgd(0.1).momentum(0.9)) };
    run.lab.training = plan.clone();
    let rounds = run.run(1, 4);
    let fresh = engine(joint_of(Train::Head, true), 1);
    let received = parameters_of(&fresh.server.save()).unwrap();
    let model = Classifier::trainable(&fresh.lab.backbone, &received, 0..CLASSES).unwrap();
    let shard = deal(&fresh.lab, &fresh.view(0), 1).remove(0);
    let key = rounds.exchanges[0].seat.key(SEED, fedcast::quantity::Round(0));
    // Full batches: the order of samples changes only the last bits.
    let plan = TrainingPlan { epochs: 4, ..plan };
    train(&plan, &fresh.lab.train_loader(&shard), model.variables(), key, |batch| {
        model.masked_loss(&batch.pixels(&Device::Cpu)?, batch.labels())
    })
    .unwrap();
    let central = model.parameters().unwrap();
    let central: Vec<f32> = central.iter().flat_map(|(_, p)| p.values.to_vec()).collect();
    assert!(far(&central, &values(&rounds.server.save())) < 1e-5);
}

/// Invariant 2: the order of classes only renames head rows. With the initial rows renamed
/// alike, every test image gets the same class.
#[test]
fn the_order_of_classes_only_renames_rows() {
    let native = engine(joint_of(Train::Head, true), 1);
    let mut renamed =
        Engine::new(joint_of(Train::Head, true), facts(), lab(1, ClassOrder::Seeded(4)));
    let order = renamed.lab.curriculum.order.clone();
    assert_ne!(order, (0..CLASSES as u32).collect::<Vec<_>>());
    let start = parameters_of(&native.server.save()).unwrap();
    let permuted = start.iter().map(|(name, parameter)| {
        let width: usize = parameter.shape[1..].iter().product();
        let rows = order.iter().map(|class| *class as usize);
        let values = rows.flat_map(|row| parameter.values[row * width..(row + 1) * width].to_vec());
        let shape = parameter.shape.clone();
        (Arc::clone(name), fedcast::model::Parameter { shape, values: values.collect() })
    });
    let permuted: ParameterSet = permuted.collect();
    let saved = Body::new(Vec::new(), fedcast::policy::parameter_sections(&permuted));
    renamed.server.load(&saved).unwrap();
    let (native, renamed) = (native.run(1, 2), renamed.run(1, 2));
    let (a, b) = (native.server.save(), renamed.server.save());
    for (row, class) in order.iter().map(|class| *class as usize).enumerate() {
        let of = |body: &Body, row: usize| -> Vec<f32> {
            head(body, row..row + 1).into_iter().map(f32::from_bits).collect()
        };
        assert!(far(&of(&a, class), &of(&b, row)) < 1e-4, "class {class}");
    }
    assert_eq!(native.accuracy(CLASSES), renamed.accuracy(CLASSES));
}

/// Invariant 3: micro accuracy is the sample-weighted mean over any groups of classes.
#[test]
fn micro_accuracy_is_the_weighted_mean_over_task_groups() {
    let run = engine(joint_of(Train::Head, true), 1).run(1, 1);
    let tally = run.tally(CLASSES);
    let groups = [0..2, 2..5, 5..6].map(|rows: Range<usize>| {
        (tally.accuracy(rows.clone()), tally.total[rows].iter().sum::<u64>() as f64)
    });
    let mean = groups.iter().map(|(a, n)| a * n).sum::<f64>() / tally.samples() as f64;
    assert!((mean - tally.accuracy(0..CLASSES)).abs() < 1e-12);
}

/// Invariant 4: on a frozen backbone, full batches and a small rate, the loss only falls, and
/// with weight decay every start ends at the same head.
#[test]
fn softmax_regression_is_convex() {
    let run = |scale: f32, rounds: u32| {
        let mut run = engine(joint_of(Train::Head, true), 1);
        run.lab.training = TrainingPlan {
            epochs: 1,
            batch: 1_000,
            clip: None,
            ..plan(OptimiserConfig::sgd(0.05).weight_decay(0.5))
        };
        let start = parameters_of(&run.server.save()).unwrap();
        let scaled = start.iter().map(|(name, parameter)| {
            let values = parameter.values.iter().map(|v| scale * v).collect();
            let shape = parameter.shape.clone();
            (Arc::clone(name), fedcast::model::Parameter { shape, values })
        });
        let saved = Body::new(Vec::new(), fedcast::policy::parameter_sections(&scaled.collect()));
        run.server.load(&saved).unwrap();
        run.run(1, rounds)
    };
    let (a, b) = (run(1.0, 300), run(-3.0, 300));
    let apart = far(&values(&a.server.save()), &values(&b.server.save()));
    assert!(apart < 1e-3, "two starts end {apart} apart");

    let mut falling = engine(joint_of(Train::Head, true), 1);
    falling.lab.training =
        TrainingPlan { epochs: 1, batch: 1_000, clip: None, ..plan(OptimiserConfig::sgd(0.02)) };
    let falling = falling.run(1, 40);
    let losses: Vec<f64> = falling.exchanges.iter().map(|e| e.metrics[1].1).collect();
    assert!(losses.windows(2).all(|pair| pair[1] < pair[0] + 1e-7), "{losses:?}");
    assert!(losses[39] < 0.95 * losses[0]);
}

/// Joint refuses any other federation, and says what to set.
#[test]
fn joint_refuses_other_federations() {
    use fedcast::scenario::Scenario;
    let registry = fedcast::methods::Registry::builtin();
    let text = |clients: u32, tasks: u32| {
        format!(
            "schema = 1\n[data]\nsource = \"digits\"\n[tasks]\ncount = {tasks}\n[method]\nname = \"joint\"\n\
             [backbone]\nweights = \"embedded\"\n[federation]\nclients = {clients}\n[partition]\nkind = \"iid\"\n"
        )
    };
    let reading = |clients, tasks| {
        let folder = std::path::Path::new(".");
        let read = Scenario::from_toml(&text(clients, tasks), "j", folder, &[], &registry);
        read.map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(reading(1, 1), Ok(()));
    let error = reading(10, 5).unwrap_err();
    assert!(error.contains("`federation.clients = 1`"), "{error}");
    assert!(error.contains("`tasks.count = 1`"), "{error}");
    assert!(error.contains("clients = 10\n"), "shows the line: {error}");
}
