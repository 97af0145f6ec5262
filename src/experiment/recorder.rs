//! The recorder: writes the journal while the run goes on and hands every entry on.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::journal_file::JournalWriter;
use super::run_directory::{DirectoryError, RunDirectory, names};
use crate::federation::{Digests, Entry, EventSink, SinkError};

struct Recording {
    journal: JournalWriter<File>,
    readers: Vec<Box<dyn EventSink>>,
}

/// The recorder of one run. Clones are the same recorder: the simulation holds one, the caller
/// another to ask for the digests.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Recording>>);

impl Recorder {
    /// Records into a directory; `readers` (tables, progress) see every entry the journal took.
    pub fn new(
        directory: &RunDirectory,
        readers: Vec<Box<dyn EventSink>>,
    ) -> Result<Recorder, DirectoryError> {
        let journal = JournalWriter::new(directory.append(names::EVENTS)?);
        Ok(Recorder(Arc::new(Mutex::new(Recording { journal, readers }))))
    }

    /// Entries and digests of what was written so far.
    pub fn written(&self) -> (u64, Digests) {
        let recording = self.lock();
        (recording.journal.entries(), recording.journal.digests())
    }

    // A recording is whole after every entry, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, Recording> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSink for Recorder {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        let recording = &mut *self.lock();
        recording.journal.push(entry)?;
        recording.readers.iter_mut().try_for_each(|reader| reader.record(entry))
    }

    fn settle(&mut self) -> Result<(), SinkError> {
        let recording = &mut *self.lock();
        recording.journal.settle()?;
        recording.readers.iter_mut().try_for_each(|reader| reader.settle())
    }
}
