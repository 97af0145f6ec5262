//! The papers' bytes come out of `plan`, to the byte, without weights or data; and a run sends
//! what was planned.

use std::path::Path;

use crate::command::{read, run_fedcast, tiny, tiny_run};
use serde_json::Value;

pub fn plan(scenario: &str, more: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(scenario);
    let mut arguments = vec!["plan", path.to_str().unwrap(), "--format", "json"];
    arguments.extend(more);
    let output = run_fedcast(folder.path(), &arguments);
    assert_eq!(output.code, 0, "{}", output.err);
    serde_json::from_str(&output.out).unwrap()
}

pub fn all(plan: &Value, pointer: &str) -> Vec<u64> {
    let phases = plan["phases"].as_array().unwrap();
    phases.iter().map(|phase| phase.pointer(pointer).unwrap().as_u64().unwrap()).collect()
}

/// Card of HGP, section 4: fixed head of 100 rows on ViT-B/16, at every task.
#[test]
fn hgp_on_cifar100() {
    let plan = plan("scenarios/hgp/cifar100-beta0.5.toml", &[]);
    assert_eq!(plan["backbone"]["parameters"], 85_798_656);
    assert_eq!(all(&plan, "/down/largest/payload"), [3_379_600; 10]);
    assert_eq!(all(&plan, "/down/smallest/payload"), [3_379_600; 10]);
    // A client that holds all ten classes of its task sends this much; fewer classes, less.
    assert_eq!(all(&plan, "/up/largest/payload"), [3_441_084; 10]);
    for smallest in all(&plan, "/up/smallest/payload") {
        let missing = (3_441_084 - smallest) as usize;
        assert_eq!(missing % (4 * (2 * 768 + 1)), 0, "whole Gaussians are missing");
    }
    for (frame, (control, payload)) in all(&plan, "/down/largest/frame").into_iter().zip(
        all(&plan, "/down/largest/control").into_iter().zip(all(&plan, "/down/largest/payload")),
    ) {
        assert_eq!(frame, control + payload);
        assert!(control < 1_000, "control bytes are few, and shown beside: {control}");
    }
    assert_eq!(all(&plan, "/participants"), [50; 10]);
}

/// Card of HePCo and of FedAvg-Prompt, sections 4: 100 prompts of 20 rows and their keys in 5 blocks, a
/// head of 100 rows; label counts of the task's ten classes go up.
#[test]
fn hepco_on_cifar100() {
    let planned = plan("scenarios/hepco/cifar100.toml", &[]);
    assert_eq!(all(&planned, "/down/largest/payload"), [32_563_600; 10]);
    assert_eq!(all(&planned, "/up/largest/payload"), [32_563_640; 10]);
    assert_eq!(all(&planned, "/up/smallest/payload"), [32_563_640; 10]);
    assert_eq!(all(&planned, "/participants"), [50; 10]);
    assert_eq!(all(&planned, "/samples"), [50 * 300; 10]);
    let lean = plan("scenarios/hepco/cifar100.toml", &["--set", "wire.form=lean"]);
    let rows = [90 * 4 * 769; 10];
    let up = all(&lean, "/up/largest/payload");
    assert!(up.iter().zip(rows).all(|(lean, rows)| 32_563_640 - lean == rows), "{up:?}");
    let plain = plan("scenarios/hepco/cifar100-fedavg-prompt.toml", &[]);
    assert_eq!(all(&plain, "/down/largest/payload"), [32_563_600; 10]);
    // No weight needs the number of samples, and yet it is sent: 4 bytes.
    assert_eq!(all(&plain, "/up/largest/payload"), [32_563_604; 10]);
    let whole = plan("scenarios/hepco/cifar100-fedavg-ft.toml", &[]);
    assert_eq!(all(&whole, "/down/largest/payload"), [343_502_224; 10]);
    // One client task over ten tasks of ten rounds, both ways: 6.51 and 68.7 GB.
    let one_client_task = |plan: &Value| {
        let (down, up) = (all(plan, "/down/largest/payload"), all(plan, "/up/largest/payload"));
        10 * down.iter().chain(&up).sum::<u64>()
    };
    assert_eq!((one_client_task(&plain), one_client_task(&whole)), (6_512_720_400, 68_700_445_200));
}

/// Appendix A of HGP, of its figures A and B: MB per round between a client and the server at Dirichlet 0.05.
///
/// The figures print no numbers, but the text has an order. L2P is the most efficient, followed by DualPrompt and CODA-P; PILoRA and HGP are on par with prompts, and methods that
/// train whole networks cost far more. TARGET is the most expensive there, since its server sends the old model and
/// images once per task; here it is above LwF, which sends the old model alone.
#[test]
fn bytes_of_hgps_figures_have_their_order() {
    for data in ["cifar100", "imagenet-r"] {
        let megabytes = |file: &str| {
            let planned = plan(&format!("scenarios/{file}{data}-beta0.05.toml"), &[]);
            let total = |way: &str| planned["total"][way].as_u64().unwrap() as f64;
            (total("down") + total("up")) / (50.0 * 10.0) / 1e6
        };
        let [l2p, dualprompt, pip, coda] = ["l2p", "dualprompt", "pip", "coda-prompt"]
            .map(|m| megabytes(&format!("prompts/{m}-")));
        let increasing = |values: &[f64]| values.windows(2).all(|pair| pair[0] < pair[1]);
        assert!(
            increasing(&[l2p, dualprompt, pip, coda]),
            "{data}: {:?}",
            [l2p, dualprompt, pip, coda]
        );
        let [hgp, pilora, lorm] = ["hgp/", "baselines/pilora-", "baselines/lorm-"].map(megabytes);
        assert!(increasing(&[l2p, hgp, dualprompt]), "{data}: HGP {hgp}");
        assert!(increasing(&[0.5 * l2p, pilora, dualprompt]), "{data}: PILoRA {pilora}");
        assert!(increasing(&[dualprompt, lorm, coda]), "{data}: LoRM {lorm}");
        let whole = ["ccvr", "ewc", "fedproto", "fisheravg", "lwf", "regmean", "target"];
        let whole = whole.map(|m| (m, megabytes(&format!("baselines/{m}-"))));
        for (method, sent) in whole {
            assert!(sent > 20.0 * coda, "{data}: {method} {sent}");
        }
        let [.., (_, lwf), _, (_, target)] = whole;
        assert!(lwf < target, "{data}: TARGET {target}");
    }
}

/// Rows of a plan in phases of a name.
fn in_phase(plan: &Value, name: &str, pointer: &str) -> Vec<u64> {
    let phases = plan["phases"].as_array().unwrap().iter();
    let named = phases.filter(|phase| phase["phase"] == name);
    named.map(|phase| phase.pointer(pointer).unwrap().as_u64().unwrap()).collect()
}

/// Cards of Powder and C2Prompt, sections 4: five clients in every round of five stages, and looks between stages.
#[test]
fn powder_and_c2prompt_on_imagenet_r() {
    let powder = plan("scenarios/c2prompt/imagenet-r-powder.toml", &[]);
    assert_eq!(in_phase(&powder, "train", "/up/largest/payload"), [983_120; 5]);
    assert_eq!(in_phase(&powder, "train", "/participants"), [15; 5]);
    let mixed = 4 * (4 * 230_400 + 15_380) + 80 + 24;
    assert_eq!(in_phase(&powder, "train", "/down/largest/payload"), [mixed; 5]);
    // As a stage begins, and as it ends, but for the last one.
    assert_eq!(in_phase(&powder, "look", "/participants"), [5; 9]);
    let table =
        plan("scenarios/c2prompt/imagenet-r-powder.toml", &["--set", "method.downlink=table"]);
    let down = in_phase(&table, "train", "/down/largest/payload");
    assert_eq!(down, [24_578_000 + 80 + 4 + 600; 5]);
    let c2prompt = plan("scenarios/c2prompt/imagenet-r-c2prompt.toml", &[]);
    assert_eq!(in_phase(&c2prompt, "statistics", "/up/largest/payload"), [122_960; 5]);
    assert_eq!(in_phase(&c2prompt, "compensate", "/down/largest/payload"), [122_880; 5]);
    assert_eq!(in_phase(&c2prompt, "train", "/up/largest/payload"), [946_256 + 640; 5]);
    // Powder's port of GLFC: the head of all client tasks both ways, and nothing for the old model.
    let glfc = plan("scenarios/c2prompt/imagenet-r-glfc.toml", &[]);
    assert_eq!(in_phase(&glfc, "train", "/down/largest/payload"), [4 * 500 * 769; 5]);
    assert_eq!(in_phase(&glfc, "train", "/up/largest/payload"), [4 * 500 * 769 + 4; 5]);
    let domainnet = plan("scenarios/c2prompt/domainnet-powder.toml", &[]);
    assert_eq!(in_phase(&domainnet, "train", "/up/largest/payload"), [1_029_260; 10]);
}

/// The share that papers state is printed with the bytes.
#[test]
fn the_share_of_the_model_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    let share = |scenario: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(scenario);
        let output = run_fedcast(folder.path(), &["plan", path.to_str().unwrap()]);
        let line = output.out.lines().find(|line| line.starts_with("a download")).map(String::from);
        line.unwrap_or_else(|| panic!("{}{}", output.out, output.err))
    };
    let hepco = share("scenarios/hepco/cifar100.toml");
    assert!(hepco.contains("8,140,900 numbers, 9.5 % of the backbone"), "{hepco}");
    assert!(share("scenarios/hgp/cifar100-beta0.5.toml").contains("1.0 %"));
    let fedhaf = share("scenarios/fedhaf/table3-cifar100-fedhaf.toml");
    assert!(fedhaf.contains("1,494,500 numbers, 2.6 % of the backbone"), "{fedhaf}");
    assert!(fedhaf.contains("full fine-tuning would send 232.6 MB"), "{fedhaf}");
}

/// Card of FedHAF, section 4: module and head of 1,491,684 numbers and 2,816 running statistics each way, a
/// fortieth of ResNet-152; the previous model besides, once per task and client, where clients keep it.
#[test]
fn fedhaf_on_cifar100() {
    let scenario = "scenarios/fedhaf/table3-cifar100-fedhaf.toml";
    let planned = plan(scenario, &[]);
    let both = 5_966_736 + 4 * 2_816;
    assert_eq!(planned["backbone"]["parameters"], 58_143_808);
    assert_eq!(all(&planned, "/down/largest/payload"), [both; 10]);
    assert_eq!(all(&planned, "/up/smallest/payload"), [both + 4; 10]);
    let assets = all(&planned, "/assets/largest/payload");
    assert_eq!((assets[0], &assets[1..]), (0, &[both; 9][..]));
    let uncached = plan(scenario, &["--set", "wire.asset_cache=none"]);
    let down = |plan: &Value| plan["total"]["down"].as_u64().unwrap();
    assert!(down(&uncached) > down(&planned), "{} {}", uncached["total"], planned["total"]);
}

/// Card of FedAvg, section 4.
#[test]
fn full_fine_tuning_on_cifar100() {
    let plan = plan(
        "scenarios/hgp/cifar100-beta0.5.toml",
        &["--set", "method={name=\"fedavg\", train=\"all\"}"],
    );
    assert_eq!(all(&plan, "/down/largest/payload"), [343_502_224; 10]);
    assert_eq!(all(&plan, "/up/largest/payload"), [343_502_228; 10]);
}

/// Payloads of the first and the last task, down and up.
fn ends(scenario: &str, more: &[&str]) -> [(u64, u64); 2] {
    let plan = plan(scenario, more);
    let (down, up) = (all(&plan, "/down/largest/payload"), all(&plan, "/up/largest/payload"));
    [(down[0], up[0]), (down[9], up[9])]
}

const GROWING_HEAD: [&str; 2] = ["--set", "method.head_form=growing"];
const LEAN: [&str; 2] = ["--set", "wire.form=lean"];

/// Card of L2P, section 4. Lean uploads leave out keys that do not train and rows of other tasks.
#[test]
fn l2p_on_cifar100() {
    let of = |more: &[&str]| ends("scenarios/prompts/l2p-cifar100-beta0.5.toml", more);
    assert_eq!(of(&[]), [(491_920, 491_924); 2]);
    assert_eq!(of(&GROWING_HEAD), [(215_080, 215_084), (491_920, 491_924)]);
    assert_eq!(of(&LEAN), [(491_920, 4 * (38_400 + 7_690) + 4); 2]);
    let pulled = [LEAN[0], LEAN[1], "--set", "method.pull_weight=0.1"];
    assert_eq!(of(&pulled), [(491_920, 4 * (38_400 + 7_680 + 7_690) + 4); 2]);
}

/// Card of DualPrompt, section 4.
#[test]
fn dualprompt_on_cifar100() {
    let of = |more: &[&str]| ends("scenarios/prompts/dualprompt-cifar100-beta0.5.toml", more);
    assert_eq!(of(&[]), [(4_086_160, 4_086_164); 2]);
    assert_eq!(of(&GROWING_HEAD), [(3_809_320, 3_809_324), (4_086_160, 4_086_164)]);
    assert_eq!(of(&LEAN), [(463_912, 463_916); 2]);
}

/// Cards of CODA-Prompt, Fed-CODAP and Fed-CPrompt, sections 4; the uploads of the latter two are counted with
/// the four bytes of the number of samples.
#[test]
fn components_on_cifar100() {
    let whole = (15_667_600, 15_667_604);
    assert_eq!(ends("scenarios/prompts/coda-prompt-cifar100-beta0.5.toml", &[]), [whole; 2]);
    for method in ["coda-prompt", "fed-cprompt"] {
        let of = |more: &[&str]| {
            ends(&format!("scenarios/prompts/stsa-table2-cifar100-{method}.toml"), more)
        };
        assert_eq!(of(&[]), [(1_566_760, 1_566_764), whole]);
        assert_eq!(of(&LEAN), [(1_566_760, 1_566_764), (15_667_600, 1_566_764)]);
    }
    // Over ten tasks of ten rounds one client sends 156.7 MB and is sent 861.7 MB (Fed-CODAP, section 4).
    let lean = plan("scenarios/prompts/stsa-table2-cifar100-coda-prompt.toml", &LEAN);
    assert_eq!(10 * all(&lean, "/up/largest/payload").iter().sum::<u64>(), 156_676_400);
    assert_eq!(10 * all(&lean, "/down/largest/payload").iter().sum::<u64>(), 861_718_000);
}

#[test]
fn half_floats_halve_the_payload() {
    let scenario = "scenarios/hgp/cifar100-beta0.5.toml";
    let half = plan(scenario, &["--set", "wire.down.codec=f16"]);
    assert_eq!(all(&half, "/down/largest/payload"), [3_379_600 / 2; 10]);
    assert_eq!(all(&half, "/down/largest/raw"), [3_379_600; 10]);
}

#[test]
fn a_run_sends_and_takes_what_was_planned() {
    sends_and_takes_what_was_planned(&[]);
}

#[test]
fn so_does_a_run_through_a_narrow_line_of_the_server() {
    let line = ["links.server_down_mb_per_s=0.05", "links.server_up_mb_per_s=0.02"];
    sends_and_takes_what_was_planned(&["preset=mobile", line[0], line[1]]);
}

/// No client leaves before its work is done, so the run waits and samples as planned.
#[test]
fn so_does_a_run_of_clients_that_come_and_go() {
    let diurnal = "availability={kind=\"diurnal\",mean=0.3,depth=0.2,step_s=30}";
    sends_and_takes_what_was_planned(&["preset=mobile", diurnal]);
}

/// New clients are asked for those that came back, at the times and with the bytes of the plan.
#[test]
fn so_does_an_asynchronous_run() {
    let buffer = "round={close=\"buffer\",buffer_size=2}";
    let method = "method={name=\"fedavg\",train=\"head\"}";
    sends_and_takes_what_was_planned(&[buffer, method, "federation.rounds=5"]);
}

fn sends_and_takes_what_was_planned(overrides: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let sets: Vec<&str> = overrides.iter().flat_map(|set| ["--set", set]).collect();
    assert_eq!(tiny_run(folder.path(), &sets).code, 0);
    let path = tiny();
    let arguments = [&["plan", path.to_str().unwrap(), "--format", "json"], &sets[..]].concat();
    let output = run_fedcast(folder.path(), &arguments);
    sent_and_took(folder.path(), &serde_json::from_str(&output.out).unwrap());
}

/// The run in `folder/run` sent and took what was planned.
#[track_caller]
pub fn sent_and_took(folder: &Path, plan: &Value) {
    let summary: Value = serde_json::from_str(&read(folder.join("run/summary.json"))).unwrap();
    for way in ["down", "up"] {
        // Nothing is lost here; what comes after its task is late.
        let of = |outcome| summary["bytes"][way][outcome]["bytes"].as_u64().unwrap_or(0);
        assert_eq!(of("delivered") + of("late"), plan["total"][way], "{way}");
    }
    let (ran, planned) = (&summary["virtual_s"], &plan["total"]["virtual_s"]);
    let difference = ran.as_f64().unwrap() - planned.as_f64().unwrap();
    assert!(difference.abs() < 1e-6, "{ran} s against {planned} s");
}

/// Files in the layout of CIFAR-10, with 4 images of class 0, 5 of class 1, ..., and 2 of each to test on.
pub fn small_cifar(folder: &Path) {
    let folder = folder.join("cifar-10-batches-bin");
    std::fs::create_dir(&folder).unwrap();
    let records = |count: &dyn Fn(u8) -> usize| -> Vec<u8> {
        let of = |class: u8| {
            let image = move |at: usize| vec![(at * 37 + usize::from(class) * 11) as u8; 3 * 1_024];
            (0..count(class)).flat_map(move |at| [vec![class], image(at)].concat())
        };
        (0..10).flat_map(of).collect()
    };
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("data_batch_1.bin", &records(&|class| usize::from(class)));
    for batch in 2..=5 {
        write(&format!("data_batch_{batch}.bin"), &records(&|_| 1));
    }
    write("test_batch.bin", &records(&|_| 2));
    let names: String = (0..10).map(|class| format!("class {class}\n")).collect();
    write("batches.meta.txt", names.as_bytes());
}

/// A plan counts the files that are there, and says so where it cannot.
#[test]
fn cifar_of_any_length_sends_and_takes_what_was_planned() {
    const SCENARIO: &str = r#"
schema = 2
preset = "mobile"
data = { source = "cifar10", path = "images" }
tasks = { count = 2 }
partition = { kind = "dirichlet", beta = 0.5, min_samples = 1 }
backbone = { kind = "pixels" }
method = { name = "hgp", train = "head", rebalance = "none" }
federation = { clients = 6, rounds = 2 }
client = { epochs = 1, batch_size = 8 }
"#;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.toml"), SCENARIO).unwrap();
    let plan = || {
        let output = run_fedcast(folder, &["plan", "a.toml", "--format", "json"]);
        assert_eq!(output.code, 0, "{}", output.err);
        (serde_json::from_str::<Value>(&output.out).unwrap(), output.err)
    };
    let (published, note) = plan();
    assert_eq!(published["samples"], 50_000);
    let assumed = "the data are not here: class sizes are those of the published cifar10 (50000 training samples)";
    assert!(note.contains(assumed), "{note}");
    std::fs::create_dir(folder.join("images")).unwrap();
    small_cifar(&folder.join("images"));
    let (counted, note) = plan();
    assert_eq!((counted["samples"].as_u64(), note.contains("published")), (Some(85), false));
    assert_ne!(counted["total"], published["total"]);
    let ran = run_fedcast(folder, &["run", "a.toml", "-q", "-o", "run"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    sent_and_took(folder, &counted);
    // What is stated is not looked at, and that is said.
    let stated = "data.nominal={classes=10, train=600, test=60}";
    let output = run_fedcast(folder, &["plan", "a.toml", "--set", stated]);
    assert!(
        output.err.contains("data.nominal (600 training samples in 10 classes)"),
        "{}",
        output.err
    );
}

/// Payload in 2^20 bytes and frames that one client uploads in the statistics phases.
fn statistics_of_one_client(scenario: &str, more: &[&str]) -> (f64, u64) {
    let plan = plan(scenario, more);
    let phases = plan["one_client"].as_array().unwrap();
    let row = phases.iter().find(|row| row["phase"] == "statistics").unwrap();
    let payload = row["up"]["payload"].as_u64().unwrap();
    assert!(row["up"]["control"].as_u64().unwrap() > 0, "control bytes are shown beside");
    (payload as f64 / f64::from(1 << 20), row["frames"].as_u64().unwrap())
}

/// Table 5 of STSA, under the assumptions of its card: one client, upload only, f32, 2^20
/// bytes, all of G, the columns of the current task, without the first stage, with all of its units.
#[test]
fn stsa_s_table_of_communication() {
    let symmetric = ["--set", "method.symmetric=true"];
    let rows = [
        ("table1-cifar100-stsa", &[][..], "955.58", 10),
        ("table1-cifar100-stsa-e", &[], "95.39", 500),
        ("table2-cifar100-stsa", &[], "60.08", 10),
        ("table2-cifar100-stsa-e", &[], "4.77", 100),
        ("table1-cifar100-stsa", &symmetric, "478.84", 10),
        ("table2-cifar100-stsa", &symmetric, "30.30", 10),
    ];
    for (file, more, wanted, frames) in rows {
        let scenario = format!("scenarios/stsa/{file}.toml");
        let (found, sent) = statistics_of_one_client(&scenario, more);
        assert_eq!((format!("{found:.2}").as_str(), sent), (wanted, frames), "{file}");
    }
    let (found, _) = statistics_of_one_client("scenarios/stsa/table2-cifar100-stsa-e.toml", &[]);
    assert_eq!(format!("{found:.3}"), "4.772");
}

/// Checks the formulas in a run: `4 (D^2 + D C_t)` per client and `4 (D C_t + C_t)` per unit.
#[test]
fn stsa_s_formulas_hold_in_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, set: &[&str]| -> u64 {
        let mut more = vec!["-o", name, "--set", "data.subset=12"];
        set.iter().for_each(|set| more.extend(["--set", set]));
        let tiny = tiny();
        let mut arguments = vec!["run", tiny.to_str().unwrap(), "-q"];
        arguments.extend(more);
        let output = run_fedcast(folder.path(), &arguments);
        assert_eq!(output.code, 0, "{}", output.err);
        let summary: Value =
            serde_json::from_str(&read(folder.path().join(name).join("summary.json"))).unwrap();
        summary["bytes"]["up"]["delivered"]["payload"].as_u64().unwrap()
    };
    let (d, clients, tasks, classes) = (40, 3, 2, 5);
    let table = "lambda=0.001, lambda_scale=\"trace\", width=40, first={name=\"none\"}}";
    let of = |name: &str| format!("method={{name=\"{name}\", {table}");
    let exact = run("exact", &[&of("stsa")]);
    assert_eq!(exact, clients * tasks * 4 * (d * d + d * classes));
    let half = run("half", &[&format!("method={{symmetric=true, name=\"stsa\", {table}")]);
    assert_eq!(half, clients * tasks * 4 * (d * (d + 1) / 2 + d * classes));
    let units = run("units", &[&of("stsa-e"), "federation.dummy_clients.count=2"]);
    assert_eq!(units, 2 * clients * tasks * 4 * (d * classes + classes));
}
