//! Durations, latencies and missing uploads of an arm's rounds.

use std::collections::BTreeMap;

use super::{Arm, RunRecord, Spread};
use crate::experiment::names;

/// Round of an arm: means over its runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundTiming {
    /// Number of the round, from 1.
    pub round: u64,
    /// Virtual seconds from opening to closing.
    pub duration: Spread,
    /// Median seconds from the opening of a round to the arrival of a client's upload, late ones included.
    pub latency: Option<Spread>,
    /// Latency of the slowest client whose upload arrived.
    pub slowest: Option<Spread>,
    /// Clients whose upload arrived, or would have arrived, after closing.
    pub late: Spread,
    /// Clients whose upload never arrived: lost, crashed, away and so on.
    pub lost: Spread,
}

/// Outcomes of the clients of a round.
#[derive(Default)]
struct ClientsOfRound {
    latencies: Vec<f64>,
    late: f64,
    lost: f64,
}

/// Outcomes of clients whose upload was in time, used or not.
const IN_TIME: [&str; 4] = ["aggregated", "rejected", "unopened", "unused"];
/// Outcomes of clients whose upload was too late for its round.
const LATE: [&str; 3] = ["late", "skipped", "stale"];
/// Outcome of clients that only cause traffic.
const LOAD: &str = "load_client";

impl Arm {
    /// Returns the rounds of the complete runs; none without their tables.
    pub fn round_timings(&self) -> Vec<RoundTiming> {
        let mut rounds: BTreeMap<u64, Vec<(f64, ClientsOfRound)>> = BTreeMap::new();
        for run in self.done() {
            let mut clients = clients(run);
            for (round, duration) in durations(run) {
                let of_round = clients.remove(&round).unwrap_or_default();
                rounds.entry(round).or_default().push((duration, of_round));
            }
        }
        rounds.into_iter().filter_map(|(round, runs)| timing(round, &runs)).collect()
    }
}

fn timing(round: u64, runs: &[(f64, ClientsOfRound)]) -> Option<RoundTiming> {
    let spread = |of: &dyn Fn(&(f64, ClientsOfRound)) -> Option<f64>| {
        Spread::of(&runs.iter().filter_map(of).collect::<Vec<f64>>())
    };
    Some(RoundTiming {
        round,
        duration: spread(&|run| Some(run.0))?,
        latency: spread(&|run| median(&run.1.latencies)),
        slowest: spread(&|run| run.1.latencies.iter().copied().reduce(f64::max)),
        late: spread(&|run| Some(run.1.late))?,
        lost: spread(&|run| Some(run.1.lost))?,
    })
}

/// Returns the median; of an even number of values, the mean of the middle two.
fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Returns round and duration of every round of a run.
fn durations(run: &RunRecord) -> Vec<(u64, f64)> {
    let Ok(Some(rounds)) = run.sheet(names::ROUNDS) else { return Vec::new() };
    let column = |name| rounds.numbers(name).unwrap_or_default().into_iter();
    let both = column("round").zip(column("duration_s"));
    both.filter_map(|(round, duration)| Some((round? as u64, duration?))).collect()
}

/// Returns the clients of every round of a run.
fn clients(run: &RunRecord) -> BTreeMap<u64, ClientsOfRound> {
    let mut rounds: BTreeMap<u64, ClientsOfRound> = BTreeMap::new();
    let Ok(Some(table)) = run.sheet(names::PARTICIPATION) else { return rounds };
    let Some(outcome) = table.column("outcome") else { return rounds };
    let column = |name| table.numbers(name).unwrap_or_else(|| vec![None; table.rows.len()]);
    let (number, opened, arrived) = (column("round"), column("opened_s"), column("arrived_s"));
    for (at, row) in table.rows.iter().enumerate() {
        let (Some(round), word) = (number[at], row[outcome].as_str()) else { continue };
        if word == LOAD {
            continue;
        }
        let clients = rounds.entry(round as u64).or_default();
        if let Some((opened, arrived)) = opened[at].zip(arrived[at]) {
            clients.latencies.push(arrived - opened);
        }
        if LATE.contains(&word) {
            clients.late += 1.0;
        } else if !IN_TIME.contains(&word) {
            clients.lost += 1.0;
        }
    }
    rounds
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::experiment::Machine;

    fn run(folder: &Path, seed: u64, rounds: &str, participation: &str) {
        let manifest = serde_json::json!({
            "format": 2, "fedcast": "0.1.0", "status": "done",
            "scenario": { "name": "hand", "hash": "00" }, "method": "hgp",
            "seeds": { "run": seed, "partition": 2, "class_order": 3 },
            "data": null, "backbone": null, "level": "N", "workers": 1, "machine": Machine::here(),
        });
        fs::create_dir(folder).unwrap();
        let rounds = format!("round,duration_s\n{rounds}");
        let participation = format!("round,outcome,opened_s,arrived_s\n{participation}");
        for (name, text) in [
            (names::MANIFEST, manifest.to_string()),
            (names::SCENARIO, "schema = 2\n".to_owned()),
            (names::ROUNDS, rounds),
            (names::PARTICIPATION, participation),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    #[test]
    fn rounds_have_durations_latencies_and_missing_clients() {
        let folder = tempfile::tempdir().unwrap();
        let rows = "1,aggregated,10,11\n1,late,10,19\n1,stale,10,15\n1,lost,10,\n\
                    1,load_client,10,99\n2,crashed,20,\n2,rejected,20,23\n2,skipped,20,\n";
        run(&folder.path().join("a"), 1, "1,5\n2,4\n", rows);
        run(&folder.path().join("b"), 2, "1,7\n", "1,aggregated,0,4\n1,aggregated,0,6\n");
        let arms = Arm::sort(RunRecord::find(folder.path()).unwrap());
        let [first, second] = arms[0].round_timings()[..] else { panic!("two rounds") };
        // Latencies are 1, 5 and 9 in the first run, 4 and 6 in the second.
        assert_eq!((first.round, first.duration.mean, first.duration.n), (1, 6.0, 2));
        assert_eq!(first.latency.unwrap().mean, 5.0);
        assert_eq!(first.slowest.unwrap().mean, 7.5);
        assert_eq!((first.late.mean, first.lost.mean), (1.0, 0.5));
        assert_eq!((second.round, second.duration.n, second.latency.unwrap().mean), (2, 1, 3.0));
        assert_eq!((second.late.mean, second.lost.mean), (1.0, 1.0));
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[4.0]), Some(4.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[9.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
