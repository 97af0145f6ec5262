//! The invariants of C2Prompt. (Moments, affinities and the alignment loss are tested beside their code.)

use std::sync::Arc;

use fedcast::methods::c2prompt::{C2Prompt, C2PromptConfig};
use fedcast::methods::powder::Powder;
use fedcast::policy::{
    ClassCounts, Message, Method, ModelFacts, Service, SketchFacts, UpSize, parameters_of, refusal,
};
use fedcast::quantity::ClientId;
use fedcast::wire::Kind;

use crate::engine;
use crate::powder::{Sent, context, on_imagenet_r, pack_and_alone, payload, small, table};
use crate::toys::watched::Engine;
use crate::toys::{deal, facts};

fn c2prompt_with(change: impl Fn(&mut C2PromptConfig)) -> Arc<dyn Method> {
    let mut config = C2PromptConfig { powder: small(), ..C2PromptConfig::default() };
    config.powder.first_block = 1;
    change(&mut config);
    Arc::new(C2Prompt::new(config, &facts()))
}

fn run_of(method: Arc<dyn Method>) -> Engine {
    engine(method, 3).run(2, 2)
}

/// Card, invariant 5: without compensation prompts and mixing it is Powder.
#[test]
fn with_probability_zero_and_no_mixing_it_is_powder_bit_for_bit() {
    let mut config = small();
    config.first_block = 1;
    let powder = run_of(Arc::new(Powder::new(config, &facts())));
    let c2prompt = run_of(c2prompt_with(|c| (c.probability, c.cpa) = (0.0, false)));
    assert_eq!(table(&powder), table(&c2prompt));
    assert_eq!(powder.round, c2prompt.round);
    assert_eq!(powder.tally(6), c2prompt.tally(6));
    for (ours, theirs) in c2prompt.exchanges.iter().zip(&powder.exchanges) {
        let set = |body: &fedcast::wire::Body| parameters_of(body).unwrap();
        assert_eq!(set(&ours.down), set(&theirs.down));
        assert_eq!(set(ours.up.as_ref().unwrap()), set(theirs.up.as_ref().unwrap()));
    }
    // Each of the two parts alone changes something.
    let mixed = run_of(c2prompt_with(|c| c.probability = 0.0));
    let compensated = run_of(c2prompt_with(|c| c.cpa = false));
    assert_ne!(table(&powder), table(&mixed));
    assert_ne!(table(&powder), table(&compensated));
}

/// Card, invariant 7.
#[test]
fn histograms_do_not_change_training() {
    let uploads = [true, false].map(|cpa| {
        let mut run = engine(c2prompt_with(|c| c.cpa = cpa), 3);
        let shards = deal(&run.lab, &run.view(0), 2);
        run.task(0, &shards, 1);
        let trained = run.exchanges.into_iter().filter(|exchange| exchange.phase == "train");
        trained.map(|exchange| exchange.up.unwrap()).collect::<Vec<_>>()
    });
    for (with, without) in uploads[0].iter().zip(&uploads[1]) {
        assert_eq!(parameters_of(with).unwrap(), parameters_of(without).unwrap());
        let histogram = with.tensor(Kind::Statistics, "histogram").unwrap();
        assert_eq!(histogram.shape(), [3, 2]);
        let scores = histogram.as_f32().unwrap();
        assert!(scores.iter().all(|v| (0.0..=1.0).contains(v)) && scores.iter().any(|v| *v > 0.0));
        assert!(without.tensor(Kind::Statistics, "histogram").is_err());
    }
}

/// Card, invariants 2 and 6; the state lives as long as the slot.
#[test]
fn compensation_prompts_are_trained_and_stay_at_home() {
    let method = c2prompt_with(|c| c.compensation_epochs = 20);
    let mut run = engine(Arc::clone(&method), 3);
    let shards = deal(&run.lab, &run.view(0), 2);
    run.task(0, &shards, 2);
    let phases: Vec<&str> = run.exchanges.iter().map(|exchange| exchange.phase).collect();
    let expected = ["look", "statistics", "compensate", "train", "train", "look"];
    assert_eq!(phases.chunks(2).map(|pair| pair[0]).collect::<Vec<_>>(), expected);
    let figure = |exchange: &crate::toys::watched::Exchange, name: &str| {
        exchange.metrics.iter().find(|(other, _)| *other == name).unwrap().1
    };
    for exchange in &run.exchanges {
        let up = exchange.up.as_ref().unwrap();
        // Two classes, three tokens, width 16.
        assert!(up.tensors().all(|(_, tensor)| tensor.shape() != [2, 3, 16]), "{}", exchange.phase);
        if exchange.phase == "compensate" {
            assert_eq!(up.tensors().count(), 0);
            assert!(figure(exchange, "alignment_last") < figure(exchange, "alignment_first"));
        }
    }
    let trained = run.exchanges.iter().filter(|exchange| exchange.phase == "train");
    let steps: Vec<(f64, f64)> =
        trained.map(|e| (figure(e, "compensated_steps"), figure(e, "steps"))).collect();
    assert!(steps.iter().all(|(with, all)| with < all));
    assert!(steps.iter().any(|(with, _)| *with > 0.0));
    let state = &run.states[&ClientId(0)];
    assert!(!method.stateless());
    assert_eq!(method.kept_bytes(state), 4 * 2 * 3 * 16);
    let first = state.digest();
    let shards = deal(&run.lab, &run.view(1), 2);
    run.task(1, &shards, 1);
    assert_ne!(run.states[&ClientId(0)].digest(), first);
}

/// Card, invariant 6: what is answered does not depend on compensation prompts, whatever they are.
#[test]
fn answers_do_not_depend_on_compensation_prompts() {
    let runs = [1, 9].map(|epochs| {
        // Trained, and as good as never used.
        run_of(c2prompt_with(|c| (c.compensation_epochs, c.probability) = (epochs, 1e-12)))
    });
    let prompts = |run: &Engine| run.states[&ClientId(0)].digest();
    assert_ne!(prompts(&runs[0]), prompts(&runs[1]));
    assert_eq!(table(&runs[0]), table(&runs[1]));
    assert_eq!(runs[0].tally(6), runs[1].tally(6));
}

/// A client that was not there in round 0 learns without compensation prompts.
#[test]
fn who_missed_round_0_takes_part() {
    let method = c2prompt_with(|c| c.probability = 1.0);
    let mut run = engine(Arc::clone(&method), 3);
    let shards = deal(&run.lab, &run.view(0), 2);
    run.task(0, &shards, 1);
    let view = run.view(0);
    // Clients 2 and 3 are new.
    let [together, alone] = pack_and_alone(&method, &mut run, 3, &view);
    assert_eq!(together, alone);
    let compensated = |sent: &Sent| sent.1.last().unwrap().1;
    assert!(compensated(&together[0]) > 0.0);
    assert_eq!(compensated(&together[3]), 0.0);
}

#[test]
fn a_pack_learns_what_its_members_learn_alone() {
    let method = c2prompt_with(|_| ());
    let mut run = engine(Arc::clone(&method), 2);
    for task in 0..2 {
        let shards = deal(&run.lab, &run.view(task), 4);
        run.task(task, &shards, 1);
        let view = run.view(task);
        let [together, alone] = pack_and_alone(&method, &mut run, 3 + task, &view);
        assert_eq!(together, alone);
    }
}

/// Card, section 4.
#[test]
fn c2prompt_sends_the_bytes_of_its_card() {
    let method = |facts: &ModelFacts| C2Prompt::new(C2PromptConfig::default(), facts);
    let of = |phase| on_imagenet_r(20, phase, method);
    assert_eq!(payload(&of(1).up.body()), 122_960);
    assert_eq!((payload(&of(1).down), payload(&of(2).up.body())), (0, 0));
    assert_eq!(payload(&of(2).down), 122_880);
    assert_eq!(payload(&of(3).up.body()), 946_256 + 640);
    assert_eq!(of(4).up.size, UpSize::Static);
    let plain = |facts: &ModelFacts| {
        let config = C2PromptConfig { cpa: false, ..C2PromptConfig::default() };
        C2Prompt::new(config, facts)
    };
    assert_eq!(payload(&on_imagenet_r(20, 3, plain).up.body()), 946_256);
}

/// What a client answers is folded without the byte that says what it is; the answer of another phase is refused.
#[test]
fn an_upload_answers_what_was_asked() {
    let method = c2prompt_with(|_| ());
    let mut run = engine(Arc::clone(&method), 3);
    let shards = deal(&run.lab, &run.view(0), 2);
    run.task(0, &shards, 1);
    let (model, counts, view) = (facts(), ClassCounts::new(), run.view(0));
    // Phase 3 is for slots that learn alone.
    let phases = [0, 1, 2, 4, 5];
    let ups: Vec<Message> = run
        .exchanges
        .chunks(2)
        .map(|pair| Message::from_body(pair[0].up.as_ref().unwrap(), &[]).unwrap())
        .collect();
    assert_eq!(ups.len(), phases.len());
    for phase in phases {
        for (sent, up) in phases.iter().zip(&ups) {
            let facts = SketchFacts {
                model: &model,
                view: &view,
                phase,
                round_in_phase: 0,
                counts: &counts,
            };
            let lifted = method.lift(&facts, &Message::default(), up.clone());
            // A slot is taken for a slot by whoever checks its layout; both looks are about the same slots.
            let look = [0, 5].contains(sent) && [0, 4, 5].contains(&phase);
            assert_eq!(lifted.is_ok(), phase == *sent || look, "{sent} for {phase}");
            if phase == *sent {
                let folded = method.folded(&facts);
                assert_eq!(up.control[1..], lifted.unwrap().control);
                assert_eq!(method.up(&facts).control.len(), folded.control.len() + 1);
            }
        }
    }
}

#[test]
fn tasks_may_be_mixed_as_in_powder() {
    let method = c2prompt_with(|_| ());
    let refused = |service| refusal(&*method, &facts(), service).is_some();
    assert_eq!(
        Service::ALL.map(refused),
        [true, false, true, true, true],
        "late, mixed, robust, secure, lies"
    );
}

/// A copy of a frame is charged as one: which Downs are shared is part of what a run comes to.
#[test]
fn the_question_of_round_0_is_one_down_for_all() {
    let mut run = engine(c2prompt_with(|_| ()), 3);
    let shards = deal(&run.lab, &run.view(0), 2);
    run.task(0, &shards, 1);
    let shared = [1, 2, 3, 5].map(|phase| {
        let round = context(&run, 0, phase);
        let seats = run.method.seats(&round, &[ClientId(0), ClientId(1)]);
        let downs = run.server.broadcast(&round, &seats, &run.lab).unwrap();
        Arc::ptr_eq(&downs[0], &downs[1])
    });
    assert_eq!(shared, [true, false, false, false]);
}
