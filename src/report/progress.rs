//! Progress on stderr: a bar on a terminal, one plain line per round otherwise.

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::extraction::Extraction;
use super::pace::Pace;
use super::tables::{loss, micro_accuracy};
use super::words::Traffic;
use crate::federation::{Direction, Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::learning::FeatureCache;
use crate::quantity::WallSeconds;
use crate::quantity::{Round, VirtualTime};

/// Where lines are written, so long nothing is said before a round tells how far it is.
const SILENCE: Duration = Duration::from_secs(20);

/// Tells how far a run is.
pub struct Progress {
    bar: Option<ProgressBar>,
    tasks: u32,
    pace: Pace,
    /// Since the first entry that was not told.
    began: Option<Instant>,
    /// When something was said last.
    said: Instant,
    losses: Vec<f64>,
    traffic: Traffic,
    failed: u32,
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
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} rounds  {prefix}{msg}")
                .expect("the template is a constant");
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style)
        });
        Progress {
            bar,
            tasks: 0,
            pace: Pace::default(),
            began: None,
            said: Instant::now(),
            losses: Vec::new(),
            traffic: Traffic::default(),
            failed: 0,
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

    fn say(&mut self, line: &str) {
        if !self.quiet {
            say(self.bar.as_ref(), line);
            self.said = Instant::now();
        }
    }

    /// `3 min 20 s left`, once that can be said.
    fn left(&self) -> Option<String> {
        let spent = self.began?.elapsed();
        // Whole seconds: tenths would only flicker.
        Some(format!("{} left", WallSeconds(self.pace.left(spent)?.as_secs_f64().ceil())))
    }

    /// Tells how far the open round is: on the bar always, as a line when nothing was said for long.
    fn within_round(&mut self, round: Round) {
        let so_far =
            format!("round {}: {} of {} done", round.0 + 1, self.pace.came, self.pace.participants);
        match &self.bar {
            Some(bar) => bar.set_message(so_far),
            None if self.said.elapsed() >= SILENCE => {
                let left = self.left().map_or_else(String::new, |left| format!("  {left}"));
                self.say(&format!("{so_far}{left}"));
            }
            None => {}
        }
    }

    /// Puts numbers of rounds and time left on the bar.
    fn show_pace(&self) {
        let Some(bar) = &self.bar else { return };
        if self.pace.rounds() > 0 {
            bar.set_length(self.pace.rounds());
        }
        bar.set_position(self.pace.done);
        bar.set_prefix(self.left().map_or_else(String::new, |left| format!("{left}  ")));
    }

    fn round_line(&mut self, entry: &Entry) -> String {
        let Event::RoundClosed { round, task, folded, missing, .. } = &entry.event else {
            return String::new();
        };
        let down = self.traffic.direction(Direction::Down).sent;
        let up = self.traffic.direction(Direction::Up).sent;
        let mut line = format!(
            "task {}/{}  round {}  {folded} aggregated  down {down}  up {up}",
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

/// Writes a line above the bar, or on stderr where there is none.
pub(crate) fn say(bar: Option<&ProgressBar>, line: &str) {
    match bar {
        Some(bar) => bar.println(line),
        // Progress that cannot be written is not worth ending anything for.
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
            Event::Trained { round, .. } => {
                self.losses.extend(loss(entry));
                self.within_round(*round);
            }
            Event::Skipped { round, .. } => self.within_round(*round),
            Event::ClientFailed { round, client, reason, detail, .. } => {
                self.failed += 1;
                self.within_round(*round);
                if !detail.is_empty() {
                    self.say(&format!("{client} failed ({reason}): {detail}"));
                }
            }
            Event::UpdateRejected { client, why, .. } => {
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
