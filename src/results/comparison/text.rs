//! Comparisons as text tables.

use super::{Against, Comparison, Group, MetricRow, Parting, Verdict};
use crate::experiment::Seeds;
use crate::report::text_table::{TextTable, grouped};
use crate::results::{Metric, Paired, Spread};

/// Length to which values are cut; JSON has them in full.
const LONGEST: usize = 36;

impl Comparison {
    /// Formats the comparison as a sequence of tables.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let whole = apart(&self.groups);
        for (group, letter) in self.groups.iter().zip(letters()) {
            text.push_str(&format!("{letter}  {}\n", group.render(whole)));
            for repeat in &group.repeats {
                text.push_str(&format!("   left out: {repeat}\n"));
            }
        }
        text.push_str(&self.scenario_table());
        text.push_str(&self.partings());
        text.push('\n');
        text.push_str(&self.values(
            "metric",
            &self.metrics,
            &|metric, spread, runs| match spread {
                // Runs that never reached the accuracy are not in the mean, so their number is shown.
                Some(spread) if metric.is_until() && spread.n < runs => {
                    format!("{} ({} of {runs})", spread_of(metric, spread), spread.n)
                }
                Some(spread) => spread_of(metric, spread),
                None if metric.is_until() => "never".to_owned(),
                None => String::new(),
            },
        ));
        for (place, letter) in letters().enumerate().take(self.groups.len()).skip(1) {
            text.push_str(&self.differences(place, &letter));
        }
        text.push('\n');
        text.push_str(&self.values("bytes (mean of the runs)", &self.bytes, &|_, spread, _| {
            spread.map_or_else(String::new, |spread| grouped(spread.mean.round() as u64))
        }));
        text
    }

    fn scenario_table(&self) -> String {
        if self.scenario.is_empty() {
            let equal = self.groups.windows(2).all(|pair| pair[0].seeds == pair[1].seeds);
            return match equal {
                true => "\nthe scenarios are equal, and so are their seeds\n".to_owned(),
                false => "\nthe scenarios differ only in seeds\n".to_owned(),
            };
        }
        let head = ["scenario".to_owned()].into_iter().chain(letters().take(self.groups.len()));
        let mut table = TextTable::new(head).left(self.groups.len() + 1);
        for difference in &self.scenario.keys {
            let value = |value: &Option<String>| match value {
                Some(value) => shortened(value),
                None => "-".to_owned(),
            };
            let values = difference.values.iter().map(value);
            table.row([difference.key.clone()].into_iter().chain(values));
        }
        let mut text = match table.is_empty() {
            true => String::new(),
            false => format!("\n{}", table.render()),
        };
        for (defaults, letter) in self.scenario.defaults.iter().zip(letters()) {
            if !defaults.is_empty() {
                let defaults = defaults.join(", ");
                text.push_str(&format!(
                    "defaults of {letter} that others do not have: {defaults}\n"
                ));
            }
        }
        text
    }

    fn partings(&self) -> String {
        let mut text = String::new();
        for (parting, letter) in self.parting.iter().zip(letters().skip(1)) {
            let line = match parting {
                Some(parting) => parting.render(),
                None => "no runs of equal seeds, so no round to compare".to_owned(),
            };
            text.push_str(&format!("\n{letter} and A  {line}\n"));
        }
        text
    }

    fn values(
        &self,
        title: &str,
        rows: &[MetricRow],
        shown: &dyn Fn(&Metric, Option<&Spread>, usize) -> String,
    ) -> String {
        let head = [title.to_owned()].into_iter().chain(letters().take(self.groups.len()));
        let mut table = TextTable::new(head);
        for row in rows {
            let name = match title {
                "metric" => row.metric.heading(),
                _ => row.name.trim_start_matches("bytes_").replacen('_', "   ", 1),
            };
            let values = row.spread.iter().zip(&self.groups);
            let values = values
                .map(|(spread, group)| shown(&row.metric, spread.as_ref(), group.seeds.len()));
            table.row([name].into_iter().chain(values));
        }
        table.render()
    }

    /// Formats the differences of a group from the first.
    fn differences(&self, place: usize, letter: &str) -> String {
        let title = format!("{letter} - A");
        let head = [title.as_str(), "difference", "95 % interval", "p", "pairs", letter];
        let mut table = TextTable::new(head);
        for row in &self.metrics {
            if let Some(against) = &row.against[place - 1] {
                table.row(against.cells(&row.metric));
            } else if row.metric.is_until() {
                let text = match (&row.spread[0], &row.spread[place]) {
                    (Some(_), _) => format!("{letter} never reached it"),
                    (None, Some(_)) => "A never reached it".to_owned(),
                    (None, None) => "neither reached it".to_owned(),
                };
                table.row([row.metric.heading(), text]);
            }
        }
        format!("\n{}", table.render())
    }
}

/// Returns true if partition or class order have independent seeds.
///
/// These are neither equal in all runs nor equal to the run's seed in every run.
fn apart(groups: &[Group]) -> bool {
    let all: Vec<&Seeds> = groups.iter().flat_map(|group| &group.seeds).collect();
    let rest = |seeds: &Seeds| (seeds.partition, seeds.class_order);
    let fixed = all.windows(2).all(|pair| rest(pair[0]) == rest(pair[1]));
    let one = all.iter().all(|seeds| rest(seeds) == (seeds.run, seeds.run));
    !fixed && !one
}

impl Group {
    /// Formats the group with all three seeds of every run, or with the run's seed only.
    fn render(&self, whole: bool) -> String {
        let count = self.seeds.len();
        let runs = if count == 1 { "run" } else { "runs" };
        let seed = |seeds: &Seeds| match whole {
            true => format!("{}/{}/{}", seeds.run, seeds.partition, seeds.class_order),
            false => seeds.run.to_string(),
        };
        let seeds: Vec<String> = self.seeds.iter().map(seed).collect();
        let word = if count == 1 { "seed" } else { "seeds" };
        let word = if whole { format!("{word} (run/partition/class order)") } else { word.into() };
        let left = match self.unfinished {
            0 => String::new(),
            unfinished => format!("; {unfinished} unfinished left out"),
        };
        let seeds = seeds.join(", ");
        format!("{}  ({}, {count} {runs}, {word} {seeds}{left})", self.name, self.method)
    }
}

impl Parting {
    fn render(&self) -> String {
        let first = &self.first;
        let place = |round: Option<u64>| {
            round.map_or("in no round".to_owned(), |round| format!("from round {round}"))
        };
        let [one, other] = first.rounds;
        let rounds = match one == other {
            true if one == 1 => "1 round each".to_owned(),
            true => format!("{one} rounds each"),
            false => {
                format!("{other} {}, A has {one}", if other == 1 { "round" } else { "rounds" })
            }
        };
        format!(
            "differ in clients sampled {}, in bytes {}, in accuracy {}; {rounds} (seed {})",
            place(first.cohort),
            place(first.bytes),
            place(first.accuracy),
            self.seeds.run
        )
    }
}

impl Against {
    fn cells(&self, metric: &Metric) -> [String; 6] {
        let signed = |value: f64| metric.show_signed(value);
        let interval = |(low, high)| format!("{} to {}", signed(low), signed(high));
        let verdict = match self.verdict {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Equal => "equal",
            Verdict::Unsure => "unsure",
            Verdict::Other => "",
        };
        [
            metric.heading(),
            signed(self.difference),
            self.interval.map_or_else(String::new, interval),
            self.p.map_or_else(String::new, Paired::show_p),
            match (self.pairs, self.pairs_of_either()) {
                (0, _) => "means only".to_owned(),
                (pairs, all) if pairs < all => format!("{pairs} of {all}"),
                (pairs, _) => pairs.to_string(),
            },
            verdict.to_owned(),
        ]
    }
}

fn spread_of(metric: &Metric, spread: &Spread) -> String {
    let mean = metric.show(spread.mean);
    spread
        .deviation
        .map_or(mean.clone(), |deviation| format!("{mean} ± {}", metric.show(deviation)))
}

/// Returns the labels A, B, C, ..., and numbers after Z.
fn letters() -> impl Iterator<Item = String> {
    ('A'..='Z').map(String::from).chain((27..).map(|number: u32| number.to_string()))
}

fn shortened(value: &str) -> String {
    match value.chars().count() > LONGEST {
        true => value.chars().take(LONGEST - 1).chain(['…']).collect(),
        false => value.to_owned(),
    }
}

#[cfg(test)]
mod tests;
