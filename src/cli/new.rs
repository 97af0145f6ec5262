//! `fedcast new`: a commented scenario to begin with, from options or from questions.

mod look;
mod questions;
mod template;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args;

use super::failure::CliError;
use super::{Exit, print};
use crate::files::Disk;
use crate::methods::Registry;
use crate::scenario::Scenario;
use template::Wishes;

/// Write a commented scenario to begin with, from options or, on a terminal, from questions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast new                                        asks what it should be
  fedcast new a.toml --method fedavg --clients 20 --beta 0.5
  fedcast new birds.toml --data ../birds --weights ../vit_tiny.safetensors --tasks 5
  fedcast new a.toml --method stsa --sampled 10 && fedcast run a.toml

What is written passes `fedcast check`. Keys that it leaves out have documented defaults: `fedcast keys`.")]
pub struct NewArgs {
    /// The file to write [default: scenario.toml]
    pub file: Option<PathBuf>,
    /// What is learnt, and how; `fedcast methods` lists them [default: hgp]
    #[arg(long)]
    pub method: Option<String>,
    /// digits, cifar10, cifar100, or a folder of images, relative to the current folder [default: digits]
    #[arg(long)]
    pub data: Option<String>,
    /// Weights of a ViT, relative to the current folder, or a name such as hf:timm/vit_tiny_patch16_224.augreg_in21k
    /// [default: for digits the small transformer inside the program, else that one]
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Shape of those weights: vit-tiny-patch16-224, vit-small-patch16-224, vit-base-patch16-224, or a table as
    /// `fedcast keys backbone.architecture` has it [default: as the file tells, or its name]
    #[arg(long, value_name = "SHAPE")]
    pub architecture: Option<String>,
    /// Tasks, of equally many classes [default: 5]
    #[arg(long, value_name = "N")]
    pub tasks: Option<u32>,
    /// Clients [default: 10]
    #[arg(long, value_name = "N")]
    pub clients: Option<u32>,
    /// Rounds of a task [default: 5]
    #[arg(long, value_name = "N")]
    pub rounds: Option<u32>,
    /// Clients sampled in a round [default: all]
    #[arg(long, value_name = "N")]
    pub sampled: Option<u32>,
    /// How even classes are spread over clients: 0.1 is very uneven, 100 nearly even [default: 0.5]
    #[arg(long, value_name = "X")]
    pub beta: Option<f64>,
    /// Replace the file if it is there
    #[arg(long)]
    pub force: bool,
}

impl NewArgs {
    /// Whether nothing is said about the scenario, so that somebody may be asked.
    fn says_nothing(&self) -> bool {
        let NewArgs {
            method,
            data,
            weights,
            architecture,
            tasks,
            clients,
            rounds,
            sampled,
            beta,
            ..
        } = self;
        let words = [method, data, architecture].iter().all(|word| word.is_none());
        let counts = [tasks, clients, rounds, sampled].iter().all(|count| count.is_none());
        words && counts && weights.is_none() && beta.is_none()
    }
}

/// Writes the file.
pub fn execute(args: &NewArgs) -> Result<Exit, CliError> {
    let on_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let mut wishes = match args.file.is_none() && args.says_nothing() && on_terminal {
        true => questions::ask()?,
        false => Wishes::of(args),
    };
    let methods = Registry::builtin();
    methods.find(&wishes.method).map_err(|unknown| CliError::Usage(unknown.to_string()))?;
    if let (None, Some(weights)) = (&wishes.architecture, &wishes.weights) {
        wishes.architecture = look::told(weights)?;
    }
    let file = args.file.clone().unwrap_or_else(|| PathBuf::from("scenario.toml"));
    if file.exists() && !args.force {
        let message = format!(
            "{} is there already; name another file, or --force replaces it",
            file.display()
        );
        return Err(CliError::Usage(message));
    }
    let place = std::path::absolute(&file).map_err(|error| cannot(&file, &error))?;
    let folder = place.parent().unwrap_or(Path::new("/"));
    let text = wishes.text(folder);
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    // Nothing is written that would not run as far as that can be known.
    let loaded = Scenario::from_toml(&text, &name, folder, &[], &methods)?;
    Disk::default().replace(&file, text.as_bytes()).map_err(|error| cannot(&file, &error))?;
    let shown = file.display();
    print(&format!(
        "{shown} is written. What next:\n  fedcast check {shown}\n  fedcast plan {shown}\n  fedcast run {shown}\n"
    ))?;
    for ignored in loaded.scenario.ignored() {
        super::tell::tell(&format!("note: {ignored}"));
    }
    Ok(Exit::Done)
}

fn cannot(file: &Path, error: &std::io::Error) -> CliError {
    CliError::Usage(format!("cannot write {}: {error}", file.display()))
}
