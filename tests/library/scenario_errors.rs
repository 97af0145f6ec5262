//! Promise: a wrong scenario is refused with the place, the reason and the way out, everything
//! that is wrong at once.

use std::path::Path;

use fedcast::methods::Registry;
use fedcast::scenario::{AnyMethod, Loaded, Override, Scenario, ScenarioError};

const GOOD: &str = r#"schema = 2

[data]
source = "digits"

[tasks]
count = 5

[partition]
kind = "dirichlet"
beta = 0.1

[method]
name = "hgp"

[federation]
clients = 10
"#;

fn read(text: &str, overrides: &[&str]) -> Result<Loaded, ScenarioError> {
    let overrides: Vec<Override> = overrides.iter().map(|text| Override::new(*text)).collect();
    Scenario::from_toml(text, "example", Path::new("/"), &overrides, &AnyMethod)
}

fn refusal(text: &str, overrides: &[&str]) -> String {
    read(text, overrides).expect_err("this scenario is wrong").to_string()
}

/// `GOOD` with one piece replaced.
fn changed(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from));
    GOOD.replace(from, to)
}

#[test]
fn the_example_itself_is_right() {
    assert!(read(GOOD, &[]).is_ok());
}

#[test]
fn an_unknown_key_gets_a_suggestion() {
    insta::assert_snapshot!(refusal(&changed("clients = 10", "clinets = 10"), &[]));
}

#[test]
fn an_unknown_key_like_no_other_gets_the_list() {
    insta::assert_snapshot!(refusal(&changed("clients = 10", "temperature = 10"), &[]));
}

#[test]
fn an_unknown_table_gets_a_suggestion() {
    insta::assert_snapshot!(refusal(&changed("[federation]", "[federtion]"), &[]));
}

#[test]
fn wrong_types_say_what_was_found() {
    let text = changed("clients = 10", "clients = \"10\"\nrounds = 5.0\nidle_clients = true");
    insta::assert_snapshot!(refusal(&text, &[]));
}

#[test]
fn values_out_of_range_say_the_range() {
    let text = changed("beta = 0.1", "beta = 0\nmin_samples = -1");
    let text = format!("{text}[participation]\nfraction = 1.5\n[links]\ncorrelation = nan\n");
    insta::assert_snapshot!(refusal(&text, &[]));
}

#[test]
fn an_unknown_word_gets_a_suggestion() {
    let text = changed("dirichlet", "dirichelt").replace("digits", "mnist");
    insta::assert_snapshot!(refusal(&text, &[]));
}

#[test]
fn everything_is_said_at_once_in_the_order_of_the_file() {
    let text = changed("source = \"digits\"", "source = \"folder\"\nsize = 32")
        .replace("count = 5", "count = 5\nsizes = [50, 50]")
        .replace("clients = 10", "clients = 0\nround = 5");
    insta::assert_snapshot!(refusal(&text, &["client.epochs=none"]));
}

#[test]
fn missing_tables_and_keys_are_named() {
    insta::assert_snapshot!(refusal("name = \"empty\"\n[partition]\nkind = \"dirichlet\"\n", &[]));
}

#[test]
fn another_schema_is_refused() {
    insta::assert_snapshot!(refusal(&changed("schema = 2", "schema = 1"), &[]));
}

#[test]
fn names_of_schema_1_get_their_new_names() {
    let old = changed("schema = 2", "schema = 1")
        .replace("name = \"hgp\"", "name = \"ccvr\"\nmemory = \"task\"");
    let old = format!(
        "{old}[client]\nbatch = 8\noptimiser.lr = 0.1\n[round]\nclose = \"quorum\"\nlate = \"fold\"\n"
    );
    let message = refusal(&old, &["federation.units.rule=even", "data.train.crop=centre"]);
    for new in [
        "`fedcast migrate FILE`",
        "`client.batch` is called `client.batch_size` since schema 2",
        "`client.optimiser` is called `client.optimizer` since schema 2",
        "`federation.units` is called `federation.dummy_clients` since schema 2",
        "\"fold\" is called \"aggregate\" since schema 2",
        "\"centre\" is called \"center\" since schema 2",
    ] {
        assert!(message.contains(new), "{new}\n{message}");
    }
}

#[test]
fn a_syntax_error_is_the_only_error() {
    insta::assert_snapshot!(refusal(&changed("count = 5", "count = = 5"), &[]));
    let text = changed("[tasks]", "[tasks");
    insta::assert_snapshot!(refusal(&text.replace("clients", "clinets"), &[]));
    // One quote too few in a long line.
    let list = (0..40).map(|i| format!("\"word {i}\"")).collect::<Vec<_>>().join(", ");
    let message = refusal(&format!("{GOOD}[expected]\nlist = [\"{list}]\n"), &[]);
    assert_eq!(message.matches("this is not TOML").count(), 1, "{message}");
    // Errors in other lines are reported at once.
    let slips = changed("count = 5", "count = = 5").replace("beta = 0.1", "beta = .1");
    let message = refusal(&slips, &[]);
    assert_eq!(message.matches("this is not TOML").count(), 2, "{message}");
    assert!(message.contains("write `0.1`"), "{message}");
}

#[test]
fn impossible_participation() {
    let text = format!("{GOOD}[participation]\ncount = 20\n");
    insta::assert_snapshot!(refusal(&text, &[]));
    let text = format!("{GOOD}[participation]\nkind = \"all\"\nfraction = 0.1\n");
    insta::assert_snapshot!(refusal(&text, &[]));
    let text = format!(
        "{GOOD}[participation]\npopulation = \"fresh\"\ndraw_every = \"task\"\n[wire]\nasset_cache = \"run\"\n"
    );
    insta::assert_snapshot!(refusal(&text, &[]));
}

#[test]
fn ratios_are_for_clients_that_do_not_come_back() {
    let ratios = changed("kind = \"dirichlet\"\nbeta = 0.1", "kind = \"ratios\"\nsplit = 0.2");
    insta::assert_snapshot!(refusal(&ratios, &["partition.samples_per_client=30"]));
    let fresh = ["participation={count=5, population=\"fresh\"}"];
    assert!(read(&ratios, &fresh).is_ok());
    let message = refusal(&ratios, &[fresh[0], "partition.category=1.5"]);
    assert!(message.contains("partition.category"), "{message}");
}

#[test]
fn impossible_tasks_and_partitions() {
    insta::assert_snapshot!(refusal(&changed("count = 5", "sizes = [5, 4]"), &[]));
    insta::assert_snapshot!(refusal(&changed("count = 5", "count = 7"), &[]));
    insta::assert_snapshot!(refusal(&changed("\"dirichlet\"", "\"iid\""), &[]));
    let quantity = changed("kind = \"dirichlet\"\nbeta = 0.1", "kind = \"quantity\"");
    insta::assert_snapshot!(refusal(&quantity, &[]));
    insta::assert_snapshot!(refusal(&quantity, &["partition.classes_per_client=3"]));
    let many = changed("source = \"digits\"", "source = \"cifar10\"\npath = \"x\"\nsubset = 50");
    let sized = ["data.train.resize=8", "data.test.resize=8", "federation.clients=100"];
    insta::assert_snapshot!(refusal(&many, &sized));
}

#[test]
fn images_of_another_size_than_the_backbone_takes() {
    let text = format!(
        "{}[backbone]\nweights = \"x\"\n\
         architecture = \"vit-tiny-patch16-224\"\nresolution = 64\n",
        GOOD
    );
    insta::assert_snapshot!(refusal(&text, &["data.train.resize=64"]));
    insta::assert_snapshot!(refusal(&text, &["backbone.resolution=60", "backbone.heads=5"]));
    let crop = ["data.train.resize=16", "data.test.crop=center", "data.test.size=32"];
    insta::assert_snapshot!(refusal(GOOD, &crop));
}

#[test]
fn methods_read_their_tables_as_strictly() {
    let refusal = |text: &str, overrides: &[&str]| {
        let overrides: Vec<Override> = overrides.iter().map(|text| Override::new(*text)).collect();
        Scenario::from_toml(text, "example", Path::new("/"), &overrides, &Registry::builtin())
            .expect_err("this scenario is wrong")
            .to_string()
    };
    insta::assert_snapshot!(refusal(&changed("\"hgp\"", "\"hpg\""), &[]));
    let text =
        changed("\"hgp\"", "\"hgp\"\nrebalnce = \"both\"\nomega = \"unifrom\"\nprompt_len = 7");
    insta::assert_snapshot!(refusal(&text, &["method.tau=0"]));
    insta::assert_snapshot!(refusal(&changed("\"hgp\"", "\"joint\""), &[]));
}

#[test]
fn overrides_are_errors_of_their_own() {
    let wrong = ["federation.clients", "=3", "a..b=3", "tasks.sizes=[1,", "client=", "seed.run=x"];
    insta::assert_snapshot!(refusal(GOOD, &wrong));
    insta::assert_snapshot!(refusal(GOOD, &["federation.clinets=200", "participation.count=20"]));
}

#[test]
fn overrides_change_what_the_file_says() {
    let loaded = read(
        GOOD,
        &[
            "federation.clients=20",
            "participation.fraction=0.5",
            "name=a bare name",
            "wire=verify",
            "wire.form=lean",
            "client.optimizer={kind=\"sgd\", lr=1}",
            "method.tau = 0.2",
        ],
    );
    let scenario = loaded.unwrap().scenario;
    assert_eq!(scenario.federation.clients, 20);
    assert_eq!(scenario.participation.participants.of(20), 10);
    assert_eq!(scenario.name, "a bare name");
    assert!(scenario.wire.verify);
    assert_eq!(scenario.wire.form, fedcast::scenario::WireForm::Lean);
    assert_eq!(scenario.client.optimizer.lr(), 1.0);
    assert_eq!(scenario.method.parameters()["tau"].as_float(), Some(0.2));
}

#[test]
fn a_missing_file_is_named() {
    let error = Scenario::load(Path::new("no/such/file.toml"), &[], &AnyMethod).unwrap_err();
    let text = error.render(false);
    assert!(text.contains("cannot read the scenario no/such/file.toml"), "{text}");
    assert!(text.contains("= help: check the path"), "{text}");
}

#[test]
fn what_is_found_later_is_shown_where_it_was_written() {
    let loaded = read(&format!("{GOOD}[client]\nbatch_size = 16\n"), &[]).unwrap();
    let at_key = loaded.error_at("client.batch_size", "too large", "needs 3 GB", "use 8");
    let at_table =
        loaded.error_at("client.max_grad_norm", "not for this method", "", "leave it out");
    insta::assert_snapshot!(format!("{at_key}\n{at_table}"));
}

#[test]
fn programs_get_the_same_as_people() {
    let error = read(&changed("clients = 10", "clinets = 10"), &[]).unwrap_err();
    let json = serde_json::to_value(error.diagnostics()).unwrap();
    assert_eq!(json[0]["place"]["line"], 17);
    assert_eq!(json[0]["place"]["column"], 1);
    assert_eq!(json[0]["place"]["length"], 7);
    assert_eq!(json[0]["help"], "did you mean `clients`?");
}

#[test]
fn what_would_have_no_effect_or_no_meaning_is_refused() {
    let message = refusal(GOOD, &["devices.pack=0"]);
    assert!(message.contains("devices.pack"), "{message}");
    let message = refusal(GOOD, &["devices.pack=\"many\""]);
    assert!(message.contains("auto"), "{message}");
    for pack in ["1", "8", "\"auto\""] {
        assert!(read(GOOD, &[&format!("devices.pack={pack}"), "links.rtt_ms=400"]).is_ok());
    }
    // More samples of a class than numbers reach is all of them.
    assert!(read(GOOD, &["data.subset=4294967295"]).is_ok());
}

#[test]
fn distributions_are_read_as_strictly() {
    for (set, wanted) in [
        ("time.slowness={dist=\"gaussian\"}", "is not a value of `time.slowness.dist`"),
        ("time.slowness={dist=\"pareto\",median=1}", "[time.slowness] lacks the key `alpha`"),
        ("time.slowness={sigma=0.1}", "`time.slowness.sigma` has no meaning with `dist"),
        (
            "time.slowness={dist=\"normal\",mean=1,sd=0.2}",
            "must be above 0, but this distribution can give",
        ),
        ("time.slowness=0", "`time.slowness` must be above 0"),
        ("time.setup_ms=-1", "`time.setup_ms` must be at least 0"),
        ("links.rtt_ms={dist=\"uniform\",low=9,high=3}", "`high` is less than `low`"),
        ("links.rtt_ms={dist=\"exponential\",mean=9,min=8,max=3}", "`max` is less than `min`"),
        ("links.jitter={dist=\"zipf\",ranks=0,exponent=1}", "must be at least 1 and at most"),
        ("preset=mobil", "did you mean \"mobile\"?"),
    ] {
        let message = refusal(GOOD, &[set]);
        assert!(message.contains(wanted), "{set} gives\n{message}");
    }
    let kept = read(GOOD, &["preset=mobile", "time.slowness.sigma=1.2"]).expect("is right");
    let wanted = fedcast::scenario::DistributionSection::log_normal(1.0, 1.2);
    assert_eq!(kept.scenario.time.slowness, wanted, "the rest of the preset is kept");
    let normal = "time.slowness={dist=\"normal\",mean=1,sd=0.2,min=0.1}";
    assert!(read(GOOD, &[normal]).is_ok(), "a `min` is what the error asks for");
}

#[test]
fn files_of_measured_values_are_read_and_judged_at_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let load = |csv: &str, more: &str| {
        std::fs::write(folder.path().join("phones.csv"), csv).unwrap();
        let slowness = format!("{{ dist = \"empirical\", file = \"phones.csv\"{more} }}");
        let text = format!("{GOOD}[time]\nms_per_sample = 10\nslowness = {slowness}\n");
        Scenario::from_toml(&text, "example", folder.path(), &[], &AnyMethod)
    };
    let right = load("phone,factor\n1,0.5\n2,4\n", ", column = \"factor\"").expect("is right");
    let distribution = right.scenario.time.slowness.distribution();
    assert_eq!((distribution.at_normal(-1.0), distribution.at_normal(1.0)), (0.5, 4.0));
    let other = load("phone,factor\n1,0.5\n2,5\n", ", column = \"factor\"").expect("is right");
    assert_ne!(right.scenario.hash(), other.scenario.hash(), "the values count");
    let message = |csv, more| load(csv, more).expect_err("this file is wrong").to_string();
    let wrong = message("factor\n0.5\n  -4\n", "");
    assert!(wrong.contains("phones.csv:3:3") && wrong.contains("above 0"), "{wrong}");
    let wrong = message("factor\n0.5\n", ", column = \"speed\"");
    assert!(wrong.contains("phones.csv:1:1") && wrong.contains("no column `speed`"), "{wrong}");
    std::fs::remove_file(folder.path().join("phones.csv")).unwrap();
    let text =
        format!("{GOOD}[links]\nrtt_ms = {{ dist = \"empirical\", file = \"phones.csv\" }}\n");
    let missing = Scenario::from_toml(&text, "example", folder.path(), &[], &AnyMethod);
    let message = missing.expect_err("there is no such file").to_string();
    assert!(message.contains("example.toml:19:39") && message.contains("cannot read"), "{message}");
}

#[test]
fn traces_of_availability_are_read_and_judged_at_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let load = |csv: &str| {
        std::fs::write(folder.path().join("phones.csv"), csv).unwrap();
        let text = format!("{GOOD}[availability]\nkind = \"trace\"\nfile = \"phones.csv\"\n");
        Scenario::from_toml(&text, "example", folder.path(), &[], &AnyMethod)
    };
    let right = load("# two phones\nclient,time_s,state\n0,10,on\n1,7.5,off\n").expect("is right");
    let again = right.scenario.to_effective_toml();
    let again = Scenario::from_toml(&again, "again", Path::new("/"), &[], &AnyMethod).unwrap();
    assert_eq!(again.scenario.availability, right.scenario.availability);
    for (csv, place, wanted) in [
        (
            "client,time_s,state\n0,10,maybe\n",
            "phones.csv:2:6",
            "`maybe` is not a state: expected `on` or `off`",
        ),
        ("client,time_s,state\n0.5,10,on\n", "phones.csv:2:1", "a client's number"),
        ("client,time_s,state\n0,later,on\n", "phones.csv:2:3", "is not a number"),
        ("client,time_s,state\n0,10\n", "phones.csv:2:3", "this line has 2 cells"),
        ("client,time_s\n0,10\n", "phones.csv:1:1", "there is no column `state`"),
    ] {
        let message = load(csv).expect_err("this file is wrong").to_string();
        assert!(message.contains(place) && message.contains(wanted), "{message}");
    }
    let message = refusal(GOOD, &["availability={kind=\"markov\",on_s=60}"]);
    assert!(message.contains("[availability] lacks the key `off_s`"), "{message}");
    let message = refusal(GOOD, &["availability={kind=\"always\",depth=0.1}"]);
    assert!(message.contains("has no meaning with `kind = \"always\"`"), "{message}");
}

/// As Excel and R write it: a mark in front, every cell in quotes, lines that end otherwise.
fn dressed(csv: &str, end: &str) -> String {
    let quoted = |line: &str| {
        let cells: Vec<String> = line.split(',').map(|cell| format!("\"{cell}\"")).collect();
        cells.join(",") + end
    };
    format!("\u{feff}{}", csv.lines().map(quoted).collect::<String>())
}

#[test]
fn tables_of_every_kind_may_have_marks_quotes_and_other_ends() {
    let folder = tempfile::tempdir().unwrap();
    let samples: String = (0..1433).map(|sample| format!("{sample},{}\n", sample % 10)).collect();
    let more = |section: &str| format!("{GOOD}{section}\n");
    let tables = [
        (
            more("[availability]\nkind = \"trace\"\nfile = \"a.csv\""),
            "client,time_s,state\n0,10,on\n1,7.5,off\n".to_owned(),
        ),
        (
            changed("count = 5", "count = 5\narrival = \"per-client\"\nfile = \"a.csv\""),
            "client,task,time_s\n3,2,100\n".to_owned(),
        ),
        (
            changed("kind = \"dirichlet\"\nbeta = 0.1", "kind = \"file\"\nfile = \"a.csv\""),
            format!("sample,client\n{samples}"),
        ),
        (
            more("[time.slowness]\ndist = \"empirical\"\nfile = \"a.csv\"\ncolumn = \"slowness\""),
            "phone,slowness\none,1.5\ntwo,2.25\n".to_owned(),
        ),
    ];
    for (text, csv) in tables {
        let load = |csv: &str| {
            std::fs::write(folder.path().join("a.csv"), csv).unwrap();
            Scenario::from_toml(&text, "example", folder.path(), &[], &AnyMethod)
        };
        let plain = load(&csv).unwrap().scenario;
        for end in ["\n", "\r\n", "\r"] {
            let dressed = load(&dressed(&csv, end)).unwrap().scenario;
            assert_eq!(dressed, plain, "{text} with {end:?}");
        }
        let message = load("\u{feff}\"a b\";\"c\"\r\n").unwrap_err().to_string();
        assert!(message.contains("a.csv:1:1"), "{message}");
    }
}

#[test]
fn impossible_closing_rules() {
    let first = "round={close=\"first\"}";
    for (sets, wanted) in [
        (&["round={close=\"deadline\"}"][..], "[round] lacks the key `deadline_s`"),
        (&["round={close=\"quorum\"}"], "[round] lacks the key `quorum`"),
        (&["round.deadline_s=5"], "`round.deadline_s` has no meaning with `close = \"all\"`"),
        (
            &["round={close=\"first\",min_fraction=0.5}"],
            "`round.min_fraction` has no meaning with `close = \"first\"`",
        ),
        (&["round={close=\"quorum\",quorum=1.5}"], "must be above 0 and at most 1"),
        (&["round={close=\"buffer\"}"], "[round] lacks the key `buffer_size`"),
        (&["round={close=\"buffer\",buffer_size=900}"], "a buffer of 900 updates never fills"),
        (&["round.late=\"aggregate\""], "`round.late` has no meaning with `close = \"all\"`"),
        (
            &["round={close=\"deadline\",deadline_s=9,max_staleness=2}"],
            "`round.max_staleness` has no meaning with `late = \"drop\"`",
        ),
        (
            &["round={close=\"deadline\",deadline_s=9,late=\"aggregate\",stragglers=\"skip\"}"],
            "`round.stragglers` has no meaning with `late = \"aggregate\"`",
        ),
        (
            &[
                "round={close=\"quorum\",quorum=0.5,late=\"aggregate\"}",
                "privacy.secure_aggregation=true",
            ],
            "late uploads cannot be aggregated",
        ),
        (
            &[first, "participation.over_selection=2"],
            "`participation.over_selection` has no meaning",
        ),
        (&["participation={count=3,over_selection=2}"], "samples more clients than wanted"),
    ] {
        let message = refusal(GOOD, sets);
        assert!(message.contains(wanted), "{sets:?} gives\n{message}");
    }
    assert!(read(GOOD, &[first, "participation={count=3,over_selection=2}"]).is_ok());
    let production = read(GOOD, &["preset=production", "participation.count=3"]).expect("is right");
    assert_eq!(production.scenario.participation.over_selection, Some(1.3));
    assert!(read(GOOD, &["preset=production"]).is_ok(), "everybody is asked, whoever is first");
}

#[test]
fn faults_are_judged_one_by_one() {
    for (entry, wanted) in [
        ("{kind=\"crash\",when=\"later\"}", "later"),
        ("{kind=\"crush\"}", "crush"),
        ("{kind=\"crash\",direction=\"up\"}", "`faults.direction` has no meaning"),
        ("{kind=\"bad-update\"}", "[faults] lacks the key `how`"),
        ("{kind=\"malicious\"}", "[faults] lacks the key `how`"),
        ("{kind=\"malicious\",how=\"noise\",factor=2}", "`faults.factor` has no meaning"),
        ("{kind=\"malicious\",how=\"scaled\",fraction=1.5}", "must be above 0 and at most 1"),
        (
            "{kind=\"lose\",fraction=0.5,clients=[1]}",
            "`fraction` contradicts `clients`, which names the clients of this fault",
        ),
        ("{kind=\"lose\",rate=0}", "must be above 0 and at most 1"),
        ("{kind=\"lose\",rounds=[0]}", "`faults.rounds` must be at least 1"),
        ("{kind=\"lose\",clients=[900]}", "a fault is for client 900"),
        ("{kind=\"lose\",rat=0.1}", "did you mean `rate`?"),
        ("3", "every entry of `faults` must be a table"),
    ] {
        let message = refusal(GOOD, &[&format!("faults=[{entry}]")]);
        assert!(message.contains(wanted), "{entry} gives\n{message}");
    }
    let message = refusal(GOOD, &["faults.crash=0.1"]);
    assert!(message.contains("`faults` must be a list of tables"), "{message}");
    let text =
        format!("{GOOD}[[faults]]\nkind = \"crash\"\nrate = 0.1\n[[faults]]\nkind = \"lose\"\n");
    assert_eq!(read(&text, &[]).expect("is right").scenario.faults.len(), 2);
    let production = read(GOOD, &["preset=production", "participation.count=3"]).expect("is right");
    assert_eq!(production.scenario.faults.len(), 1);
}

#[test]
fn an_arrival_takes_its_own_parameters() {
    for (table, wanted) in [
        ("count=5,arrival=\"per-client\"", "needs `lag_s` or `file`"),
        ("count=5,arrival=\"paced\",lag_s=3", "`tasks.lag_s` has no meaning"),
        ("count=5,arrival=\"paced\",lead_fraction=0", "must be above 0 and at most 1"),
        ("count=5,arrival=\"per-client\",lag_s=-3", "`tasks.lag_s`"),
        ("count=5,arrival=\"per-client\",file=\"no.csv\"", "cannot read"),
        ("count=5,arrival=\"per-client\",file=\"no.csv\",lag_s=3", "`tasks.lag_s` has no meaning"),
    ] {
        let message = refusal(GOOD, &[&format!("tasks={{{table}}}")]);
        assert!(message.contains(wanted), "{table} gives\n{message}");
    }
    for other in ["privacy.secure_aggregation=true", "participation.population=fresh"] {
        let message = refusal(GOOD, &["tasks={count=5,arrival=\"paced\"}", other]);
        assert!(message.contains("set `arrival = \"global\"`"), "{other} gives\n{message}");
    }
    let lag = "tasks={count=5,arrival=\"per-client\",lag_s={dist=\"exponential\",mean=60}}";
    let effective = read(GOOD, &[lag]).expect("is right").scenario.to_effective_toml();
    let again = read(&effective, &[]).expect("is right").scenario.to_effective_toml();
    assert!(effective.contains("arrival = \"per-client\"") && again == effective, "{effective}");
}

#[test]
fn an_aggregation_takes_its_own_parameters() {
    for (overrides, wanted) in [
        (vec!["federation.aggregation=medain"], "did you mean \"median\"?"),
        (vec!["federation.aggregation=norm-clipped"], "lacks the key `clip_norm`"),
        (
            vec!["federation.aggregation=trimmed-mean", "federation.trim_fraction=0.5"],
            "at least 0 and below 0.5",
        ),
        (
            vec!["federation.aggregation=median", "federation.trim_fraction=0.2"],
            "`federation.trim_fraction` has no meaning",
        ),
        (
            vec!["federation.aggregation=median", "privacy.secure_aggregation=true"],
            "only shows the server the sum of uploads",
        ),
    ] {
        let message = refusal(GOOD, &overrides);
        assert!(message.contains(wanted), "{overrides:?} gives\n{message}");
    }
    let loaded = read(GOOD, &["federation.aggregation=norm-clipped", "federation.clip_norm=2"]);
    let effective = loaded.expect("is right").scenario.to_effective_toml();
    assert!(effective.contains("aggregation = \"norm-clipped\"\nclip_norm = 2.0"), "{effective}");
}

#[cfg(unix)]
#[test]
fn a_folder_whose_name_is_no_text_is_refused_where_its_path_is_written() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Path::new(std::ffi::OsStr::from_bytes(b"/d\xff"));
    let text = GOOD.replace("source = \"digits\"", "source = \"cifar10\"\npath = \"x\"");
    let error = Scenario::from_toml(&text, "t", folder, &[], &AnyMethod).unwrap_err();
    assert!(error.render(false).contains("is not UTF-8"), "{}", error.render(false));
}

/// `GOOD` with a folder of images in place of the digits, and lines of `[data]` and below it.
fn of_folder(lines: &str) -> String {
    let data = format!(
        "source = \"folder\"\npath = \"x\"\nnominal = {{ classes = 20, train = 2000, test = 200 }}\n{lines}\n"
    );
    changed("source = \"digits\"\n", &data)
        + "[backbone]\nweights = \"w\"\narchitecture = \"vit-base-patch16-224\"\n"
}

#[test]
fn transforms_that_make_no_sense_are_refused() {
    for (lines, wanted) in [
        ("train = { resize = 256, squash = 256 }", "`resize` and `squash` cannot both be given"),
        ("train = { jitter = { brightness = 0 } }", "this color jitter changes nothing"),
        ("train = { jitter = { hue = 0.1 } }", "unknown key `hue` in [data.train.jitter]"),
        ("train = { jitter = { contrast = -0.1 } }", "must be at least 0"),
        ("test = { jitter = { contrast = 0.1 } }", "[data.test] must not draw"),
        ("stored_size = \"orginal\"", "did you mean \"original\"?"),
        ("stored_size = { shorter = 256, interpolation = \"bicubic-torch\" }", "kept as bytes"),
        ("stored_size = { longer = 256 }", "lacks the key `shorter`"),
        ("stored_size = { shorter = 224 }", "[data.train] does not make images square"),
        (
            "stored_size = \"original\"\ntrain = { crop = \"random-resized\", size = 224 }\ntest = { resize = 224 }",
            "[data.test] does not make images square",
        ),
        (
            "stored_size = { shorter = 200 }\ntrain = { squash = 224 }\ntest = { crop = \"center\", size = 224 }",
            "a crop of 224 pixels does not fit into an image of 200",
        ),
        ("train = { squash = 256 }", "[data.train] gives images of 256 pixels"),
    ] {
        let message = refusal(&of_folder(lines), &[]);
        assert!(message.contains(wanted), "{lines} gives\n{message}");
    }
}

#[test]
fn images_may_keep_their_shape_until_they_are_cropped() {
    let crops = "train = { crop = \"random-resized\", size = 224, jitter = { brightness = 0.247 } }\n\
        test = { resize = 256, crop = \"center\", size = 224, interpolation = \"bilinear\" }";
    for (store, kept) in [
        ("stored_size = \"original\"", "stored_size = \"original\""),
        (
            "stored_size = { shorter = 256 }",
            "[data.stored_size]\nshorter = 256\ninterpolation = \"bicubic\"",
        ),
        ("stored_size = 224", "stored_size = 224"),
        ("", "stored_size = 224"),
    ] {
        let text = of_folder(&format!("{store}\n{crops}"));
        let scenario = read(&text, &[]).expect("is right").scenario;
        let effective = scenario.to_effective_toml();
        assert!(effective.contains(kept), "{effective}");
        assert!(effective.contains("brightness = 0.247"), "{effective}");
        let again = read(&effective, &[]).expect("is right, too").scenario;
        assert_eq!((again.hash(), &again), (scenario.hash(), &scenario));
    }
}

#[test]
fn a_split_and_a_validation_set_say_one_thing_each() {
    const CROPS: &str = "train = { crop = \"center\", size = 224 }\ntest = { squash = 224 }";
    for (lines, wanted) in [
        ("test_fraction = 1", "must be above 0 and below 1"),
        ("test_seed = 1", "`data.test_seed` has no meaning with `no `test_fraction``"),
        ("split = {}", "lacks the key `list`"),
        ("split = { share = 0.8, seed = 0 }", "`data.split` has no key `share`"),
        (
            "split = { list = \"a.json\" }\nlayout = \"domains\"",
            "`data.layout` has no meaning with",
        ),
        ("client = \"folder\"\nlayout = \"domains\"", "`data.layout` has no meaning with `client`"),
        ("split = { train = \"a.yaml\" }", "lacks the key `test`"),
        ("split = { list = \"a.json\", seed = 1 }", "unknown key `seed` in [data.split]"),
        ("test_fraction = 0.5\nlayout = \"domain\"", "did you mean \"domains\"?"),
        ("validation_fraction = 0", "must be above 0 and below 1"),
        ("evaluate = \"validation\"", "`evaluate = \"validation\"` needs `validation_fraction`"),
        ("validation_fraction = 0.2\nevaluate = \"valid\"", "did you mean \"validation\"?"),
    ] {
        let message = refusal(&of_folder(&format!("{lines}\n{CROPS}")), &[]);
        assert!(message.contains(wanted), "{lines} gives\n{message}");
    }
    let message = refusal(GOOD, &["data.split={list=\"a.json\"}"]);
    assert!(
        message.contains("`data.split` has no meaning with `source = \"digits\"`"),
        "{message}"
    );
    for (lines, kept) in [
        ("split = { list = \"a.json\" }", "[data.split]\nlist = \"/a.json\""),
        (
            "split = { train = \"a.yaml\", test = \"b/c.yaml\" }",
            "[data.split]\ntrain = \"/a.yaml\"\ntest = \"/b/c.yaml\"",
        ),
        (
            "test_fraction = 0.2\ntest_drawn = \"together\"\nlayout = \"domains\"",
            "test_fraction = 0.2\ntest_drawn = \"together\"\ntest_seed = 0\nlayout = \"domains\"",
        ),
        ("validation_fraction = 0.25", "validation_fraction = 0.25\nstored_size"),
        (
            "validation_fraction = 0.25\nevaluate = \"validation\"",
            "0.25\nevaluate = \"validation\"",
        ),
    ] {
        let text = of_folder(&format!("{lines}\n{CROPS}"));
        let scenario = read(&text, &[]).expect("is right").scenario;
        let effective = scenario.to_effective_toml();
        assert!(effective.contains(kept), "{effective}");
        let again = read(&effective, &[]).expect("is right, too").scenario;
        assert_eq!((again.hash(), &again), (scenario.hash(), &scenario));
        let plain = read(&of_folder(CROPS), &[]).expect("is right").scenario;
        assert_ne!(plain.hash(), scenario.hash(), "{lines}");
    }
}
