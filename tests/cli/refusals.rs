//! Promise: what cannot run is refused before a run directory is made, at the place of the key and with what to do; by
//! `check` if the scenario tells it, by `plan` if the data must be looked at.

use std::fs;
use std::path::Path;

use crate::command::{CommandOutput, run_fedcast, tiny};

/// Runs a command on the tiny scenario with these changes; the last one is the one that is refused.
fn with(folder: &Path, command: &[&str], sets: &[&str]) -> CommandOutput {
    let tiny = tiny();
    let mut arguments = vec![command[0], tiny.to_str().unwrap()];
    arguments.extend(&command[1..]);
    arguments.extend(sets.iter().flat_map(|set| ["--set", set]));
    run_fedcast(folder, &arguments)
}

/// Commands that meet a scenario before it runs.
const COMMANDS: [&[&str]; 3] = [&["check"], &["plan"], &["run", "-q", "-o", "run"]];

/// The refusal of `pointed`, a part of the last change, by all commands.
fn refused(sets: &[&str], pointed: &str, why: &str, help: &str) {
    let last = sets.last().unwrap();
    let column = last.find(pointed).expect("a part of the last change") + 1;
    for command in COMMANDS {
        let folder = tempfile::tempdir().unwrap();
        let CommandOutput { code, err, .. } = with(folder.path(), command, sets);
        assert_eq!(code, 3, "{command:?} {sets:?}: {err}");
        for must in [why, &format!(" --> --set:1:{column}\n"), &format!("\n  = help: {help}")] {
            assert!(err.contains(must), "{command:?} {sets:?}: {must}\n{err}");
        }
        assert!(!folder.path().join("run").exists(), "{sets:?}");
    }
}

#[test]
fn statistics_lend_no_features() {
    for name in ["stsa", "stsa-e"] {
        let set = format!("method={{name=\"stsa\",width=16,first={{name=\"{name}\"}}}}");
        let help = "name a method that trains or prompts the backbone, or `none`";
        let why = format!("`{name}` leaves the backbone as it is");
        refused(&[&set], &format!("\"{name}\"}}"), &why, help);
    }
}

#[test]
fn tasks_that_share_rows_have_one_size() {
    let head = "method={name=\"fedweit\",train=\"head\"}";
    let help = "set a number of tasks that divides 10";
    refused(&[head, "tasks={count=3}"], "3}", "tasks share the rows of a head", help);
    refused(&[head, "tasks={sizes=[6,4]}"], "[6", "tasks share the rows", "set sizes that are");
    let folder = tempfile::tempdir().unwrap();
    let network = ["method={name=\"fedweit\",train=\"network\"}", "tasks={count=3}"];
    for sets in [&[head, "tasks={count=2}"], &network] {
        assert_eq!(with(folder.path(), &["check"], sets).code, 0, "{sets:?}");
    }
}

#[test]
fn auxiliary_shards_have_a_sample_each() {
    let why = "10 auxiliary samples cannot be dealt in 11 shards";
    let help = "set a smaller `data.auxiliary.parts`";
    let cfed = "method={name=\"cfed\"}";
    refused(&[cfed, "data.auxiliary={fraction=0.1,parts=11}"], "11}", why, help);
    let server = "data.auxiliary={fraction=0.1,server=true,parts=10}";
    refused(&[cfed, server], "10}", why, help);
    let folder = tempfile::tempdir().unwrap();
    let ten = [cfed, "data.auxiliary={fraction=0.1,parts=10}"];
    assert_eq!(with(folder.path(), &["plan"], &ten).code, 0);
}

#[test]
fn partitions_cover_the_classes() {
    let set = "partition={kind=\"quantity\",classes_per_client=1}";
    refused(&[set], "1}", "cannot cover 5 classes", "`partition.classes_per_client = 2` divides");
}

#[test]
fn keys_of_methods_are_refused_at_their_places() {
    let small = "backbone={kind=\"resnet18\",width=8}";
    let lander = "method={name=\"lander\",embedding_width=3}";
    let help = "set `method.embedding_width` to at least 10";
    refused(&[small, lander], "3}", "10 rows of width 3 cannot be orthogonal", help);
    let hidden = "method={name=\"hepco\",hidden=[4,5,6]}";
    refused(&[hidden], "[4,5,6]", "`method.hidden` must be a list of 2", "write 2 values");
}

#[test]
fn faults_are_refused_at_their_entries() {
    let why = "a fault is for client 99, but there are only 3 clients";
    let faults = "faults=[{kind=\"crash\",clients=[1]},{kind=\"crash\",clients=[0,99]}]";
    refused(&[faults], "99", why, "name other clients");
    let stsa = "method={name=\"stsa\",width=16,first={name=\"none\"}}";
    let lies = "faults=[{kind=\"crash\",rate=0.1},{kind=\"malicious\",how=\"scaled\",factor=2.0}]";
    refused(&[stsa, lies], "\"malicious\"", "have no update to forge", "remove the fault");
    let secure = ["method={name=\"fedavg\"}", "privacy.secure_aggregation=true"];
    let restart = "faults=[{kind=\"crash\",rate=0.1},{kind=\"server-restart\",rounds=[1]}]";
    let help = "remove the fault `server-restart`";
    refused(&[secure[0], secure[1], restart], "\"server-restart\"", "with a restart", help);
    // Notes, too.
    let folder = tempfile::tempdir().unwrap();
    let late = "faults=[{kind=\"crash\",rounds=[1]},{kind=\"crash\",rounds=[2,7]}]";
    let err = with(folder.path(), &["check"], &[late]).err;
    let column = late.find("[2,7]").unwrap() + 1;
    assert!(err.contains("nothing happens in rounds 7"), "{err}");
    assert!(err.contains(&format!("--> --set:1:{column}\n")), "{err}");
}

/// A scenario on images or rows of one's own, whose classes and owners are known only from the files.
fn own(folder: &Path, text: &str) {
    let rest = "schema = 2\nfederation = { clients = 2, rounds = 1 }\ntasks = { count = 1 }\n";
    fs::write(folder.join("own.toml"), format!("{rest}{text}")).unwrap();
}

/// The refusal of a scenario that `check` accepts, at a line and column.
fn refused_by_plan(folder: &Path, place: &str, why: &str, help: &str) {
    assert_eq!(run_fedcast(folder, &["check", "own.toml"]).code, 0);
    for command in [&["plan", "own.toml"][..], &["run", "own.toml", "-q", "-o", "run"]] {
        let CommandOutput { code, err, .. } = run_fedcast(folder, command);
        assert_eq!(code, 3, "{err}");
        for must in [why, &format!(" --> own.toml:{place}\n"), &format!("\n  = help: {help}")] {
            assert!(err.contains(must), "{command:?}: {must}\n{err}");
        }
        assert!(!folder.join("run").exists());
    }
}

#[test]
fn clients_are_at_most_the_owners() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let lines = "1.5,7,cat\n0.5,7,emu\n";
    for part in ["train", "test"] {
        fs::write(folder.join(format!("{part}.csv")), format!("a,writer,label\n{lines}")).unwrap();
    }
    own(
        folder,
        "data = { source = \"table\", path = \".\", width = 1, client = \"writer\" }\n\
         partition = { kind = \"natural\", min_samples = 1 }\nbackbone = { kind = \"pixels\" }\n\
         method = { name = \"fedavg\" }\n",
    );
    let why = "there are 2 clients, and the data belong to 1";
    refused_by_plan(folder, "2:26", why, "set federation.clients to at most 1");
}

#[test]
fn classes_of_files_are_held_against_the_method() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (part, class) in ["train", "test"].map(|part| [(part, "cat"), (part, "emu")]).concat() {
        let place = folder.join("pets").join(part).join(class);
        fs::create_dir_all(&place).unwrap();
        for i in 0..4 {
            let image = image::GrayImage::from_pixel(8, 8, image::Luma([40 * i]));
            image.save(place.join(format!("{i}.png"))).unwrap();
        }
    }
    own(
        folder,
        "data = { source = \"folder\", path = \"pets\", stored_size = 8 }\n\
         partition = { kind = \"iid\", min_samples = 1 }\n\
         backbone = { kind = \"resnet18\", width = 8 }\n\
         method = { name = \"lander\", embedding_width = 1 }\n",
    );
    let help = "set `method.embedding_width` to at least 2";
    refused_by_plan(folder, "7:47", "2 rows of width 1 cannot be orthogonal", help);
}

#[test]
fn a_run_without_clients_is_refused_before_it_begins() {
    let gone = "availability={stay_s=0.1}";
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let stays = ["method={name=\"fedavg\",train=\"head\"}", gone];
    for command in &COMMANDS[1..] {
        let CommandOutput { code, err, .. } = with(folder, command, &stays);
        assert_eq!(code, 3, "{err}");
        let why = "no client that can be sampled in round";
        assert!(err.contains(why) && err.contains(" --> --set:1:14\n"), "{err}");
        assert!(err.contains("= help: let clients stay longer"), "{err}");
    }
    assert!(!folder.join("run").exists());
    // Without its faults a plan has other times than the run.
    let faults = [stays[0], "faults=[{kind=\"crash\",rate=0.5}]", gone];
    let err = with(folder, &["plan"], &faults).err;
    assert!(err.contains("= help: plan with `--faults`"), "{err}");
    let err = with(folder, &["plan", "--faults"], &faults).err;
    assert!(err.contains("= help: let clients stay longer"), "{err}");
    // Clients that stay long enough are no obstacle.
    let long = [stays[0], "availability={stay_s=500.0}"];
    assert_eq!(with(folder, &["run", "-q", "-o", "long"], &long).code, 0);
}
