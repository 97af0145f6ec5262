//! `[links]`: how long messages take on the simulated clock.
//!
//! `t = round trip / 2 + bytes / bandwidth x jitter`, per message and direction.

use serde::Serialize;

use super::reader::{Choice, Param, TableReader, defaults};

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

impl Choice for LinksPreset {
    const CHOICES: &'static [(&'static str, Self, &'static str)] = &[
        ("ideal", LinksPreset::Ideal, "messages arrive at once"),
        ("mobile", LinksPreset::Mobile, "phones: medians and spreads of published traces"),
    ];
}

impl LinksSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> LinksSection {
        let preset = table.get(&Param::new("preset", LinksPreset::Ideal, "defaults of the rest"));
        let [down, down_sigma, up, up_sigma, correlation, jitter, rtt, extra] = match preset {
            LinksPreset::Ideal => [f64::INFINITY, 0.0, f64::INFINITY, 0.0, 0.0, 0.0, 0.0, 0.0],
            LinksPreset::Mobile => [4.3, 0.5, 3.3, 0.7, 0.45, 0.35, 20.0, 50.0],
        };
        let rate = |name, default, doc| {
            Param::new(name, default, doc).above(0.0).source("FLASH, 19 users")
        };
        let sigma = |name, default, doc| Param::new(name, default, doc).at_least(0.0).at_most(10.0);
        let ms = |name, default, doc| Param::new(name, default, doc).at_least(0.0).at_most(1e9);
        let correlation = Param::new("correlation", correlation, "of a client's two log rates");
        let loss = Param::new("loss", 0.0, "probability that a message is lost");
        let rtt_ms = table.get(&ms("rtt_ms", rtt, "of every round trip"));
        let rtt_cap_ms = table.get(&ms("rtt_cap_ms", 400.0, "longest round trip"));
        if rtt_ms > rtt_cap_ms {
            let written = if table.given("rtt_ms") { "rtt_ms" } else { "rtt_cap_ms" };
            table.reject(
                written,
                &format!(
                    "every round trip takes {rtt_ms} ms, and the longest may take {rtt_cap_ms} ms"
                ),
                "contradicts the other one",
                "raise `rtt_cap_ms` or lower `rtt_ms`",
            );
        }
        LinksSection {
            preset,
            down_mb_per_s: table.get(&rate("down_mb_per_s", down, "median download, MB/s")),
            down_sigma: table.get(&sigma("down_sigma", down_sigma, "deviation of its log")),
            up_mb_per_s: table.get(&rate("up_mb_per_s", up, "median upload, MB/s")),
            up_sigma: table.get(&sigma("up_sigma", up_sigma, "deviation of its log")),
            correlation: table.get(&correlation.at_least(-1.0).at_most(1.0)),
            jitter_sigma: table.get(&sigma("jitter_sigma", jitter, "deviation of its log")),
            rtt_ms,
            rtt_extra_ms: table.get(&ms("rtt_extra_ms", extra, "mean of what is added to it")),
            rtt_cap_ms,
            loss: table.get(&loss.at_least(0.0).at_most(1.0)),
        }
    }
}

impl Default for LinksSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
