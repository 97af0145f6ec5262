//! Images of a folder by what they are for.

use std::path::PathBuf;

/// The images of a folder, divided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// Class id -> name.
    pub class_names: Vec<String>,
    /// Path and class.
    pub train: Vec<(PathBuf, u32)>,
    pub test: Vec<(PathBuf, u32)>,
    /// Notes for the user.
    pub notes: Vec<String>,
}
