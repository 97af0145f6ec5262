//! `wall.csv`: how long every round took on this machine.
//!
//! A round lasts from its opening to that of the next one, its test and its checkpoint included. The file is the only table
//! that differs from run to run: it is outside both digests and no replay writes it. A resumed run keeps the rows of the
//! rounds that it is only told of.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::time::Instant;

use serde::Serialize;

use super::column::{Column, ROUND, TASK, float};
use super::csv::{Csv, Number};
use crate::experiment::{DirectoryError, RunDirectory, names};
use crate::federation::{Entry, Event, EventSink, SinkError};

pub(in crate::report) const COLUMNS: &[Column] = &[
    ROUND,
    TASK,
    float(
        "wall_s",
        "s",
        "wall time from the opening of the round to that of the next one, or to the end of its task",
    ),
    float(
        "closed_s",
        "s",
        "the part of it until the round closed: training, messages, aggregation",
    ),
    float("tested_s", "s", "the rest: the test of the global model and the checkpoint"),
];

#[derive(Default, Serialize)]
struct Row {
    round: u32,
    task: u32,
    wall_s: Option<Number>,
    closed_s: Option<Number>,
    tested_s: Option<Number>,
}

/// The round at hand.
struct Open {
    round: u32,
    task: u32,
    began: Instant,
    closed: Option<Instant>,
    told: bool,
}

/// Writes one row per round.
pub struct WallTable {
    csv: Csv<File, Row>,
    open: Option<Open>,
    /// Entries that the run is told of.
    told: u64,
    /// Cells of rounds that were computed before this process, after those of round and task.
    before: BTreeMap<u32, Vec<Option<f64>>>,
}

impl WallTable {
    /// Begins the file of a run, whose first `told` entries another process computed.
    pub fn create(directory: &RunDirectory, told: u64) -> Result<WallTable, DirectoryError> {
        let path = directory.path().join(names::WALL);
        let before = match told {
            0 => BTreeMap::new(),
            _ => std::fs::read(&path).map(|text| earlier(&text)).unwrap_or_default(),
        };
        let created = File::create(&path).and_then(Csv::new);
        let csv = created.map_err(|source| DirectoryError::Write { path, source })?;
        Ok(WallTable { csv, open: None, told, before })
    }

    fn end(&mut self) -> io::Result<()> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let cells = match open.told {
            true => self.before.remove(&open.round).unwrap_or_default(),
            false => {
                let closed = open.closed.map(|at| (at - open.began).as_secs_f64());
                let tested = open.closed.map(|at| at.elapsed().as_secs_f64());
                vec![Some(open.began.elapsed().as_secs_f64()), closed, tested]
            }
        };
        let cell = |place: usize| cells.get(place).copied().flatten().map(Number);
        let (round, task) = (open.round, open.task);
        let (wall_s, closed_s, tested_s) = (cell(0), cell(1), cell(2));
        self.csv.row(&Row { round, task, wall_s, closed_s, tested_s })
    }
}

/// The rows of a file that another process began.
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
        match &entry.event {
            Event::RoundOpened { round, task, .. } => {
                self.end()?;
                let (round, task) = (round.0 + 1, u32::from(task.0) + 1);
                let told = entry.seq < self.told;
                self.open = Some(Open { round, task, began: Instant::now(), closed: None, told });
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
