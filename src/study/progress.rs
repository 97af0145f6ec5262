//! Progress of a study on stderr: a bar on a terminal, else one line per finished cell.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::child::Ended;
use super::execute::StudyEvent;
use super::prepare::PreparedCell;
use super::queue::Queue;
use super::{Pace, Study, StudyDirectory};
use crate::experiment::names;
use crate::quantity::WallSeconds;
use crate::report::say;
use crate::results::Sheet;

/// Interval of lines about running cells without a terminal.
const LINE: Duration = Duration::from_secs(30);

/// Running cell.
struct RunningCell<'a> {
    prepared: &'a PreparedCell,
    began: Instant,
    /// Rounds that had closed before, in a run that is resumed.
    before: u64,
    /// Rounds closed so far.
    rounds: u64,
    /// Rounds of the whole run, once it is planned.
    planned: Option<u64>,
}

impl RunningCell<'_> {
    /// Returns the seconds until the run ends, at the pace of its rounds; `None` before the first one.
    fn left(&self, elapsed: Duration) -> Option<f64> {
        let closed = self.rounds.checked_sub(self.before).filter(|closed| *closed > 0)?;
        let missing = self.planned?.saturating_sub(self.rounds);
        Some(elapsed.as_secs_f64() / closed as f64 * missing as f64)
    }

    /// Returns the seconds of the whole run at the pace of its rounds.
    fn whole(&self, elapsed: Duration) -> Option<f64> {
        let closed = self.rounds.checked_sub(self.before).filter(|closed| *closed > 0)?;
        Some(elapsed.as_secs_f64() / closed as f64 * self.planned? as f64)
    }
}

/// Progress display of a study.
pub struct StudyProgress<'a> {
    study: &'a Study,
    queue: &'a Queue,
    directory: &'a StudyDirectory,
    jobs: usize,
    pace: Pace,
    bar: Option<ProgressBar>,
    quiet: bool,
    /// Number of cells of this call, including those that were done before.
    all: usize,
    over: usize,
    running: Vec<RunningCell<'a>>,
    /// Time of the last line.
    spoke: Instant,
    /// Indices of cells that have ended.
    gone: Vec<usize>,
    failed: usize,
}

impl<'a> StudyProgress<'a> {
    /// Creates the display; `done` of `all` cells have ended before.
    pub fn new(
        study: &'a Study,
        queue: &'a Queue,
        directory: &'a StudyDirectory,
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
            directory,
            jobs,
            pace,
            bar,
            quiet,
            all,
            over: done,
            running: Vec::new(),
            spoke: Instant::now(),
            gone: Vec::new(),
            failed: 0,
        }
    }

    /// Shows an event of the study.
    pub fn show(&mut self, news: &StudyEvent<'_>) {
        match news {
            StudyEvent::Started(prepared) => {
                let before = self.closed(prepared);
                let (began, planned) = (Instant::now(), None);
                let known = |one: &&PreparedCell| one.cell.index == prepared.cell.index;
                if let Some(prepared) = self.queue.cells.iter().find(known) {
                    let one = RunningCell { prepared, began, before, rounds: before, planned };
                    self.running.push(one);
                }
                if let Some(bar) = &self.bar {
                    bar.set_message(format!("{}, {}", self.name(prepared), self.rest()));
                }
            }
            StudyEvent::Running => self.pulse(),
            StudyEvent::Taken(prepared) => {
                self.gone.push(prepared.cell.index);
                self.line(&format!("{} is left to another process", self.name(prepared)));
            }
            StudyEvent::Ended(prepared, ended, wall) => {
                self.running.retain(|one| one.prepared.cell.index != prepared.cell.index);
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

    /// Shows the rounds of running cells: in the bar, or as a line now and then.
    fn pulse(&mut self) {
        if self.quiet || (self.bar.is_none() && self.spoke.elapsed() < LINE) {
            return;
        }
        for place in 0..self.running.len() {
            let prepared = self.running[place].prepared;
            let (rounds, planned) = (self.closed(prepared), self.queue.rounds(prepared));
            let one = &mut self.running[place];
            // A run that starts from its beginning has fewer.
            (one.before, one.rounds, one.planned) = (one.before.min(rounds), rounds, planned);
        }
        let rounds = |one: &RunningCell| {
            let of = one.planned.map_or_else(String::new, |planned| format!("/{planned}"));
            format!("{} round {}{of}", self.name(one.prepared), one.rounds)
        };
        let all: Vec<String> = self.running.iter().map(rounds).collect();
        let text = format!("{}  ({})", all.join(", "), self.rest());
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None if !all.is_empty() => self.line(&format!("[{}/{}] {text}", self.over, self.all)),
            None => {}
        }
    }

    /// Returns the rounds that a cell has closed, by the rows of its table.
    fn closed(&self, prepared: &PreparedCell) -> u64 {
        let path = self.directory.run(&prepared.cell).join(names::ROUNDS);
        Sheet::read(&path).ok().flatten().map_or(0, |table| table.rows.len() as u64)
    }

    /// Estimates the seconds until all cells have ended; `None` while one of them is unknown.
    ///
    /// Running cells are estimated by their own rounds, and the others by ended and running ones.
    fn seconds_left(&self) -> Option<f64> {
        let mut pace = self.pace.clone();
        for one in &self.running {
            let name = &one.prepared.scenario.method.name;
            if let (Some(whole), Some(passes)) =
                (one.whole(one.began.elapsed()), self.queue.passes(one.prepared))
            {
                pace.learn(name, passes, whole);
            }
        }
        let left = |prepared: &&PreparedCell| !self.gone.contains(&prepared.cell.index);
        let seconds = |prepared: &PreparedCell| {
            let index = prepared.cell.index;
            let running = self.running.iter().find(|one| one.prepared.cell.index == index);
            let whole = || self.queue.seconds(&pace, prepared);
            match running {
                None => whole(),
                Some(one) => {
                    let elapsed = one.began.elapsed();
                    let rest = || Some((whole()? - elapsed.as_secs_f64()).max(0.0));
                    one.left(elapsed).or_else(rest)
                }
            }
        };
        let all: Option<Vec<f64>> = self.queue.cells.iter().filter(left).map(seconds).collect();
        Some(all?.iter().sum::<f64>() / self.jobs.max(1) as f64)
    }

    fn rest(&self) -> String {
        let mut text = format!("{} running", self.running.len());
        if self.failed > 0 {
            text.push_str(&format!(", {} failed", self.failed));
        }
        match self.seconds_left() {
            Some(seconds) if seconds > 0.0 => {
                text.push_str(&format!(", {} left", WallSeconds(seconds)))
            }
            _ => {}
        }
        text
    }

    fn line(&mut self, line: &str) {
        self.spoke = Instant::now();
        if !self.quiet {
            say(self.bar.as_ref(), line);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::methods::Registry;
    use crate::study::{Order, Outcomes, prepare};

    const STUDY: &str = "schema = 2\nbase = \"tiny.toml\"\nreplicates = 2\n[axes.method]\n\
                         a = { method = { name = \"fedavg\", train = \"head\" } }\n";

    fn with_study(check: impl FnOnce(&mut StudyProgress<'_>, &Queue, &StudyDirectory)) {
        let folder = tempfile::tempdir().unwrap();
        let tiny = include_str!("../../tests/scenarios/tiny.toml");
        fs::write(folder.path().join("tiny.toml"), tiny).unwrap();
        let study = Study::from_toml(STUDY, "a.study.toml", "a", folder.path()).unwrap();
        let directory = StudyDirectory::new(folder.path().join("out"));
        let methods = Registry::builtin();
        let (cells, invalid) = prepare(&study, &directory, &[], &methods);
        assert!(invalid.is_empty(), "{invalid:?}");
        let outcomes = Outcomes::read(&study, &cells, &directory, &methods);
        let wanted = vec![true; cells.len()];
        let queue = Queue::of(&cells, &outcomes, Order::CheapFirst, false, &wanted, &methods);
        let mut progress =
            StudyProgress::new(&study, &queue, &directory, 1, Pace::default(), (0, 2), true);
        check(&mut progress, &queue, &directory);
    }

    fn rounds(directory: &StudyDirectory, prepared: &PreparedCell, closed: usize) {
        let path = directory.run(&prepared.cell);
        fs::create_dir_all(&path).unwrap();
        let text = format!("round\n{}", "1\n".repeat(closed));
        fs::write(Path::new(&path).join(names::ROUNDS), text).unwrap();
    }

    #[test]
    fn a_running_cell_gives_an_estimate_before_any_cell_ends() {
        with_study(|progress, queue, directory| {
            assert_eq!(progress.seconds_left(), None);
            progress.show(&StudyEvent::Started(&queue.cells[0]));
            rounds(directory, &queue.cells[0], 1);
            assert_eq!(progress.closed(&queue.cells[0]), 1);
            let one = &mut progress.running[0];
            // One of two rounds took ten seconds: ten are left, and twenty for the other cell.
            (one.rounds, one.planned) = (1, queue.rounds(&queue.cells[0]));
            assert_eq!(one.planned, Some(2));
            one.began = Instant::now().checked_sub(Duration::from_secs(10)).unwrap();
            let left = progress.seconds_left().unwrap();
            assert!((left - 30.0).abs() < 1.0, "{left}");
            progress.gone.push(queue.cells[1].cell.index);
            let left = progress.seconds_left().unwrap();
            assert!((left - 10.0).abs() < 0.5, "{left}");
        });
    }

    #[test]
    fn rounds_of_an_earlier_process_are_no_pace() {
        with_study(|progress, queue, directory| {
            rounds(directory, &queue.cells[0], 1);
            progress.show(&StudyEvent::Started(&queue.cells[0]));
            let one = &progress.running[0];
            assert_eq!((one.before, one.rounds), (1, 1));
            assert_eq!(one.left(Duration::from_secs(5)), None);
        });
    }
}
