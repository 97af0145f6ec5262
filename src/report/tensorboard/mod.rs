//! `tensorboard/events.out.tfevents.…`: scalars of a run for TensorBoard, from the journal's entries.
//!
//! Scalars of rounds (`round/…`, `total/…`) have the round as their step, those of tasks (`task/…`) the task, both
//! from 1. The field for wall time holds virtual time in seconds, so that a replay writes the same file.

mod record;

use std::io::{self, Write};
use std::path::PathBuf;

use super::accuracy::TaskScores;
use super::tables::{loss, micro_accuracy};
use super::words::Traffic;
use crate::federation::{Direction, Entry, EvaluationPoint, Event, EventSink, SinkError};
use crate::files::{Disk, DiskFile};
use record::{Scalar, scalars, version};

/// Only file of the folder. TensorBoard reads every file whose name contains `tfevents`.
pub(super) const FILE: &str = "events.out.tfevents.0.fedcast";

/// Writes the file, which begins with its first scalar.
pub struct Tensorboard<W = DiskFile> {
    target: EventFile<W>,
    all: Traffic,
    round: Traffic,
    losses: Vec<f64>,
    failed: u32,
    scores: TaskScores,
}

enum EventFile<W> {
    /// Folder in which the file is not created yet.
    Folder(Disk, PathBuf),
    Open(W),
}

impl Tensorboard {
    /// Writes into this folder, which is created with the first scalar.
    pub fn new(disk: Disk, folder: PathBuf) -> Tensorboard {
        Tensorboard::into_target(EventFile::Folder(disk, folder))
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

impl<W> Tensorboard<W> {
    fn into_target(target: EventFile<W>) -> Tensorboard<W> {
        Tensorboard {
            target,
            all: Traffic::default(),
            round: Traffic::default(),
            losses: Vec::new(),
            failed: 0,
            scores: TaskScores::default(),
        }
    }

    /// Returns the scalars of an entry with their step.
    fn take(&mut self, entry: &Entry) -> Result<Option<(i64, Vec<Scalar>)>, SinkError> {
        match &entry.event {
            Event::RoundOpened { .. } => {
                self.round = Traffic::default();
                self.losses.clear();
                self.failed = 0;
            }
            Event::FrameCharged { .. } => {
                self.all.take(&entry.event)?;
                self.round.take(&entry.event)?;
            }
            Event::ClientTrained { .. } => self.losses.extend(loss(entry)),
            Event::ClientFailed { .. } => self.failed += 1,
            Event::RoundClosed { round, aggregated, .. } => {
                let scalars = self.of_round(entry.at.as_seconds(), *aggregated);
                return Ok(Some((i64::from(round.0) + 1, scalars)));
            }
            Event::Evaluated { round, point: EvaluationPoint::Round, .. } => {
                let accuracy = entry.numbers.as_ref().and_then(micro_accuracy);
                let scalar = accuracy.map(|share| scalar("round/accuracy_seen", share));
                return Ok(Some((i64::from(round.0) + 1, scalar.into_iter().collect())));
            }
            Event::Evaluated { task, point: EvaluationPoint::Task, .. } => {
                if let Some(numbers) = &entry.numbers {
                    self.scores.push(&numbers.tasks)?;
                }
                return Ok(Some((i64::from(task.0) + 1, self.of_task(entry.at.as_seconds()))));
            }
            _ => {}
        }
        Ok(None)
    }

    fn of_round(&self, virtual_s: f64, aggregated: u32) -> Vec<Scalar> {
        let bytes = |traffic: &Traffic, way| traffic.direction(way).bytes.0 as f64;
        let mean = self.losses.iter().sum::<f64>() / self.losses.len() as f64;
        let loss = (!self.losses.is_empty()).then(|| scalar("round/loss", mean));
        let counts = [
            scalar("round/aggregated", f64::from(aggregated)),
            scalar("round/failed", f64::from(self.failed)),
            scalar("round/bytes_down", bytes(&self.round, Direction::Down)),
            scalar("round/bytes_up", bytes(&self.round, Direction::Up)),
            scalar("total/bytes_down", bytes(&self.all, Direction::Down)),
            scalar("total/bytes_up", bytes(&self.all, Direction::Up)),
            scalar("total/virtual_s", virtual_s),
        ];
        loss.into_iter().chain(counts).collect()
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
        if let Some((step, values)) = self.take(entry)?.filter(|(_, values)| !values.is_empty()) {
            let frame = scalars(entry.at.as_seconds(), step, &values);
            self.open()?.write_all(&frame)?;
        }
        Ok(())
    }
}
