//! Promise: the interface of policies carries more than federated averaging. Four toy methods,
//! each the smallest of its kind: state on clients, a Down per seat, two phases that keep every
//! upload, and one method upon the features of another. A fifth spoils updates.

use std::sync::Arc;

use crate::toys::nearest_mean::NearestMean;
use crate::toys::personal::Personal;
use crate::toys::poison::Poison;
use crate::toys::round_loop::Engine;
use crate::toys::two_phase::Median;
use crate::toys::visits::Visits;
use crate::toys::{deal, facts, lab};
use fedcast::data::ClassOrder;
use fedcast::methods::fedavg::{FedAvg, FedAvgConfig, Train};
use fedcast::methods::{MethodEntry, Recipe, Registry};
use fedcast::policy::{Method, ModelFacts, Scope, Staged, erase};
use fedcast::scenario::MethodSection;
use fedcast::wire::Kind;

fn engine(method: Arc<dyn Method>) -> Engine {
    Engine::new(method, facts(), lab(3, ClassOrder::Native))
}

fn prompted() -> Arc<dyn Method> {
    let config = FedAvgConfig {
        train: Train::Prompt,
        prompt_len: 4,
        n_blocks: 2,
        ..FedAvgConfig::default()
    };
    erase(FedAvg::new(config, &facts()))
}

#[test]
fn state_stays_with_its_client_from_round_to_round() {
    let method = erase(Visits);
    assert!(!method.stateless());
    let run = engine(method).run(4, 2);
    let totals = run.server.save();
    let totals = totals.tensor(Kind::Settings, "totals").unwrap().as_u64().unwrap();
    // Three tasks of two rounds: every client's count is the number of the round.
    assert_eq!(totals[..], [4, 8, 12, 16, 20, 24]);
    assert_eq!(run.states.len(), 4);
}

#[test]
fn every_seat_gets_a_down_of_its_own() {
    let run = engine(erase(Personal)).run(3, 1);
    let heard = run.server.save();
    let heard = heard.tensor(Kind::Settings, "heard").unwrap().as_u64().unwrap();
    assert_eq!(heard[..6], [0, 1, 100, 121, 400, 441]);
    assert_eq!(run.exchanges.len(), 3 * 6, "two seats for each of three clients and tasks");
    let downs: std::collections::BTreeSet<u64> =
        run.exchanges[..6].iter().map(|exchange| exchange.down.digest()).collect();
    assert_eq!(downs.len(), 6);
}

#[test]
fn a_phase_may_end_before_its_rounds_are_used_up() {
    let run = engine(erase(Median)).run(4, 7);
    let phases: Vec<&str> = run.exchanges[..8].iter().map(|exchange| exchange.phase).collect();
    assert_eq!(phases, ["collect"; 4].into_iter().chain(["agree"; 4]).collect::<Vec<_>>());
    assert_eq!(run.exchanges.len(), 3 * 8, "one round of each phase per task, not seven or ten");
    assert_eq!(run.round, 6);
}

#[test]
fn a_method_learns_upon_the_frozen_features_of_another() {
    let staged: Arc<dyn Method> = Arc::new(Staged::new(prompted(), erase(NearestMean)));
    let run = engine(staged).run(3, 2);
    let phases: Vec<(usize, &str)> =
        run.exchanges.iter().step_by(3).map(|e| (e.task, e.phase)).collect();
    let first = [(0, "train"), (0, "train"), (0, "statistics")];
    assert_eq!(phases[..3], first);
    assert_eq!(phases[3..], [(1, "statistics"), (2, "statistics")]);

    // Every Down of the second stage names the same features; those of the first name none.
    let named = |from: usize| run.exchanges[from..].iter().map(|e| e.assets.len());
    assert!(named(0).take(6).all(|assets| assets == 0) && named(6).all(|assets| assets == 1));
    let asset = &run.exchanges[6].assets[0];
    assert!(run.exchanges[6..].iter().all(|e| e.assets[0].digest() == asset.digest()));
    assert_eq!(asset.body.of_kind(Kind::Prompt).count(), 2, "a prompt per block");
    assert_eq!(asset.body.of_kind(Kind::Head).count(), 0, "features need no head");

    assert!(run.accuracy(6) > 0.7, "{}", run.accuracy(6));
}

#[test]
fn the_first_method_answers_until_the_second_has_learnt() {
    let staged = || -> Arc<dyn Method> { Arc::new(Staged::new(prompted(), erase(NearestMean))) };
    let (mut both, mut alone) = (engine(staged()), engine(prompted()));
    for engine in [&mut both, &mut alone] {
        let shards = deal(&engine.lab, &engine.view(0), 3);
        engine.first_phase(0, &shards, 2);
    }
    assert_eq!(both.tally(2), alone.tally(2));

    let mut resumed = engine(staged());
    resumed.server.load(&both.server.save()).unwrap();
    assert_eq!(resumed.tally(2), alone.tally(2));
}

#[test]
fn a_staged_run_goes_on_from_what_it_saved() {
    let staged = || -> Arc<dyn Method> { Arc::new(Staged::new(prompted(), erase(NearestMean))) };
    let whole = engine(staged()).run(3, 2);
    let mut begun = engine(staged());
    let shards = |engine: &Engine, task| deal(&engine.lab, &engine.view(task), 3);
    for task in 0..2 {
        let own = shards(&begun, task);
        begun.task(task, &own, 2);
    }
    let mut resumed = engine(staged());
    resumed.server.load(&begun.server.save()).unwrap();
    resumed.round = begun.round;
    let own = shards(&resumed, 2);
    resumed.task(2, &own, 2);
    assert_eq!(resumed.server.save().digest(), whole.server.save().digest());
    assert_eq!(resumed.tally(6), whole.tally(6));
}

#[test]
fn a_spoiled_update_is_not_finite_and_the_others_are() {
    let poison = Poison { inner: prompted(), spoils: |seat| seat.client.0 == 1 };
    let run = engine(Arc::new(poison)).run(3, 1);
    for exchange in &run.exchanges {
        let up = exchange.up.as_ref().unwrap();
        assert_eq!(up.is_finite(), exchange.seat.client.0 != 1);
    }
    assert!(run.server.save().is_finite(), "the engine leaves a spoiled update out");
}

#[test]
fn a_program_adds_methods_of_its_own_to_the_registry() {
    let entry = MethodEntry {
        name: "nearest-mean",
        idea: "Class means of frozen features; the nearest mean wins.",
        source: "a toy",
        state: "server: a mean per class",
        messages: "up: counts and sums",
        clip: None,
        upon_features: true,
        read: Arc::new(|_| {
            Box::new(|_: &ModelFacts| -> Arc<dyn Method> { erase(NearestMean) }) as Box<dyn Recipe>
        }),
        check: |_| Vec::new(),
    };
    let registry = Registry::builtin().with(entry);
    let text = "[first]\nname = \"fedavg\"\ntrain = \"prompt\"\nprompt_len = 4\nn_blocks = 2";
    let section = MethodSection { name: "nearest-mean".into(), parameters: text.parse().unwrap() };
    let method = registry.build(&section, &facts()).unwrap();
    let run = engine(method).run(2, 1);
    assert_eq!(run.last().phase, "statistics");
    let predictor = run.server.predictor(&run.lab).unwrap();
    let pixels = candle_core::Tensor::zeros((2, 1, 8, 8), candle_core::DType::F32, &run.lab.device);
    let scores = predictor.scores(&pixels.unwrap(), &Scope::Task(2..4)).unwrap();
    assert_eq!(scores.dims(), [2, 2]);
}
