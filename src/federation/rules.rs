//! The rules of a federation, as the simulation needs them: who is asked, how long things take,
//! what fails. Made from a scenario, or by hand in tests and small programs.
//!
//! ```
//! use fedcast::federation::{Participation, Rules, Share};
//! let rules = Rules { clients: 100, participation: Participation { share: Share::Fraction(0.1), ..Default::default() }, ..Rules::default() };
//! assert_eq!(rules.participation.count(rules.clients), 10);
//! ```

use super::arrivals::ArrivalRules;
use super::availability::AvailabilityRules;
use super::closing::{Closing, ClosingRules};
use super::faults::FaultRules;
use super::privacy::PrivacyRules;
use super::robust::FoldRule;
use super::snapshot::Cadence;
use crate::numerics::law::{Law, Shape};
use crate::policy::{CohortRule, Phase};

/// How many clients are asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Share {
    /// Everybody.
    #[default]
    All,
    /// This part of the population, rounded down, at least one.
    Fraction(f64),
    /// This many, at most everybody.
    Count(u32),
}

/// How often a cohort is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Anew in every round.
    #[default]
    Round,
    /// Once per task.
    Task,
}

/// Whether clients come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Population {
    /// The same clients for the whole run.
    #[default]
    Fixed,
    /// Every cohort is made of clients never asked before, until the population is used up.
    Fresh,
}

/// Who is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Participation {
    /// How many.
    pub share: Share,
    /// So many times more are asked; at least 1.
    pub over_selection: OverSelection,
    /// How often a cohort is drawn.
    pub unit: Unit,
    /// Whether clients come back.
    pub population: Population,
}

/// How many are asked for each that is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OverSelection(pub f64);

impl Default for OverSelection {
    fn default() -> OverSelection {
        OverSelection(1.0)
    }
}

impl Participation {
    /// How many of `clients` are asked.
    pub fn asked(&self, clients: u32) -> u32 {
        let asked = f64::from(self.count(clients)) * self.over_selection.0.max(1.0);
        // A product such as 10 * 1.3 may lie just above the whole number that is meant.
        ((asked - 1e-9).ceil() as u32).min(clients)
    }

    /// How many of `clients` are wanted.
    pub fn count(&self, clients: u32) -> u32 {
        match self.share {
            Share::All => clients,
            Share::Count(count) => count.min(clients),
            Share::Fraction(fraction) => {
                // A product such as 0.29 * 100 lies just below the whole number that is meant.
                let count = (fraction.clamp(0.0, 1.0) * f64::from(clients) + 1e-9) as u32;
                count.clamp(1, clients.max(1))
            }
        }
    }
}

/// How long local work takes on the simulated clock. Times in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeRules {
    /// Before the first sample; drawn once per client.
    pub setup_ms: Law,
    /// Per sample pass (a forward and a backward) at slowness 1.
    pub sample_ms: f64,
    /// How many times longer a client takes; drawn once per client.
    pub slowness: Law,
    /// The same, drawn per client and round.
    pub jitter: Law,
}

impl ComputeRules {
    /// Work takes no time.
    pub const IDEAL: ComputeRules = ComputeRules {
        setup_ms: Law::constant(0.0),
        sample_ms: 0.0,
        slowness: Law::constant(1.0),
        jitter: Law::constant(1.0),
    };
    /// Phones: FedScale's log-normal alternative, 13.6 ms per sample at the median.
    pub const MOBILE: ComputeRules = ComputeRules {
        setup_ms: Law::constant(0.0),
        sample_ms: 13.6,
        slowness: Law::log_normal(1.0, 0.6),
        jitter: Law::log_normal(1.0, 0.1),
    };

    /// Whether no work ever takes time.
    pub fn is_ideal(&self) -> bool {
        self.sample_ms == 0.0 && self.setup_ms.is_always(0.0)
    }
}

/// How long frames travel. Bandwidths in bytes per second, which may be infinite.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRules {
    /// A client's download bandwidth; drawn once per client.
    pub down: Law,
    /// Its upload bandwidth; drawn once per client.
    pub up: Law,
    /// Correlation of the normals that both are read at.
    pub correlation: f64,
    /// A client's round trip in milliseconds; drawn once per client.
    pub round_trip_ms: Law,
    /// How many times longer the bytes of one transfer take.
    pub jitter: Law,
    /// What the server sends to all clients together; they share it fairly.
    pub server_down: f64,
    /// What the server takes from all clients together.
    pub server_up: f64,
}

impl LinkRules {
    /// Frames travel in no time.
    pub const IDEAL: LinkRules = LinkRules {
        down: Law::constant(f64::INFINITY),
        up: Law::constant(f64::INFINITY),
        correlation: 0.0,
        round_trip_ms: Law::constant(0.0),
        jitter: Law::constant(1.0),
        server_down: f64::INFINITY,
        server_up: f64::INFINITY,
    };
    /// Phones: fitted to FLASH's network table; round trips after turmoil's shape.
    pub const MOBILE: LinkRules = LinkRules {
        down: Law::log_normal(4.3e6, 0.5),
        up: Law::log_normal(3.3e6, 0.7),
        correlation: 0.45,
        round_trip_ms: Law {
            shape: Shape::Exponential { mean: 50.0 },
            scale: 1.0,
            offset: 20.0,
            min: 0.0,
            max: 400.0,
        },
        jitter: Law::log_normal(1.0, 0.35),
        server_down: f64::INFINITY,
        server_up: f64::INFINITY,
    };

    /// Whether no frame ever takes time.
    pub fn is_ideal(&self) -> bool {
        self.down.is_always(f64::INFINITY)
            && self.up.is_always(f64::INFINITY)
            && !self.is_shared()
            && self.round_trip_ms.is_always(0.0)
    }

    /// Whether the server's own line is a limit.
    pub fn is_shared(&self) -> bool {
        self.server_down.is_finite() || self.server_up.is_finite()
    }
}

/// What to do with an upload that is not finite or has the wrong shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBadUpdate {
    /// Record it, fold the others.
    #[default]
    Drop,
    /// End the run.
    Abort,
}

/// How long receivers keep assets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AssetCache {
    /// For the seat that needs it.
    #[default]
    None,
    /// Until the task ends.
    Task,
    /// For ever.
    Run,
}

/// When the global model is tested, beside the evaluation after each task that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Curve {
    /// After every round.
    #[default]
    Round,
    /// After every task only.
    Task,
    /// Never, not even after tasks: for benches and timing studies.
    Never,
}

/// What models are told when they are tested on slots, where clients have tasks of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotsKnown {
    /// Once which slot it is, once not.
    #[default]
    Both,
    /// Always which slot it is: a slot is then asked about its own images only.
    Only,
}

/// Random parts of shards that act as clients of their own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnitRules {
    /// Parts of a shard; below 2 there are none.
    pub count: u32,
    /// Names of the phases in which they act.
    pub phases: Vec<String>,
}

/// All rules of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The run's seed.
    pub seed: u64,
    /// Clients that own data, or the size of a fresh population.
    pub clients: u32,
    /// Clients that are registered and never asked; they change neither digest.
    pub idle: u32,
    /// Clients that take part in every round with frames of real size, and nothing else.
    pub load: u32,
    /// Parts of shards that act for themselves.
    pub units: UnitRules,
    /// Rounds per task, handed to [`Method::phases`](crate::policy::Method::phases).
    pub rounds: u32,
    /// Who is asked.
    pub participation: Participation,
    /// When rounds close.
    pub closing: ClosingRules,
    /// When tasks reach clients.
    pub arrivals: ArrivalRules,
    /// What mean of uploads the server takes.
    pub fold: FoldRule,
    /// When they can be reached.
    pub availability: AvailabilityRules,
    /// Time of local work.
    pub compute: ComputeRules,
    /// Time of travel.
    pub links: LinkRules,
    /// What fails.
    pub faults: FaultRules,
    /// What happens to bad uploads.
    pub on_bad_update: OnBadUpdate,
    /// What receivers keep.
    pub cache: AssetCache,
    /// When the model is tested.
    pub curve: Curve,
    /// What models are told about slots then.
    pub slots: SlotsKnown,
    /// Samples per block of an evaluation; part of what makes level N.
    pub evaluation_batch: usize,
    /// Measure how far client models are apart before each synchronisation.
    pub bias: bool,
    /// What the server may see of uploads, and how blurred.
    pub privacy: PrivacyRules,
    /// Clients trained together on one worker, where the method can. Changes no event; away from
    /// the CPU it changes the last bits of numbers.
    pub pack: usize,
    /// When snapshots are taken. Changes no result.
    pub snapshots: Cadence,
}

impl Rules {
    /// The closing rule of a round of a phase in which so many seats work.
    pub fn closing_of(&self, phase: &Phase, working: usize) -> Closing {
        match phase.cohort {
            CohortRule::Sampled => self.closing.of(working, self.participation.over_selection.0),
            _ => self.closing.for_everybody().of(working, 1.0),
        }
    }
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            seed: 0,
            clients: 1,
            idle: 0,
            load: 0,
            units: UnitRules::default(),
            rounds: 1,
            participation: Participation::default(),
            closing: ClosingRules::default(),
            arrivals: ArrivalRules::default(),
            fold: FoldRule::default(),
            availability: AvailabilityRules::default(),
            compute: ComputeRules::IDEAL,
            links: LinkRules::IDEAL,
            faults: FaultRules::default(),
            on_bad_update: OnBadUpdate::default(),
            cache: AssetCache::default(),
            curve: Curve::default(),
            slots: SlotsKnown::default(),
            evaluation_batch: 64,
            bias: false,
            privacy: PrivacyRules::default(),
            pack: 1,
            snapshots: Cadence::Never,
        }
    }
}
