//! Promise: training clients in packs changes who computes, and neither digest, whatever the number
//! of workers, however slow the links, whichever clients drop out.

use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::softmax::{
    Remember, SoftmaxFault, Visits, mobile_compute, mobile_links, rules, run, setup,
};
use fedcast::experiment::assemble::assemble;
use fedcast::federation::{
    CohortSize, ComputeRules, Digests, EndReason, FaultRules, FederationError, Interrupt, JobKind,
    MemorySink, ParticipationSection, ProfileSink, Rules, Setup, Span, simulate,
};
use fedcast::methods::Registry;
use fedcast::scenario::Scenario;

/// Slow links of different lengths, crashes and losses.
fn mobile(pack: usize) -> Rules {
    let participation = ParticipationSection {
        participants: CohortSize::Count { count: 5 },
        ..ParticipationSection::default()
    };
    let (compute, links) = (mobile_compute(), mobile_links());
    let faults = FaultRules { lose_down: 0.1, lose_up: 0.05, ..FaultRules::crashing(0.1) };
    Rules { compute, links, faults, participation, pack, ..rules() }
}

/// Links so slow compared with work that a participant ends while others of its pack wait for their download.
fn late(pack: usize) -> Rules {
    Rules { compute: ComputeRules::IDEAL, links: mobile_links(), pack, ..rules() }
}

/// Returns the number of training jobs of a run.
#[derive(Clone, Default)]
struct Jobs(Arc<Mutex<usize>>);

impl ProfileSink for Jobs {
    fn record(&mut self, span: &Span) {
        *self.0.lock().expect("no holder panics") += usize::from(span.job == JobKind::Train);
    }
}

fn counted(setup: Setup) -> (Digests, usize) {
    let (memory, jobs) = (MemorySink::default(), Jobs::default());
    let sink = Box::new(memory.clone());
    let end = simulate(setup, sink, Box::new(jobs.clone()), Interrupt::default());
    assert_eq!(end.expect("ends well").reason, EndReason::Done);
    (memory.digests(), *jobs.0.lock().expect("no holder panics"))
}

#[test]
fn packs_change_neither_digest() {
    for make in [setup::<()>, setup::<Visits>] {
        for (rules, jobs) in [(rules as fn() -> Rules, [60, 20]), (|| mobile(1), [0, 0])] {
            let of = |pack| counted(make(Rules { pack, ..rules() }, SoftmaxFault::None));
            let (one, four) = (of(1), of(4));
            assert_eq!(one.0, four.0);
            assert!(four.1 < one.1, "{} jobs, {} in packs", one.1, four.1);
            if jobs[0] > 0 {
                assert_eq!(
                    [one.1, four.1],
                    jobs,
                    "six participants are a pack of four and one of two"
                );
            }
        }
    }
}

#[test]
fn digests_with_packs_do_not_depend_on_workers_or_when_they_finish() {
    for make in [setup::<()>, setup::<Visits>] {
        let of = |workers: usize, shaker| {
            let workers = workers.into();
            run(Setup { workers, shaker, ..make(mobile(4), SoftmaxFault::None) }).digests
        };
        let one = of(1, None);
        for workers in [2, 3, 8] {
            assert_eq!(one, of(workers, None), "{workers} workers");
        }
        for seed in 1..4 {
            assert_eq!(one, of(3, Some(seed)), "shaker {seed}");
        }
    }
}

#[test]
fn late_participants_train_later() {
    let (alone, ones) = counted(setup::<Visits>(late(1), SoftmaxFault::None));
    let (packed, jobs) = counted(setup::<Visits>(late(6), SoftmaxFault::None));
    assert_eq!(alone, packed);
    assert_eq!(jobs, ones, "everybody's end comes up before the next one's Down arrives");
    // With work between, some wait for each other.
    let (alone, ones) = counted(setup::<Visits>(mobile(1), SoftmaxFault::None));
    let (packed, jobs) = counted(setup::<Visits>(mobile(6), SoftmaxFault::None));
    assert_eq!(alone, packed);
    assert!(jobs < ones, "{jobs} jobs instead of {ones}");
}

/// Clients without a state do not wait for their download, in a round that waits for all.
#[test]
fn stateless_clients_fill_packs_over_slow_links() {
    let (alone, ones) = counted(setup::<()>(late(1), SoftmaxFault::None));
    let (packed, jobs) = counted(setup::<()>(late(6), SoftmaxFault::None));
    assert_eq!(alone, packed);
    assert_eq!((ones, jobs), (60, 10));
}

#[test]
fn crashed_and_unreachable_clients_delay_no_others() {
    let faults = FaultRules { lose_down: 0.4, lose_up: 0.0, ..FaultRules::crashing(0.4) };
    let of = |pack| {
        run(setup::<Visits>(Rules { faults: faults.clone(), pack, ..rules() }, SoftmaxFault::None))
    };
    let (one, four) = (of(1), of(4));
    assert!(four.count("client_failed") > 10 && four.count("client_trained") > 5);
    assert_eq!(one.digests, four.digests);
}

#[test]
fn a_panic_fails_every_member_of_its_pack() {
    let ran = run(setup::<Visits>(Rules { pack: 3, ..rules() }, SoftmaxFault::Panic));
    assert_eq!(ran.failures(), vec!["panicked"; 30], "three of six, ten times");
    assert_eq!(ran.count("client_trained"), 30);
}

/// Returns the number of jobs that found the memory full.
#[derive(Clone, Default)]
struct Retries(Arc<Mutex<usize>>);

impl ProfileSink for Retries {
    fn record(&mut self, span: &Span) {
        *self.0.lock().expect("no holder panics") += usize::from(span.job == JobKind::Retry);
    }
}

/// Also the states of clients that remember are those of a run where everything fitted.
#[test]
fn a_pack_that_finds_the_memory_full_is_tried_again_in_halves_and_recorded() {
    fn digests<S: Remember>(fault: SoftmaxFault) -> (Digests, usize) {
        let (memory, retries) = (MemorySink::default(), Retries::default());
        let setup = setup::<S>(Rules { pack: 6, ..rules() }, fault);
        let sink = Box::new(memory.clone());
        let end = simulate(setup, sink, Box::new(retries.clone()), Interrupt::default());
        assert_eq!(end.expect("ends well").reason, EndReason::Done);
        (memory.digests(), *retries.0.lock().expect("no holder panics"))
    }
    // Ten packs of six: none, one, or three divisions each.
    for (room, expected) in [(6, 0), (3, 10), (2, 30)] {
        for (found, sound) in [
            (digests::<()>(SoftmaxFault::Full(room)), digests::<()>(SoftmaxFault::None)),
            (digests::<Visits>(SoftmaxFault::Full(room)), digests::<Visits>(SoftmaxFault::None)),
        ] {
            assert_eq!((found.0, found.1), (sound.0, expected), "room for {room}");
        }
    }
}

#[test]
fn a_memory_that_does_not_hold_one_client_ends_the_run() {
    let setup = setup::<()>(Rules { pack: 4, ..rules() }, SoftmaxFault::Full(0));
    let end = simulate(setup, Box::new(MemorySink::default()), Box::new(()), Interrupt::default());
    let error = end.expect_err("cannot go on");
    assert!(matches!(&error, FederationError::Memory(_)), "{error}");
    assert!(error.to_string().contains("lower client.batch_size"), "{error}");
}

const HGP: &str = r#""hgp", prompt_len = 4, n_blocks = 1"#;
const HEAD: &str = r#""fedavg", train = "head""#;

/// A real method, from a scenario that says how many clients train together.
fn scenario(method: &str, pack: &str, more: &str) -> Setup {
    let methods = Registry::builtin();
    let text = format!(
        r#"
        schema = 2
        data = {{ source = "digits", subset = 8 }}
        tasks = {{ sizes = [5, 5] }}
        partition = {{ kind = "dirichlet", beta = 0.5 }}
        method = {{ name = {method} }}
        federation = {{ clients = 5, rounds = 1 }}
        client = {{ epochs = 1, batch_size = 4 }}
        devices = {{ pack = {pack} }}
        {more}
    "#
    );
    let read = Scenario::from_toml(&text, "packs.toml", Path::new("."), &[], &methods);
    assemble(&read.expect("is valid").scenario, &methods, Some(2)).expect("opens").setup
}

#[test]
fn scenarios_say_how_many_clients_train_together() {
    let of = |method, pack| counted(scenario(method, pack, ""));
    for method in [HGP, HEAD] {
        let (alone, ones) = of(method, "1");
        let (packed, jobs) = of(method, "3");
        assert_eq!(alone, packed, "{method}");
        assert_eq!((ones, jobs), (10, 4), "{method}");
        assert_eq!(of(method, "\"auto\""), (alone, ones), "one on the CPU");
    }
    // Who trains the backbone trains alone.
    let all = r#""fedavg", train = "all""#;
    assert_eq!(of(all, "3"), of(all, "1"));
}

#[test]
fn real_methods_in_packs_do_not_depend_on_workers_or_when_they_finish() {
    let of = |workers: usize, shaker| {
        let workers = workers.into();
        run(Setup { workers, shaker, ..scenario(HGP, "3", "") }).digests
    };
    let one = of(1, None);
    for workers in [2, 3, 8] {
        assert_eq!(one, of(workers, None), "{workers} workers");
        assert_eq!(one, of(workers, Some(workers as u64)), "{workers} shaken workers");
    }
}

#[test]
fn members_mask_and_blur_their_own_uploads() {
    let secure = "privacy = { secure_aggregation = true }";
    let noisy = "privacy = { noise = { scale = 0.5, q = 1.0, on = [\"head\"] } }";
    for privacy in [secure, noisy] {
        let (alone, ones) = counted(scenario(HEAD, "1", privacy));
        let (packed, jobs) = counted(scenario(HEAD, "3", privacy));
        assert_eq!(alone, packed, "{privacy}");
        assert!(jobs < ones, "{privacy}");
    }
}
