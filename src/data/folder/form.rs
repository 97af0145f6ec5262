//! Form in which decoded images are stored.

use super::{Orientation, StoredSize};
use crate::data::transform::{Kernel, shorter_to};

/// Stored size of images, and treatment of their orientation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredForm {
    /// Size after turning upright.
    pub size: StoredSize,
    /// Treatment of the orientation that a camera recorded.
    pub orientation: Orientation,
}

impl StoredForm {
    /// Returns rows and columns at which an image of this size, after turning, is stored.
    pub(super) fn extent(self, (height, width): (usize, usize)) -> (usize, usize) {
        match self.size {
            StoredSize::Original => (height, width),
            StoredSize::Square(side) => (side as usize, side as usize),
            StoredSize::Shorter { side, .. } => shorter_to(height, width, side as usize),
        }
    }

    /// Returns the interpolation kernel that resizes to the stored size.
    pub(super) fn kernel(self) -> Kernel {
        match self.size {
            StoredSize::Shorter { kernel, .. } => kernel,
            StoredSize::Square(_) | StoredSize::Original => Kernel::Pillow,
        }
    }

    /// Returns the form's name in digests. If orientation is ignored, it is the name from before that option existed.
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
