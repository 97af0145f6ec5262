//! A training as a whole: train on drawn images, judge, write the weights.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use fedcast::data::digits;
use fedcast::experiment::{DirectoryError, write_atomically};
use fedcast::model::{Vit, to_safetensors};
use fedcast::quantity::Bytes;

use crate::config::PretrainConfig;
use crate::probe::{linear_probe, nearest_mean};
use crate::trainer::{Progress, pretrain};

/// Result of [`pretrain_to`].
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The file that was written.
    pub file: PathBuf,
    /// Its size.
    pub size: Bytes,
    /// Scalars in the network.
    pub parameters: usize,
    /// blake3 over names, shapes and bits of the parameters.
    pub digest: String,
    /// Accuracy on drawings that were held out, over all drawn classes, in percent.
    pub held_out_accuracy: f64,
    /// Test accuracy on the embedded digits, which were not trained on, of a linear head on the
    /// frozen features, in percent.
    pub linear_probe: f64,
    /// Test accuracy of the nearest class mean, in percent.
    pub nearest_mean: f64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digest = &self.digest[..self.digest.len().min(16)];
        writeln!(f, "{} ({}, {} parameters)", self.file.display(), self.size, self.parameters)?;
        writeln!(f, "weights {digest}")?;
        writeln!(f, "held-out drawings: {:.2} % right", self.held_out_accuracy)?;
        let (linear, mean) = (self.linear_probe, self.nearest_mean);
        write!(f, "digits on frozen features: linear {linear:.2} %, nearest mean {mean:.2} %")
    }
}

/// Any error of the library, of files or of a configuration that does not fit together.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Trains, judges and writes a safetensors file with timm's names and without a head.
///
/// # Errors
/// A path that cannot be written is reported before training begins; then the errors of training follow.
pub fn pretrain_to(
    file: &Path,
    config: &PretrainConfig,
    workers: usize,
    report: impl FnMut(Progress),
) -> Result<Outcome> {
    try_place(file)?;
    let trained = pretrain(config, workers, report)?;
    let bytes = to_safetensors(&trained.parameters)?;
    write_atomically(file, &bytes)?;
    // The embedded digits are images as they were drawn, 8 x 8: any size of network can see them.
    let network = Vit::from_parameters(trained.network, &trained.parameters)?;
    let digits = digits::embedded()?;
    Ok(Outcome {
        file: file.to_owned(),
        size: Bytes(bytes.len() as u64),
        parameters: trained.parameters.flat_length(),
        digest: trained.parameters.digest().to_hex().to_string(),
        held_out_accuracy: trained.held_out_accuracy,
        linear_probe: linear_probe(&network, &digits)?,
        nearest_mean: nearest_mean(&network, &digits)?,
    })
}

/// Minutes of training should not end at a read-only folder.
fn try_place(file: &Path) -> std::result::Result<(), DirectoryError> {
    let fail = |source| DirectoryError::Write { path: file.to_owned(), source };
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent).map_err(fail)?;
    }
    if file.is_dir() {
        return Err(fail(std::io::ErrorKind::IsADirectory.into()));
    }
    let trial = file.with_extension("trial");
    fs::File::create(&trial).map_err(fail)?;
    fs::remove_file(&trial).map_err(fail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fedcast::model::{EMBEDDED_CONFIG, VitConfig};

    fn tiny() -> PretrainConfig {
        PretrainConfig {
            network: VitConfig { dim: 16, depth: 2, heads: 2, mlp: 32, ..EMBEDDED_CONFIG },
            classes: 6,
            steps: 3,
            warm_up: 1,
            batch: 12,
            shards: 3,
            held_out: 20,
            ..PretrainConfig::default()
        }
    }

    #[test]
    fn the_number_of_workers_changes_no_bit_and_the_seed_does() {
        let folder = tempfile::tempdir().unwrap();
        let run = |name: &str, config: &PretrainConfig, workers| {
            let mut steps = Vec::new();
            let file = folder.path().join(name);
            let made = pretrain_to(&file, config, workers, |p| steps.push(p)).unwrap();
            (made.digest, steps, fs::read(file).unwrap())
        };
        let one = run("one", &tiny(), 1);
        assert_eq!(one, run("two", &tiny(), 2));
        assert_eq!(one, run("many", &tiny(), 8));
        assert_ne!(one.0, run("other", &PretrainConfig { seed: 2, ..tiny() }, 1).0);
        assert_eq!(one.1.len(), 3);
        let read = Vit::from_bytes("file", &one.2, None, Some(2)).unwrap();
        assert_eq!(read.parameters().unwrap().digest().to_hex().to_string(), one.0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "no other file is left");
    }

    #[test]
    fn an_unwritable_path_is_refused_before_training() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = 0;
        let result = pretrain_to(folder.path(), &tiny(), 1, |_| steps += 1);
        assert!(result.unwrap_err().is::<DirectoryError>());
        assert_eq!(steps, 0);
    }

    #[test]
    fn impossible_plans_are_refused() {
        let refused = |config: PretrainConfig| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("x");
            pretrain_to(&file, &config, 1, |_| ()).unwrap_err().to_string()
        };
        assert!(refused(PretrainConfig { shards: 5, ..tiny() }).contains("multiple"));
        let color = VitConfig { channels: 3, ..tiny().network };
        assert!(refused(PretrainConfig { network: color, ..tiny() }).contains("one channel"));
    }
}
