//! Files of weights as parameters of our networks, and parameters as files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::tensor::{Dtype, TensorView};

use super::ModelError;
use super::parameters::{Parameter, ParameterSet};
use crate::weights::{Format, NameMap, Network, Strictness, WeightsFile};

/// A file of weights that a scenario names.
#[derive(Clone, Debug, Default)]
pub struct WeightsSource {
    /// Path of the file.
    pub path: PathBuf,
    /// Name in messages: the path, or the name by which it was fetched.
    pub name: String,
    /// Patterns of tensors that may be left over.
    pub ignore: Vec<String>,
    /// Set of weights to read, where a file has several. By default the one that was averaged over training.
    pub part: Option<String>,
}

impl WeightsSource {
    /// Returns the source of a file in which no tensor may be left over.
    pub fn at(path: &Path) -> WeightsSource {
        WeightsSource {
            path: path.to_owned(),
            name: path.display().to_string(),
            ..WeightsSource::default()
        }
    }
}

/// An open file and what its tensors are to us.
pub(super) struct OpenWeights<'a> {
    file: WeightsFile<'a>,
    pub map: NameMap,
    ignore: Vec<String>,
}

impl OpenWeights<'static> {
    /// Opens a file.
    ///
    /// # Errors
    /// See [`WeightsError`](crate::weights::WeightsError).
    pub fn open(source: &WeightsSource) -> Result<OpenWeights<'static>, ModelError> {
        let file = WeightsFile::called(&source.path, &source.name, source.part.as_deref())?;
        OpenWeights::of(file, source.ignore.clone())
    }
}

impl<'a> OpenWeights<'a> {
    /// Returns the bytes of a safetensors file that comes from `origin`.
    ///
    /// # Errors
    /// As [`OpenWeights::open`].
    pub fn from_bytes(origin: &str, bytes: &'a [u8]) -> Result<OpenWeights<'a>, ModelError> {
        OpenWeights::of(WeightsFile::from_bytes(origin, Cow::Borrowed(bytes))?, Vec::new())
    }

    fn of(file: WeightsFile<'a>, ignore: Vec<String>) -> Result<OpenWeights<'a>, ModelError> {
        let map = NameMap::of(file.origin(), file.listing())?;
        Ok(OpenWeights { file, map, ignore })
    }

    /// Its container.
    pub fn format(&self) -> Format {
        self.file.format()
    }

    /// Returns the key of a larger file that its tensors were under.
    pub fn part(&self) -> Option<&str> {
        self.file.part()
    }

    /// Returns the keys of such a file that other tensors are under.
    pub fn others(&self) -> Vec<String> {
        self.file.others()
    }

    /// Returns its name in errors.
    pub fn origin(&self) -> &str {
        self.file.origin()
    }

    /// Returns the parameters of a network, all of them and nothing else. Counters that an old file lacks are 0, as
    /// PyTorch sets them.
    ///
    /// # Errors
    /// What is missing, of another shape, left over, of a wrong type or not finite, by name.
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

/// Parameters as the bytes of a safetensors file, f32.
///
/// # Errors
/// [`ModelError::Unwritable`] when the format has no way to say it.
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
