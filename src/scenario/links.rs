//! `[links]`: how long messages take on the simulated clock.
//!
//! `t = round trip / 2 + bytes / bandwidth x jitter`, per message and direction.

use serde::Serialize;

/// The network model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinksSection {
    /// Where the defaults below come from. Default `ideal`.
    pub preset: LinksPreset,
    /// Median download bandwidth in MB/s (1 MB = 1,000,000 B). `ideal` inf, `mobile` 4.3 (FLASH).
    pub down_mb_per_s: f64,
    /// Deviation of its log over clients. `ideal` 0, `mobile` 0.5.
    pub down_sigma: f64,
    /// Median upload bandwidth in MB/s. `ideal` inf, `mobile` 3.3 (FLASH).
    pub up_mb_per_s: f64,
    /// Deviation of its log over clients. `ideal` 0, `mobile` 0.7.
    pub up_sigma: f64,
    /// Correlation of the logs of a client's download and upload. `ideal` 0, `mobile` 0.45.
    pub correlation: f64,
    /// Deviation of the log of a message's jitter (median 1). `ideal` 0, `mobile` 0.35.
    pub jitter_sigma: f64,
    /// Milliseconds every round trip takes. `ideal` 0, `mobile` 20.
    pub rtt_ms: f64,
    /// Mean of what is added to it, exponentially distributed. `ideal` 0, `mobile` 50.
    pub rtt_extra_ms: f64,
    /// Longest round trip. `ideal` and `mobile` 400.
    pub rtt_cap_ms: f64,
    /// Probability that a message is lost, per direction. 0.
    pub loss: f64,
}

/// Sets of defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinksPreset {
    /// Messages arrive at once.
    Ideal,
    /// Phones: medians and spreads of published traces.
    Mobile,
}
