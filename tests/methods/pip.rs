//! The invariants of PIP that are seen from outside.

use std::sync::Arc;

use fedcast::data::{ClassOrder, Curriculum, TaskSizes};
use fedcast::learning::OptimiserConfig;
use fedcast::methods::HeadForm;
use fedcast::methods::dualprompt::DualPrompt;
use fedcast::methods::pip::{Features, Injection, Merge, Pip, Weighing};
use fedcast::model::VitConfig;
use fedcast::policy::{
    ClassCounts, Method, ModelFacts, Service, SketchFacts, WireForm, parameters_of, refusal,
};
use fedcast::wire::{Body, BodySketch, Codec, CodecPlan, FrameSize, Kind};

use crate::toys::watched::Engine;
use crate::toys::{deal, facts, plan};
use crate::{built, engine, head};

fn base() -> DualPrompt {
    DualPrompt { pool: 3, g_len: 2, g_blocks: 1, e_len: 2, e_blocks: 1, ..DualPrompt::default() }
}

fn pip(change: impl Fn(&mut Pip)) -> Arc<dyn Method> {
    let mut method = Pip { base: base(), ..Pip::default() };
    change(&mut method);
    built(method, &facts())
}

fn run(method: Arc<dyn Method>, tasks: usize, rounds: u32) -> Engine {
    let mut engine = engine(method, 3);
    engine.lab.training = plan(OptimiserConfig::adamw(1e-2));
    for task in 0..tasks {
        let shards = deal(&engine.lab, &engine.view(task), 2);
        engine.task(task, &shards, rounds);
    }
    engine
}

fn digest(run: &Engine) -> u64 {
    run.server.save().digest()
}

/// PIP card, invariant 1: without copies it is DualPrompt, message by message; with copies it is in a task's first round,
/// but for what an upload adds.
#[test]
fn without_injection_pip_is_dualprompt() {
    let dualprompt = run(built(base(), &facts()), 2, 2);
    let none = run(pip(|c| c.copies = 0), 2, 2);
    for (one, other) in dualprompt.exchanges.iter().zip(&none.exchanges) {
        assert_eq!(one.down.digest(), other.down.digest());
        let ups = [one, other].map(|exchange| exchange.up.as_ref().unwrap().digest());
        assert_eq!(ups[0], ups[1]);
    }
    let all = |run: &Engine| -> Vec<Body> {
        run.exchanges.iter().map(|exchange| exchange.up.as_ref().unwrap().clone()).collect()
    };
    let (plain, injected) = (all(&dualprompt), all(&run(pip(|_| ()), 1, 2)));
    for (place, (one, other)) in plain.iter().zip(&injected).enumerate() {
        let same = parameters_of(one).unwrap() == parameters_of(other).unwrap();
        assert_eq!(same, place < 2, "upload {place}");
    }
}

fn table(body: &Body, name: &str) -> Vec<f64> {
    body.tensor(Kind::Prototypes, name).unwrap().numbers()
}

/// Sections 4 to 6, invariant 6: a Down from the second round on has what the uploads of the round before come to; a task
/// begins without, and rows of other tasks stay as they are.
#[test]
fn prototypes_are_what_clients_reported() {
    let run = run(pip(|_| ()), 2, 2);
    let [first, second] = [0, 1].map(|client| run.exchanges[client].up.as_ref().unwrap().clone());
    for round in [0, 1, 4, 5] {
        assert!(run.exchanges[round].down.of_kind(Kind::Prototypes).next().is_none());
    }
    let down = &run.exchanges[2].down;
    let (mean, variance) = (table(down, "means"), table(down, "variances"));
    assert_eq!(mean.len(), 2 * 16);
    for at in 0..mean.len() {
        // Both clients hold as much.
        let [a, b] = [&first, &second].map(|up| table(up, "means")[at]);
        let spread = [&first, &second].map(|up| table(up, "variances")[at]);
        assert!((mean[at] - (a + b) / 2.0).abs() < 1e-5);
        let wanted = (spread[0] + spread[1]) / 2.0 + ((a - b) / 2.0).powi(2);
        assert!((variance[at] - wanted).abs() < 1e-5 * (1.0 + wanted), "{} {wanted}", variance[at]);
    }
    let mut engine = engine(pip(|_| ()), 3);
    engine.lab.training = plan(OptimiserConfig::adamw(1e-2));
    let shards = deal(&engine.lab, &engine.view(0), 2);
    engine.task(0, &shards, 2);
    let before = head(&engine.server.save(), 0..2);
    let start = head(&engine.server.save(), 4..6);
    let shards = deal(&engine.lab, &engine.view(1), 2);
    engine.task(1, &shards, 2);
    assert_eq!(head(&engine.server.save(), 0..2), before);
    assert_eq!(head(&engine.server.save(), 4..6), start);
    assert_ne!(head(&engine.server.save(), 2..4), start);
}

/// Keys change what they name.
#[test]
fn every_key_of_pip_counts() {
    let of = |change: fn(&mut Pip)| digest(&run(pip(change), 1, 3));
    let default = of(|_| ());
    for (at, change) in [
        |c: &mut Pip| c.copies = 2,
        |c: &mut Pip| c.inject = Injection::Spread,
        |c: &mut Pip| c.merge = Merge::Benchmark,
        |c: &mut Pip| c.features = Features::Trained,
        |c: &mut Pip| c.proto_weights = Weighing::Visits,
        |c: &mut Pip| c.proto_weights = Weighing::Classes,
    ]
    .into_iter()
    .enumerate()
    {
        // Both clients hold as much of every class, and take part as often.
        assert_eq!(of(change) == default, at > 3, "change {at}");
    }
}

#[test]
fn pip_is_resumed_and_asked_for_services() {
    let run = run(pip(|_| ()), 2, 1);
    let mut again = engine(pip(|_| ()), 3);
    again.server.load(&run.server.save()).unwrap();
    assert_eq!(again.server.save().digest(), digest(&run));
    for (copies, allowed) in [(5, false), (0, true)] {
        let method = pip(|c| c.copies = copies);
        for service in [Service::Late, Service::Robust, Service::Secure] {
            assert_eq!(refusal(&*method, &facts(), service).is_none(), allowed, "{service:?}");
        }
    }
}

fn payload(sketch: &BodySketch) -> u64 {
    FrameSize::of_sketch(sketch, &CodecPlan::new(Codec::F32)).payload.0
}

/// Section 4, all ten classes present.
#[test]
fn pip_sends_the_bytes_of_its_card() {
    let vit = VitConfig::preset("vit-base-patch16-224").unwrap();
    let curriculum = Curriculum::new(100, &ClassOrder::Native, &TaskSizes::Even(10)).unwrap();
    let bytes = |form: WireForm, head: HeadForm, round_in_phase: u32| {
        let backbone = vit.into();
        let model =
            ModelFacts { backbone, classes: 100, tasks: 10, clients: 1, form, auxiliary: None };
        let view = &curriculum.tasks[0];
        let counts: ClassCounts = (0..10).map(|row| (row, 50)).collect();
        let (period, phase, role) = (view.task, 0, Default::default());
        let facts = SketchFacts {
            model: &model,
            view,
            period,
            phase,
            round_in_phase,
            role,
            counts: &counts,
        };
        let mut method = Pip::default();
        method.base.prompted.head = head;
        let method = built(method, &model);
        (payload(&method.down(&facts).body()), payload(&method.up(&facts).body()))
    };
    use HeadForm::{Fixed, Growing};
    assert_eq!(bytes(WireForm::Full, Fixed, 1), (4_147_600, 4_147_604));
    assert_eq!(bytes(WireForm::Full, Fixed, 0), (4_086_160, 4_147_604));
    assert_eq!(bytes(WireForm::Full, Growing, 1), (3_870_760, 3_870_764));
    assert_eq!(bytes(WireForm::Lean, Fixed, 1), (525_352, 525_356));
}
