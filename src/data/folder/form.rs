//! Form in which images leave their files.

use super::{Orientation, StoredSize};
use crate::data::transform::{Kernel, shorter_to};

/// Size that every image is brought to once, and treatment of its orientation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredForm {
    /// Size after turning.
    pub size: StoredSize,
    /// Treatment of what a camera noted.
    pub orientation: Orientation,
}

impl StoredForm {
    /// Rows and columns at which a turned image of this size is stored.
    pub(super) fn extent(self, (height, width): (usize, usize)) -> (usize, usize) {
        match self.size {
            StoredSize::Original => (height, width),
            StoredSize::Square(side) => (side as usize, side as usize),
            StoredSize::Shorter { side, .. } => shorter_to(height, width, side as usize),
        }
    }

    /// Kernel that brings an image to its size.
    pub(super) fn kernel(self) -> Kernel {
        match self.size {
            StoredSize::Shorter { kernel, .. } => kernel,
            StoredSize::Square(_) | StoredSize::Original => Kernel::Pillow,
        }
    }

    /// Returns the name in digests; without orientation it is that of files as they always were.
    pub(in crate::data) fn word(self) -> String {
        let size = match self.size {
            StoredSize::Original => "None".to_owned(),
            StoredSize::Square(side) => format!("Some({side})"),
            StoredSize::Shorter { .. } => format!("{:?}", self.size),
        };
        match self.orientation {
            Orientation::Ignored => size,
            Orientation::Exif => format!("{size} turned"),
        }
    }
}
