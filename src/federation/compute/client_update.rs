//! Update of a client, computed or known.

use std::collections::BTreeMap;

use crate::federation::frames::SentUpload;
use crate::federation::metric_value::MetricValue;

/// Update of a participant, and the upload that carries it.
pub(crate) struct ClientUpdate {
    pub up: SentUpload,
    /// Name of the attack, if the client is malicious.
    pub forged: Option<String>,
    pub metrics: BTreeMap<String, MetricValue>,
    /// Bytes of state that the client keeps from now on.
    pub state_bytes: u64,
}
