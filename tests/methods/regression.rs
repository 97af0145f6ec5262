//! The invariants of RegMean and LoRM: what is merged by least squares, what is averaged, what stays.

use std::sync::Arc;

use fedcast::methods::averaged::Averaged;
use fedcast::methods::fedavg::FedAvg;
use fedcast::methods::lorm::{Factors, Lorm};
use fedcast::methods::regmean::RegMean;
use fedcast::methods::regression::Unseen;
use fedcast::model::{Factor, ParameterSet, is_lora};
use fedcast::policy::{Method, parameters_of};
use fedcast::wire::Body;

use crate::toys::watched::Engine;
use crate::toys::{deal, facts};
use crate::{built, engine};

fn set(saved: &Body) -> ParameterSet {
    parameters_of(saved).unwrap()
}

/// The first task of so many clients, for so many rounds.
fn after(method: impl Averaged, clients: usize, rounds: u32) -> Engine {
    let mut run = engine(built(method, &facts()), 3);
    let shards = deal(&run.lab, &run.view(0), clients);
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

/// Logits of the samples of the first client of the first task.
fn answers(run: &Engine) -> Vec<f32> {
    let predictor = run.server.predictor(&run.lab).unwrap();
    let shard = deal(&run.lab, &run.view(0), 1).remove(0);
    let batch = run.lab.train_loader(&shard).in_order(shard.len()).next().unwrap().unwrap();
    let features = predictor.features(&run.lab.pixels(&batch).unwrap()).unwrap();
    features.flatten_all().unwrap().to_vec1().unwrap()
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
    let (own, other) = (answers(&full), answers(&fedavg));
    let gap = own.iter().zip(&other).fold(0f32, |gap, (a, b)| gap.max((a - b).abs()));
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

/// Of four samples no head sees all directions: what nobody sees loses its weight, or keeps it.
#[test]
fn what_nobody_sees_is_a_matter_of_the_key() {
    let head_of = |unseen| {
        let method = RegMean { unseen, ..regmean(1.0) };
        let mut run = engine(built(method, &facts()), 3);
        let few: Vec<_> =
            deal(&run.lab, &run.view(0), 2).iter().map(|own| own[..2].to_vec().into()).collect();
        run.task(0, &few, 1);
        set(&run.server.save()).get("head.weight").unwrap().clone()
    };
    let (zero, keep) = (head_of(Unseen::Zero), head_of(Unseen::Keep));
    let length = |of: &fedcast::model::Parameter| of.values.iter().map(|v| v * v).sum::<f32>();
    assert!(length(&zero) < 0.9 * length(&keep), "{} {}", length(&zero), length(&keep));
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

/// LoRM card, invariants 6 and 7: after one task it answers by that task's update, as a second begins by half of it, and
/// after the second by both, weighed by moments.
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
    let shards = deal(&run.lab, &run.view(1), 2);
    run.first_phase(1, &shards, 2);
    let within = features(&run);
    let pairs = set(&run.server.save()).filter(is_lora);
    let mut whole = after(lorm(|_| ()), 2, 1);
    whole.task(1, &shards, 2);
    assert_eq!(set(&whole.server.save()).filter(is_lora), pairs, "reports change no parameter");
    assert_ne!(features(&whole), within, "moments weigh what was a mean");
    let gap = features(&whole).iter().zip(&within).fold(0f32, |gap, (a, b)| gap.max((a - b).abs()));
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

/// All methods that learn pairs, for tests of packs.
pub fn pairs() -> Vec<Arc<dyn Method>> {
    let of_fedavg = FedAvg { train: fedcast::methods::fedavg::Train::Lora, ..FedAvg::default() };
    vec![built(of_fedavg, &facts()), crate::pilora::pilora(|_| ()), built(lorm(|_| ()), &facts())]
}
