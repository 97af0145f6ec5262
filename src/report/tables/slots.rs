//! `slots.csv`: accuracy of every client's own tasks at the end of every period, counted from 1; clients from 0. Only
//! written where clients have such tasks. `own` counts answers among the rows of the slot, `all` those among the rows of
//! all slots begun and is empty where that was not asked.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use crate::federation::{Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::report::csv::Csv;

/// Writes one row per period and slot begun.
pub struct SlotsTable {
    path: PathBuf,
    /// Once there is something to write.
    csv: Option<Csv<File>>,
}

const HEAD: [&str; 9] = [
    "learnt",
    "period",
    "client",
    "finished",
    "right_own",
    "right_all",
    "images",
    "accuracy_own",
    "accuracy_all",
];

impl SlotsTable {
    /// Writes nothing yet.
    pub fn new(path: PathBuf) -> SlotsTable {
        SlotsTable { path, csv: None }
    }

    fn csv(&mut self) -> io::Result<&mut Csv<File>> {
        let csv = match self.csv.take() {
            Some(csv) => csv,
            None => Csv::new(File::create(&self.path)?, &HEAD)?,
        };
        Ok(self.csv.insert(csv))
    }
}

impl EventSink for SlotsTable {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let Event::Evaluated { task, point: EvaluationPoint::Task, .. } = &entry.event else {
            return Ok(());
        };
        let scores = entry.numbers.iter().flat_map(|numbers| &numbers.slots);
        for score in scores {
            let share = |right: u64| (right as f64 / score.total.max(1) as f64).to_string();
            let all = Option::unwrap_or_default;
            self.csv()?.row(&[
                (task.0 + 1).to_string(),
                (score.task.0 + 1).to_string(),
                score.client.0.to_string(),
                u8::from(score.finished).to_string(),
                score.within.to_string(),
                all(score.correct.map(|right| right.to_string())),
                score.total.to_string(),
                share(score.within),
                all(score.correct.map(share)),
            ])?;
        }
        match &mut self.csv {
            Some(csv) => Ok(csv.flush()?),
            None => Ok(()),
        }
    }
}
