//! Data sets and weights by name: their location on this machine, and their download.
//!
//! A name is `hf:OWNER/REPO` on the Hugging Face hub, or one of the [`CATALOGUE`] (`cifar100`, `mnist`, ...). Files
//! of the hub are in the cache that its own clients use, the others in a folder per name below [`Settings::data`]. A
//! search ([`Settings::find_weights`], [`Settings::find_data`]) never uses the network; if the files are not there,
//! its error contains the command that downloads them. [`fetch()`] is the only function of the module that downloads.
//!
//! A download is written to a temporary name and moved when it is complete. An interrupted one is continued. The file
//! is compared with the published checksum before it is moved; if none is published, the digest of the first download
//! is recorded and printed.
//!
//! ```
//! use fedcast::fetch::{Name, Settings};
//!
//! let name = Name::parse("hf:timm/vit_tiny_patch16_224.augreg_in21k").unwrap();
//! let settings = Settings::below("/nowhere".as_ref());
//! let absent = settings.find_weights(&name).unwrap_err().to_string();
//! assert!(absent.contains("fedcast fetch hf:timm/vit_tiny_patch16_224.augreg_in21k"));
//! ```

mod catalogue;
mod checksum;
mod download;
mod error;
mod find;
mod hub;
mod hub_list;
mod known;
mod name;
mod progress;
mod settings;
mod unpack;

pub use catalogue::{CATALOGUE, CatalogEntry, Remote, entry};
pub use checksum::Checksum;
pub use error::FetchError;
pub use known::Record;
pub use name::{HubName, Name};
pub use settings::Settings;

use std::path::PathBuf;

/// Result of [`fetch()`].
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Path of the file, or of the folder of files.
    pub path: PathBuf,
    /// True if all files were there before.
    pub already: bool,
    /// Remarks for the user: checksums, license.
    pub notes: Vec<String>,
}

/// Downloads the files of a name unless they are on this machine.
///
/// # Errors
/// Fails on errors of the network, the disk or a checksum, and offline if a file is missing; see [`FetchError`].
pub fn fetch(name: &Name, settings: &Settings) -> Result<Fetched, FetchError> {
    match name {
        Name::Hub(name) => hub::fetch(name, settings),
        Name::Known(entry) => known::fetch(entry, settings),
    }
}
