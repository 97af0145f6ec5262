//! The checkpoint a forked run begins with: one that is there, or one computed again.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::{ForkError, ForkOptions, before};
use crate::experiment::assemble::assemble;
use crate::experiment::checkpoint::Mark;
use crate::experiment::error::ExperimentError;
use crate::experiment::journal_file::{JournalReader, JournalWriter};
use crate::experiment::manifest::Manifest;
use crate::experiment::resume::{find, same_inputs};
use crate::experiment::run_directory::names;
use crate::experiment::task_ends::{End, checkpoint_of};
use crate::federation::{
    Cadence, Digest, Entry, EventSink, Interrupt, SinkError, Snapshot, SnapshotPlace, simulate,
};
use crate::methods::Registry;
use crate::quantity::TaskId;
use crate::scenario::Scenario;

/// Of the run at `path`, whose scenario is `held`.
pub(super) fn start(
    path: &Path,
    manifest: &Manifest,
    held: &Scenario,
    methods: &Registry,
    options: &ForkOptions,
    end: End,
    interrupt: Interrupt,
) -> Result<(Mark, Snapshot), ExperimentError> {
    if let Some(found) = checkpoint_of(path, end)? {
        return Ok(found);
    }
    let not_kept = || ForkError::NotKept { task: options.after_task };
    if !options.recompute {
        return Err(not_kept().into());
    }
    let mut assembly = assemble(held, methods, options.workers)?;
    same_inputs(&manifest.data, &assembly.data)?;
    same_inputs(&manifest.backbone, &assembly.backbone)?;
    let setup = &mut assembly.setup;
    setup.before = before(path, manifest, setup, methods)?;
    let checkpoint = find(path, manifest, end.round.0)?.intact;
    if checkpoint.is_none() && manifest.forked.is_some() {
        return Err(not_kept().into());
    }
    setup.past = checkpoint.map(|checkpoint| Arc::new(checkpoint.past));
    (setup.rules.snapshots, setup.rules.models) = (Cadence::Tasks, false);
    setup.rules.confusion = false;
    let (found, stop) = (Arc::new(Mutex::new(None)), Interrupt::default());
    let waiting =
        Waiting { task: end.task, found: Arc::clone(&found), stop: stop.clone(), asked: interrupt };
    simulate(assembly.setup, Box::new(waiting), Box::new(()), stop)?;
    let found = found.lock().unwrap_or_else(PoisonError::into_inner).take();
    let snapshot: Snapshot = found.ok_or_else(not_kept)?;
    let computed = Digest(snapshot.server.digest());
    if computed != end.digest {
        return Err(ForkError::Different { computed, recorded: end.digest }.into());
    }
    Ok((mark(path, &manifest.scenario.hash, snapshot.entries)?, snapshot))
}

/// Where so many entries of a journal end.
fn mark(path: &Path, scenario: &str, entries: u64) -> Result<Mark, ExperimentError> {
    let mut reader = JournalReader::open(&path.join(names::EVENTS))?;
    let mut writer = JournalWriter::new(std::io::sink());
    while reader.entries() < entries
        && let Some(entry) = reader.next_entry()?
    {
        writer.push(&entry).expect("nothing is written anywhere");
    }
    let (position, digests) = (writer.position(), reader.digests());
    Ok(Mark { scenario: scenario.to_owned(), entries: reader.entries(), position, digests })
}

/// Takes one snapshot and ends the run.
struct Waiting {
    task: TaskId,
    found: Arc<Mutex<Option<Snapshot>>>,
    stop: Interrupt,
    /// Somebody pressed Ctrl-C.
    asked: Interrupt,
}

impl EventSink for Waiting {
    fn record(&mut self, _entry: &Entry) -> Result<(), SinkError> {
        if self.asked.is_requested() {
            self.stop.request();
        }
        Ok(())
    }

    fn wants_snapshot(&self) -> bool {
        true
    }

    fn keep(&mut self, snapshot: &Snapshot) -> Result<(), SinkError> {
        if snapshot.place == SnapshotPlace::Task(self.task) {
            *self.found.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
            self.stop.request();
        }
        Ok(())
    }
}
