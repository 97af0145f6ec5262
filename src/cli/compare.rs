//! `fedcast compare`: comparison of runs or groups of runs.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::failure::CliError;
use super::stderr::print_status;
use super::{Exit, OutputFormat, given, print_json, print_text};
use crate::document::Document;
use crate::methods::Registry;
use crate::results::{Arm, Comparison, FoundRuns, Metric, MetricLimit, RunRecord};

/// Compare runs: settings, first differing round, metrics with paired differences, bytes by kind
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast compare runs/a runs/b
  fedcast compare studies/scale/clients=50,method=fedavg studies/scale/clients=50,method=hgp
  fedcast compare runs/old runs/new --fail-if-worse faa=0.005 --fail-if-worse bytes_up=0%
  fedcast compare runs/a runs/b --metric faa --metric rounds_to:0.8 --format json

A folder stands for the runs in it. Runs that differ only in their seeds form one group; means,
standard deviations and differences are over its runs. The first group is the baseline. Runs with
equal seeds (run, partition and class order) are paired; the interval and p are those of the paired
t test over the differences. Runs that are not complete are left out.

A tolerance is in the units of summary.json (accuracies are fractions: 0.01 is one point), or in
percent of the first group's mean (5%). A group that is worse by more gives exit code 11.")]
pub struct CompareArgs {
    /// Run directories, or folders of runs
    #[arg(required = true)]
    pub runs: Vec<PathBuf>,
    /// Metric to compare instead of the default ones; may be repeated
    #[arg(long, value_name = "NAME", value_parser = metric)]
    pub metric: Vec<Metric>,
    /// Largest tolerated loss against the first group, else exit code 11; may be repeated
    #[arg(long, value_name = "METRIC=TOLERANCE", value_parser = MetricLimit::parse)]
    pub fail_if_worse: Vec<MetricLimit>,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// A comparison as JSON.
#[derive(Serialize, Document)]
pub(super) struct PrintedComparison<'a> {
    #[document(of = "the compared groups")]
    comparison: &'a Comparison,
    /// Broken tolerances of `--fail-if-worse`.
    worse: &'a [String],
}

pub(super) fn metric(name: &str) -> Result<Metric, String> {
    Metric::parse(name).map_err(|error| error.to_string())
}

/// Compares the runs and prints the result.
pub fn execute(args: &CompareArgs, methods: &Registry) -> Result<Exit, CliError> {
    let mut groups = Vec::new();
    for path in &args.runs {
        groups.extend(named(path, methods)?);
    }
    if groups.len() < 2 {
        let what = "only one group of runs found\n  help: name another folder to compare it with";
        return Err(CliError::Usage(what.to_owned()));
    }
    let comparison = Comparison::of(groups, &args.metric, methods)?;
    let broken: Vec<String> =
        args.fail_if_worse.iter().flat_map(|limit| limit.broken(&comparison)).collect();
    match args.format {
        OutputFormat::Human => print_text(&comparison.render())?,
        OutputFormat::Json => {
            print_json(&PrintedComparison { comparison: &comparison, worse: &broken })?;
        }
    }
    broken.iter().for_each(|broken| print_status(&format!("worse: {broken}")));
    Ok(if broken.is_empty() { Exit::Done } else { Exit::Regressed })
}

/// Returns the groups of runs of a folder with their names.
fn named(path: &Path, methods: &Registry) -> Result<Vec<(String, Arm)>, CliError> {
    let arms = Arm::sort(records(path, methods)?);
    let alone = arms.len() == 1;
    let folder = path.display();
    let name = |arm: &Arm| match alone {
        true => folder.to_string(),
        false => format!("{folder}: {}", arm.label()),
    };
    for arm in &arms {
        if arm.done().next().is_none() {
            let what = format!(
                "{}: none of its runs is complete, so there is nothing to compare",
                name(arm)
            );
            return Err(CliError::Usage(what));
        }
    }
    Ok(arms.into_iter().map(|arm| (name(&arm), arm)).collect())
}

/// Returns the runs at or below a folder, or an error if there are none. Names those of another format on stderr.
pub(super) fn records(path: &Path, methods: &Registry) -> Result<Vec<RunRecord>, CliError> {
    given::check_folder_of_runs(path)?;
    let FoundRuns { runs, other_formats } = FoundRuns::below(path, methods)?;
    if runs.is_empty() {
        return Err(match other_formats.into_iter().next() {
            Some(error) => error.into(),
            None => CliError::Usage(format!("no run at or below {}", path.display())),
        });
    }
    for error in &other_formats {
        print_status(&format!("left out: {error}"));
    }
    Ok(runs)
}
