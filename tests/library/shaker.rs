//! Promise: digests of all methods are independent of the order and delay of workers.

use std::path::Path;

use fedcast::experiment::assemble::assemble;
use fedcast::federation::{Digests, Interrupt, MemorySink, Setup, simulate};
use fedcast::methods::Registry;
use fedcast::scenario::Scenario;

const DIGITS: &str = r#"
schema = 2
data = { source = "digits", subset = 8 }
tasks = { sizes = [5, 5] }
partition = { kind = "capped", beta = 1.0, min_samples = 2 }
federation = { clients = 4, rounds = 2 }
client = { epochs = 1, batch_size = 16 }
time = { preset = "mobile" }
links = { preset = "mobile", loss_rate = 0.05 }
"#;

fn run(method: &str, shaker: Option<u64>) -> Digests {
    let text = format!("{DIGITS}method = {{ {method} }}\n");
    let methods = Registry::builtin();
    let loaded = Scenario::from_toml(&text, "small", Path::new("."), &[], &methods);
    let scenario = loaded.unwrap_or_else(|error| panic!("{error}")).scenario;
    let setup = assemble(&scenario, &methods, Some(3)).expect("assembles").setup;
    let memory = MemorySink::default();
    let setup = Setup { shaker, ..setup };
    simulate(setup, Box::new(memory.clone()), Box::new(()), Interrupt::default()).expect("ends");
    memory.digests()
}

#[track_caller]
fn is_unmoved(methods: &[&str]) {
    for method in methods {
        assert_eq!(run(method, Some(1)), run(method, None), "{method}");
    }
}

#[test]
fn workers_that_finish_in_any_order_change_no_digest_of_averages_and_sums() {
    is_unmoved(&[
        "name = \"hgp\", prompt_len = 4, n_blocks = 2, samples_per_class = 32",
        "name = \"fedavg\", train = \"head\"",
        "name = \"adapter\"",
        "name = \"stsa\", width = 40, lambda = 0.001, lambda_scale = \"trace\"",
    ]);
}

#[test]
fn nor_of_prompts_that_depend_on_queries() {
    is_unmoved(&[
        "name = \"l2p\"",
        "name = \"dualprompt\"",
        "name = \"coda-prompt\", pool = 6, prompt_len = 2, n_blocks = 2",
        "name = \"fed-cprompt\", pool = 6, prompt_len = 2, n_blocks = 2",
    ]);
}

#[test]
fn nor_of_clients_that_remember_and_servers_that_distil() {
    is_unmoved(&[
        "name = \"fedhaf\", module_hidden = 32, module_width = 16, head_hidden = 16",
        "name = \"hepco\", pool = 4, prompt_len = 4, n_blocks = 2, server_batch = 16, \
         generator_steps = 3, old_steps_per_task = 2, prompt_steps = 3, head_steps = 3",
    ]);
}
