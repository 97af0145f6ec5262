//! Settings of the runs: those that all arms share, and the values of the others.

use std::collections::BTreeSet;

use maud::html;

use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::HtmlTable;
use crate::results::{Arm, RunRecord};

/// Keys in the order of the table. A key that no run has is left out.
const KEYS: [&str; 42] = [
    "data.source",
    "data.subset",
    "tasks.count",
    "tasks.classes",
    "tasks.order",
    "tasks.arrival",
    "partition.kind",
    "partition.beta",
    "partition.classes_per_client",
    "partition.fraction",
    "federation.clients",
    "federation.rounds",
    "federation.aggregation",
    "federation.dummy_clients.count",
    "federation.load_clients",
    "participation.kind",
    "participation.count",
    "participation.fraction",
    "participation.over_selection",
    "round.close",
    "round.deadline_s",
    "round.quorum",
    "round.late",
    "round.buffer_size",
    "availability.kind",
    "client.epochs",
    "client.batch_size",
    "client.augment",
    "client.optimizer.kind",
    "client.optimizer.lr",
    "client.optimizer.momentum",
    "client.optimizer.weight_decay",
    "client.round_schedule.kind",
    "backbone.kind",
    "backbone.architecture",
    "backbone.resolution",
    "links.preset",
    "time.preset",
    "wire.down.codec",
    "wire.up.codec",
    "privacy.secure_aggregation",
    "privacy.noise.scale",
];

/// Most different values that are listed; more are counted.
const MOST: usize = 6;

/// Returns a table of settings with their values, and the digests of data and weights.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let arms = &content.arms;
    if arms.is_empty() {
        return None;
    }
    let mut table = HtmlTable::new(2, ["setting", "value"]);
    let mut add = |name: &str, of: &dyn Fn(&Arm) -> Option<String>| {
        let all: Vec<Option<String>> = arms.iter().map(of).collect();
        let mut values: Vec<&String> = all.iter().flatten().collect();
        values
            .sort_unstable_by_key(|value| all.iter().position(|one| one.as_ref() == Some(*value)));
        values.dedup();
        let some = if all.iter().all(Option::is_some) { "" } else { " (some arms have none)" };
        match values.len() {
            0 => {}
            count if count > MOST => {
                table.row([name.to_owned(), format!("{count} values, by arm")])
            }
            _ => {
                let values: Vec<&str> = values.iter().map(|value| value.as_str()).collect();
                table.row([name.to_owned(), format!("{}{some}", values.join(", "))]);
            }
        }
    };
    let value_of = |key: &str| {
        let key = key.to_owned();
        move |arm: &Arm| arm.scenario.get(&key).map(|value| value.trim_matches('"').to_owned())
    };
    KEYS.iter().for_each(|key| add(key, &value_of(key)));
    let of_faults = |key: &&String| key.starts_with("faults[");
    let faults: BTreeSet<&String> =
        arms.iter().flat_map(|arm| arm.scenario.keys().filter(of_faults)).collect();
    faults.iter().for_each(|key| add(key, &value_of(key)));
    let source = |of: fn(&RunRecord) -> Option<(&str, &str)>| {
        move |arm: &Arm| {
            let (name, digest) = of(arm.runs.first()?)?;
            Some(format!("{name} (digest {digest})"))
        }
    };
    add("data", &source(|run| run.manifest.data.as_ref().map(|data| (&*data.name, &*data.digest))));
    add(
        "weights",
        &source(|run| {
            run.manifest.backbone.as_ref().map(|weights| (&*weights.name, &*weights.digest))
        }),
    );
    let body = html! {
        (table.render("Settings of all arms; several values if arms differ. Keys as in scenario files."))
    };
    Some(PageSection::of("settings", "Settings", body))
}
