//! Export of models: the server's state after a task of a recorded run, as safetensors.
//!
//! It is looked for in three places: in `models/` (`record.models`), in a checkpoint that was written when the task ended
//! (`record.checkpoint.every = "task"`), and, if requested, it is computed again from the checkpoint before,
//! and compared with the digest that the journal has of it. From the same state comes a picture of the images that a method
//! generates for replay.

mod generated;
mod merged;
mod sources;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::assemble::{assemble, load};
use super::fork::before;
use super::models::{self, about};
use super::recompute::recompute;
use super::resume::{ResumeError, find, same_inputs};
use super::run_directory::{names, read_manifest};
use super::run_error::RunError;
use super::task_ends::{checkpoint_of, ended, not_ended};
use crate::exit::{CommandError, Exit};
use crate::federation::{Digest, Interrupt};
use crate::methods::Registry;
use generated::{GeneratedPicture, picture};
use merged::merged;
use sources::in_models;

/// Reason why a model cannot be exported.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The run has not ended such a task.
    #[error("{run} {}", not_ended(*task, *ended))]
    NoTask {
        /// Directory of the run.
        run: PathBuf,
        /// Task that was asked for, from 1; by default the number of tasks that have ended.
        task: u32,
        /// Number of tasks that have ended.
        ended: usize,
    },
    /// Model that was not kept.
    #[error(
        "the model after task {task} was not kept\n  help: record.models = \"tasks\" (or \"last\") keeps models; \
         --recompute computes this one from the checkpoint before it, or from the beginning"
    )]
    NotKept {
        /// Task that was asked for, from 1.
        task: u32,
    },
    /// Model whose recomputation differs.
    #[error(
        "the recomputed model has digest {computed}, the recorded one {recorded}: a program of another \
                 version or arithmetic computed the run\n  help: export it with that version"
    )]
    Different {
        /// Digest of the recomputed state of the server.
        computed: Digest,
        /// Digest at the task's end in the journal.
        recorded: Digest,
    },
    /// Model with more than a network and a head.
    #[error("{0}\n  help: omit --merged to export every tensor of the server as it is")]
    NotMerged(String),
    /// Method that generates no images, or has not generated any yet.
    #[error(
        "{method}: its server has generated no images by the end of task {task}\n  help: fedcil generates images, and so do \
         lander, mfcl and target as a task ends that another one follows"
    )]
    NoImages {
        /// Name of the method.
        method: String,
        /// Task that was asked for, from 1.
        task: u32,
    },
    /// An existing file is invalid.
    #[error("{path}: {why}")]
    Unreadable {
        /// Kept model, or directory of a run whose model the format cannot hold.
        path: PathBuf,
        /// Description of the fault.
        why: String,
    },
    /// The recorded run cannot be resumed.
    #[error("{0}")]
    Resume(#[from] ResumeError),
    /// The run, its inputs or its directory are invalid.
    #[error("{0}")]
    Run(#[source] RunError),
}

impl<E: Into<RunError>> From<E> for ExportError {
    fn from(error: E) -> ExportError {
        ExportError::Run(error.into())
    }
}

impl CommandError for ExportError {
    fn exit_code(&self) -> Exit {
        match self {
            ExportError::NoTask { .. }
            | ExportError::NotKept { .. }
            | ExportError::NotMerged(_)
            | ExportError::NoImages { .. } => Exit::Usage,
            ExportError::Different { .. } => Exit::Diverged,
            ExportError::Unreadable { .. } => Exit::Recording,
            ExportError::Resume(error) => error.exit_code(),
            ExportError::Run(error) => error.exit_code(),
        }
    }
}

/// Content of an exported file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportForm {
    /// Every tensor of the server, as safetensors.
    #[default]
    State,
    /// One network in the names of its backbone's file, as safetensors.
    Merged,
    /// A picture (PNG) of this many images that the server has generated for replay.
    Images(u32),
}

/// Options of an export.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportOptions {
    /// Task after which the model is, from 1; the last that ended by default.
    pub task: Option<u32>,
    /// Content of the file.
    pub form: ExportForm,
    /// Compute it again if it was not kept.
    pub recompute: bool,
    /// Worker threads for that.
    pub workers: Option<u32>,
}

/// Exported model, or picture of generated images.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The file: safetensors, or a picture.
    pub bytes: Vec<u8>,
    /// Number of images, if it is a picture.
    pub images: Option<usize>,
    /// Task after which the model is, from 1.
    pub task: u32,
    /// Place at which it was found.
    pub from: ModelOrigin,
    /// Digest of the server's state after the task, as in the journal, whatever `bytes` are made of it.
    pub digest: Digest,
}

/// Origin of an exported model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelOrigin {
    /// File of the run.
    File(String),
    /// Checkpoint that was written when the task ended.
    Checkpoint,
    /// Nowhere: it was computed again.
    Computed {
        /// Start of the computation, such as `round 5`.
        place: String,
    },
}

impl fmt::Display for ModelOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelOrigin::File(file) => write!(f, "from {file}"),
            ModelOrigin::Checkpoint => f.write_str("from a checkpoint"),
            ModelOrigin::Computed { place } => write!(f, "computed again from {place} on"),
        }
    }
}

/// Exports the model of the run at `path`.
///
/// # Errors
/// Returns an [`ExportError`], also for errors of the run and its inputs.
pub fn export(
    path: &Path,
    methods: &Registry,
    options: ExportOptions,
    interrupt: Interrupt,
) -> Result<Exported, ExportError> {
    let manifest = read_manifest(path)?;
    let ended = ended(path)?;
    let number = options.task.unwrap_or(ended.len() as u32);
    let Some(end) = number.checked_sub(1).and_then(|task| ended.get(task as usize)).copied() else {
        let (run, ended) = (path.to_path_buf(), ended.len());
        return Err(ExportError::NoTask { run, task: number, ended });
    };
    let kept = in_models(path, end)?;
    let folder = format!("{}/{}", names::MODELS, models::file_name(end.task));
    if let (Some((bytes, _)), ExportForm::State) = (&kept, options.form) {
        let (bytes, from) = (bytes.clone(), ModelOrigin::File(folder));
        return Ok(Exported { bytes, images: None, task: number, from, digest: end.digest });
    }
    let scenario = load(&path.join(names::SCENARIO), &[], methods)?;
    let mut assembly = assemble(&scenario, methods, options.workers)?;
    assembly.setup.before = before(path, &manifest, &assembly.setup, methods)?;
    same_inputs(&manifest.data, &assembly.data)?;
    same_inputs(&manifest.backbone, &assembly.backbone)?;
    let mut said = about(&manifest, &assembly.setup);
    let (method, ctx) = (Arc::clone(&assembly.setup.method), assembly.setup.ctx.clone());
    let facts = assembly.setup.facts.clone();
    let kept = kept.map(|(_, state)| (state, ModelOrigin::File(folder)));
    let found = match kept {
        // A checkpoint has the whole state, a kept model its tensors alone.
        Some(kept) if !matches!(options.form, ExportForm::Images(_)) => Some(kept),
        kept => checkpoint_of(path, end)?
            .map(|(_, snapshot)| (snapshot.server, ModelOrigin::Checkpoint))
            .or(kept),
    };
    let (state, from) = match found {
        Some(found) => found,
        None if options.recompute => {
            let checkpoint = find(path, &manifest, end.round.0)?.intact;
            if checkpoint.is_none() && manifest.forked.is_some() {
                return Err(ExportError::NotKept { task: number });
            }
            let place = checkpoint.as_ref().map_or("the beginning", |checkpoint| &checkpoint.place);
            let from = ModelOrigin::Computed { place: place.to_owned() };
            let computed = recompute(assembly.setup, checkpoint, end.task, interrupt)?;
            let state = computed.ok_or(ExportError::NotKept { task: number })?.server;
            match Digest(state.digest()) {
                computed if computed != end.digest => {
                    let recorded = end.digest;
                    return Err(ExportError::Different { computed, recorded });
                }
                _ => (state, from),
            }
        }
        None => return Err(ExportError::NotKept { task: number }),
    };
    let state = match options.form {
        ExportForm::Images(count) => {
            let made = picture((&*method, &facts), &ctx, (&state, end.task), count);
            let unreadable = |why| ExportError::Unreadable { path: path.to_path_buf(), why };
            let Some(GeneratedPicture { bytes, images }) = made.map_err(unreadable)? else {
                return Err(ExportError::NoImages { method: manifest.method, task: number });
            };
            let images = Some(images);
            return Ok(Exported { bytes, images, task: number, from, digest: end.digest });
        }
        ExportForm::Merged => {
            said.insert("merged".to_string(), "true".to_string());
            // `digest` is that of the merged tensors, and the journal has that of the server's state.
            said.insert("state_digest".to_string(), end.digest.to_string());
            merged(&state, &ctx.backbone.parameters()?, &manifest.method)?
        }
        ExportForm::State => state,
    };
    let bytes = models::bytes(&state, end.task, &said, options.form == ExportForm::Merged);
    let bytes = bytes.map_err(|why| ExportError::Unreadable { path: path.to_path_buf(), why })?;
    Ok(Exported { bytes, images: None, task: number, from, digest: end.digest })
}
