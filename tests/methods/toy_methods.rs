//! Promise: the interface of policies carries more than federated averaging. Four toy methods,
//! each the smallest of its kind: state on clients, a download per participant, two phases that keep every
//! upload, and one method on the features of another. A fifth spoils updates.

use std::sync::Arc;

use crate::toys::nearest_mean::NearestMean;
use crate::toys::personal::Personal;
use crate::toys::poison::Poison;
use crate::toys::two_phase::{Median, Talk};
use crate::toys::visits::Visits;
use crate::toys::watched::Engine;
use crate::toys::{deal, facts, run_context};
use crate::{built, client_passes, far, fedavg_of};
use fedcast::data::ClassPermutation;
use fedcast::learning::TrainingPlan;
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::{MethodEntry, Registry};
use fedcast::policy::Wrapped;
use fedcast::policy::{Composed, Message, Method, ModelFacts, Scope};
use fedcast::scenario::MethodSection;
use fedcast::wire::Kind;

fn engine(method: Arc<dyn Method>) -> Engine {
    Engine::new(method, facts(), run_context(3, ClassPermutation::Native))
}

fn prompted() -> Arc<dyn Method> {
    let method = FedAvg { train: Train::Prompt, prompt_len: 4, n_blocks: 2, ..FedAvg::default() };
    built(method, &facts())
}

#[test]
fn state_stays_with_its_client_from_round_to_round() {
    assert!(!Visits.profile().stateless);
    let run = engine(Arc::new(Visits)).run(4, 2);
    let totals = run.server.save();
    let totals = totals.tensor(Kind::Settings, "totals").unwrap().as_u64().unwrap();
    // Three tasks of two rounds: every client's count is the number of the round.
    assert_eq!(totals[..], [4, 8, 12, 16, 20, 24]);
    assert_eq!(run.states.len(), 4);
}

/// A method that does not say what it computes passes every sample once in every epoch.
#[test]
fn what_a_method_computes_is_samples_times_epochs_unless_it_says_so() {
    let run = engine(Arc::new(Visits));
    let plan = TrainingPlan { epochs: 3, ..TrainingPlan::default() };
    assert_eq!(client_passes(&Visits, &run.view(0), 7, &plan), 21.0);
}

#[test]
fn every_participant_gets_its_own_download() {
    let run = engine(Arc::new(Personal)).run(3, 1);
    let received = run.server.save();
    let received = received.tensor(Kind::Settings, "heard").unwrap().as_u64().unwrap();
    assert_eq!(received[..6], [0, 1, 100, 121, 400, 441]);
    assert_eq!(run.exchanges.len(), 3 * 6, "two participants for each of three clients and tasks");
    let downs: std::collections::BTreeSet<u64> =
        run.exchanges[..6].iter().map(|exchange| exchange.down.digest()).collect();
    assert_eq!(downs.len(), 6);
}

#[test]
fn phases_have_messages_and_rounds_of_their_own() {
    let run = engine(Arc::new(Median)).run(4, 7);
    let phases: Vec<&str> = run.exchanges[..12].iter().map(|exchange| exchange.phase).collect();
    assert_eq!(phases, ["collect"; 4].into_iter().chain(["agree"; 8]).collect::<Vec<_>>());
    assert_eq!(run.exchanges.len(), 3 * 12, "three rounds per task, not seven");
    assert_eq!(run.round, 9);
    let said = |body| Talk::read(&Message::from_body(body, &[]).unwrap()).unwrap();
    for exchange in &run.exchanges {
        // Two classes of 24 samples, dealt to four clients.
        let expected = match exchange.phase {
            "collect" => (Talk::Collect(0), Talk::Collect(12)),
            _ => (Talk::Proposal(12), Talk::Agree(true)),
        };
        assert_eq!((said(&exchange.down), said(exchange.up.as_ref().unwrap())), expected);
    }
    let saved = run.server.save();
    let saved = saved.tensor(Kind::Settings, "median and agreed").unwrap().as_u32().unwrap();
    assert_eq!(saved[..], [12, 4], "the server kept what all four said");
}

#[test]
fn a_method_trains_on_the_frozen_features_of_another() {
    let staged: Arc<dyn Method> = Arc::new(Composed::new(prompted(), Arc::new(NearestMean)));
    let run = engine(staged).run(3, 2);
    let phases: Vec<(usize, &str)> =
        run.exchanges.iter().step_by(3).map(|e| (e.task, e.phase)).collect();
    let first = [(0, "train"), (0, "train"), (0, "statistics")];
    assert_eq!(phases[..3], first);
    assert_eq!(phases[3..], [(1, "statistics"), (2, "statistics")]);

    // Every download of the second stage names the same features; those of the first name none.
    let named = |from: usize| run.exchanges[from..].iter().map(|e| e.assets.len());
    assert!(named(0).take(6).all(|assets| assets == 0) && named(6).all(|assets| assets == 1));
    let asset = &run.exchanges[6].assets[0];
    assert!(run.exchanges[6..].iter().all(|e| e.assets[0].digest() == asset.digest()));
    assert_eq!(asset.body.of_kind(Kind::Prompt).count(), 2, "a prompt per block");
    assert_eq!(asset.body.of_kind(Kind::Head).count(), 0, "features need no head");

    assert!(run.accuracy(6) > 0.7, "{}", run.accuracy(6));
}

/// Clients send means, the server adds sums: however many share the samples, it finds the same means.
#[test]
fn the_aggregated_upload_may_differ_from_the_sent_one() {
    let run = |clients| {
        let staged = Composed::new(fedavg_of(Train::Head), Arc::new(NearestMean));
        engine(Arc::new(staged)).run(clients, 1)
    };
    let (one, three) = (run(1), run(3));
    for exchange in three.exchanges.iter().filter(|exchange| exchange.phase == "statistics") {
        let upload = exchange.up.as_ref().unwrap();
        let counts = upload.tensor(Kind::Statistics, "counts").unwrap();
        assert_eq!(counts.as_u32().unwrap()[..], [8, 8]);
        assert!(upload.tensor(Kind::Statistics, "means").unwrap().as_f32().is_ok());
        assert!(upload.tensor(Kind::Statistics, "sums").is_err());
    }
    let distances = |run: &Engine| -> Vec<f32> {
        let loader = run.ctx.statistics_loader(&(0..20).collect());
        let batch = loader.in_order(20).next().unwrap().unwrap();
        let predictor = run.server.predictor(&run.ctx).unwrap();
        let scores = predictor.scores(&run.ctx.pixels(&batch).unwrap(), &Scope::Seen(6)).unwrap();
        scores.flatten_all().unwrap().to_vec1().unwrap()
    };
    let (one, three) = (distances(&one), distances(&three));
    assert!(far(&one, &three) < 1e-3, "{}", far(&one, &three));
}

#[test]
fn the_first_method_predicts_until_the_second_has_trained() {
    let staged =
        || -> Arc<dyn Method> { Arc::new(Composed::new(prompted(), Arc::new(NearestMean))) };
    let (mut both, mut alone) = (engine(staged()), engine(prompted()));
    for engine in [&mut both, &mut alone] {
        let shards = deal(&engine.ctx, &engine.view(0), 3);
        engine.first_phase(0, &shards, 2);
    }
    assert_eq!(both.tally(2), alone.tally(2));

    let mut resumed = engine(staged());
    resumed.server.load(&both.server.save()).unwrap();
    assert_eq!(resumed.tally(2), alone.tally(2));
}

#[test]
fn a_staged_run_goes_on_from_what_it_saved() {
    let staged =
        || -> Arc<dyn Method> { Arc::new(Composed::new(prompted(), Arc::new(NearestMean))) };
    let whole = engine(staged()).run(3, 2);
    let mut first = engine(staged());
    let shards = |engine: &Engine, task| deal(&engine.ctx, &engine.view(task), 3);
    for task in 0..2 {
        let own = shards(&first, task);
        first.task(task, &own, 2);
    }
    let mut resumed = engine(staged());
    resumed.server.load(&first.server.save()).unwrap();
    resumed.round = first.round;
    let own = shards(&resumed, 2);
    resumed.task(2, &own, 2);
    assert_eq!(resumed.server.save().digest(), whole.server.save().digest());
    assert_eq!(resumed.tally(6), whole.tally(6));
}

#[test]
fn a_spoiled_update_is_not_finite_and_the_others_are() {
    let poison = Poison { inner: prompted(), spoils: |participant| participant.client.0 == 1 };
    let run = engine(Arc::new(Wrapped(poison))).run(3, 1);
    for exchange in &run.exchanges {
        let upload = exchange.up.as_ref().unwrap();
        assert_eq!(upload.is_finite(), exchange.participant.client.0 != 1);
    }
    assert!(run.server.save().is_finite(), "the engine leaves a spoiled update out");
}

#[test]
fn a_program_adds_methods_of_its_own_to_the_registry() {
    let nearest_mean = |_: &ModelFacts| -> Arc<dyn Method> { Arc::new(NearestMean) };
    let entry = MethodEntry {
        idea: "Class means of frozen features; the nearest mean wins.",
        source: "a toy",
        state: "server: a mean per class",
        on_features: true,
        ..MethodEntry::of("nearest-mean", move |_| nearest_mean)
    };
    let registry = Registry::builtin().with(entry);
    let text = "[first]\nname = \"fedavg\"\ntrain = \"prompt\"\nprompt_len = 4\nn_blocks = 2";
    let section = MethodSection::new("nearest-mean", text.parse().unwrap());
    let method = registry.build(&section, &facts()).unwrap();
    let run = engine(method).run(2, 1);
    assert_eq!(run.last().phase, "statistics");
    let predictor = run.server.predictor(&run.ctx).unwrap();
    let pixels = candle_core::Tensor::zeros((2, 1, 8, 8), candle_core::DType::F32, &run.ctx.device);
    let scores = predictor.scores(&pixels.unwrap(), &Scope::Task(2..4)).unwrap();
    assert_eq!(scores.dims(), [2, 2]);
}
