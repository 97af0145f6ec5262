//! Table of `fedcast plan --partition`: training samples by client and task.

use std::collections::{BTreeMap, BTreeSet};

use super::text_table::{TextTable, grouped};
use crate::experiment::{ClassNames, Holding};
use crate::quantity::{ClientId, TaskId};

/// Most clients that are listed one by one.
const LISTED: usize = 50;

/// Training samples of one client.
#[derive(Default)]
struct ClientSampleCounts {
    tasks: BTreeMap<TaskId, u64>,
    classes: BTreeMap<u32, u64>,
}

impl ClientSampleCounts {
    fn samples(&self) -> u64 {
        self.tasks.values().sum()
    }

    /// Returns the class with most samples, the first of several.
    fn main_class(&self) -> Option<(u32, u64)> {
        let classes = self.classes.iter().map(|(class, samples)| (*class, *samples));
        classes.max_by_key(|(class, samples)| (*samples, std::cmp::Reverse(*class)))
    }
}

/// Renders clients as rows and tasks as columns, with class names if the data set has any.
pub fn partition_table(holdings: &[Holding], names: &ClassNames) -> String {
    let mut clients: BTreeMap<ClientId, ClientSampleCounts> = BTreeMap::new();
    let mut tasks = BTreeSet::new();
    for held in holdings {
        let own = clients.entry(held.client).or_default();
        *own.tasks.entry(held.task).or_default() += held.samples;
        *own.classes.entry(held.class).or_default() += held.samples;
        tasks.insert(held.task);
    }
    let titles = tasks.iter().map(|task| format!("task {}", task.0 + 1));
    let head = ["client", "samples", "classes", "main class"].map(str::to_string);
    let mut table = TextTable::new(head.into_iter().chain(titles));
    for (client, own) in clients.iter().take(LISTED) {
        let most = own.main_class().map_or_else(String::new, |(class, samples)| {
            let share = 100.0 * samples as f64 / own.samples() as f64;
            format!("class {} ({share:.0} %)", names.label(class))
        });
        let facts = [client.0.to_string(), grouped(own.samples()), own.classes.len().to_string()];
        let of_tasks = tasks.iter().map(|task| grouped(own.tasks.get(task).copied().unwrap_or(0)));
        table.row(facts.into_iter().chain([most]).chain(of_tasks));
    }
    let mut text = table.render();
    if let Some(more) = clients.len().checked_sub(LISTED).filter(|more| *more > 0) {
        text.push_str(&format!(
            "and {} more clients: listed with --format json\n",
            grouped(more as u64)
        ));
    }
    text.push_str(&format!("\n{}\n", sizes(&clients)));
    text
}

/// Returns a line on the number of clients with samples and on their sizes.
fn sizes(clients: &BTreeMap<ClientId, ClientSampleCounts>) -> String {
    let mut samples: Vec<u64> = clients.values().map(ClientSampleCounts::samples).collect();
    samples.sort_unstable();
    let (Some(least), Some(most)) = (samples.first(), samples.last()) else {
        return "no client holds a sample".to_string();
    };
    let sum: u64 = samples.iter().sum();
    let [low, high] = [(samples.len() - 1) / 2, samples.len() / 2].map(|at| samples[at]);
    let between = if (low + high) % 2 == 1 { ".5" } else { "" };
    let median = format!("{}{between}", grouped((low + high) / 2));
    format!(
        "{} clients with samples; {} samples in total; least {}, median {}, most {}",
        grouped(samples.len() as u64),
        grouped(sum),
        grouped(*least),
        median,
        grouped(*most)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_summed_by_client_and_by_task() {
        let held = |task, client, class, samples| Holding {
            task: TaskId(task),
            client: ClientId(client),
            class,
            samples,
        };
        let names = ClassNames::new(["0", "1", "2", "3", "emu"].map(String::from).to_vec());
        let text =
            partition_table(&[held(0, 0, 3, 5), held(0, 7, 3, 1), held(1, 0, 4, 15)], &names);
        let rows: Vec<String> =
            text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(rows[0], "client samples classes main class task 1 task 2");
        assert_eq!(rows[2], "0 20 2 class 4 (emu) (75 %) 5 15");
        assert_eq!(rows[3], "7 1 1 class 3 (100 %) 1 0");
        assert!(text.ends_with(
            "2 clients with samples; 21 samples in total; least 1, median 10.5, most 20\n"
        ));
    }
}
