//! Errors of fetching, each with advice.

use std::io;
use std::path::PathBuf;

use crate::exit::{CommandError, Exit};

/// Error of fetching; its message ends with advice.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The name is not in the catalog.
    #[error(
        "unknown name `{name}`{}\n  help: `fedcast fetch --list` shows the names; \
         for the Hugging Face hub write hf:OWNER/REPO",
        meant(near)
    )]
    Unknown {
        /// Name as given.
        name: String,
        /// Similar name of the catalog.
        near: Option<&'static str>,
    },
    /// The text is not a name of the Hugging Face hub.
    #[error(
        "`{0}` is not a name of the Hugging Face hub\n  help: write hf:OWNER/REPO or hf:datasets/OWNER/NAME, \
         optionally followed by @REVISION and :FILE"
    )]
    NoHubName(String),
    /// The files are not on this machine and were not requested from the network.
    #[error("{name} has not been fetched (looked in {})\n  help: fetch it: {command}", place.display())]
    Absent {
        /// Name of the data set or model.
        name: String,
        /// Folder that was searched.
        place: PathBuf,
        /// Command that downloads it.
        command: String,
    },
    /// The files on this machine are not known to be complete.
    #[error(
        "{name} is not known to be complete in {}: {why}\n  help: complete it: {command}; \
         if you know that all files are there, give the path of that folder",
        folder.display()
    )]
    Part {
        /// Name of the data set or model.
        name: Box<str>,
        /// Folder with some of the files.
        folder: PathBuf,
        /// Description of the missing part.
        why: Box<str>,
        /// Command that downloads the rest.
        command: Box<str>,
    },
    /// The files are not on this machine, and downloads are disabled.
    #[error(
        "{name} is not in {}, and downloads are disabled: {why}\n  \
         help: fetch it on a machine with a network and copy that folder",
        place.display()
    )]
    Offline {
        /// Name of the data set or model.
        name: String,
        /// Folder that was searched.
        place: PathBuf,
        /// Setting that disables downloads.
        why: &'static str,
    },
    /// The data set must be obtained from its owners.
    #[error("{name} cannot be fetched: {why}\n  help: {advice}")]
    ByHand {
        /// Name of the data set or model.
        name: String,
        /// Reason why it cannot be fetched.
        why: String,
        /// Advice on what to do.
        advice: String,
    },
    /// The server answered with an error.
    #[error("{url}: the server answers {status}{}\n  help: {advice}", reason(*status))]
    Status {
        /// Requested address.
        url: String,
        /// HTTP status code.
        status: u16,
        /// Advice on what to do.
        advice: String,
    },
    /// There is no connection, or it ended.
    #[error("{url}: {reason}\n  help: {advice}")]
    Network {
        /// Requested address.
        url: String,
        /// Message of the connection.
        reason: String,
        /// Advice on what to do.
        advice: String,
    },
    /// The downloaded file differs from the published one.
    #[error(
        "{file} from {url} is not the published file: {found}, expected {expected}\n  help: {advice}"
    )]
    Checksum {
        /// Name of the file.
        file: Box<str>,
        /// Address from which the file was downloaded.
        url: Box<str>,
        /// Checksum of the downloaded file.
        found: Box<str>,
        /// Checksum as published, or as recorded at the first download.
        expected: Box<str>,
        /// Advice on what to do.
        advice: &'static str,
    },
    /// The archive would write outside of its folder, or without limit.
    #[error("{}: {reason}\n  help: no file of the archive was kept; get another copy of it", archive.display())]
    Archive {
        /// Path of the archive.
        archive: PathBuf,
        /// Description of the problem.
        reason: String,
    },
    /// The disk reported an error.
    #[error(
        "{}: {source}\n  help: set FEDCAST_DATA to another folder for data sets, \
         HF_HOME to another one for the hub",
        path.display()
    )]
    Disk {
        /// File or folder that was read or written.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

fn meant(near: &Option<&'static str>) -> String {
    near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}

fn reason(status: u16) -> &'static str {
    match status {
        401 | 403 => " (not allowed)",
        404 | 410 => " (not found)",
        429 => " (too many requests)",
        500.. => " (server error)",
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
            // An unknown name is an error of the command line; the others are missing inputs.
            FetchError::Unknown { .. } | FetchError::NoHubName(_) => Exit::Usage,
            _ => Exit::Inputs,
        }
    }
}
