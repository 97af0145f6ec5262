//! Progress on stderr: a bar on a terminal, one plain line per round otherwise.

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::extraction::Extraction;
use super::tables::{loss, micro_accuracy};
use super::words::Traffic;
use crate::federation::{Direction, Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::learning::FeatureCache;
use crate::quantity::VirtualTime;

/// Tells how far a run is.
pub struct Progress {
    bar: Option<ProgressBar>,
    tasks: u32,
    losses: Vec<f64>,
    traffic: Traffic,
    failed: u32,
    line: String,
    /// Entries of which nothing is said.
    known: u64,
    quiet: bool,
    /// Held for its end.
    extraction: Option<Extraction>,
}

impl Progress {
    /// Draws a bar where stderr is a terminal, writes plain lines where it is not.
    pub fn on_stderr() -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style =
                ProgressStyle::with_template("{bar:24} {pos}/{len} rounds  {eta} left  {msg}")
                    .expect("the template is a constant");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        Progress {
            bar,
            tasks: 0,
            losses: Vec::new(),
            traffic: Traffic::default(),
            failed: 0,
            line: String::new(),
            known: 0,
            quiet: false,
            extraction: None,
        }
    }

    /// Says nothing about so many entries: somebody has read of them before.
    pub fn after(self, known: u64) -> Progress {
        Progress { known, ..self }
    }

    /// The same, which also tells how far the frozen network behind `cache` has come.
    pub fn watching(self, cache: Arc<FeatureCache>) -> Progress {
        let bar = self.bar.clone();
        let extraction = Extraction::watch(cache, move |line| say(bar.as_ref(), line));
        Progress { extraction: Some(extraction), ..self }
    }

    fn say(&self, line: &str) {
        if !self.quiet {
            say(self.bar.as_ref(), line);
        }
    }

    fn round_line(&mut self, entry: &Entry) -> String {
        let Event::RoundClosed { round, task, folded, missing, .. } = &entry.event else {
            return String::new();
        };
        let down = self.traffic.direction(Direction::Down).sent;
        let up = self.traffic.direction(Direction::Up).sent;
        let mut line = format!(
            "task {}/{}  round {}  {folded} folded  down {down}  up {up}",
            task.0 + 1,
            self.tasks,
            round.0 + 1,
        );
        // Ideal links and clocks take no time.
        if entry.at > VirtualTime::ZERO {
            line.push_str(&format!("  at {}", entry.at));
        }
        if !missing.is_empty() {
            line.push_str(&format!("  {} missing ({} failed)", missing.len(), self.failed));
        }
        if !self.losses.is_empty() {
            let mean = self.losses.iter().sum::<f64>() / self.losses.len() as f64;
            line.push_str(&format!("  loss {mean:.3}"));
        }
        line
    }
}

fn say(bar: Option<&ProgressBar>, line: &str) {
    match bar {
        Some(bar) => bar.println(line),
        // Progress that cannot be written is not worth ending a run for.
        None => drop(writeln!(std::io::stderr(), "{line}")),
    }
}

impl EventSink for Progress {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.quiet = entry.seq < self.known;
        match &entry.event {
            Event::RunStarted { tasks, .. } => self.tasks = *tasks,
            // A guess from the first phase; methods with more phases outgrow it.
            Event::PhaseStarted { rounds, .. } => {
                if let Some(bar) = self.bar.as_ref().filter(|bar| bar.length().is_none()) {
                    bar.set_length(u64::from(*rounds) * u64::from(self.tasks));
                }
            }
            Event::RoundOpened { .. } => {
                self.losses.clear();
                self.traffic = Traffic::default();
                self.failed = 0;
            }
            Event::FrameCharged { .. } => self.traffic.take(&entry.event)?,
            Event::Trained { .. } => {
                self.losses.extend(loss(entry));
                if let Some(bar) = &self.bar {
                    bar.tick();
                }
            }
            Event::ClientFailed { client, reason, detail, .. } => {
                self.failed += 1;
                if !detail.is_empty() {
                    self.say(&format!("{client} failed ({reason}): {detail}"));
                }
            }
            Event::UpdateRejected { client, why, .. } => {
                self.say(&format!("update of {client} rejected: {why}"));
            }
            Event::RoundClosed { .. } => {
                self.line = self.round_line(entry);
                match &self.bar {
                    Some(bar) => {
                        bar.set_message(self.line.clone());
                        bar.inc(1);
                    }
                    None => self.say(&self.line),
                }
            }
            Event::Evaluated { task, point: EvaluationPoint::Task, .. } => {
                if let Some(accuracy) = entry.numbers.as_ref().and_then(micro_accuracy) {
                    let learnt = task.0 + 1;
                    self.say(&format!(
                        "task {learnt}/{} learnt: {:.2} % of all classes seen",
                        self.tasks,
                        100.0 * accuracy
                    ));
                }
            }
            Event::RunEnded { .. } => {
                self.extraction = None;
                if let Some(bar) = &self.bar {
                    bar.finish_and_clear();
                }
            }
            _ => {}
        }
        Ok(())
    }
}
