//! Files of weights as parameters of our networks, and parameters as files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::tensor::{Dtype, TensorView};

use super::ModelError;
use super::parameters::{Parameter, ParameterSet};
use crate::weights::{Format, NameMap, Network, Strictness, WeightsFile};

/// File of weights that a scenario names.
#[derive(Clone, Debug, Default)]
pub struct WeightsSource {
    /// Path of the file.
    pub path: PathBuf,
    /// Name in messages: the path, or the name by which the file was fetched.
    pub name: String,
    /// Patterns of tensors that may stay unused.
    pub ignore: Vec<String>,
    /// Set of weights to read if a file has several. By default it is the one averaged over training.
    pub part: Option<String>,
}

impl WeightsSource {
    /// Returns the source of a file in which no tensor may stay unused.
    pub fn at(path: &Path) -> WeightsSource {
        WeightsSource {
            path: path.to_owned(),
            name: path.display().to_string(),
            ..WeightsSource::default()
        }
    }
}

/// Open file and the roles of its tensors in our networks.
pub(super) struct OpenWeights<'a> {
    file: WeightsFile<'a>,
    pub map: NameMap,
    ignore: Vec<String>,
}

impl OpenWeights<'static> {
    /// Opens a file.
    ///
    /// # Errors
    /// Returns a [`WeightsError`](crate::weights::WeightsError) if the file cannot be used.
    pub fn open(source: &WeightsSource) -> Result<OpenWeights<'static>, ModelError> {
        let file = WeightsFile::called(&source.path, &source.name, source.part.as_deref())?;
        OpenWeights::of(file, source.ignore.clone())
    }
}

impl<'a> OpenWeights<'a> {
    /// Opens the bytes of a safetensors file that comes from `origin`.
    ///
    /// # Errors
    /// Fails as [`OpenWeights::open`] does.
    pub fn from_bytes(origin: &str, bytes: &'a [u8]) -> Result<OpenWeights<'a>, ModelError> {
        OpenWeights::of(WeightsFile::from_bytes(origin, Cow::Borrowed(bytes))?, Vec::new())
    }

    fn of(file: WeightsFile<'a>, ignore: Vec<String>) -> Result<OpenWeights<'a>, ModelError> {
        let map = NameMap::of(file.origin(), file.listing())?;
        Ok(OpenWeights { file, map, ignore })
    }

    /// Returns the file's container.
    pub fn format(&self) -> Format {
        self.file.format()
    }

    /// Returns the key in a larger file under which its tensors were.
    pub fn part(&self) -> Option<&str> {
        self.file.part()
    }

    /// Returns the keys in a larger file that hold other sets of tensors.
    pub fn others(&self) -> Vec<String> {
        self.file.others()
    }

    /// Returns the file's name in errors.
    pub fn origin(&self) -> &str {
        self.file.origin()
    }

    /// Returns the parameters of a network, all of them and nothing else.
    ///
    /// Batch counters that an old file lacks are 0, as in PyTorch.
    ///
    /// # Errors
    /// Returns an error with the names of tensors that are missing, of another shape, left over, of a wrong type or not
    /// finite.
    pub fn parameters(
        mut self,
        network: Network,
        shapes: Vec<(String, Vec<usize>)>,
    ) -> Result<ParameterSet, ModelError> {
        let wanted: BTreeMap<String, Vec<usize>> = shapes.into_iter().collect();
        let strictness = Strictness { ignore: &self.ignore };
        strictness.accept(self.file.origin(), &self.map, network, &wanted)?;
        let mut set = ParameterSet::new();
        for line in self.map.lines.iter().filter(|line| wanted.contains_key(&line.to)) {
            let tensor = self.file.made(line)?;
            set.insert(line.to.as_str(), Parameter { shape: tensor.shape, values: tensor.values });
        }
        for (name, shape) in wanted {
            if set.get(&name).is_none() {
                let values = vec![0.0; shape.iter().product()].into();
                set.insert(name, Parameter { shape, values });
            }
        }
        Ok(set)
    }
}

/// Returns parameters as the bytes of a safetensors file, f32.
///
/// # Errors
/// Returns [`ModelError::Unwritable`] if the format cannot express them.
pub fn to_safetensors(parameters: &ParameterSet) -> Result<Vec<u8>, ModelError> {
    let raw: Vec<(&Arc<str>, &[usize], Vec<u8>)> = parameters
        .iter()
        .map(|(name, p)| {
            (name, p.shape.as_slice(), p.values.iter().flat_map(|v| v.to_le_bytes()).collect())
        })
        .collect();
    let views = raw
        .iter()
        .map(|(name, shape, bytes)| {
            Ok((&***name, TensorView::new(Dtype::F32, shape.to_vec(), bytes)?))
        })
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    Ok(safetensors::serialize(views, None)?)
}
