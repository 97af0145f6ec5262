//! Confusion after the last task, as one tinted table per arm: true classes by predicted classes.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::experiment::{ClassNames, names};
use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::tint;
use crate::results::{Arm, RunRecord};

/// Most classes that are rows and columns; more are summed by the task in which they were learned.
const CLASSES: usize = 20;
/// Most tasks that fit a table of the page.
const TASKS: usize = 25;

/// Test samples by true and predicted class.
type Counts = BTreeMap<(u64, u64), u64>;

/// Predictions of a run after its last task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Predictions {
    counts: Counts,
    /// Task that a class was learned in, from 1.
    learned: BTreeMap<u64, u64>,
}

/// Matrix of an arm: headings, and fractions of each row's samples; `None` for a row without samples.
struct ConfusionMatrix {
    heads: Vec<String>,
    rows: Vec<Option<Vec<f64>>>,
}

/// Returns the section, one table per arm that has recorded predictions.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let tables: Vec<(String, ConfusionMatrix)> = (0..content.arms.len())
        .filter_map(|arm| Some((content.label(arm), table(&content.arms[arm])?)))
        .collect();
    let body = html! {
        p.note {
            "Percent of the test samples of a true class (row) that the model took for a class (column) after the last "
            "task, all runs of an arm together. Classes are in the order in which they were learned; more than "
            (CLASSES) ", and those of runs with several orders, are summed by task. Where columns of late tasks are deep above the diagonal, samples of old "
            "classes are taken for new ones."
        }
        div.row { @for (name, table) in &tables { (table.render(name)) } }
    };
    (!tables.is_empty()).then_some(PageSection::of("confusion", "Confusion", body))
}

fn table(arm: &Arm) -> Option<ConfusionMatrix> {
    let runs: Vec<(&RunRecord, Predictions)> =
        arm.done().filter_map(|run| Some((run, predictions(run)?))).collect();
    let mut counts = Counts::new();
    for (_, predictions) in &runs {
        for (key, samples) in &predictions.counts {
            *counts.entry(*key).or_default() += samples;
        }
    }
    let (first, Predictions { learned, .. }) = runs.first()?;
    // Seeds may order classes differently: then tasks of different runs hold different classes.
    if learned.len() <= CLASSES && runs.iter().all(|(_, other)| other.learned == *learned) {
        return Some(by_class(&counts, learned, &first.manifest.class_names));
    }
    by_task(runs.iter().map(|(_, predictions)| predictions))
}

fn by_class(counts: &Counts, learned: &BTreeMap<u64, u64>, names: &ClassNames) -> ConfusionMatrix {
    let mut classes: Vec<u64> = learned.keys().copied().collect();
    classes.sort_by_key(|class| (learned[class], *class));
    let name = |class: &u64| names.label(*class as u32);
    let cell = |one: &u64, other: &u64| counts.get(&(*one, *other)).copied().unwrap_or(0);
    let row = |class: &u64| classes.iter().map(|other| cell(class, other)).collect();
    ConfusionMatrix::of(classes.iter().map(name).collect(), classes.iter().map(row).collect())
}

fn by_task<'a>(runs: impl Iterator<Item = &'a Predictions>) -> Option<ConfusionMatrix> {
    let mut rows: Vec<Vec<u64>> = Vec::new();
    for Predictions { counts, learned } in runs {
        let tasks = learned.values().max().copied()? as usize;
        if tasks > TASKS {
            return None;
        }
        if rows.len() < tasks {
            rows.iter_mut().for_each(|row| row.resize(tasks, 0));
            rows.resize(tasks, vec![0; tasks]);
        }
        for ((class, predicted), samples) in counts {
            if let (Some(row), Some(column)) = (learned.get(class), learned.get(predicted)) {
                rows[*row as usize - 1][*column as usize - 1] += samples;
            }
        }
    }
    let heads = (1..=rows.len()).map(|task| format!("task {task}")).collect();
    Some(ConfusionMatrix::of(heads, rows))
}

/// Reads the predictions after the last task; `None` if the run did not record them.
fn predictions(run: &RunRecord) -> Option<Predictions> {
    let sheet = run.sheet(names::CONFUSION).ok()??;
    let column = |name| sheet.numbers(name);
    let (after, samples) = (column("after_task")?, column("samples")?);
    let (classes, predicted) = (column("class")?, column("predicted")?);
    let rows = after.into_iter().zip(classes).zip(predicted.into_iter().zip(samples));
    let number = |((after, class), (predicted, samples))| -> Option<[u64; 4]> {
        let all: [Option<f64>; 4] = [after, class, predicted, samples];
        let [after, class, predicted, samples] = all;
        Some([after? as u64, class? as u64, predicted? as u64, samples? as u64])
    };
    let rows: Vec<[u64; 4]> = rows.filter_map(number).collect();
    let last = rows.iter().map(|row| row[0]).max()?;
    let mut found = Predictions { counts: Counts::new(), learned: learned(run) };
    for [_, class, predicted, samples] in rows.into_iter().filter(|row| row[0] == last) {
        *found.counts.entry((class, predicted)).or_default() += samples;
        for class in [class, predicted] {
            found.learned.entry(class).or_insert(last);
        }
    }
    Some(found)
}

/// Returns the task in which each class was learned, as far as the tables of a run have it.
///
/// `classes.csv` lacks classes without test samples, and new clients in every round have no `partition.csv`.
fn learned(run: &RunRecord) -> BTreeMap<u64, u64> {
    let tasks = |file: &str| -> Option<BTreeMap<u64, u64>> {
        let sheet = run.sheet(file).ok()??;
        let rows = sheet.numbers("class")?.into_iter().zip(sheet.numbers("task")?);
        let mut learned = BTreeMap::new();
        for (class, task) in rows.filter_map(|(class, task)| Some((class? as u64, task? as u64))) {
            learned
                .entry(class)
                .and_modify(|known: &mut u64| *known = task.min(*known))
                .or_insert(task);
        }
        Some(learned)
    };
    let mut learned = tasks(names::PARTITION).unwrap_or_default();
    learned.extend(tasks(names::CLASSES).unwrap_or_default());
    learned
}

impl ConfusionMatrix {
    fn of(heads: Vec<String>, counts: Vec<Vec<u64>>) -> ConfusionMatrix {
        let row = |counts: Vec<u64>| {
            let all: u64 = counts.iter().sum();
            let fraction = |count: &u64| *count as f64 / all as f64;
            (all > 0).then(|| counts.iter().map(fraction).collect())
        };
        ConfusionMatrix { heads, rows: counts.into_iter().map(row).collect() }
    }

    fn render(&self, name: &str) -> Markup {
        html! {
            div.wide {
                table.heat {
                    caption { (name) }
                    thead { tr {
                        th scope="col" class="text" { "true / predicted" }
                        @for head in &self.heads { th scope="col" { (head) } }
                    } }
                    tbody { @for (head, row) in self.heads.iter().zip(&self.rows) { tr {
                        th scope="row" class="text" { (head) }
                        @match row {
                            Some(row) => @for fraction in row {
                                td class=(tint(*fraction)) { (percent(*fraction)) }
                            },
                            None => @for _ in &self.heads { td {} },
                        }
                    } } }
                }
            }
        }
    }
}

/// Formats a fraction in percent; none is an empty cell.
fn percent(fraction: f64) -> String {
    if fraction == 0.0 { String::new() } else { format!("{:.1}", 100.0 * fraction) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &[(u64, u64, u64)], learned: &[(u64, u64)]) -> Predictions {
        let counts = rows.iter().map(|(class, predicted, n)| ((*class, *predicted), *n));
        Predictions { counts: counts.collect(), learned: learned.iter().copied().collect() }
    }

    #[test]
    fn classes_stand_in_the_order_in_which_they_were_learned() {
        // Class 7 was learned first; class 2 has no test samples.
        let one = found(&[(7, 7, 1), (7, 3, 3), (3, 3, 4)], &[(7, 1), (3, 2), (2, 2)]);
        let table = by_class(&one.counts, &one.learned, &ClassNames::default());
        assert_eq!(table.heads, ["7", "2", "3"]);
        assert_eq!(table.rows, [Some(vec![0.25, 0.0, 0.75]), None, Some(vec![0.0, 0.0, 1.0])]);
    }

    #[test]
    fn tasks_sum_the_classes_that_each_run_learned_in_them() {
        let one = found(&[(0, 1, 3), (0, 0, 1), (1, 1, 2)], &[(0, 1), (1, 2)]);
        // The other run learned the classes in the other order.
        let two = found(&[(1, 1, 4), (0, 1, 2)], &[(1, 1), (0, 2)]);
        let table = by_task([&one, &two].into_iter()).unwrap();
        assert_eq!(table.heads, ["task 1", "task 2"]);
        assert_eq!(table.rows, [Some(vec![5.0 / 8.0, 3.0 / 8.0]), Some(vec![0.5, 0.5])]);
        let many = found(&[(0, 0, 1)], &[(0, 1 + TASKS as u64)]);
        assert!(by_task(std::iter::once(&many)).is_none());
    }

    /// A fork has no confusion of earlier tasks, and class 3 has no test samples.
    #[test]
    fn classes_belong_to_the_tasks_in_which_they_were_learned() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = serde_json::json!({
            "format": 2, "fedcast": "0.1.0", "status": "done",
            "scenario": { "name": "hand", "hash": "00" }, "method": "hgp",
            "seeds": { "run": 1, "partition": 1, "class_order": 1 },
            "data": null, "backbone": null, "level": "N", "workers": 1,
            "machine": crate::experiment::Machine::here(),
        });
        for (name, text) in [
            (names::MANIFEST, manifest.to_string()),
            (names::SCENARIO, "schema = 2\n".to_owned()),
            (names::CONFUSION, "after_task,class,predicted,samples\n3,0,0,1\n3,1,3,5\n".to_owned()),
            (names::CLASSES, "after_task,task,class\n1,1,0\n3,1,0\n3,2,1\n".to_owned()),
            (names::PARTITION, "task,class\n1,0\n2,1\n2,3\n".to_owned()),
        ] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let run = RunRecord::read(folder.path()).unwrap();
        let wanted = found(&[(0, 0, 1), (1, 3, 5)], &[(0, 1), (1, 2), (3, 2)]);
        assert_eq!(predictions(&run), Some(wanted));
    }
}
