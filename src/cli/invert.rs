//! `fedcast invert`: feature inversion of a client's upload.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::failure::CliError;
use super::interrupt::interruptible;
use super::{Exit, OutputFormat, given, print_json, print_text};
use crate::document::Document;
use crate::experiment::{self, Inversion, InversionOptions, Reconstruction, write_inversion};
use crate::learning::feature_inversion::{ImagePrior, InversionPlan};
use crate::methods::Registry;
use crate::report::text_table::TextTable;

/// Look for a client's images in an upload, as a curious server would
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast run scenarios/quickstart.toml -o runs/quick
  fedcast invert runs/quick
  fedcast invert runs/quick --client 3 --task 2 --class 4 -o leak

The run is computed again until the client's first upload of the task that has means or sums of
single classes (hgp, ccvr, fedproto, stsa, stsa-e). Adam looks for an image with the mean of one
class: the output of an untrained network for fixed noise, or pixels. As the worst case it also
looks for images with the features of single samples. PSNR and SSIM compare with the client's images
of the class; for the upload they are means over these. Runs with secure aggregation or noise are
refused: their server does not see the upload.

The folder gets inversion.csv and inversion.png, with three rows of images: the client's, those found
by their features, and the one found by the upload.")]
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
    /// Folder of the results
    #[arg(short, long, value_name = "DIR", default_value = "inversion")]
    pub out: PathBuf,
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
    if args.out.join("inversion.csv").exists() && !args.force {
        let text = format!(
            "{} has results already\n  help: name another folder, or replace them with --force",
            args.out.display()
        );
        return Err(CliError::Usage(text));
    }
    let interrupt = interruptible();
    let options = InversionOptions {
        client: args.client,
        task: args.task,
        class: args.class.clone(),
        images: args.images as usize,
        plan: InversionPlan { prior: args.prior, steps: args.steps, rate: args.rate },
        workers: args.workers,
    };
    let Some(found) = experiment::invert(&args.run, methods, &options, &interrupt)? else {
        return Ok(Exit::Interrupted);
    };
    write_inversion(&args.out, &found)?;
    match args.format {
        OutputFormat::Human => print_text(&text(&found, &args.out.display().to_string()))?,
        OutputFormat::Json => print_json(&document(&found, args))?,
    }
    Ok(Exit::Done)
}

fn text(found: &Inversion, folder: &str) -> String {
    let mut table = TextTable::new(["image found by", "loss", "PSNR, dB", "SSIM"]).left(1);
    let mut row = |name: String, of: &Reconstruction| {
        let Reconstruction { loss, psnr, ssim, .. } = of;
        table.row([name, format!("{loss:.3e}"), format!("{psnr:.2}"), format!("{ssim:.3}")]);
    };
    for (original, of) in found.originals.iter().zip(&found.of_features) {
        row(format!("features of sample {}", original.sample), of);
    }
    row(format!("upload of {} samples", found.samples), &found.of_upload);
    let Inversion { method, client, task, name, .. } = found;
    format!(
        "{method}, client {client}, task {task}, class {name}\n\n{}\nresults     {folder}\n",
        table.render()
    )
}

/// Inversion of an upload as JSON.
#[derive(Serialize, Document)]
pub(super) struct InvertedUpload<'a> {
    /// Method of the run.
    method: &'a str,
    /// Client whose upload is inverted.
    client: u32,
    /// Task of the upload, from 1.
    task: u32,
    /// Class, in the data set's numbers.
    class: u32,
    /// Name of the class.
    class_name: &'a str,
    /// Samples of the class that the client has.
    samples: u64,
    /// Folder of the results.
    directory: &'a Path,
    /// Mean squared distance between the upload's mean and that of the originals' features.
    distance: Option<f64>,
    /// Images found by the features of single samples.
    features: Vec<FoundImage>,
    #[document(of = "the image found by the upload")]
    upload: FoundImage,
}

/// Image that was found.
#[derive(Serialize, Document)]
struct FoundImage {
    /// Index of the sample in the training split.
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<u32>,
    /// Mean squared error of the features at the start.
    first_loss: f64,
    /// Mean squared error of the features at the end.
    loss: f64,
    /// Peak signal-to-noise ratio.
    #[document(unit = "dB")]
    psnr: f64,
    /// Structural similarity.
    ssim: f64,
}

impl FoundImage {
    fn of(sample: Option<u32>, found: &Reconstruction) -> FoundImage {
        let Reconstruction { first_loss, loss, psnr, ssim, .. } = *found;
        FoundImage { sample, first_loss, loss, psnr, ssim }
    }
}

fn document<'a>(found: &'a Inversion, args: &'a InvertArgs) -> InvertedUpload<'a> {
    let features = found.originals.iter().zip(&found.of_features);
    InvertedUpload {
        method: &found.method,
        client: found.client,
        task: found.task,
        class: found.class,
        class_name: &found.name,
        samples: found.samples,
        directory: &args.out,
        distance: found.distance,
        features: features
            .map(|(original, of)| FoundImage::of(Some(original.sample), of))
            .collect(),
        upload: FoundImage::of(None, &found.of_upload),
    }
}
