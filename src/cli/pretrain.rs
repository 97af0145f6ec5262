//! `fedcast pretrain`: trains the small embedded backbone on procedurally drawn images.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::failure::CliError;
use super::{Exit, Format, print};
use crate::experiment::pretrain_to;
use crate::learning::pretrain::{PretrainConfig, Progress};

/// Train the small embedded transformer on procedurally drawn images
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast pretrain -o glyphs.safetensors
  fedcast pretrain -o trial.safetensors --steps 200

The defaults reproduce the network inside the program. Images are invented pen strokes, so no
class that is federated later was ever seen. Use the file with
  [backbone]
  weights = \"glyphs.safetensors\"
The number of workers changes no bit of the result.")]
pub struct PretrainArgs {
    /// The safetensors file to write
    #[arg(short, long, value_name = "FILE")]
    pub out: PathBuf,
    /// Optimiser steps [default: those of the embedded network]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: Option<u32>,
    /// Seed of drawings and start values [default: that of the embedded network]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// No progress on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// How results are written to stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

/// Steps between two plain lines of progress.
const SAY_EVERY: u32 = 100;

/// Trains and writes the file.
pub fn execute(args: &PretrainArgs) -> Result<Exit, CliError> {
    let mut config = PretrainConfig::default();
    if let Some(steps) = args.steps {
        config.steps = steps;
        config.warm_up = config.warm_up.min(steps / 2);
    }
    config.seed = args.seed.unwrap_or(config.seed);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = args.workers.map_or(cores, |count| count as usize);
    let mut say = progress(args.quiet, config.steps);
    let made = pretrain_to(&args.out, &config, workers, |step| say(&step))?;
    match args.format {
        Format::Human => print(&format!("{made}\n"))?,
        Format::Json => {
            let text = serde_json::json!({
                "file": made.file, "bytes": made.size, "parameters": made.parameters,
                "digest": made.digest, "held_out_accuracy": made.held_out_accuracy,
                "linear_probe": made.linear_probe, "nearest_mean": made.nearest_mean,
            });
            print(&format!("{text:#}\n"))?;
        }
    }
    Ok(Exit::Done)
}

fn progress(quiet: bool, steps: u32) -> Box<dyn FnMut(&Progress)> {
    if quiet {
        return Box::new(|_| ());
    }
    if !std::io::stderr().is_terminal() {
        return Box::new(move |p| {
            if (p.step + 1) % SAY_EVERY == 0 || p.step + 1 == steps {
                eprintln!(
                    "step {}/{steps}  loss {:.3}  {:.1} % right",
                    p.step + 1,
                    p.loss,
                    p.accuracy
                );
            }
        });
    }
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} steps  {eta} left  {msg}")
        .expect("the template is a constant");
    let bar = ProgressBar::new(u64::from(steps)).with_style(style);
    Box::new(move |p| {
        bar.set_message(format!("loss {:.3}, {:.1} % right", p.loss, p.accuracy));
        bar.set_position(u64::from(p.step) + 1);
    })
}
