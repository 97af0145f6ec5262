//! `tensorboard/events.out.tfevents.…`: scalars of a run for TensorBoard, from the journal's entries.
//!
//! Scalars of rounds (`round/…`, `total/…`) have the round as their step, those of tasks (`task/…`) the task, both
//! from 1. Those of a round are the numbers of its row in `rounds.csv`, written once the row is final; totals add rows
//! up. The field for wall time holds the virtual time in seconds at which the round closed or the task was evaluated,
//! so that a replay writes the same file.

mod record;

use std::io::{self, Write};
use std::path::PathBuf;

use super::accuracy::TaskScores;
use super::tables::{RoundRow, RoundRows};
use crate::federation::{ClosingPolicy, Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::files::{Disk, DiskFile};
use record::{Scalar, scalars, version};

/// Only file of the folder. TensorBoard reads every file whose name contains `tfevents`.
pub(super) const FILE: &str = "events.out.tfevents.0.fedcast";

/// Writes the file, which begins with its first scalar.
pub struct Tensorboard {
    target: EventFile,
    rows: RoundRows,
    total_down: u64,
    total_up: u64,
    scores: TaskScores,
}

enum EventFile {
    /// Folder in which the file is not created yet.
    Folder(Disk, PathBuf),
    Open(DiskFile),
}

impl Tensorboard {
    /// Writes into this folder, which is created with the first scalar.
    ///
    /// Rounds close by the given rule.
    pub fn new(disk: Disk, folder: PathBuf, closing: ClosingPolicy) -> Tensorboard {
        Tensorboard {
            target: EventFile::Folder(disk, folder),
            rows: RoundRows::new(closing),
            total_down: 0,
            total_up: 0,
            scores: TaskScores::default(),
        }
    }

    fn open(&mut self) -> io::Result<&mut DiskFile> {
        if let EventFile::Folder(disk, folder) = &self.target {
            disk.create_folder(folder)?;
            let mut file = disk.create(&folder.join(FILE))?;
            file.write_all(&version())?;
            self.target = EventFile::Open(file);
        }
        match &mut self.target {
            EventFile::Open(file) => Ok(file),
            EventFile::Folder(..) => Err(io::Error::other("it was opened just now")),
        }
    }
}

/// Scalars of one step.
struct StepScalars {
    virtual_s: f64,
    step: u64,
    values: Vec<Scalar>,
}

impl Tensorboard {
    fn write(&mut self, point: &StepScalars) -> io::Result<()> {
        match point.values.is_empty() {
            true => Ok(()),
            false => self.open()?.write_all(&scalars(point.virtual_s, point.step, &point.values)),
        }
    }

    /// Returns the scalars of a final row of `rounds.csv`, with the totals up to its round.
    fn of_round(&mut self, row: &RoundRow) -> StepScalars {
        self.total_down += row.bytes_down;
        self.total_up += row.bytes_up;
        let virtual_s = row.closed_s.unwrap_or(row.opened_s).0;
        let optional = [("round/loss", row.loss), ("round/accuracy_seen", row.accuracy_seen)];
        let known = optional.into_iter().filter_map(|(tag, value)| Some(scalar(tag, value?.0)));
        let counts = [
            ("round/aggregated", f64::from(row.aggregated)),
            ("round/failed", f64::from(row.failed)),
            ("round/bytes_down", row.bytes_down as f64),
            ("round/bytes_up", row.bytes_up as f64),
            ("total/bytes_down", self.total_down as f64),
            ("total/bytes_up", self.total_up as f64),
            ("total/virtual_s", virtual_s),
        ];
        let values = known.chain(counts.map(|(tag, value)| scalar(tag, value))).collect();
        StepScalars { virtual_s, step: row.round, values }
    }

    fn of_task(&self, virtual_s: f64) -> Vec<Scalar> {
        let accuracy = self.scores.accuracy();
        let last = accuracy.matrix.last().into_iter().flatten().zip(1..);
        // A task without test samples has no point.
        let tasks = last.filter_map(|(share, task): (&Option<f64>, u32)| {
            Some(Scalar { tag: format!("task/accuracy_of_{task:02}"), value: (*share)? as f32 })
        });
        let metrics = [
            ("task/average_accuracy", accuracy.faa),
            ("task/accuracy_seen", accuracy.micro),
            ("task/forgetting", accuracy.forgetting),
            ("task/forgetting_from_best", accuracy.forgetting_from_best),
            ("task/virtual_s", Some(virtual_s)),
        ];
        // Nothing can be forgotten before the second task.
        let known =
            metrics.into_iter().filter_map(|(tag, value)| value.map(|value| scalar(tag, value)));
        known.chain(tasks).collect()
    }
}

fn scalar(tag: &str, value: f64) -> Scalar {
    Scalar { tag: tag.to_string(), value: value as f32 }
}

impl EventSink for Tensorboard {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        for row in self.rows.take(entry)? {
            let point = self.of_round(&row);
            self.write(&point)?;
        }
        if let Event::Evaluated { task, point: EvaluationPoint::Task, .. } = &entry.event {
            if let Some(numbers) = &entry.numbers {
                self.scores.push(&numbers.tasks)?;
            }
            let virtual_s = entry.at.as_seconds();
            let values = self.of_task(virtual_s);
            self.write(&StepScalars { virtual_s, step: u64::from(task.0) + 1, values })?;
        }
        Ok(())
    }
}
