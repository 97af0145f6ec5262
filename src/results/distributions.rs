//! Distributions in the files `histograms/NAME.hgrm` of runs.

use std::collections::BTreeMap;

use super::{Arm, RunRecord};
use crate::experiment::names;

/// Values with their counts, in ascending order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution(pub Vec<(f64, u64)>);

impl Distribution {
    /// Parses the percentile lines: value, percentile, cumulative count.
    fn parse(text: &str) -> Distribution {
        let mut before = 0;
        let mut values = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [value, _, count, ..] = words.as_slice() else { continue };
            let (Ok(value), Ok(count)) = (value.parse(), count.parse::<u64>()) else { continue };
            if count > before {
                values.push((value, count - before));
                before = count;
            }
        }
        Distribution(values)
    }

    fn of_run(run: &RunRecord, name: &str) -> Distribution {
        let path = run.path.join(names::HISTOGRAMS).join(format!("{name}.hgrm"));
        // Runs may leave them out (`record.histograms = false`).
        std::fs::read_to_string(path).map_or_else(|_| Distribution::default(), |t| Self::parse(&t))
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }
}

impl Arm {
    /// Returns the distribution of this name over all complete runs.
    pub fn distribution(&self, name: &str) -> Distribution {
        let mut all: BTreeMap<u64, u64> = BTreeMap::new();
        for (value, count) in self.done().flat_map(|run| Distribution::of_run(run, name).0) {
            // Values are not negative, so their bits have the same order.
            *all.entry(f64::max(value, 0.0).to_bits()).or_default() += count;
        }
        Distribution(all.into_iter().map(|(bits, count)| (f64::from_bits(bits), count)).collect())
    }

    /// Returns the number of rounds in which each client of each run was sampled, without load clients.
    ///
    /// Clients of a fixed population that were never sampled are included with 0; `clients.csv` has no rows for them.
    pub fn sampled(&self) -> Vec<u64> {
        let mut sampled = Vec::new();
        for run in self.done() {
            let before = sampled.len();
            let Ok(Some(clients)) = run.sheet(names::CLIENTS) else { continue };
            let kind = clients.column("kind");
            let Some(rounds) = clients.numbers("rounds_sampled") else { continue };
            for (row, rounds) in clients.rows.iter().zip(rounds) {
                if kind.is_none_or(|kind| row[kind] == "client") {
                    sampled.push(rounds.unwrap_or(0.0) as u64);
                }
            }
            let all = run.fixed_population().map_or(0, |clients| before + clients);
            sampled.resize(sampled.len().max(all), 0);
        }
        sampled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_differences_of_running_totals() {
        let text = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n  \
                    10.000 0.0 3 1.00\n  10.000 0.2 3 1.25\n  25.500 1.0 8\n#[Mean = 1]\n";
        let distribution = Distribution::parse(text);
        assert_eq!(distribution.0, [(10.0, 3), (25.5, 5)]);
        assert_eq!(distribution.count(), 8);
    }

    /// Two runs of seven clients, of which some were never sampled; load clients are none of them.
    #[test]
    fn clients_that_were_never_sampled_are_counted_at_zero() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, scenario: &str, clients: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            let manifest = serde_json::json!({
                "format": 2, "fedcast": "0.1.0", "status": "done",
                "scenario": { "name": "hand", "hash": "00" }, "method": "hgp",
                "seeds": { "run": name.len(), "partition": 1, "class_order": 1 },
                "data": null, "backbone": null, "level": "N", "workers": 1,
                "machine": crate::experiment::Machine::here(),
            });
            std::fs::write(path.join(names::MANIFEST), manifest.to_string()).unwrap();
            std::fs::write(path.join(names::SCENARIO), scenario).unwrap();
            let table = format!("client,kind,rounds_sampled\n{clients}");
            std::fs::write(path.join(names::CLIENTS), table).unwrap();
        };
        let sampled = || {
            let arms = Arm::sort(RunRecord::find(folder.path()).unwrap());
            let [arm] = arms.as_slice() else { panic!("{} arms", arms.len()) };
            arm.sampled()
        };
        let fixed = "[federation]\nclients = 7\n";
        write("a", fixed, "0,client,3\n4,client,1\n7,load_client,9\n");
        write("ab", fixed, "6,client,2\n");
        let all = sampled();
        assert_eq!(all.len(), 2 * 7, "clients times runs: {all:?}");
        let times = |n: u64| all.iter().filter(|count| **count == n).count();
        assert_eq!([0, 1, 2, 3, 9].map(times), [11, 1, 1, 1, 0]);
        for run in ["a", "ab"] {
            let fresh = format!("{fixed}[participation]\npopulation = \"fresh\"\n");
            std::fs::write(folder.path().join(run).join(names::SCENARIO), fresh).unwrap();
        }
        assert_eq!(sampled(), [3, 1, 2]);
    }
}
