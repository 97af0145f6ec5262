//! Promises: `fedcast weights` says what a file of weights is and what of it would be left over; a run takes the
//! architecture from the file, refuses what it has no place for by name, and computes the same from the same network in
//! other names.

use std::path::Path;

use crate::command::{Told, read, tell, tiny};
use fedcast::model::{Parameter, ParameterSet, Vit, VitConfig, to_safetensors};
use fedcast::numerics::streams::{Domain, StreamKey};

fn config() -> VitConfig {
    VitConfig {
        image: 8,
        patch: 4,
        channels: 1,
        dim: 12,
        depth: 2,
        heads: 3,
        mlp: 20,
        ..VitConfig::default()
    }
}

fn network() -> ParameterSet {
    let mut set = Vit::initial_parameters(&config(), StreamKey::new(7, Domain::Init));
    set.insert("head.weight", Parameter { shape: vec![1], values: [0.0].into() });
    set
}

/// Queries, keys and values apart, in Hugging Face's names; without a prefix.
fn hugging_face() -> ParameterSet {
    let mut set = ParameterSet::new();
    for (name, parameter) in network().iter() {
        let renamed = match &**name {
            "cls_token" => "embeddings.cls_token".to_owned(),
            "pos_embed" => "embeddings.position_embeddings".to_owned(),
            "head.weight" => "classifier.weight".to_owned(),
            "norm.weight" => "layernorm.weight".to_owned(),
            "norm.bias" => "layernorm.bias".to_owned(),
            name => name
                .replace("patch_embed.proj", "embeddings.patch_embeddings.projection")
                .replace("blocks", "encoder.layer")
                .replace("norm1", "layernorm_before")
                .replace("norm2", "layernorm_after")
                .replace("attn.proj", "attention.output.dense")
                .replace("mlp.fc1", "intermediate.dense")
                .replace("mlp.fc2", "output.dense"),
        };
        match renamed.split_once(".attn.qkv.") {
            None => set.insert(renamed, parameter.clone()),
            Some((block, end)) => {
                for (part, word) in ["query", "key", "value"].into_iter().enumerate() {
                    let rows = parameter.rows() / 3;
                    let part = parameter.cut(part * rows..(part + 1) * rows).unwrap();
                    set.insert(format!("{block}.attention.attention.{word}.{end}"), part);
                }
            }
        }
    }
    set
}

fn write(folder: &Path, name: &str, set: &ParameterSet) {
    std::fs::write(folder.join(name), to_safetensors(set).unwrap()).unwrap();
}

/// A text without the folder of this test.
fn without(folder: &Path, text: &str) -> String {
    text.replace(&folder.canonicalize().unwrap().display().to_string(), "FOLDER")
        .replace(&folder.display().to_string(), "FOLDER")
}

/// The tiny scenario on a file of weights.
fn run(folder: &Path, file: &str, more: &[&str]) -> Told {
    let weights = format!("backbone={{weights=\"{file}\",heads=3}}");
    let tiny = tiny();
    let base = ["run", tiny.to_str().unwrap(), "-q", "--set", &weights];
    let method = ["--set", "method={name=\"fedavg\",train=\"head\"}"];
    tell(folder, &[&base[..], &method[..], more].concat())
}

#[test]
fn a_file_is_told_with_all_it_has_and_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "hf.safetensors", &hugging_face());
    let told = tell(folder, &["weights", "hf.safetensors", "--heads", "3"]);
    assert_eq!(told.code, 0, "{}", told.err);
    insta::assert_snapshot!("weights_of_hugging_face", told.out);
    let map = tell(folder, &["weights", "hf.safetensors", "--heads", "3", "--map"]).out;
    let line = "blocks.1.attn.qkv.bias  36  <-  encoder.layer.1.attention.attention.query.bias + \
                encoder.layer.1.attention.attention.key.bias + encoder.layer.1.attention.attention.value.bias  (joined)";
    assert!(map.lines().any(|told| told == line), "{map}");

    let told = tell(folder, &["weights", "hf.safetensors"]);
    assert!(told.code == 6 && told.err.contains("give `heads`"), "{}", told.err);
    let told = tell(folder, &["weights", "none.safetensors"]);
    assert!(told.code == 6 && told.err.contains("none.safetensors"), "{}", told.err);
    std::fs::write(folder.join("page.bin"), "<!DOCTYPE html><html>").unwrap();
    let told = tell(folder, &["weights", "page.bin"]);
    assert!(told.code == 6 && told.err.contains("page.bin is a web page"), "{}", told.err);
}

#[test]
fn the_same_network_in_other_names_gives_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "timm.safetensors", &network());
    write(folder, "hf.safetensors", &hugging_face());
    let digests = |file: &str, out: &str| {
        let told = run(folder, file, &["-o", out]);
        assert_eq!(told.code, 0, "{}", told.err);
        let manifest: serde_json::Value =
            serde_json::from_str(&read(folder.join(out).join("manifest.json"))).unwrap();
        (manifest["digests"].clone(), manifest["backbone"]["digest"].clone())
    };
    let (timm, hf) = (digests("timm.safetensors", "one"), digests("hf.safetensors", "two"));
    assert_eq!(timm, hf);
    // What the file told stands in the effective scenario, so that nobody has to ask it again.
    let effective = read(folder.join("one/scenario.effective.toml"));
    assert!(effective.contains("dim = 12") && effective.contains("mlp = 20"), "{effective}");
    let json = tell(folder, &["weights", "hf.safetensors", "--heads", "3", "--format", "json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["digest"], hf.1);
}

#[test]
fn nothing_is_left_over_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut set = network();
    for block in 0..2 {
        let gamma = Parameter { shape: vec![12], values: [0.1; 12].into() };
        set.insert(format!("blocks.{block}.ls1.gamma"), gamma);
    }
    write(folder, "scaled.safetensors", &set);
    let told = run(folder, "scaled.safetensors", &["-o", "one"]);
    assert_eq!(told.code, 6, "{}", told.err);
    insta::assert_snapshot!("left_over", without(folder, &told.err));
    assert!(!folder.join("one").exists());
    let ignore = ["--set", "backbone.ignore=[\"blocks.*.ls1.gamma\"]", "-o", "two"];
    let told = run(folder, "scaled.safetensors", &ignore);
    assert_eq!(told.code, 0, "{}", told.err);
    let ignore = ["--set", "backbone.ignore=[\"blocks.*.ls?.gamma\"]"];
    let told = run(folder, "scaled.safetensors", &ignore);
    assert!(told.code == 6 && told.err.contains("blocks.0.ls1.gamma"), "{}", told.err);
    write(folder, "plain.safetensors", &network());
    let told = run(folder, "plain.safetensors", &["--set", "backbone.ignore=[\"ls*\"]"]);
    assert!(told.code == 6 && told.err.contains("`ls*`"), "{}", told.err);
}

#[test]
fn another_architecture_than_stated_is_told_by_both_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "plain.safetensors", &network());
    let stated = |shape: &str| {
        let set = format!("backbone.architecture={{image=8,patch=4,channels=1,heads=3,{shape}}}");
        run(folder, "plain.safetensors", &["--set", &set])
    };
    let told = stated("dim=24,depth=2,mlp=20");
    assert_eq!(told.code, 6, "{}", told.err);
    insta::assert_snapshot!("another_architecture", without(folder, &told.err));
    let told = stated("dim=12,depth=1,mlp=20");
    assert!(told.code == 6 && told.err.contains("blocks.1."), "{}", told.err);
    // Only its positions are of another image: interpolated where that is asked for, and not in silence.
    let sixteen =
        "backbone.architecture={image=16,patch=4,channels=1,heads=3,dim=12,depth=2,mlp=20}";
    let size = ["--set", "data.train.resize=16", "--set", "data.test.resize=16"];
    let told = run(folder, "plain.safetensors", &[&["--set", sixteen][..], &size[..]].concat());
    assert!(
        told.code == 6 && told.err.contains("2 x 2 patches (5), and 4 x 4 (17)"),
        "{}",
        told.err
    );
    let asked = [&["--set", "backbone.resolution=16", "-o", "sixteen"][..], &size[..]].concat();
    let told = run(folder, "plain.safetensors", &asked);
    assert_eq!(told.code, 0, "{}", told.err);
}

#[test]
fn without_the_file_the_architecture_has_to_be_stated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let check = |set: &str| tell(folder, &["check", tiny().to_str().unwrap(), "--set", set]);
    let told = check("backbone={weights=\"none.safetensors\"}");
    assert!(told.code == 3 && told.err.contains("state `architecture`"), "{}", told.err);
    let told = check("backbone={weights=\"hf:owner/repo\"}");
    assert!(told.code == 3 && told.err.contains("fedcast fetch hf:owner/repo"), "{}", told.err);
    let told = check("backbone={weights=\"hf:owner/../repo\"}");
    assert!(told.code == 3 && told.err.contains("no name of the Hugging Face hub"), "{}", told.err);
    write(folder, "plain.safetensors", &network());
    let told = check("backbone={weights=\"plain.safetensors\"}");
    assert!(
        told.code == 3 && told.err.contains("how many heads a width of 12 has"),
        "{}",
        told.err
    );
    let told = check("backbone={weights=\"plain.safetensors\",heads=5}");
    assert!(
        told.code == 3 && told.err.contains("5 heads do not divide a width of 12"),
        "{}",
        told.err
    );
    let told = check("backbone={ignore=[\"a\"]}");
    assert!(told.code == 3 && told.err.contains("no weights are read from a file"), "{}", told.err);
}
