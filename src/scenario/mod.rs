//! Scenario: everything that a run depends on, as one plain value read from one TOML file.
//!
//! A [`Scenario`] has one section per concern, each in its own file here with its keys, defaults and sources. The same
//! scenario and seeds give the same run. Reading is strict (see [`reader`]) and reports all errors at once, as
//! [`ScenarioError`].
//!
//! **`extends`.** A file with `extends = "base/cifar100.toml"` at its top only states its differences from that base.
//! Its keys override the base's, and tables merge. A table that writes another `kind`, `name`, `source` or `dist` than
//! the base's replaces the base's whole table, because its keys were meant for something else. Lists replace lists, and
//! no key can be removed, but `tasks.sizes` replaces a base's `tasks.count`, and `participation.fraction` its `count`.
//! A base extends no other file and need not be a whole scenario. Paths are relative to the folder of the file that
//! contains them, and errors point to the file in which a key stands. Overrides are applied last. A run keeps the
//! merged result: neither `resume` nor `replay` reads the base.
//!
//! **`[expected]`.** [`ExpectedSection`] holds published numbers as data: names of `summary.json` (`faa`,
//! `average_incremental_micro`, ...; of client tasks `avg`, `aia`, ...) with values in % and points, a `source` and a
//! `note`. The final table and `summary.json` show each next to the measured one. They are in no hash and no digest.
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

mod absent;
mod arrival;
pub(crate) mod auxiliary;
mod availability;
mod backbone;
mod cache;
mod catalogue;
mod changes;
mod check;
mod checkpoint;
mod client;
mod client_tasks;
mod contradiction;
mod csv;
mod data;
mod device_name;
mod devices;
pub(crate) mod distribution;
mod dummy_clients;
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
mod method_files;
pub mod migration;
mod overrides;
mod participation;
mod partition;
pub mod preset;
mod privacy;
pub mod reader;
mod record;
pub(crate) mod round;
mod sections;
mod seeds;
mod single_task;
mod split;
mod stored_size;
mod tasks;
mod test_fraction;
mod text;
mod time;
mod transform;
mod wire;

pub use absent::AbsentInput;
pub use arrival::{ArrivalChoice, ArrivalLine};
pub use auxiliary::AuxiliarySection;
pub use availability::{AvailabilityPattern, AvailabilitySection, Transition};
pub use backbone::{
    Activation, Architecture, BackboneSection, BertPooling, BertSection, BertShape, EMBEDDED_IMAGE,
    ExtractorSection, ResNetSection, StartWeights, Stem, VitSection, VitShape, Weights,
};
pub use cache::{CachePlace, CacheSection};
pub use catalogue::{AnyMethod, ChosenMethod, Ignored, MethodCatalogue, RequirementError};
pub use changes::{Changed, Changes, ChangesFile, Written};
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
pub use distribution::{DistributionKindSection, DistributionSection};
pub use dummy_clients::{DummyClientSplit, DummyClientsSection};
pub use error::ScenarioError;
pub use expected::{ExpectedMetric, ExpectedSection};
pub use faults::{CrashTime, FaultKind, FaultSection, Forgery, Spoilage};
pub use federation::{AggregationRule, FederationSection, OnBadUpdate};
pub use given::{EFFECTIVE_SCENARIO, EFFECTIVE_STUDY, GivenFolder};
pub use links::LinksSection;
pub use load::Loaded;
pub use method::MethodSection;
pub use overrides::Override;
pub use participation::{CohortSize, DrawInterval, ParticipationSection, Population};
pub use partition::{Leftover, OwnedSample, PartitionKind, PartitionSection, SliceBy, Unlisted};
pub use preset::Preset;
pub use privacy::{Modulus, NoiseSection, PrivacySection};
pub use record::{Compared, Curve, OptionalMetric, RecordSection, SavedModels, TaskIdentity};
pub use round::{Close, LateUpdates, RoundSection, Stragglers};
pub use sections::{below, sections};
pub use seeds::SeedsSection;
pub use single_task::SingleTaskLine;
pub use split::{FolderLayout, SplitSection};
pub use stored_size::StoredSize;
pub use tasks::{ClassOrder, TaskSizes, TasksSection};
pub use test_fraction::{TestDraw, TestFraction};
pub use text::{CHARACTER_TOKENS, TextSection};
pub use time::TimeSection;
pub use transform::{Crop, JitterSection, Kernel, Normalize, TransformSection};
pub use wire::{AssetCache, Codec, Direction, DirectionSection, KINDS, WireForm, WireSection};

use serde::Serialize;

/// Version of the scenario format that this program reads; a file states `schema = 2`.
pub const SCHEMA: u32 = 2;

/// Whole experiment. Paths in it are absolute.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scenario {
    /// Version of the file format, [`SCHEMA`].
    pub schema: u32,
    /// Label for users; default: the file's name. Changes no result.
    pub name: String,
    /// Preset that gives the defaults of `[time]`, `[links]`, `[faults]`, `[round]` and over-selection.
    pub preset: Preset,
    /// Seeds of the run, the partition and the class order.
    pub seed: SeedsSection,
    /// Data set and its transforms.
    pub data: DataSection,
    /// Tasks and their arrival.
    pub tasks: TasksSection,
    /// Division of training samples among clients.
    pub partition: PartitionSection,
    /// Feature extractor.
    pub backbone: BackboneSection,
    /// Method and its keys.
    pub method: MethodSection,
    /// Numbers of clients and rounds.
    pub federation: FederationSection,
    /// Sampling of clients.
    pub participation: ParticipationSection,
    /// Closing of rounds.
    pub round: RoundSection,
    /// Times at which clients can be reached.
    pub availability: AvailabilitySection,
    /// Settings of local training.
    pub client: ClientSection,
    /// Duration of training in virtual time.
    pub time: TimeSection,
    /// Duration of messages in virtual time.
    pub links: LinksSection,
    /// Injected faults.
    pub faults: Vec<FaultSection>,
    /// Encoding of messages.
    pub wire: WireSection,
    /// Protection of uploads.
    pub privacy: PrivacySection,
    /// Results that are computed once and kept.
    pub cache: CacheSection,
    /// Devices and threads.
    pub devices: DevicesSection,
    /// Metrics and files of a run.
    pub record: RecordSection,
    /// Published numbers, printed next to the measured ones. Changes no result.
    #[serde(skip_serializing_if = "ExpectedSection::is_empty")]
    pub expected: ExpectedSection,
}
