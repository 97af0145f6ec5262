//! Inversions of uploads in the directory of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{ResultsError, RunRecord};
use crate::experiment::{InversionPicture, InversionRecord, read_inversion};
use crate::files::{FileKind, read};

/// Inversion in a folder of a run directory.
#[derive(Clone, Debug, PartialEq)]
pub struct RunInversion {
    /// Folder of its files.
    pub folder: PathBuf,
    /// Settings and numbers.
    pub record: InversionRecord,
    /// PNG files of the images; those that cannot be read are missing.
    pub pictures: BTreeMap<InversionPicture, Vec<u8>>,
}

impl RunInversion {
    /// Returns the inversions in folders of a run's directory, in the order of their paths.
    ///
    /// An inversion that belongs to an earlier run of another scenario in this directory is left out.
    ///
    /// # Errors
    /// Fails if a folder or a record cannot be read.
    pub fn of(run: &RunRecord) -> Result<Vec<RunInversion>, ResultsError> {
        let failed = |path: &PathBuf| {
            let path = path.clone();
            move |source| ResultsError::Read { path, source }
        };
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(&run.path).map_err(failed(&run.path))? {
            let entry = entry.map_err(failed(&run.path))?;
            if entry.file_type().map_err(failed(&run.path))?.is_dir() {
                folders.push(entry.path());
            }
        }
        folders.sort_unstable();
        let mut found = Vec::new();
        for folder in folders {
            let record = read_inversion(&folder).map_err(failed(&folder))?;
            let of_run =
                |record: &InversionRecord| record.scenario_hash == run.manifest.scenario.hash;
            found.extend(record.filter(of_run).map(|record| RunInversion::new(folder, record)));
        }
        Ok(found)
    }

    fn new(folder: PathBuf, record: InversionRecord) -> RunInversion {
        let of_sample =
            |sample: u32| [InversionPicture::Original(sample), InversionPicture::Features(sample)];
        let samples = record.features.iter().filter_map(|image| image.sample);
        let all = samples.flat_map(of_sample).chain([InversionPicture::Upload]);
        let file =
            |of: InversionPicture| Some((of, read(&folder.join(of.file()), FileKind::Image).ok()?));
        let pictures = all.filter_map(file).collect();
        RunInversion { folder, record, pictures }
    }
}
