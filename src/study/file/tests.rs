use super::*;
use crate::methods::Registry;
use crate::scenario::Scenario;
use crate::study::{Baseline, Cell, Only, Point};

const STUDY: &str = r#"schema = 2
base = "base.toml"
replicates = 2
set = { federation.rounds = 2 }

[axes]
clients = { key = "federation.clients", values = [4, 6] }

[axes.method]
fedavg = { method = { name = "fedavg", train = "head" } }
hgp = { method.prompt_len = 8, client.epochs = 2 }

[[exclude]]
method = "fedavg"
clients = 6

[[extra]]
label = "hgp, all"
set = { federation.clients = 3 }

[compare]
baseline = { method = "fedavg" }
metrics = ["faa", "rounds_to:0.8"]
"#;

const BASE: &str = "schema = 2\ndata = { source = \"digits\", subset = 12 }\ntasks = { sizes = [5, 5] }\n\
                    partition = { kind = \"iid\" }\nmethod = { name = \"hgp\", prompt_len = 4 }\n";

fn study(text: &str) -> Result<Study, String> {
    let read = Study::from_toml(text, "a.study.toml", "a", Path::new("/studies"));
    read.map_err(|error| error.to_string())
}

fn scenario(study: &Study, folder: &Path, cell: &Cell) -> Result<Scenario, String> {
    let mut study = study.clone();
    study.base = Some(folder.join("base.toml"));
    let loaded = study.scenario(cell, &[], &Registry::builtin());
    loaded.map(|loaded| loaded.scenario).map_err(|error| error.to_string())
}

#[test]
fn cells_come_in_the_order_of_axes_without_those_excluded() {
    let study = study(STUDY).unwrap();
    let paths: Vec<String> =
        study.cells().iter().map(|cell| cell.path.to_string_lossy().into_owned()).collect();
    assert_eq!(
        paths,
        [
            "clients=4,method=fedavg/seed-1",
            "clients=4,method=fedavg/seed-2",
            "clients=4,method=hgp/seed-1",
            "clients=4,method=hgp/seed-2",
            "clients=6,method=hgp/seed-1",
            "clients=6,method=hgp/seed-2",
            "hgp,all/seed-1",
            "hgp,all/seed-2",
        ]
    );
    assert_eq!(study.label(&Point::Grid(vec![1, 1])), "clients=6, method=hgp");
    let Some(Baseline::Arms(picks)) = &study.compare.baseline else { panic!("a baseline") };
    assert_eq!(picks[..], [Pick { axis: 1, arm: 0 }]);
}

#[test]
fn a_study_has_a_cell() {
    let out = "\n[[exclude]]\nmethod = \"hgp\"\n[[exclude]]\nmethod = \"fedavg\"\n";
    let all = format!("{STUDY}{out}");
    study(&all).unwrap();
    let (before, rest) = all.split_once("[[extra]]").unwrap();
    let without_extra = format!("{before}{}", &rest[rest.find("[compare]").unwrap()..]);
    let error = study(&without_extra).unwrap_err();
    assert!(error.contains("every cell of the grid is excluded"), "{error}");
    assert!(error.contains("a.study.toml:13:"), "{error}");
}

#[test]
fn a_cell_is_its_base_with_its_changes_and_seeds() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.toml"), BASE).unwrap();
    let study = study(STUDY).unwrap();
    let cells = study.cells();
    let fedavg = scenario(&study, folder.path(), &cells[1]).unwrap();
    assert_eq!((fedavg.federation.clients, fedavg.federation.rounds), (4, 2));
    assert_eq!(fedavg.method.name, "fedavg", "a table replaces the base's, prompt_len and all");
    assert_eq!((fedavg.seed.run, fedavg.seed.partition, fedavg.seed.class_order), (2, 2, 2));
    let hgp = scenario(&study, folder.path(), &cells[4]).unwrap();
    assert_eq!((hgp.federation.clients, hgp.client.epochs), (6, 2));
    assert!(
        hgp.to_effective_toml().contains("prompt_len = 8"),
        "a dotted key goes into the base's"
    );
    let extra = scenario(&study, folder.path(), &cells[6]).unwrap();
    assert_eq!((extra.federation.clients, extra.federation.rounds), (3, 2));
    assert!(extra.to_effective_toml().contains("prompt_len = 4"));
}

#[test]
fn a_wrong_change_points_into_the_study_and_a_wrong_base_into_the_base() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.toml"), BASE).unwrap();
    let wrong = study(&STUDY.replace("prompt_len = 8", "promt_len = 8")).unwrap();
    let error = scenario(&wrong, folder.path(), &wrong.cells()[2]).unwrap_err();
    assert!(error.contains("a.study.toml:11:16"), "{error}");
    assert!(error.contains("did you mean `prompt_len`?"), "{error}");
    let wrong =
        study(&STUDY.replace("[4, 6]", "[4, -6]").replace("clients = 6", "clients = 4")).unwrap();
    let error = scenario(&wrong, folder.path(), &wrong.cells()[4]).unwrap_err();
    assert!(error.contains("a.study.toml:7:54"), "{error}");
    std::fs::write(folder.path().join("base.toml"), BASE.replace("iid", "idd")).unwrap();
    let error = scenario(&wrong, folder.path(), &wrong.cells()[0]).unwrap_err();
    assert!(error.contains("base.toml:4:22"), "{error}");
}

#[test]
fn paths_of_changes_start_at_the_study_s_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("base.toml"), BASE).unwrap();
    let set = "set = { cache = { features = \"file\", folder = \"kept\" } }";
    let study = study(&STUDY.replace("set = { federation.rounds = 2 }", set)).unwrap();
    let read = scenario(&study, folder.path(), &study.cells()[0]).unwrap();
    assert_eq!(read.cache.folder, Some(PathBuf::from("/studies/kept")));
}

#[test]
fn study_errors_name_their_place() {
    for (from, to, place, hint) in [
        ("replicates", "replicate", "3:1", "did you mean `replicates`?"),
        ("schema = 2\n", "schema = 1\n", "1:10", "fedcast migrate FILE"),
        (
            "method = \"fedavg\"\nclients",
            "methd = \"fedavg\"\nclients",
            "14:9",
            "did you mean `method`?",
        ),
        ("clients = 6\n", "clients = 7\n", "15:11", "the axis `clients` has no arm `7`"),
        (
            "baseline = { method = \"fedavg\" }",
            "baseline = { method = \"fedag\" }",
            "22:23",
            "`fedavg`",
        ),
        ("\"faa\", ", "\"fa\", ", "23:12", "did you mean `faa`?"),
        ("values = [4, 6]", "values = [4, 4]", "7:54", "has `4` twice"),
        ("values = [4, 6]", "value = [4, 6]", "7:41", "did you mean `values`?"),
        (
            "hgp = { method.prompt_len = 8, client.epochs = 2 }",
            "hgp = 3",
            "11:7",
            "a table of changes",
        ),
        ("label = \"hgp, all\"", "labl = \"x\"", "18:1", "did you mean `label`?"),
        ("[compare]", "[report]\nx = \"cleints\"\n[compare]", "22:5", "did you mean \"clients\"?"),
        (
            "[compare]",
            "[run]\nlimit = { wal = \"2h\" }\n[compare]",
            "22:11",
            "did you mean `wall`?",
        ),
        (
            "[axes]\n",
            "[axes]\nseed = { key = \"a\", values = [1] }\n",
            "7:8",
            "cannot have the name `seed`",
        ),
    ] {
        assert!(STUDY.contains(from), "{from}");
        let error = study(&STUDY.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(&format!("a.study.toml:{place}\n")), "{to}: {error}");
        assert!(error.contains(hint), "{to}: {error}");
    }
    let error = study("base = \"a.toml\"").unwrap_err();
    assert!(error.contains("the study lacks the key `schema`"), "{error}");
}

#[test]
fn axes_that_set_one_key_are_refused_with_both_names() {
    let rest = "other = { key = \"method.prompt_len\", values = [4, 8] }\n";
    let after = STUDY.replace("[[exclude]]", "[axes.more]\n{}\n[[exclude]]");
    let arms = |arms: &str| after.replacen("{}", arms, 1);
    for (text, place, key) in [
        // One key twice.
        (
            STUDY.replacen(
                "[axes.method]",
                "again = { key = \"federation.clients\", values = [1] }\n[axes.method]",
                1,
            ),
            "9:17",
            "the axes `clients` and `again` both set `federation.clients`",
        ),
        // A table over an earlier axis' key.
        (
            STUDY.replacen("[axes.method]", &format!("{rest}[axes.method]"), 1),
            "11:10",
            "the axes `other` and `method` both set `method.prompt_len`",
        ),
        // A key that an earlier table has.
        (
            arms("head = { method.train = \"head\" }"),
            "14:8",
            "the axes `method` and `more` both set `method.train`",
        ),
    ] {
        let error = study(&text).unwrap_err();
        assert!(error.contains(&format!("a.study.toml:{place}\n")), "{error}");
        assert!(error.contains(key), "{error}");
        assert_eq!(error.matches("both set").count(), 1, "{error}");
    }
    // Keys next to each other, a key into an earlier table that lacks it, and cells that are left out.
    for text in [
        arms("slow = { federation.rounds = 9, client.optimizer.lr = 0.5 }"),
        arms("small = { method.components = 4 }"),
        arms("head = { client.epochs = 3 }") + "\n[[exclude]]\nmethod = \"hgp\"\nmore = \"head\"\n",
    ] {
        study(&text).unwrap();
    }
}

#[test]
fn seeds_are_changed_by_no_axis_arm_set_or_extra() {
    for (from, to, place) in [
        ("federation.rounds = 2", "seed.run = 2", "4:7"),
        ("key = \"federation.clients\"", "key = \"seed.partition\"", "7:19"),
        ("client.epochs = 2", "seed = { run = 2 }", "11:7"),
        ("federation.clients = 3", "seed.class_order = 3", "19:7"),
    ] {
        let error = study(&STUDY.replacen(from, to, 1)).unwrap_err();
        assert!(error.contains(&format!("a.study.toml:{place}\n")), "{to}: {error}");
        assert!(error.contains("with `replicates` or `seeds`"), "{to}: {error}");
    }
}

#[test]
fn only_chooses_by_axes_seeds_and_labels() {
    let study = study(STUDY).unwrap();
    let chosen = |arguments: &[&str]| {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        let only = Only::parse(&arguments, &study).map_err(|error| error.to_string())?;
        let cells = study.cells();
        let chosen = cells.iter().filter(|cell| only.has(&study, cell));
        Ok::<Vec<usize>, String>(chosen.map(|cell| cell.index).collect())
    };
    assert_eq!(chosen(&[]).unwrap().len(), 8);
    assert_eq!(chosen(&["method=hgp,clients=4"]).unwrap(), [2, 3]);
    assert_eq!(chosen(&["method=fedavg", "clients=6,seed=2"]).unwrap(), [0, 1, 5]);
    assert_eq!(chosen(&["label=hgp, all,seed=1"]).unwrap(), [6]);
    for (wrong, hint) in [
        ("method=hpg", "did you mean `hgp`?"),
        ("clint=4", "did you mean `clients`?"),
        ("seed=3", "no seed 3, only 1, 2"),
        ("hgp", "write axis=arm, such as clients=4"),
    ] {
        let error = chosen(&[wrong]).unwrap_err();
        assert!(error.contains(hint), "{wrong}: {error}");
    }
}
