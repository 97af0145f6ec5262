//! Who holds which classes: a tinted table per partition, classes by clients.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use crate::experiment::names;
use crate::page::Section;
use crate::page::content::Content;
use crate::page::html::tint;
use crate::results::{RunRecord, Sheet};

/// Columns and rows of a table at most; neighbours are added up where there are more.
const CLIENTS: usize = 30;
const CLASSES: usize = 25;

/// Samples by class and client.
type Counts = BTreeMap<(u64, u64), u64>;

/// A table per place on `x`: the first run of each, whose partition arms share where seeds pair.
pub fn section(content: &Content) -> Option<Section> {
    let mut shown: Vec<(String, Counts)> = Vec::new();
    for (name, arms) in content.charts() {
        let first = arms.iter().find_map(|arm| content.arms[*arm].runs.first());
        let Some((run, counts)) = first.and_then(|run| Some((run, counts(run)?))) else { continue };
        if shown.iter().any(|(_, known)| *known == counts) {
            continue;
        }
        let seed = run.manifest.seeds.partition;
        let name = if name.is_empty() { String::new() } else { format!("{name}, ") };
        shown.push((format!("{name}partition seed {seed}"), counts));
    }
    let body = html! {
        p.note { "Training samples of every class at every client. The deeper a cell is tinted, the more." }
        @for (name, counts) in &shown { (table(name, counts)) }
    };
    (!shown.is_empty()).then_some(Section { id: "partition", title: "Partition", body })
}

fn counts(run: &RunRecord) -> Option<Counts> {
    let partition: Sheet = run.sheet(names::PARTITION).ok()??;
    let column = |name| partition.numbers(name);
    let (clients, classes, samples) = (column("client")?, column("class")?, column("samples")?);
    let mut counts = Counts::new();
    for ((client, class), samples) in clients.into_iter().zip(classes).zip(samples) {
        let key = (class? as u64, client? as u64);
        *counts.entry(key).or_default() += samples? as u64;
    }
    (!counts.is_empty()).then_some(counts)
}

/// Neighbours put together so that there are `most` groups at the most.
fn groups(all: &BTreeSet<u64>, most: usize) -> Vec<Vec<u64>> {
    let all: Vec<u64> = all.iter().copied().collect();
    all.chunks(all.len().div_ceil(most).max(1)).map(<[u64]>::to_vec).collect()
}

fn named(group: &[u64]) -> String {
    match group {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    }
}

fn table(name: &str, counts: &Counts) -> Markup {
    let clients = groups(&counts.keys().map(|(_, client)| *client).collect(), CLIENTS);
    let classes = groups(&counts.keys().map(|(class, _)| *class).collect(), CLASSES);
    let sum = |classes: &[u64], clients: &[u64]| -> u64 {
        let each =
            classes.iter().flat_map(|class| clients.iter().map(move |client| (*class, *client)));
        each.filter_map(|key| counts.get(&key)).sum()
    };
    let cells: Vec<Vec<u64>> =
        classes.iter().map(|row| clients.iter().map(|column| sum(row, column)).collect()).collect();
    let most = cells.iter().flatten().copied().max().unwrap_or(0).max(1);
    let apart = clients.iter().chain(&classes).all(|group| group.len() == 1);
    html! {
        div.wide tabindex="0" role="group" aria-label=(name) {
            table.heat.small {
                caption { (name) @if !apart { "; neighbours are added up" } }
                thead { tr {
                    th scope="col" class="text" { "class \\ client" }
                    @for group in &clients { th scope="col" { (named(group)) } }
                } }
                tbody { @for (group, row) in classes.iter().zip(&cells) { tr {
                    th scope="row" class="text" { (named(group)) }
                    @for samples in row {
                        @if *samples > 0 {
                            td class=(tint(*samples as f64 / most as f64)) { (samples) }
                        } @else { td {} }
                    }
                } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_added_up_where_there_are_too_many() {
        let all: BTreeSet<u64> = (0..100).collect();
        let groups = groups(&all, 30);
        assert_eq!(groups.len(), 25);
        assert_eq!((named(&groups[0]), named(&groups[24])), ("0-3".into(), "96-99".into()));
        let counts: Counts = (0..100).map(|client| ((7, client), 2)).collect();
        let text = table("many", &counts).into_string();
        assert_eq!(text.matches(">8<").count(), 25, "{text}");
        assert!(text.contains("added up"));
    }
}
