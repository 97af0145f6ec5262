//! `wall.csv`: wall time of every round on this machine, by kind of work.
//!
//! A round lasts from its opening to that of the next one, its test and its checkpoint included. Work of the workers
//! counts for the round in which they report it; they report every few milliseconds, so a short job may be counted
//! with the next round. This is the only table that differs from run to run: it is not part of the digests, and no
//! replay writes it. A resumed run keeps the rows of the rounds that it reads from its journal.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use serde::Serialize;

use super::column::{Columns, ROUND, TASK};
use super::csv::Number;
use super::kept_table::KeptTable;
use crate::experiment::{DirectoryError, RunDirectory, names};
use crate::federation::{Entry, Event, EventSink, JobKind, ProfileSink, SinkError, Span};

/// Kinds of work of each column, from `train_s` on.
const KINDS: [&[JobKind]; 6] = [
    &[JobKind::Train, JobKind::Retry],
    &[JobKind::Evaluate],
    &[JobKind::Codec],
    &[JobKind::Aggregate],
    &[JobKind::Server, JobKind::Bias],
    &[JobKind::Idle],
];

#[derive(Columns, Serialize)]
pub(in crate::report) struct Row {
    #[column(as_in = ROUND)]
    round: u32,
    #[column(as_in = TASK)]
    task: u32,
    /// Wall time from the opening of the round to that of the next one, or to the end of its task.
    wall_s: Option<Number>,
    /// Part of it until the round closed: training, messages, aggregation.
    closed_s: Option<Number>,
    /// Rest of it: the test of the global model and the checkpoint.
    evaluated_s: Option<Number>,
    /// Sum over workers: local training.
    train_s: Option<Number>,
    /// Sum over workers: tests of the global model.
    evaluate_s: Option<Number>,
    /// Sum over workers: packing, coding and digesting of messages.
    codec_s: Option<Number>,
    /// Sum over workers: checking and aggregation of updates.
    aggregate_s: Option<Number>,
    /// Sum over workers: the server's own training, and comparison of client models.
    server_s: Option<Number>,
    /// Sum over workers: waiting for a job.
    wait_s: Option<Number>,
}

/// Round that is open.
struct Open {
    round: u32,
    task: u32,
    began: Instant,
    closed: Option<Instant>,
    recorded: bool,
}

/// Writes one row per round.
pub struct WallTable {
    table: KeptTable<Row>,
    open: Option<Open>,
    /// Nanoseconds that workers spent since the round was opened.
    spent: BTreeMap<JobKind, u64>,
    /// Number of entries that an earlier process computed.
    recorded: u64,
    /// Cells of rounds that an earlier process computed, without round and task.
    before: BTreeMap<u32, Vec<Option<f64>>>,
}

impl WallTable {
    /// Creates the file of a run whose first `recorded` entries an earlier process computed.
    pub fn create(directory: &RunDirectory, recorded: u64) -> Result<WallTable, DirectoryError> {
        let path = directory.path().join(names::WALL);
        let before = match recorded {
            0 => BTreeMap::new(),
            _ => std::fs::read(&path).map(|text| earlier(&text)).unwrap_or_default(),
        };
        let table = KeptTable::create(directory, names::WALL, recorded > 0)?;
        Ok(WallTable { table, open: None, spent: BTreeMap::new(), recorded, before })
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let cells: Vec<Option<f64>> = match open.recorded {
            true => self.before.remove(&open.round).unwrap_or_default(),
            false => {
                let closed = open.closed.map(|at| (at - open.began).as_secs_f64());
                let tested = open.closed.map(|at| at.elapsed().as_secs_f64());
                let spent = |kind: &JobKind| self.spent.get(kind).copied().unwrap_or_default();
                let of_kinds =
                    |kinds: &&[JobKind]| Some(kinds.iter().map(spent).sum::<u64>() as f64 / 1e9);
                let whole = Some(open.began.elapsed().as_secs_f64());
                [whole, closed, tested].into_iter().chain(KINDS.iter().map(of_kinds)).collect()
            }
        };
        let cell = |place: usize| cells.get(place).copied().flatten().map(Number);
        self.table.row(&Row {
            round: open.round,
            task: open.task,
            wall_s: cell(0),
            closed_s: cell(1),
            evaluated_s: cell(2),
            train_s: cell(3),
            evaluate_s: cell(4),
            codec_s: cell(5),
            aggregate_s: cell(6),
            server_s: cell(7),
            wait_s: cell(8),
        })
    }
}

/// Returns the rows of a file that an earlier process began.
fn earlier(text: &[u8]) -> BTreeMap<u32, Vec<Option<f64>>> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
    let rows = reader.records().filter_map(Result::ok);
    let row = |row: csv::StringRecord| {
        let cells = row.iter().skip(2).map(|cell| cell.parse().ok()).collect();
        Some((row.get(0)?.parse().ok()?, cells))
    };
    rows.filter_map(row).collect()
}

impl EventSink for WallTable {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let recorded = entry.seq < self.recorded;
        if !recorded {
            if self.open.as_ref().is_some_and(|open| open.recorded) {
                self.end()?;
            }
            self.table.kept_all()?;
        }
        match &entry.event {
            Event::RoundOpened { round, task, .. } => {
                self.end()?;
                let (round, task) = (round.0 + 1, u32::from(task.0) + 1);
                self.spent.clear();
                self.open =
                    Some(Open { round, task, began: Instant::now(), closed: None, recorded });
            }
            Event::RoundClosed { .. } => {
                self.open.iter_mut().for_each(|open| open.closed = Some(Instant::now()));
            }
            Event::TaskEnded { .. } | Event::RunEnded { .. } => self.end()?,
            _ => {}
        }
        Ok(())
    }
}

impl ProfileSink for WallTable {
    fn record(&mut self, span: &Span) {
        if span.worker.is_some() {
            *self.spent.entry(span.job).or_default() += span.wall;
        }
    }
}
