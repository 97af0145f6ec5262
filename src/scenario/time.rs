//! `[time]`: how long training takes on the simulated clock.
//!
//! `t = setup + samples x epochs x ms_per_sample x speed of the client x jitter of the round`.

use serde::Serialize;

use super::reader::{Choice, Param, TableReader, defaults};

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

impl Choice for TimePreset {
    const CHOICES: &'static [(&'static str, Self, &'static str)] = &[
        ("ideal", TimePreset::Ideal, "nothing takes time"),
        ("mobile", TimePreset::Mobile, "phones: medians and spreads of published traces"),
    ];
}

impl TimeSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> TimeSection {
        let preset = table.get(&Param::new("preset", TimePreset::Ideal, "defaults of the rest"));
        let [ms, speed, jitter] = match preset {
            TimePreset::Ideal => [0.0, 0.0, 0.0],
            TimePreset::Mobile => [13.6, 0.6, 0.1],
        };
        let at_least_0 = |name, default, doc| Param::new(name, default, doc).at_least(0.0);
        let ms = at_least_0("ms_per_sample", ms, "forward and backward, at speed 1");
        let speed = at_least_0("speed_sigma", speed, "deviation of the log of client speeds");
        let jitter = at_least_0("jitter_sigma", jitter, "deviation of the log of round jitter");
        let setup = at_least_0("setup_ms", 0.0, "before the first step");
        TimeSection {
            preset,
            ms_per_sample: table.get(&ms.at_most(1e9).source("FedScale")),
            speed_sigma: table.get(&speed.at_most(10.0).source("FedScale")),
            jitter_sigma: table.get(&jitter.at_most(10.0)),
            setup_ms: table.get(&setup.at_most(1e12)),
        }
    }
}

impl Default for TimeSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}
