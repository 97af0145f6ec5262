//! Makes the network that is embedded in the program: a small vision transformer, pretrained on procedurally
//! drawn images.
//!
//! ```text
//! cargo run --release --example pretrain -- --out glyphs.safetensors
//! ```
//! Federated experiments need a frozen backbone that has seen none of the federated classes. The images
//! here are invented pen strokes (`glyphs.rs`): no photograph, no letter or digit is among the classes by
//! design, and no data set is read. So the embedded network is held apart from every data set a user may
//! federate.
//!
//! The network learns to classify the drawn classes: AdamW, linear warm-up, cosine decay per step. A batch is
//! cut into a fixed number of shards; any number of workers computes them, gradients are added in the
//! shards' order, so the weights are the same bits for one worker or many.

mod canvas;
mod config;
mod glyphs;
mod outcome;
mod probe;
mod trainer;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

use config::PretrainConfig;
use outcome::{Outcome, pretrain_to};
use trainer::Progress;

/// Train the small embedded transformer on procedurally drawn images
#[derive(Debug, Parser)]
#[command(
    name = "pretrain",
    max_term_width = 100,
    after_help = "\
Examples:
  cargo run --release --example pretrain -- -o glyphs.safetensors
  cargo run --release --example pretrain -- -o trial.safetensors --steps 200

The defaults reproduce the network inside the program. Images are invented pen strokes, so no
class that is federated later was ever seen. Use the file with
  [backbone]
  weights = \"glyphs.safetensors\"
The number of workers changes no bit of the result."
)]
struct Args {
    /// The safetensors file to write
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Optimizer steps [default: those of the embedded network]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    steps: Option<u32>,
    /// Seed of drawings and start values [default: that of the embedded network]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Worker threads [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    workers: Option<u32>,
    /// No progress on stderr
    #[arg(short, long)]
    quiet: bool,
}

/// Steps between two plain lines of progress.
const SAY_EVERY: u32 = 100;

fn main() -> ExitCode {
    match execute(&Args::parse()) {
        Ok(made) => {
            println!("{made}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Trains and writes the file.
fn execute(args: &Args) -> outcome::Result<Outcome> {
    let mut config = PretrainConfig::default();
    if let Some(steps) = args.steps {
        config.steps = steps;
        config.warm_up = config.warm_up.min(steps / 2);
    }
    config.seed = args.seed.unwrap_or(config.seed);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = args.workers.map_or(cores, |count| count as usize);
    let mut say = progress(args.quiet, config.steps);
    pretrain_to(&args.out, &config, workers, |step| say(&step))
}

fn progress(quiet: bool, steps: u32) -> Box<dyn FnMut(&Progress)> {
    if quiet {
        return Box::new(|_| ());
    }
    if !std::io::stderr().is_terminal() {
        return Box::new(|p| {
            if p.step % SAY_EVERY == 0 || p.step == p.steps {
                eprintln!(
                    "step {}/{}  loss {:.3}  {:.1} % right",
                    p.step, p.steps, p.loss, p.accuracy
                );
            }
        });
    }
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} steps  {eta} left  {msg}")
        .expect("the template is a constant");
    let bar = ProgressBar::new(u64::from(steps)).with_style(style);
    Box::new(move |p| {
        bar.set_message(format!("loss {:.3}, {:.1} % right", p.loss, p.accuracy));
        bar.set_position(u64::from(p.step));
    })
}
