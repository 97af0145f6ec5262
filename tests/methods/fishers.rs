//! The invariants of FisherAVG and EWC that are seen from outside.

use std::sync::Arc;

use fedcast::data::ClassOrder;
use fedcast::learning::fisher::FisherForm;
use fedcast::learning::{OptimiserConfig, TrainingPlan};
use fedcast::methods::HeadForm;
use fedcast::methods::averaged::{OldLogits, Weights};
use fedcast::methods::fedavg::{FedAvg, Train};
use fedcast::methods::fisheravg::FisherAvg;
use fedcast::model::ParameterSet;
use fedcast::policy::{Method, ModelFacts, Service, WireForm, parameters_of, refusal};
use fedcast::wire::{Body, Kind};

use crate::toys::watched::{Engine, Exchange};
use crate::toys::{facts, lab, plan};
use crate::{built, engine, far, head, values};

fn base(train: Train) -> FedAvg {
    FedAvg { train, prompt_len: 6, n_blocks: 2, ..FedAvg::default() }
}

pub fn fisheravg(train: Train, fisher: FisherForm) -> Arc<dyn Method> {
    built(FisherAvg { fedavg: base(train), fisher }, &facts())
}

fn sgd() -> TrainingPlan {
    plan(OptimiserConfig::sgd(0.1))
}

fn run(method: Arc<dyn Method>, tasks: usize, clients: usize, rounds: u32) -> Engine {
    let mut engine = engine(method, tasks);
    engine.lab.training = sgd();
    engine.run(clients, rounds)
}

/// What the clients of the first round sent: their parameters, and what weighs them.
fn first_round(run: &Engine, clients: usize) -> Vec<(ParameterSet, Body)> {
    let sent = run.exchanges[..clients].iter().map(|exchange| {
        let up = exchange.up.as_ref().unwrap();
        (parameters_of(up).unwrap(), up.clone())
    });
    sent.collect()
}

fn fisher_of(up: &Body, name: &str) -> Vec<f32> {
    let tensor = up.tensor(Kind::Statistics, &format!("fisher/{name}")).unwrap();
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

/// FisherAVG, section 6: the server's numbers are the clients', by the Fishers that they sent, and rows that nobody
/// trained stay. Section 9: a client without a class still has a say in its row.
#[test]
fn the_server_weighs_number_by_number() {
    let run = run(fisheravg(Train::Head, FisherForm::Truth), 3, 2, 1);
    let sent = first_round(&run, 2);
    let after = parameters_of(&run.exchanges[2].down).unwrap();
    for (name, parameter) in after.iter() {
        let fishers: Vec<Vec<f32>> = sent.iter().map(|(_, up)| fisher_of(up, name)).collect();
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

/// FisherAVG, section 4: a Down as FedAvg's, an Up twice as much and no count, but where statistics are averaged.
#[test]
fn a_fisher_travels_beside_every_number_that_trains() {
    let of = |train| run(fisheravg(train, FisherForm::Empirical), 1, 2, 1);
    let bytes =
        |body: &Body| body.tensors().map(|(_, tensor)| tensor.values().bytes()).sum::<u64>();
    let all = of(Train::All);
    let last = all.last();
    assert_eq!(bytes(last.up.as_ref().unwrap()), 2 * bytes(&last.down));
    let module = of(Train::Module);
    let (down, up) = (&module.last().down, module.last().up.as_ref().unwrap());
    let buffers = parameters_of(down).unwrap().filter(|name| name.contains("running")).bytes();
    assert!(buffers > 0);
    assert_eq!(bytes(up), 2 * bytes(down) - buffers + 4);
    assert!(up.tensor(Kind::Statistics, "samples").is_ok());
}

/// Messages that leave out rows change nothing.
#[test]
fn growing_and_lean_fisher_means_are_the_same() {
    let of = |form: WireForm, head: HeadForm| {
        let facts = ModelFacts { form, ..facts() };
        let fedavg = FedAvg { head, ..base(Train::Prompt) };
        let method = built(FisherAvg { fedavg, fisher: FisherForm::Expected }, &facts);
        Engine::new(method, facts, lab(3, ClassOrder::Native)).run(2, 2).server.save().digest()
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
        let fedavg = FedAvg { weights, ..base(Train::Head) };
        let method = built(FisherAvg { fedavg, fisher: FisherForm::Truth }, &facts());
        first_round(&run(method, 1, 2, 1), 2).remove(0).1
    };
    let (sums, means) = (of(Weights::BySamples), of(Weights::Uniform));
    let samples = 6.0 * 24.0 / 2.0;
    let scaled: Vec<f32> = fisher_of(&means, "head.weight").iter().map(|f| f * samples).collect();
    assert!(far(&fisher_of(&sums, "head.weight"), &scaled) < 1e-5);
    assert!(scaled.iter().any(|f| *f > 1e-3));
}

/// What may be done with its uploads follows from the weights of numbers.
#[test]
fn what_a_fisher_mean_allows() {
    let method = fisheravg(Train::Head, FisherForm::Truth);
    let refused = |service| refusal(&*method, &facts(), service).map(|why| why.to_string());
    for service in [Service::Late, Service::Mixed, Service::Lies] {
        assert_eq!(refused(service), None, "{service:?}");
    }
    for service in [Service::Robust, Service::Secure] {
        assert!(
            refused(service).is_some_and(|why| why.contains("weight of its own")),
            "{service:?}"
        );
    }
}

#[allow(dead_code)]
fn exchanged(run: &Engine) -> Vec<&Exchange> {
    run.exchanges.iter().collect()
}
