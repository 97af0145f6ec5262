//! Promise: every scenario file of the project can be read, and reading loses nothing: the
//! effective scenario that a run writes is the scenario it ran.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fedcast::experiment::assemble::{class_sizes, holders_of, listed_dataset, task_sequence_of};
use fedcast::methods::Registry;
use fedcast::scenario::{AnyMethod, Loaded, MethodCatalogue, Override, Scenario, ScenarioError};
use proptest::prelude::*;

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of scenarios is readable") {
        let path = entry.expect("its entries, too").path();
        match path.is_dir() {
            true => files.extend(files_under(&path)),
            false if path.extension().is_some_and(|e| e == "toml") => files.push(path),
            false => {}
        }
    }
    files.sort();
    files
}

fn all_files() -> Vec<PathBuf> {
    files_under(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"))
}

/// Folders `base` hold shared parts of scenarios, which are no scenarios themselves.
fn is_base(file: &Path) -> bool {
    file.parent().is_some_and(|folder| folder.ends_with("base"))
}

/// Many runs of a scenario; read by `fedcast study`.
fn is_study(file: &Path) -> bool {
    file.to_string_lossy().ends_with(".study.toml")
}

fn scenario_files() -> Vec<PathBuf> {
    all_files().into_iter().filter(|file| !is_base(file) && !is_study(file)).collect()
}

/// The base of a file, where it has one.
fn base_of(file: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(file).expect("scenario files are readable");
    let table: toml::Table = text.parse().expect("scenario files are TOML");
    let base = file.parent()?.join(table.get("extends")?.as_str()?);
    Some(base.canonicalize().expect("a base is there"))
}

fn read(text: &str, folder: &str, overrides: &[String]) -> Result<Loaded, ScenarioError> {
    let overrides: Vec<Override> = overrides.iter().map(Override::new).collect();
    Scenario::from_toml(text, "any", Path::new(folder), &overrides, &AnyMethod)
}

/// Reading what `scenario` writes, from another folder.
fn reread(scenario: &Scenario, methods: &dyn MethodCatalogue) -> Scenario {
    let text = scenario.to_effective_toml();
    match Scenario::from_toml(&text, "any", Path::new("/another/folder"), &[], methods) {
        Ok(loaded) => loaded.scenario,
        Err(error) => panic!("{error}\nin\n{text}"),
    }
}

fn load(file: &Path, overrides: &[Override]) -> Scenario {
    match Scenario::load(file, overrides, &Registry::builtin()) {
        Ok(loaded) => loaded.scenario,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_file_reads_and_its_effective_form_is_the_same_scenario() {
    let files = scenario_files();
    assert!(files.len() >= 376, "only {} scenario files", files.len());
    for file in files {
        let scenario = load(&file, &[]);
        let again = reread(&scenario, &Registry::builtin());
        assert_eq!(again, scenario, "{}", file.display());
        assert_eq!(again.hash(), scenario.hash(), "{}", file.display());
        assert!(!scenario.to_effective_toml().contains("extends"), "{}", file.display());
    }
}

#[test]
fn every_base_is_shared() {
    let mut children: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for base in scenario_files().iter().filter_map(|file| base_of(file)) {
        *children.entry(base).or_default() += 1;
    }
    for base in all_files().into_iter().filter(|file| is_base(file)) {
        let base = base.canonicalize().expect("it was found");
        let shared = children.get(&base).copied().unwrap_or(0);
        assert!(shared >= 2, "{} has {shared} children", base.display());
    }
}

/// The tables of the papers stand in their files as data.
#[test]
fn published_numbers_have_a_source() {
    let mut published = 0;
    for file in scenario_files() {
        let expected = load(&file, &[]).expected;
        if !expected.numbers.is_empty() {
            assert!(expected.source.is_some(), "{}", file.display());
            assert!(expected.overrides.is_empty(), "{}", file.display());
            published += 1;
        }
    }
    assert!(published >= 325, "only {published} files have published numbers");
}

#[test]
fn every_file_says_what_it_is_for() {
    for file in all_files() {
        let text = std::fs::read_to_string(&file).expect("scenario files are readable");
        assert!(text.starts_with("# "), "{} has no header comment", file.display());
    }
}

#[test]
fn paper_scenarios_differ_from_each_other() {
    let mut hashes: Vec<(String, PathBuf)> =
        scenario_files().into_iter().map(|file| (load(&file, &[]).hash(), file)).collect();
    hashes.sort();
    for pair in hashes.windows(2) {
        assert_ne!(pair[0].0, pair[1].0, "{:?} and {:?}", pair[0].1, pair[1].1);
    }
}

/// Returns what a line of a header offers, `--set a=b --set 'c={d="e"}'   remark`; `...` is for the reader to fill
/// in.
fn offered_by(line: &str) -> Vec<Override> {
    let sets = line.split("--set ").skip(1).filter(|set| !set.contains("..."));
    let words = sets.map(|set| match set.strip_prefix('\'') {
        Some(quoted) => quoted.split('\'').next().unwrap_or_default(),
        None => set.split_whitespace().next().unwrap_or_default(),
    });
    words.map(Override::new).collect()
}

/// Lines of a file's comments that offer something, with what they do. None goes on in the next line.
fn offers(file: &Path) -> Vec<(String, Vec<Override>)> {
    let text = std::fs::read_to_string(file).expect("scenario files are readable");
    let comments = text.lines().filter(|line| line.starts_with('#'));
    let mut offers = Vec::new();
    for line in comments {
        assert!(!line.trim_end().ends_with("--set"), "{}: {line} is cut short", file.display());
        let sets = offered_by(line);
        if !sets.is_empty() {
            offers.push((line.to_owned(), sets));
        }
    }
    offers
}

/// The comparisons that the header comments offer.
#[test]
fn advertised_overrides_work() {
    let mut offered = 0;
    for file in scenario_files() {
        for (line, sets) in offers(&file) {
            // A line with the whole command may be about another file.
            let named = line.split_whitespace().find(|word| word.starts_with("scenarios/"));
            let root = Path::new(env!("CARGO_MANIFEST_DIR"));
            let file = named.map_or(file.clone(), |named| root.join(named));
            assert_ne!(load(&file, &sets).hash(), load(&file, &[]).hash(), "{line}");
            offered += 1;
        }
    }
    assert!(offered >= 564, "only {offered} lines with overrides");
}

/// Returns true if a file extends a base, itself or by its own base.
fn has_base(file: &Path, base: &Path) -> bool {
    base_of(file).is_some_and(|nearest| nearest == base || has_base(&nearest, base))
}

/// Every line that a base offers fits one of its scenarios: a key of one method is no key of the others.
#[test]
fn overrides_that_bases_advertise_work_for_a_scenario_of_theirs() {
    let scenarios = scenario_files();
    let mut offered = 0;
    for base in all_files().into_iter().filter(|file| is_base(file)) {
        let base = base.canonicalize().expect("it was found");
        let theirs: Vec<&PathBuf> = scenarios.iter().filter(|file| has_base(file, &base)).collect();
        for (line, sets) in offers(&base) {
            let changes = |file: &&PathBuf| {
                let changed = Scenario::load(file, &sets, &Registry::builtin());
                changed.is_ok_and(|read| read.scenario.hash() != load(file, &[]).hash())
            };
            assert!(theirs.iter().any(changes), "{}: {line}", base.display());
            offered += 1;
        }
    }
    assert!(offered >= 33, "only {offered} lines of bases with overrides");
}

#[test]
fn paths_are_relative_to_where_they_are_written() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/hgp/cars196-beta0.2.toml");
    let read =
        |overrides: &[Override]| load(&file, overrides).data.path.expect("the cars have a path");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
    assert_eq!(read(&[]), root.join("data/cars196"));
    let here = std::env::current_dir().unwrap();
    assert_eq!(read(&[Override::new("data.path=x/../y.tar.gz")]), here.join("y.tar.gz"));
    // A name is the same everywhere.
    let named = "fetched:imagenet-r";
    assert_eq!(read(&[Override::new(format!("data.path={named}"))]), Path::new(named));
}

const BASE: &str = "schema = 2\n[data]\nsource = \"digits\"\n[tasks]\ncount = 5\n[partition]\n\
                    kind = \"iid\"\n[method]\nname = \"hgp\"\n";

fn hash(text: &str, overrides: &[&str]) -> String {
    let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
    read(text, "/folder", &overrides).unwrap_or_else(|e| panic!("{e}")).scenario.hash()
}

#[test]
fn the_hash_knows_content_from_form() {
    let base = hash(BASE, &[]);
    let spaced = BASE.replace(" = ", "=").replace("[data]", "# a comment\n\n[data]");
    assert_eq!(hash(&spaced, &[]), base);
    for same in
        ["name=other", "devices.workers=7", "record.histograms=false", "federation.clients=10"]
    {
        assert_eq!(hash(BASE, &[same]), base, "{same}");
    }
    for other in [
        "seed.run=2",
        "seed.partition=1",
        "federation.clients=11",
        "federation.idle_clients=1",
        "client.optimizer.lr=0.002",
        "client.optimizer.kind=sgd",
        "client.round_schedule.kind=cosine",
        "method.tau=0.2",
        "method.name=fedavg",
        "devices.evaluation_batch=32",
        "record.evaluate=task",
        "faults=[{kind=\"crash\",rate=0.1}]",
        "wire=verify",
        "links.preset=mobile",
        "preset=mobile",
        "time.slowness=2",
    ] {
        assert_ne!(hash(BASE, &[other]), base, "{other}");
    }
    let at = |path: &str| {
        let source = ["data.source=folder", "data.stored_size=8"].map(str::to_owned);
        let overrides = [&source[..], &[format!("data.path={path}")]].concat();
        read(BASE, "/folder", &overrides).unwrap_or_else(|e| panic!("{e}")).scenario.hash()
    };
    assert_eq!(at("/a/set"), at("/b/set"));
    assert_ne!(at("/a/set"), at("/a/another"));
    // Of a name all counts: owners and revisions have repositories of the same name.
    assert_ne!(at("hf:datasets/a/set"), at("hf:datasets/b/set"));
    let listed = |path: &str| {
        let source =
            ["data.source=folder", "data.path=/a", "data.stored_size=8"].map(str::to_owned);
        let overrides = [&source[..], &[format!("data.split.list={path}")]].concat();
        read(BASE, "/folder", &overrides).unwrap_or_else(|e| panic!("{e}")).scenario.hash()
    };
    assert_eq!(listed("/a/one.json"), listed("/b/one.json"));
    assert_ne!(listed("/a/one.json"), listed("/a/two.json"));
}

/// Epochs of a schedule are read, counted in the hash and written out; where the rate is constant there is nothing to stretch.
#[test]
fn a_schedule_may_have_more_epochs_than_a_round() {
    let with = |sets: &[&str]| {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        read(BASE, "/folder", &sets)
    };
    let cosine = "client.epoch_schedule=quarter-cosine";
    let fifty = with(&[cosine, "client.schedule_epochs=50"]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(fifty.scenario.client.schedule_epochs, Some(50));
    assert_ne!(fifty.scenario.hash(), hash(BASE, &[cosine]));
    assert_eq!(reread(&fifty.scenario, &AnyMethod), fifty.scenario);
    assert!(with(&["client.schedule_epochs=50"]).is_err());
    assert!(with(&[cosine, "client.schedule_epochs=0"]).is_err());
}

#[test]
fn every_key_is_described() {
    let keys = Scenario::keys();
    assert!(keys.len() > 70, "only {} keys", keys.len());
    for key in keys {
        assert!(!key.doc.is_empty(), "{}", key.key);
        assert!(key.choices.iter().all(|(_, doc)| !doc.is_empty()), "{}", key.key);
    }
}

#[test]
fn the_embedded_backbone_takes_what_scenarios_are_checked_for() {
    let image = fedcast::model::EMBEDDED_CONFIG.image;
    assert_eq!(image, fedcast::scenario::EMBEDDED_IMAGE as usize);
}

/// Sizes as published are enough to draw every partition within its attempts.
#[test]
fn every_file_has_a_partition() {
    for file in scenario_files() {
        let scenario = load(&file, &[]);
        let drawn = || -> Result<(), Box<dyn std::error::Error>> {
            let data = listed_dataset(&scenario)?.map(|listed| listed.data);
            let sizes = class_sizes(&scenario, data.as_ref())?;
            let task_sequence = task_sequence_of(&scenario, sizes.len())?;
            let clients = scenario.federation.clients;
            let holders = holders_of(&scenario, clients, &task_sequence, data.as_ref())?;
            let sizes = task_sequence.class_sizes(sizes);
            holders.counts(&task_sequence, &sizes)?;
            Ok(())
        };
        if let Err(error) = drawn() {
            panic!("{}: {error}", file.display());
        }
    }
}

#[test]
fn codecs_can_be_chosen_for_exactly_the_trained_kinds() {
    let trained: Vec<&str> = fedcast::wire::Kind::all()
        .filter(|kind| kind.is_learnable())
        .map(|kind| kind.name())
        .collect();
    assert_eq!(trained, fedcast::scenario::KINDS);
}

/// Section 8 of FedHAF's card.
#[test]
fn the_federations_of_fedhaf_have_the_paper_s_sizes() {
    let file = |name: &str| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/fedhaf").join(format!("{name}.toml"))
    };
    for (name, clients, asked) in [
        ("table3-cifar100-fedhaf", 50, 5),
        ("table3-cifar100-fedlwf-2t", 50, 5),
        ("tiny-imagenet", 50, 5),
        ("imagenet", 300, 30),
        ("shakespeare", 100, 10),
    ] {
        let Scenario { federation, participation, .. } = load(&file(name), &[]);
        let found = (federation.clients, participation.participants.of(federation.clients));
        assert_eq!(found, (clients, asked), "{name}");
    }
}

fn one_of(key: &'static str, values: &'static [&'static str]) -> BoxedStrategy<Vec<String>> {
    let set = move |value: &'static str| vec![format!("{key}={value}")];
    prop_oneof![Just(Vec::new()), proptest::sample::select(values).prop_map(set)].boxed()
}

fn number(key: &'static str, low: f64, high: f64) -> BoxedStrategy<Vec<String>> {
    let set = move |value: f64| vec![format!("{key}={value:?}")];
    prop_oneof![Just(Vec::new()), (low..high).prop_map(set)].boxed()
}

fn integer(key: &'static str, low: i64, high: i64) -> BoxedStrategy<Vec<String>> {
    let set = move |value: i64| vec![format!("{key}={value}")];
    prop_oneof![Just(Vec::new()), (low..high).prop_map(set)].boxed()
}

/// Any sentence of overrides that makes sense together.
fn overrides() -> impl Strategy<Value = Vec<String>> {
    let keys: Vec<BoxedStrategy<Vec<String>>> = vec![
        one_of("name", &["a", "\"with \\\"quotes\\\"\"", "Zürich"]),
        integer("seed.run", 0, i64::MAX),
        integer("seed.partition", 0, i64::MAX),
        one_of("data.nominal", &["{classes=10,train=100,test=10}"]),
        one_of("data.statistics.transform", &["raw", "train", "test"]),
        integer("data.test_subset", 1, 50),
        one_of("data.train.normalize", &["none", "clip", "{mean=[0.1,0.2,0.3],std=[1,0.2,0.3]}"]),
        one_of(
            "data.train.interpolation",
            &["bicubic", "bicubic-torch", "bicubic-antialias", "bilinear"],
        ),
        one_of("data.train.jitter", &["{brightness=0.247}", "{contrast=0.1,saturation=2}"]),
        number("data.validation_fraction", 0.01, 0.99),
        number("data.train.flip", 0.0, 1.0),
        one_of("data.train.scale", &["[0.2,0.7]", "[1,1]"]),
        one_of("tasks", &["{sizes=[3,3,4]}", "{count=3}", "{count=2,order=\"seeded\"}"]),
        one_of(
            "partition",
            &[
                "{kind=\"dirichlet\",beta=0.05}",
                "{kind=\"quantity\",classes_per_client=2}",
                "{kind=\"extended\",beta=1,reserved_samples=3}",
                "{kind=\"iid\",min_samples=0}",
            ],
        ),
        one_of("backbone.weights", &["/weights/vit.safetensors"])
            .prop_map(|mut set| {
                if !set.is_empty() {
                    let shape = "{image=8,patch=4,dim=64,depth=2,heads=4}";
                    set.push(format!("backbone.architecture={shape}"));
                }
                set
            })
            .boxed(),
        one_of("method", &["{name=\"x\",tau=0.1,list=[1,2],inner={a=true,b=\"c\"}}"]),
        integer("federation.clients", 1, 1_000_000),
        one_of("federation.on_bad_update", &["drop", "abort"]),
        one_of(
            "participation",
            &["{count=1}", "{fraction=0.3,draw_every=\"task\"}", "{kind=\"all\"}"],
        ),
        integer("client.epochs", 1, 100),
        number("client.max_grad_norm", 0.0, 10.0),
        one_of(
            "client.optimizer",
            &["{kind=\"sgd\",lr=1e-9,momentum=0.9}", "{lr=3e-4,betas=[0.8,0.99],eps=1e-12}"],
        ),
        one_of("preset", &["cross-silo", "production"]),
        one_of("time.preset", &["ideal", "mobile", "heavy-tail"]),
        one_of(
            "time.slowness",
            &[
                "{dist=\"pareto\",median=1,alpha=1.5,max=9}",
                "{dist=\"zipf\",ranks=5,exponent=2,offset=0.5}",
                "{dist=\"normal\",mean=1,sd=0.3,min=0.1}",
            ],
        ),
        one_of(
            "round",
            &[
                "{close=\"deadline\",deadline_s=9}",
                "{close=\"quorum\",quorum=0.5}",
                "{close=\"first\",deadline_s=1,min_fraction=0.2}",
                "{close=\"deadline\",deadline_s=9,late=\"aggregate\",max_staleness=3}",
                "{close=\"buffer\",buffer_size=1,staleness_exponent=1}",
            ],
        ),
        one_of(
            "availability",
            &[
                "{kind=\"markov\",on_s=60,off_s=1e3}",
                "{kind=\"diurnal\",spread=0}",
                "{kind=\"by-data\",stay_s={dist=\"exponential\",mean=1e4},join_s=5}",
            ],
        ),
        one_of("links.rtt_ms", &["5", "{dist=\"uniform\",low=1,high=2}"]),
        one_of(
            "client.round_schedule",
            &["{kind=\"cosine\"}", "{kind=\"multi-step\",milestones=[50,75],factor=0.5}"],
        ),
        number("time.ms_per_sample", 0.0, 1e6),
        one_of("links.preset", &["ideal", "mobile"]),
        number("links.down_mb_per_s", 1e-9, 1e9),
        number("links.loss_rate", 0.0, 1.0),
        one_of(
            "faults",
            &[
                "[{kind=\"crash\",when=\"after\",rate=0.5},{kind=\"lose\",direction=\"down\"}]",
                "[{kind=\"corrupt\",clients=[1,2],rounds=[3]},{kind=\"duplicate\"}]",
                "[{kind=\"bad-update\",how=\"wrong-shape\",rate=0.1}]",
                "[]",
            ],
        ),
        one_of("wire", &["verify", "{form=\"lean\",asset_cache=\"task\"}"]),
        one_of("wire.up", &["{codec=\"int8\"}", "{codec=\"f16\",kinds={head=\"f32\"}}"]),
        one_of("devices.workers", &["auto", "1", "8"]),
        one_of("record.metrics", &["[\"federated-bias\"]", "[]"]),
        one_of("record.bias", &["first", "round"]),
    ];
    keys.prop_map(|sets| sets.concat())
}

#[test]
fn synthetic_data_read_back() {
    for owners in ["", "clients=4", "clients=4,client_shift=2.5,classes_per_client=3"] {
        let data = format!("data={{source=\"synthetic\",synthetic={{{owners}}}}}");
        let sets = [data, "backbone={kind=\"pixels\"}".to_owned()];
        let scenario = read(BASE, "/folder", &sets).unwrap_or_else(|e| panic!("{e}")).scenario;
        assert_eq!(reread(&scenario, &AnyMethod), scenario, "{owners}");
    }
}

proptest! {
    #[test]
    fn effective_then_read_is_the_identity(overrides in overrides()) {
        let scenario = match read(BASE, "/folder", &overrides) {
            Ok(loaded) => loaded.scenario,
            Err(error) => panic!("{error}\nfrom {overrides:?}"),
        };
        let again = reread(&scenario, &AnyMethod);
        prop_assert_eq!(&again, &scenario);
        prop_assert_eq!(again.hash(), scenario.hash());
        prop_assert_eq!(again.to_effective_toml(), scenario.to_effective_toml());
    }
}
