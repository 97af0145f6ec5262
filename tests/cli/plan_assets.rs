//! Assets: a plan counts what a run sends, clients keep what they are sent by the rule of the scenario, and dummy
//! clients of one client share it.

use serde_json::Value;

use crate::command::{run_fedcast, tiny, tiny_run};
use crate::plan_bytes::{all, plan, sent_and_took};

/// Frames of assets and the bytes down of a plan.
fn asset_frames(plan: &Value) -> (u64, u64) {
    let frames = all(plan, "/assets/frames").iter().sum();
    (frames, plan["total"]["down"].as_u64().unwrap())
}

/// Dummy clients are parts of one client, which needs the frozen backbone once in a round, and keeps it by the rule.
#[test]
fn dummy_clients_of_one_client_share_its_assets() {
    let (clients, tasks) = (3, 2);
    let first = "first={name=\"fedavg\",train=\"prompt\",prompt_len=4,rounds=1}";
    let method =
        format!("method={{name=\"stsa-e\",lambda=0.001,lambda_scale=\"trace\",width=40,{first}}}");
    let [mut once, mut twice] = [Vec::new(), Vec::new()];
    for (count, planned) in [(1, &mut once), (2, &mut twice)] {
        for (rule, frames) in
            [("none", clients * tasks), ("task", clients * tasks), ("run", clients)]
        {
            let dummies = format!("federation.dummy_clients.count={count}");
            let cache = format!("wire.asset_cache={rule}");
            let sets = ["data.subset=12", &method, &dummies, &cache];
            let sets: Vec<&str> = sets.into_iter().flat_map(|set| ["--set", set]).collect();
            let folder = tempfile::tempdir().unwrap();
            let (path, options) = (tiny(), ["--format", "json"]);
            let arguments = [&["plan", path.to_str().unwrap()], &options[..], &sets[..]].concat();
            let output = run_fedcast(folder.path(), &arguments);
            assert_eq!(output.code, 0, "{}", output.err);
            let plan: Value = serde_json::from_str(&output.out).unwrap();
            assert_eq!(asset_frames(&plan).0, frames, "{count} dummy clients, {rule}");
            assert_eq!(tiny_run(folder.path(), &sets).code, 0);
            sent_and_took(folder.path(), &plan);
            planned.push(plan);
        }
    }
    // A second dummy client adds downloads, and no copy of the backbone.
    let more = |rule: usize| asset_frames(&twice[rule]).1 - asset_frames(&once[rule]).1;
    assert_eq!((more(0), more(1)), (more(2), more(2)));
}

/// STSA-E sends no more down than STSA, whatever its number of dummy clients; a client downloads the network once.
#[test]
fn stsa_e_downloads_the_backbone_once_per_client() {
    for (file, clients) in [("table1-cifar100", 5), ("table2-cifar100", 5)] {
        let of = |method: &str, more: &[&str]| {
            asset_frames(&plan(&format!("scenarios/stsa/{file}-{method}.toml"), more))
        };
        let ((frames, down), (exact_frames, exact_down)) = (of("stsa-e", &[]), of("stsa", &[]));
        assert_eq!((frames, exact_frames), (clients, clients), "{file}");
        assert!((down as f64 / exact_down as f64 - 1.0).abs() < 0.01, "{down} and {exact_down}");
        // Without a cache, once per client and task.
        let uncached = ["--set", "wire.asset_cache=none"];
        assert_eq!(of("stsa-e", &uncached).0, 10 * clients, "{file}");
    }
}

/// Assets of a task are sent once in it, however many rounds it has.
#[test]
fn assets_of_a_task_are_sent_once_per_client() {
    for (file, frames) in [
        ("baselines/lorm-cifar100-beta0.5", 9 * 10),
        ("baselines/lwf-cifar100-beta0.5", 9 * 10),
        ("baselines/ewc-cifar100-beta0.5", 2 * 9 * 10),
        ("stsa/table1-cifar100-fed-lwf", 9 * 5),
        // The old model and the generator.
        ("stsa/table1-cifar100-mfcl", 2 * 9 * 5),
        // The knowledge base: clients that go on with the task of the first stage have none.
        ("c2prompt/imagenet-r-fedweit", 2 + 3 + 3 + 4),
        // The old model and the images.
        ("stsa/table1-cifar100-lander", 2 * 9 * 5),
        ("baselines/target-cifar100-beta0.5", 2 * 9 * 10),
    ] {
        let found = asset_frames(&plan(&format!("scenarios/{file}.toml"), &[])).0;
        assert_eq!(found, frames, "{file}");
    }
}
