//! Arms: groups of runs that differ only in their seeds.
//!
//! ```
//! use fedcast::results::{Arm, RunRecord};
//!
//! let arms = Arm::sort(RunRecord::find("no/such/folder".as_ref())?);
//! assert!(arms.is_empty());
//! # Ok::<(), fedcast::results::ResultsError>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use super::differences::{Flat, flatten};
use super::{Metric, Paired, RunRecord, Spread};
use crate::experiment::{Seeds, earlier_scenario};

/// Keys and tables in which runs of one arm may differ: seeds, and settings that change no result.
const FREE: [&str; 8] = [
    "seed.",
    "name",
    "expected.",
    "devices.workers",
    "cache.",
    "record.histograms",
    "record.single_task",
    "record.checkpoint.",
];

/// Axis on which a forked run differs from one that had its scenario from the beginning.
const FORK: &str = "fork";

/// Length to which values in labels are cut.
const LONGEST: usize = 40;

/// Group of runs that differ only in their seeds.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Key and value on every axis that distinguishes arms, in order; empty for a single arm.
    pub axes: Vec<(String, String)>,
    /// Runs by seeds, one for each.
    pub runs: Vec<RunRecord>,
    /// Duplicate runs, which are not counted.
    pub repeats: Vec<Repeat>,
    /// Scenario without the keys in which runs may differ.
    pub scenario: Flat,
}

/// Run left out of its arm, because the arm has another one with the same scenario and seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// Directory of the duplicate.
    pub path: PathBuf,
    /// Directory of the run that counts.
    pub same_as: PathBuf,
    /// True if both are complete but have different digests, as from different programs or machines.
    pub differs: bool,
}

impl fmt::Display for Repeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (path, same_as) = (self.path.display(), self.same_as.display());
        match self.differs {
            false => write!(f, "{path} is the same run as {same_as}"),
            true => {
                write!(f, "{path} has the scenario and seeds of {same_as}, but different digests")
            }
        }
    }
}

impl Arm {
    /// Name of the only axis of an arm outside a grid; its value is the arm's label.
    pub const CELL: &'static str = "cell";

    /// Groups runs into arms, in the order of each arm's first run.
    ///
    /// The axes are a small set of keys that distinguishes all arms.
    pub fn sort(runs: Vec<RunRecord>) -> Vec<Arm> {
        Arm::sort_cells(runs, |_| None)
    }

    /// Groups runs into arms like [`sort`](Self::sort), with a separate arm for every cell of a study.
    ///
    /// `cell` returns the label of the cell that a run belongs to. Cells may have one scenario and stay apart; a run
    /// that belongs to none joins the first arm with its scenario.
    pub fn sort_cells(
        runs: Vec<RunRecord>,
        cell: impl Fn(&RunRecord) -> Option<String>,
    ) -> Vec<Arm> {
        let mut arms: Vec<Arm> = Vec::new();
        let mut cells: Vec<Option<String>> = Vec::new();
        for run in runs {
            let mut scenario = compared(&run.scenario);
            scenario.extend(fork_origin(&run).map(|origin| (FORK.to_owned(), origin)));
            let own = cell(&run);
            let fits = |(arm, cell): &(&mut Arm, &mut Option<String>)| {
                arm.scenario == scenario && (**cell == own || cell.is_none() || own.is_none())
            };
            match arms.iter_mut().zip(&mut cells).find(fits) {
                Some((arm, cell)) => {
                    arm.runs.push(run);
                    *cell = cell.take().or(own);
                }
                None => {
                    let (axes, repeats) = (Vec::new(), Vec::new());
                    arms.push(Arm { axes, runs: vec![run], repeats, scenario });
                    cells.push(own);
                }
            }
        }
        let mut scenarios: Vec<&Flat> = Vec::new();
        for arm in &arms {
            if !scenarios.contains(&&arm.scenario) {
                scenarios.push(&arm.scenario);
            }
        }
        let mut keys = distinguishing_keys(&scenarios);
        let is_forked = |flat: &&Flat| flat.contains_key(FORK);
        if scenarios.len() > 1
            && scenarios.iter().any(is_forked)
            && !keys.iter().any(|key| key == FORK)
        {
            keys.insert(0, FORK.to_owned());
        }
        for arm in &mut arms {
            let value = |key: &String| arm.scenario.get(key).map_or("none", String::as_str);
            arm.axes = keys.iter().map(|key| (short(key), short_value(value(key)))).collect();
            arm.leave_out_repeats();
        }
        arms
    }

    /// Moves duplicates (equal seeds in an arm) to `repeats`; keeps a complete run if any, else the first.
    fn leave_out_repeats(&mut self) {
        self.runs.sort_by_key(|run| (seeds(&run.manifest.seeds), !run.is_done()));
        let mut kept: Vec<RunRecord> = Vec::new();
        for run in std::mem::take(&mut self.runs) {
            match kept.last() {
                Some(known) if known.manifest.seeds == run.manifest.seeds => {
                    let digests = |run: &RunRecord| run.manifest.digests.clone();
                    let both = digests(known).zip(digests(&run));
                    let differs = both.is_some_and(|(known, other)| known != other);
                    let (path, same_as) = (run.path, known.path.clone());
                    self.repeats.push(Repeat { path, same_as, differs });
                }
                _ => kept.push(run),
            }
        }
        self.runs = kept;
    }

    /// Returns a label such as `clients=100, method=hgp`; for a single arm the method's name.
    pub fn label(&self) -> String {
        let axis = |(key, value): &(String, String)| format!("{key}={value}");
        match self.axes.as_slice() {
            [] => self.runs.first().map_or_else(String::new, |run| run.manifest.method.clone()),
            [(key, value)] if key == "method" || key == Arm::CELL => value.clone(),
            axes => axes.iter().map(axis).collect::<Vec<_>>().join(", "),
        }
    }

    /// Returns the arm's value on an axis.
    pub fn axis(&self, key: &str) -> Option<&str> {
        self.axes.iter().find(|(axis, _)| axis == key).map(|(_, value)| value.as_str())
    }

    /// Returns the complete runs.
    pub fn done(&self) -> impl Iterator<Item = &RunRecord> {
        self.runs.iter().filter(|run| run.is_done())
    }

    /// Returns the values of a metric in the complete runs that have it.
    pub fn figures(&self, metric: &Metric) -> Vec<f64> {
        self.done().filter_map(|run| run.figure(metric)).collect()
    }

    /// Returns the values of a metric with the seeds (run, partition, class order) of their runs.
    pub fn seeded_figures(&self, metric: &Metric) -> Vec<((u64, u64, u64), f64)> {
        let figure = |run: &RunRecord| Some((seeds(&run.manifest.seeds), run.figure(metric)?));
        self.done().filter_map(figure).collect()
    }

    /// Returns mean and deviation of a metric over the complete runs.
    pub fn spread(&self, metric: &Metric) -> Option<Spread> {
        Spread::of(&self.figures(metric))
    }

    /// Returns the paired differences from another arm, this one minus the other, over equal seeds.
    pub fn against(&self, other: &Arm, metric: &Metric) -> Option<Paired> {
        let pairs = self.pairs(other);
        let figures = |(one, two): &(&RunRecord, &RunRecord)| {
            Some((one.figure(metric)?, two.figure(metric)?))
        };
        Paired::of(&pairs.iter().filter_map(figures).collect::<Vec<_>>())
    }

    /// Returns the pairs of complete runs of both arms with all three seeds equal.
    pub fn pairs<'a>(&'a self, other: &'a Arm) -> Vec<(&'a RunRecord, &'a RunRecord)> {
        let by_seeds: BTreeMap<_, &RunRecord> =
            other.done().map(|run| (seeds(&run.manifest.seeds), run)).collect();
        let mut met = BTreeSet::new();
        let own = self.done().filter(|run| met.insert(seeds(&run.manifest.seeds)));
        own.filter_map(|run| Some((run, *by_seeds.get(&seeds(&run.manifest.seeds))?))).collect()
    }
}

/// Returns the keys of a scenario in which runs of one arm are equal.
fn compared(scenario: &toml::Table) -> Flat {
    let mut flat = flatten(scenario);
    flat.retain(|key, _| !FREE.iter().any(|free| is_below(key, free)));
    flat
}

/// Returns what a forked run began with, as `after task 2 of 1f2e3d4c`; `None` if it was not forked.
///
/// The digest is of the earlier scenarios without their seeds, so that it is equal in forks of all seeds.
fn fork_origin(run: &RunRecord) -> Option<String> {
    let forked = run.manifest.forked.as_ref()?;
    let mut digest = blake3::Hasher::new();
    for before in &forked.before {
        let text = earlier_scenario(&run.path, before).unwrap_or_default();
        let scenario = text.parse::<toml::Table>().unwrap_or_default();
        digest.update(format!("{} {:?}", before.until_task, compared(&scenario)).as_bytes());
    }
    let digest = digest.finalize().to_hex();
    Some(format!("after task {} of {}", forked.after_task, &digest[..8]))
}

fn seeds(seeds: &Seeds) -> (u64, u64, u64) {
    (seeds.run, seeds.partition, seeds.class_order)
}

fn is_below(key: &str, table: &str) -> bool {
    if table.ends_with('.') { key.starts_with(table) } else { key == table }
}

/// Chooses keys that distinguish all scenarios, greedily: each key yields the most distinct scenarios.
///
/// The method is last, which is best for tables.
fn distinguishing_keys(scenarios: &[&Flat]) -> Vec<String> {
    let all: BTreeSet<&String> = scenarios.iter().flat_map(|flat| flat.keys()).collect();
    let mut keys: Vec<&String> = Vec::new();
    let classes = |keys: &[&String]| {
        let of = |flat: &&Flat| keys.iter().map(|key| flat.get(*key).cloned()).collect::<Vec<_>>();
        scenarios.iter().map(of).collect::<BTreeSet<_>>().len()
    };
    while classes(&keys) < scenarios.len() {
        let more = |key: &&String| {
            let with: Vec<&String> = keys.iter().copied().chain([*key]).collect();
            // Names are better than numbers that follow from them, and keys in all scenarios better than others.
            let everywhere = scenarios.iter().all(|flat| flat.contains_key(*key));
            let named = ["method.name", "federation.clients"].contains(&key.as_str());
            let brief = usize::MAX - key.split('.').count();
            (classes(&with), named, everywhere, key.ends_with("preset"), brief)
        };
        // The first of equals, because `max_by_key` takes the last.
        let Some(best) = all.iter().copied().rev().max_by_key(more) else { break };
        if keys.contains(&best) {
            break;
        }
        keys.push(best);
    }
    keys.sort_by_key(|key| *key == "method.name");
    keys.into_iter().cloned().collect()
}

/// Returns the short form of a key.
fn short(key: &str) -> String {
    match key {
        "method.name" => "method".to_owned(),
        "federation.clients" => "clients".to_owned(),
        key => key.to_owned(),
    }
}

/// Returns a TOML value for a label, without quotes and cut to [`LONGEST`].
fn short_value(value: &str) -> String {
    let value = value.trim_matches('"');
    match value.chars().count() > LONGEST {
        true => value.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(texts: &[&str]) -> Vec<String> {
        let flats: Vec<Flat> = texts.iter().map(|text| flatten(&text.parse().unwrap())).collect();
        distinguishing_keys(&flats.iter().collect::<Vec<_>>())
    }

    #[test]
    fn few_keys_distinguish_arms_and_the_method_is_last() {
        let texts = [
            "federation.clients = 10\nmethod = { name = \"a\", x = 1 }\nz = 10",
            "federation.clients = 20\nmethod = { name = \"a\", x = 1 }\nz = 20",
            "federation.clients = 10\nmethod = { name = \"b\", y = 1 }\nz = 10",
            "federation.clients = 20\nmethod = { name = \"b\", y = 1 }\nz = 20",
        ];
        assert_eq!(keys(&texts), ["federation.clients", "method.name"]);
        assert_eq!(keys(&texts[..1]), [""; 0]);
        let deep = ["a = { b = 1, preset = \"x\" }", "a = { b = 2, preset = \"y\" }"];
        assert_eq!(keys(&deep), ["a.preset"]);
    }

    #[test]
    fn labels_are_without_quotes_and_end() {
        assert_eq!(short_value("\"hgp\""), "hgp");
        assert_eq!(short_value(&"1".repeat(50)).chars().count(), LONGEST);
        assert!(is_below("seed.run", "seed.") && !is_below("names", "name"));
    }
}
