//! The invariants of RegMean and LoRM: what is merged by least squares, what is averaged, what stays.

use std::sync::Arc;

use candle_core::{Device, Tensor};
use fedcast::data::{ClassPermutation, Shard, TaskView};
use fedcast::learning::{Classifier, OptimizerConfig, TrainingPlan};
use fedcast::methods::fedavg::FedAvg;
use fedcast::methods::lorm::{Factors, Lorm};
use fedcast::methods::parts::AveragingMethod;
use fedcast::methods::regmean::RegMean;
use fedcast::methods::regression::Unseen;
use fedcast::model::{
    Backbone, Factor, LinearHead, LinearLayer, LoraPlace, Parameter, ParameterSet, Vit, is_lora,
    lora_name,
};
use fedcast::numerics::regression_mean::{SecondMoments, regression_mean};
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::numerics::symmetric::Symmetric;
use fedcast::policy::{
    ClassCounts, Disclosures, ExchangeFacts, Member, Message, MessageKind, Method, Predictor,
    RunContext, parameters_of,
};
use fedcast::wire::{Body, Kind};

use crate::toys::watched::{Engine, Exchange};
use crate::toys::{config, deal, facts, first_exchange, plan, run_context};
use crate::{built, engine};

fn set(saved: &Body) -> ParameterSet {
    parameters_of(saved).unwrap()
}

/// First task of this number of clients, for this number of rounds.
fn after(method: impl AveragingMethod, clients: usize, rounds: u32) -> Engine {
    let mut run = engine(built(method, &facts()), 3);
    let shards = deal(&run.ctx, &run.view(0), clients);
    run.task(0, &shards, rounds);
    run
}

fn regmean(gamma: f64) -> RegMean {
    let mut method = RegMean::default();
    (method.statistics.gamma_backbone, method.statistics.gamma_head) = (gamma, gamma);
    method
}

pub fn lorm(change: impl Fn(&mut Lorm)) -> Lorm {
    let mut method = Lorm { rank: 2, ..Lorm::default() };
    change(&mut method);
    method
}

fn far(a: &ParameterSet, b: &ParameterSet) -> f32 {
    let gaps = a.iter().map(|(name, a)| {
        let b = &b.get(name).unwrap().values;
        a.values.iter().zip(b.iter()).fold(0f32, |gap, (a, b)| gap.max((a - b).abs()))
    });
    gaps.fold(0.0, f32::max)
}

/// Features of the samples of the first task, by the server.
fn answers(run: &Engine) -> Vec<f32> {
    answers_of(run, &*run.server.predictor(&run.ctx).unwrap())
}

fn answers_of(run: &Engine, predictor: &dyn Predictor) -> Vec<f32> {
    let shard = deal(&run.ctx, &run.view(0), 1).remove(0);
    let batch = run.ctx.train_loader(&shard).in_order(shard.len()).next().unwrap().unwrap();
    let features = predictor.features(&run.ctx.pixels(&batch).unwrap()).unwrap();
    features.flatten_all().unwrap().to_vec1().unwrap()
}

fn apart(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).fold(0f32, |gap, (a, b)| gap.max((a - b).abs()))
}

/// RegMean card, invariants 1 and 2: one client is FedAvg, by diagonals to the number, by whole matrices in what it
/// answers on its own samples; what is not linear is averaged.
#[test]
fn regmean_of_one_client_is_fedavg() {
    let fedavg = after(FedAvg::default(), 1, 1);
    let diagonal = after(regmean(0.0), 1, 1);
    let gap = far(&set(&diagonal.server.save()), &set(&fedavg.server.save()));
    assert!(gap < 1e-5, "{gap}");
    let full = after(regmean(1.0), 1, 1);
    let gap = apart(&answers(&full), &answers(&fedavg));
    assert!(gap < 1e-2, "{gap}");
}

#[test]
fn regmean_merges_linear_layers_and_averages_the_rest() {
    let fedavg = set(&after(FedAvg::default(), 2, 1).server.save());
    let merged = set(&after(regmean(0.5), 2, 1).server.save());
    let linear = |name: &str| {
        name == "head.weight"
            || name.starts_with("blocks.") && name.ends_with(".weight") && !name.contains("norm")
    };
    for (name, own) in merged.iter() {
        let same = *own == *fedavg.get(name).unwrap();
        assert_eq!(same, !linear(name), "{name}");
    }
    let digest = |change: &dyn Fn(&mut RegMean)| {
        let mut method = regmean(0.5);
        change(&mut method);
        after(method, 2, 1).server.save().digest()
    };
    let usual = digest(&|_| ());
    // A triangle says what the matrix says.
    assert_eq!(digest(&|own| own.statistics.symmetric = true), usual);
    assert_ne!(digest(&|own| own.statistics.gamma_head = 0.1), usual);
    assert_ne!(digest(&|own| own.statistics.gamma_backbone = 1.0), usual);
}

/// Shards of a task of which the first client has two thirds.
fn uneven(run: &Engine, task: usize) -> Vec<Shard> {
    let [one, other, third] = &deal(&run.ctx, &run.view(task), 3)[..] else { panic!("three") };
    let mut both = [&one[..], other].concat();
    both.sort_unstable();
    vec![both.into(), third.clone()]
}

/// Returns what the clients of a round of the first task sent, and its start.
fn round(run: &Engine, number: usize) -> (ParameterSet, Vec<Body>) {
    let of_round = &run.exchanges[2 * number..][..2];
    let upload = |exchange: &Exchange| exchange.up.as_ref().unwrap().clone();
    (set(&of_round[0].down), of_round.iter().map(upload).collect())
}

fn wide(set: &ParameterSet, name: &str) -> Vec<f64> {
    set.get(name).unwrap().values.iter().map(|value| f64::from(*value)).collect()
}

/// Moments of a layer in an upload: `inputs` numbers, or their square.
fn moments(upload: &Body, weight: &str) -> Vec<f64> {
    upload.tensor(Kind::Statistics, &format!("moments/{weight}")).unwrap().numbers()
}

fn assert_near(found: &[f64], wanted: &[f64], what: &str) {
    assert_eq!(found.len(), wanted.len(), "{what}");
    let scale = wanted.iter().fold(1e-3f64, |most, value| most.max(value.abs()));
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() < 1e-4 * scale, "{what}: {found} instead of {wanted}");
    }
}

/// Moments of a client are of images as it trains on them, by the model that it sends.
#[test]
fn moments_are_of_training_images_by_the_trained_model() {
    let ctx = crate::gaussians::apart();
    let mut run = Engine::new(built(regmean(1.0), &facts()), facts(), ctx);
    let shards = deal(&run.ctx, &run.view(0), 2);
    run.task(0, &shards, 1);
    let upload = run.exchanges[0].up.as_ref().unwrap();
    let model = Classifier::frozen(&run.ctx.backbone, &set(upload)).unwrap();
    let mut wanted = vec![0.0; 16 * 16];
    for batch in run.ctx.train_loader(&shards[0]).in_order(16) {
        let features = model.batch_features(&batch.unwrap(), &run.ctx.device).unwrap();
        for feature in features.to_vec2::<f32>().unwrap() {
            for (at, sum) in wanted.iter_mut().enumerate() {
                *sum += f64::from(feature[at / 16]) * f64::from(feature[at % 16]);
            }
        }
    }
    assert_near(&moments(upload, LinearHead::WEIGHT), &wanted, "moments of the head");
}

/// Of four samples no head sees all directions. Seen ones answer as least squares say; unseen ones lose their weight,
/// or keep what they had.
#[test]
fn unseen_features_follow_the_setting() {
    for unseen in [Unseen::Zero, Unseen::Keep] {
        let method = RegMean { unseen, ..regmean(1.0) };
        let mut run = engine(built(method, &facts()), 3);
        let [first, second] = &deal(&run.ctx, &run.view(0), 2)[..] else { panic!("two") };
        run.task(0, &[first[..3].to_vec().into(), second[..1].to_vec().into()], 1);
        let (before, uploads) = round(&run, 0);
        let before = wide(&before, LinearHead::WEIGHT);
        let mut total = SecondMoments::Full(Symmetric::zeros(16));
        let mut products = vec![0.0; before.len()];
        for upload in &uploads {
            let all = moments(upload, LinearHead::WEIGHT);
            let own = SecondMoments::Full(Symmetric::from_full(16, &all).unwrap());
            total.add(&own);
            let mut weights = wide(&set(upload), LinearHead::WEIGHT);
            if unseen == Unseen::Keep {
                weights.iter_mut().zip(&before).for_each(|(own, before)| *own -= before);
            }
            let product = own.after(&weights);
            products.iter_mut().zip(product).for_each(|(sum, own)| *sum += own);
        }
        let cut = total.rounding(f64::from(f32::EPSILON));
        let mut wanted = regression_mean(&products, &total, cut).unwrap();
        if unseen == Unseen::Keep {
            wanted.iter_mut().zip(&before).for_each(|(value, before)| *value += before);
        }
        let found = wide(&set(&run.server.save()), LinearHead::WEIGHT);
        assert_near(&found, &wanted, &format!("{unseen:?}"));
        assert!(found.iter().zip(&before).any(|(a, b)| (a - b).abs() > 1e-3), "nothing was learnt");
    }
}

/// Sums for a factor: of A answers to what enters the layer, `(rank, inputs)`, of B answers to what A makes of it,
/// `(outputs, rank)`.
#[test]
fn lorm_adds_answers_to_what_enters_each_factor() {
    let (model, counts) = (facts(), ClassCounts::new());
    let (method, run) = (built(lorm(|_| ()), &model), engine(built(lorm(|_| ()), &model), 3));
    let view = run.view(0);
    let shapes = |round_in_phase| -> Vec<Vec<usize>> {
        let shape = ExchangeFacts { round_in_phase, ..first_exchange(&model, &view, &counts) };
        let extra = method.message_spec(MessageKind::Contribution, &shape).extra;
        let of_pairs = extra.iter().filter(|place| place.shape.contains(&2));
        of_pairs.map(|place| place.shape.to_vec()).collect()
    };
    let (b, a) = (shapes(0), shapes(1));
    assert!(!a.is_empty() && a.iter().all(|shape| shape[0] == 2 && shape[1] >= 16), "{a:?}");
    assert!(!b.is_empty() && b.iter().all(|shape| shape[1] == 2), "{b:?}");
}

/// LoRM card, invariants 2 and 6: rounds take turns, one client's factor is the server's, and a task begins with B = 0.
#[test]
fn lorm_trains_one_factor_a_round() {
    let start = set(&engine(built(lorm(|_| ()), &facts()), 3).server.save());
    let one = after(lorm(|_| ()), 2, 1);
    let two = after(lorm(|_| ()), 2, 2);
    let (first, second) = (set(&one.server.save()), set(&two.server.save()));
    for (name, factor) in start.iter().filter_map(|(name, _)| Some((name, Factor::of(name)?))) {
        let moved = |a: &ParameterSet, b: &ParameterSet| a.get(name) != b.get(name);
        assert_eq!(moved(&start, &first), factor == Factor::B, "{name} in round 1");
        assert_eq!(moved(&first, &second), factor == Factor::A, "{name} in round 2");
    }
    // Uploads hold the factor that trains.
    for exchange in two.exchanges.iter().filter(|exchange| exchange.phase == "train") {
        let up = set(exchange.up.as_ref().unwrap());
        let factors: std::collections::BTreeSet<bool> =
            up.iter().filter_map(|(name, _)| Factor::of(name)).map(|f| f == Factor::A).collect();
        assert_eq!(factors.len(), 1);
    }
    let alone = after(lorm(|own| own.statistics.gamma_head = 0.0), 1, 1);
    let sent = set(alone.exchanges[0].up.as_ref().unwrap());
    let gap = far(&sent, &set(&alone.server.save()));
    assert!(gap < 1e-3, "{gap}");
    let only = |factors| set(&after(lorm(|own| own.factors = factors), 1, 2).server.save());
    let a = start.filter(|name| Factor::of(name) == Some(Factor::A));
    assert_eq!(far(&a, &only(Factors::B)), 0.0);
    let b = start.filter(|name| Factor::of(name) == Some(Factor::B));
    assert_eq!(far(&b, &only(Factors::A)), 0.0);
    assert!(b.iter().all(|(_, b)| b.values.iter().all(|value| *value == 0.0)));
}

/// One step by one image: an upload moves along the gradient of that image by the factor of its round and the head, with
/// the other factor left out; a gradient by the factor that stayed would be 0, or point elsewhere.
#[test]
fn lorm_discloses_the_factor_that_its_round_trained() {
    let mut run = engine(built(lorm(|own| own.b_lr = 4.0), &facts()), 3);
    let sgd = TrainingPlan { clip: None, epochs: 1, ..plan(OptimizerConfig::sgd(0.1)) };
    run.ctx.training = sgd;
    let view = run.view(0);
    let class = view.classes[1];
    let sample = run.ctx.dataset.train.by_class()[class as usize][3];
    let shard: Shard = [sample].into();
    run.task(0, std::slice::from_ref(&shard), 2);
    let trained: Vec<&Exchange> =
        run.exchanges.iter().filter(|exchange| exchange.phase == "train").collect();
    assert_eq!(trained.len(), 2);
    let transform = &run.ctx.statistics_transform;
    let stacked = run.ctx.dataset.train.pixels(transform, &[sample]).unwrap();
    let pixels = Tensor::from_vec(stacked.pixels, &stacked.shape, &Device::Cpu).unwrap();
    for (exchange, factor) in trained.into_iter().zip([Factor::B, Factor::A]) {
        let member = Member {
            participant: exchange.participant.clone(),
            phase: 0,
            download: Arc::new(Message::from_body(&exchange.down, &exchange.assets).unwrap()),
            state: Body::default(),
            shard: shard.clone(),
            key: StreamKey::new(0, Domain::Method),
            missed: Vec::new(),
        };
        let upload = Message::from_body(exchange.up.as_ref().unwrap(), &[]).unwrap();
        let inspection = run.method.inspection().unwrap();
        let found = inspection.disclosures(&member, &upload, &run.ctx).unwrap();
        let Some(Disclosures::Update { matching, classes }) = found else {
            panic!("nothing of round {factor:?}: {found:?}")
        };
        assert_eq!(classes.len(), 1);
        assert_eq!((classes[0].row, classes[0].samples), (1, 1));
        let values = |tensor: &Tensor| tensor.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let update = values(matching.update());
        let gradient = values(&matching.gradient(&pixels, classes[0].label).unwrap());
        let product = |a: &[f32], b: &[f32]| {
            a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
        };
        let lengths = product(&update, &update) * product(&gradient, &gradient);
        let cosine = product(&update, &gradient) / lengths.sqrt();
        assert!(cosine > 0.999, "{factor:?}: {cosine}");
        // What moved is the factor of the round and the head.
        let sent = upload.parameters;
        let received = parameters_of(&exchange.down).unwrap();
        let moved = |name: &str, parameter: &Parameter| {
            let before = &received.get(name).unwrap().values;
            let moves = parameter.values.iter().zip(before.iter());
            let all = moves.map(|(after, before)| f64::from(before - after).powi(2)).sum::<f64>();
            all / if Factor::of(name) == Some(Factor::B) { 16.0 } else { 1.0 }
        };
        let of_factor: f64 = sent
            .iter()
            .filter(|(name, _)| Factor::of(name) == Some(factor))
            .map(|(name, parameter)| moved(name, parameter))
            .sum();
        let of_head: f64 = sent
            .iter()
            .filter(|(name, _)| Factor::of(name).is_none())
            .map(|(name, parameter)| moved(name, parameter))
            .sum();
        let length = product(&update, &update);
        assert!(of_factor > 1e-9 * length, "{factor:?} moved");
        assert!((of_factor + of_head - length).abs() < 1e-3 * length, "{factor:?}: {length}");
    }
}

/// The linear layers of both blocks, with their pairs' places.
fn layers() -> impl Iterator<Item = (usize, LoraPlace, String)> {
    (0..2).flat_map(|block| {
        LinearLayer::ALL.map(|layer| (block, LoraPlace::at(layer), layer.weight(block)))
    })
}

/// `sum_m X_m diag(g_m) Y^T` over clients, `X_m` `(rows, n)` and `Y` `(columns, n)`, row-major.
fn weighed(clients: &[(Vec<f64>, Vec<f64>)], y: &[f64]) -> Vec<Vec<f64>> {
    let n = clients[0].1.len();
    let entry = |x: &[f64], y: &[f64], g: &[f64]| -> f64 {
        x.iter().zip(y).zip(g).map(|((x, y), g)| x * g * y).sum()
    };
    let row = |at: usize| {
        let column = |y: &[f64]| {
            clients.iter().map(|(x, g)| entry(&x[at * n..(at + 1) * n], y, g)).sum::<f64>()
        };
        y.chunks(n).map(column).collect()
    };
    (0..clients[0].0.len() / n).map(row).collect()
}

/// LoRM card, section 6, by value and for two clients that hold unlike: `B (A G A^T) = sum_m B_m A G_m A^T`, `A` is a
/// mean by diagonals, the head solves its normal equations, its bias counts samples.
#[test]
fn lorm_merges_by_what_enters_each_layer() {
    let mut run = engine(built(lorm(|_| ()), &facts()), 3);
    let shards = uneven(&run, 0);
    run.task(0, &shards, 2);
    let ((start, first), (middle, second)) = (round(&run, 0), round(&run, 1));
    let end = set(&run.server.save());
    for (block, place, weight) in layers() {
        let [a, b] = [Factor::A, Factor::B].map(|factor| lora_name(block, place, factor));
        let common = wide(&start, &a);
        let inputs = common.len() / 2;
        // B_m A, which is what answers.
        let answering = |upload: &Body| -> (Vec<f64>, Vec<f64>) {
            let own = wide(&set(upload), &b);
            let dense = own.chunks(2).flat_map(|row| {
                let both = |at: usize| row[0] * common[at] + row[1] * common[inputs + at];
                (0..inputs).map(both).collect::<Vec<f64>>()
            });
            (dense.collect(), moments(upload, &weight))
        };
        let clients: Vec<_> = first.iter().map(answering).collect();
        let wanted = weighed(&clients, &common).concat();
        let total: Vec<_> =
            clients.iter().map(|(_, energies)| (common.clone(), energies.clone())).collect();
        let [p, q] = &weighed(&total, &common)[..] else { panic!("of rank 2") };
        let merged = wide(&middle, &b);
        let through =
            merged.chunks(2).flat_map(|row| [0, 1].map(|at| row[0] * p[at] + row[1] * q[at]));
        assert_near(&through.collect::<Vec<_>>(), &wanted, &b);

        let energies: Vec<_> = second.iter().map(|upload| moments(upload, &weight)).collect();
        let factors: Vec<_> = second.iter().map(|upload| wide(&set(upload), &a)).collect();
        let mean = |at: usize| {
            let [one, other] = [0, 1].map(|client| energies[client][at % inputs]);
            (one * factors[0][at] + other * factors[1][at]) / (one + other)
        };
        assert_near(&wide(&end, &a), &(0..2 * inputs).map(mean).collect::<Vec<_>>(), &a);
    }
    let merged = wide(&end, LinearHead::WEIGHT);
    let mut left = vec![0.0; merged.len()];
    let mut size = 0f64;
    for upload in &second {
        let all = moments(upload, LinearHead::WEIGHT);
        let own = SecondMoments::Full(Symmetric::from_full(16, &all).unwrap());
        let gap: Vec<f64> = wide(&set(upload), LinearHead::WEIGHT)
            .iter()
            .zip(&merged)
            .map(|(w, own)| own - w)
            .collect();
        let gap = own.after(&gap);
        size = gap.iter().fold(size, |most, value| most.max(value.abs()));
        left.iter_mut().zip(gap).for_each(|(left, own)| *left += own);
    }
    assert!(size > 1e-2 && left.iter().all(|left| left.abs() < 1e-3 * size), "{size} {left:?}");
    let biases =
        second.iter().map(|upload| wide(&set(upload), LinearHead::BIAS)).collect::<Vec<_>>();
    let mean = biases[0].iter().zip(&biases[1]).map(|(a, b)| (2.0 * a + b) / 3.0);
    assert_near(&wide(&end, LinearHead::BIAS), &mean.collect::<Vec<_>>(), "bias");
}

/// A world in which every layer behind a norm sees one input at a ten-millionth of the others' energy.
fn dim_inputs() -> RunContext {
    let ctx = run_context(3, ClassPermutation::Native);
    let dim = ctx.backbone.parameters().unwrap();
    let dim = dim.iter().map(|(name, parameter)| {
        let mut parameter = parameter.clone();
        if name.contains("norm") && name.ends_with("weight") {
            let mut values = parameter.values.to_vec();
            values[5] *= 3e-4;
            parameter.values = values.into();
        }
        (Arc::clone(name), parameter)
    });
    let vit = Vit::from_parameters(config(), &dim.collect()).unwrap();
    RunContext { backbone: Arc::new(Backbone::from(vit)), ..ctx }
}

/// Models that did not move are merged to what they were. A direction with little energy belongs to them if off-diagonals
/// are shrunk; without that it is no more than rounding errors of f32, and loses its weight.
#[test]
fn small_directions_of_shrunk_moments_are_merged() {
    let gap = |gamma| {
        let still = plan(OptimizerConfig::sgd(0.0));
        let ctx = RunContext { training: still, ..dim_inputs() };
        let mut run = Engine::new(built(regmean(gamma), &facts()), facts(), ctx);
        let shards = deal(&run.ctx, &run.view(0), 2);
        run.task(0, &shards, 1);
        let (before, _) = round(&run, 0);
        far(&before, &set(&run.server.save()))
    };
    let (shrunk, whole) = (gap(0.5), gap(1.0));
    assert!(shrunk < 1e-4 && whole > 1e-2, "{shrunk} {whole}");
}

/// LoRM card, invariant 2, with shrunk moments: the factors of a lone client stay as it sent them, in each direction.
#[test]
fn small_directions_of_shrunk_moments_count_in_both_factors() {
    let gap = |gamma: f64, factor: Factor| {
        let method = lorm(|own| {
            own.rank = 16;
            own.statistics.gamma_backbone = gamma;
        });
        let mut run = Engine::new(built(method, &facts()), facts(), dim_inputs());
        let shards = deal(&run.ctx, &run.view(0), 1);
        let rounds = if factor == Factor::B { 1 } else { 2 };
        run.first_phase(0, &shards, rounds);
        let sent = set(run.last().up.as_ref().unwrap());
        let sent = sent.filter(|name| Factor::of(name) == Some(factor));
        far(&sent, &set(&run.server.save()))
    };
    for factor in [Factor::A, Factor::B] {
        let (shrunk, whole) = (gap(0.5, factor), gap(1.0, factor));
        assert!(shrunk < 1e-4 && whole > 1e-3, "{factor:?}: {shrunk} {whole}");
    }
}

/// LoRM card, section 6, the end of a task: `W0 + U V^+` with `U = sum_s B_s A_s G_s` and `V = sum_s G_s`, from what
/// was reported of each task.
#[test]
fn lorm_merges_tasks_by_what_was_reported_of_them() {
    let mut run = engine(built(lorm(|_| ()), &facts()), 3);
    let mut pairs = Vec::new();
    for task in 0..2 {
        let shards = uneven(&run, task);
        run.task(task, &shards, 2);
        pairs.push(set(&run.server.save()).filter(is_lora));
    }
    let reported = |task: usize, weight: &str| {
        let of = run.exchanges.iter().filter(|e| e.task == task && e.phase == "moments");
        let all: Vec<_> = of.map(|e| moments(e.up.as_ref().unwrap(), weight)).collect();
        assert_eq!(all.len(), 2);
        all[0].iter().zip(&all[1]).map(|(a, b)| a + b).collect::<Vec<f64>>()
    };
    let mut network = set(&run.server.save()).filter(|name| !is_lora(name));
    for (block, place, weight) in layers() {
        let energies = [0, 1].map(|task| reported(task, &weight));
        for factor in [Factor::A, Factor::B] {
            let name = lora_name(block, place, factor);
            let mut values = Vec::new();
            for (pair, own) in pairs.iter().zip(&energies) {
                let share = |at: usize| match factor {
                    Factor::B => 1.0,
                    Factor::A => {
                        let at = at % own.len();
                        own[at] / (energies[0][at] + energies[1][at])
                    }
                };
                let factor = wide(pair, &name).into_iter().enumerate();
                values.extend(factor.map(|(at, value)| (value * share(at)) as f32));
            }
            let shape = [&[2], pairs[0].get(&name).unwrap().shape.as_slice()].concat();
            network.insert(name, Parameter { shape, values: values.into() });
        }
    }
    let wanted = Classifier::frozen(&run.ctx.backbone, &network).unwrap();
    let gap = apart(&answers(&run), &answers_of(&run, &wanted));
    assert!(gap < 1e-4, "{gap}");
}

/// A client of a later task answers with what is left of earlier ones: before it has learned anything, as its server.
#[test]
fn a_client_of_lorm_remembers_earlier_tasks() {
    let mut run = engine(built(lorm(|_| ()), &facts()), 3);
    let shards = uneven(&run, 0);
    run.task(0, &shards, 2);
    run.ctx.training = plan(OptimizerConfig::sgd(0.0));
    let shards = uneven(&run, 1);
    run.first_phase(1, &shards, 1);
    let (view, counts) = (run.view(1), ClassCounts::new());
    let facts = facts_of(&run, &view, &counts);
    let exchange = run.last();
    let message = |body: &Body| Message::from_body(body, &exchange.assets).unwrap();
    let (sent, own) = (message(&exchange.down), message(exchange.up.as_ref().unwrap()));
    let inspection = run.method.inspection().unwrap();
    let own = inspection.local_model(&facts, &sent, &own, &run.ctx).unwrap().expect("it answers");
    let found = answers_of(&run, &*own);
    assert!(apart(&found, &answers(&run)) < 1e-5);
    let forgetful = engine(built(lorm(|_| ()), &self::facts()), 3);
    assert!(apart(&found, &answers(&forgetful)) > 1e-3, "nothing was learnt");
}

fn facts_of<'a>(
    run: &'a Engine,
    view: &'a Arc<TaskView>,
    counts: &'a ClassCounts,
) -> ExchangeFacts<'a> {
    first_exchange(&run.facts, view, counts)
}

/// LoRM card, invariants 6 and 7: after one task it answers by that task's update, as a second begins by half of it,
/// and after the second by both, weighed by moments.
#[test]
fn lorm_keeps_tasks_apart_and_merges_them() {
    let mut run = after(lorm(|_| ()), 2, 1);
    let features = |run: &Engine| answers(run);
    let first = features(&run);
    let plain = {
        let fresh = engine(built(lorm(|_| ()), &facts()), 3);
        features(&fresh)
    };
    assert_ne!(first, plain);
    let shards = deal(&run.ctx, &run.view(1), 2);
    run.first_phase(1, &shards, 2);
    let within = features(&run);
    let pairs = set(&run.server.save()).filter(is_lora);
    let mut whole = after(lorm(|_| ()), 2, 1);
    whole.task(1, &shards, 2);
    assert_eq!(set(&whole.server.save()).filter(is_lora), pairs, "reports change no parameter");
    assert_ne!(features(&whole), within, "moments weigh what was a mean");
    let gap = apart(&features(&whole), &within);
    assert!(gap < 1.0, "{gap}");
    // Clients of a second task get the pairs of the first, once.
    let named = whole.exchanges.iter().filter(|exchange| exchange.task == 1);
    assert!(named.clone().count() > 0 && named.clone().all(|exchange| exchange.assets.len() == 1));
    assert!(whole.exchanges.iter().filter(|e| e.task == 0).all(|e| e.assets.is_empty()));

    // What is saved is loaded whole: it answers alike and saves the same.
    let saved = whole.server.save();
    let mut loaded = engine(built(lorm(|_| ()), &facts()), 3);
    loaded.server.load(&saved).unwrap();
    assert_eq!(loaded.server.save().digest(), saved.digest());
    assert_eq!(features(&loaded), features(&whole));
}

/// Within the third task the server answers by a third of every task's update: `W0 + (sum_{s<=3} B_s A_s) / 3`.
#[test]
fn lorm_answers_by_the_mean_of_three_tasks() {
    let mut run = engine(built(lorm(|_| ()), &facts()), 3);
    let mut pairs = Vec::new();
    for task in 0..3 {
        let shards = deal(&run.ctx, &run.view(task), 2);
        if task < 2 {
            run.task(task, &shards, 2);
        } else {
            run.first_phase(task, &shards, 2);
        }
        pairs.push(set(&run.server.save()).filter(is_lora));
    }
    let network_of = |part: f32| {
        let mut network = set(&run.server.save()).filter(|name| !is_lora(name));
        for (block, place, _) in layers() {
            for (factor, scale) in [(Factor::A, 1.0), (Factor::B, part)] {
                let name = lora_name(block, place, factor);
                let own = |pair: &ParameterSet| wide(pair, &name);
                let values = pairs.iter().flat_map(own).map(|value| value as f32 * scale).collect();
                let shape = [&[3], pairs[0].get(&name).unwrap().shape.as_slice()].concat();
                network.insert(name, Parameter { shape, values });
            }
        }
        Classifier::frozen(&run.ctx.backbone, &network).unwrap()
    };
    let found = answers(&run);
    let gap = apart(&found, &answers_of(&run, &network_of(1.0 / 3.0)));
    assert!(gap < 1e-5, "{gap}");
    assert!(apart(&found, &answers_of(&run, &network_of(0.5))) > 1e-3, "nothing was learnt");
}

/// All methods that learn pairs, for tests of packs.
pub fn pairs() -> Vec<Arc<dyn Method>> {
    let of_fedavg = FedAvg { train: fedcast::methods::fedavg::Train::Lora, ..FedAvg::default() };
    vec![built(of_fedavg, &facts()), crate::pilora::pilora(|_| ()), built(lorm(|_| ()), &facts())]
}
