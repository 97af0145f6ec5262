//! Why something could not be fetched or is not there, and what to do.

use std::io;
use std::path::PathBuf;

use crate::exit::{CommandError, Exit};

/// Errors of fetching; each ends with a way out.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No name of the catalogue.
    #[error(
        "nothing of the name `{name}` is known{}\n  `fedcast fetch --list` shows the names; of the Hugging Face hub write hf:OWNER/REPO",
        meant(near)
    )]
    Unknown {
        /// As given.
        name: String,
        /// One that is spelt alike.
        near: Option<&'static str>,
    },
    /// Not how names of the hub are written.
    #[error(
        "`{0}` is no name of the Hugging Face hub\n  write hf:OWNER/REPO, with @REVISION and :FILE behind it where they are meant, or hf:datasets/OWNER/NAME"
    )]
    NoHubName(String),
    /// It is not on this machine, and nobody asked the network.
    #[error("{name} has not been fetched (looked in {})\n  fetch it: {command}", place.display())]
    Absent {
        /// Its name.
        name: String,
        /// Where it was looked for.
        place: PathBuf,
        /// The command that brings it.
        command: String,
    },
    /// Not all of it is known to be on this machine.
    #[error(
        "{name} is not known to be whole in {}: {why}\n  complete it: {command}; if you know that all of it is there, name that folder itself",
        folder.display()
    )]
    Part {
        /// Its name.
        name: Box<str>,
        /// Where some of it is.
        folder: PathBuf,
        /// What is missing.
        why: Box<str>,
        /// The command that brings the rest.
        command: Box<str>,
    },
    /// It is not on this machine, and the network may not be asked.
    #[error("{name} is not in {}, and nothing is downloaded: {why}\n  fetch it where there is a network and copy that folder", place.display())]
    Offline {
        /// Its name.
        name: String,
        /// Where it was looked for.
        place: PathBuf,
        /// What says so.
        why: &'static str,
    },
    /// It has to be got from its owners.
    #[error("{name} cannot be fetched: {why}\n  {advice}")]
    ByHand { name: String, why: String, advice: String },
    /// The server answered with an error.
    #[error("{url}: the server answers {status}{}\n  {advice}", reason(*status))]
    Status {
        url: String,
        /// Of HTTP.
        status: u16,
        /// What to do.
        advice: String,
    },
    /// There is no connection, or it ended.
    #[error("{url}: {reason}\n  {advice}")]
    Network {
        url: String,
        /// What the connection said.
        reason: String,
        /// What to do.
        advice: String,
    },
    /// What came is not what was published.
    #[error(
        "{file} from {url} is not what was published: {found} instead of {expected}\n  {advice}"
    )]
    Checksum {
        file: Box<str>,
        url: Box<str>,
        /// Of what came.
        found: Box<str>,
        /// As published, or as recorded at the first download.
        expected: Box<str>,
        /// What to do.
        advice: &'static str,
    },
    /// An archive that would write elsewhere or without end.
    #[error("{}: {reason}\n  nothing of it has been kept", archive.display())]
    Archive {
        archive: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The disk.
    #[error("{}: {source}\n  FEDCAST_DATA names another folder for data sets, HF_HOME another one for the hub", path.display())]
    Disk { path: PathBuf, source: io::Error },
}

fn meant(near: &Option<&'static str>) -> String {
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

fn reason(status: u16) -> &'static str {
    match status {
        401 | 403 => " (not allowed)",
        404 | 410 => " (not found)",
        429 => " (too many requests)",
        500.. => " (its own error)",
        _ => "",
    }
}

impl FetchError {
    pub(super) fn disk(path: &std::path::Path) -> impl FnOnce(io::Error) -> FetchError {
        let path = path.to_owned();
        |source| FetchError::Disk { path, source }
    }
}

impl CommandError for FetchError {
    fn exit_code(&self) -> Exit {
        match self {
            // A name that is none is a matter of the command line; the rest are inputs that are not there.
            FetchError::Unknown { .. } | FetchError::NoHubName(_) => Exit::Usage,
            _ => Exit::Inputs,
        }
    }
}
