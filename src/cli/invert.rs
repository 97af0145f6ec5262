//! `fedcast invert`: feature inversion of a client's upload.

use std::path::PathBuf;

use clap::Args;

use super::failure::CliError;
use super::interrupt::interruptible;
use super::{Exit, OutputFormat, given, print_json, print_text};
use crate::experiment::{
    self, Inversion, InversionOptions, InversionRecord, Reconstruction, TargetKind, has_inversion,
    names, write_inversion,
};
use crate::learning::feature_inversion::{ImagePrior, InversionPlan, Lpips, lpips_scale};
use crate::methods::Registry;
use crate::report::text_table::TextTable;

/// Look for a client's images in an upload, as a curious server would
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast run scenarios/quickstart.toml -o runs/quick
  fedcast invert runs/quick
  fedcast invert runs/quick --client 3 --task 2 --class 4 -o runs/quick/inversion-3
  fedcast report runs/quick                         a page with the images

The run is computed again until the client's first upload of the task that shows something of images.
Means or sums of single classes (hgp, ccvr, fedproto, pip, pilora, c2prompt, stsa, stsa-e): Adam looks
for an image with the mean of one class. Only parameters, such as prompts, adapters or a head (other
methods that average, powder): for an image whose gradient points as the update does. An image is the
output of an untrained network for fixed noise, or pixels. As the worst case single samples' features or
gradients are inverted, too. PSNR and SSIM compare with the client's images of the class; for the upload
they are means over these. Runs with secure aggregation or noise are refused: their server does not see
the upload.

The folder gets inversion.json with settings and numbers, inversion.csv, every image as a PNG file, and
inversion.png with three rows of images: the client's, those found by their features or gradients, and
the one found by the upload. `fedcast report` shows inversions that are
in folders of the run directory.")]
pub struct InvertArgs {
    /// The run directory
    pub run: PathBuf,
    /// Client whose upload is inverted
    #[arg(long, value_name = "C", default_value_t = 0)]
    pub client: u32,
    /// Task of the upload, from 1
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub task: u32,
    /// Name of a class [default: the one with the fewest samples]
    #[arg(long, value_name = "NAME")]
    pub class: Option<String>,
    /// Images of the class whose own features are inverted as well
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub images: u32,
    /// Form of the image
    #[arg(long, value_enum, default_value_t = ImagePrior::Network)]
    pub prior: ImagePrior,
    /// Steps of Adam per image
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    pub steps: u32,
    /// Learning rate
    #[arg(long, value_name = "RATE", default_value_t = 0.01)]
    pub rate: f64,
    /// Weights of LPIPS, a safetensors file; without it LPIPS is not computed
    #[arg(long, value_name = "FILE")]
    pub lpips: Option<PathBuf>,
    /// Folder of the results [default: `inversion` in the run directory]
    #[arg(short, long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace existing results
    #[arg(long)]
    pub force: bool,
    /// Worker threads that compute the run again [default: the scenario's, else one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Option<u32>,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Inverts the upload and writes the results.
pub fn execute(args: &InvertArgs, methods: &Registry) -> Result<Exit, CliError> {
    given::run_directory(&args.run)?;
    if !(args.rate.is_finite() && args.rate > 0.0) {
        return Err(CliError::Usage(format!("--rate is {}, not above 0", args.rate)));
    }
    let out = args.out.clone().unwrap_or_else(|| args.run.join(names::INVERSION));
    let has_results = has_inversion(&out).map_err(|error| {
        let path = out.display();
        CliError::Usage(format!(
            "{path} is no folder for results: {error}\n  help: choose another --out"
        ))
    })?;
    if has_results && !args.force {
        let text = format!(
            "{} has results already\n  help: name another folder, or replace them with --force",
            out.display()
        );
        return Err(CliError::Usage(text));
    }
    let lpips = args.lpips.as_deref().map(Lpips::open).transpose()?;
    let interrupt = interruptible();
    let options = InversionOptions {
        client: args.client,
        task: args.task,
        class: args.class.clone(),
        images: args.images as usize,
        plan: InversionPlan { prior: args.prior, steps: args.steps, rate: args.rate },
        workers: args.workers,
    };
    let Some(mut found) = experiment::invert(&args.run, methods, &options, &interrupt)? else {
        return Ok(Exit::Interrupted);
    };
    if let Some(lpips) = &lpips {
        found.measure_lpips(lpips).map_err(|error| CliError::Unexpected(error.to_string()))?;
    }
    let record = InversionRecord::new(&found, &options, out.clone());
    write_inversion(&out, &found, &record)?;
    match args.format {
        OutputFormat::Human => print_text(&text(&found, &out.display().to_string()))?,
        OutputFormat::Json => print_json(&record)?,
    }
    Ok(Exit::Done)
}

fn text(found: &Inversion, folder: &str) -> String {
    let head = ["image found by", "loss", "PSNR, dB", "SSIM", "LPIPS"];
    let measured = found.of_upload.lpips.is_some();
    let columns = if measured { head.len() } else { head.len() - 1 };
    let mut table = TextTable::new(head.into_iter().take(columns)).left(1);
    let mut row = |name: String, of: &Reconstruction| {
        let Reconstruction { loss, psnr, ssim, lpips, .. } = of;
        let lpips = lpips.map_or(String::new(), |lpips| format!("{lpips:.3}"));
        let cells =
            [name, format!("{loss:.3e}"), format!("{psnr:.2}"), format!("{ssim:.3}"), lpips];
        table.row(cells.into_iter().take(columns));
    };
    let (vector, sent) = match found.target {
        TargetKind::Means => ("features", "upload"),
        TargetKind::Update => ("gradient", "update"),
    };
    for (original, of) in found.originals.iter().zip(&found.of_features) {
        row(format!("{vector} of sample {}", original.sample), of);
    }
    row(format!("{sent} of {} samples", found.samples), &found.of_upload);
    let note = match lpips_scale(found.shape[1], found.shape[2]) {
        scale if measured && scale > 1 => {
            format!("LPIPS       of images enlarged {scale} times: AlexNet takes no smaller ones\n")
        }
        _ => String::new(),
    };
    let Inversion { method, client, task, name, .. } = found;
    format!(
        "{method}, client {client}, task {task}, class {name}\n\n{}\n{note}results     {folder}\n",
        table.render()
    )
}
