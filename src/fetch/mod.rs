//! Data sets and weights by name: where they lie on this machine, and how they get there.
//!
//! A name is `hf:OWNER/REPO` on the Hugging Face hub, or one of the [`CATALOGUE`] (`cifar100`, `mnist`, ...). Files of
//! the hub lie in the cache that its own clients use, the others in a folder per name below [`Settings::data`]. Looking
//! for something ([`Settings::find_weights`], [`Settings::find_data`]) never asks the network and ends, where it is not
//! there, with the command that brings it; [`fetch()`] is the only thing here that downloads.
//!
//! A download is written beside its place and comes to it whole: it goes on where it was cut off, and is compared with
//! the published checksum first. Where none is published, the digest of the first download is recorded and said.
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

pub use catalogue::{CATALOGUE, Entry, Remote, entry};
pub use checksum::Checksum;
pub use error::FetchError;
pub use known::Record;
pub use name::{HubName, Name};
pub use settings::Settings;

use std::path::PathBuf;

/// What is there after [`fetch()`].
#[derive(Clone, Debug)]
pub struct Fetched {
    /// Where: a file, or a folder of files.
    pub path: PathBuf,
    /// Whether all of it was there before.
    pub already: bool,
    /// What is to be said of it: checksums, license.
    pub notes: Vec<String>,
}

/// Brings what a name stands for, unless it is there.
///
/// # Errors
/// What the network, the disk or a checksum says, and offline where something is missing: see [`FetchError`].
pub fn fetch(name: &Name, settings: &Settings) -> Result<Fetched, FetchError> {
    match name {
        Name::Hub(name) => hub::fetch(name, settings),
        Name::Known(entry) => known::fetch(entry, settings),
    }
}
