//! `fedcast runs show`: description of one run.

use std::fmt::Write as _;

use serde::Serialize;

use super::ShowArgs;
use super::table::RunRow;
use crate::cli::failure::CliError;
use crate::cli::{Exit, OutputFormat, given, print_json, print_text};
use crate::document::Document;
use crate::experiment::{Manifest, ScenarioId};
use crate::files::shell_word;
use crate::methods::Registry;
use crate::quantity::Bytes;
use crate::report::Summary;
use crate::results::{Metric, RunRecord, State};

/// Description of a run as JSON.
#[derive(Serialize, Document)]
pub(in crate::cli) struct RunDescription<'a> {
    #[document(of = "the run")]
    run: RunRow,
    #[document(of = "the run, in manifest.json")]
    manifest: &'a Manifest,
    /// Results, as in summary.json; none before the run ends.
    #[document(content = Summary::CONTENT)]
    summary: Option<&'a serde_json::Value>,
}

/// Prints the description of a run.
pub(super) fn show(args: &ShowArgs, methods: &Registry) -> Result<Exit, CliError> {
    given::run_directory(&args.run)?;
    let run = RunRecord::read_with(&args.run, methods)?;
    match args.format {
        OutputFormat::Human => print_text(&render(&run))?,
        OutputFormat::Json => {
            let (manifest, summary) = (&run.manifest, run.summary.as_ref());
            print_json(&RunDescription { run: RunRow::of(&run), manifest, summary })?;
        }
    }
    Ok(Exit::Done)
}

fn render(run: &RunRecord) -> String {
    let manifest = &run.manifest;
    let row = RunRow::of(run);
    let state = State::of(run);
    let mut text = String::new();
    let mut line = |head: &str, what: String| {
        let _ = writeln!(text, "{head:<12}{what}");
    };
    line("run", run.path.display().to_string());
    line("name", manifest.scenario.name.clone());
    line("method", manifest.method.clone());
    line(
        "status",
        match state {
            State::Done => state.to_string(),
            state => format!("{state} after round {}", row.rounds),
        },
    );
    if let Some(error) = &manifest.error {
        line("error", error.clone());
    }
    let seeds = &manifest.seeds;
    let (partition, order) = (seeds.partition, seeds.class_order);
    line("seeds", format!("run {}, partition {partition}, class order {order}", seeds.run));
    line("scenario", manifest.scenario.hash.clone());
    if let Some(forked) = &manifest.forked {
        let ScenarioId { name, hash } = &forked.scenario;
        line("forked", format!("from {name} ({hash}) after task {}", forked.after_task));
    }
    let machine = &manifest.machine;
    line(
        "computed",
        format!("fedcast {}, {}, {}", manifest.fedcast, machine.cpu, machine.platform),
    );
    let cost = &manifest.cost;
    if let (Some(started), Some(ended)) = (&cost.started, &cost.ended) {
        line("when", format!("{started} to {ended}"));
    }
    if !manifest.provenance.command.is_empty() {
        line("command", format!("fedcast {}", manifest.provenance.command.join(" ")));
    }
    if let Some(digests) = &manifest.digests {
        line("digests", digests.to_string());
    }
    let changed = row.changed.map_or_else(String::new, |at| format!(", last written {at}"));
    line("on disk", format!("{}{changed}", Bytes(row.size_bytes)));
    for metric in Metric::all() {
        if !metric.is_planned()
            && let Some(value) = run.figure(&metric)
        {
            let name = metric.name();
            let symbol = metric.unit().symbol();
            // An accuracy so far is no final one.
            line(
                if state == State::Done { "figure" } else { "so far" },
                format!("{name:<32}{:>12} {symbol}", metric.show(value)).trim_end().into(),
            );
        }
    }
    let path = shell_word(&run.path);
    match state {
        State::Done => line("verify", format!("fedcast replay {path} --verify")),
        State::Running => {}
        State::Killed | State::Interrupted | State::Failed => {
            line("resume", format!("fedcast resume {path}"));
        }
    }
    text
}
