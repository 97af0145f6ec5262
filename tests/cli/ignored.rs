//! Promise: a key that a method never looks at is said before anything is computed, and under the results.

use std::fs;
use std::path::Path;

use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

use crate::command::{CommandOutput, read, run_fedcast, tiny};

const STSA: &str = "method={name=\"stsa\",width=16,first={name=\"none\"}}";

/// The tiny scenario with statistics in place of training, as a file that sets what it ignores.
fn said(arguments: &[&str]) -> CommandOutput {
    let folder = tempfile::tempdir().unwrap();
    let text = read(tiny()).replace(
        "name = \"hgp\"\nprompt_len = 8",
        "name = \"stsa\"\nwidth = 16\nfirst.name = \"none\"",
    );
    fs::write(folder.path().join("s.toml"), format!("{text}\n[participation]\ncount = 2\n"))
        .unwrap();
    run_fedcast(folder.path(), arguments)
}

#[test]
fn check_points_at_every_key_that_means_nothing() {
    let output = said(&["check", "s.toml"]);
    assert_eq!(output.code, 0, "{}", output.err);
    insta::assert_snapshot!(output.err);
    let json = said(&["check", "s.toml", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let places = json["files"][0]["notes"].as_array().unwrap().iter();
    let texts: Vec<&str> = places.map(|note| note["place"]["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["rounds = 1", "[client]", "count = 2"]);
    assert_eq!(json["files"][0]["errors"], serde_json::json!([]));
}

#[test]
fn plan_run_and_replay_say_it_and_who_was_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let tiny = tiny();
    let tiny = tiny.to_str().unwrap();
    let sets = ["--set", STSA, "--set", "participation.count=2"];
    let planned = run_fedcast(folder.path(), &[&["plan", tiny][..], &sets].concat());
    let sentence = "participation.count = 2 has no effect for `stsa`";
    assert!(planned.out.contains(&format!("not used: {sentence}")), "{}", planned.out);
    let ran = run_fedcast(folder.path(), &[&["run", tiny, "-o", "run"][..], &sets].concat());
    assert!(ran.err.starts_with("note: "), "{}", ran.err);
    assert!(ran.out.contains("sampled     3 of 3 clients in a round\n"), "{}", ran.out);
    assert!(ran.out.contains(&format!("not used    {sentence}")), "{}", ran.out);
    let replayed = run_fedcast(folder.path(), &["replay", "run"]);
    assert!(replayed.out.contains(&format!("not used    {sentence}")), "{}", replayed.out);
    let summary: serde_json::Value =
        serde_json::from_str(&read(folder.path().join("run/summary.json"))).unwrap();
    let sampled =
        serde_json::json!([{ "phase": "statistics", "rounds": 2, "fewest": 3, "most": 3 }]);
    assert_eq!(summary["sampled"], sampled);
    assert_eq!(summary["ignored"].as_array().unwrap().len(), 3);
}

#[test]
fn a_method_that_uses_its_keys_has_nothing_to_say() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(
        folder.path(),
        &["check", tiny().to_str().unwrap(), "--set", "participation.count=2"],
    );
    assert_eq!((output.code, &*output.err), (0, ""));
}

#[test]
fn methods_say_what_they_ignore_before_anybody_writes_a_scenario() {
    let folder = tempfile::tempdir().unwrap();
    for (method, must) in [
        ("stsa", "ignores         [participation]: every holder of a task's data takes part in"),
        ("stsa", "clients are sampled for `train` of the first task only"),
        ("stsa", "ignores         federation.rounds: it only applies to the first task"),
        (
            "stsa",
            "ignores         [client]: it only applies to the first task; later clients do not train",
        ),
        ("hgp", "clients keep    nothing between rounds"),
        ("icarl", "clients keep    state between rounds"),
        ("oracle", "needs           one site: federation.clients = 1"),
        ("hgp", "packs           yes"),
        ("gradma", "cost            3.00 at a client"),
    ] {
        let output = run_fedcast(folder.path(), &["methods", "show", method]);
        assert!(output.out.contains(must), "{method}: {must}\n{}", output.out);
    }
}

/// The tiny scenario with these changes, checked.
fn checked(sets: &[&str]) -> CommandOutput {
    let folder = tempfile::tempdir().unwrap();
    let tiny = tiny();
    let mut arguments = vec!["check", tiny.to_str().unwrap()];
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    run_fedcast(folder.path(), &arguments)
}

const HEAD: &str = "method={name=\"fedavg\",train=\"head\"}";

#[test]
fn codecs_that_touch_nothing_or_not_all_are_reported() {
    for (sets, must) in [
        (
            &[STSA, "wire.up.codec=\"f16\""][..],
            "wire.up.codec = \"f16\" has no effect for `stsa`: its uploads contain only statistics",
        ),
        (
            &[STSA, "wire.up={codec=\"int8\"}"],
            "wire.up.codec = \"int8\" has no effect for `stsa`: its uploads contain only statistics",
        ),
        (
            &["method={name=\"regmean\"}", "wire.up.codec=\"bf16\""],
            "wire.up.codec = \"bf16\" only applies partly to `regmean`: of its uploads it encodes",
        ),
        (
            &[HEAD, "wire.up.kinds.prompt=\"int8\""],
            "wire.up.kinds.prompt = \"int8\" has no effect for `fedavg`: its uploads contain no prompt",
        ),
        (&[HEAD, "wire.asset_cache=\"run\""], "wire.asset_cache has no effect for `fedavg`"),
    ] {
        let output = checked(sets);
        assert_eq!(output.code, 0, "{}", output.err);
        assert!(output.err.contains(must), "{sets:?}: {must}\n{}", output.err);
    }
    let output = checked(&[HEAD, "wire.up.codec=\"f16\"", "wire.down.codec=\"int8\""]);
    assert_eq!((output.code, &*output.err), (0, ""));
}

#[test]
fn methods_show_says_what_codecs_touch() {
    let folder = tempfile::tempdir().unwrap();
    for (method, must) in [
        ("fedavg", "codecs          encode weights and head of uploads\n"),
        ("stsa-e", "codecs          encode weights and head of uploads; unchanged: statistics\n"),
    ] {
        let output = run_fedcast(folder.path(), &["methods", "show", method]);
        assert!(output.out.contains(must), "{method}: {must}\n{}", output.out);
    }
}

#[test]
fn robust_means_equal_to_the_plain_one_are_reported() {
    let robust = |sets: &[&str]| checked(&[&[HEAD], sets].concat()).err;
    let warning = robust(&["federation.aggregation=\"trimmed-mean\""]);
    assert!(
        warning.contains("federation.trim_fraction = 0.1 has no effect: of at most 3 uploads"),
        "{warning}"
    );
    assert!(warning.contains("from 10 on"), "{warning}");
    let warning =
        robust(&["federation.aggregation=\"trimmed-mean\"", "federation.trim_fraction=0.34"]);
    assert_eq!(warning, "");
    let warning = robust(&["federation={clients=10,rounds=1,aggregation=\"trimmed-mean\"}"]);
    assert_eq!(warning, "");
    let few =
        ["federation={clients=10,rounds=1,aggregation=\"trimmed-mean\"}", "participation.count=9"];
    assert!(robust(&few).contains("of at most 9 uploads"));
    let warning = robust(&["federation.aggregation=\"median\"", "participation.count=2"]);
    assert!(
        warning.contains("the median of at most 2 uploads per round is their unweighted mean"),
        "{warning}"
    );
    assert_eq!(robust(&["federation.aggregation=\"median\""]), "");
}

/// Settings without an effect, and what is said of them.
const IDLE: &[(&str, &str)] = &[
    ("participation.fraction=1.0", "participation.fraction = 1 has no effect: it samples all of 3"),
    ("participation.count=3", "participation.count = 3 has no effect"),
    (
        "client.round_schedule={kind=\"multi-step\",milestones=[1,5]}",
        "client.round_schedule has no effect: a task has 1 round, counted from 0, and milestones 1, 5",
    ),
    ("client.round_schedule.kind=\"cosine\"", "client.round_schedule has no effect: a task has 1"),
    (
        "client.epoch_schedule=\"cosine\"",
        "client.epoch_schedule has no effect: a round has 1 epoch",
    ),
    ("record.checkpoint.every=50", "record.checkpoint.every = 50 is never reached: the run has 2"),
    (
        "faults=[{kind=\"crash\",rounds=[2,3]}]",
        "faults.rounds: the run has 2 rounds, and nothing happens in rounds 3",
    ),
    ("time={slowness=2.0}", "time.slowness has no effect: time.ms_per_sample is 0"),
    (
        "privacy.threshold=0.9",
        "privacy.threshold has no effect: privacy.secure_aggregation is false",
    ),
    ("privacy.bits=20", "privacy.bits has no effect"),
    ("seed.class_order=5", "seed.class_order has no effect: tasks.order is \"native\""),
    (
        "federation.dummy_clients.split=\"remainder-last\"",
        "federation.dummy_clients.split has no effect",
    ),
    ("record.bias=\"round\"", "record.bias has no effect: `federated-bias` is not among"),
    (
        "faults=[{kind=\"malicious\",how=\"scaled\",factor=1.0}]",
        "faults has no effect: an update scaled by factor = 1",
    ),
    (
        "availability={kind=\"by-data\",min_fraction=1.0}",
        "availability.kind has no effect: with these numbers every client is always on",
    ),
];

#[test]
fn settings_without_effect_are_reported() {
    for (set, must) in IDLE {
        let output = checked(&[HEAD, set]);
        assert_eq!(output.code, 0, "{set}: {}", output.err);
        assert!(output.err.contains(must), "{set}: {must}\n{}", output.err);
    }
    let ideal = ["time={preset=\"ideal\"}", "links={preset=\"ideal\"}"];
    let output =
        checked(&[&[HEAD, "round={close=\"deadline\",deadline_s=9.0}"], &ideal[..]].concat());
    assert!(
        output.err.contains("round.deadline_s has no effect: nothing takes virtual time"),
        "{}",
        output.err
    );
    for used in [
        "round={close=\"deadline\",deadline_s=9.0}",
        "client.round_schedule={kind=\"multi-step\",milestones=[0]}",
        "client={epochs=2,epoch_schedule=\"cosine\"}",
        "faults=[{kind=\"crash\",rounds=[2]}]",
        "record.checkpoint.every=2",
    ] {
        let output = checked(&[HEAD, used]);
        assert_eq!((output.code, &*output.err), (0, ""), "{used}");
    }
}

/// The tiny scenario with this trace, checked.
fn traced(trace: &str, more: &[&str]) -> CommandOutput {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("trace.csv"), trace).unwrap();
    let tiny = tiny();
    let set = "availability={kind=\"trace\",file=\"trace.csv\"}";
    let mut arguments = vec!["check", tiny.to_str().unwrap(), "--set", set];
    arguments.extend(more.iter().flat_map(|set| ["--set", set]));
    run_fedcast(folder.path(), &arguments)
}

#[test]
fn a_trace_that_contradicts_itself_is_refused_with_the_line() {
    let output = traced("client,time_s,state\n0,0,on\n1,5,on\n1,7,off\n1,5.0,off\n", &[]);
    assert_eq!(output.code, 3, "{}", output.err);
    assert!(
        output.err.contains("client 1 is off here and on in an earlier line, both at 5 s"),
        "{}",
        output.err
    );
    assert!(output.err.contains("trace.csv:5:7"), "{}", output.err);
    let twice = traced("client,time_s,state\n0,0,on\n0,0,on\n1,0,on\n2,0,on\n", &[]);
    assert_eq!(twice.code, 0, "{}", twice.err);
}

#[test]
fn open_ends_of_a_trace_are_reported() {
    let output = traced("client,time_s,state\n0,0,on\n0,60,off\n7,1,on\n", &[]);
    assert_eq!(output.code, 0, "{}", output.err);
    for must in [
        "the trace has no lines for 2 of 3 clients (such as 1), which are always on",
        "the trace has 1 client outside the run (such as 7)",
        "the trace ends at 60 s, and 1 of 3 clients stay off after that",
    ] {
        assert!(output.err.contains(must), "{must}\n{}", output.err);
    }
    let whole = "client,time_s,state\n0,0,on\n0,60,off\n1,1,on\n1,50,off\n2,1,on\n2,3,off\n";
    let output = traced(whole, &["availability.repeat_s=100.0"]);
    assert_eq!((output.code, &*output.err), (0, ""));
    let output = traced(whole, &["availability.repeat_s=60.0"]);
    assert!(output.err.contains("1 line of the trace at or after repeat_s = 60"), "{}", output.err);
}

/// A resumed run reads its effective scenario, which says the same.
#[test]
fn effective_scenarios_keep_what_is_ignored() {
    let methods = Registry::builtin();
    for (set, must) in IDLE {
        let overrides = [HEAD, set].map(Override::new);
        let scenario = Scenario::load(&tiny(), &overrides, &methods).unwrap().scenario;
        let text = scenario.to_effective_toml();
        let read = Scenario::from_toml(&text, "tiny", Path::new("/"), &[], &methods).unwrap();
        assert!(scenario.ignored().iter().any(|ignored| ignored.contains(must)), "{set}");
        assert_eq!(read.scenario.ignored(), scenario.ignored(), "{set}");
        assert_eq!(read.scenario.hash(), scenario.hash(), "{set}");
    }
    let hash = |set| Scenario::load(&tiny(), &[HEAD, set].map(Override::new), &methods).unwrap();
    let unused = hash("federation.dummy_clients.split=\"remainder-last\"").scenario.hash();
    assert_eq!(unused, hash("federation.dummy_clients={count=1}").scenario.hash());
    assert_ne!(
        unused,
        hash("federation.dummy_clients={count=2,phases=[\"train\"]}").scenario.hash()
    );
}
