//! `preset`: sets of defaults for speeds of clients and links, and for failures.
//!
//! A preset gives the defaults of `[time]`, `[links]`, `[[faults]]` and `[round]`; keys that are written override it.
//! `[time]` and `[links]` can each name their own preset. Medians and spreads, with the standard deviation of the
//! logarithm in brackets:
//!
//! | preset | ms per sample | slowness | jitter | server | down MB/s | up MB/s | correlation | link jitter | round trip ms | loss | crash |
//! |---|---|---|---|---|---|---|---|---|---|---|---|
//! | `ideal` | 0 | 1 | 1 | 1 | inf | inf | 0 | 1 | 0 | 0 | 0 |
//! | `cross-silo` | 1 | 1 (0.1) | 1 (0.02) | 1 | 125 (0.1) | 125 (0.1) | 0 | 1 (0.1) | 10 + exp 5, at most 100 | 0 | 0 |
//! | `mobile` | 13.6 | 1 (0.6) | 1 (0.1) | 0.026 | 4.3 (0.5) | 3.3 (0.7) | 0.45 | 1 (0.35) | 20 + exp 50, at most 400 | 0 | 0 |
//! | `heavy-tail` | 13.6 | 1 pareto 1.5, at most 60 | 1 (0.1) | 0.026 | 4.3 (0.5) | 3.3 (0.7) | 0.45 | 1 (0.35) | 20 + exp 50, at most 400 | 0 | 0 |
//! | `production` | 13.6 | 1 (0.6) | 1 (0.1) | 0.026 | 4.3 (0.5) | 3.3 (0.7) | 0.45 | 1 (0.35) | 20 + exp 50, at most 400 | 0.017 | 0.017 |
//!
//! 13.6 ms and its spread are FedScale's log-normal alternative. Bandwidths, their correlation and link jitter are
//! fitted to FLASH's table of 19 phones. With phones, the server takes 0.36 ms per sample: MobileNetV2 runs forward in
//! 3.8 ms for 32 images on an A100 (Keras Applications' table), and backward in twice that, as FedScale assumes for
//! phones. Loss and crash share FLGo's 5 % of clients that fail between download, training and upload. The rest is this
//! project's choice: `cross-silo` is a data center with a gigabit line. `production` also closes rounds after the first
//! clients that are done and samples 1.3 times as many as wanted (FedScale), if `[participation]` gives a number.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::Choice;

/// Set of defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// No delays and no failures.
    #[default]
    Ideal,
    /// Data centers with nearly equal speeds.
    CrossSilo,
    /// Phones, with medians and spreads of published traces.
    Mobile,
    /// Phones, a few of which are up to 60 times slower.
    HeavyTail,
    /// Phones that sometimes fail.
    Production,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::distribution::{DistributionKindSection, DistributionSection};
    use crate::scenario::{FaultSection, LinksSection, TimeSection};

    /// Formats a distribution as in the table above.
    fn brief(distribution: &DistributionSection) -> String {
        let most = distribution.max.map_or(String::new(), |max| format!(", at most {max}"));
        let shape = match &distribution.shape {
            DistributionKindSection::Constant { value } => value.to_string(),
            DistributionKindSection::LogNormal { median, sigma } => format!("{median} ({sigma})"),
            DistributionKindSection::Exponential { mean } => {
                format!("{} + exp {mean}", distribution.offset)
            }
            DistributionKindSection::Pareto { median, alpha } => format!("{median} pareto {alpha}"),
            other => panic!("no preset has {other:?}"),
        };
        shape + &most
    }

    #[test]
    fn the_table_says_what_the_presets_are() {
        let page = include_str!("preset.rs");
        for preset in Preset::value_variants() {
            let name = preset.word();
            let time = TimeSection::of(*preset);
            let links = LinksSection::of(*preset);
            let cells = [
                format!("`{name}`"),
                time.ms_per_sample.to_string(),
                brief(&time.slowness),
                brief(&time.jitter),
                time.server_slowness.to_string(),
                brief(&links.down_mb_per_s),
                brief(&links.up_mb_per_s),
                links.correlation.to_string(),
                brief(&links.jitter),
                brief(&links.rtt_ms),
                links.loss_rate.to_string(),
                FaultSection::of(*preset).first().map_or(0.0, |crash| crash.rate).to_string(),
            ];
            let line = format!("//! | {} |", cells.join(" | "));
            assert!(page.lines().any(|found| found == line), "the table lacks\n{line}");
        }
    }
}
