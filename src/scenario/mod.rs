//! The scenario: everything a run depends on, as one plain value read from one TOML file.
//!
//! A [`Scenario`] is made of one section per concern, each in a file of its own here with its
//! keys, defaults and sources. Same scenario and seeds, same run. Reading is strict (see
//! [`reader`]) and shows everything that is wrong at once, as [`ScenarioError`].
//!
//! **`extends`.** A file with `extends = "base/cifar100.toml"` at its top says only where it differs
//! from that base. It goes over the base key by key and tables merge; a table that writes another
//! `kind`, `name`, `source` or `dist` than the base's replaces that table as a whole, because the
//! base's keys were meant for something else. Lists replace lists, and no key can be taken away, though
//! `tasks.sizes` replaces a base's `tasks.count`, and `participation.fraction` its `count`. A base
//! extends nothing itself and need not be a whole scenario. Paths start at the folder of the file they
//! are written in, and errors point into the file in which a key stands. Overrides come after both.
//! What a run keeps is the result, flat: neither `resume` nor `replay` looks for a base.
//!
//! **`[expected]`.** [`ExpectedSection`] holds published numbers as data: the words of `summary.json`
//! (`faa`, `average_incremental_micro`, ...; of slots `avg`, `aia`, ...) with values in % and points, a
//! `source` and a `note`. The final table and `summary.json` show each beside the measured one. They
//! are in no hash and no digest.
//!
//! ```
//! use std::path::Path;
//! use fedcast::scenario::{AnyMethod, Override, Scenario};
//!
//! let file = Path::new("scenarios/quickstart.toml");
//! let more_clients = Override::new("federation.clients=20");
//! let loaded = Scenario::load(file, &[more_clients], &AnyMethod)?;
//! assert_eq!(loaded.scenario.federation.clients, 20);
//! assert_eq!(loaded.scenario.federation.idle_clients, 0); // a default
//!
//! let effective = loaded.scenario.to_effective_toml(); // with every default
//! let again = Scenario::from_toml(&effective, "effective", Path::new("/"), &[], &AnyMethod)?;
//! assert_eq!(again.scenario.hash(), loaded.scenario.hash());
//! # Ok::<(), fedcast::scenario::ScenarioError>(())
//! ```

mod arrival;
pub mod auxiliary;
mod availability;
mod backbone;
mod cache;
mod catalogue;
mod changes;
mod check;
mod checkpoint;
mod client;
mod contradiction;
mod csv;
mod data;
mod device_name;
mod devices;
mod direct;
pub mod distribution;
mod effective;
mod error;
mod expected;
mod extends;
mod faults;
mod federation;
mod files;
mod given;
mod links;
mod load;
mod method;
mod overrides;
mod participation;
mod partition;
pub mod preset;
mod privacy;
pub mod reader;
mod record;
pub mod round;
mod sections;
mod seeds;
mod slots;
mod split;
mod stored_size;
mod tasks;
mod test_share;
mod text;
mod time;
mod transform;
mod units;
mod wire;

pub use arrival::{ArrivalChoice, ArrivalLine};
pub use auxiliary::AuxiliarySection;
pub use availability::{AvailabilityPattern, AvailabilitySection, Transition};
pub use backbone::{
    Activation, Architecture, BackboneSection, BertSection, BertShape, EMBEDDED_IMAGE,
    ExtractorSection, Pooling, ResNetSection, StartWeights, Stem, VitSection, VitShape, Weights,
};
pub use cache::{CachePlace, CacheSection};
pub use catalogue::{AnyMethod, ChosenMethod, Ignored, MethodCatalogue, RequirementError};
pub use changes::{Changed, Changes, Origin, Written};
pub use check::MOST_FAULTS;
pub use checkpoint::{Cadence, CheckpointSection};
pub use client::{ClientSection, EpochSchedule, OptimizerSection, RoundSchedule};
pub use contradiction::{Contradiction, Together};
pub use data::{
    ABOVE, DataSection, DataSource, Evaluated, HeldOut, NominalSizes, Orientation,
    StatisticsTransform,
};
pub use device_name::{Compute, DeviceName};
pub use devices::{DevicesSection, Pack, Workers};
pub use direct::DirectLine;
pub use distribution::{DistributionKindSection, DistributionSection};
pub use error::ScenarioError;
pub use expected::{ExpectedMetric, ExpectedSection};
pub use faults::{CrashTime, FaultKind, FaultSection, Forgery, Spoilage};
pub use federation::{FederationSection, FoldRule, OnBadUpdate};
pub use given::{EFFECTIVE_SCENARIO, EFFECTIVE_STUDY, GivenFolder};
pub use links::LinksSection;
pub use load::Loaded;
pub use method::MethodSection;
pub use overrides::Override;
pub use participation::{CohortSize, ParticipationSection, Population, Unit};
pub use partition::{Leftover, OwnedSample, PartitionKind, PartitionSection, SliceBy, Unlisted};
pub use preset::Preset;
pub use privacy::{Modulus, NoiseSection, PrivacySection};
pub use record::{Compared, Curve, Metric, Models, RecordSection, TaskIdentity};
pub use round::{Close, LateUpdates, RoundSection, Stragglers};
pub use sections::{below, sections};
pub use seeds::Seeds;
pub use split::{FolderLayout, SplitSection};
pub use stored_size::StoredSize;
pub use tasks::{ClassOrder, TaskSizes, TasksSection};
pub use test_share::{TestDraw, TestShare};
pub use text::{CHARACTER_TOKENS, TextSection};
pub use time::TimeSection;
pub use transform::{Crop, JitterSection, Kernel, Normalise, TransformSection};
pub use units::{UnitRule, UnitsSection};
pub use wire::{AssetCache, Codec, Direction, DirectionSection, KINDS, WireForm, WireSection};

use serde::Serialize;

/// The schema this program reads; a file says `schema = 1`.
pub const SCHEMA: u32 = 1;

/// A whole experiment. Paths in it are absolute.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Version of the file format, [`SCHEMA`].
    pub schema: u32,
    /// A label for people; the file's name unless given. Changes no result.
    pub name: String,
    /// Where the defaults of `[time]`, `[links]`, `[faults]`, `[round]` and over-selection come from.
    pub preset: Preset,
    /// The three seeds.
    pub seed: Seeds,
    /// Which images, and what is done to them.
    pub data: DataSection,
    /// How classes arrive.
    pub tasks: TasksSection,
    /// Who holds which samples.
    pub partition: PartitionSection,
    /// What turns an image into features.
    pub backbone: BackboneSection,
    /// What is learned, and how.
    pub method: MethodSection,
    /// How many clients and rounds.
    pub federation: FederationSection,
    /// Who is asked in a round.
    pub participation: ParticipationSection,
    /// When a round closes.
    pub round: RoundSection,
    /// When clients can be reached.
    pub availability: AvailabilitySection,
    /// Local training.
    pub client: ClientSection,
    /// How long training takes on the simulated clock.
    pub time: TimeSection,
    /// How long messages take on the simulated clock.
    pub links: LinksSection,
    /// What goes wrong.
    pub faults: Vec<FaultSection>,
    /// How messages are encoded.
    pub wire: WireSection,
    /// What the server may see of uploads.
    pub privacy: PrivacySection,
    /// What is computed once and kept.
    pub cache: CacheSection,
    /// What computes.
    pub devices: DevicesSection,
    /// What is measured and written down.
    pub record: RecordSection,
    /// Published numbers, to be printed beside the measured ones. Changes no result.
    #[serde(skip_serializing_if = "ExpectedSection::is_empty")]
    pub expected: ExpectedSection,
}
