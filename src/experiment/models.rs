//! The folder `models/` of a run: the server's state after tasks, as the scenario asks (`record.models`).

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::directory_error::DirectoryError;
use super::manifest::Manifest;
use super::model_file::{self, Names};
use super::run_directory::{RunDirectory, names, write_atomically_on};
use crate::federation::{Digest, Setup};
use crate::files::Disk;
use crate::quantity::TaskId;
use crate::scenario::{RecordSection, SavedModels};
use crate::wire::Body;

/// Storage of models, and the tasks whose models are kept.
#[derive(Clone, Debug)]
pub struct Models {
    disk: Disk,
    folder: PathBuf,
    which: SavedModels,
    tasks: usize,
    /// Metadata of every file.
    about: BTreeMap<String, String>,
}

impl Models {
    /// Returns the model storage of a run; `None` if it keeps no models.
    pub fn of(
        run: &RunDirectory,
        record: &RecordSection,
        setup: &Setup,
        manifest: &Manifest,
    ) -> Option<Models> {
        (record.models != SavedModels::None).then(|| Models {
            disk: run.disk().clone(),
            folder: run.path().join(names::MODELS),
            which: record.models,
            tasks: setup.ctx.task_sequence.tasks.len(),
            about: about(manifest, setup),
        })
    }

    /// Saves the state after a task, if the run keeps the model of that task.
    pub fn put(&self, task: TaskId, state: &Body) -> io::Result<()> {
        if self.which == SavedModels::Last && task.index() + 1 != self.tasks {
            return Ok(());
        }
        let bytes = bytes(state, task, &self.about, false).map_err(io::Error::other)?;
        let path = self.folder.join(file_name(task));
        write_atomically_on(&self.disk, &path, &bytes).map_err(|error| match error {
            DirectoryError::Write { path, source } => {
                io::Error::new(source.kind(), format!("{}: {source}", path.display()))
            }
            other => io::Error::other(other.to_string()),
        })
    }
}

/// Returns the file name of a task, such as `task-03.safetensors`, with tasks from 1.
pub fn file_name(task: TaskId) -> String {
    format!("task-{:02}.safetensors", task.0 + 1)
}

/// Returns a model's metadata about its run. `classes` are those of the head's rows, in the data set's numbers, and
/// `class_names` their names as a JSON list in the same order.
pub fn about(manifest: &Manifest, setup: &Setup) -> BTreeMap<String, String> {
    let task_sequence = &setup.ctx.task_sequence;
    let ids = task_sequence.tasks.iter().flat_map(|view| task_sequence.classes_of(view));
    let ids: Vec<u32> = ids.collect();
    let classes: Vec<String> = ids.iter().map(u32::to_string).collect();
    let names: Vec<&str> = ids.iter().map(|class| manifest.class_names.of(*class)).collect();
    // Runs of early versions recorded no names.
    let named = (!manifest.class_names.is_empty())
        .then(|| ("class_names".to_string(), serde_json::Value::from(names).to_string()));
    let said = [
        ("classes", classes.join(",")),
        ("fedcast", manifest.fedcast.clone()),
        ("scenario", manifest.scenario.name.clone()),
        ("scenario_hash", manifest.scenario.hash.clone()),
        ("method", manifest.method.clone()),
        ("seed", manifest.seeds.run.to_string()),
        ("backbone", manifest.backbone.as_ref().map_or(String::new(), |b| b.digest.clone())),
    ];
    said.into_iter().map(|(key, value)| (key.to_string(), value)).chain(named).collect()
}

/// Returns the file of a state after a task. Its tensors have the names of their kinds or plain ones.
///
/// # Errors
/// Returns a description if the format cannot hold the state.
pub fn bytes(
    state: &Body,
    task: TaskId,
    about: &BTreeMap<String, String>,
    plain: bool,
) -> Result<Vec<u8>, String> {
    let mut about = about.clone();
    about.insert("task".to_string(), (task.0 + 1).to_string());
    let names = if plain { Names::Plain } else { Names::WithKinds };
    about.insert("digest".to_string(), Digest(state.digest()).to_string());
    model_file::encode(state, &about, names)
}
