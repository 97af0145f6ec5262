//! Promises: a play becomes a federation of its speakers, read by a BERT that gives features; what does not go
//! together is refused before anything is read.

use std::path::Path;

use crate::command::{read, run_fedcast};
use fedcast::model::{Bert, BertConfig, bert::BertPooling, to_safetensors};
use fedcast::numerics::streams::{Domain, StreamKey};
use serde_json::Value;

const PLAY: &str = r#"
schema = 2
data = { source = "play", path = "play.txt", text = { sequence_length = 8, stride = 1, vocabulary_size = 8 } }
tasks = { count = 4 }
partition = { kind = "natural" }
backbone = { kind = "bert", architecture = { hidden = 16, heads = 2, layers = 1, intermediate = 16 } }
method = { name = "fedhaf", module_hidden = 16, module_width = 8, head_hidden = 8 }
federation = { clients = 3, rounds = 2 }
client = { epochs = 1, batch_size = 16, optimizer = { kind = "sgd", lr = 0.05 } }
"#;

/// Four speakers who say something different each.
fn write(folder: &Path) {
    let lines = ["to be or not to be", "in the end all is one", "so it is said", "nay"];
    let mut play = String::new();
    for scene in 0..12 {
        for (speaker, line) in lines.iter().enumerate().filter(|(at, _)| scene % (at + 1) == 0) {
            play.push_str(&format!("SPEAKER {speaker}:\n{line},\nand {line}.\n\n"));
        }
    }
    std::fs::write(folder.join("play.txt"), play).unwrap();
    std::fs::write(folder.join("play.toml"), PLAY).unwrap();
}

fn run(folder: &Path, out: &str, more: &[&str]) -> Value {
    let output = run_fedcast(folder, &[&["run", "play.toml", "-q", "-o", out], more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(&read(folder.join(out).join("manifest.json"))).unwrap()
}

#[test]
fn a_play_is_a_federation_of_its_speakers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder);
    let one = run(folder, "one", &["--workers", "1"]);
    assert_eq!(one["backbone"]["name"], "random");
    assert_eq!(one["digests"], run(folder, "three", &["--workers", "3"])["digests"]);
    let off = ["--set", "cache.features=off"];
    assert_eq!(one["digests"], run(folder, "off", &off)["digests"]);
    let merged = run(folder, "merged", &["--set", "partition.leftover=merge"]);
    assert_ne!(one["digests"], merged["digests"], "the fourth speaker is with somebody");
    let replayed = run_fedcast(folder, &["replay", "one", "--verify", "-q"]);
    assert_eq!(replayed.code, 0, "{}{}", replayed.out, replayed.err);
    let divided = ["--set", "partition={kind=\"lda\",min_samples=1}"];
    assert_ne!(one["digests"], run(folder, "lda", &divided)["digests"]);
    // Speaker 0 says the same line in all twelve scenes.
    let clients = read(folder.join("one/clients.csv"));
    assert_eq!(clients.lines().count(), 1 + 3, "{clients}");
}

#[test]
fn what_is_planned_is_what_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    run(folder.path(), "run", &[]);
    let summary: Value =
        serde_json::from_str(&read(folder.path().join("run/summary.json"))).unwrap();
    let output = run_fedcast(folder.path(), &["plan", "play.toml", "--format", "json"]);
    assert_eq!(output.code, 0, "{}", output.err);
    let plan: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(plan["total"]["down"], summary["bytes"]["down"]["delivered"]["bytes"]);
    let output = run_fedcast(folder.path(), &["plan", "play.toml"]);
    assert!(output.out.contains("bert, sequences of 10 tokens"), "{}", output.out);
}

/// Next characters of a play, read by a network that has seen nothing: guessing is right once in eight.
#[test]
fn fedhaf_learns_them_and_forgets_less_than_fedavg() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let shape = "{hidden=32,heads=2,layers=1,intermediate=32}";
    let backbone = format!("backbone={{kind=\"bert\",pooling=\"last\",architecture={shape}}}");
    let fedhaf = r#"method={name="fedhaf",module_hidden=32,module_width=16,head_hidden=16}"#;
    let fedavg = r#"method={name="fedavg",train="head",old_logits="keep"}"#;
    let accuracy = |out: &str, method: &str| {
        let more = ["--set", "federation.rounds=4", "--set", "client.epochs=4"];
        run(folder.path(), out, &[&["--set", &backbone, "--set", method], &more[..]].concat());
        let summary = read(folder.path().join(out).join("summary.json"));
        let summary: Value = serde_json::from_str(&summary).unwrap();
        let of = |name: &str| summary["accuracy"][name].as_f64().unwrap();
        (of("micro"), of("forgetting_from_best"))
    };
    let (haf, avg) = (accuracy("haf", fedhaf), accuracy("avg", fedavg));
    assert!(haf.0 > 2.0 / 8.0 && haf.1 < avg.1 - 0.2, "{haf:?} {avg:?}");
}

#[test]
fn without_the_play_a_plan_knows_its_sizes() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    std::fs::remove_file(folder.path().join("play.txt")).unwrap();
    let output = run_fedcast(folder.path(), &["plan", "play.toml"]);
    assert!(output.code != 0 && output.err.contains("data.nominal"), "{}", output.err);
    let nominal = ["--set", "data.nominal={classes=8,train=800,test=200}"];
    let output = run_fedcast(folder.path(), &[&["plan", "play.toml"], &nominal[..]].concat());
    assert!(
        output.code == 0 && output.out.contains("8 classes, 800 training samples"),
        "{}",
        output.out
    );
    let output = run_fedcast(folder.path(), &[&["run", "play.toml", "-q"], &nominal[..]].concat());
    assert!(output.code == 6 && output.err.contains("play.txt: not found"), "{}", output.err);
}

#[test]
fn a_pretrained_bert_reads_with_its_own_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder);
    let config = BertConfig {
        vocabulary: 12,
        hidden: 16,
        layers: 1,
        heads: 2,
        intermediate: 16,
        positions: 512,
        length: 10,
        pooling: BertPooling::Cls,
    };
    let set = Bert::initial_parameters(&config, StreamKey::new(5, Domain::Init));
    let named: fedcast::model::ParameterSet =
        set.iter().map(|(name, p)| (format!("bert.{name}"), p.clone())).collect();
    std::fs::write(folder.join("bert.safetensors"), to_safetensors(&named).unwrap()).unwrap();
    let pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nto\nbe\nor\nnot\nin\nthe\nis\n##t\n";
    std::fs::write(folder.join("vocab.txt"), pieces).unwrap();
    let of = |vocabulary: u32| {
        let shape =
            format!("{{vocabulary={vocabulary},hidden=16,heads=2,layers=1,intermediate=16}}");
        format!(
            "backbone={{kind=\"bert\",weights=\"bert.safetensors\",vocabulary=\"vocab.txt\",\
             pooling=\"mean\",architecture={shape}}}"
        )
    };
    let manifest = run(folder, "run", &["--set", &of(12)]);
    assert!(manifest["backbone"]["name"].as_str().unwrap().ends_with("bert.safetensors"));
    let refused = |vocabulary: u32, code: i32, why: &str| {
        let output =
            run_fedcast(folder, &["run", "play.toml", "-q", "--force", "--set", &of(vocabulary)]);
        assert!(output.code == code && output.err.contains(why), "{}", output.err);
    };
    refused(11, 6, "word_embeddings.weight` is 12 x 16, should be 11 x 16");
    std::fs::write(folder.join("vocab.txt"), format!("{pieces}##s\n")).unwrap();
    refused(12, 3, "13 tokens for a network of 12");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let check = |set: &str| {
        let output = run_fedcast(folder.path(), &["check", "play.toml", "--set", set]);
        (output.code, output.err)
    };
    for (set, why) in [
        ("backbone={kind=\"resnet18\"}", "a play is text"),
        ("data={source=\"digits\"}", "these data are images"),
        ("method={name=\"fedavg\"}", "gives features and cannot be trained"),
        ("method={name=\"hgp\"}", "\"bert\" has none"),
        ("data.text.vocabulary_size=1", "must be"),
        ("data.train.flip=0.5", "`data.train` is for images"),
        ("data.subset=9", "`data.subset` is for images"),
        ("data.test_subset=9", "`data.test_subset` is for images"),
        (
            "data.nominal={classes=9,train=9,test=9}",
            "`data.nominal.classes` is 9, but `data.text.vocabulary_size` is 8",
        ),
        ("data.text.sequence_length=511", "are more than the 512 positions"),
        ("backbone.architecture.vocabulary=99", "characters have 100 tokens"),
        ("tasks.count=7", "8 classes cannot be split into 7 tasks"),
        ("backbone.vocabulary=vocab.txt", "one token per character"),
        ("backbone.weights=bert.safetensors", "needs its vocabulary"),
        ("participation.population=fresh", "divides a task among all clients"),
        ("method={name=\"oracle\",train=\"head\"}", "gives it those of one owner"),
    ] {
        let (code, err) = check(set);
        assert!(code == 3 && err.contains(why), "{set}: {err}");
    }
    for (set, expected, why) in
        [("federation.clients=5", 3, "at most 4"), ("data.path=vocab.txt", 6, "before any speaker")]
    {
        std::fs::write(folder.path().join("vocab.txt"), "[PAD]\n").unwrap();
        let output = run_fedcast(folder.path(), &["run", "play.toml", "-q", "--set", set]);
        assert!(output.code == expected && output.err.contains(why), "{}", output.err);
    }
}
