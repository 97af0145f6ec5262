//! Arrival of tasks at clients: `tasks.arrival`.
//!
//! | `arrival` | keys | start of a task at a client |
//! |---|---|---|
//! | `global` | | at the start of its stage |
//! | `per-client` | `lag_s`, a distribution | at a lag after the first client, drawn per client and task |
//! | | `file` | at the time in a CSV file with the columns `client` (from 0), `task` (from 1) and `time_s` |
//! | `paced` | `early_fraction`, `lead_fraction` | for a fraction `early_fraction` of clients at the start of its stage, for the others after the fraction `lead_fraction` of its rounds |
//! | `client-tasks` | `classes_per_client_task`, `overlap`, `switch_fraction` | its own client task at the start of a stage, if it is among the clients that move |
//!
//! A task's stage begins when its first client gets the task, and not before the rounds of the previous task are over;
//! its number of rounds does not change. During the stage some clients may still work on earlier tasks, so a round has
//! participants of different tasks. All clients have the first task from the start, and a client works on the newest
//! task that it has. Classes count as seen from the beginning of their stage. A client that a file does not name for a
//! task gets it at that time. The method must allow it: its clients send one mean over all participants, with a head of
//! all rows.
//!
//! With `paced` and `lead_fraction = 0.5`, half of the clients move to the next task while the others finish theirs
//! (the asynchronous mode of Fed-CPrompt, Bagwe et al. 2023).
//!
//! With `client-tasks` (Piao et al. 2024, also the benchmark of C²Prompt) `tasks.count` counts stages of
//! `federation.rounds` rounds. In each stage every client has its own *client task* of `classes_per_client_task`
//! classes. All clients begin that of the first stage. At the start of each later stage a fraction `switch_fraction`
//! of clients, rounded down, is drawn; they move to their client task of that stage. The others continue with theirs,
//! and their client tasks of that stage are never begun. Client tasks get their classes client by client, all stages
//! of one client before the next client's. The very first one draws from all classes. Every other one takes `u` classes
//! of a client task that has been drawn before, of any client, and the rest from the other classes; `u` is uniform from
//! `overlap` to `classes_per_client_task`. A class has a separate head row in each client task, so the head has
//! `count * clients * classes_per_client_task` rows, for methods without client tasks too. `partition` must be
//! `slices`. Classes and moves are drawn from `seed.class_order`.

use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use super::csv::{self, CsvFault};
use super::distribution::{Bound, DistributionSection};
use super::reader::{Choice, Param, TableReader};

/// Arrival of tasks at clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "arrival", rename_all = "kebab-case")]
pub enum ArrivalChoice {
    /// Start at all clients at once.
    #[default]
    Global,
    /// Start after a lag per client and task.
    #[serde(rename = "per-client")]
    Lag {
        /// Seconds of virtual time after the first client.
        lag_s: DistributionSection,
    },
    /// Start at recorded times.
    #[serde(rename = "per-client")]
    File {
        /// CSV file with the columns `client`, `task` and `time_s`.
        file: PathBuf,
        /// Content of the file; read when the scenario is loaded.
        #[serde(skip)]
        lines: Arc<[ArrivalLine]>,
    },
    /// Earlier start for one group of clients.
    Paced {
        /// Fraction of clients in the group. Default 0.5.
        early_fraction: f64,
        /// Fraction of a task's rounds after which the other clients start it. Default 0.5.
        lead_fraction: f64,
    },
    /// Client tasks: each client has its own, and some clients begin a new one in every stage.
    ClientTasks {
        /// Classes of a client task. Default 20.
        classes_per_client_task: u32,
        /// Smallest number of classes that a later client task shares with an earlier one. Default 0.
        overlap: u32,
        /// Fraction of clients that move on at the start of a stage, rounded down. Default 0.5.
        switch_fraction: f64,
    },
}

/// Client (from 0), task (from 1) and the second at which the client gets the task.
pub type ArrivalLine = (u32, u16, f64);

/// Words of the key `tasks.arrival`.
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum ArrivalKind {
    /// At all clients at once.
    Global,
    /// After the first client by `lag_s`, or at the times of `file`.
    PerClient,
    /// Earlier at one group of clients than at the others.
    Paced,
    /// Client tasks; a drawn fraction of clients begins the next one in every stage.
    ClientTasks,
}

impl ArrivalChoice {
    /// Returns true if tasks reach all clients at once.
    pub fn is_global(&self) -> bool {
        *self == ArrivalChoice::Global
    }

    /// Returns true if clients have their own tasks.
    pub fn has_client_tasks(&self) -> bool {
        matches!(self, ArrivalChoice::ClientTasks { .. })
    }

    pub(super) fn read(table: &mut TableReader<'_>) -> ArrivalChoice {
        let kind =
            table.get(&Param::new("arrival", ArrivalKind::Global, "arrival of tasks at clients"));
        let share = |name, doc| Param::new(name, 0.5, doc).above(0.0).at_most(1.0);
        let choice = match kind {
            ArrivalKind::Global => ArrivalChoice::Global,
            ArrivalKind::PerClient => {
                let doc = "CSV file with the columns client, task and time_s";
                let file = table.optional(&Param::unset("file", doc));
                match file {
                    Some(file) => {
                        table.foreign(&["lag_s"], "file");
                        ArrivalChoice::File { file, lines: Arc::new([]) }
                    }
                    None => ArrivalChoice::Lag { lag_s: lag(table) },
                }
            }
            ArrivalKind::Paced => ArrivalChoice::Paced {
                early_fraction: table
                    .get(&share("early_fraction", "fraction of clients that get tasks earlier")),
                lead_fraction: table.get(&share(
                    "lead_fraction",
                    "fraction of a task's rounds after which the other clients get it",
                )),
            },
            ArrivalKind::ClientTasks => client_tasks(table),
        };
        let keys = [
            "lag_s",
            "file",
            "early_fraction",
            "lead_fraction",
            "classes_per_client_task",
            "overlap",
            "switch_fraction",
        ];
        table.foreign(&keys, &format!("arrival = \"{}\"", kind.word()));
        choice
    }
}

fn client_tasks(table: &mut TableReader<'_>) -> ArrivalChoice {
    let source = "Powder's release";
    let classes =
        Param::new("classes_per_client_task", 20, "classes of a client task").source(source);
    let overlap = Param::new(
        "overlap",
        0,
        "smallest number of classes that a client task shares with an earlier one",
    );
    let switching = Param::new(
        "switch_fraction",
        0.5,
        "fraction of clients that move on at the start of a stage, rounded down",
    );
    let classes_per_client_task = table.get(&classes.at_least(1.0).at_most(60_000.0));
    let overlap = table.get(&overlap.source(source));
    if overlap > classes_per_client_task {
        let message = format!(
            "`overlap = {overlap}` is more than the {classes_per_client_task} classes of a client task"
        );
        let help = format!("set `overlap` to at most {classes_per_client_task}");
        table.reject("overlap", &message, "too large", &help);
    }
    let switch_fraction = table.get(&switching.source(source).above(0.0).at_most(1.0));
    ArrivalChoice::ClientTasks { classes_per_client_task, overlap, switch_fraction }
}

fn lag(table: &mut TableReader<'_>) -> DistributionSection {
    if !table.given("lag_s") {
        let help = "add `lag_s = { dist = \"exponential\", mean = 60 }`, or a `file`";
        table.reject(
            "arrival",
            "`arrival = \"per-client\"` needs `lag_s` or `file`",
            "no `lag_s` here",
            help,
        );
    }
    let doc = "lag after the first client in seconds, drawn per client and task";
    DistributionSection::read(
        table,
        "lag_s",
        &DistributionSection::constant(0.0),
        Bound::AtLeastZero,
        doc,
    )
}

/// Reads the lines of an arrival file for `clients` clients and `tasks` tasks.
pub(super) fn lines(text: &str, clients: u32, tasks: u32) -> Result<Vec<ArrivalLine>, CsvFault> {
    let mut rows = csv::rows(text);
    let Some(header) = rows.next() else { return Err(csv::nothing(text, "header")) };
    let [client, task, time] = csv::columns(&header, ["client", "task", "time_s"])?;
    let whole = |value: f64, least: u32, end: u32| {
        value.fract() == 0.0 && f64::from(least) <= value && value < f64::from(end)
    };
    let (who, which) = (
        format!("a client below {clients}"),
        format!("a task from 2 to {tasks}; all clients have the first"),
    );
    let mut lines = Vec::new();
    for row in rows {
        let cell = |place| csv::cell(&row, place, header.len());
        let id = csv::number(cell(client)?, |id| whole(id, 0, clients), &who)?;
        let task = csv::number(cell(task)?, |task| whole(task, 2, tasks + 1), &which)?;
        let at = csv::number(cell(time)?, |at| (0.0..=1e9).contains(&at), "between 0 and 1e9")?;
        lines.push((id as u32, task as u16, at));
    }
    if lines.is_empty() { Err(csv::nothing(text, "arrivals")) } else { Ok(lines) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{AnyMethod, Scenario};

    #[test]
    fn lines_name_clients_from_0_and_tasks_from_2() {
        let read = |text: &str| lines(text, 3, 2).map_err(|fault| fault.message);
        assert_eq!(
            read("client,task,time_s\n0,2,5\n2, 2, 1.5"),
            Ok(vec![(0, 2, 5.0), (2, 2, 1.5)])
        );
        for text in ["0,1,5", "0,3,5", "3,2,5", "0.5,2,5", "0,2,-1"] {
            let error = read(&format!("client,task,time_s\n{text}")).unwrap_err();
            assert!(error.contains("a value here must be"), "{text}: {error}");
        }
        assert!(read("client,task\n0,2").unwrap_err().contains("time_s"));
        assert!(read("client,task,time_s\n").unwrap_err().contains("no arrivals"));
    }

    #[test]
    fn hash_counts_the_lines_of_a_file_and_not_its_folder() {
        let at = |time: &str| {
            let folder = tempfile::tempdir().unwrap();
            let lines = format!("client,task,time_s\n0,2,{time}\n");
            std::fs::write(folder.path().join("arrivals.csv"), lines).unwrap();
            let text = "schema = 2\ndata.source = \"digits\"\npartition.kind = \"iid\"\nmethod.name = \"fedavg\"\n\
                        [tasks]\ncount = 2\narrival = \"per-client\"\nfile = \"arrivals.csv\"";
            let read = Scenario::from_toml(text, "example", folder.path(), &[], &AnyMethod);
            read.unwrap().scenario.hash()
        };
        assert_eq!(at("5"), at("5"));
        assert_ne!(at("5"), at("6"));
    }
}
