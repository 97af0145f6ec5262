//! `[time]`: how long training takes on the simulated clock.
//!
//! `t = setup + samples x epochs x ms_per_sample x slowness of the client x jitter of the round`, and what a method's
//! server computes as a round closes, `passes x ms_per_sample x slowness of the server`.

use serde::Serialize;

use super::law::{Bound, LawSection};
use super::preset::Preset;
use super::reader::{Param, TableReader, defaults};

/// The compute model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TimeSection {
    /// Where the defaults below come from. Default: the scenario's `preset`.
    pub preset: Preset,
    /// Milliseconds of a forward and a backward pass of one sample on a client of slowness 1.
    pub ms_per_sample: f64,
    /// How many times longer a client takes; drawn once per client.
    pub slowness: LawSection,
    /// The same, drawn for every client in every round.
    pub jitter: LawSection,
    /// Milliseconds before the first step; drawn once per client. Default 0.
    pub setup_ms: LawSection,
    /// How many times longer than a client of slowness 1 the server takes for what it computes itself. Default 1; beside
    /// phones 0.026, a GPU of a data center (see [`preset`](super::preset)). 0: its work takes no time.
    pub server_slowness: f64,
}

/// Slowness of a server beside phones: 0.36 of 13.6 ms per sample. A forward pass of MobileNetV2 takes 3.8 ms for a batch of
/// 32 on an A100 (Keras Applications), and a backward one twice as long, as FedScale counts phones.
const BESIDE_PHONES: f64 = 0.026;

impl TimeSection {
    /// The defaults of a preset.
    pub fn of(preset: Preset) -> TimeSection {
        defaults(|table| TimeSection::read(table, preset))
    }

    pub(super) fn read(table: &mut TableReader<'_>, preset: Preset) -> TimeSection {
        let preset = table.get(&Param::new("preset", preset, "defaults of the rest"));
        let one = LawSection::constant(1.0);
        let server = match preset {
            Preset::Ideal | Preset::CrossSilo => 1.0,
            Preset::Mobile | Preset::HeavyTail | Preset::Production => BESIDE_PHONES,
        };
        let (ms, slowness, jitter) = match preset {
            Preset::Ideal => (0.0, one.clone(), one),
            Preset::CrossSilo => {
                (1.0, LawSection::log_normal(1.0, 0.1), LawSection::log_normal(1.0, 0.02))
            }
            Preset::Mobile | Preset::Production => {
                (13.6, LawSection::log_normal(1.0, 0.6), LawSection::log_normal(1.0, 0.1))
            }
            Preset::HeavyTail => {
                (13.6, LawSection::pareto(1.0, 1.5, 60.0), LawSection::log_normal(1.0, 0.1))
            }
        };
        let ms = Param::new("ms_per_sample", ms, "forward and backward, at slowness 1");
        let (slow, jit) =
            ("how many times longer a client takes", "the same, per client and round");
        let doc = "how many times longer the server takes for work of its own; with phones 0.026; 0: no time";
        let server = Param::new("server_slowness", server, doc).source("Keras Applications");
        TimeSection {
            preset,
            ms_per_sample: table.get(&ms.at_least(0.0).at_most(1e9).source("FedScale")),
            slowness: LawSection::read(table, "slowness", &slowness, Bound::Positive, slow),
            jitter: LawSection::read(table, "jitter", &jitter, Bound::Positive, jit),
            setup_ms: LawSection::read(
                table,
                "setup_ms",
                &LawSection::constant(0.0),
                Bound::AtLeastZero,
                "milliseconds before the first step, per client",
            ),
            server_slowness: table.get(&server.at_least(0.0).at_most(1e9)),
        }
    }
}

impl Default for TimeSection {
    fn default() -> Self {
        TimeSection::of(Preset::Ideal)
    }
}
