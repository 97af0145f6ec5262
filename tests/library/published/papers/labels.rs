//! Promise: a cell of a paper's study is what its row and column say: the method, data, network and numbers in the
//! labels are those of its scenario.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::super::{flat, same};
use super::{Cell, STUDIES, change, load};

/// Labels with the words of their scenarios, if those are others.
const WORDS: [(&str, &str); 9] = [
    ("Fed-DualP", "dualprompt"),
    ("Fed-CODAP", "coda-prompt"),
    ("FedHAF", "fedhaf"),
    ("Joint", "joint"),
    ("Prompting (centralized)", "centralised"),
    ("ViT-B/16", "vit-base"),
    ("alone", "prompts"),
    ("prompt and CR_cur", "current"),
    ("prompt and CR_old", "old"),
];

/// Labels that are values of keys.
const VALUES: [(&str, &str); 16] = [
    ("all outputs supervised", "method.supervision=all"),
    ("without output distillation", "method.lambda_kd=0"),
    ("without feature distillation", "method.lambda_fd=0"),
    ("without feature balance", "method.lambda_fb=0"),
    ("without the module", "method.module=false"),
    ("one stage of training", "method.stages=one"),
    ("without the last server", "method.replay_ratio=0"),
    ("without L_KL and L_MSE", "method.lambda_kl=0 method.lambda_mse=0"),
    ("without L_KL", "method.lambda_kl=0"),
    ("without L_MSE", "method.lambda_mse=0"),
    ("without prompt distillation", "method.prompt_steps=0"),
    ("without head distillation", "method.head_steps=0"),
    ("baseline (Powder)", "method.lcdc=false method.cpa=false"),
    ("LCDC", "method.lcdc=true method.cpa=false"),
    ("CPA", "method.lcdc=false method.cpa=true"),
    ("LCDC and CPA", "method.lcdc=true method.cpa=true"),
];

/// Keys whose values stand in labels as numbers.
const NUMBERS: [&str; 3] = ["partition.beta", "partition.imbalance", "method.width"];

/// Lower-case letters and digits.
fn plain(text: &str) -> String {
    let letters = text.chars().filter(|c| c.is_ascii_alphanumeric());
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// Returns true if a key has this number.
fn has(effective: &BTreeMap<String, Value>, key: &str, number: f64) -> bool {
    effective.get(key).is_some_and(|value| same(value, &Value::from(number)))
}

/// Returns true if a part of a label is about the scenario of a cell.
fn fits(part: &str, cell: &Cell, effective: &BTreeMap<String, Value>) -> bool {
    if let Some((_, values)) = VALUES.iter().find(|(label, _)| *label == part) {
        let mut values = values.split(' ').map(change);
        return values.all(|(key, value)| effective.get(&key).is_some_and(|has| same(has, &value)));
    }
    let number = |text: &str| text.parse::<f64>().ok();
    if let Some(clients) = part.strip_suffix(" clients").and_then(number) {
        return has(effective, "federation.clients", clients);
    }
    if let Some(dummies) = part.strip_prefix("S = ").and_then(number) {
        let key = "federation.dummy_clients.count";
        return has(effective, key, dummies) || dummies == 1.0 && !effective.contains_key(key);
    }
    if let Some(percent) = part.strip_suffix(" %").and_then(number) {
        let fraction = percent / 100.0;
        let all = fraction == 1.0 && !effective.contains_key("participation.fraction");
        return has(effective, "participation.fraction", fraction)
            || has(effective, "method.retention", fraction)
            || all;
    }
    if let Some(number) = number(part) {
        // Joint training does not depend on the partition.
        let factor = cell.arms.get("factor").map(|factor| format!("method.{factor}"));
        let keys = || NUMBERS.into_iter().chain(factor.as_deref());
        return cell.arms.values().any(|arm| arm == "Joint")
            || keys().any(|key| has(effective, key, number));
    }
    if part.starts_with("lambda_") {
        return effective.contains_key(&format!("method.{part}"));
    }
    let words = effective
        .iter()
        .filter(|(key, _)| ["method.", "backbone."].iter().any(|section| key.starts_with(section)));
    let words = words.filter_map(|(_, value)| value.as_str()).collect::<Vec<_>>().join(" ");
    let known = plain(&format!("{} {words}", cell.file));
    let other = WORDS.iter().find(|(label, _)| *label == part).map(|(_, word)| *word);
    [Some(part), other].into_iter().flatten().any(|word| known.contains(&plain(word)))
}

#[test]
fn labels_of_a_cell_are_those_of_its_scenario() {
    let mut wrong = Vec::new();
    for study in STUDIES.iter() {
        for cell in &study.cells {
            let scenario = load(&cell.file, &cell.changes, &[]).expect("a scenario");
            let effective: Table = scenario.to_effective_toml().parse().expect("TOML");
            let effective = flat(&effective);
            for part in cell.arms.values().flat_map(|label| label.split(", ")) {
                if !fits(part, cell, &effective) {
                    let Cell { file, changes, .. } = cell;
                    wrong.push(format!("{}: {part} is not {file} {changes:?}", study.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} labels are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
