//! Promise: a scenario that extends another is that one but for what it says, its mistakes are shown in
//! the file they stand in, and what a run keeps needs no base.

use std::fs;
use std::path::Path;

use crate::command::{read, run_fedcast, tiny};
use fedcast::scenario::{AnyMethod, ExpectedMetric, Loaded, Override, Scenario, ScenarioError};
use tempfile::TempDir;

const BASE: &str = r#"schema = 2

[data]
source = "folder"
path = "images"
stored_size = 8

[tasks]
count = 5

[partition]
kind = "dirichlet"
beta = 0.1

[method]
name = "hgp"
tau = 0.2

[wire]
asset_cache = "task"
"#;

/// A folder with `base/base.toml` and `child.toml`.
fn files(base: &str, child: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("base")).unwrap();
    fs::write(folder.path().join("base/base.toml"), base).unwrap();
    fs::write(folder.path().join("child.toml"), child).unwrap();
    folder
}

fn load(folder: &Path, overrides: &[&str]) -> Result<Loaded, ScenarioError> {
    let overrides: Vec<Override> = overrides.iter().map(|text| Override::new(*text)).collect();
    Scenario::load(&folder.join("child.toml"), &overrides, &AnyMethod)
}

fn child(text: &str, overrides: &[&str]) -> Scenario {
    let folder = files(BASE, &format!("extends = \"base/base.toml\"\n{text}"));
    load(folder.path(), overrides).unwrap_or_else(|error| panic!("{error}")).scenario
}

/// Returns the message on wrong files, with paths independent of the folder.
fn refusal(base: &str, child: &str, overrides: &[&str]) -> String {
    let folder = files(base, child);
    let error = load(folder.path(), overrides).expect_err("these files are wrong").to_string();
    error.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn a_child_is_its_base_but_for_what_it_says() {
    let same = child("", &[]);
    assert_eq!(same.name, "child");
    let whole = Scenario::from_toml(BASE, "child", Path::new("/"), &[], &AnyMethod).unwrap();
    assert_eq!(same.hash(), whole.scenario.hash(), "the folder of data does not count");

    let other = child("partition.beta = 0.5\nwire = \"verify\"\n", &[]);
    let sets = ["partition.beta=0.5", "wire.verify=true"];
    assert_eq!(other.hash(), child("", &sets).hash());
    assert_eq!(other.wire.asset_cache, whole.scenario.wire.asset_cache);
    assert!(other.wire.verify);

    let override_wins = child("partition.beta = 0.5\n", &["partition.beta=0.7"]);
    assert_eq!(override_wins.hash(), child("", &["partition.beta=0.7"]).hash());
}

#[test]
fn another_method_or_data_set_inherits_nothing() {
    let fedavg = child("[method]\nname = \"fedavg\"\n", &[]);
    assert!(!fedavg.to_effective_toml().contains("tau"), "{}", fedavg.to_effective_toml());
    let digits = child("data.source = \"digits\"\n", &[]);
    assert_eq!(digits.data.path, None);
    let iid = child("partition.kind = \"iid\"\n", &[]);
    assert!(!iid.to_effective_toml().contains("beta = "), "{}", iid.to_effective_toml());
}

#[test]
fn lists_are_replaced() {
    let base = format!("{BASE}[[faults]]\nkind = \"crash\"\nrate = 0.1\n");
    let read = |more: &str| {
        let folder = files(&base, &format!("extends = \"base/base.toml\"\n{more}"));
        load(folder.path(), &[]).unwrap_or_else(|error| panic!("{error}")).scenario.faults.len()
    };
    let two = "[[faults]]\nkind = \"lose\"\n[[faults]]\nkind = \"duplicate\"\n";
    assert_eq!((read(""), read(two), read("faults = []\n")), (1, 2, 0));
}

#[test]
fn paths_start_at_the_file_they_are_written_in() {
    let folder = files(
        BASE,
        "extends = \"base/base.toml\"\n[cache]\nfeatures = \"file\"\nfolder = \"features\"\n",
    );
    let read = |overrides: &[&str]| {
        load(folder.path(), overrides).unwrap_or_else(|error| panic!("{error}")).scenario
    };
    let scenario = read(&[]);
    let root = folder.path().canonicalize().unwrap();
    assert_eq!(scenario.data.path, Some(root.join("base/images")));
    assert_eq!(scenario.cache.folder, Some(root.join("features")));
    let here = std::env::current_dir().unwrap();
    assert_eq!(read(&["data.path=images"]).data.path, Some(here.join("images")));
}

#[test]
fn mistakes_are_shown_in_the_file_they_stand_in() {
    let base = BASE.replace("beta = 0.1", "beta = -1");
    let message = refusal(&base, "extends = \"base/base.toml\"\n[federation]\nclinets = 3\n", &[]);
    insta::assert_snapshot!(message, @r#"
    error: unknown key `clinets` in [federation]
     --> child.toml:3:1
      |
    3 | clinets = 3
      | ^^^^^^^ no such key
      = help: did you mean `clients`?

    error: `partition.beta` must be at least 0.000001
      --> base/base.toml:13:8
       |
    13 | beta = -1
       |        ^^ out of range
    "#);
    let base = format!("{BASE}\n[round]\nclose = \"deadline\"\ndeadline_s = 5\n");
    let message = refusal(&base, "extends = \"base/base.toml\"\nround.close = \"all\"\n", &[]);
    insta::assert_snapshot!(message, @r#"
    error: `round.deadline_s` has no meaning with `close = "all"`
      --> base/base.toml:24:1
       |
    24 | deadline_s = 5
       | ^^^^^^^^^^ no effect here
       = help: remove it, or change `close = "all"`
    "#);
    let message = refusal("[data\n", "extends = \"base/base.toml\"\nnonsense = 1\n", &[]);
    insta::assert_snapshot!(message, @r#"
    error: this is not TOML: unclosed table, expected `]`
     --> base/base.toml:1:6
      |
    1 | [data
      |      ^ here
    "#);
    let part = BASE.replace("[method]\nname = \"hgp\"\ntau = 0.2\n", "");
    let message = refusal(&part, "extends = \"base/base.toml\"\npartition.beta = 1\n", &[]);
    insta::assert_snapshot!(message, @r#"
    error: the scenario lacks the table [method]
     --> child.toml:1:1
      = help: add `[method]` with, for example, `name = "hgp"`
    "#);
}

#[test]
fn a_base_that_cannot_be_is_refused_where_it_is_named() {
    let of = |child: &str| refusal(BASE, child, &[]);
    insta::assert_snapshot!(of("extends = \"base/bse.toml\"\n"), @r#"
    error: cannot read the base base/bse.toml: No such file or directory (os error 2)
     --> child.toml:1:11
      |
    1 | extends = "base/bse.toml"
      |           ^^^^^^^^^^^^^^^ this file
      = help: the path is relative to the folder of this file
    "#);
    insta::assert_snapshot!(of("\nextends = \"base\"\n"), @r#"
    error: cannot extend base: it is a folder
     --> child.toml:2:11
      |
    2 | extends = "base"
      |           ^^^^^^ no file
      = help: name a file in it
    "#);
    insta::assert_snapshot!(of("extends = \"child.toml\"\n"), @r#"
    error: child.toml extends itself
     --> child.toml:1:11
      |
    1 | extends = "child.toml"
      |           ^^^^^^^^^^^^ this file itself
      = help: name another file
    "#);
    insta::assert_snapshot!(of("extends = [\"base/base.toml\"]\n"), @r#"
    error: `extends` must be a string
     --> child.toml:1:11
      |
    1 | extends = ["base/base.toml"]
      |           ^^^^^^^^^^^^^^^^^^ this is a list
      = help: write the path of one scenario file, relative to the folder of this one
    "#);
    let circle = format!("extends = \"../child.toml\"\n{BASE}");
    insta::assert_snapshot!(refusal(&circle, "extends = \"base/base.toml\"\n", &[]), @r#"
    error: child.toml and base/base.toml extend each other
     --> base/base.toml:1:11
      |
    1 | extends = "../child.toml"
      |           ^^^^^^^^^^^^^^^ extends another file
      = help: remove this line and copy the keys that you need from that file
    "#);
    let third = "# A base.\nextends = \"other.toml\"\n";
    insta::assert_snapshot!(refusal(third, "extends = \"base/base.toml\"\n", &[]), @r#"
    error: a base cannot extend another file
     --> base/base.toml:2:11
      |
    2 | extends = "other.toml"
      |           ^^^^^^^^^^^^ extends another file
      = help: remove this line and copy the keys that you need from that file
    "#);
    let message = refusal(BASE, BASE, &["extends=base/base.toml"]);
    assert!(message.contains("`extends` cannot be overridden"), "{message}");
    assert!(message.contains("--set:1:9"), "{message}");
}

#[test]
fn published_numbers_change_nothing_and_have_words_that_are_known() {
    let expected =
        "[expected]\nfaa = 82.25\nforgetting = -1\nsource = \"Table 1\"\nnote = \"once\"\n";
    let (with, without) = (child(expected, &[]), child("", &[]));
    assert_eq!(with.hash(), without.hash());
    assert_eq!(with.expected.numbers.get(&ExpectedMetric::Faa), Some(&82.25));
    assert_eq!(with.expected.overrides, Vec::<String>::new());
    let text = with.to_effective_toml();
    let again = Scenario::from_toml(&text, "child", Path::new("/"), &[], &AnyMethod).unwrap();
    assert_eq!(again.scenario, with);
    // A source without a number, as a base has it, is nothing.
    assert_eq!(child("[expected]\nsource = \"Table 1\"\n", &[]).expected, without.expected);

    let changed = child(expected, &["federation.rounds=1", "expected.faa=80"]);
    assert_eq!(changed.expected.overrides, ["federation.rounds=1"]);
    assert_eq!(changed.expected.numbers.get(&ExpectedMetric::Faa), Some(&80.0));
    // What a file says anyway, its own or its base, is no change, and neither is what is taken back.
    let same = child(expected, &["tasks.count=5", "method.tau=0.3", "method.tau=0.2"]);
    assert_eq!(same.expected.overrides, Vec::<String>::new());
    let other = child(expected, &["tasks.count=5", "method.tau=0.3"]);
    assert_eq!(other.expected.overrides, ["method.tau=0.3"]);

    let file = |number: &str| format!("extends = \"base/base.toml\"\n[expected]\n{number}\n");
    let message = refusal(BASE, &file("fa = 82.25"), &[]);
    assert!(
        message.contains("child.toml:3:1") && message.contains("did you mean `faa`?"),
        "{message}"
    );
    let message = refusal(BASE, &file("precision = 82.25"), &[]);
    assert!(message.contains("`average_incremental`") && message.contains("`micro`"), "{message}");
    let message = refusal(BASE, &file("faa = 8225"), &[]);
    assert!(message.contains("must be at least -100 and at most 100"), "{message}");
}

/// Lines of a final table that say nothing of wall times and places.
fn facts(text: &str) -> Vec<String> {
    let others = ["wall", "by task:", "event loop:", "peak memory", "directory"];
    let fact = |line: &&str| !others.iter().any(|word| line.trim_start().starts_with(word));
    text.lines().filter(fact).map(str::to_owned).collect()
}

#[test]
fn a_run_keeps_all_it_needs_and_says_what_was_published() {
    let folder = files(
        &read(tiny()),
        "extends = \"base/base.toml\"\nfederation.rounds = 2\n\
         [expected]\nfaa = 82.25\nsource = \"Table 1\"\nnote = \"mean of 3 runs\"\n",
    );
    let run = run_fedcast(folder.path(), &["run", "child.toml", "-q", "-o", "run"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let line = run.out.lines().find(|line| line.starts_with("published")).expect("a line of it");
    assert!(line.starts_with("published   faa 82.25 (Table 1), here "), "{line}");
    assert!(run.out.contains("\n            mean of 3 runs\n"), "{}", run.out);

    let effective = read(folder.path().join("run/scenario.effective.toml"));
    assert!(!effective.contains("extends") && effective.contains("rounds = 2"), "{effective}");
    assert!(effective.contains("clients = 3") && effective.contains("[expected]"), "{effective}");
    let json = |name: &str, file: &str| -> serde_json::Value {
        serde_json::from_str(&read(folder.path().join(name).join(file))).unwrap()
    };
    let summary = json("run", "summary.json");
    let (number, accuracy) = (&summary["published"]["numbers"][0], &summary["accuracy"]);
    assert_eq!((&number["metric"], &number["published"]), (&"faa".into(), &82.25.into()));
    let here = number["here"].as_f64().unwrap();
    assert_eq!(here, 100.0 * accuracy["faa"].as_f64().unwrap());
    assert!(line.ends_with(&format!("here {here:.2}")), "{line}");

    // The same run without a base and without numbers, to the same digests.
    let plain = tiny();
    let plain =
        ["run", plain.to_str().unwrap(), "-q", "-o", "plain", "--set", "federation.rounds=2"];
    let output = run_fedcast(folder.path(), &plain);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(!output.out.contains("published"), "{}", output.out);
    let manifests = [json("run", "manifest.json"), json("plain", "manifest.json")];
    assert_eq!(manifests[0]["digests"], manifests[1]["digests"]);
    assert_eq!(manifests[0]["scenario"]["hash"], manifests[1]["scenario"]["hash"]);

    // The files are not searched again.
    fs::remove_dir_all(folder.path().join("base")).unwrap();
    fs::remove_file(folder.path().join("child.toml")).unwrap();
    let replayed = run_fedcast(folder.path(), &["replay", "run"]);
    assert_eq!((replayed.code, facts(&replayed.out)), (0, facts(&run.out)), "{}", replayed.err);
    let verified = run_fedcast(folder.path(), &["replay", "run", "--verify", "-q"]);
    assert_eq!(verified.code, 0, "{}", verified.err);
    let retimed = run_fedcast(folder.path(), &["replay", "run", "--set", "time.slowness=2"]);
    assert_eq!(retimed.code, 0, "{}", retimed.err);
}

#[test]
fn a_run_with_overrides_says_that_it_is_another() {
    let folder = files(
        &read(tiny()),
        "extends = \"base/base.toml\"\nexpected = { faa = 82.25, bt = 1.0 }\n",
    );
    let set = ["--set", "client.epochs=2"];
    for command in ["check", "plan"] {
        let output = run_fedcast(folder.path(), &[&[command, "child.toml"], &set[..]].concat());
        assert_eq!(output.code, 0, "{}", output.err);
    }
    let run =
        run_fedcast(folder.path(), &[&["run", "child.toml", "-q", "-o", "run"], &set[..]].concat());
    assert_eq!(run.code, 0, "{}", run.err);
    let lines: Vec<&str> =
        run.out.lines().skip_while(|line| !line.starts_with("published")).take(3).collect();
    assert!(lines[0].starts_with("published   faa 82.25, here "), "{}", run.out);
    assert_eq!(lines[1].trim(), "bt 1.00, here not measured");
    assert_eq!(
        lines[2].trim(),
        "of the unchanged scenario; this run has --set client.epochs=2",
        "{}",
        run.out
    );
}
