//! `[links]`: how long messages take on the simulated clock.
//!
//! `t = round trip / 2 + bytes / bandwidth x jitter`, per message and direction; where the server's
//! line is limited, transfers under way share it fairly, none faster than its client's own link.

use serde::Serialize;

use super::law::{Bound, LawSection};
use super::preset::Preset;
use super::reader::{Param, TableReader, defaults};

/// The network model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinksSection {
    /// Where the defaults below come from. Default: the scenario's `preset`.
    pub preset: Preset,
    /// A client's download bandwidth in MB/s (1 MB = 1,000,000 B); drawn once per client.
    pub down_mb_per_s: LawSection,
    /// Its upload bandwidth in MB/s.
    pub up_mb_per_s: LawSection,
    /// Correlation of the normals behind a client's download and upload.
    pub correlation: f64,
    /// How many times longer the bytes of one message take; drawn for every message.
    pub jitter: LawSection,
    /// Milliseconds of a round trip; drawn once per client.
    pub rtt_ms: LawSection,
    /// What the server sends to all clients together, in MB/s; transfers under way share it fairly.
    /// Default: no limit.
    pub server_down_mb_per_s: f64,
    /// What the server takes from all clients together, in MB/s. Default: no limit.
    pub server_up_mb_per_s: f64,
    /// Probability that a message is lost, per direction.
    pub loss: f64,
}

impl LinksSection {
    /// The defaults of a preset.
    pub fn of(preset: Preset) -> LinksSection {
        defaults(|table| LinksSection::read(table, preset))
    }

    pub(super) fn read(table: &mut TableReader<'_>, preset: Preset) -> LinksSection {
        let preset = table.get(&Param::new("preset", preset, "defaults of the rest"));
        let law = LawSection::log_normal;
        let constant = LawSection::constant;
        let wait = |offset, mean, max| LawSection {
            offset,
            max: Some(max),
            ..LawSection::exponential(mean)
        };
        let [down, up, jitter, rtt] = match preset {
            Preset::Ideal => {
                [constant(f64::INFINITY), constant(f64::INFINITY), constant(1.0), constant(0.0)]
            }
            Preset::CrossSilo => {
                [law(125.0, 0.1), law(125.0, 0.1), law(1.0, 0.1), wait(10.0, 5.0, 100.0)]
            }
            Preset::Mobile | Preset::HeavyTail | Preset::Production => {
                [law(4.3, 0.5), law(3.3, 0.7), law(1.0, 0.35), wait(20.0, 50.0, 400.0)]
            }
        };
        let (correlation, loss) = match preset {
            Preset::Ideal | Preset::CrossSilo => (0.0, 0.0),
            Preset::Mobile | Preset::HeavyTail => (0.45, 0.0),
            Preset::Production => (0.45, 0.017),
        };
        let correlation = Param::new("correlation", correlation, "of a client's two rates");
        let loss = Param::new("loss", loss, "probability that a message is lost");
        let server = |name| {
            Param::new(name, f64::INFINITY, "of the server, shared fairly by its transfers")
                .at_least(1e-6)
                .or_infinite()
        };
        let positive = |table: &mut TableReader<'_>, key, default: &LawSection, doc| {
            LawSection::read(table, key, default, Bound::Positive, doc)
        };
        LinksSection {
            preset,
            down_mb_per_s: positive(table, "down_mb_per_s", &down, "download of a client, MB/s"),
            up_mb_per_s: positive(table, "up_mb_per_s", &up, "upload of a client, MB/s"),
            correlation: table.get(&correlation.at_least(-1.0).at_most(1.0)),
            jitter: positive(table, "jitter", &jitter, "how many times longer a message takes"),
            rtt_ms: LawSection::read(
                table,
                "rtt_ms",
                &rtt,
                Bound::AtLeastZero,
                "milliseconds of a client's round trip",
            ),
            server_down_mb_per_s: table.get(&server("server_down_mb_per_s")),
            server_up_mb_per_s: table.get(&server("server_up_mb_per_s")),
            loss: table.get(&loss.at_least(0.0).at_most(1.0)),
        }
    }
}

impl Default for LinksSection {
    fn default() -> Self {
        LinksSection::of(Preset::Ideal)
    }
}
