//! `fedcast weights`: description of a weights file.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::failure::CliError;
use super::{Exit, OutputFormat, print_json, print_text};
use crate::document::Document;
use crate::fetch::Settings;
use crate::model::{
    BackboneConfig, Stem, VitConfig, WeightsReport, WeightsSource, inspect_weights,
};
use crate::scenario::Activation;
use crate::scenario::reader::Choice;
use crate::weights::{Line, looks, named, shown};

/// Describe a weights file: format, tensor names, network, digest, tensors left over
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  fedcast weights model.safetensors
  fedcast weights pytorch_model.bin --map          every tensor of the network and its sources
  fedcast weights hf:timm/vit_tiny_patch16_224.augreg_in21k
  fedcast weights dino.pth --ignore 'predictor.*'  as with backbone.ignore = [\"predictor.*\"]

Formats: safetensors, also in several files (name model.safetensors.index.json), PyTorch (zip, since
1.6) and NumPy (npz, the JAX release of ViT). Tensor names: those of timm, Hugging Face,
torchvision, JAX and BERT, with or without a prefix such as module. The exit code is 0 if a
scenario can use the file; otherwise the reason is printed and the code is 6. The digest is that of
the parameters, as in a run's manifest at the network's own resolution.")]
pub struct WeightsArgs {
    /// The weights file, or the name by which it was fetched
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Show every tensor of the network and its sources in the file
    #[arg(long)]
    pub map: bool,
    /// Pattern of tensors that may be left over, as in backbone.ignore; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub ignore: Vec<String>,
    /// One of several sets of weights in the file, as in backbone.part
    #[arg(long, value_name = "NAME")]
    pub part: Option<String>,
    /// Number of attention heads, if it does not follow from the width
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub heads: Option<u16>,
    /// Format of results on stdout
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

/// Reads the file and prints its description.
pub fn execute(args: &WeightsArgs) -> Result<Exit, CliError> {
    let path = Settings::from_env().weights_at(&args.file)?;
    let (name, ignore) = (args.file.display().to_string(), args.ignore.clone());
    let source = WeightsSource { path, name, ignore, part: args.part.clone() };
    let found = inspect_weights(&source, args.heads.map(usize::from))?;
    match args.format {
        OutputFormat::Human => print_text(&text(args, &found))?,
        OutputFormat::Json => print_json(&json(args, &found))?,
    }
    Ok(match found.network {
        Ok(_) => Exit::Done,
        Err(error) => {
            let error = CliError::from(error);
            error.print();
            error.exit_code()
        }
    })
}

fn text(args: &WeightsArgs, found: &WeightsReport) -> String {
    let map = &found.map;
    let mut text = String::new();
    let mut row = |word: &str, what: &str| {
        text.push_str(&format!("{word:<12} {what}\n"));
    };
    let part = found.part.as_ref().map(|part| format!(", below `{part}`")).unwrap_or_default();
    let prefix = match map.prefix.as_str() {
        "" => String::new(),
        prefix => format!(", behind `{prefix}`"),
    };
    row("file", &format!("{} ({}{part})", args.file.display(), found.format.word()));
    if !found.others.is_empty() {
        let others = named(&found.others, 8);
        row(
            "not read",
            &format!("{others}: other sets of weights in the file; backbone.part (--part) chooses"),
        );
    }
    row("names", &format!("{}{prefix}", map.family.name));
    row("network", &looks(map));
    let sources: usize = map.lines.iter().map(|line| line.from.len()).sum();
    row("tensors", &format!("{} of the network, from {sources} of the file", map.lines.len()));
    let folded: BTreeSet<&String> =
        map.lines.iter().filter_map(|line| line.scale.as_ref()).collect();
    if !folded.is_empty() {
        let count = folded.len();
        row("folded", &format!("LayerScale ({count} vectors) into the layers before it"));
    }
    if !map.passed.is_empty() {
        row("passed over", &named(&map.passed, 8));
    }
    if !map.left.is_empty() {
        row("left over", &named(&map.left, 8));
    }
    if let Ok((_, digest)) = &found.network {
        row("digest", &digest.to_hex()[..16]);
    }
    if args.map {
        text.push('\n');
        for Line { to, from, layout, scale, shape } in &map.lines {
            let scaled = scale.as_ref().map(|name| format!("rows times {name}"));
            let done: Vec<String> = Some(layout.word().to_owned())
                .filter(|word| !word.is_empty())
                .into_iter()
                .chain(scaled)
                .collect();
            let how =
                if done.is_empty() { String::new() } else { format!("  ({})", done.join(", ")) };
            let shape = shown(shape);
            text.push_str(&format!("{to}  {shape}  <-  {}{how}\n", from.join(" + ")));
        }
    }
    if let Ok((config, _)) = &found.network {
        text.push_str(&format!("\n{}", section(args, config)));
    }
    text
}

/// Returns the `[backbone]` section of a scenario that uses the file.
fn section(args: &WeightsArgs, config: &BackboneConfig) -> String {
    let mut lines = vec!["[backbone]".to_owned(), format!("kind = \"{}\"", config.kind())];
    lines.push(format!("weights = {}", quoted(args.file.display().to_string())));
    if let Some(part) = &args.part {
        lines.push(format!("part = {}", quoted(part)));
    }
    if !args.ignore.is_empty() {
        let patterns: Vec<String> = args.ignore.iter().map(quoted).collect();
        lines.push(format!("ignore = [{}]", patterns.join(", ")));
    }
    match config {
        BackboneConfig::Vit(vit) => {
            let shape = architecture(vit);
            let shape = if shape.starts_with('{') { shape } else { quoted(shape) };
            lines.push(format!(
                "architecture = {shape}   # may be left out: it follows from the file"
            ));
            let activation = Activation::of_weights(&args.file.to_string_lossy());
            let known = match activation {
                Activation::Gelu => "the default; files do not contain it, see the model card",
                Activation::QuickGelu => "known by the name of the weights",
            };
            lines.push(format!("activation = \"{}\"   # {known}", activation.word()));
        }
        BackboneConfig::ResNet(network) => {
            lines.push(format!("width = {}", network.width));
            if network.stem == Stem::ImageNet {
                lines.push("stem = \"imagenet\"".to_owned());
            }
        }
        BackboneConfig::Bert(bert) => {
            lines.push("vocabulary = \"vocab.txt\"   # in the folder of the weights".to_owned());
            let (v, h, l, n) = (bert.vocabulary, bert.hidden, bert.layers, bert.heads);
            let (i, p) = (bert.intermediate, bert.positions);
            lines.push(format!("architecture = {{ vocabulary = {v}, hidden = {h}, layers = {l}, heads = {n}, intermediate = {i}, positions = {p} }}"));
        }
        BackboneConfig::DeepResNet(_) | BackboneConfig::Pixels(_) => {}
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the name of a transformer's architecture, or a table of its dimensions.
pub(super) fn architecture(vit: &VitConfig) -> String {
    let preset = VitConfig::PRESETS.into_iter().find(|p| VitConfig::preset(p) == Some(*vit));
    let VitConfig { image, patch, channels, dim, depth, heads, mlp, .. } = vit;
    preset.map_or_else(
        || {
            format!(
                "{{ image = {image}, patch = {patch}, channels = {channels}, dim = {dim}, depth = {depth}, \
                 heads = {heads}, mlp = {mlp} }}"
            )
        },
        str::to_owned,
    )
}

fn quoted(text: impl AsRef<str>) -> String {
    toml::Value::String(text.as_ref().to_owned()).to_string()
}

/// Description of a weights file as JSON.
#[derive(Serialize, Document)]
pub(super) struct DescribedWeights<'a> {
    /// File or name as given.
    file: &'a Path,
    /// Format of the file.
    file_format: &'static str,
    /// Chosen set of weights in the file.
    part: Option<&'a str>,
    /// Other sets of weights in the file.
    other_parts: &'a [String],
    /// Family of tensor names.
    family: &'static str,
    /// Prefix of the tensor names.
    prefix: &'a str,
    /// Network in words.
    network: String,
    /// Digest of the parameters, if a scenario can use the file.
    digest: Option<String>,
    /// Reason why no scenario can use the file.
    problem: Option<String>,
    /// Value of `backbone.kind`.
    kind: Option<&'static str>,
    /// Number of scalars in all parameters.
    parameters: Option<usize>,
    /// Tensors of the network with their sources.
    map: Vec<TensorSource<'a>>,
    /// Tensors of the file that no network has a use for.
    passed_over: &'a [String],
    /// Tensors of the file that are left over.
    left_over: &'a [String],
}

/// Tensor of the network with its sources in a file.
#[derive(Serialize, Document)]
struct TensorSource<'a> {
    /// Name in the network.
    to: &'a str,
    /// Names in the file.
    from: &'a [String],
    /// Change of layout; empty if there is none.
    layout: &'static str,
    /// Tensor of the file by which rows are multiplied.
    rows_times: Option<&'a str>,
    /// Shape.
    shape: &'a [usize],
}

fn json<'a>(args: &'a WeightsArgs, found: &'a WeightsReport) -> DescribedWeights<'a> {
    let map = &found.map;
    let line = |line: &'a Line| TensorSource {
        to: &line.to,
        from: &line.from,
        layout: line.layout.word(),
        rows_times: line.scale.as_deref(),
        shape: &line.shape,
    };
    let (digest, problem) = match &found.network {
        Ok((_, digest)) => (Some(digest.to_hex()[..16].to_owned()), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let network = found.network.as_ref().ok();
    DescribedWeights {
        file: &args.file,
        file_format: found.format.word(),
        part: found.part.as_deref(),
        other_parts: &found.others,
        family: map.family.name,
        prefix: &map.prefix,
        network: looks(map),
        digest,
        problem,
        kind: network.map(|(config, _)| config.kind()),
        parameters: network.map(|(config, _)| config.parameter_count()),
        map: map.lines.iter().map(line).collect(),
        passed_over: &map.passed,
        left_over: &map.left,
    }
}
