//! Promise: figures and models of a run are what anybody computes from its files.

use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;

use crate::command::{read, run_fedcast};

/// Class and numbers of every sample of a part: clouds that overlap, and more of the later classes.
fn samples(first: usize, seed: u64) -> Vec<(usize, [f32; 4])> {
    let mut state = seed;
    let mut noise = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let classes = (0..6).flat_map(|class| std::iter::repeat_n(class, first + class));
    classes
        .map(|class| {
            let center = [1.0, 0.0, 0.5, -1.0, 0.3, -0.5];
            (class, std::array::from_fn(|at| center[(class + at) % 6] + 3.0 * noise()))
        })
        .collect()
}

fn write(folder: &Path, tasks: &str, more: &str) {
    for (name, samples) in [("train.csv", samples(8, 1)), ("test.csv", samples(5, 2))] {
        let row = |(class, [a, b, c, d]): &(usize, [f32; 4])| format!("{class},{a},{b},{c},{d}\n");
        let rows: String = samples.iter().map(row).collect();
        fs::write(folder.join(name), format!("label,a,b,c,d\n{rows}")).unwrap();
    }
    let text = format!(
        "schema = 2\nseed = {{ class_order = 11 }}\n\
         data = {{ source = \"table\", path = \".\", width = 4 }}\ntasks = {tasks}\n\
         backbone = {{ kind = \"pixels\" }}\nmethod = {{ name = \"fedavg\", train = \"head\" }}\n\
         client = {{ epochs = 2, batch_size = 1000, optimizer = {{ kind = \"sgd\", lr = 0.1 }} }}\n\
         record = {{ models = \"tasks\" }}\n{more}"
    );
    fs::write(folder.join("own.toml"), text).unwrap();
}

/// The numbers of a tensor of an exported model.
fn numbers(model: &[u8], name: &str) -> Vec<f32> {
    let file = SafeTensors::deserialize(model).unwrap();
    let bytes = file.tensor(name).unwrap().data().to_vec();
    bytes.chunks_exact(4).map(|of| f32::from_le_bytes(of.try_into().unwrap())).collect()
}

#[test]
fn accuracies_of_a_drawn_order_are_those_of_the_exported_head() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let more = "partition = { kind = \"dirichlet\", beta = 0.3, min_samples = 0 }\n\
                federation = { clients = 5, rounds = 3 }\n";
    write(folder, "{ sizes = [3, 1, 2], order = \"seeded\" }", more);
    for words in [&["run", "own.toml", "-q", "-o", "run"][..], &["export", "run", "-o", "m"]] {
        let output = run_fedcast(folder, words);
        assert_eq!(output.code, 0, "{}", output.err);
    }
    let model = fs::read(folder.join("m")).unwrap();
    let (_, header) = SafeTensors::read_metadata(&model).unwrap();
    let said: Value =
        serde_json::from_str(&header.metadata().as_ref().unwrap()["fedcast"]).unwrap();
    let order = said["classes"].as_str().unwrap().split(',');
    let order: Vec<usize> = order.map(|class| class.parse().unwrap()).collect();
    assert_ne!(order, [0, 1, 2, 3, 4, 5], "the order is drawn");
    let (weight, bias) = (numbers(&model, "head/head.weight"), numbers(&model, "head/head.bias"));
    let answer = |x: &[f32; 4]| {
        let score = |row: usize| {
            let products = weight[4 * row..4 * row + 4].iter().zip(x);
            bias[row] + products.map(|(w, x)| w * x).sum::<f32>()
        };
        order[(0..6).max_by(|a, b| score(*a).total_cmp(&score(*b))).unwrap()]
    };
    let tests = samples(5, 2);
    let right = |classes: &[usize]| {
        let own: Vec<_> = tests.iter().filter(|(class, _)| classes.contains(class)).collect();
        let right = own.iter().filter(|(class, x)| answer(x) == *class).count();
        right as f64 / own.len() as f64
    };
    let last = [&order[..3], &order[3..4], &order[4..]].map(right);

    let summary: Value = serde_json::from_str(&read(folder.join("run/summary.json"))).unwrap();
    let accuracy = &summary["accuracy"];
    let at = |after: usize, task: usize| accuracy["matrix"][after][task].as_f64().unwrap();
    let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
    (0..3).for_each(|task| near(at(2, task), last[task]));
    near(accuracy["faa"].as_f64().unwrap(), last.iter().sum::<f64>() / 3.0);
    let fallen = (0..3).map(|task| at(task, task) - at(2, task)).sum::<f64>() / 3.0;
    near(accuracy["forgetting"].as_f64().unwrap(), fallen);
    let best = |task: usize| (task..3).map(|after| at(after, task)).fold(0.0, f64::max);
    let since = (0..2).map(|task| best(task) - at(2, task)).sum::<f64>() / 2.0;
    near(accuracy["forgetting_from_best"].as_f64().unwrap(), since);
    assert!(last.iter().any(|share| *share > 0.0 && *share < 1.0), "{last:?}");
}

#[test]
fn a_client_that_holds_nothing_of_a_task_moves_nothing_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let more = "partition = { kind = \"file\", file = \"clients.csv\" }\nfederation.rounds = 3\n";
    write(folder, "{ count = 2 }", more);
    // Of the first task's samples, and of the second's; the clients that have them.
    let head = |name: &str, clients: usize, first: fn(usize) -> usize, second: usize| {
        let owner = |(at, (class, _)): (usize, (usize, [f32; 4]))| match class < 3 {
            true => format!("{at},{}\n", first(at)),
            false => format!("{at},{}\n", at % second),
        };
        let rows: String = samples(8, 1).into_iter().enumerate().map(owner).collect();
        fs::write(folder.join("clients.csv"), format!("sample,client\n{rows}")).unwrap();
        let set = format!("federation.clients={clients}");
        let output = run_fedcast(folder, &["run", "own.toml", "-q", "-o", name, "--set", &set]);
        assert_eq!(output.code, 0, "{}", output.err);
        let model = format!("{name}.safetensors");
        let output = run_fedcast(folder, &["export", name, "--task", "1", "-o", &model]);
        assert_eq!(output.code, 0, "{}", output.err);
        let model = fs::read(folder.join(model)).unwrap();
        [numbers(&model, "head/head.weight"), numbers(&model, "head/head.bias")]
    };
    let three = head("three", 3, |at| at % 3, 3);
    assert_eq!(head("four", 4, |at| at % 3, 4), three);
    assert_ne!(head("other", 4, |at| at % 2 * 3, 4), three, "who holds what matters");
}
