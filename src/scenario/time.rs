//! `[time]`: duration of training in virtual time.
//!
//! Client: `t = setup + samples x epochs x ms_per_sample x slowness of the client x jitter of the round`. Work of a
//! method's server when a round closes: `passes x ms_per_sample x slowness of the server`.

use serde::Serialize;

use super::distribution::{Bound, DistributionSection};
use super::preset::Preset;
use super::reader::{Keys, defaults};

/// Model of computing time.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(given(preset: Preset), default_given(Preset::Ideal))]
pub struct TimeSection {
    /// Preset that gives the defaults of the other keys; default: that of the scenario.
    #[key(default = preset)]
    pub preset: Preset,
    /// Milliseconds of a forward and a backward pass of one sample at slowness 1.
    #[key(default = TimeDefaults::of(preset).ms_per_sample, at_least = 0.0, at_most = 1e9, source = "FedScale")]
    pub ms_per_sample: f64,
    /// Factor on a client's time, drawn once per client.
    #[key(
        read = DistributionSection::read(table, "slowness", &TimeDefaults::of(preset).slowness, Bound::Positive, doc)
    )]
    pub slowness: DistributionSection,
    /// Factor on a client's time, drawn per client and round.
    #[key(read = DistributionSection::read(table, "jitter", &TimeDefaults::of(preset).jitter, Bound::Positive, doc))]
    pub jitter: DistributionSection,
    /// Milliseconds before the first step, drawn once per client.
    #[key(read = DistributionSection::read(table, "setup_ms", &DistributionSection::constant(0.0), Bound::AtLeastZero, doc))]
    pub setup_ms: DistributionSection,
    /// Time of the server's own work relative to a client of slowness 1; 0: no time.
    ///
    /// With phones 0.026, a GPU of a data center (see [`preset`](super::preset)).
    #[key(
        default = TimeDefaults::of(preset).server_slowness,
        at_least = 0.0,
        at_most = 1e9,
        source = "Keras Applications"
    )]
    pub server_slowness: f64,
}

/// Slowness of a server relative to phones: 0.36 of 13.6 ms per sample.
///
/// A forward pass of MobileNetV2 takes 3.8 ms for a batch of 32 on an A100 (Keras Applications), and a backward one
/// twice that, as FedScale assumes for phones.
const SLOWNESS_TO_PHONES: f64 = 0.026;

/// Defaults of a preset.
struct TimeDefaults {
    ms_per_sample: f64,
    slowness: DistributionSection,
    jitter: DistributionSection,
    server_slowness: f64,
}

impl TimeDefaults {
    fn of(preset: Preset) -> TimeDefaults {
        let phones = |slowness| TimeDefaults {
            ms_per_sample: 13.6,
            slowness,
            jitter: DistributionSection::log_normal(1.0, 0.1),
            server_slowness: SLOWNESS_TO_PHONES,
        };
        match preset {
            Preset::Ideal => TimeDefaults {
                ms_per_sample: 0.0,
                slowness: DistributionSection::constant(1.0),
                jitter: DistributionSection::constant(1.0),
                server_slowness: 1.0,
            },
            Preset::CrossSilo => TimeDefaults {
                ms_per_sample: 1.0,
                slowness: DistributionSection::log_normal(1.0, 0.1),
                jitter: DistributionSection::log_normal(1.0, 0.02),
                server_slowness: 1.0,
            },
            Preset::Mobile | Preset::Production => {
                phones(DistributionSection::log_normal(1.0, 0.6))
            }
            Preset::HeavyTail => phones(DistributionSection::pareto(1.0, 1.5, 60.0)),
        }
    }
}

impl TimeSection {
    /// Returns the defaults of a preset.
    pub fn of(preset: Preset) -> TimeSection {
        defaults(|table| TimeSection::read(table, preset))
    }
}
