//! Refusals of data and weights that a new scenario cannot use.

use std::path::Path;

use clap::ValueEnum;

use super::template::{SampleSource, ScenarioAnswers};
use crate::cli::failure::CliError;
use crate::data::DataError;

/// Kind of network that a new scenario can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NewBackbone {
    /// Pretrained vision transformer.
    #[default]
    Vit,
    /// ResNet-18, trained from scratch without --weights.
    #[value(name = "resnet18")]
    ResNet18,
}

/// Checks that the data are there, and are a folder of images if they have no name.
pub(super) fn check_data(data: &SampleSource) -> Result<(), CliError> {
    let SampleSource::Folder(path) = data else { return Ok(()) };
    if !path.exists() {
        return Err(CliError::from(DataError::Missing {
            path: path.clone(),
            expected: "a folder of images for --data".to_owned(),
            advice: "It is relative to the current folder. Or name a data set: digits, cifar10, cifar100".to_owned(),
        }));
    }
    if path.is_dir() {
        return Ok(());
    }
    let shown = path.display();
    let message = match section_of(path) {
        Some(section) => format!(
            "--data {shown}: `fedcast new` reads folders of images only\n  help: write a scenario for digits, then \
             replace its [data] and add [backbone]:\n{section}\n  `fedcast keys data` and the guide's page on data of \
             your own list the other keys"
        ),
        None => format!(
            "--data {shown}: this is a file, not a folder of images\n  help: unpack an archive; `fedcast keys data` \
             lists what else is read"
        ),
    };
    Err(CliError::Usage(message))
}

/// Returns the sections to write for a file of rows or of images, by its ending.
fn section_of(path: &Path) -> Option<String> {
    let ending = path.extension()?.to_string_lossy().to_lowercase();
    let input = match ending.as_str() {
        "csv" => "",
        "parquet" | "npz" => ", input = \"features\"",
        _ => return None,
    };
    let path = toml::Value::from(path.display().to_string());
    Some(format!(
        "    data = {{ source = \"table\", path = {path}, width = 4{input}, label = \"label\", test_fraction = 0.2 }}\n    \
         backbone = {{ kind = \"pixels\" }}\n  with the numbers in a row as `width` and the label's column as `label`"
    ))
}

/// Checks that the weights suit the kind of network and the data.
pub(super) fn check_weights(draft: &ScenarioAnswers) -> Result<(), CliError> {
    let word = draft.weights.as_ref().map(|weights| weights.to_string_lossy());
    let is_digits = draft.data == SampleSource::Named("digits".to_owned());
    let message = match (draft.backbone, word.as_deref()) {
        (NewBackbone::ResNet18, Some("embedded")) => {
            "--weights embedded: only a vision transformer is inside the program, no resnet18\n  help: leave out \
             --weights to train from scratch"
        }
        (NewBackbone::ResNet18, _) if draft.architecture.is_some() => {
            "--architecture describes a vision transformer, not --backbone resnet18\n  help: leave it out"
        }
        (NewBackbone::Vit, Some("random")) => {
            "--weights random: a vision transformer is not trained from random weights\n  help: use --backbone resnet18, \
             which is, or name a file of weights (./random if it is called so)"
        }
        (NewBackbone::Vit, Some("embedded")) if !is_digits => {
            "--weights embedded: the transformer inside the program takes gray images of 8 x 8 pixels, such as \
             digits\n  help: use --backbone resnet18, which is trained from scratch, or name other weights"
        }
        (NewBackbone::Vit, Some("embedded")) if draft.architecture.is_some() => {
            "--architecture: that of the transformer inside the program is fixed\n  help: leave it out"
        }
        _ => return Ok(()),
    };
    Err(CliError::Usage(message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_takes_only_weights_that_it_has() {
        let refused = |backbone, data: &str, weights: &str| {
            let weights = (!weights.is_empty()).then(|| weights.into());
            let data = SampleSource::of(data);
            let draft = ScenarioAnswers { backbone, data, weights, ..ScenarioAnswers::default() };
            check_weights(&draft).err().map(|error| error.to_string())
        };
        let (vit, resnet) = (NewBackbone::Vit, NewBackbone::ResNet18);
        for (backbone, data, weights) in [
            (vit, "digits", "embedded"),
            (vit, "pics", ""),
            (vit, "pics", "./random"),
            (resnet, "pics", "random"),
            (resnet, "pics", "mine.pth"),
        ] {
            assert_eq!(refused(backbone, data, weights), None, "{data} {weights}");
        }
        for (backbone, data, weights, way_out) in [
            (vit, "pics", "embedded", "use --backbone resnet18"),
            (vit, "digits", "random", "use --backbone resnet18"),
            (resnet, "digits", "embedded", "leave out --weights"),
        ] {
            let message = refused(backbone, data, weights).unwrap();
            assert!(message.contains(way_out), "{message}");
        }
    }

    #[test]
    fn a_table_is_answered_with_the_section_that_reads_it() {
        let section = |file: &str| section_of(Path::new(file));
        let csv = section("a/rows.CSV").unwrap();
        assert!(csv.contains(r#"path = "a/rows.CSV", width = 4, label"#), "{csv}");
        assert!(section("rows.npz").unwrap().contains(r#"input = "features""#));
        assert_eq!(section("images.zip"), None);
    }
}
