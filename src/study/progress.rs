//! Progress of a study on stderr: a bar on a terminal, else one line per finished cell.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::child::Ended;
use super::execute::StudyEvent;
use super::prepare::PreparedCell;
use super::queue::Queue;
use super::{Pace, Study};
use crate::quantity::WallSeconds;
use crate::report::say;

/// Progress display of a study.
pub struct StudyProgress<'a> {
    study: &'a Study,
    queue: &'a Queue,
    jobs: usize,
    pace: Pace,
    bar: Option<ProgressBar>,
    quiet: bool,
    /// Number of cells of this call, including those that were done before.
    all: usize,
    over: usize,
    running: Vec<usize>,
    /// Indices of cells that have ended.
    gone: Vec<usize>,
    failed: usize,
}

impl<'a> StudyProgress<'a> {
    /// Creates the display; `done` of `all` cells have ended before.
    pub fn new(
        study: &'a Study,
        queue: &'a Queue,
        jobs: usize,
        pace: Pace,
        (done, all): (usize, usize),
        quiet: bool,
    ) -> StudyProgress<'a> {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{bar:24} {pos}/{len} runs  {msg}")
                .expect("the template is a constant");
            ProgressBar::with_draw_target(Some(all as u64), ProgressDrawTarget::stderr())
                .with_style(style)
                .with_position(done as u64)
        });
        StudyProgress {
            study,
            queue,
            jobs,
            pace,
            bar,
            quiet,
            all,
            over: done,
            running: Vec::new(),
            gone: Vec::new(),
            failed: 0,
        }
    }

    /// Shows an event of the study.
    pub fn tell(&mut self, news: &StudyEvent<'_>) {
        match news {
            StudyEvent::Begun(prepared) => {
                self.running.push(prepared.cell.index);
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("{}, {}", self.name(prepared), self.rest()));
                }
            }
            StudyEvent::Taken(prepared) => {
                self.gone.push(prepared.cell.index);
                self.line(&format!("{} is left to another process", self.name(prepared)));
            }
            StudyEvent::Ended(prepared, ended, wall) => {
                self.running.retain(|index| *index != prepared.cell.index);
                let seconds = wall.as_secs_f64();
                let what = match ended {
                    Ended::Done => {
                        if let Some(passes) = self.queue.passes(prepared) {
                            self.pace.learn(&prepared.scenario.method.name, passes, seconds);
                        }
                        format!("done in {}", WallSeconds(seconds))
                    }
                    Ended::Failed(failure) => {
                        self.failed += 1;
                        format!("failed: {}", failure.error.lines().next().unwrap_or_default())
                    }
                    Ended::Interrupted => {
                        return self
                            .line(&format!("{} interrupted, resumable", self.name(prepared)));
                    }
                };
                self.over += 1;
                self.gone.push(prepared.cell.index);
                let name = self.name(prepared);
                let line = format!("[{}/{}] {name} {what}  ({})", self.over, self.all, self.rest());
                self.line(&line);
                if let Some(bar) = &self.bar {
                    bar.inc(1);
                }
            }
        }
    }

    /// Removes the progress bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Returns a short name such as `hgp clients=200 seed 2`; arms with names appear without their axis.
    fn name(&self, prepared: &PreparedCell) -> String {
        let cell = &prepared.cell;
        let parts = (0..self.study.axes.len()).filter_map(|axis| {
            let arm = self.study.arm(&cell.point, axis)?;
            let named = arm.value.is_some();
            Some(if named {
                format!("{}={}", self.study.axes[axis].name, arm.label)
            } else {
                arm.label.clone()
            })
        });
        let mut parts: Vec<String> = parts.collect();
        if parts.is_empty() {
            parts.push(self.study.label(&cell.point));
        }
        format!("{} seed {}", parts.join(" "), cell.replicate.label)
    }

    fn rest(&self) -> String {
        let mut text = format!("{} running", self.running.len());
        if self.failed > 0 {
            text.push_str(&format!(", {} failed", self.failed));
        }
        let left = |prepared: &PreparedCell| !self.gone.contains(&prepared.cell.index);
        match self.queue.seconds_left(&self.pace, self.jobs, left) {
            Some(seconds) if seconds > 0.0 => {
                text.push_str(&format!(", {} left", WallSeconds(seconds)))
            }
            _ => {}
        }
        text
    }

    fn line(&self, line: &str) {
        if !self.quiet {
            say(self.bar.as_ref(), line);
        }
    }
}
