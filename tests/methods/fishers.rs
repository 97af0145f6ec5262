//! The invariants of FisherAVG and EWC that are seen from outside.

use std::sync::Arc;

use fedcast::data::ClassPermutation;
use fedcast::learning::fisher::FisherForm;
use fedcast::learning::{OptimizerConfig, TrainingPlan};
use fedcast::methods::HeadForm;
use fedcast::methods::averaging::{ClientWeighting, OldLogits};
use fedcast::methods::ewc::{Ewc, FisherKeeper, OwnImportance};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::fisheravg::FisherAvg;
use fedcast::model::ParameterSet;
use fedcast::policy::{
    Capability, ClassCounts, ClientState, ExchangeFacts, MessageKind, Method, ModelFacts, WireForm,
    check_capability, parameters_of,
};
use fedcast::wire::{Body, Kind, Saved};

use crate::toys::watched::Engine;
use crate::toys::{deal, facts, first_exchange, plan, run_context};
use crate::{built, engine, far, head, values};

fn base(train: Train) -> FedAvg {
    FedAvg { train, prompt_len: 6, n_blocks: 2, ..FedAvg::default() }
}

pub fn fisheravg(train: Train, fisher: FisherForm) -> Arc<dyn Method> {
    built(FisherAvg { fedavg: base(train), fisher, ..FisherAvg::default() }, &facts())
}

/// EWC of heads over all classes seen, whose last round trains.
pub fn ewc(change: impl Fn(&mut Ewc)) -> Arc<dyn Method> {
    let fedavg = FedAvg { old_logits: OldLogits::Keep, ..base(Train::Head) };
    let mut method = Ewc { fedavg, skip_last_round: false, ..Ewc::default() };
    change(&mut method);
    built(method, &facts())
}

/// EWC of heads, in packs.
pub fn held() -> Arc<dyn Method> {
    ewc(|c| c.lambda = 5.0)
}

/// The baseline of [`ewc`].
fn plain() -> Arc<dyn Method> {
    built(FedAvg { old_logits: OldLogits::Keep, ..base(Train::Head) }, &facts())
}

fn sgd() -> TrainingPlan {
    plan(OptimizerConfig::sgd(0.1))
}

fn run(method: Arc<dyn Method>, tasks: usize, clients: usize, rounds: u32) -> Engine {
    let mut engine = engine(method, tasks);
    engine.ctx.training = sgd();
    engine.run(clients, rounds)
}

/// Returns the parameters that the clients of the first round sent, and their weights.
fn first_round(run: &Engine, clients: usize) -> Vec<(ParameterSet, Body)> {
    let sent = run.exchanges[..clients].iter().map(|exchange| {
        let upload = exchange.up.as_ref().unwrap();
        (parameters_of(upload).unwrap(), upload.clone())
    });
    sent.collect()
}

fn fisher_of(upload: &Body, name: &str) -> Vec<f32> {
    let tensor = upload.tensor(Kind::Statistics, &format!("fisher/{name}")).unwrap();
    tensor.as_f32().unwrap().to_vec()
}

/// FisherAVG, invariant 1: a client alone is FedAvg's, bit for bit, whatever its Fisher.
#[test]
fn alone_a_fisher_mean_is_fedavg() {
    for train in [Train::Head, Train::Prompt, Train::All, Train::Module] {
        let fedavg = run(built(base(train), &facts()), 2, 1, 2).server.save().digest();
        for form in [FisherForm::Truth, FisherForm::Batches] {
            let fisher = run(fisheravg(train, form), 2, 1, 2).server.save().digest();
            assert_eq!(fisher, fedavg, "{train:?} {form:?}");
        }
    }
}

/// FisherAVG, section 6: the server's numbers are the clients', by the Fishers that they sent, and rows that no client
/// trained stay. Section 9: a client without a class still has a say in its row.
#[test]
fn the_server_weighs_number_by_number() {
    let run = run(fisheravg(Train::Head, FisherForm::Truth), 3, 2, 1);
    let sent = first_round(&run, 2);
    let after = parameters_of(&run.exchanges[2].down).unwrap();
    for (name, parameter) in after.iter() {
        let fishers: Vec<Vec<f32>> =
            sent.iter().map(|(_, upload)| fisher_of(upload, name)).collect();
        for (at, value) in parameter.values.iter().enumerate() {
            let weight = |client: usize| f64::from(fishers[client][at]) + 1e-12;
            let of = |client: usize| f64::from(sent[client].0.get(name).unwrap().values[at]);
            let wanted = (weight(0) * of(0) + weight(1) * of(1)) / (weight(0) + weight(1));
            assert!((f64::from(*value) - wanted).abs() < 1e-6, "{name} {at}");
        }
        let width = parameter.values.len() / 6;
        for fisher in &fishers {
            assert!(fisher[..2 * width].iter().any(|f| *f > 0.0), "{name}");
            assert!(fisher[2 * width..].iter().all(|f| *f == 0.0), "{name}: coming rows");
        }
    }
    let down = |at: usize| head(&run.exchanges[at].down, 2..6);
    assert_eq!(down(2)[..2 * 16], down(0)[..2 * 16], "rows of tasks to come");
}

/// FisherAVG, section 4: a download as FedAvg's, an upload twice as much and no count, but where statistics are
/// averaged.
#[test]
fn a_fisher_travels_with_every_number_that_trains() {
    let of = |train| run(fisheravg(train, FisherForm::Empirical), 1, 2, 1);
    let bytes =
        |body: &Body| body.tensors().map(|(_, tensor)| tensor.values().bytes()).sum::<u64>();
    let all = of(Train::All);
    let last = all.last();
    assert_eq!(bytes(last.up.as_ref().unwrap()), 2 * bytes(&last.down));
    let module = of(Train::Module);
    let (download, upload) = (&module.last().down, module.last().up.as_ref().unwrap());
    let buffers = parameters_of(download).unwrap().filter(|name| name.contains("running")).bytes();
    assert!(buffers > 0);
    assert_eq!(bytes(upload), 2 * bytes(download) - buffers + 4);
    assert!(upload.tensor(Kind::Statistics, "samples").is_ok());
}

/// Messages that leave out rows change nothing.
#[test]
fn growing_and_lean_fisher_means_are_the_same() {
    let of = |form: WireForm, head: HeadForm| {
        let facts = ModelFacts { form, ..facts() };
        let fedavg = FedAvg { head_form: head, ..base(Train::Prompt) };
        let fisher = FisherForm::Expected;
        let method = built(FisherAvg { fedavg, fisher, ..FisherAvg::default() }, &facts);
        Engine::new(method, facts, run_context(3, ClassPermutation::Native))
            .run(2, 2)
            .server
            .save()
            .digest()
    };
    let full = of(WireForm::Full, HeadForm::Fixed);
    assert_eq!(of(WireForm::Lean, HeadForm::Fixed), full);
    assert_eq!(of(WireForm::Full, HeadForm::Growing), full);
}

/// FisherAVG, section 9: with uniform weights the Fisher is a mean over samples, so that a client with more of them has
/// no larger say.
#[test]
fn uniform_weights_divide_a_fisher_by_its_samples() {
    let of = |weights| {
        let fedavg = FedAvg { client_weighting: weights, ..base(Train::Head) };
        let method = built(FisherAvg { fedavg, ..FisherAvg::default() }, &facts());
        first_round(&run(method, 1, 2, 1), 2).remove(0).1
    };
    let (sums, means) = (of(ClientWeighting::BySamples), of(ClientWeighting::Uniform));
    let samples = 6.0 * 24.0 / 2.0;
    let scaled: Vec<f32> = fisher_of(&means, "head.weight").iter().map(|f| f * samples).collect();
    assert!(far(&fisher_of(&sums, "head.weight"), &scaled) < 1e-5);
    assert!(scaled.iter().any(|f| *f > 1e-3));
}

/// Operations on its uploads are allowed or not by the weights of single numbers.
#[test]
fn what_a_fisher_mean_allows() {
    let method = fisheravg(Train::Head, FisherForm::Truth);
    let refused =
        |service| check_capability(&*method, &facts(), service).map(|why| why.to_string());
    for service in [Capability::LateUpdates, Capability::MixedTasks, Capability::MaliciousClients] {
        assert_eq!(refused(service), None, "{service:?}");
    }
    for service in [Capability::RobustAggregation, Capability::SecureAggregation] {
        assert!(refused(service).is_some_and(|why| why.contains("its own weight")), "{service:?}");
    }
}

/// Returns the server's model, without what it remembers in addition.
fn model(run: &Engine) -> ParameterSet {
    let saved = run.server.save();
    let count = saved.sections.iter().filter(|section| section.kind == Kind::Head).count();
    let first = saved.sections.iter().find(|section| section.kind == Kind::Head).unwrap();
    assert!(count <= 2, "the model, and the one before");
    parameters_of(&Body::new(Vec::new(), vec![first.clone()])).unwrap()
}

/// EWC, invariant 1: without a penalty it is FedAvg, and with the last round skipped FedAvg of one round less; the
/// first task is FedAvg's to the bit. (The exchange after it takes a number of a round, and with it the draws of all
/// later ones; whole shards as batches leave only rounding of it.) Half of twice a penalty is the penalty.
#[test]
fn without_a_penalty_ewc_is_fedavg() {
    let whole = || TrainingPlan { batch: 1_000, ..sgd() };
    let of = |method, tasks, rounds| {
        let mut engine = engine(method, tasks);
        engine.ctx.training = whole();
        model(&engine.run(2, rounds))
    };
    let apart = |one: &ParameterSet, other: &ParameterSet| {
        let flat = |set: &ParameterSet| -> Vec<f32> {
            set.iter().flat_map(|(_, parameter)| parameter.values.to_vec()).collect()
        };
        far(&flat(one), &flat(other))
    };
    let none = |skip| ewc(|c| (c.lambda, c.skip_last_round) = (0.0, skip));
    assert_eq!(of(ewc(|c| c.lambda = 50.0), 1, 2), of(plain(), 1, 2));
    assert!(apart(&of(none(false), 3, 2), &of(plain(), 3, 2)) < 1e-5);
    assert!(apart(&of(none(true), 3, 3), &of(plain(), 3, 2)) < 1e-5);
    assert!(apart(&of(none(true), 3, 1), &of(plain(), 3, 1)) < 1e-5, "a single round trains");
    let held = |lambda, half| of(ewc(|c| (c.lambda, c.half) = (lambda, half)), 3, 2);
    assert!(apart(&held(5.0, false), &of(plain(), 3, 2)) > 1e-3);
    assert_eq!(held(5.0, false), held(10.0, true));
}

/// EWC, invariant 4: the larger the Fisher counts, the nearer clients stay to where the task before ended.
#[test]
fn a_stronger_penalty_keeps_old_numbers_nearer() {
    let moved = |lambda: f64, rate: f64| {
        let mut engine = engine(ewc(|c| c.lambda = lambda), 2);
        engine.ctx.training = sgd();
        let first = deal(&engine.ctx, &engine.view(0), 1);
        engine.task(0, &first, 2);
        let steps = TrainingPlan { epochs: 6, clip: None, ..plan(OptimizerConfig::sgd(rate)) };
        engine.ctx.training = steps;
        let before = model(&engine);
        let second = deal(&engine.ctx, &engine.view(1), 1);
        engine.task(1, &second, 1);
        let (after, fisher) = (model(&engine), engine.exchanges.last().unwrap());
        assert_eq!(fisher.phase, "fisher");
        let weight = |set: &ParameterSet| set.get("head.weight").unwrap().values[..32].to_vec();
        far(&weight(&before), &weight(&after))
    };
    let all = [0.0, 10.0, 100.0].map(|lambda| moved(lambda, 0.01));
    assert!(all[0] > all[1] && all[1] > all[2], "{all:?}");
}

/// EWC, sections 4 and 6: clients that took part report a Fisher at the global model after training.
///
/// Each gets the parameters alone and answers with the Fisher and its number of samples; the model before and the
/// Fisher are assets of the next task, and every exchange has the bytes of its layout. Invariant 3: however the data
/// are split, the Fisher is that of all of them.
#[test]
fn a_task_ends_with_the_fisher_of_the_global_model() {
    let fisher = |run: &Engine, task: usize| {
        let asset = run.exchanges.iter().find(|e| e.task == task && !e.assets.is_empty()).unwrap();
        let [previous, fisher] = &asset.assets[..] else { panic!() };
        assert_eq!((&*previous.name, &*fisher.name), ("previous", "fisher"));
        assert_eq!((previous.version, fisher.version), (task as u32 - 1, task as u32 - 1));
        assert_eq!(asset.down.meta.len(), 16);
        let tensor = fisher.body.tensor(Kind::Statistics, "head.weight").unwrap();
        tensor.as_f32().unwrap().to_vec()
    };
    // Nothing is learned, so that all clients hold the model as it started, however many there are.
    let still = |clients: usize| {
        let mut engine = engine(ewc(|_| ()), 2);
        engine.ctx.training = plan(OptimizerConfig::sgd(0.0));
        engine.run(clients, 2)
    };
    let (one, three) = (still(1), still(3));
    let (of_one, of_three) = (fisher(&one, 1), fisher(&three, 1));
    assert!(of_one.iter().any(|f| *f > 1e-3) && far(&of_one, &of_three) < 1e-6);
    let closing: Vec<_> = three.exchanges.iter().filter(|e| e.phase == "fisher").collect();
    assert_eq!(closing.len(), 2 * 3);
    for exchange in closing {
        assert!(exchange.assets.is_empty() && exchange.down.meta.is_empty());
        let upload = exchange.up.as_ref().unwrap();
        let count = upload.tensor(Kind::Statistics, "samples").unwrap().as_u32().unwrap()[0];
        assert_eq!((parameters_of(upload).unwrap().len(), count), (0, 72 / 3));
    }
    assert_eq!(three.metrics[2]["fisher_samples"], 72.0);
}

/// Mid-task checkpoints: the server's state is read back with its assets, and goes on to the bit.
#[test]
fn a_server_of_ewc_survives_a_checkpoint() {
    for head in [HeadForm::Fixed, HeadForm::Growing] {
        let method = || ewc(|c| (c.lambda, c.fedavg.head_form) = (5.0, head));
        let mut straight = engine(method(), 3);
        straight.ctx.training = sgd();
        let mut again = engine(method(), 3);
        again.ctx.training = sgd();
        for task in 0..3 {
            let shards = deal(&straight.ctx, &straight.view(task), 2);
            straight.task(task, &shards, 1);
            again.task(task, &shards, 1);
            let saved = again.server.save();
            let mut fresh = engine(method(), 3);
            fresh.server.load(&saved).unwrap();
            assert_eq!(fresh.server.save().digest(), saved.digest());
            again.server = fresh.server;
        }
        assert_eq!(again.server.save().digest(), straight.server.save().digest(), "{head:?}");
    }
}

/// EWC, the second reading: held by models of their own, clients keep them and nothing more travels than with FedAvg.
#[test]
fn clients_may_be_held_by_models_of_their_own() {
    let own = |lambda: f64| {
        run(
            ewc(|c| {
                (c.lambda, c.half, c.site) = (lambda, true, FisherKeeper::Client);
                (c.fisher, c.fisher_clip) = (FisherForm::Batches, Some(1e-4));
            }),
            2,
            2,
            2,
        )
    };
    let (held, fedavg) = (own(1e5), run(plain(), 2, 2, 2));
    assert_eq!(held.exchanges.len(), fedavg.exchanges.len());
    let first = |run: &Engine| run.exchanges[3].up.as_ref().unwrap().digest();
    assert_eq!(first(&held), first(&fedavg), "nothing holds in the first task");
    assert_ne!(held.server.save().digest(), fedavg.server.save().digest());
    assert_eq!(own(0.0).server.save().digest(), fedavg.server.save().digest());
    assert!(held.exchanges.iter().all(|exchange| exchange.assets.is_empty()));
    for state in held.states.values() {
        assert_eq!(held.method.state_bytes(state).unwrap(), 2 * 4 * 6 * 17);
        assert_eq!(OwnImportance::of(state).unwrap().save().digest(), state.digest());
        let largest = parameters_of(state).unwrap().filter(|name| name.starts_with("fisher/"));
        let largest = values(&Body::new(vec![], fedcast::policy::parameter_sections(&largest)));
        assert_eq!(largest.iter().fold(0.0, |a: f32, b| a.max(*b)), 1e-4);
    }
}

/// EWC's exchanges in numbers: the two assets of a download, and reports that no late upload can join.
#[test]
fn what_ewc_allows() {
    let method = ewc(|_| ());
    let refused =
        |service| check_capability(&*method, &facts(), service).map(|why| why.to_string());
    for service in [Capability::LateUpdates, Capability::MixedTasks, Capability::RobustAggregation]
    {
        assert!(refused(service).is_some_and(|why| why.contains("is a sum")), "{service:?}");
    }
    assert_eq!(
        (refused(Capability::SecureAggregation), refused(Capability::MaliciousClients)),
        (None, None)
    );
    let own = ewc(|c| c.site = FisherKeeper::Client);
    assert!(
        Capability::ALL.iter().all(|service| check_capability(&*own, &facts(), *service).is_none())
    );
    let run = run(method, 2, 2, 1);
    let (view, counts) = (run.view(1), ClassCounts::new());
    let model = &run.facts;
    let facts = first_exchange(model, &view, &counts);
    assert_eq!(run.method.message_spec(MessageKind::Download, &facts).control.len(), 16);
    let closing = ExchangeFacts { phase: 1, ..facts };
    assert!(
        run.method.message_spec(MessageKind::Download, &closing).assets.is_empty()
            && run.method.message_spec(MessageKind::Upload, &closing).control.is_empty()
    );
}

/// A client's own importance is a mean: with every sample twice, at weights that do not move, it is the same.
#[test]
fn own_importance_is_a_mean_over_samples() {
    let of = |twice: bool| {
        let method = ewc(|c| {
            (c.site, c.fisher, c.fisher_clip) = (FisherKeeper::Client, FisherForm::Empirical, None);
        });
        let mut run = engine(method, 3);
        run.ctx.training = TrainingPlan { clip: None, ..plan(OptimizerConfig::sgd(0.0)) };
        let mut shards = deal(&run.ctx, &run.view(0), 2);
        if twice {
            for shard in &mut shards {
                *shard = shard.iter().chain(shard.iter()).copied().collect();
            }
        }
        run.task(0, &shards, 1);
        let state = run.states.values().next().unwrap();
        let fisher = parameters_of(state).unwrap().filter(|name| name.starts_with("fisher/"));
        values(&Body::new(vec![], fedcast::policy::parameter_sections(&fisher)))
    };
    let (once, twice) = (of(false), of(true));
    let largest = once.iter().fold(0.0, |a: f32, b| a.max(*b));
    assert!(largest > 1e-4 && far(&once, &twice) < 1e-5 * largest.max(1.0), "{largest}");
}
