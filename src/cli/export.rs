//! `fedcast export`: server model of a recorded run as a safetensors file, or a picture of its images.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::failure::CliError;
use super::interrupt::interruptible;
use super::{Exit, OutputFormat, given, print_json, print_text};
use crate::document::Document;
use crate::experiment::{self, ExportForm, ExportOptions, write_atomically};
use crate::methods::Registry;

/// Write the server's model of a run as a safetensors file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast run scenarios/quickstart.toml --set record.models=tasks -o runs/quick
  fedcast export runs/quick -o model.safetensors
  fedcast export runs/quick --task 2 -o after-two.safetensors
  fedcast export runs/fedavg --merged -o network.safetensors
  fedcast export runs/mfcl --images 64 -o generated.png

The file holds all tensors of the server, named kind/name, such as prompt/prompt.00 or
head/head.weight. Head rows are in the order in which classes arrived. The metadata hold their
numbers in the data set (`classes`) and their names (`class_names`, a JSON list).
With --merged the file holds the whole network with its linear head, under the tensor names of
timm, torchvision or Hugging Face's BERT. Methods with prompts or adapters have no such network:
the command refuses them.
With --images the file is a picture (PNG) of images that the server has generated without data for
clients to replay (mfcl, lander, target, fedcil), in rows of eight.

A model is available if record.models = \"tasks\" or \"last\" kept it, or if a checkpoint was written
at the end of the task. Otherwise --recompute computes it from the checkpoint before, or from the
start of the run, and compares it with the journal's digest (exit code 10 if they differ).")]
pub struct ExportArgs {
    /// The run directory
    pub run: PathBuf,
    /// Task after which the model is taken, from 1, or `last` [default: the last that ended]
    #[arg(long, value_name = "T", value_parser = task)]
    pub task: Option<Task>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// Write the whole network, with tensor names of timm, torchvision or Hugging Face (BERT)
    #[arg(long)]
    pub merged: bool,
    /// Write a picture of this many images that the server has generated
    #[arg(long, value_name = "N", conflicts_with = "merged", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub images: Option<u32>,
    /// Compute the model again if the run did not keep it
    #[arg(long)]
    pub recompute: bool,
    /// Worker threads of --recompute [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", requires = "recompute", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Exported model as JSON.
#[derive(Serialize, Document)]
pub(super) struct ExportedModel<'a> {
    /// File that was written.
    file: &'a Path,
    /// Task after which the model is taken, from 1.
    task: u32,
    /// Size of the file.
    bytes: usize,
    /// Number of generated images in the file, if it is a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    images: Option<usize>,
    /// Origin of the model: a checkpoint, or a computation from a round on.
    from: &'a str,
    /// Digest of the server's state after the task, as in the journal, in whatever form it is exported.
    digest: String,
}

/// Task after which the exported model is taken.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// After the last task that ended.
    Last,
    /// After this task, from 1.
    After(u32),
}

fn task(word: &str) -> Result<Task, String> {
    match (word, word.parse()) {
        ("last", _) => Ok(Task::Last),
        ("best", _) => Err("no task is `best`: after fewer tasks there are fewer classes to confuse, so accuracies \
                            after different tasks cannot be compared\n  help: write a task, from 1, or `last`"
            .to_string()),
        (_, Ok(task @ 1..)) => Ok(Task::After(task)),
        _ => Err("write a task, from 1, or `last`".to_string()),
    }
}

/// Exports the model to the file.
pub fn execute(args: &ExportArgs, methods: &Registry) -> Result<Exit, CliError> {
    given::run_directory(&args.run)?;
    if args.out.exists() && !args.force {
        let out = args.out.display();
        let text =
            format!("{out} exists already\n  help: name another file, or replace it with --force");
        return Err(CliError::Usage(text));
    }
    let interrupt = interruptible();
    let task = match args.task {
        Some(Task::After(task)) => Some(task),
        Some(Task::Last) | None => None,
    };
    let form = match (args.images, args.merged) {
        (Some(count), _) => ExportForm::Images(count),
        (None, true) => ExportForm::Merged,
        (None, false) => ExportForm::State,
    };
    let options = ExportOptions { task, form, recompute: args.recompute, workers: args.workers };
    let exported = experiment::export(&args.run, methods, options, interrupt.clone());
    if interrupt.is_requested() {
        return Ok(Exit::Interrupted);
    }
    let exported = exported?;
    write_atomically(&args.out, &exported.bytes)?;
    let out = args.out.display();
    let from = exported.from.to_string();
    match args.format {
        OutputFormat::Human => print_text(&format!(
            "{out}: {} after task {}, {} bytes, {from}, {} {}\n",
            match exported.images {
                None => "the model".to_owned(),
                Some(images) => format!("{images} generated images"),
            },
            exported.task,
            exported.bytes.len(),
            match form {
                ExportForm::State => "digest",
                ExportForm::Merged | ExportForm::Images(_) => "digest of the server's state",
            },
            exported.digest
        ))?,
        OutputFormat::Json => {
            print_json(&ExportedModel {
                file: &args.out,
                task: exported.task,
                bytes: exported.bytes.len(),
                images: exported.images,
                from: from.strip_prefix("from ").unwrap_or(&from),
                digest: exported.digest.to_string(),
            })?;
        }
    }
    Ok(Exit::Done)
}
