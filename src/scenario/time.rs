//! `[time]`: how long training takes on the simulated clock.
//!
//! `t = setup + samples x epochs x ms_per_sample x speed of the client x jitter of the round`.

use serde::Serialize;

/// The compute model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeSection {
    /// Where the defaults below come from. Default `ideal`.
    pub preset: TimePreset,
    /// Milliseconds of a forward and a backward pass of one sample on a client of speed 1.
    /// `ideal` 0, `mobile` 13.6 (median of FedScale's alternative model).
    pub ms_per_sample: f64,
    /// Deviation of the log of a client's speed (median 1). `ideal` 0, `mobile` 0.6 (FedScale).
    pub speed_sigma: f64,
    /// Deviation of the log of a round's jitter (median 1). `ideal` 0, `mobile` 0.1.
    pub jitter_sigma: f64,
    /// Milliseconds before the first step. 0.
    pub setup_ms: f64,
}

/// Sets of defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimePreset {
    /// Nothing takes time.
    Ideal,
    /// Phones: medians and spreads of published traces.
    Mobile,
}
