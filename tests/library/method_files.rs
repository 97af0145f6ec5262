//! Promise: a file that a key of `[method]` names is found from the scenario's folder, and its content, not its place,
//! counts in the hash of the scenario.

use std::path::{Path, PathBuf};

use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

const SCENARIO: &str = "schema = 2\n\
    data = { source = \"digits\" }\n\
    tasks = { count = 5 }\n\
    partition = { kind = \"iid\" }\n\
    backbone = { kind = \"resnet18\", width = 4 }\n\
    method = { name = \"lander\", embedding_width = 2, embeddings = \"vectors/table.csv\" }\n\
    federation = { clients = 2 }\n";

/// Writes the scenario and its file into a folder; rows of ten classes end with this number.
fn written(folder: &Path, last: &str) -> PathBuf {
    std::fs::create_dir_all(folder.join("vectors")).unwrap();
    let rows: String = (0..10).map(|class| format!("{class},{last}\n")).collect();
    std::fs::write(folder.join("vectors/table.csv"), rows).unwrap();
    let path = folder.join("a.toml");
    std::fs::write(&path, SCENARIO).unwrap();
    path
}

fn loaded(path: &Path, overrides: &[Override]) -> Result<Scenario, String> {
    let read = Scenario::load(path, overrides, &Registry::builtin());
    read.map(|loaded| loaded.scenario).map_err(|error| error.to_string())
}

#[test]
fn embeddings_are_found_from_the_scenario() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = loaded(&written(folder.path(), "0.5"), &[]).unwrap();
    let kept = scenario.method.parameters()["embeddings"].as_str().unwrap().to_owned();
    let wanted = folder.path().canonicalize().unwrap().join("vectors/table.csv");
    assert_eq!(Path::new(&kept), wanted);
    // What is written out is read again from any place.
    let elsewhere = tempfile::tempdir().unwrap();
    let copy = elsewhere.path().join("effective.toml");
    std::fs::write(&copy, scenario.to_effective_toml()).unwrap();
    assert_eq!(loaded(&copy, &[]).unwrap().hash(), scenario.hash());
    // A path of the command line is from the folder in which the program runs, and a word is no path.
    let change = |value: &str| Override::new(format!("method.embeddings={value}"));
    let error = loaded(&folder.path().join("a.toml"), &[change("vectors/table.csv")]).unwrap_err();
    let here = std::env::current_dir().unwrap().join("vectors/table.csv");
    assert!(error.contains(&here.display().to_string()), "{error}");
    let width = Override::new("method.embedding_width=16");
    let word = loaded(&folder.path().join("a.toml"), &[change("orthogonal"), width]).unwrap();
    assert_eq!(word.method.parameters()["embeddings"].as_str(), Some("orthogonal"));
}

#[test]
fn the_content_of_embeddings_is_in_the_hash() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let hash = |at: usize, last| loaded(&written(folders[at].path(), last), &[]).unwrap().hash();
    let one = hash(0, "0.5");
    assert_eq!(one, hash(1, "0.5"), "the same file in another folder");
    assert_ne!(one, hash(2, "0.75"), "another content");
    assert_ne!(one, hash(0, "0.25"), "in the same place");
}

#[test]
fn a_method_before_one_on_features_names_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path(), "0.5");
    let lander = "name = \"lander\", embedding_width = 2, embeddings = \"vectors/table.csv\"";
    let composed = format!("name = \"stsa\", first = {{ {lander} }}");
    std::fs::write(&path, SCENARIO.replace(lander, &composed)).unwrap();
    let one = loaded(&path, &[]).unwrap();
    let before = one.hash();
    let kept = one.method.parameters()["first"]["embeddings"].as_str().unwrap().to_owned();
    assert!(Path::new(&kept).is_absolute() && kept.ends_with("vectors/table.csv"), "{kept}");
    let rows: String = (0..10).map(|class| format!("{class},0.25\n")).collect();
    std::fs::write(folder.path().join("vectors/table.csv"), rows).unwrap();
    assert_ne!(before, loaded(&path, &[]).unwrap().hash(), "another content");
}
