//! Runs a scenario into a run directory.
//!
//! [`Run::prepare`] reads data and weights, takes the directory and writes the manifest and the
//! effective scenario, so that even a run that is killed in its first round leaves evidence.
//! [`Run::execute`] simulates, and rewrites the manifest with how it ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::assemble::{Assembly, assemble_by};
use super::checkpoint::{CheckpointMark, Checkpoints};
use super::class_names::ClassNames;
use super::directory_error::DirectoryError;
use super::machine::Machine;
use super::manifest::{FORMAT, Level, Manifest, ScenarioId, Seeds, Status};
use super::models::Models;
use super::partition::{Holding, holdings};
use super::provenance::{Cost, Provenance, commit, program};
use super::ranks::{ComputeResources, RankEntry, RankRoster, Ranks};
use super::recorder::Recorder;
use super::run_directory::{RunDirectory, names};
use super::run_error::RunError;
use crate::federation::{
    Digests, EndReason, EventSink, Interrupt, ProfileSink, Setup, Workforce, check_availability,
    simulate,
};
use crate::files::Disk;
use crate::learning::{FeatureCache, StepCount};
use crate::methods::Registry;
use crate::model::ops::Precision;
use crate::scenario::{Cadence, Scenario};

/// Options of a run's execution; they change no result.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Worker threads; the scenario's by default.
    pub workers: Option<u32>,
    /// Other processes that compute it, too.
    pub ranks: Option<Ranks>,
    /// The run directory; [`default_directory`] unless given.
    pub out: Option<PathBuf>,
    /// Replace a run of another scenario.
    pub force: bool,
    /// Origin of the run, for the manifest.
    pub provenance: Provenance,
}

/// Maximum number of a label's bytes in a folder's name.
const LABEL: usize = 120;

/// Returns `runs/<name>-<hash>-s<seed>`, below the current folder.
pub fn default_directory(scenario: &Scenario) -> PathBuf {
    let hash = scenario.hash();
    let label = &scenario.name[..scenario.name.floor_char_boundary(LABEL)];
    let name: String = label
        .chars()
        .map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' })
        .collect();
    // The folder must not be hidden, nor look like an option of a command.
    let name = name.trim_start_matches(['.', '-']);
    Path::new("runs").join(format!("{name}-{}-s{}", &hash[..8], scenario.seed.run))
}

/// Returns the level of reproducibility that a run on these workers has.
fn level(workers: &Workforce) -> Level {
    match workers {
        Workforce::Cpu(_) => Level::N,
        Workforce::Gpus(_) => Level::E,
    }
}

fn ranks(roster: Option<&RankRoster>) -> Vec<RankEntry> {
    roster.map(|roster| roster.ranks.clone()).unwrap_or_default()
}

/// Returns the type of activations, or on a CPU of the factors of products, as scenarios write it.
fn compute(Setup { workers, ctx, .. }: &Setup) -> &'static str {
    match (workers, ctx.backbone.place().products) {
        (Workforce::Gpus(places), _) => {
            places.first().map_or("f32", |place| place.compute.as_str())
        }
        (Workforce::Cpu(_), Precision::F32) => "f32",
        (Workforce::Cpu(_), Precision::Bf16) => "bf16",
    }
}

fn checkpoints(directory: &RunDirectory, scenario: &Scenario) -> Option<Checkpoints> {
    let section = &scenario.record.checkpoint;
    let folder = directory.path().join(names::CHECKPOINTS);
    let disk = directory.disk().clone();
    (section.every != Cadence::Never).then(|| Checkpoints::new(disk, folder, section))
}

/// Returns the manifest of a run that begins now.
pub(super) fn manifest(
    scenario: &Scenario,
    Assembly { setup, data, class_names, backbone, roster }: &Assembly,
    provenance: Provenance,
) -> Manifest {
    Manifest {
        format: FORMAT,
        fedcast: env!("CARGO_PKG_VERSION").to_string(),
        commit: commit(),
        program: program(),
        status: Status::Running,
        error: None,
        scenario: ScenarioId { name: scenario.name.clone(), hash: scenario.hash() },
        method: scenario.method.name.clone(),
        seeds: Seeds {
            run: scenario.seed.run,
            partition: scenario.seed.partition,
            class_order: scenario.seed.class_order,
        },
        data: Some(data.clone()),
        class_names: class_names.clone(),
        validation: scenario.data.validation_set(),
        backbone: Some(backbone.clone()),
        level: level(&setup.workers),
        workers: setup.workers.count(),
        pack: setup.rules.pack,
        devices: scenario.devices.names.iter().map(ToString::to_string).collect(),
        compute: compute(setup).to_string(),
        machine: Machine::here(),
        provenance,
        cost: Cost::started_now(),
        ranks: ranks(roster.as_ref()),
        lost_ranks: Vec::new(),
        forked: None,
        resumed: 0,
        events: None,
        digests: None,
    }
}

/// A run about to begin.
pub struct Run {
    directory: RunDirectory,
    manifest: Manifest,
    setup: Setup,
    roster: Option<RankRoster>,
    checkpoints: Option<Checkpoints>,
    models: Option<Models>,
    begin: Begin,
}

/// Position at which a run begins to write.
#[derive(Clone, Debug)]
pub(super) enum Begin {
    /// First entry.
    Fresh,
    /// Entries after a checkpoint; everything before it is in the journal already.
    After(CheckpointMark),
}

/// End of a run.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Reason of the end.
    pub reason: EndReason,
    /// Digests of the journal.
    pub digests: Digests,
}

impl Run {
    /// Opens everything and takes the directory.
    pub fn prepare(
        scenario: &Scenario,
        methods: &Registry,
        options: &RunOptions,
    ) -> Result<Run, RunError> {
        Run::prepare_on(&Disk::default(), scenario, methods, options)
    }

    /// Opens everything and takes the directory, with a disk that may fail on the way.
    ///
    /// # Errors
    /// Returns an error if the scenario, its inputs or its directory cannot be used.
    pub fn prepare_on(
        disk: &Disk,
        scenario: &Scenario,
        methods: &Registry,
        options: &RunOptions,
    ) -> Result<Run, RunError> {
        let resources = ComputeResources { workers: options.workers, ranks: options.ranks.clone() };
        let assembly = assemble_by(scenario, methods, &resources)?;
        check_availability(&assembly.setup)?;
        let path = options.out.clone().unwrap_or_else(|| default_directory(scenario));
        let directory = RunDirectory::claim_on(disk, &path, &scenario.hash(), options.force)?;
        let manifest = manifest(scenario, &assembly, options.provenance.clone());
        // The manifest comes second: with it, the directory is a run that can be resumed.
        directory.write(names::SCENARIO, scenario.to_effective_toml().as_bytes())?;
        directory.write_manifest(&manifest)?;
        Ok(Run::new(directory, manifest, scenario, assembly, Begin::Fresh))
    }

    /// Creates a run in its directory, which has the scenario and this manifest.
    pub(super) fn new(
        directory: RunDirectory,
        manifest: Manifest,
        scenario: &Scenario,
        Assembly { setup, roster, .. }: Assembly,
        begin: Begin,
    ) -> Run {
        let checkpoints = checkpoints(&directory, scenario);
        let models = Models::of(&directory, &scenario.record, &setup, &manifest);
        Run { directory, manifest, setup, roster, checkpoints, models, begin }
    }

    /// Returns a run that is resumed or started again in its directory.
    pub(super) fn again(
        directory: RunDirectory,
        manifest: Manifest,
        scenario: &Scenario,
        assembly: Assembly,
        begin: Begin,
    ) -> Result<Run, DirectoryError> {
        if matches!(begin, Begin::Fresh) {
            directory.clear()?;
        }
        let manifest = Manifest {
            level: level(&assembly.setup.workers),
            workers: assembly.setup.workers.count(),
            ranks: ranks(assembly.roster.as_ref()),
            resumed: manifest.resumed + 1,
            ..manifest.reopened()
        };
        directory.write_manifest(&manifest)?;
        Ok(Run::new(directory, manifest, scenario, assembly, begin))
    }

    /// Returns the directory that the run is written to; this process has locked it.
    pub fn directory(&self) -> &RunDirectory {
        &self.directory
    }

    /// Returns the feature cache of the frozen backbone, which gives notices.
    pub fn cache(&self) -> Arc<FeatureCache> {
        Arc::clone(&self.setup.ctx.cache)
    }

    /// Returns the count of steps of the server's training, for progress.
    pub fn server_steps(&self) -> Arc<StepCount> {
        Arc::clone(&self.setup.ctx.server_steps)
    }

    /// Returns the label counts of clients; see [`holdings`].
    pub fn holdings(&self) -> Option<Vec<Holding>> {
        let ctx = &self.setup.ctx;
        holdings(&self.setup.shards, &ctx.dataset, &ctx.task_sequence)
    }

    /// Returns the notes for the user about how the data were read.
    pub fn notes(&self) -> &[String] {
        &self.setup.ctx.dataset.notes
    }

    /// Returns the names of classes, in the data set's numbers.
    pub fn class_names(&self) -> &ClassNames {
        &self.manifest.class_names
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.setup.workers.count()
    }

    /// Returns the processes that compute the run together; empty if it is this one alone.
    pub fn ranks(&self) -> &[RankEntry] {
        &self.manifest.ranks
    }

    /// Simulates to the end.
    ///
    /// `readers` see every entry that the journal took; `afterwards` writes what is derived from all of them, before
    /// the manifest says that the run is whole.
    ///
    /// # Errors
    /// Returns the error that ended the run early; the manifest then says `failed`.
    pub fn execute(
        self,
        readers: Vec<Box<dyn EventSink>>,
        profile: Box<dyn ProfileSink>,
        interrupt: Interrupt,
        afterwards: impl FnOnce(&RunDirectory, &Finished) -> Result<(), DirectoryError>,
    ) -> Result<(Finished, RunDirectory), RunError> {
        let Run { directory, mut manifest, setup, roster, checkpoints, models, begin } = self;
        let checkpoints =
            checkpoints.map(|checkpoints| (checkpoints, manifest.scenario.hash.clone()));
        let began = Instant::now();
        let recorder = Recorder::new(&directory, begin, readers, checkpoints, models)?;
        let end = simulate(setup, Box::new(recorder.clone()), profile, interrupt);
        let (events, digests) = recorder.written();
        manifest.cost = manifest.cost.ended(began.elapsed());
        if let Some(roster) = roster {
            manifest.ranks = roster.at_work();
            manifest.lost_ranks.extend(roster.lost());
        }
        let ended = end.map_err(RunError::from).and_then(|end| {
            let finished = Finished { reason: end.reason, digests };
            afterwards(&directory, &finished)?;
            Ok(finished)
        });
        manifest.events = Some(events);
        match &ended {
            Err(error) => {
                manifest.status = Status::Failed;
                manifest.error = Some(error.to_string());
                // The first error matters more than a manifest that cannot be written.
                let _ = directory.write_manifest(&manifest);
            }
            Ok(finished) => {
                manifest.status = match finished.reason {
                    EndReason::Done => Status::Done,
                    EndReason::Interrupted => Status::Interrupted,
                    EndReason::Aborted => Status::Failed,
                };
                // Only a whole run has digests that others may compare with.
                let whole = manifest.status == Status::Done;
                manifest.digests = whole.then(|| finished.digests.clone());
                directory.write_manifest(&manifest)?;
            }
        }
        Ok((ended?, directory))
    }
}
