//! `[faults]`: what goes wrong on clients.

use serde::Serialize;

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultsSection {
    /// Probability that a client crashes in a round, after the download and before the upload.
    /// Default 0.
    pub crash: f64,
}
