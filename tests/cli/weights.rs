//! Promises: `fedcast weights` says what a file of weights is and what of it would be left over; a run takes the
//! architecture from the file, refuses what it has no place for by name, and computes the same from the same network in
//! other names.

use std::path::Path;

use crate::command::{CommandOutput, read, run_fedcast, tiny};
use fedcast::model::{
    Parameter, ParameterSet, ResNet, ResNetConfig, Stem, Vit, VitConfig, to_safetensors,
};
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
fn run(folder: &Path, file: &str, more: &[&str]) -> CommandOutput {
    let weights = format!("backbone={{weights=\"{file}\",heads=3}}");
    let tiny = tiny();
    let base = ["run", tiny.to_str().unwrap(), "-q", "--set", &weights];
    let method = ["--set", "method={name=\"fedavg\",train=\"head\"}"];
    run_fedcast(folder, &[&base[..], &method[..], more].concat())
}

#[test]
fn a_file_is_listed_with_what_it_has_and_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "hf.safetensors", &hugging_face());
    let output = run_fedcast(folder, &["weights", "hf.safetensors", "--heads", "3"]);
    assert_eq!(output.code, 0, "{}", output.err);
    insta::assert_snapshot!("weights_of_hugging_face", output.out);
    let map = run_fedcast(folder, &["weights", "hf.safetensors", "--heads", "3", "--map"]).out;
    let line = "blocks.1.attn.qkv.bias  36  <-  encoder.layer.1.attention.attention.query.bias + \
                encoder.layer.1.attention.attention.key.bias + encoder.layer.1.attention.attention.value.bias  (joined)";
    assert!(map.lines().any(|printed| printed == line), "{map}");

    let output = run_fedcast(folder, &["weights", "hf.safetensors"]);
    assert!(output.code == 6 && output.err.contains("set `heads`"), "{}", output.err);
    let output = run_fedcast(folder, &["weights", "none.safetensors"]);
    assert!(output.code == 6 && output.err.contains("none.safetensors"), "{}", output.err);
    std::fs::write(folder.join("page.bin"), "<!DOCTYPE html><html>").unwrap();
    let output = run_fedcast(folder, &["weights", "page.bin"]);
    assert!(output.code == 6 && output.err.contains("page.bin is a web page"), "{}", output.err);
}

#[test]
fn the_same_network_in_other_names_gives_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "timm.safetensors", &network());
    write(folder, "hf.safetensors", &hugging_face());
    let digests = |file: &str, out: &str| {
        let output = run(folder, file, &["-o", out]);
        assert_eq!(output.code, 0, "{}", output.err);
        let manifest: serde_json::Value =
            serde_json::from_str(&read(folder.join(out).join("manifest.json"))).unwrap();
        (manifest["digests"].clone(), manifest["backbone"]["digest"].clone())
    };
    let (timm, hf) = (digests("timm.safetensors", "one"), digests("hf.safetensors", "two"));
    assert_eq!(timm, hf);
    // Facts of the file are in the effective scenario, so that it is not read again.
    let effective = read(folder.join("one/scenario.effective.toml"));
    assert!(effective.contains("dim = 12") && effective.contains("mlp = 20"), "{effective}");
    let json =
        run_fedcast(folder, &["weights", "hf.safetensors", "--heads", "3", "--format", "json"]).out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(crate::documents::faults(&crate::documents::schema("weights"), &json, ""), [""; 0]);
    assert_eq!(json["digest"], hf.1);
}

#[test]
fn nothing_is_left_over_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut set = network();
    for block in 0..2 {
        let norm = Parameter { shape: vec![4], values: [0.1; 4].into() };
        set.insert(format!("blocks.{block}.attn.q_norm.weight"), norm);
    }
    write(folder, "normed.safetensors", &set);
    let output = run(folder, "normed.safetensors", &["-o", "one"]);
    assert_eq!(output.code, 6, "{}", output.err);
    insta::assert_snapshot!("left_over", without(folder, &output.err));
    assert!(!folder.join("one").exists());
    let ignore = ["--set", "backbone.ignore=[\"blocks.*.attn.q_norm.weight\"]", "-o", "two"];
    let output = run(folder, "normed.safetensors", &ignore);
    assert_eq!(output.code, 0, "{}", output.err);
    let ignore = ["--set", "backbone.ignore=[\"blocks.*.attn.?_norm.weight\"]"];
    let output = run(folder, "normed.safetensors", &ignore);
    assert!(output.code == 6 && output.err.contains("blocks.0.attn.q_norm"), "{}", output.err);
    write(folder, "plain.safetensors", &network());
    let output = run(folder, "plain.safetensors", &["--set", "backbone.ignore=[\"ls*\"]"]);
    assert!(output.code == 6 && output.err.contains("`ls*`"), "{}", output.err);
}

#[test]
fn another_architecture_than_stated_is_refused_with_both_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "plain.safetensors", &network());
    let stated = |shape: &str| {
        let set = format!("backbone.architecture={{image=8,patch=4,channels=1,heads=3,{shape}}}");
        run(folder, "plain.safetensors", &["--set", &set])
    };
    let output = stated("dim=24,depth=2,mlp=20");
    assert_eq!(output.code, 6, "{}", output.err);
    insta::assert_snapshot!("another_architecture", without(folder, &output.err));
    let output = stated("dim=12,depth=1,mlp=20");
    assert!(output.code == 6 && output.err.contains("blocks.1."), "{}", output.err);
    // Only its positions are of another image: interpolated where that is asked for, and not in silence.
    let sixteen =
        "backbone.architecture={image=16,patch=4,channels=1,heads=3,dim=12,depth=2,mlp=20}";
    let size = ["--set", "data.train.resize=16", "--set", "data.test.resize=16"];
    let output = run(folder, "plain.safetensors", &[&["--set", sixteen][..], &size[..]].concat());
    assert!(
        output.code == 6 && output.err.contains("2 x 2 patches (5), and 4 x 4 (17)"),
        "{}",
        output.err
    );
    let asked = [&["--set", "backbone.resolution=16", "-o", "sixteen"][..], &size[..]].concat();
    let output = run(folder, "plain.safetensors", &asked);
    assert_eq!(output.code, 0, "{}", output.err);
}

#[test]
fn without_the_file_the_architecture_has_to_be_stated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let check = |set: &str| run_fedcast(folder, &["check", tiny().to_str().unwrap(), "--set", set]);
    let output = check("backbone={weights=\"none.safetensors\"}");
    assert!(output.code == 3 && output.err.contains("state `architecture`"), "{}", output.err);
    let output = check("backbone={weights=\"hf:owner/repo\"}");
    assert!(
        output.code == 3 && output.err.contains("fedcast fetch hf:owner/repo"),
        "{}",
        output.err
    );
    let output = check("backbone={weights=\"hf:owner/../repo\"}");
    assert!(
        output.code == 3 && output.err.contains("not a name of the Hugging Face hub"),
        "{}",
        output.err
    );
    write(folder, "plain.safetensors", &network());
    let output = check("backbone={weights=\"plain.safetensors\"}");
    assert!(
        output.code == 3 && output.err.contains("cannot be inferred from weights of width 12"),
        "{}",
        output.err
    );
    let output = check("backbone={weights=\"plain.safetensors\",heads=5}");
    assert!(
        output.code == 3 && output.err.contains("heads = 5 does not divide the width 12"),
        "{}",
        output.err
    );
    let output = check("backbone={ignore=[\"a\"]}");
    assert!(
        output.code == 3 && output.err.contains("no weights are read from a file"),
        "{}",
        output.err
    );
}

/// Returns a file as `fedcast weights --format json` describes it.
fn listing_of(folder: &Path, file: &str) -> serde_json::Value {
    let arguments = ["weights", file, "--heads", "3", "--format", "json"];
    serde_json::from_str(&run_fedcast(folder, &arguments).out).unwrap()
}

#[test]
fn layer_scale_is_folded_into_the_layer_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let gamma = |place: usize| 0.5 + place as f32 / 16.0;
    let (mut scaled, mut folded) = (network(), network());
    for (layer, vector) in [("attn.proj", "ls1"), ("mlp.fc2", "ls2")] {
        for part in ["weight", "bias"] {
            let name = format!("blocks.1.{layer}.{part}");
            let Parameter { shape, values } = network().get(&name).unwrap().clone();
            let width = values.len() / 12;
            let rows = values.iter().enumerate().map(|(at, value)| value * gamma(at / width));
            folded.insert(name, Parameter { shape, values: rows.collect() });
        }
        let values = (0..12).map(gamma).collect();
        scaled.insert(format!("blocks.1.{vector}.gamma"), Parameter { shape: vec![12], values });
    }
    write(folder, "scaled.safetensors", &scaled);
    write(folder, "folded.safetensors", &folded);
    write(folder, "plain.safetensors", &network());
    let digest = |file: &str| listing_of(folder, file)["digest"].as_str().unwrap().to_owned();
    assert_eq!(digest("scaled.safetensors"), digest("folded.safetensors"));
    assert_ne!(digest("scaled.safetensors"), digest("plain.safetensors"));
    let output =
        run_fedcast(folder, &["weights", "scaled.safetensors", "--heads", "3", "--map"]).out;
    assert!(output.contains("LayerScale (2 vectors)"), "{output}");
    assert!(
        output.contains("<-  blocks.1.mlp.fc2.bias  (rows times blocks.1.ls2.gamma)"),
        "{output}"
    );
    scaled.insert("blocks.1.ls1.gamma", Parameter { shape: vec![1], values: [0.1].into() });
    write(folder, "odd.safetensors", &scaled);
    let output = run_fedcast(folder, &["weights", "odd.safetensors"]);
    assert!(output.code == 6 && output.err.contains("cannot scale the rows"), "{}", output.err);
}

#[test]
fn a_network_in_several_files_is_the_same_network() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "whole.safetensors", &network());
    let (mut first, mut second, mut map) = (ParameterSet::new(), ParameterSet::new(), vec![]);
    for (place, (name, parameter)) in network().iter().enumerate() {
        let (set, file) = match place % 2 {
            0 => (&mut first, "model-00001-of-00002.safetensors"),
            _ => (&mut second, "model-00002-of-00002.safetensors"),
        };
        set.insert(&**name, parameter.clone());
        map.push((name.to_string(), serde_json::Value::from(file)));
    }
    write(folder, "model-00001-of-00002.safetensors", &first);
    write(folder, "model-00002-of-00002.safetensors", &second);
    let map: serde_json::Map<_, _> = map.into_iter().collect();
    let index = serde_json::json!({ "metadata": { "total_size": 1 }, "weight_map": map });
    std::fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
    let (whole, parts) = (
        listing_of(folder, "whole.safetensors"),
        listing_of(folder, "model.safetensors.index.json"),
    );
    assert_eq!(whole["digest"], parts["digest"]);
    assert_eq!(parts["file_format"], "an index of several files");
    let run = run(folder, "model.safetensors.index.json", &["-o", "one"]);
    assert_eq!(run.code, 0, "{}", run.err);
    std::fs::remove_file(folder.join("model-00002-of-00002.safetensors")).unwrap();
    let output = run_fedcast(folder, &["weights", "model.safetensors.index.json"]);
    assert!(output.code == 6 && output.err.contains("model-00002-of-00002"), "{}", output.err);
}

#[test]
fn residual_networks_of_hugging_face_are_those_of_torchvision() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config =
        ResNetConfig { width: 4, stem: Stem::ImageNet, image: 224, ..ResNetConfig::default() };
    let set = ResNet::initial_parameters(&config, StreamKey::new(7, Domain::Init));
    let mut renamed = ParameterSet::new();
    for (name, parameter) in set.iter() {
        let mut name = format!("resnet.{name}")
            .replace("resnet.conv1", "resnet.embedder.embedder.convolution")
            .replace("resnet.bn1", "resnet.embedder.embedder.normalization")
            .replace(".downsample.0", ".shortcut.convolution")
            .replace(".downsample.1", ".shortcut.normalization");
        for (stage, layer) in [(0, 1), (1, 2), (2, 3), (3, 4)] {
            name =
                name.replace(&format!("layer{layer}."), &format!("encoder.stages.{stage}.layers."));
        }
        for (place, number) in [(0, 1), (1, 2)] {
            name = name
                .replace(&format!(".conv{number}."), &format!(".layer.{place}.convolution."))
                .replace(&format!(".bn{number}."), &format!(".layer.{place}.normalization."));
        }
        renamed.insert(name, parameter.clone());
    }
    renamed.insert("classifier.1.weight", Parameter { shape: vec![1], values: [0.0].into() });
    write(folder, "ours.safetensors", &set);
    write(folder, "theirs.safetensors", &renamed);
    let (ours, theirs) =
        (listing_of(folder, "ours.safetensors"), listing_of(folder, "theirs.safetensors"));
    assert_eq!(theirs["family"], "Hugging Face ResNet");
    assert_eq!(ours["digest"], theirs["digest"]);
    assert!(ours["digest"].is_string(), "{ours}");
    let part = renamed
        .filter(|name| name != "resnet.encoder.stages.2.layers.1.layer.0.normalization.bias");
    write(folder, "part.safetensors", &part);
    let output = run_fedcast(folder, &["weights", "part.safetensors"]);
    let missing = "`resnet.encoder.stages.2.layers.1.layer.0.normalization.bias`";
    assert!(output.code == 6 && output.err.contains(missing), "{}", output.err);
}

#[test]
fn parts_of_other_transformers_are_named_before_their_odd_shapes_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut set = network().filter(|name| name != "pos_embed");
    set.insert("pos_embed", Parameter { shape: vec![1, 4, 12], values: [0.0; 48].into() });
    set.insert("reg_token", Parameter { shape: vec![1, 4, 12], values: [0.0; 48].into() });
    write(folder, "registers.safetensors", &set);
    let output = run_fedcast(folder, &["weights", "registers.safetensors", "--heads", "3"]);
    assert!(
        output.code == 6 && output.err.contains("`reg_token` (register tokens)"),
        "{}",
        output.err
    );
}

#[test]
fn one_of_two_sets_of_weights_is_chosen_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut both = ParameterSet::new();
    let averaged = Vit::initial_parameters(&config(), StreamKey::new(8, Domain::Init));
    for (word, set) in [("model", &network()), ("model_ema", &averaged)] {
        for (name, parameter) in set.iter() {
            both.insert(format!("{word}.{name}"), parameter.clone());
        }
    }
    write(folder, "both.safetensors", &both);
    write(folder, "averaged.safetensors", &averaged);
    write(folder, "raw.safetensors", &network());
    let output = run(folder, "both.safetensors", &["-o", "refused"]);
    assert!(output.code == 6 && output.err.contains("model_ema."), "{}", output.err);
    for (part, alone) in [("model_ema", "averaged.safetensors"), ("model", "raw.safetensors")] {
        let set = format!("backbone.part=\"{part}\"");
        let output = run(folder, "both.safetensors", &["--set", &set, "-o", part]);
        assert_eq!(output.code, 0, "{}", output.err);
        let manifest: serde_json::Value =
            serde_json::from_str(&read(folder.join(part).join("manifest.json"))).unwrap();
        assert_eq!(manifest["backbone"]["digest"], listing_of(folder, alone)["digest"]);
        let name = manifest["backbone"]["name"].as_str().unwrap();
        assert!(name.ends_with(&format!("both.safetensors, `{part}`")), "{name}");
        let effective = read(folder.join(part).join("scenario.effective.toml"));
        assert!(effective.contains(&format!("part = \"{part}\"")), "{effective}");
        let asked =
            ["weights", "both.safetensors", "--heads", "3", "--format", "json", "--part", part];
        let json: serde_json::Value =
            serde_json::from_str(&run_fedcast(folder, &asked).out).unwrap();
        assert_eq!(json["digest"], manifest["backbone"]["digest"]);
    }
    let output = run(folder, "both.safetensors", &["--set", "backbone.part=\"ema\""]);
    let must = "set `backbone.part` to one of `model`, `model_ema`";
    assert!(output.code == 3 && output.err.contains(must), "{} {}", output.code, output.err);
    let output =
        run_fedcast(folder, &["check", tiny().to_str().unwrap(), "--set", "backbone.part=\"a\""]);
    assert!(
        output.code == 3 && output.err.contains("no weights are read from a file"),
        "{}",
        output.err
    );
}

#[test]
fn the_activation_is_a_key_and_known_by_some_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "plain.safetensors", &network());
    write(folder, "vit-quickgelu.safetensors", &network());
    let digest = |file: &str, out: &str, more: &[&str]| {
        let output = run(folder, file, &[&["-o", out], more].concat());
        assert_eq!(output.code, 0, "{}", output.err);
        let manifest: serde_json::Value =
            serde_json::from_str(&read(folder.join(out).join("manifest.json"))).unwrap();
        let effective = read(folder.join(out).join("scenario.effective.toml"));
        let activation = effective.lines().find(|line| line.starts_with("activation"));
        (manifest["digests"].clone(), activation.unwrap_or_default().to_owned())
    };
    let (gelu, quick) = ("backbone.activation=\"gelu\"", "backbone.activation=\"quick-gelu\"");
    let plain = digest("plain.safetensors", "one", &[]);
    let same = digest("plain.safetensors", "two", &["--set", gelu]);
    let other = digest("plain.safetensors", "three", &["--set", quick]);
    let named = digest("vit-quickgelu.safetensors", "four", &[]);
    let mended = digest("vit-quickgelu.safetensors", "five", &["--set", gelu]);
    assert_eq!(plain, same);
    assert_ne!(plain.0, other.0);
    assert_eq!((&other.0, &*other.1), (&named.0, "activation = \"quick-gelu\""));
    assert_eq!((&mended.0, &*mended.1), (&plain.0, "activation = \"gelu\""));
    // The scenario that was recorded is the same one again.
    let again = ["run", "five/scenario.effective.toml", "-q", "-o", "six"];
    assert_eq!(run_fedcast(folder, &again).code, 0);
    let manifest: serde_json::Value =
        serde_json::from_str(&read(folder.join("six/manifest.json"))).unwrap();
    assert_eq!(manifest["digests"], mended.0);
    let output = run_fedcast(folder, &["weights", "vit-quickgelu.safetensors", "--heads", "3"]).out;
    assert!(output.contains("activation = \"quick-gelu\"   # known by the name"), "{output}");
    let output = run_fedcast(folder, &["check", tiny().to_str().unwrap(), "--set", quick]);
    assert!(output.code == 3 && output.err.contains("not for embedded weights"), "{}", output.err);
}

#[test]
fn other_residual_networks_are_called_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let config = ResNetConfig { width: 4, blocks: [3, 4, 6, 3], ..ResNetConfig::default() };
    let mut set = ResNet::initial_parameters(&config, StreamKey::new(7, Domain::Init));
    write(folder, "deep.safetensors", &set);
    let output = run_fedcast(folder, &["weights", "deep.safetensors"]);
    assert!(
        output.code == 6 && output.err.contains("holds ResNet-34, 4 channels wide"),
        "{}",
        output.err
    );
    assert!(output.err.contains("plain ones are read: ResNet-18"), "{}", output.err);
    assert!(!output.err.contains("vision transformer"), "{}", output.err);
    set.insert("layer1.0.se.fc1.weight", Parameter { shape: vec![1], values: [0.0].into() });
    write(folder, "squeezed.safetensors", &set);
    let output = run_fedcast(folder, &["weights", "squeezed.safetensors"]);
    assert!(output.err.contains("holds SE-ResNet-34"), "{}", output.err);
}
