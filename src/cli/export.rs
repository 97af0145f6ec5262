//! `fedcast export`: the server's model of a recorded run as safetensors.

use std::path::PathBuf;

use clap::Args;

use super::failure::CliError;
use super::interrupt::interruptible;
use super::{Exit, Format, given, print};
use crate::experiment::{self, ExportOptions, write_atomically};
use crate::methods::Registry;

/// Write the server's model of a run as a safetensors file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast run scenarios/quickstart.toml --set record.models=tasks -o runs/quick
  fedcast export runs/quick -o model.safetensors
  fedcast export runs/quick --task 2 -o after-two.safetensors
  fedcast export runs/fedavg --merged -o network.safetensors

Tensors are named kind/name, such as prompt/prompt.00 or head/head.weight: everything the server
has. Rows of the head are in the order in which classes arrived; the metadata say which they are
(`classes`, the data set's numbers) and what these are called (`class_names`, a JSON list).
With --merged the file is the whole network in our names (timm's, torchvision's, or those of Hugging
Face's BERT), with the linear head on top; methods that work through prompts or adapters have no
such network and are refused.

Models are there where record.models = \"tasks\" (or \"last\") kept them, or where a checkpoint was
written when the task ended. Otherwise --recompute computes from the last checkpoint before, or
from the beginning; what comes out is compared with the journal's digest (exit code 10).")]
pub struct ExportArgs {
    /// The run directory
    pub run: PathBuf,
    /// After which task, from 1 [default: the last that ended]
    #[arg(long, value_name = "T", value_parser = task)]
    pub task: Option<Task>,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
    /// Replace the file if it is there already
    #[arg(long)]
    pub force: bool,
    /// The whole network, in timm's, torchvision's or Hugging Face's (BERT) names
    #[arg(long)]
    pub merged: bool,
    /// Compute the model again where the run did not keep it
    #[arg(long)]
    pub recompute: bool,
    /// Worker threads of --recompute [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", requires = "recompute", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Which model.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// After the last task that ended.
    Last,
    /// After this one, from 1.
    After(u32),
}

fn task(word: &str) -> Result<Task, String> {
    match (word, word.parse()) {
        ("last", _) => Ok(Task::Last),
        ("best", _) => Err("there is no best one: the fewer tasks were learnt, the fewer classes there are to confuse, so \
                            that accuracies after different tasks do not compare; write a task, or `last`"
            .to_string()),
        (_, Ok(task @ 1..)) => Ok(Task::After(task)),
        _ => Err("write a task, counted from 1, or `last`".to_string()),
    }
}

/// Exports the model.
pub fn execute(args: &ExportArgs) -> Result<Exit, CliError> {
    given::run_directory(&args.run)?;
    if args.out.exists() && !args.force {
        let out = args.out.display();
        let text = format!("{out} is there already; name another file, or --force replaces it");
        return Err(CliError::Usage(text));
    }
    let interrupt = interruptible();
    let task = match args.task {
        Some(Task::After(task)) => Some(task),
        Some(Task::Last) | None => None,
    };
    let (merged, recompute, workers) = (args.merged, args.recompute, args.workers);
    let options = ExportOptions { task, merged, recompute, workers };
    let exported = experiment::export(&args.run, &Registry::builtin(), options, interrupt.clone());
    if interrupt.is_requested() {
        return Ok(Exit::Interrupted);
    }
    let exported = exported?;
    write_atomically(&args.out, &exported.bytes)?;
    let out = args.out.display();
    let from = exported.from.to_string();
    match args.format {
        Format::Human => print(&format!(
            "{out}: the model after task {}, {} bytes, {from}, digest {}\n",
            exported.task,
            exported.bytes.len(),
            exported.digest
        ))?,
        Format::Json => {
            let text = serde_json::json!({
                "file": args.out, "task": exported.task, "bytes": exported.bytes.len(),
                "from": from.strip_prefix("from ").unwrap_or(&from), "digest": exported.digest,
            });
            print(&format!("{text:#}\n"))?;
        }
    }
    Ok(Exit::Done)
}
