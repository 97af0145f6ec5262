//! Summary of a whole run: `summary.json`, and the source of the final table.

use std::collections::BTreeMap;

use serde::Serialize;

use super::accuracy::{Accuracy, TaskScores};
use super::bias::BiasReport;
use super::client_tasks::{ClientTaskReport, TrainedAlone};
use super::published::Published;
use super::sampled::{Sampled, Sampling};
use super::time_parts::{Stopwatch, TimeParts};
use super::wall::WallTimes;
use super::words::{Traffic, direction_word, outcome_word};
use crate::document::{Content, Document, Key};
use crate::experiment::FORMAT;
use crate::experiment::assemble::round_closing;
use crate::federation::ledger::{Charge, Sums};
use crate::federation::{
    ClientTaskScore, Digests, Direction, EndReason, Entry, EvaluationPoint, Event, EventSink,
    FrameOutcome, SinkError,
};
use crate::policy::ParticipantKind;
use crate::quantity::{ClientId, TaskId};
use crate::scenario::{HeldOut, Scenario, SingleTaskLine};
use crate::wire::KindBytes;

/// Keys of `dummy_clients` and `load_clients`. The dictionary lists the sums of `bytes` once.
const SUMS_AS_IN_BYTES: Content = Content::Keys(&[
    Key {
        name: "<sum>",
        content: u64::CONTENT,
        meaning: "sum as in `bytes`, of the frames",
        ..Key::BLANK
    },
    Key {
        name: "kinds",
        content: KindBytes::CONTENT,
        placeholders: &["kind"],
        meaning: "payload of a kind, in the frames",
        ..Key::BLANK
    },
]);

/// Results of a run, updated entry by entry.
#[derive(Clone, Debug, Default, Serialize, Document)]
pub struct Summary {
    /// Format of the run directory and of this document.
    pub format: u32,
    /// Name of the scenario.
    pub name: String,
    /// Name of the method.
    pub method: String,
    /// Seed of the run (`seed.run`).
    pub seed: u64,
    /// Clients that own data.
    pub clients: u32,
    /// Number of tasks.
    pub tasks: u32,
    /// Rounds closed.
    pub rounds: u64,
    /// Uploads that were aggregated into the global model.
    pub aggregated: u64,
    /// Clients sampled, phase by phase.
    pub sampled: Vec<Sampled>,
    /// Keys of the scenario that the method does not use, or not everywhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// `done`, `interrupted` or `aborted`; null until the run ends.
    pub ended: Option<EndReason>,
    /// Held-out part of the training samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<HeldOut>,
    /// Accuracy and forgetting.
    pub accuracy: Accuracy,
    /// Measures of client tasks, if clients have tasks of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_tasks: Option<ClientTaskReport>,
    /// Published numbers and those of this run, if the scenario has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Published>,
    /// Frames by direction, then outcome.
    #[document(keys("direction", "outcome"))]
    pub bytes: BTreeMap<&'static str, BTreeMap<&'static str, Sums>>,
    /// Frames of dummy clients, if there are any; part of `bytes`.
    #[document(content = SUMS_AS_IN_BYTES, of = "dummy clients")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dummy_clients: Option<Sums>,
    /// Frames of load clients, if there are any; part of `bytes`.
    #[document(content = SUMS_AS_IN_BYTES, of = "load clients")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_clients: Option<Sums>,
    /// Metrics of the server's method in the last round that had any.
    #[document(keys("name"))]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub server_metrics: BTreeMap<String, f64>,
    /// Participants that sent nothing.
    pub failed: u64,
    /// Uploads that were rejected.
    pub rejected: u64,
    /// Uploads that malicious clients poisoned.
    #[serde(skip_serializing_if = "is_none")]
    pub poisoned: u64,
    /// Number of times that the server restarted in an open round.
    #[serde(skip_serializing_if = "is_none")]
    pub restarts: u64,
    /// Updates that had arrived and were lost in a restart.
    #[serde(skip_serializing_if = "is_none")]
    pub lost_updates: u64,
    /// State that clients keep between rounds, if they keep any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ClientMemoryUse>,
    /// Virtual time until the server was done; late updates may arrive after it.
    pub virtual_s: f64,
    /// Parts of the virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_parts: Option<TimeParts>,
    /// Virtual time of each task, from its arrival to the end of its last round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub task_virtual_s: Vec<f64>,
    /// Federated bias after the first local training of each task, if it is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bias: Option<BiasReport>,
    /// Digests of the journal.
    pub digests: Option<Digests>,
    /// Wall time of the run by kind of work; not written by a replay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall: Option<WallTimes>,
    #[serde(skip)]
    watch: Stopwatch,
    #[serde(skip)]
    traffic: Traffic,
    #[serde(skip)]
    sampling: Sampling,
    /// Time at which the current task arrived.
    #[serde(skip)]
    task_started_s: f64,
    #[serde(skip)]
    state_bytes: BTreeMap<ClientId, u64>,
    #[serde(skip)]
    scores: TaskScores,
    #[serde(skip)]
    client_task_scores: Vec<Vec<ClientTaskScore>>,
    #[serde(skip)]
    alone: TrainedAlone,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// State that clients keep after the last training of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Document)]
pub struct ClientMemoryUse {
    /// Clients that keep state between rounds.
    pub clients: u64,
    /// Memory of all these clients.
    pub bytes: u64,
    /// Memory of the client that keeps most.
    #[document(unit = "bytes")]
    pub largest: u64,
}

impl Summary {
    /// Returns an empty summary of the scenario with this name.
    pub fn new(name: &str) -> Summary {
        Summary { format: FORMAT, name: name.to_string(), ..Summary::default() }
    }

    /// Returns an empty summary of a run of this scenario.
    ///
    /// It has the accuracies of client tasks trained alone that the scenario names, its published numbers, and the
    /// description of its validation set.
    pub fn about(scenario: &Scenario) -> Summary {
        let client_task = |line: &SingleTaskLine| {
            Some(((TaskId(line.stage - 1), ClientId(line.client)), line.accuracy?))
        };
        Summary {
            alone: scenario.record.trained_alone.iter().filter_map(client_task).collect(),
            published: Published::of(&scenario.expected),
            validation: scenario.data.validation_set(),
            ignored: scenario.ignored(),
            watch: Stopwatch::new(round_closing(scenario)),
            ..Summary::new(&scenario.name)
        }
    }

    /// Returns the sums of one direction over all outcomes.
    pub fn total(&self, direction: Direction) -> Sums {
        self.traffic.direction(direction)
    }

    /// Returns the sums by direction and outcome.
    pub fn traffic(&self) -> &BTreeMap<(Direction, FrameOutcome), Sums> {
        &self.traffic.0
    }

    /// Error message for a run that aggregated no update.
    pub const TRAINED_NOTHING: &str =
        "no update was ever aggregated: the model is still the initial one";

    /// Returns true if the run ended without aggregating any update: its model is the initial one.
    pub fn trained_nothing(&self) -> bool {
        self.ended == Some(EndReason::Done) && self.rounds > 0 && self.aggregated == 0
    }

    /// Returns true if the text of a complete run's `summary.json` counts rounds but no aggregated upload.
    pub fn json_trained_nothing(text: &str) -> bool {
        Summary::value_trained_nothing(&serde_json::from_str(text).unwrap_or_default())
    }

    /// Returns true if a complete run's parsed `summary.json` counts rounds but no aggregated upload.
    pub fn value_trained_nothing(summary: &serde_json::Value) -> bool {
        let count = |name: &str| summary.get(name)?.as_u64();
        count("rounds") > Some(0) && count("aggregated") == Some(0)
    }

    /// Returns the content of `summary.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a summary has only string keys");
        text.push('\n');
        text
    }

    fn finish(&mut self) {
        let took_time = self.virtual_s > 0.0;
        self.virtual_parts = took_time.then(|| self.watch.total(self.virtual_s));
        self.sampled = self.sampling.all().to_vec();
        self.accuracy = self.scores.accuracy();
        let client_tasks =
            || ClientTaskReport::of(&self.client_task_scores, self.clients, &self.alone);
        self.client_tasks = (!self.client_task_scores.is_empty()).then(client_tasks);
        // Values measured during the run are not those of a whole run.
        if let (Some(published), Some(EndReason::Done)) = (&mut self.published, self.ended) {
            published.measure(&self.accuracy, self.client_tasks.as_ref());
        }
        self.bytes.clear();
        for ((direction, outcome), sum) in &self.traffic.0 {
            let by_outcome = self.bytes.entry(direction_word(*direction)).or_default();
            by_outcome.insert(outcome_word(*outcome), *sum);
        }
        let largest = self.state_bytes.values().copied().max();
        self.memory = largest.map(|largest| ClientMemoryUse {
            clients: self.state_bytes.len() as u64,
            bytes: self.state_bytes.values().sum(),
            largest,
        });
    }
}

impl EventSink for Summary {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let of_a_client = matches!(
            entry.event,
            Event::FrameCharged { .. }
                | Event::ClientTrained { .. }
                | Event::UpdatePoisoned { .. }
                | Event::ClientSkipped { .. }
                | Event::ClientFailed { .. }
        );
        // Late updates may arrive after the last task; the run is over when they have.
        if !of_a_client && !matches!(entry.event, Event::RunEnded { .. }) {
            self.virtual_s = entry.at.as_seconds();
        }
        self.sampling.take(&entry.event);
        self.watch.take(entry);
        match &entry.event {
            Event::RunStarted { seed, method, clients, tasks, .. } => {
                self.seed = *seed;
                self.method.clone_from(method);
                self.clients = *clients;
                self.tasks = *tasks;
            }
            Event::FrameCharged { kind, .. } => {
                self.traffic.take(&entry.event)?;
                let sums = match kind {
                    ParticipantKind::Client => None,
                    ParticipantKind::DummyClient => Some(&mut self.dummy_clients),
                    ParticipantKind::LoadClient => Some(&mut self.load_clients),
                };
                if let (Some(sums), Some(charge)) = (sums, Charge::from_event(&entry.event)?) {
                    sums.get_or_insert_default().add(&charge);
                }
            }
            Event::ClientTrained { client, state_bytes, .. } if *state_bytes > 0 => {
                self.state_bytes.insert(*client, *state_bytes);
            }
            Event::TaskStarted { .. } => self.task_started_s = entry.at.as_seconds(),
            Event::TaskEnded { .. } => {
                self.task_virtual_s.push(entry.at.as_seconds() - self.task_started_s);
            }
            Event::ClientFailed { .. } => self.failed += 1,
            Event::UpdateRejected { .. } => self.rejected += 1,
            Event::UpdatePoisoned { .. } => self.poisoned += 1,
            Event::ServerRestarted { lost, stale, .. } => {
                self.restarts += 1;
                self.lost_updates += lost.len() as u64 + u64::from(*stale);
            }
            Event::RoundClosed { aggregated, .. } => {
                self.rounds += 1;
                self.aggregated += u64::from(*aggregated);
                let metrics = entry.numbers.iter().flat_map(|numbers| &numbers.metrics);
                let metrics: BTreeMap<_, _> =
                    metrics.map(|(name, figure)| (name.clone(), figure.0)).collect();
                if !metrics.is_empty() {
                    self.server_metrics = metrics;
                }
            }
            Event::FederatedBiasMeasured { .. } => self.bias.get_or_insert_default().take(entry),
            Event::Evaluated { point: EvaluationPoint::Task, .. } => {
                if let Some(numbers) = &entry.numbers {
                    self.scores.push(&numbers.tasks)?;
                    if !numbers.client_tasks.is_empty() {
                        self.client_task_scores.push(numbers.client_tasks.clone());
                    }
                }
                self.finish();
            }
            Event::RunEnded { reason } => {
                self.ended = Some(*reason);
                self.finish();
            }
            _ => {}
        }
        Ok(())
    }
}
