//! Update of a client, computed or known.

use std::collections::BTreeMap;

use crate::federation::figure::Figure;
use crate::federation::frames::SentUp;

/// Update of a participant, and the upload that carries it.
pub(crate) struct ClientUpdate {
    pub up: SentUp,
    /// The forgery of a malicious client.
    pub forged: Option<String>,
    pub metrics: BTreeMap<String, Figure>,
    /// Bytes the client keeps from now on.
    pub kept: u64,
}
