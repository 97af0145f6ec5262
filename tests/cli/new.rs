//! Promise: `fedcast new` writes a scenario that passes `check`, runs, and is never written over another file.

use std::fs;

use crate::command::{read, run_fedcast};
use fedcast::model::{Vit, VitConfig, to_safetensors};
use fedcast::numerics::streams::{Domain, StreamKey};

#[test]
fn what_is_written_is_commented_checks_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(
        folder.path(),
        &["new", "a.toml", "--clients", "3", "--rounds", "1", "--cohort-size", "2"],
    );
    assert_eq!(output.code, 0, "{}", output.err);
    insta::assert_snapshot!("a_new_scenario", read(folder.path().join("a.toml")));
    assert_eq!(run_fedcast(folder.path(), &["check", "a.toml"]).code, 0);
    let quick = ["run", "a.toml", "-q", "--set", "data.subset=6", "--set", "client.epochs=1"];
    let ran = run_fedcast(folder.path(), &quick);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("sampled     2 of 3 clients in a round"), "{}", ran.out);
}

/// Errors name the option that was given, not a key of a file that is not there.
#[test]
fn options_out_of_range_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (option, value) in [
        ("--beta", "nan"),
        ("--beta", "0"),
        ("--beta", "inf"),
        ("--cohort-size", "0"),
        ("--tasks", "0"),
    ] {
        let output = run_fedcast(folder.path(), &["new", "y.toml", option, value]);
        assert_eq!(output.code, 2, "{option} {value}: {}", output.err);
        assert!(output.err.contains(option) && !output.err.contains("y.toml:"), "{}", output.err);
        assert!(!folder.path().join("y.toml").exists());
    }
}

/// Commands can be pasted, and the study's directory is the one that `fedcast study` makes.
#[test]
fn advised_commands_are_words_of_a_shell() {
    let folder = tempfile::tempdir().unwrap();
    let new = ["new", "s p.toml", "--clients", "2", "--rounds", "1", "--study", "fedavg,hgp"];
    let output = run_fedcast(folder.path(), &new);
    assert_eq!(output.code, 0, "{}", output.err);
    for command in ["fedcast study 's p.study.toml' --plan\n", "fedcast report studies/s-p\n"] {
        assert!(output.out.contains(command), "{}", output.out);
    }
    assert!(read(folder.path().join("s p.study.toml")).contains("`fedcast report studies/s-p`"));
    let output = run_fedcast(folder.path(), &["new", "k 2.toml"]);
    assert!(output.out.contains("fedcast run 'k 2.toml'\n"), "{}", output.out);
}

#[test]
fn a_file_is_kept_unless_forced_and_slips_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.toml"), "mine").unwrap();
    assert_eq!(run_fedcast(folder.path(), &["new", "a.toml"]).code, 2);
    assert_eq!(read(folder.path().join("a.toml")), "mine");
    assert_eq!(run_fedcast(folder.path(), &["new", "a.toml", "--force"]).code, 0);
    let unknown = run_fedcast(folder.path(), &["new", "b.toml", "--method", "hpg"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.err.contains("did you mean `hgp`?"), "{}", unknown.err);
    let wrong =
        run_fedcast(folder.path(), &["new", "b.toml", "--clients", "2", "--cohort-size", "5"]);
    assert_eq!(wrong.code, 3, "{}", wrong.err);
    assert!(!folder.path().join("b.toml").exists());
}

#[test]
fn without_a_terminal_no_question_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(folder.path(), &["new"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(folder.path().join("scenario.toml").exists());
}

/// Keys that have no meaning for the method are reported at once.
#[test]
fn what_a_method_ignores_is_said_as_the_file_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        run_fedcast(folder.path(), &["new", "a.toml", "--method", "stsa", "--cohort-size", "3"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(
        output.err.contains("participation.count = 3 only applies partly to `stsa`"),
        "{}",
        output.err
    );
    // At their places in the file, too.
    let output = run_fedcast(folder.path(), &["check", "a.toml"]);
    assert!(output.err.contains("^ partly used"), "{}{}", output.out, output.err);
}

#[test]
fn local_weights_determine_their_shape() {
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
    fs::create_dir(folder.join("pets")).unwrap();
    write("known.safetensors", 192, 3);
    write("odd.safetensors", 12, 3);
    let new = |file: &str, more: &[&str]| {
        let words = ["new", "a.toml", "--data", "pets", "--weights", file, "--force"];
        run_fedcast(folder, &[&words[..], more].concat())
    };
    let output = new("known.safetensors", &[]);
    assert_eq!(output.code, 0, "{}", output.err);
    let text = read(folder.join("a.toml"));
    let shape = "architecture = { image = 8, patch = 4, channels = 1, dim = 192, depth = 1, heads = 3, mlp = 20 }";
    assert!(text.contains(shape), "{text}");
    let output = new("odd.safetensors", &[]);
    assert!(output.code == 2 && output.err.contains("heads = ..., mlp = 20 }'"), "{}", output.err);
    let given = "{image=8,patch=4,channels=1,dim=12,depth=1,heads=3,mlp=20}";
    assert_eq!(new("odd.safetensors", &["--architecture", given]).code, 0);
    // The name describes what is not here.
    assert_eq!(new("vit_small.safetensors", &[]).code, 0);
    assert!(read(folder.join("a.toml")).contains("\"vit-small-patch16-224\""));
}

#[test]
fn what_a_new_scenario_lacks_is_fetched_first() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_fedcast(folder.path(), &["new", "a.toml", "--data", "cifar100"]);
    let next = "Next:\n  fedcast fetch cifar100\n  fedcast fetch hf:timm/vit_tiny_patch16_224.augreg_in21k\n  \
                fedcast check a.toml\n";
    assert!(output.out.contains(next), "{}", output.out);
    let study = ["new", "b.toml", "--data", "cifar100", "--study", "fedavg,hgp"];
    let output = run_fedcast(folder.path(), &study);
    let next = "augreg_in21k\n  fedcast study b.study.toml --plan\n";
    assert!(output.out.contains(next), "{}", output.out);
    let output = run_fedcast(folder.path(), &["new", "c.toml"]);
    assert!(!output.out.contains("fetch"), "{}", output.out);
}

/// A folder of images is a class, whatever it is called, to the one who writes a scenario and to the one who reads it.
#[test]
fn a_class_called_train_is_trained_on_and_tested() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (class, level) in [("train", 10_u8), ("bus", 90), ("tram", 170), ("ship", 250)] {
        fs::create_dir_all(folder.join("vehicles").join(class)).unwrap();
        for image in 0..10_u8 {
            let pixels = image::GrayImage::from_pixel(8, 8, image::Luma([level - image / 2]));
            pixels.save(folder.join(format!("vehicles/{class}/{image}.png"))).unwrap();
        }
    }
    let words = ["new", "a.toml", "--data", "vehicles", "--clients", "2", "--tasks", "2"];
    let output =
        run_fedcast(folder, &[&words[..], &["--method", "fedavg", "--rounds", "1"]].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    let text = read(folder.join("a.toml"));
    assert!(text.contains("nominal = { classes = 4, train = 32, test = 8 }"), "{text}");
    let pixels = ["--set", "backbone={kind=\"pixels\"}", "--set", "data.stored_size=8"];
    let sizes = ["--set", "data.train={resize=8}", "--set", "data.test={resize=8}"];
    let run = [&["run", "a.toml", "-q", "-o", "run"], &pixels[..], &sizes].concat();
    let ran = run_fedcast(folder, &run);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let classes = read(folder.join("run/classes.csv"));
    assert!(classes.lines().count() > 4, "{classes}");
}

#[test]
fn a_partition_that_cannot_be_is_refused_before_anything_is_written_or_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = run_fedcast(folder, &["new", "a.toml", "--clients", "300"]);
    assert_eq!(output.code, 3, "{}", output.err);
    assert!(
        output.err.contains(" samples for 300 clients") && output.err.contains("each; `--"),
        "{}",
        output.err
    );
    assert!(!folder.join("a.toml").exists());
    // The change that is named works.
    let option = output.err.split('`').nth(1).unwrap();
    let words: Vec<&str> = option.split(' ').collect();
    let clients = if words[0] == "--clients" { vec![] } else { vec!["--clients", "300"] };
    let again = run_fedcast(folder, &[&["new", "a.toml"], &clients[..], &words].concat());
    assert_eq!(again.code, 0, "{}", again.err);
    // `check` says it where sizes are known, `run` before it asks for weights.
    fs::write(
        folder.join("b.toml"),
        "schema = 2\ntasks.count = 10\nmethod = { name = \"fedavg\" }\n\
         data = { source = \"cifar10\", train = { resize = 224 }, test = { resize = 224 } }\n\
         partition = { kind = \"dirichlet\", beta = 0.01, attempts = 20 }\n\
         backbone = { weights = \"vit_tiny.safetensors\", architecture = \"vit-tiny-patch16-224\" }\n\
         federation = { clients = 400, rounds = 1 }\n",
    )
    .unwrap();
    let few =
        "task 1 has 5000 samples for 400 clients, and no partition gives each of them at least 6";
    for command in ["check", "run"] {
        let output = run_fedcast(folder, &[command, "b.toml"]);
        assert_eq!(output.code, 3, "{}", output.err);
        assert!(output.err.contains(few), "{}", output.err);
        assert!(output.err.contains("divides every task (tried)"), "{}", output.err);
    }
}

#[test]
fn a_folder_is_no_file_to_write() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("runs")).unwrap();
    let output = run_fedcast(folder.path(), &["new", "runs", "--force"]);
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("runs/scenario.toml"), "{}", output.err);
}

#[test]
fn a_new_study_has_an_arm_per_method_and_can_be_planned() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let study = ["--study", "fedavg,scaffold,coda-prompt", "--seeds", "2"];
    let words = ["new", "a.toml", "--clients", "3", "--rounds", "1", "--tasks", "2"];
    let output = run_fedcast(at, &[&words[..], &study].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.out.contains("fedcast study a.study.toml --plan"), "{}", output.out);
    insta::assert_snapshot!("a_new_study", read(at.join("a.study.toml")));
    assert!(read(at.join("a.toml")).contains("name = \"fedavg\""));
    let plan = run_fedcast(at, &["study", "a.study.toml", "--plan", "--format", "json"]);
    assert_eq!(plan.code, 0, "{}", plan.err);
    let plan: serde_json::Value = serde_json::from_str(&plan.out).unwrap();
    let cells = plan["cells"].as_array().unwrap();
    let labels: Vec<&str> = cells.iter().map(|cell| cell["label"].as_str().unwrap()).collect();
    assert_eq!(labels.len(), 6);
    assert!(labels[0].contains("fedavg") && labels[5].contains("coda-prompt"), "{labels:?}");
    assert!(cells.iter().all(|cell| cell["error"].is_null()), "{cells:?}");
    // What an arm does not change is that of the scenario.
    let passes: Vec<f64> =
        cells.iter().map(|cell| cell["total"]["sample_passes"].as_f64().unwrap()).collect();
    assert_eq!(passes[0], passes[2], "the same epochs: {passes:?}");
    // Neither file is replaced unless that is asked for, and a slip writes nothing.
    assert_eq!(run_fedcast(at, &["new", "a.toml", "--study", "hgp"]).code, 2);
    for (study, must) in [("hgp,hpg", "there is no method `hpg`"), ("hgp,hgp", "is there twice")] {
        let wrong = run_fedcast(at, &["new", "b.toml", "--study", study]);
        assert_eq!(wrong.code, 2);
        assert!(wrong.err.contains(must), "{}", wrong.err);
        assert!(!at.join("b.toml").exists() && !at.join("b.study.toml").exists());
    }
}

/// Ten color images of each of four classes, in `pics`.
fn color_images(folder: &std::path::Path) {
    for (class, level) in [("a", 10_u8), ("b", 90), ("c", 170), ("d", 240)] {
        fs::create_dir_all(folder.join("pics").join(class)).unwrap();
        for image in 0..10_u8 {
            let color = image::Rgb([level + image, 255 - level, 7]);
            let pixels = image::RgbImage::from_pixel(9, 8, color);
            pixels.save(folder.join(format!("pics/{class}/{image}.png"))).unwrap();
        }
    }
}

#[test]
fn color_images_are_learned_from_scratch_without_a_download() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    color_images(folder);
    let words = ["new", "a.toml", "--data", "pics", "--backbone", "resnet18", "--tasks", "2"];
    let more = ["--clients", "2", "--rounds", "1"];
    let output = run_fedcast(folder, &[&words[..], &more].concat());
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(!output.out.contains("fetch"), "{}", output.out);
    assert!(read(folder.join("a.toml")).contains("kind = \"resnet18\"\nweights = \"random\""));
    assert_eq!(run_fedcast(folder, &["check", "a.toml"]).code, 0);
    let small = ["--set", "backbone.width=2", "--set", "client.epochs=1"];
    let ran = run_fedcast(folder, &[&["run", "a.toml", "-q"], &small[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn unusable_data_and_weights_are_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    color_images(folder);
    fs::write(folder.join("rows.csv"), "x,label\n1,a\n").unwrap();
    fs::write(folder.join("pics.zip"), "").unwrap();
    for (words, code, way_out) in [
        ("--data pics --weights embedded", 2, "use --backbone resnet18"),
        ("--data pics --weights random", 2, "use --backbone resnet18"),
        ("--backbone resnet18 --weights embedded", 2, "leave out --weights"),
        ("--data pisc", 6, "pisc: not found; expected a folder of images"),
        ("--data rows.csv", 2, "data = { source = \"table\", path = \"rows.csv\""),
        ("--data pics.zip", 2, "unpack an archive"),
    ] {
        let words: Vec<&str> = ["new", "b.toml"].into_iter().chain(words.split(' ')).collect();
        let output = run_fedcast(folder, &words);
        assert!(output.code == code && output.err.contains(way_out), "{words:?} {}", output.err);
        assert!(!folder.join("b.toml").exists(), "{words:?}");
    }
    let output = run_fedcast(folder, &["new", "c.toml", "--weights", "embedded"]);
    assert_eq!(output.code, 0, "{}", output.err);
}

#[test]
fn a_partition_is_counted_without_weights() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    color_images(folder);
    let words = ["new", "a.toml", "--data", "pics", "--method", "fedavg", "--tasks", "2"];
    let output = run_fedcast(folder, &[&words[..], &["--clients", "2"]].concat());
    assert!(output.out.contains("fedcast fetch hf:timm/"), "{}", output.out);
    let plan = ["plan", "a.toml", "--partition", "--format", "json"];
    let counted = run_fedcast(folder, &plan);
    assert_eq!(counted.code, 0, "{}", counted.err);
    let counted: serde_json::Value = serde_json::from_str(&counted.out).unwrap();
    let held = counted["holdings"].as_array().unwrap().iter();
    assert_eq!(held.map(|row| row["samples"].as_u64().unwrap()).sum::<u64>(), 32);
}

#[test]
fn a_run_is_verified_and_resumed_where_its_data_have_moved_to() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    color_images(folder);
    let words = ["new", "a.toml", "--data", "pics", "--backbone", "resnet18", "--tasks", "2"];
    let more = ["--clients", "2", "--rounds", "1"];
    assert_eq!(run_fedcast(folder, &[&words[..], &more].concat()).code, 0);
    let small = ["--set", "backbone.width=2", "--set", "client.epochs=1"];
    let ran = run_fedcast(folder, &[&["run", "a.toml", "-q", "-o", "run"], &small[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    fs::rename(folder.join("pics"), folder.join("moved")).unwrap();
    let verify =
        |set: &[&str]| run_fedcast(folder, &[&["replay", "run", "--verify", "-q"], set].concat());
    let gone = verify(&[]);
    assert!(gone.code == 6 && gone.err.contains("--set data.path="), "{}", gone.err);
    let moved = verify(&["--set", "data.path=moved"]);
    assert!(moved.code == 0 && moved.out.starts_with("identical: "), "{}", moved.err);
    let other = verify(&["--set", "data.path=moved", "--set", "client.epochs=2"]);
    assert!(other.code == 2 && other.err.contains("`client.epochs` may change"), "{}", other.err);
    // So is a run that was interrupted, from the beginning as it lost its checkpoints.
    let text = fs::read_to_string(folder.join("run/manifest.json")).unwrap();
    let digests =
        |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["digests"].clone();
    fs::write(folder.join("run/manifest.json"), text.replace("\"done\"", "\"running\"")).unwrap();
    fs::remove_dir_all(folder.join("run/checkpoints")).unwrap();
    let gone = run_fedcast(folder, &["resume", "run", "-q"]);
    assert!(gone.code == 6 && gone.err.contains("--set data.path="), "{}", gone.err);
    let other = run_fedcast(folder, &["resume", "run", "-q", "--set", "client.epochs=2"]);
    assert!(other.code == 2 && other.err.contains("`client.epochs` may change"), "{}", other.err);
    let moved = run_fedcast(folder, &["resume", "run", "-q", "--set", "data.path=moved"]);
    assert_eq!(moved.code, 0, "{}", moved.err);
    let again = fs::read_to_string(folder.join("run/manifest.json")).unwrap();
    assert!(digests(&text).is_object());
    assert_eq!(digests(&again), digests(&text));
    // Other images at that place are noticed.
    let image = image::RgbImage::from_pixel(9, 8, image::Rgb([0, 0, 0]));
    (0..10).for_each(|i| image.save(folder.join(format!("moved/a/{i}.png"))).unwrap());
    let changed = verify(&["--set", "data.path=moved"]);
    assert!(changed.code == 10 && changed.err.contains("has changed since"), "{}", changed.err);
}
