//! Search for files on this machine, without network access.

use std::path::{Path, PathBuf};

use super::hub_list::Extent;
use super::{FetchError, HubName, Name, Settings, hub, known};

impl Settings {
    /// Returns the file of weights of a name.
    ///
    /// # Errors
    /// [`FetchError::Absent`] with the command that downloads it; also if the name is not a file of weights.
    pub fn find_weights(&self, name: &Name) -> Result<PathBuf, FetchError> {
        match name {
            Name::Hub(hub) if hub.dataset => Err(FetchError::NoHubName(name.to_string())),
            Name::Hub(hub) => hub::find_file(hub, self).ok_or_else(|| self.absent(name)),
            Name::Known(_) => Err(FetchError::NoHubName(name.to_string())),
        }
    }

    /// Returns the path that `data.path` takes: a file or a folder.
    ///
    /// # Errors
    /// [`FetchError::Absent`] with the command that downloads it, [`FetchError::Part`] with the one that completes
    /// it.
    pub fn find_data(&self, name: &Name) -> Result<PathBuf, FetchError> {
        let found = match name {
            Name::Hub(hub) => match self.hub_file(hub) {
                Some(file) => Some(file),
                None if !hub.dataset && hub.file.is_some() => None,
                None => match hub::extent(hub, self) {
                    Extent::Absent => None,
                    Extent::Whole(folder) => Some(folder),
                    Extent::Part(folder, why) => {
                        let (name, command) = (name.to_string().into(), name.command().into());
                        return Err(FetchError::Part { name, folder, why: why.into(), command });
                    }
                },
            },
            Name::Known(entry) => known::find(entry, self),
        };
        found.ok_or_else(|| self.absent(name))
    }

    /// Returns the file that a name of the hub gives, if any.
    fn hub_file(&self, name: &HubName) -> Option<PathBuf> {
        name.file.as_ref().and_then(|_| hub::find_file(name, self))
    }

    /// Returns the path itself, or the path of the file of weights if it is a name.
    ///
    /// # Errors
    /// As [`Settings::find_weights`].
    pub fn weights_at(&self, path: &Path) -> Result<PathBuf, FetchError> {
        Name::of_path(path).map_or_else(|| Ok(path.to_owned()), |name| self.find_weights(&name?))
    }

    /// Returns the path itself, or the path of the data set if it is a name.
    ///
    /// # Errors
    /// As [`Settings::find_data`].
    pub fn data_at(&self, path: &Path) -> Result<PathBuf, FetchError> {
        Name::of_path(path).map_or_else(|| Ok(path.to_owned()), |name| self.find_data(&name?))
    }

    fn absent(&self, name: &Name) -> FetchError {
        let place = match name {
            Name::Hub(_) => self.hub.clone(),
            Name::Known(entry) => known::folder(entry, self),
        };
        FetchError::Absent { name: name.to_string(), place, command: name.command() }
    }
}
