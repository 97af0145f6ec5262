//! Rules of a federation, as the simulation needs them: sampling, timing and faults.
//!
//! Made from a scenario, or by hand in tests and small programs.
//!
//! ```
//! use fedcast::federation::{CohortSize, ParticipationSection, Rules};
//! let rules = Rules { clients: 100, participation: ParticipationSection { participants: CohortSize::Fraction { fraction: 0.1 }, ..Default::default() }, ..Rules::default() };
//! assert_eq!(rules.participation.count(rules.clients), 10);
//! ```

use super::arrivals::ArrivalRules;
use super::availability::AvailabilityRules;
use super::closing::{ClosingRules, LatePolicy, RoundClosing};
use super::faults::FaultRules;
use super::privacy::PrivacyRules;
use super::robust::AggregationRule;
use super::snapshot::Cadence;
use crate::numerics::scalar_distribution::ScalarDistribution;
use crate::policy::{CohortRule, Phase, RoundContext};
pub use crate::scenario::{
    AssetCache, CohortSize, Compared, Curve, DrawInterval, DummyClientSplit, DummyClientsSection,
    OnBadUpdate, ParticipationSection, Population, TaskIdentity,
};
use crate::scenario::{LinksSection, TimeSection, Together};

/// Duration of local work on the simulated clock. Times in milliseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct ComputeRules {
    /// Time before the first sample; drawn once per client.
    pub setup_ms: ScalarDistribution,
    /// Time per sample pass (a forward and a backward) at slowness 1.
    pub sample_ms: f64,
    /// Factor on a client's times; drawn once per client.
    pub slowness: ScalarDistribution,
    /// Factor on a client's times; drawn per client and round.
    pub jitter: ScalarDistribution,
    /// Factor on the server's times.
    pub server_slowness: f64,
}

impl ComputeRules {
    /// Rules under which work takes no time.
    pub const IDEAL: ComputeRules = ComputeRules {
        setup_ms: ScalarDistribution::constant(0.0),
        sample_ms: 0.0,
        slowness: ScalarDistribution::constant(1.0),
        jitter: ScalarDistribution::constant(1.0),
        server_slowness: 1.0,
    };

    /// Returns true if no work ever takes time.
    pub fn is_ideal(&self) -> bool {
        self.sample_ms == 0.0 && self.setup_ms.is_always(0.0)
    }
}

impl From<&TimeSection> for ComputeRules {
    fn from(time: &TimeSection) -> ComputeRules {
        ComputeRules {
            setup_ms: time.setup_ms.distribution(),
            sample_ms: time.ms_per_sample,
            slowness: time.slowness.distribution(),
            jitter: time.jitter.distribution(),
            server_slowness: time.server_slowness,
        }
    }
}

/// Latency of frames. Bandwidths in bytes per second, which may be infinite.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkRules {
    /// A client's download bandwidth; drawn once per client.
    pub down: ScalarDistribution,
    /// A client's upload bandwidth; drawn once per client.
    pub up: ScalarDistribution,
    /// Correlation of the two normal draws that give a client's download and upload bandwidth.
    pub correlation: f64,
    /// A client's round trip in milliseconds; drawn once per client.
    pub round_trip_ms: ScalarDistribution,
    /// Factor on the time of the bytes of one transfer.
    pub jitter: ScalarDistribution,
    /// Bandwidth from the server to all clients together; they share it fairly.
    pub server_down: f64,
    /// Bandwidth from all clients together to the server.
    pub server_up: f64,
}

impl LinkRules {
    /// Rules under which frames travel in no time.
    pub const IDEAL: LinkRules = LinkRules {
        down: ScalarDistribution::constant(f64::INFINITY),
        up: ScalarDistribution::constant(f64::INFINITY),
        correlation: 0.0,
        round_trip_ms: ScalarDistribution::constant(0.0),
        jitter: ScalarDistribution::constant(1.0),
        server_down: f64::INFINITY,
        server_up: f64::INFINITY,
    };

    /// Returns true if no frame ever takes time.
    pub fn is_ideal(&self) -> bool {
        self.down.is_always(f64::INFINITY)
            && self.up.is_always(f64::INFINITY)
            && !self.is_shared()
            && self.round_trip_ms.is_always(0.0)
    }

    /// Returns true if the server's own line is a limit.
    pub fn is_shared(&self) -> bool {
        self.server_down.is_finite() || self.server_up.is_finite()
    }
}

/// Bytes in a megabyte, as bandwidths of scenarios count.
const MEGA: f64 = 1e6;

impl From<&LinksSection> for LinkRules {
    fn from(links: &LinksSection) -> LinkRules {
        LinkRules {
            down: links.down_mb_per_s.distribution().times(MEGA),
            up: links.up_mb_per_s.distribution().times(MEGA),
            correlation: links.correlation,
            round_trip_ms: links.rtt_ms.distribution(),
            jitter: links.jitter.distribution(),
            server_down: links.server_down_mb_per_s * MEGA,
            server_up: links.server_up_mb_per_s * MEGA,
        }
    }
}

/// All rules of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The run's seed.
    pub seed: u64,
    /// Clients that own data, or the size of a fresh population.
    pub clients: u32,
    /// Clients that are registered and never sampled; they change neither digest.
    pub idle: u32,
    /// Clients that take part in every round with frames of real size, and nothing else.
    pub load: u32,
    /// Parts of shards that act for themselves.
    pub dummy_clients: DummyClientsSection,
    /// Rounds per task, handed to [`Method::phases`](crate::policy::Method::phases).
    pub rounds: u32,
    /// Sampling of cohorts.
    pub participation: ParticipationSection,
    /// Closing of rounds.
    pub closing: ClosingRules,
    /// Arrival of tasks at clients.
    pub arrivals: ArrivalRules,
    /// Rule by which the server aggregates uploads.
    pub aggregation: AggregationRule,
    /// Availability of clients.
    pub availability: AvailabilityRules,
    /// Duration of local work.
    pub compute: ComputeRules,
    /// Latency of frames.
    pub links: LinkRules,
    /// Faults.
    pub faults: FaultRules,
    /// Treatment of bad uploads.
    pub on_bad_update: OnBadUpdate,
    /// Assets that receivers keep.
    pub cache: AssetCache,
    /// Rounds and tasks after which the model is tested.
    pub curve: Curve,
    /// Information on the client task that models get in tests.
    pub task_identity: TaskIdentity,
    /// Number of samples per block of an evaluation, on which the bits of numbers depend (level N).
    pub evaluation_batch: usize,
    /// Rounds before whose aggregation the distance between client models is measured.
    pub bias: Option<Compared>,
    /// Limits and noise on what the server sees of uploads.
    pub privacy: PrivacyRules,
    /// Clients trained together on one worker, where the method can. Changes no event; away from
    /// the CPU it changes the last bits of numbers.
    pub pack: usize,
    /// Rounds and tasks after which snapshots are taken. Changes no result.
    pub snapshots: Cadence,
    /// True if the sink receives the server's state after every task. Changes no result.
    pub models: bool,
    /// True if the sink receives the answer to every test sample after every task. Changes no result.
    pub answers: bool,
}

/// Maximum number of rounds that a method runs before training; C2Prompt has three.
const ROUNDS_BEFORE: u32 = 3;

impl Rules {
    /// Returns true if client models of a round are compared before it is aggregated.
    pub fn compares(&self, context: &RoundContext) -> bool {
        match self.bias {
            None => false,
            Some(Compared::Round) => true,
            Some(Compared::First) => (context.phase, context.round_in_phase) == (0, 0),
        }
    }

    /// Returns the settings that not every method or other setting allows.
    pub fn together(&self) -> Together {
        Together {
            secure: self.privacy.secure.is_some(),
            restarts: self.faults.restarts(),
            late: self.closing.late != LatePolicy::Drop,
            mixed: self.arrivals != ArrivalRules::Global,
            robust: !self.aggregation.is_mean(),
            fresh: self.participation.population == Population::Fresh,
        }
    }

    /// Returns the maximum number of clients that take part in a task.
    ///
    /// For a fixed population these are all clients, for a fresh one those that can be sampled in the task's rounds.
    pub fn clients_of_a_task(&self) -> u32 {
        match self.participation.population {
            Population::Fixed => self.clients,
            Population::Fresh => {
                let sampled_count = self.participation.sampled_count(self.clients);
                let rounds = self.rounds.max(1).saturating_add(ROUNDS_BEFORE);
                sampled_count.saturating_mul(rounds).min(self.clients)
            }
        }
    }

    /// Returns the closing rule of a round of a phase in which `working` participants work.
    pub fn closing_of(&self, phase: &Phase, working: usize) -> RoundClosing {
        match phase.cohort {
            CohortRule::Sampled => self.closing.of(working, self.participation.over_selection()),
            _ => self.closing.for_all_participants().of(working, 1.0),
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
            dummy_clients: DummyClientsSection::default(),
            rounds: 1,
            participation: ParticipationSection::default(),
            closing: ClosingRules::default(),
            arrivals: ArrivalRules::default(),
            aggregation: AggregationRule::default(),
            availability: AvailabilityRules::default(),
            compute: ComputeRules::IDEAL,
            links: LinkRules::IDEAL,
            faults: FaultRules::default(),
            on_bad_update: OnBadUpdate::default(),
            cache: AssetCache::default(),
            curve: Curve::default(),
            task_identity: TaskIdentity::default(),
            evaluation_batch: 64,
            bias: None,
            privacy: PrivacyRules::default(),
            pack: 1,
            snapshots: Cadence::Never,
            models: false,
            answers: false,
        }
    }
}
