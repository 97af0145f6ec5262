//! Estimate of a run's use of this machine: seconds, memory, disk.
//!
//! A [plan](super::plan) says how much work there is. A [trial](trial()) runs the beginning of the scenario without
//! recording it and says what a unit of each kind of work takes here: its [`Costs`], which are kept in a folder of the
//! platform's caches until the scenario's network, method or data, the program or the processor change. An
//! [`Estimate`] is one times the other.
//!
//! It is an estimate: a server's own learning grows with tasks in ways that a first round does not show, and other
//! programs take their share of a machine.

mod costs;
mod kept;
mod trial;

use serde::Serialize;

pub use costs::Costs;
pub use kept::{KeptCosts, cache_folder, cost_key};
pub use trial::trial;

use super::plan::{Plan, PlannedPhase};
use crate::document::Document;
use crate::scenario::{Cadence, Curve, Scenario};

/// Estimate of a run's use of the machine that its costs were measured on.
#[derive(Clone, Debug, PartialEq, Serialize, Document)]
pub struct Estimate {
    /// Seconds from start to end, without reading data and weights.
    pub wall_s: f64,
    /// Seconds of local training, of all workers together.
    pub train_s: f64,
    /// Seconds of tests of the global model, of all workers together.
    pub evaluate_s: f64,
    /// Seconds of features of frozen networks, of all workers together.
    pub features_s: f64,
    /// The server's own learning, coding, aggregation and the journal.
    pub other_s: f64,
    /// Journal, tables and checkpoints, in bytes.
    pub disk: u64,
    /// Costs that it was made from.
    pub costs: Costs,
}

/// Tables and wall times in addition to the journal, as a share of it: measured between 0.7 and 0.76.
const TABLES: f64 = 0.75;
/// Manifest, scenario, summary and histograms, in bytes.
const DOCUMENTS: u64 = 25_000;

impl Estimate {
    /// Returns the estimate of a planned run with `workers` workers.
    pub fn of(plan: &Plan, scenario: &Scenario, costs: &Costs, workers: usize) -> Estimate {
        let total = &plan.total;
        let participants: u64 = plan.phases.iter().map(|row| row.participants).sum();
        let cohort = participants as f64 / total.rounds.max(1) as f64;
        let train_of = |row: &PlannedPhase| costs.pass_s_in(&row.phase) * row.sample_passes;
        let train_s: f64 = plan.phases.iter().map(train_of).sum();
        let evaluate_s = costs.test_s * tests(plan, scenario, costs.test_samples);
        // A feature is computed once per sample, and only for samples that are trained on.
        let trained = (plan.samples as f64).min(total.sample_passes);
        let features = if costs.features_of_training { trained } else { 0.0 };
        let features_s = match costs.feature_s {
            0.0 => 0.0,
            each => each * (features + costs.test_samples as f64),
        };
        let server_s =
            costs.server_pass_s * total.server_passes + costs.server_round_s * total.rounds as f64;
        let other_s = costs.entry_s * total.entries as f64 + server_s;
        let trained_at_once = (workers as f64).min(cohort.max(1.0));
        let wall_s =
            train_s / trained_at_once + (evaluate_s + features_s) / workers as f64 + other_s;
        let journal = costs.entry_bytes * total.entries as f64 * (1.0 + TABLES);
        let kept = match scenario.record.checkpoint.every {
            Cadence::Never => 0,
            _ => {
                u64::from(scenario.record.checkpoint.keep)
                    * costs.state_bytes.max(final_state_bytes(plan))
            }
        };
        let disk = journal as u64 + DOCUMENTS + kept;
        let costs = costs.clone();
        Estimate { wall_s, train_s, evaluate_s, features_s, other_s, disk, costs }
    }
}

/// Returns the bytes that server and clients hold in the end, if the method reports them. A trial sees its beginning
/// only.
fn final_state_bytes(plan: &Plan) -> u64 {
    let participants: u64 = plan.phases.iter().map(|row| row.participants).sum();
    plan.held
        .map_or(0, |held| held.server + held.client * participants.min(u64::from(plan.clients)))
}

/// Returns the number of test answers of a run.
///
/// A test covers the samples of the classes seen, taken as a proportional share of all.
fn tests(plan: &Plan, scenario: &Scenario, samples: u64) -> f64 {
    let seen = |row: &PlannedPhase| row.seen_classes as f64 / plan.classes.max(1) as f64;
    let tested: f64 = match scenario.record.evaluate {
        Curve::Round => plan.phases.iter().map(|row| seen(row) * f64::from(row.rounds)).sum(),
        Curve::Task => {
            let last_of_task = plan.phases.chunk_by(|one, next| one.task == next.task);
            last_of_task.filter_map(|rows| rows.last()).map(seen).sum()
        }
        Curve::Never => 0.0,
    };
    samples as f64 * tested
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::experiment::assemble::blueprint;
    use crate::experiment::plan::{Faults, plan};
    use crate::methods::Registry;

    /// Two tasks of five classes, three rounds of two epochs for four clients: 40 samples of every class.
    fn estimate(costs: &Costs, workers: usize, more: &str) -> Estimate {
        let text = format!(
            "schema = 2\ndata = {{ source = \"digits\", subset = 40 }}\ntasks = {{ sizes = [5, 5] }}\n\
             partition = {{ kind = \"iid\" }}\nmethod = {{ name = \"fedavg\", train = \"head\" }}\n\
             federation = {{ clients = 4, rounds = 3 }}\nclient = {{ epochs = 2 }}\n{more}"
        );
        let methods = Registry::builtin();
        let scenario =
            Scenario::from_toml(&text, "a.toml", Path::new("."), &[], &methods).unwrap().scenario;
        let plan = plan(&blueprint(&scenario, &methods).unwrap(), Faults::Off).unwrap();
        Estimate::of(&plan, &scenario, costs, workers)
    }

    /// 200 samples a task, three rounds of two epochs: 2,400 passes of both tasks.
    #[test]
    fn training_is_shared_among_as_many_workers_as_a_cohort_can_use() {
        let costs = Costs { pass_s: 0.5, ..Costs::default() };
        for (workers, wall) in [(1, 1_200.0), (2, 600.0), (4, 300.0), (8, 300.0)] {
            let estimate = estimate(&costs, workers, "");
            assert_eq!((estimate.train_s, estimate.wall_s), (1_200.0, wall));
        }
    }

    /// The phase of the methods without others is called `train`.
    #[test]
    fn a_phase_that_only_looks_has_a_price_of_its_own() {
        let phase_pass_s = [("train".to_owned(), 0.25), ("look".to_owned(), 9.0)].into();
        let costs = Costs { pass_s: 0.5, phase_pass_s, ..Costs::default() };
        assert_eq!(estimate(&costs, 1, "").train_s, 600.0);
    }

    /// The first task's test is of half the classes.
    #[test]
    fn tests_are_of_classes_seen_after_rounds_or_tasks() {
        let costs = Costs { test_s: 1.0, test_samples: 100, ..Costs::default() };
        let seconds = |more: &str| estimate(&costs, 1, more).evaluate_s;
        assert_eq!(seconds(""), 450.0);
        assert_eq!(seconds("record = { evaluate = \"task\" }"), 150.0);
    }

    #[test]
    fn a_feature_is_computed_once_and_only_where_it_is_kept() {
        let costs = Costs { feature_s: 0.25, test_samples: 100, ..Costs::default() };
        assert_eq!(estimate(&costs, 1, "").features_s, 25.0);
        let kept = Costs { features_of_training: true, ..costs };
        assert_eq!(estimate(&kept, 1, "").features_s, 125.0);
    }

    #[test]
    fn a_journal_has_its_tables_and_the_checkpoints_kept() {
        let costs = Costs { entry_bytes: 100.0, state_bytes: 1_000, ..Costs::default() };
        let every = estimate(&costs, 1, "").disk;
        let none = estimate(&costs, 1, "record = { checkpoint = { every = \"never\" } }").disk;
        assert_eq!(every - none, 2_000);
        // 24 participants of a download, a training and an upload, and 6 rounds, at least.
        let (journal, least) = (none - DOCUMENTS, 175 * (3 * 24 + 6));
        assert!(journal > least && journal < 175 * 400, "{journal}");
    }

    /// STSA's sums are as wide as its random layer, from the second stage of the first task on.
    #[test]
    fn checkpoints_are_at_least_what_the_method_holds() {
        let costs = Costs { state_bytes: 1_000, ..Costs::default() };
        let disk = |more: &str| {
            let text = format!(
                "schema = 2\ndata = {{ source = \"digits\", subset = 40 }}\ntasks = {{ sizes = [5, 5] }}\n\
                 partition = {{ kind = \"iid\" }}\nbackbone = {{ kind = \"pixels\" }}\n\
                 method = {{ name = \"stsa\", width = 300, first = {{ name = \"none\" }} }}\n\
                 federation = {{ clients = 4, rounds = 3 }}\n{more}"
            );
            let methods = Registry::builtin();
            let read = Scenario::from_toml(&text, "a.toml", Path::new("."), &[], &methods);
            let scenario = read.unwrap_or_else(|error| panic!("{error}")).scenario;
            let plan = plan(&blueprint(&scenario, &methods).unwrap(), Faults::Off).unwrap();
            Estimate::of(&plan, &scenario, &costs, 1).disk
        };
        let none = disk("record = { checkpoint = { every = \"never\" } }");
        let two = disk("record = { checkpoint = { keep = 2 } }");
        assert_eq!(two - none, 2 * 8 * (300 * 301 / 2 + 2 * 10 * 300));
    }

    #[test]
    fn what_a_server_computes_is_charged_by_passes_or_by_rounds() {
        let per_round = Costs { server_round_s: 2.0, ..Costs::default() };
        assert_eq!(estimate(&per_round, 2, "").other_s, 12.0);
        let per_pass = Costs { server_pass_s: 2.0, ..Costs::default() };
        assert_eq!(estimate(&per_pass, 2, "").other_s, 0.0);
    }

    #[test]
    fn costs_belong_to_what_a_unit_of_work_depends_on() {
        let key = |more: &str| {
            let text = format!(
                "schema = 2\ndata = {{ source = \"digits\" }}\ntasks = {{ count = 5 }}\n\
                 partition = {{ kind = \"iid\" }}\n{more}"
            );
            let methods = Registry::builtin();
            let read = Scenario::from_toml(&text, "a.toml", Path::new("."), &[], &methods);
            cost_key(&read.unwrap().scenario, 2)
        };
        let method = "method = { name = \"fedavg\", train = \"head\" }";
        let same = key(&format!("{method}\nfederation.rounds = 9\nclient.epochs = 7"));
        assert_eq!(key(method), same);
        assert_ne!(key(method), key("method = { name = \"fedavg\", train = \"all\" }"));
        assert_ne!(key(method), key(&format!("{method}\nclient.batch_size = 3")));
    }

    #[test]
    fn kept_costs_read_back_and_damaged_ones_are_measured_again() {
        let folder = tempfile::tempdir().unwrap();
        let costs = Costs { pass_s: 0.125, peak_memory_mb: Some(7.5), ..Costs::default() };
        KeptCosts::in_folder(folder.path()).keep("a", &costs).unwrap();
        let kept = KeptCosts::in_folder(folder.path());
        assert_eq!((kept.get("a"), kept.get("b")), (Some(&costs), None));
        std::fs::write(folder.path().join("costs.json"), "{\"a\": 3").unwrap();
        assert_eq!(KeptCosts::in_folder(folder.path()).get("a"), None);
    }
}
