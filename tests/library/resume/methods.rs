//! Every method goes on from what its server and its clients save, in the middle and at the ends of tasks.

use std::fs;
use std::path::{Path, PathBuf};

use fedcast::experiment::{ResumeOptions, Resumed, Run, RunOptions, VerifyOptions, resume, verify};
use fedcast::federation::{Digests, Interrupt};
use fedcast::methods::Registry;
use fedcast::scenario::Scenario;

const DIGITS: &str = r#"
schema = 2
data = { source = "digits", subset = 8 }
tasks = { sizes = [4, 3, 3] }
partition = { kind = "capped", beta = 1.0, min_samples = 2 }
client = { epochs = 1, batch_size = 16 }
time = { preset = "mobile" }
record = { checkpoint = { every = "round", keep = 1000, max_time_fraction = 1.0 } }
"#;

fn execute(run: Run) -> Digests {
    let ended = run.execute(Vec::new(), Box::new(()), Interrupt::default(), |_, _| Ok(()));
    ended.unwrap_or_else(|error| panic!("{error}")).0.digests
}

/// Runs the scenario into the folder `run`.
#[track_caller]
fn recorded(scenario: &str, methods: &Registry) -> (tempfile::TempDir, Digests) {
    let loaded = Scenario::from_toml(scenario, "small", Path::new("."), &[], methods);
    let scenario = loaded.unwrap_or_else(|error| panic!("{error}")).scenario;
    let folder = tempfile::tempdir().unwrap();
    let options = RunOptions { out: Some(folder.path().join("run")), ..RunOptions::default() };
    let run = Run::prepare(&scenario, methods, &options).unwrap_or_else(|e| panic!("{e}"));
    let digests = execute(run);
    (folder, digests)
}

/// Runs the scenario, then resumes it from each of its checkpoints.
#[track_caller]
fn goes_on(scenario: &str) {
    let methods = Registry::builtin();
    let (folder, digests) = recorded(scenario, &methods);
    let path = folder.path().join("run");
    let mut files: Vec<_> = fs::read_dir(path.join("checkpoints")).unwrap().collect();
    files.sort_by_key(|file| file.as_ref().unwrap().path());
    assert!(files.len() > 1, "{} checkpoints", files.len());
    // The last but one, and one in the middle: of a task, for most.
    for file in files.into_iter().rev().skip(1).step_by(2).take(2) {
        let killed = fs::read_to_string(path.join("manifest.json"))
            .unwrap()
            .replace("\"done\"", "\"running\"");
        fs::write(path.join("manifest.json"), killed).unwrap();
        let Resumed { run, replayed, .. } =
            resume(&path, &methods, ResumeOptions::default()).unwrap();
        assert!(replayed > 0, "from a checkpoint");
        assert_eq!(execute(run), digests, "after {replayed} entries");
        // Writing them again takes as long; the next one to try is the one before.
        for newer in fs::read_dir(path.join("checkpoints")).unwrap() {
            let newer = newer.unwrap().path();
            if newer >= file.as_ref().unwrap().path() {
                fs::remove_file(newer).unwrap();
            }
        }
    }
}

fn rounds(run: &Path) -> u32 {
    let journal = fs::read_to_string(run.join("events.jsonl")).unwrap();
    journal.matches("\"round_opened\"").count() as u32
}

/// Runs the scenario, resumes it from all of its checkpoints and from the first one that each resumed run takes, and
/// verifies it from all rounds.
#[track_caller]
fn goes_on_from_everywhere(scenario: &str) {
    let methods = Registry::builtin();
    let (folder, digests) = recorded(scenario, &methods);
    let path = folder.path().join("run");
    for round in 1..=rounds(&path) {
        let options = VerifyOptions { from_round: Some(round), ..VerifyOptions::default() };
        let verified = verify(&path, &methods, options, None, Interrupt::default());
        let verified = verified.unwrap_or_else(|error| panic!("from round {round}: {error}"));
        assert_eq!(verified.digests, digests, "from round {round}");
    }
    let checkpoints = || -> Vec<PathBuf> {
        let files = fs::read_dir(path.join("checkpoints")).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    };
    // As if it had been killed after the last of these.
    let resume_from = |kept: &[PathBuf]| {
        let after = checkpoints().into_iter().filter(|file| !kept.contains(file));
        after.for_each(|file| fs::remove_file(file).unwrap());
        let manifest = fs::read_to_string(path.join("manifest.json")).unwrap();
        fs::write(path.join("manifest.json"), manifest.replace("\"done\"", "\"running\"")).unwrap();
        let resumed = resume(&path, &methods, ResumeOptions::default());
        let Resumed { run, replayed, .. } = resumed.unwrap_or_else(|error| panic!("{error}"));
        assert!(replayed > 0, "from a checkpoint");
        assert_eq!(execute(run), digests, "after {replayed} entries");
    };
    let all = checkpoints();
    assert!(all.len() > 1, "{} checkpoints", all.len());
    for last in (1..=all.len()).rev() {
        resume_from(&all[..last]);
        if last < all.len() {
            resume_from(&all[..=last]);
        }
    }
}

fn with(method: &str, more: &str) -> String {
    format!("{DIGITS}method = {{ {method} }}\n{more}")
}

const THREE: &str = "federation = { clients = 3, rounds = 2 }\n";

#[test]
fn hgp() {
    goes_on(&with("name = \"hgp\", prompt_len = 4, n_blocks = 2, samples_per_class = 32", THREE));
}

#[test]
fn fedavg_of_prompts() {
    goes_on(&with("name = \"fedavg\", train = \"prompt\", prompt_len = 2, n_blocks = 1", THREE));
}

/// What clients remember, what the server remembers of them, and a momentum with a memory.
#[test]
fn methods_that_remember_vectors() {
    let sgd = |method: &str| {
        let digits = "client = { epochs = 1, batch_size = 16 }";
        let sgd =
            "client = { epochs = 1, batch_size = 16, optimizer = { kind = \"sgd\", lr = 0.1 } }";
        with(&format!("{method}, train = \"head\", reset = \"keep\""), THREE).replace(digits, sgd)
    };
    goes_on(&sgd("name = \"scaffold\""));
    goes_on(&sgd("name = \"feddc\", variates = \"server\""));
    goes_on(&sgd("name = \"gradma\", memory_clients = 2"));
}

/// Moments that last, and those that a server forgets as a task starts: one that goes on within a task keeps them.
#[test]
fn optimizers_of_servers() {
    let method = |method: &str| with(&format!("{method}, train = \"head\""), THREE);
    goes_on(&method("name = \"fedavgm\""));
    goes_on(&method("name = \"fedadam\", reset = \"keep\", initial_v = \"tau-squared\""));
    goes_on(&method("name = \"fedyogi\", server_lr = 0.1"));
}

#[test]
fn adapter() {
    goes_on(&with("name = \"adapter\"", THREE));
}

#[test]
fn stsa() {
    let two = "federation = { clients = 3 }\n";
    goes_on(&with("name = \"stsa\", width = 40, lambda = 0.001, lambda_scale = \"trace\"", two));
}

/// Clients in training at a checkpoint are computed again before the server, whose frozen features they take.
#[test]
fn stsa_with_uploads_in_transit() {
    let slow = "federation = { clients = 4 }\nround = { close = \"quorum\", quorum = 0.5 }\n\
                links.up_mb_per_s = { dist = \"log-normal\", median = 0.1, sigma = 2 }\n";
    let scenario = with("name = \"stsa\", width = 16", slow);
    goes_on(
        &scenario.replace("partition", "backbone = { kind = \"resnet18\", width = 1 }\npartition"),
    );
}

/// Clients that keep an optimizer, and frames that cost nothing.
#[test]
fn joint() {
    let whole = DIGITS.replace("sizes = [4, 3, 3]", "count = 1");
    let whole = whole.replace("kind = \"capped\", beta = 1.0, min_samples = 2", "kind = \"iid\"");
    let whole = whole.replace("time = { preset = \"mobile\" }\n", "");
    goes_on(&format!(
        "{whole}method = {{ name = \"joint\", train = \"head\" }}\n\
         federation = {{ clients = 1, rounds = 4 }}\n"
    ));
}

/// Some clients have their download when a round closes; of others the assets are in transit.
const SLOW: &str = "federation = { clients = 6, rounds = 1 }\n\
                    links = { down_mb_per_s = { dist = \"log-normal\", median = 0.01, sigma = 2 } }\n\
                    round = { close = \"quorum\", quorum = 0.5 }\n";

#[test]
fn models_in_transit_are_known_as_copies() {
    let pixels = format!("backbone = {{ kind = \"pixels\" }}\n{SLOW}");
    for method in ["name = \"lwf\"", "name = \"lga\", train = \"head\", lr_schedule = \"client\""] {
        goes_on_from_everywhere(&with(method, &pixels));
    }
}

#[test]
fn images_in_transit_are_known_as_copies() {
    let small = "synthesis_rounds = 2, warmup = 1, generator_batch = 8, generator_steps = 2, generator_width = 4, \
                 latent = 8, student_steps = 2, student_batch = 8, synthetic_batch = 8";
    let backbone = "backbone = { kind = \"resnet18\", width = 4 }\n";
    goes_on_from_everywhere(&with(
        &format!("name = \"target\", {small}"),
        &format!("{backbone}{SLOW}"),
    ));
}

/// The knowledge of a task is one asset for all clients.
#[test]
fn knowledge_in_transit_is_known_as_a_copy() {
    let own = DIGITS
        .replace("subset = 8", "subset = 12")
        .replace(
            "sizes = [4, 3, 3]",
            "count = 2, arrival = \"client-tasks\", classes_per_client_task = 2, \
             switch_fraction = 0.5",
        )
        .replace(
            "kind = \"capped\", beta = 1.0, min_samples = 2",
            "kind = \"slices\", fraction = 0.2",
        );
    let method = "method = { name = \"fedweit\", dropped = 0.3 }\n";
    goes_on_from_everywhere(&format!("{own}{method}{SLOW}"));
}

/// Features that the first method froze, units, load clients and assets in caches.
#[test]
fn stsa_over_a_prompt() {
    let staged = include_str!("../../scenarios/staged.toml");
    goes_on(&format!("{staged}\n[record.checkpoint]\nkeep = 1000\nmax_time_fraction = 1.0\n"));
}

#[test]
fn secure_sums_of_rounds_with_a_deadline() {
    let secure = "privacy = { secure_aggregation = true, threshold = 0.5 }\n\
                  round = { close = \"deadline\", deadline_s = 3.0, stragglers = \"train\" }\n\
                  links = { preset = \"mobile\", loss_rate = 0.05 }\n";
    let method = "name = \"fedavg\", train = \"head\"";
    goes_on(&with(method, &format!("{secure}federation = {{ clients = 5, rounds = 3 }}\n")));
}

#[test]
fn medians_among_malicious_clients() {
    let malice = "faults = [{ kind = \"malicious\", how = \"scaled\", factor = 3.0, rate = 0.3 }]\n\
                  federation = { clients = 5, rounds = 3, aggregation = \"median\" }\n";
    goes_on(&with("name = \"fedavg\", train = \"head\"", malice));
}

/// Keys, queries and components; clients keep what a prompt must stay away from.
#[test]
fn prompts_that_depend_on_queries() {
    for method in [
        "name = \"l2p\"",
        "name = \"dualprompt\"",
        "name = \"coda-prompt\", pool = 6, prompt_len = 2, n_blocks = 2",
        "name = \"fed-cprompt\", pool = 6, prompt_len = 2, n_blocks = 2",
    ] {
        goes_on(&with(method, THREE));
    }
}

#[test]
fn pools_that_are_averaged_or_distilled() {
    goes_on(&with("name = \"fedavg-prompt\", pool = 4, prompt_len = 4, n_blocks = 2", THREE));
    let steps = "generator_steps = 3, old_steps_per_task = 2, prompt_steps = 3, head_steps = 3";
    let hepco = "name = \"hepco\", pool = 4, prompt_len = 4, n_blocks = 2, server_batch = 16";
    goes_on(&with(&format!("{hepco}, {steps}"), THREE));
}

/// Client tasks that are compared between tasks, and clients that keep a prompt per class.
#[test]
fn client_tasks_side_by_side() {
    for method in [
        "name = \"powder\", components = 2, prompt_len = 2, first_block = 1",
        "name = \"c2prompt\", components = 2, prompt_len = 2, first_block = 1, compensation_epochs = 1",
    ] {
        goes_on(&with(method, "federation = { clients = 2, rounds = 1 }\n"));
    }
}

/// Clients with tasks of their own.
#[test]
fn own_tasks() {
    let own = DIGITS
        .replace(
            "sizes = [4, 3, 3]",
            "count = 3, arrival = \"client-tasks\", classes_per_client_task = 3",
        )
        .replace(
            "kind = \"capped\", beta = 1.0, min_samples = 2",
            "kind = \"slices\", fraction = 0.5",
        );
    let glfc = "name = \"glfc\", train = \"head\", memory_size = 12, old_model = \"received\", outputs = \"own\", rows = \"last\", \
                exemplars = \"random\"";
    for method in ["name = \"fedavg\", train = \"head\"", glfc] {
        goes_on(&format!("{own}method = {{ {method} }}\n{THREE}"));
    }
}

/// Clients keep the parts of all their tasks, the server those that they reported.
#[test]
fn decomposed_weights() {
    let equal = DIGITS.replace("sizes = [4, 3, 3]", "sizes = [3, 3, 4]");
    let backbone = "backbone = { kind = \"resnet18\", width = 4 }\n";
    for more in ["", ", retroactive = true"] {
        goes_on(&format!("{equal}method = {{ name = \"fedweit\"{more} }}\n{backbone}{THREE}"));
    }
    let own = DIGITS.replace(
        "sizes = [4, 3, 3]",
        "count = 3, arrival = \"client-tasks\", classes_per_client_task = 3",
    );
    let own = own.replace(
        "kind = \"capped\", beta = 1.0, min_samples = 2",
        "kind = \"slices\", fraction = 0.5",
    );
    goes_on(&format!("{own}method = {{ name = \"fedweit\", train = \"head\" }}\n{THREE}"));
}

/// A generator that the server trains as a task ends, and the model that it is for.
#[test]
fn generators_of_images() {
    let small = "latent = 8, generator_width = 8, generator_steps = 3, generator_batch = 8, synthetic_batch = 8";
    let backbone = "backbone = { kind = \"resnet18\", width = 4 }\n";
    for start in ["warm", "fresh"] {
        let method = format!("name = \"mfcl\", generator_start = \"{start}\", {small}");
        goes_on(&with(&method, &format!("{backbone}{THREE}")));
    }
}

/// Generators of clients, and moments of optimizers at clients and server.
#[test]
fn generators_of_clients() {
    let small = "channel_divisor = 16, noise = 16, server_steps = 2, server_batch = 8";
    let backbone = "backbone = { kind = \"pixels\" }\n";
    for more in ["", ", gan = \"mnist\", last_generator = \"server\", moments = \"run\""] {
        let method = format!("name = \"fedcil\", {small}{more}");
        goes_on(&with(&method, &format!("{backbone}{THREE}")));
    }
}

/// Images that the server makes as a task ends, the model that it selected, and the losses by which it does.
#[test]
fn images_and_selected_models() {
    let small = "embedding_width = 16, synthesis_rounds = 2, warmup = 1, generator_batch = 8, generator_steps = 2, \
                 generator_width = 4, latent = 8, student_steps = 2, student_batch = 8, synthetic_batch = 8";
    let backbone = "backbone = { kind = \"resnet18\", width = 4 }\n";
    for more in ["", ", mapping = \"below\", selection = \"last\""] {
        let method = format!("name = \"lander\", {small}{more}");
        goes_on(&with(&method, &format!("{backbone}{THREE}")));
    }
}

/// Images alone.
#[test]
fn images_of_target() {
    let small = "synthesis_rounds = 2, warmup = 1, generator_batch = 8, generator_steps = 2, generator_width = 4, \
                 latent = 8, student_steps = 2, student_batch = 8, synthetic_batch = 8";
    let backbone = "backbone = { kind = \"resnet18\", width = 4 }\n";
    goes_on(&with(&format!("name = \"target\", {small}"), &format!("{backbone}{THREE}")));
}

/// Exemplars, earlier networks, teachers, and what is known of classes.
#[test]
fn feature_adjustment_and_its_baselines() {
    for method in [
        "name = \"fedhaf\", module_hidden = 32, module_width = 16, head_hidden = 16",
        "name = \"fedprox\", train = \"head\"",
        "name = \"fedlwf-2t\", train = \"head\"",
        "name = \"fedlwf-2t\", train = \"head\", first_teacher = \"server\"",
        "name = \"lwf\", train = \"head\"",
        "name = \"fedlwf-mc\", train = \"prompt\", prompt_len = 2, n_blocks = 1",
        "name = \"fedproto\", train = \"prompt\", prompt_len = 2, n_blocks = 1, weight = 1",
        "name = \"ccvr\", train = \"head\", scope = \"seen\", samples_per_class = 32",
        "name = \"fedavg\", train = \"module\", old_logits = \"keep\"",
        "name = \"oracle\", train = \"head\", site = \"clients\"",
    ] {
        goes_on(&with(method, THREE));
    }
}

#[test]
fn servers_that_were_lost() {
    let restarts = "faults = [{ kind = \"server-restart\", rate = 0.5, after_s = 0.1, downtime_s = 5 }]\n\
                    links = { preset = \"mobile\", server_up_mb_per_s = 0.5 }\n\
                    round = { close = \"buffer\", buffer_size = 2 }\n\
                    federation = { clients = 5, rounds = 3 }\n";
    goes_on(&with("name = \"fedavg\", train = \"head\"", restarts));
}
