//! Recorder of a run: writes the journal and passes every entry to readers.

use parking_lot::{Mutex, MutexGuard};
use std::io::{self, Write};
use std::sync::Arc;

use super::checkpoint::{CheckpointMark, Checkpoints};
use super::directory_error::DirectoryError;
use super::execute::Begin;
use super::journal_file::JournalWriter;
use super::models::Models;
use super::run_directory::{RunDirectory, names};
use crate::federation::{Digests, Entry, Event, EventSink, SampleAnswer, SinkError, Snapshot};
use crate::files::DiskFile;
use crate::quantity::TaskId;
use crate::wire::Body;

struct Recording {
    journal: JournalWriter<Rest<DiskFile>>,
    readers: Vec<Box<dyn EventSink>>,
    checkpoints: Option<Checkpoints>,
    models: Option<Models>,
    /// Hash of the scenario.
    scenario: String,
    /// Mark that the file's entries must reach when they are replayed.
    replayed: Option<CheckpointMark>,
}

/// Writer that skips bytes that the file already has.
struct Rest<W> {
    there: u64,
    out: W,
}

impl<W: Write> Write for Rest<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.there > 0 {
            let skipped = self.there.min(bytes.len() as u64);
            self.there -= skipped;
            return Ok(skipped as usize);
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The recorder of one run. Clones are the same recorder: the simulation holds one, the caller
/// another to ask for the digests.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Recording>>);

impl Recorder {
    /// Creates the recorder of a directory.
    ///
    /// `readers` (tables, progress) see every entry that the journal took. Checkpoints get the hash of the scenario.
    pub(super) fn new(
        directory: &RunDirectory,
        begin: Begin,
        readers: Vec<Box<dyn EventSink>>,
        checkpoints: Option<(Checkpoints, String)>,
        models: Option<Models>,
    ) -> Result<Recorder, DirectoryError> {
        let out = directory.append(names::EVENTS)?;
        let replayed = match begin {
            Begin::Fresh => None,
            Begin::After(mark) => Some(mark),
        };
        let there = replayed.as_ref().map_or(0, |mark| mark.position);
        out.set_len(there).map_err(|source| {
            let path = directory.path().join(names::EVENTS);
            DirectoryError::Write { path, source }
        })?;
        let journal = JournalWriter::new(Rest { there, out });
        let (checkpoints, scenario) = checkpoints.unzip();
        let scenario = scenario.unwrap_or_default();
        let recording = Recording { journal, readers, checkpoints, models, scenario, replayed };
        Ok(Recorder(Arc::new(Mutex::new(recording))))
    }

    /// Returns the number and digests of the entries written so far.
    pub fn written(&self) -> (u64, Digests) {
        let recording = self.lock();
        (recording.journal.entries(), recording.journal.digests())
    }

    // A recording is whole after every entry, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock()
    }
}

impl EventSink for Recorder {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let recording = &mut *self.lock();
        if recording.replayed.is_some() && matches!(entry.event, Event::RunEnded { .. }) {
            // The run ends while entries are replayed: the journal has more of them already, and stays as it is.
            return Ok(());
        }
        recording.journal.push(entry)?;
        if let Some(mark) = recording.replayed.take_if(|mark| mark.entries == entry.seq + 1)
            && mark.digests != recording.journal.digests()
        {
            return Err(SinkError::Stop(
                "the recorded part of the run differs on this program\n  help: resume it with the program \
                                 that started it"
                    .into(),
            ));
        }
        recording.readers.iter_mut().try_for_each(|reader| reader.record(entry))
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        let recording = &mut *self.lock();
        recording.journal.settle()?;
        recording.readers.iter_mut().try_for_each(|reader| reader.settle())
    }

    fn answered(&mut self, task: TaskId, answers: &[SampleAnswer]) -> Result<(), SinkError> {
        let recording = &mut *self.lock();
        recording.readers.iter_mut().try_for_each(|reader| reader.answered(task, answers))
    }

    fn save_model(&mut self, task: TaskId, state: &Body) -> Result<(), SinkError> {
        match &self.lock().models {
            Some(models) => Ok(models.put(task, state)?),
            None => Ok(()),
        }
    }

    fn wants_snapshot(&self) -> bool {
        self.lock().checkpoints.as_ref().is_some_and(Checkpoints::has_time)
    }

    fn keep(&mut self, snapshot: &Snapshot) -> Result<(), SinkError> {
        let recording = &mut *self.lock();
        let Some(checkpoints) = &mut recording.checkpoints else { return Ok(()) };
        // What a checkpoint names must be in the journal, also after a power cut.
        recording.journal.settle()?;
        recording.journal.file().out.sync_data()?;
        let mark = CheckpointMark {
            scenario: recording.scenario.clone(),
            entries: snapshot.entries,
            position: recording.journal.position(),
            digests: recording.journal.digests(),
        };
        Ok(checkpoints.put(&mark, snapshot)?)
    }
}
