//! The checkpoint a forked run begins with: one that is there, or one computed again.

use std::path::Path;

use super::{ForkError, ForkOptions, before};
use crate::experiment::assemble::assemble;
use crate::experiment::checkpoint::CheckpointMark;
use crate::experiment::journal_file::{JournalError, JournalReader, JournalWriter};
use crate::experiment::manifest::Manifest;
use crate::experiment::recompute::recompute;
use crate::experiment::resume::{find, same_inputs};
use crate::experiment::run_directory::names;
use crate::experiment::task_ends::{End, checkpoint_of};
use crate::federation::{Digest, Interrupt, Snapshot};
use crate::methods::Registry;
use crate::scenario::Scenario;

/// Returns the start of a fork of the run at `path`, whose scenario is `recorded`.
pub(super) fn start(
    path: &Path,
    manifest: &Manifest,
    recorded: &Scenario,
    methods: &Registry,
    options: &ForkOptions,
    end: End,
    interrupt: Interrupt,
) -> Result<(CheckpointMark, Snapshot), ForkError> {
    if let Some(found) = checkpoint_of(path, end)? {
        return Ok(found);
    }
    let not_kept = || ForkError::NotKept { task: options.after_task };
    if !options.recompute {
        return Err(not_kept());
    }
    let mut assembly = assemble(recorded, methods, options.workers)?;
    same_inputs(&manifest.data, &assembly.data)?;
    same_inputs(&manifest.backbone, &assembly.backbone)?;
    let setup = &mut assembly.setup;
    setup.before = before(path, manifest, setup, methods)?;
    let checkpoint = find(path, manifest, end.round.0)?.intact;
    if checkpoint.is_none() && manifest.forked.is_some() {
        return Err(not_kept());
    }
    let snapshot = recompute(assembly.setup, checkpoint, end.task, interrupt)?;
    let snapshot = snapshot.ok_or_else(not_kept)?;
    let computed = Digest(snapshot.server.digest());
    if computed != end.digest {
        return Err(ForkError::Different { computed, recorded: end.digest });
    }
    Ok((mark(path, &manifest.scenario.hash, snapshot.entries)?, snapshot))
}

/// Returns the position in a journal after `entries` entries.
fn mark(path: &Path, scenario: &str, entries: u64) -> Result<CheckpointMark, JournalError> {
    let mut reader = JournalReader::open(&path.join(names::EVENTS))?;
    let mut writer = JournalWriter::new(std::io::sink());
    while reader.entries() < entries
        && let Some(entry) = reader.next_entry()?
    {
        writer.push(&entry).expect("nothing is written anywhere");
    }
    let (position, digests) = (writer.position(), reader.digests());
    Ok(CheckpointMark {
        scenario: scenario.to_owned(),
        entries: reader.entries(),
        position,
        digests,
    })
}
