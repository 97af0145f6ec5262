//! Promise: `fedcast new` writes a scenario that passes `check`, runs, and is never written over another file.

use std::fs;

use crate::command::{read, tell};
use fedcast::model::{Vit, VitConfig, to_safetensors};
use fedcast::numerics::streams::{Domain, StreamKey};

#[test]
fn what_is_written_is_commented_checks_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let told = tell(
        folder.path(),
        &["new", "a.toml", "--clients", "3", "--rounds", "1", "--sampled", "2"],
    );
    assert_eq!(told.code, 0, "{}", told.err);
    insta::assert_snapshot!("a_new_scenario", read(folder.path().join("a.toml")));
    assert_eq!(tell(folder.path(), &["check", "a.toml"]).code, 0);
    let quick = ["run", "a.toml", "-q", "--set", "data.subset=6", "--set", "client.epochs=1"];
    let ran = tell(folder.path(), &quick);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("sampled     2 of 3 clients in a round"), "{}", ran.out);
}

#[test]
fn a_file_is_kept_unless_forced_and_slips_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), "mine").unwrap();
    assert_eq!(tell(folder.path(), &["new", "a.toml"]).code, 2);
    assert_eq!(read(folder.path().join("a.toml")), "mine");
    assert_eq!(tell(folder.path(), &["new", "a.toml", "--force"]).code, 0);
    let unknown = tell(folder.path(), &["new", "b.toml", "--method", "hpg"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("did you mean `hgp`?"), "{}", unknown.err);
    let wrong = tell(folder.path(), &["new", "b.toml", "--clients", "2", "--sampled", "5"]);
    assert_eq!(wrong.code, 3, "{}", wrong.err);
    assert!(!folder.path().join("b.toml").exists());
}

#[test]
fn nobody_is_asked_where_nobody_can_answer() {
    let folder = tempfile::tempdir().unwrap();
    let told = tell(folder.path(), &["new"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(folder.path().join("scenario.toml").exists());
}

/// Keys that mean nothing to the method are told at once.
#[test]
fn what_a_method_ignores_is_said_as_the_file_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let told = tell(folder.path(), &["new", "a.toml", "--method", "stsa", "--sampled", "3"]);
    assert_eq!(told.code, 0, "{}", told.err);
    assert!(
        told.err.contains("participation.count = 3 does not hold throughout `stsa`"),
        "{}",
        told.err
    );
}

#[test]
fn weights_that_are_here_tell_their_own_shape() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let write = |name: &str, dim: usize, heads: usize| {
        let shape = VitConfig {
            image: 8,
            patch: 4,
            channels: 1,
            dim,
            depth: 1,
            heads,
            mlp: 20,
            ..VitConfig::default()
        };
        let set = Vit::initial_parameters(&shape, StreamKey::new(7, Domain::Init));
        fs::write(folder.join(name), to_safetensors(&set).unwrap()).unwrap();
    };
    write("known.safetensors", 192, 3);
    write("odd.safetensors", 12, 3);
    let new = |file: &str, more: &[&str]| {
        let words = ["new", "a.toml", "--data", "pets", "--weights", file, "--force"];
        tell(folder, &[&words[..], more].concat())
    };
    let told = new("known.safetensors", &[]);
    assert_eq!(told.code, 0, "{}", told.err);
    let text = read(folder.join("a.toml"));
    let shape = "architecture = { image = 8, patch = 4, channels = 1, dim = 192, depth = 1, heads = 3, mlp = 20 }";
    assert!(text.contains(shape), "{text}");
    let told = new("odd.safetensors", &[]);
    assert!(told.code == 2 && told.err.contains("heads = ..., mlp = 20 }'"), "{}", told.err);
    let given = "{image=8,patch=4,channels=1,dim=12,depth=1,heads=3,mlp=20}";
    assert_eq!(new("odd.safetensors", &["--architecture", given]).code, 0);
    // Of what is not here the name tells.
    assert_eq!(new("vit_small.safetensors", &[]).code, 0);
    assert!(read(folder.join("a.toml")).contains("\"vit-small-patch16-224\""));
}
