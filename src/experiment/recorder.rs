//! The recorder: writes everything a run directory holds while the run goes on.
//!
//! All of it is fed by the journal's entries, through one door: [`Recorder`] hands an
//! [`EventSink`] to the simulation and keeps the other end. Wall times come through a second
//! door, [`Profile`], and touch no digest.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::journal_file::JournalWriter;
use super::run_directory::{DirectoryError, RunDirectory, names};
use crate::federation::{Digests, Entry, EventSink, ProfileSink, SinkError, Span};
use crate::report::tables::{BytesTable, ClientsTable, MatrixTable, RoundsTable};
use crate::report::{Summary, WallClock};

/// The CSV files of a run, all fed by its entries.
pub struct TableFiles(Vec<Box<dyn EventSink>>);

impl TableFiles {
    /// Creates the files in `folder`.
    pub fn create(folder: &Path) -> Result<TableFiles, DirectoryError> {
        let at = |name: &str| {
            let path = folder.join(name);
            move |source| DirectoryError::Write { path, source }
        };
        std::fs::create_dir_all(folder).map_err(at(""))?;
        let open = |name: &str| File::create(folder.join(name)).map_err(at(name));
        Ok(TableFiles(vec![
            Box::new(RoundsTable::new(open(names::ROUNDS)?).map_err(at(names::ROUNDS))?),
            Box::new(BytesTable::new(open(names::BYTES)?).map_err(at(names::BYTES))?),
            Box::new(ClientsTable::new(open(names::CLIENTS)?).map_err(at(names::CLIENTS))?),
            Box::new(MatrixTable::new(open(names::MATRIX)?).map_err(at(names::MATRIX))?),
        ]))
    }
}

impl EventSink for TableFiles {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.0.iter_mut().try_for_each(|table| table.record(entry))
    }
}

struct Recording {
    journal: JournalWriter<File>,
    tables: TableFiles,
    summary: Summary,
    others: Vec<Box<dyn EventSink>>,
}

/// The recorder of one run. Clones are the same recorder.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Recording>>);

impl Recorder {
    /// Records into a directory; `others` (progress) see every entry that was written.
    pub fn new(
        directory: &RunDirectory,
        name: &str,
        others: Vec<Box<dyn EventSink>>,
    ) -> Result<Recorder, DirectoryError> {
        Ok(Recorder(Arc::new(Mutex::new(Recording {
            journal: JournalWriter::new(directory.append(names::EVENTS)?),
            tables: TableFiles::create(directory.path())?,
            summary: Summary::new(name),
            others,
        }))))
    }

    /// Entries and digests of what was written so far.
    pub fn written(&self) -> (u64, Digests) {
        let recording = self.lock();
        (recording.journal.entries(), recording.journal.digests())
    }

    /// The figures so far, with the digests.
    pub fn summary(&self) -> Summary {
        let recording = self.lock();
        let mut summary = recording.summary.clone();
        summary.digests = Some(recording.journal.digests());
        summary
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
        recording.tables.record(entry)?;
        recording.summary.record(entry)?;
        recording.others.iter_mut().try_for_each(|other| other.record(entry))
    }
}

/// `profile.jsonl`, and its sums. Clones are the same profile.
#[derive(Clone)]
pub struct Profile(Arc<Mutex<(BufWriter<File>, WallClock)>>);

impl Profile {
    /// Writes into a directory.
    pub fn new(directory: &RunDirectory) -> Result<Profile, DirectoryError> {
        let file = BufWriter::new(directory.append(names::PROFILE)?);
        Ok(Profile(Arc::new(Mutex::new((file, WallClock::default())))))
    }

    /// The sums so far; writes out what is buffered.
    pub fn clock(&self) -> WallClock {
        let profile = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Wall times are a by-product: losing some of them must not fail a run.
        let _ = profile.0.flush();
        profile.1.clone()
    }
}

impl ProfileSink for Profile {
    fn record(&mut self, span: &Span) {
        let profile = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        profile.1.add(span);
        if serde_json::to_writer(&mut profile.0, span).is_ok() {
            let _ = profile.0.write_all(b"\n");
        }
    }
}
