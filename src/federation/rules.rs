//! The rules of a federation, as the simulation needs them: who is asked, how long things take,
//! what fails. Made from a scenario, or by hand in tests and small programs.
//!
//! ```
//! use fedcast::federation::{Participation, Rules, Share};
//! let rules = Rules { clients: 100, participation: Participation { share: Share::Fraction(0.1), ..Default::default() }, ..Rules::default() };
//! assert_eq!(rules.participation.count(rules.clients), 10);
//! ```

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
    /// How often a cohort is drawn.
    pub unit: Unit,
    /// Whether clients come back.
    pub population: Population,
}

impl Participation {
    /// The size of a cohort among `clients`.
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

/// How long local work takes on the simulated clock. Times in milliseconds, spreads as
/// deviations of the logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ComputeRules {
    /// Before the first sample.
    pub setup_ms: f64,
    /// Per sample pass (a forward and a backward) at speed 1.
    pub sample_ms: f64,
    /// Spread of the clients' slowness around a median of 1.
    pub speed_sigma: f64,
    /// Spread of a client from round to round.
    pub jitter_sigma: f64,
}

impl ComputeRules {
    /// Work takes no time.
    pub const IDEAL: ComputeRules =
        ComputeRules { setup_ms: 0.0, sample_ms: 0.0, speed_sigma: 0.0, jitter_sigma: 0.0 };
    /// Phones: FedScale's log-normal alternative, 13.6 ms per sample at the median.
    pub const MOBILE: ComputeRules =
        ComputeRules { setup_ms: 0.0, sample_ms: 13.6, speed_sigma: 0.6, jitter_sigma: 0.1 };
}

/// How long frames travel. Bandwidths in bytes per second; `None` is infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRules {
    /// Median download bandwidth.
    pub down: Option<f64>,
    /// Its spread over clients.
    pub down_sigma: f64,
    /// Median upload bandwidth.
    pub up: Option<f64>,
    /// Its spread over clients.
    pub up_sigma: f64,
    /// Correlation of the logarithms of both.
    pub correlation: f64,
    /// The part of the round trip that everybody has, in milliseconds.
    pub round_trip_ms: f64,
    /// Mean of the exponential part of the round trip, in milliseconds.
    pub round_trip_tail_ms: f64,
    /// Longest round trip, in milliseconds.
    pub round_trip_cap_ms: f64,
    /// Spread of each transfer.
    pub jitter_sigma: f64,
}

impl LinkRules {
    /// Frames travel in no time.
    pub const IDEAL: LinkRules = LinkRules {
        down: None,
        down_sigma: 0.0,
        up: None,
        up_sigma: 0.0,
        correlation: 0.0,
        round_trip_ms: 0.0,
        round_trip_tail_ms: 0.0,
        round_trip_cap_ms: 0.0,
        jitter_sigma: 0.0,
    };
    /// Phones: fitted to FLASH's network table; round trips after turmoil's shape.
    pub const MOBILE: LinkRules = LinkRules {
        down: Some(4.3e6),
        down_sigma: 0.5,
        up: Some(3.3e6),
        up_sigma: 0.7,
        correlation: 0.45,
        round_trip_ms: 20.0,
        round_trip_tail_ms: 50.0,
        round_trip_cap_ms: 400.0,
        jitter_sigma: 0.35,
    };
}

/// What goes wrong, as probabilities per seat.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultRules {
    /// The client crashes before it trains.
    pub crash: f64,
    /// The Down is lost on its way.
    pub lose_down: f64,
    /// The Up is lost on its way.
    pub lose_up: f64,
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

/// All rules of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// The run's seed.
    pub seed: u64,
    /// Clients that own data, or the size of a fresh population.
    pub clients: u32,
    /// Clients that are registered and never asked; they change neither digest.
    pub idle: u32,
    /// Rounds per task, handed to [`Method::phases`](crate::policy::Method::phases).
    pub rounds: u32,
    /// Who is asked.
    pub participation: Participation,
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
    /// Samples per block of an evaluation; part of what makes level N.
    pub evaluation_batch: usize,
    /// Measure how far client models are apart before each synchronisation.
    pub bias: bool,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            seed: 0,
            clients: 1,
            idle: 0,
            rounds: 1,
            participation: Participation::default(),
            compute: ComputeRules::IDEAL,
            links: LinkRules::IDEAL,
            faults: FaultRules::default(),
            on_bad_update: OnBadUpdate::default(),
            cache: AssetCache::default(),
            curve: Curve::default(),
            evaluation_batch: 64,
            bias: false,
        }
    }
}
