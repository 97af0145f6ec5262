//! Settings of methods that contradict each other, or what a scenario offers, are refused where they stand, and what is
//! next to them is not.

use std::path::Path;

use fedcast::methods::Registry;
use fedcast::scenario::{Override, Scenario};

/// Ten digits in two tasks, and a transformer of two blocks.
const SCENARIO: &str = r#"
    schema = 2
    data = { source = "digits", subset = 20 }
    tasks = { count = 2 }
    partition = { kind = "iid" }
    backbone = { kind = "vit", weights = "embedded" }
    federation = { clients = 5, rounds = 1 }
    method = { name = "fedavg" }
"#;

fn read(overrides: &[&str]) -> Result<Scenario, String> {
    let overrides: Vec<_> = overrides.iter().map(|text| Override::new(*text)).collect();
    let read = Scenario::from_toml(SCENARIO, "s", Path::new("."), &overrides, &Registry::builtin());
    read.map(|loaded| loaded.scenario).map_err(|error| error.to_string())
}

fn refused(overrides: &[&str], why: &str) {
    let error = read(overrides).expect_err(overrides[0]);
    assert!(error.contains(why), "{overrides:?}: {error}");
}

fn read_well(overrides: &[&str]) {
    if let Err(error) = read(overrides) {
        panic!("{overrides:?}: {error}");
    }
}

#[test]
fn shares_and_weights_add_up_to_one_at_most() {
    let auxiliary = "data.auxiliary={fraction=0.1}";
    let apart = "method={name=\"cfed\",drawn=\"apart\",learners=0.7,reviewers=0.4}";
    refused(&[apart, auxiliary], "`learners` and `reviewers` sum to more than 1");
    read_well(&["method={name=\"cfed\",drawn=\"apart\",learners=0.6,reviewers=0.4}", auxiliary]);
    read_well(&["method={name=\"cfed\",learners=0.7,reviewers=0.4}", auxiliary]);
    refused(&["method={name=\"fedlwf-2t\",alpha=0.7,beta=0.4}"], "sum to more than 1");
    read_well(&["method={name=\"fedlwf-2t\",alpha=0.7,beta=0.3}"]);
    read_well(&["method={name=\"fedlwf-2t\",alpha=0.7,beta=0.4,gamma=0.5}"]);
}

#[test]
fn auxiliary_samples_are_where_they_are_needed() {
    let distils = "method={name=\"cfed\",server_distils=true}";
    refused(&[distils, "data.auxiliary={fraction=0.1}"], "the server distills on samples");
    read_well(&[distils, "data.auxiliary={fraction=0.1,server=true}"]);
    let sent = "method={name=\"cfed\",surrogate=\"sent\"}";
    read_well(&[sent, "data.auxiliary={fraction=0.1}"]);
    // Each has its own size.
    let crop = "{crop=\"center\",size=8}";
    let images = format!(
        "data={{source=\"folder\",path=\"x\",stored_size=\"original\",auxiliary={{fraction=0.1}},train={crop},test={crop}}}"
    );
    refused(&[sent, &images], "only images of one size can be sent");
    read_well(&["method={name=\"cfed\"}", &images]);
}

#[test]
fn general_prefixes_leave_a_block_for_experts() {
    refused(&["method={name=\"dualprompt\",g_blocks=6}"], "fill all 6 blocks");
    read_well(&["method={name=\"dualprompt\",g_blocks=5}"]);
}

#[test]
fn who_is_sent_one_expert_cannot_look_for_the_nearest() {
    let method =
        |features: &str| format!("method={{name=\"pip\",g_blocks=1,features=\"{features}\"}}");
    let (matched, trained) = (method("matched"), method("trained"));
    refused(&[&matched, "wire.form=\"lean\""], "cannot select the nearest");
    read_well(&[&matched, "wire.form=\"full\""]);
    read_well(&[&trained, "wire.form=\"lean\""]);
}

#[test]
fn units_act_in_phases_that_a_method_has() {
    let unit = |phase: &str| format!("federation.dummy_clients={{count=2,phases=[\"{phase}\"]}}");
    refused(&[&unit("dream"), "federation.clients=10"], "has no phase `dream`");
    read_well(&[&unit("train"), "federation.clients=10"]);
    read_well(&["federation.dummy_clients={count=1,phases=[\"dream\"]}", "federation.clients=10"]);
}

/// A pool has no meaning if every client task has its own components, nor the other way round.
#[test]
fn what_says_nothing_of_components_is_refused() {
    let client_tasks = [
        "tasks={count=2,arrival=\"client-tasks\",classes_per_client_task=4}",
        "partition={kind=\"slices\"}",
    ];
    let of = |said: &str| {
        format!("method={{name=\"coda-prompt\",ownership=\"client-task\",n_blocks=1{said}}}")
    };
    let plain = of("");
    read_well(&[&plain, client_tasks[0], client_tasks[1]]);
    for (key, value) in [
        ("pool", "5"),
        ("mu", "0.1"),
        ("attention_softmax", "true"),
        ("orthogonal", "\"once\""),
        ("component_form", "\"growing\""),
        ("client_weighting", "\"uniform\""),
        ("head_form", "\"growing\""),
    ] {
        let said = of(&format!(",{key}={value}"));
        refused(&[&said, client_tasks[0], client_tasks[1]], &format!("`{key}` has no meaning"));
        let pool = if key == "pool" { "" } else { ",pool=20" };
        let averaged = format!("method={{name=\"coda-prompt\",n_blocks=1,{key}={value}{pool}}}");
        read_well(&[&averaged]);
    }
}

/// iCaRL's loss is over all classes seen, so that old logits are neither masked nor kept by choice.
#[test]
fn old_logits_are_no_key_of_icarl() {
    for value in ["keep", "mask"] {
        let said = format!("method={{name=\"icarl\",old_logits=\"{value}\"}}");
        refused(&[&said], "unknown key `old_logits` in [method]");
    }
    read_well(&["method={name=\"icarl\"}"]);
}

#[test]
fn gradma_refuses_keys_of_the_side_that_turns_nothing() {
    let sgd = "client.optimizer={kind=\"sgd\",lr=0.1}";
    let of = |said: &str| format!("method={{name=\"gradma\",{said}}}");
    let at_server = ["server_margin=0.1", "momentum=0.1", "memory_decay=0.1", "memory_clients=2"];
    let at_clients = ["client_margin=0.1", "previous=\"last-round\""];
    for (project, unused) in [("clients", &at_server[..]), ("server", &at_clients[..])] {
        let project = format!("project=\"{project}\"");
        for setting in unused {
            let key = setting.split_once('=').unwrap().0;
            let why =
                format!("`method.{key}` has no meaning with `{}`", project.replace('=', " = "));
            refused(&[&of(&format!("{project},{setting}")), sgd], &why);
            read_well(&[&of(setting), sgd]);
        }
    }
}

/// With steps turned at clients alone, which keep nothing, there is nothing to forget as a task begins.
#[test]
fn gradma_refuses_reset_where_nothing_is_remembered() {
    let sgd = "client.optimizer={kind=\"sgd\",lr=0.1}";
    for reset in ["task", "keep"] {
        let of = |said: &str| format!("method={{name=\"gradma\",reset=\"{reset}\",{said}}}");
        let nothing = of("project=\"clients\",previous=\"received\"");
        let why = "`method.reset` has no meaning with `previous = \"received\"`";
        refused(&[&nothing, sgd], why);
        for said in [
            "project=\"clients\"",
            "project=\"both\",previous=\"received\"",
            "project=\"both\",previous=\"last-round\"",
            "project=\"server\"",
        ] {
            read_well(&[&of(said), sgd]);
        }
    }
}

/// Memory is of no use to clients that never come back; a method without it allows fresh clients.
#[test]
fn clients_that_keep_something_come_back() {
    let fresh = [
        "participation={count=5,population=\"fresh\"}",
        "partition={kind=\"ratios\",category=0.5,split=0.5,imbalance=0.2}",
    ];
    for (keeps, keeps_nothing) in [
        ("name=\"er\"", "name=\"er\",buffer_size=0"),
        ("name=\"der\"", "name=\"der\",buffer_size=0"),
        ("name=\"icarl\"", "name=\"icarl\",memory_size=0"),
        ("name=\"ewc\",site=\"client\"", "name=\"ewc\""),
        ("name=\"fedlwf-2t\"", "name=\"fedlwf-2t\",first_teacher=\"server\""),
        ("name=\"fedhaf\"", "name=\"fedhaf\",retention=0.0"),
        ("name=\"scaffold\"", "name=\"fedavg\""),
        ("name=\"feddc\"", "name=\"fedprox\""),
    ] {
        let sgd = "client.optimizer={kind=\"sgd\",lr=0.1}";
        let of = |said: &str| format!("method={{{said}}}");
        refused(&[&of(keeps), sgd, fresh[0], fresh[1]], "its clients never come back");
        read_well(&[&of(keeps), sgd]);
        read_well(&[&of(keeps_nothing), sgd, fresh[0], fresh[1]]);
    }
}
