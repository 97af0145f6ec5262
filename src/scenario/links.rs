//! `[links]`: duration of messages in virtual time.
//!
//! `t = round trip / 2 + bytes / bandwidth x jitter`, per message and direction. If the server's bandwidth is limited,
//! concurrent transfers share it fairly, none faster than its client's own link.

use serde::Serialize;

use super::distribution::{Bound, DistributionSection};
use super::preset::Preset;
use super::reader::{Keys, defaults};

/// Model of the network.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
#[keys(given(preset: Preset), default_given(Preset::Ideal))]
pub struct LinksSection {
    /// Preset that gives the defaults of the other keys; default: that of the scenario.
    #[key(default = preset)]
    pub preset: Preset,
    /// Download bandwidth of a client in MB/s, drawn once per client.
    ///
    /// 1 MB = 1,000,000 B.
    #[key(read = DistributionSection::read(table, "down_mb_per_s", &Usual::of(preset).down, Bound::Positive, doc))]
    pub down_mb_per_s: DistributionSection,
    /// Upload bandwidth of a client in MB/s, drawn once per client.
    #[key(read = DistributionSection::read(table, "up_mb_per_s", &Usual::of(preset).up, Bound::Positive, doc))]
    pub up_mb_per_s: DistributionSection,
    /// Correlation of the normals behind a client's download and upload bandwidth.
    #[key(default = Usual::of(preset).correlation, at_least = -1.0, at_most = 1.0)]
    pub correlation: f64,
    /// Factor on the time of a message's bytes, drawn per message.
    #[key(read = DistributionSection::read(table, "jitter", &Usual::of(preset).jitter, Bound::Positive, doc))]
    pub jitter: DistributionSection,
    /// Milliseconds of a round trip, drawn once per client.
    #[key(read = DistributionSection::read(table, "rtt_ms", &Usual::of(preset).rtt, Bound::AtLeastZero, doc))]
    pub rtt_ms: DistributionSection,
    /// Bandwidth of the server to all clients in MB/s, shared fairly by its transfers.
    #[key(default = f64::INFINITY, at_least = 1e-6, or_infinite)]
    pub server_down_mb_per_s: f64,
    /// Bandwidth of all clients to the server in MB/s, shared fairly by its transfers.
    #[key(default = f64::INFINITY, at_least = 1e-6, or_infinite)]
    pub server_up_mb_per_s: f64,
    /// Probability that a message is lost, per direction.
    #[key(default = Usual::of(preset).loss_rate, at_least = 0.0, at_most = 1.0)]
    pub loss_rate: f64,
}

/// Defaults of a preset.
struct Usual {
    down: DistributionSection,
    up: DistributionSection,
    jitter: DistributionSection,
    rtt: DistributionSection,
    correlation: f64,
    loss_rate: f64,
}

impl Usual {
    fn of(preset: Preset) -> Usual {
        let (constant, distribution) =
            (DistributionSection::constant, DistributionSection::log_normal);
        let wait = |offset, mean, max| DistributionSection {
            offset,
            max: Some(max),
            ..DistributionSection::exponential(mean)
        };
        match preset {
            Preset::Ideal => Usual {
                down: constant(f64::INFINITY),
                up: constant(f64::INFINITY),
                jitter: constant(1.0),
                rtt: constant(0.0),
                correlation: 0.0,
                loss_rate: 0.0,
            },
            Preset::CrossSilo => Usual {
                down: distribution(125.0, 0.1),
                up: distribution(125.0, 0.1),
                jitter: distribution(1.0, 0.1),
                rtt: wait(10.0, 5.0, 100.0),
                correlation: 0.0,
                loss_rate: 0.0,
            },
            Preset::Mobile | Preset::HeavyTail => Usual {
                down: distribution(4.3, 0.5),
                up: distribution(3.3, 0.7),
                jitter: distribution(1.0, 0.35),
                rtt: wait(20.0, 50.0, 400.0),
                correlation: 0.45,
                loss_rate: 0.0,
            },
            Preset::Production => Usual { loss_rate: 0.017, ..Usual::of(Preset::Mobile) },
        }
    }
}

impl LinksSection {
    /// Returns the defaults of a preset.
    pub fn of(preset: Preset) -> LinksSection {
        defaults(|table| LinksSection::read(table, preset))
    }
}
