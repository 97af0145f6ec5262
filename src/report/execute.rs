//! Execution of a run with all outputs in addition to its journal: tables, wall times, summary, histograms.

use std::time::Instant;

use super::answers::{AnswerTable, ConfusionRow, PredictionRow};
use super::parquet::write_parquet;
use super::tables::{TableFiles, write_partition};
use super::{Both, Profile, Shared, Summary, TaskClock, WallTable};
use crate::experiment::assemble::round_closing;
use crate::experiment::{DirectoryError, Finished, Run, RunDirectory, RunError, names};
use crate::federation::histograms::Histograms;
use crate::federation::{EventSink, Interrupt};
use crate::scenario::Scenario;

/// Finished run with the content of its `summary.json`.
pub struct Executed {
    /// State at the end of the run.
    pub finished: Finished,
    /// Directory of the run.
    pub directory: RunDirectory,
    /// Results of the run.
    pub summary: Summary,
}

/// Simulates to the end and writes every file of the run.
///
/// `more` are further consumers of the journal's entries. The first `recorded` entries were computed by an earlier
/// process.
///
/// # Errors
/// Fails with the error that ended the run early; its manifest then says `failed`.
pub fn execute(
    run: Run,
    scenario: &Scenario,
    recorded: u64,
    more: Vec<Box<dyn EventSink>>,
    interrupt: Interrupt,
) -> Result<Executed, RunError> {
    let summary = Shared::new(Summary::about(scenario));
    let histograms = Shared::new(Histograms::default());
    let clock = Shared::new(TaskClock::default());
    let profile = Shared::new(Profile::create(run.directory())?);
    let wall = Shared::new(WallTable::create(run.directory(), recorded)?);
    let mut readers = tables(&run, scenario, recorded)?;
    readers.push(Box::new(wall.clone()));
    readers.push(Box::new(summary.clone()));
    readers.push(Box::new(histograms.clone()));
    readers.push(Box::new(clock.clone()));
    readers.extend(more);
    let spans = Both(Both(profile.clone(), histograms.clone()), wall);
    let cache = run.cache();
    let began = Instant::now();
    let write_summary = |directory: &RunDirectory, finished: &Finished| {
        let mut summary = summary.lock();
        summary.digests = Some(finished.digests.clone());
        summary.wall = Some(profile.lock().times(began.elapsed(), &clock.lock(), cache.counts()));
        directory.write(names::SUMMARY, summary.to_json().as_bytes())?;
        if scenario.record.parquet {
            write_parquet(directory.disk(), directory.path())?;
        }
        if scenario.record.histograms {
            for (name, text) in histograms.lock().files() {
                directory.write(&format!("{}/{name}", names::HISTOGRAMS), text.as_bytes())?;
            }
        }
        Ok(())
    };
    let (finished, directory) = run.execute(readers, Box::new(spans), interrupt, write_summary)?;
    let summary = summary.lock().clone();
    Ok(Executed { finished, directory, summary })
}

/// Returns the tables that grow with the run; the table of the partition is written here.
fn tables(
    run: &Run,
    scenario: &Scenario,
    recorded: u64,
) -> Result<Vec<Box<dyn EventSink>>, DirectoryError> {
    let directory = run.directory();
    if let Some(holdings) = run.holdings() {
        write_partition(directory, &holdings, run.class_names())?;
    }
    let (disk, path) = (directory.disk(), directory.path());
    let (record, closing) = (&scenario.record, round_closing(scenario));
    let files = TableFiles::create_on(disk, path, record, closing, run.class_names())?;
    let mut tables: Vec<Box<dyn EventSink>> = vec![Box::new(files)];
    let names = || run.class_names().clone();
    if record.confusion {
        let table = AnswerTable::<ConfusionRow>::create(directory, recorded, names())?;
        tables.push(Box::new(table));
    }
    if record.predictions {
        let table = AnswerTable::<PredictionRow>::create(directory, recorded, names())?;
        tables.push(Box::new(table));
    }
    Ok(tables)
}
