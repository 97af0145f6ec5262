//! Effective study file, with every default written out.

use std::fmt::Write;
use std::path::Path;

use toml::{Table, Value};

use super::{Axis, Baseline, GridAxes, Pick, Replicate, SCHEMA, ShardChoice, Study};
use crate::files::relative;
use crate::results::Metric;
use crate::scenario::ExpectedSection;
use crate::scenario::reader::Choice;

impl Study {
    /// Returns the study with every default, as a study file in `folder` that gives the same cells.
    ///
    /// Paths of scenarios are relative if they are in one tree with it, so that the tree can be moved.
    pub fn to_effective_toml(&self, folder: &Path) -> String {
        let mut text = String::from("# The study with every default written out.\n");
        let shown = |path: &Path| Value::from(relative(folder, path).display().to_string());
        lines(&mut text, [("schema", SCHEMA)]);
        lines(&mut text, [("study", Value::from(self.name.as_str()))]);
        lines(&mut text, self.base.as_ref().map(|base| ("base", shown(base))));
        let set = self.set.inline();
        lines(&mut text, (set != "{}").then_some(("set", set)));
        lines(&mut text, [("seeds", self.seeds())]);
        for axis in &self.axes {
            write_axis(&mut text, axis);
        }
        for picks in &self.excluded {
            text.push_str("\n[[exclude]]\n");
            lines(&mut text, self.picks(picks));
        }
        for entry in &self.settings {
            text.push_str("\n[[cell]]\n");
            lines(&mut text, self.picks(&entry.arms));
            lines(&mut text, entry.scenario.as_ref().map(|path| ("scenario", shown(path))));
            lines(&mut text, [("set", entry.set.inline())]);
            lines(&mut text, entry.expected.as_ref().map(|of| ("expected", published(of))));
        }
        for extra in &self.extras {
            text.push_str("\n[[extra]]\n");
            lines(&mut text, [("label", Value::from(extra.label.as_str()))]);
            lines(&mut text, [("set", extra.set.inline())]);
        }
        text.push_str("\n[compare]\n");
        lines(&mut text, self.compare_lines());
        text.push_str("\n[run]\n");
        lines(&mut text, self.run_lines());
        text.push_str("\n[report]\n");
        lines(&mut text, self.report_lines());
        text
    }

    fn seeds(&self) -> Value {
        let seeds = |name: &str, of: fn(&Replicate) -> u64| {
            let number = |one| Value::Integer(i64::try_from(of(one)).unwrap_or(i64::MAX));
            let all: Vec<Value> = self.replicates.iter().map(number).collect();
            (name.to_owned(), Value::from(all))
        };
        let all = [
            seeds("run", |one| one.run),
            seeds("partition", |one| one.partition),
            seeds("class_order", |one| one.class_order),
        ];
        Value::Table(all.into_iter().collect())
    }

    fn picks<'a>(&'a self, picks: &'a [Pick]) -> impl Iterator<Item = (&'a str, Value)> {
        picks.iter().map(|pick| {
            let axis = &self.axes[pick.axis];
            let arm = &axis.arms[pick.arm];
            let value = arm.value.clone().unwrap_or_else(|| arm.label.as_str().into());
            (axis.name.as_str(), value)
        })
    }

    fn compare_lines(&self) -> Vec<(&'static str, Value)> {
        let names = |metrics: &[Metric]| -> Value {
            metrics.iter().map(|metric| Value::from(metric.name())).collect::<Vec<_>>().into()
        };
        let owned = |(name, value): (&str, Value)| (name.to_owned(), value);
        let baseline: Option<Table> =
            self.compare.baseline.as_ref().map(|baseline| match baseline {
                Baseline::Arms(picks) => self.picks(picks).map(owned).collect(),
                Baseline::Extra(label) => {
                    [owned(("label", label.as_str().into()))].into_iter().collect()
                }
            });
        let mut lines = Vec::new();
        lines.extend(baseline.map(|baseline| ("baseline", Value::Table(baseline))));
        lines.push(("metrics", names(&self.compare.metrics)));
        lines.push(("warn_if_unequal", names(&self.compare.warn_if_unequal)));
        lines
    }

    fn run_lines(&self) -> Vec<(&'static str, Value)> {
        let run = &self.run;
        let jobs = run.jobs.map_or_else(|| "auto".into(), |jobs| i64::from(jobs).into());
        let mut lines = vec![
            ("jobs", jobs),
            ("order", run.order.word().into()),
            ("on_error", run.on_error.word().into()),
            ("share_features", run.share_features.into()),
            ("single_task", run.single_task.into()),
        ];
        let wall = run.limit.wall.map(|wall| ("wall", format!("{}s", wall.as_secs_f64().ceil())));
        let disk = run.limit.disk.map(|disk| ("disk", format!("{disk}B")));
        let limits: Table = wall
            .into_iter()
            .chain(disk)
            .map(|(name, text)| (name.to_owned(), text.into()))
            .collect();
        if !limits.is_empty() {
            lines.push(("limit", Value::Table(limits)));
        }
        let shard = run.shard.map(|shard| match shard {
            ShardChoice::Environment => "env".to_owned(),
            ShardChoice::Fixed(shard) => format!("{}/{}", shard.part, shard.of),
        });
        lines.extend(shard.map(|shard| ("shard", shard.into())));
        lines
    }

    fn report_lines(&self) -> Vec<(&'static str, Value)> {
        let report = &self.report;
        let mut lines = Vec::new();
        lines.extend(report.x.as_ref().map(|x| ("x", x.as_str().into())));
        lines.extend(report.series.as_ref().map(|series| ("series", series.as_str().into())));
        let plots = report.plots.iter().map(|plot| Value::from(plot.to_string()));
        lines.push(("plots", plots.collect::<Vec<_>>().into()));
        let grid = report.grid.as_ref().map(|GridAxes { rows, columns }| {
            let pair = |name: &str, axis: &String| (name.to_owned(), Value::from(axis.as_str()));
            Value::Table([pair("rows", rows), pair("columns", columns)].into_iter().collect())
        });
        lines.extend(grid.map(|grid| ("grid", grid)));
        if !report.names.is_empty() {
            let pair = |(label, name): &(String, String)| (label.clone(), name.as_str().into());
            lines.push(("names", Value::Table(report.names.iter().map(pair).collect())));
        }
        lines
    }
}

/// Returns published numbers as a table of a study file.
fn published(expected: &ExpectedSection) -> Value {
    let text = toml::to_string(expected).expect("numbers and words are representable in TOML");
    Value::Table(text.parse().expect("what was written is TOML"))
}

fn write_axis(text: &mut String, axis: &Axis) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n[axes.{}]", axis.name);
    match &axis.key {
        Some(key) => {
            let values: Vec<Value> = axis.arms.iter().filter_map(|arm| arm.value.clone()).collect();
            lines(text, [("key", Value::from(key.as_str())), ("values", values.into())]);
        }
        // One line per arm, in the order of tables.
        None => lines(text, axis.arms.iter().map(|arm| (arm.label.as_str(), arm.changes.inline()))),
    }
}

fn lines<'a>(
    text: &mut String,
    pairs: impl IntoIterator<Item = (&'a str, impl std::fmt::Display)>,
) {
    for (name, value) in pairs {
        let bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !name.is_empty();
        let name = if bare { name.to_owned() } else { Value::from(name).to_string() };
        let _ = writeln!(text, "{name} = {value}");
    }
}
