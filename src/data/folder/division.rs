//! Division of a folder's images into training and test images.

use std::path::PathBuf;

/// Training and test images of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Division {
    /// Names of the classes, by class id.
    pub class_names: Vec<String>,
    /// Path and class id of each training image.
    pub train: Vec<(PathBuf, u32)>,
    pub test: Vec<(PathBuf, u32)>,
    /// Notes for the user.
    pub notes: Vec<String>,
}
