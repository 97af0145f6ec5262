//! Federated bias in `summary.json` and the final table.
//!
//! HGP's measure, taken once per task after its first local training, before aggregation.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::document::Document;
use crate::federation::{Entry, Event};
use crate::learning::metrics::response_entropy;
use crate::quantity::{ClientId, Round, TaskId};

/// Bias at the first comparison of every task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Document)]
pub struct BiasReport {
    /// Mean over tasks of `response_entropy` (nats), `response_entropy_relative` or `prototype_distance`.
    ///
    /// The first is a mean over clients, the second relative to that of a uniform responder over all classes.
    #[document(keys("measure"))]
    pub mean: BTreeMap<String, f64>,
    /// Measures of each task.
    pub tasks: Vec<TaskBias>,
}

/// Differences between client models after the first local training of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Document)]
pub struct TaskBias {
    /// Task, from 1.
    pub task: u32,
    /// Round of the comparison, from 1.
    pub round: u32,
    /// Number of client models compared.
    pub clients: u32,
    /// Measures over all these models.
    #[document(keys("measure"))]
    pub measures: BTreeMap<String, f64>,
    /// Entropy of each client's predictions.
    ///
    /// If a client has several participants, the last one counts. A client whose model predicted no class has none.
    #[document(keys("client"), unit = "nats")]
    pub entropy: BTreeMap<ClientId, f64>,
}

impl BiasReport {
    /// Adds an entry: the first comparison of each task counts if any models were compared.
    pub(super) fn take(&mut self, entry: &Entry) {
        let Event::FederatedBiasMeasured { round, task, clients: clients @ 1.. } = &entry.event
        else {
            return;
        };
        let Some(numbers) = &entry.numbers else { return };
        if self.tasks.iter().any(|known| known.task == number(*task)) {
            return;
        }
        let measures = numbers.metrics.iter().map(|(name, figure)| (name.clone(), figure.0));
        let answered: Vec<_> = numbers.responses.iter().map(|own| own.predicted.clone()).collect();
        let nats = response_entropy(&answered).nats;
        let of_clients = numbers.responses.iter().map(|own| own.client).zip(nats);
        let entropy = of_clients.filter_map(|(client, nats)| Some((client, nats?)));
        self.tasks.push(TaskBias {
            task: number(*task),
            round: of_round(*round),
            clients: *clients,
            measures: measures.collect(),
            entropy: entropy.collect(),
        });
        self.average();
    }

    /// Averages over tasks; a task that lacks a measure (no two clients share a class) is left out.
    fn average(&mut self) {
        let mut sums: BTreeMap<&String, (f64, u32)> = BTreeMap::new();
        for (name, value) in self.tasks.iter().flat_map(|task| &task.measures) {
            let sum = sums.entry(name).or_default();
            *sum = (sum.0 + value, sum.1 + 1);
        }
        let mean =
            |(name, (sum, count)): (&String, (f64, u32))| (name.clone(), sum / f64::from(count));
        self.mean = sums.into_iter().map(mean).collect();
    }
}

fn number(task: TaskId) -> u32 {
    u32::from(task.0) + 1
}

fn of_round(round: Round) -> u32 {
    round.0 + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::{MetricValue, Numbers, Responses};
    use crate::quantity::VirtualTime;

    fn measured(task: u16, round: u32, entropy: f64, answered: &[[u64; 2]]) -> Entry {
        let responses = answered.iter().zip(0..).map(|(answered, client)| {
            let (train_samples, predicted) = (vec![1, 0], answered.to_vec());
            Responses { client: ClientId(client), train_samples, predicted }
        });
        let metrics = BTreeMap::from([("response_entropy".to_owned(), MetricValue(entropy))]);
        let numbers = Numbers { metrics, responses: responses.collect(), ..Numbers::default() };
        let (task, round, clients) = (TaskId(task), Round(round), answered.len() as u32);
        let event = Event::FederatedBiasMeasured { round, task, clients };
        Entry { seq: 0, at: VirtualTime(0), event, numbers: Some(numbers) }
    }

    #[test]
    fn the_first_training_of_a_task_counts_and_later_rounds_do_not() {
        let mut report = BiasReport::default();
        for entry in [
            measured(0, 0, 9.0, &[]),
            measured(0, 1, 0.5, &[[4, 4], [8, 0]]),
            measured(0, 2, 7.0, &[[4, 4], [4, 4]]),
            measured(1, 3, 0.1, &[[8, 0]]),
        ] {
            report.take(&entry);
        }
        let (first, second) = (&report.tasks[0], &report.tasks[1]);
        assert_eq!((first.task, first.round, first.clients), (1, 2, 2));
        assert_eq!((second.task, second.round, second.clients), (2, 4, 1));
        assert_eq!(report.tasks.len(), 2);
        assert!((report.mean["response_entropy"] - 0.3).abs() < 1e-12);
        let [one, other] = [0, 1].map(|client| first.entropy[&ClientId(client)]);
        assert!((one - std::f64::consts::LN_2).abs() < 1e-12 && other == 0.0);
    }
}
