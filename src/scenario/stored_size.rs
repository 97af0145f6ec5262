//! `data.stored_size`: size at which images of a folder are kept.

use clap::ValueEnum;
use serde::Serialize;

use super::Kernel;
use super::reader::{Choice, Param, TableReader};

/// Size to which an image of a folder is resized, once, before any transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum StoredSize {
    /// Size on disk: `"original"`, for crops of the image itself.
    Original,
    /// Square of this many pixels per side, whatever the image's shape (Pillow's bicubic): `224`.
    #[serde(untagged)]
    Square(u32),
    /// Shorter side of this many pixels, with the other in proportion: `{ shorter = 256 }`.
    #[serde(untagged)]
    Shorter {
        /// Pixels of the shorter side.
        #[serde(rename = "shorter")]
        side: u32,
        /// Interpolation, on bytes. Default `bicubic`.
        #[serde(rename = "interpolation")]
        kernel: Kernel,
    },
}

/// Word of [`StoredSize`].
#[derive(Clone, Copy, PartialEq, ValueEnum, Choice)]
enum StoredSizeWord {
    /// Size on disk.
    Original,
}

impl StoredSize {
    /// Returns the pixels of the shorter side; `None` if each image has its own.
    pub fn side(self) -> Option<u32> {
        match self {
            StoredSize::Original => None,
            StoredSize::Square(side) | StoredSize::Shorter { side, .. } => Some(side),
        }
    }

    pub(super) fn read(table: &mut TableReader<'_>) -> StoredSize {
        let doc = "size of images of a folder before any transform: pixels of a square, { shorter } or \"original\"";
        if table.given_table("stored_size") {
            return table.table("stored_size", StoredSize::read_shorter);
        }
        if table.given_string("stored_size") {
            table.get(&Param::new("stored_size", StoredSizeWord::Original, doc));
            return StoredSize::Original;
        }
        StoredSize::Square(
            table.get(&Param::new("stored_size", 224, doc).at_least(1.0).at_most(4096.0)),
        )
    }

    fn read_shorter(table: &mut TableReader<'_>) -> StoredSize {
        let side = Param::required("shorter", 256, "pixels of the shorter side");
        let side = table.get(&side.at_least(1.0).at_most(4096.0));
        let kernel = Param::new("interpolation", Kernel::Pillow, "interpolation of pixels");
        let kernel: Kernel = table.get(&kernel);
        if !kernel.on_bytes() {
            table.reject(
                "interpolation",
                "this kernel gives fractions, but images are kept as bytes",
                "not for bytes",
                "use \"bicubic\" or \"bilinear\" here",
            );
        }
        StoredSize::Shorter { side, kernel }
    }
}
