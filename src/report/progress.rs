//! Progress on stderr: a bar on a terminal, one plain line per round otherwise.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::extraction::extraction;
use super::pace::ProgressCounts;
use super::server_steps::server_steps;
use super::tables::{loss, micro_accuracy};
use super::watcher::NewsWatcher;
use super::words::Traffic;
use crate::federation::{Direction, Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::learning::{FeatureCache, StepCount};
use crate::quantity::WallSeconds;
use crate::quantity::{Round, VirtualTime};

/// Time without output after which a line reports the progress within a round (no terminal).
const SILENCE: Duration = Duration::from_secs(20);

/// Progress display of a run, on stderr.
pub struct Progress {
    bar: Option<ProgressBar>,
    tasks: u32,
    pace: ProgressCounts,
    /// Time of the first entry computed by this process.
    began: Option<Instant>,
    /// Time of the last line.
    last_report: Instant,
    losses: Vec<f64>,
    traffic: Traffic,
    failed: u32,
    /// Number of entries that were reported before and are skipped.
    known: u64,
    quiet: bool,
    /// Watcher of work that records no entries; dropping it stops its thread.
    watcher: Option<NewsWatcher>,
}

impl Progress {
    /// Reports by a bar if stderr is a terminal, by plain lines otherwise.
    pub fn on_stderr() -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} rounds  {prefix}{msg}")
                .expect("the template is a constant");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        Progress {
            bar,
            tasks: 0,
            pace: ProgressCounts::default(),
            began: None,
            last_report: Instant::now(),
            losses: Vec::new(),
            traffic: Traffic::default(),
            failed: 0,
            known: 0,
            quiet: false,
            watcher: None,
        }
    }

    /// Skips the first `known` entries, which were reported before.
    pub fn after(self, known: u64) -> Progress {
        Progress { known, ..self }
    }

    /// Also reports the progress of feature extraction of `cache`, and the server's `steps`.
    pub fn watching(self, cache: Arc<FeatureCache>, steps: Arc<StepCount>) -> Progress {
        let bar = self.bar.clone();
        let news = vec![extraction(cache), server_steps(steps)];
        let watcher = NewsWatcher::watch(news, move |line| say(bar.as_ref(), line));
        Progress { watcher: Some(watcher), ..self }
    }

    fn say(&mut self, line: &str) {
        if !self.quiet {
            say(self.bar.as_ref(), line);
            self.last_report = Instant::now();
        }
    }

    /// Returns text such as `3 min 20 s left` once there is an estimate.
    fn left(&self) -> Option<String> {
        let spent = self.began?.elapsed();
        // Whole seconds, since tenths would flicker.
        Some(format!("{} left", WallSeconds(self.pace.left(spent)?.as_secs_f64().ceil())))
    }

    /// Reports progress within the open round: on the bar, or as a line after a long silence.
    fn within_round(&mut self, round: Round) {
        let so_far =
            format!("round {}: {} of {} done", round.0 + 1, self.pace.came, self.pace.participants);
        match &self.bar {
            Some(bar) => bar.set_message(so_far),
            None if self.last_report.elapsed() >= SILENCE => {
                let left = self.left().map_or_else(String::new, |left| format!("  {left}"));
                self.say(&format!("{so_far}{left}"));
            }
            None => {}
        }
    }

    /// Shows the numbers of rounds and the time left on the bar.
    fn show_pace(&self) {
        let Some(bar) = &self.bar else { return };
        if self.pace.rounds() > 0 {
            bar.set_length(self.pace.rounds());
        }
        bar.set_position(self.pace.done);
        bar.set_prefix(self.left().map_or_else(String::new, |left| format!("{left}  ")));
    }

    fn round_line(&mut self, entry: &Entry) -> String {
        let Event::RoundClosed { round, task, aggregated, missing, .. } = &entry.event else {
            return String::new();
        };
        let down = self.traffic.direction(Direction::Down).sent;
        let up = self.traffic.direction(Direction::Up).sent;
        let mut line = format!(
            "task {}/{}  round {}  {aggregated} aggregated  down {down}  up {up}",
            task.0 + 1,
            self.tasks,
            round.0 + 1,
        );
        // With ideal links and devices virtual time stays 0.
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

/// Writes a line above the bar, or on stderr without one.
pub(crate) fn say(bar: Option<&ProgressBar>, line: &str) {
    match bar {
        Some(bar) => bar.println(line),
        // Failure to write progress ends no run.
        None => drop(writeln!(std::io::stderr(), "{line}")),
    }
}

impl EventSink for Progress {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.quiet = entry.seq < self.known;
        if !self.quiet {
            self.began.get_or_insert_with(Instant::now);
        }
        self.pace.take(&entry.event, self.quiet);
        match &entry.event {
            Event::RunStarted { tasks, .. } => self.tasks = *tasks,
            Event::RoundOpened { .. } => {
                self.losses.clear();
                self.traffic = Traffic::default();
                self.failed = 0;
            }
            Event::FrameCharged { .. } => self.traffic.take(&entry.event)?,
            Event::ClientTrained { round, .. } => {
                self.losses.extend(loss(entry));
                self.within_round(*round);
            }
            Event::ClientSkipped { round, .. } => self.within_round(*round),
            Event::ClientFailed { round, client, reason, detail, .. } => {
                self.failed += 1;
                self.within_round(*round);
                if !detail.is_empty() {
                    self.say(&format!("{client} failed ({reason}): {detail}"));
                }
            }
            Event::UpdateRejected { client, reason: why, .. } => {
                self.say(&format!("update of {client} rejected: {why}"));
            }
            Event::RoundClosed { .. } => {
                let line = self.round_line(entry);
                match &self.bar {
                    Some(bar) => bar.set_message(line),
                    None => self.say(&line),
                }
            }
            Event::Evaluated { task, point: EvaluationPoint::Task, .. } => {
                if let Some(accuracy) = entry.numbers.as_ref().and_then(micro_accuracy) {
                    let done = task.0 + 1;
                    self.say(&format!(
                        "task {done}/{} done: accuracy {:.2} % on all classes seen",
                        self.tasks,
                        100.0 * accuracy
                    ));
                }
            }
            Event::RunEnded { .. } => {
                self.watcher = None;
                if let Some(bar) = self.bar.take() {
                    bar.finish_and_clear();
                }
            }
            _ => {}
        }
        self.show_pace();
        Ok(())
    }
}
