//! Correction `c - c_m` of a client's gradient.
//!
//! A client that keeps `c_m` computes it. With `variates = "server"` the server keeps all `c_m`, sends the difference,
//! and finds `c_m+` from what comes back.

use crate::methods::averaging::{CONTROL, Variates, VectorStore, fitted};
use crate::model::ParameterSet;

/// Name of `c - c_m` in downloads, if the server keeps both.
pub(super) const CORRECTION: &str = "correction";

/// Returns the difference of the server's variate and a client's own.
pub(super) fn between(control: &ParameterSet, own: &VectorStore) -> ParameterSet {
    control.zipped(&fitted(own.get(CONTROL), control), |c, own| c - own)
}

/// Returns a client's correction: from its download, or computed from the variates it has.
pub(super) fn correction(known: &Variates<'_>) -> ParameterSet {
    let sent = known.sent.get(CORRECTION).cloned();
    sent.unwrap_or_else(|| between(&known.control, &known.own))
}
