//! Partition of classes over clients: one tinted table per partition, classes by clients.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use crate::experiment::{ClassNames, names};
use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::tint;
use crate::results::{RunRecord, Sheet, thinned};

/// Most columns; of more clients a selection is shown.
const CLIENTS: usize = 30;
/// Most rows; with more classes neighbors are summed.
const CLASSES: usize = 25;

/// Samples by class and client.
type Counts = BTreeMap<(u64, u64), u64>;

/// Partition and the arms whose first run has it; arms with paired seeds share it.
struct Shown<'a> {
    run: &'a RunRecord,
    counts: Counts,
    arms: Vec<usize>,
}

/// Returns the section, one table per partition.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let mut shown: Vec<Shown<'_>> = Vec::new();
    for (number, arm) in content.arms.iter().enumerate() {
        let first = arm.runs.first().and_then(|run| Some((run, counts(run)?)));
        let Some((run, counts)) = first else { continue };
        match shown.iter_mut().find(|known| known.counts == counts) {
            Some(known) => known.arms.push(number),
            None => shown.push(Shown { run, counts, arms: vec![number] }),
        }
    }
    let body = html! {
        p.note {
            "Training samples of every class at every client. The deepest tint in a column marks the class of which "
            "the client has most samples."
        }
        @for one in &shown {
            (table(&name(content, one, &shown), &one.counts, &one.run.manifest.class_names))
        }
    };
    (!shown.is_empty()).then_some(PageSection::of("partition", "Partition", body))
}

/// Returns the seed of a partition and, if there are several partitions, what its arms have in common.
///
/// The method is left out, since it does not affect the partition.
fn name(content: &PageContent, one: &Shown<'_>, shown: &[Shown<'_>]) -> String {
    let seed = format!("partition seed {}", one.run.manifest.seeds.partition);
    let all = &content.arms;
    let axes = one.arms.first().map_or(&[][..], |arm| &all[*arm].axes);
    let distinguishes = |(axis, value): &&(String, String)| {
        let has = |arm: usize| all[arm].axis(axis) == Some(value.as_str());
        let theirs = one.arms.iter().all(|arm| has(*arm));
        axis != "method" && theirs && (0..all.len()).any(|arm| !has(arm))
    };
    let pairs = axes.iter().filter(distinguishes).map(|(axis, value)| format!("{axis}={value}"));
    let pairs: Vec<String> = pairs.filter(|_| shown.len() > 1).collect();
    pairs.into_iter().chain([seed]).collect::<Vec<_>>().join(", ")
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

/// Samples of one client.
#[derive(Clone)]
struct ClientSamples {
    client: u64,
    classes: BTreeMap<u64, u64>,
}

impl ClientSamples {
    fn samples(&self) -> u64 {
        self.classes.values().sum()
    }

    /// Returns the class with most samples, the first of several.
    fn main_class(&self) -> Option<u64> {
        let most = self.classes.iter().max_by_key(|(class, n)| (**n, std::cmp::Reverse(**class)));
        most.map(|(class, _)| *class)
    }
}

/// Returns clients in order.
///
/// Of more than `most` clients it returns an even selection, sorted by main class and size.
fn columns(counts: &Counts, most: usize) -> Vec<ClientSamples> {
    let mut clients: BTreeMap<u64, ClientSamples> = BTreeMap::new();
    for ((class, client), samples) in counts {
        let new = || ClientSamples { client: *client, classes: BTreeMap::new() };
        clients.entry(*client).or_insert_with(new).classes.insert(*class, *samples);
    }
    let mut columns: Vec<ClientSamples> = clients.into_values().collect();
    if columns.len() > most {
        columns.sort_by_key(|column| (column.main_class(), column.samples(), column.client));
        columns = thinned(&columns, most);
    }
    columns
}

/// Joins neighbors so that there are at most `most` groups.
fn groups(all: &BTreeSet<u64>, most: usize) -> Vec<Vec<u64>> {
    let all: Vec<u64> = all.iter().copied().collect();
    all.chunks(all.len().div_ceil(most).max(1)).map(<[u64]>::to_vec).collect()
}

fn named(group: &[u64], names: &ClassNames) -> String {
    match group {
        [one] => names.label(*one as u32),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    }
}

fn table(name: &str, counts: &Counts, names: &ClassNames) -> Markup {
    let all: BTreeSet<u64> = counts.keys().map(|(_, client)| *client).collect();
    let clients = columns(counts, CLIENTS);
    let classes = groups(&counts.keys().map(|(class, _)| *class).collect(), CLASSES);
    let sum = |group: &[u64], column: &ClientSamples| -> u64 {
        group.iter().filter_map(|class| column.classes.get(class)).sum()
    };
    let most: Vec<u64> = clients
        .iter()
        .map(|column| classes.iter().map(|group| sum(group, column)).max().unwrap_or(0))
        .collect();
    let some = clients.len() < all.len();
    let together = classes.iter().any(|group| group.len() > 1);
    html! {
        div.wide tabindex="0" role="group" aria-label=(name) {
            table.heat.small {
                caption {
                    (name)
                    @if some {
                        "; " (clients.len()) " of " (all.len())
                        " clients, an even selection, sorted by main class and size"
                    }
                    @if together { "; neighboring classes are summed" }
                }
                thead { tr {
                    th scope="col" class="text" { "class \\ client" }
                    @for column in &clients { th scope="col" { (column.client) } }
                } }
                tbody {
                    @for group in &classes { tr {
                        th scope="row" class="text" { (named(group, names)) }
                        @for (column, most) in clients.iter().zip(&most) {
                            @let samples = sum(group, column);
                            @if samples > 0 {
                                td class=(tint(samples as f64 / *most as f64)) { (samples) }
                            } @else { td {} }
                        }
                    } }
                    tr {
                        th scope="row" class="text" { "all" }
                        @for column in &clients { td { (column.samples()) } }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no_names() -> ClassNames {
        ClassNames::default()
    }

    #[test]
    fn many_clients_are_sorted_and_some_of_them_shown_as_they_are() {
        // Client c has 10 + c samples of class c % 3 and one of the next.
        let counts: Counts = (0..100)
            .flat_map(|client| {
                [((client % 3, client), 10 + client), (((client + 1) % 3, client), 1)]
            })
            .collect();
        let columns = columns(&counts, 30);
        assert_eq!(columns.len(), 30);
        let main: Vec<u64> = columns.iter().map(|column| column.main_class().unwrap()).collect();
        assert!(
            main.is_sorted()
                && [0, 1, 2].map(|c| main.iter().filter(|m| **m == c).count()) == [10; 3]
        );
        assert!(columns.iter().all(|one| one.client % 3 == one.main_class().unwrap()));
        assert!(columns.iter().all(|one| one.samples() == 11 + one.client), "nothing is added up");
        let text = table("many", &counts, &no_names()).into_string();
        assert!(text.contains("30 of 100 clients") && !text.contains("are summed"), "{text}");
    }

    #[test]
    fn few_clients_keep_their_order_and_classes_have_names() {
        let counts: Counts = [((0, 5), 1), ((1, 5), 9), ((0, 2), 4)].into();
        let names = ClassNames::new(["cat", "dog"].map(String::from).to_vec());
        let text = table("few", &counts, &names).into_string();
        let cells: Vec<&str> = text.split("<t").filter_map(|cell| cell.split('>').nth(1)).collect();
        let words: Vec<&str> = cells.iter().filter_map(|cell| cell.split('<').next()).collect();
        let head = words.iter().position(|word| *word == "2").unwrap();
        assert_eq!(words[head + 1], "5");
        let row = words.iter().position(|word| *word == "0 (cat)").unwrap();
        assert_eq!(words[row + 1..row + 3], ["4", "1"]);
        let all = words.iter().position(|word| *word == "all").unwrap();
        assert_eq!(words[all + 1..all + 3], ["4", "10"]);
        // The deepest tint of each client is that of its main class.
        assert_eq!(text.matches(&tint(1.0)).count(), 2, "{text}");
    }

    #[test]
    fn neighbouring_classes_are_added_up_where_there_are_too_many() {
        let all: BTreeSet<u64> = (0..100).collect();
        let groups = groups(&all, 25);
        assert_eq!(groups.len(), 25);
        let named = |group: &[u64]| named(group, &no_names());
        assert_eq!((named(&groups[0]), named(&groups[24])), ("0-3".into(), "96-99".into()));
        let counts: Counts = (0..100).map(|class| ((class, 7), 2)).collect();
        let text = table("many", &counts, &no_names()).into_string();
        assert_eq!(text.matches(">8<").count(), 25, "{text}");
        assert!(text.contains("classes are summed"));
    }
}
