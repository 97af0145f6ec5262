//! `[wire]`: how messages are encoded. `wire = "verify"` stands for `wire = { verify = true }`.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::reader::{Choice, Keys, Param, TableReader};

/// How messages are encoded.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct WireSection {
    /// Server to client.
    #[key(table)]
    pub down: DirectionSection,
    /// Client to server.
    #[key(table)]
    pub up: DirectionSection,
    /// What is left out of messages.
    #[key(default = WireForm::Full)]
    pub form: WireForm,
    /// Encode and decode every message and compare.
    #[key(default = false)]
    pub verify: bool,
    /// What clients keep of assets.
    #[key(default = AssetCache::None)]
    pub cache: AssetCache,
}

/// One direction, seen from the client.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct DirectionSection {
    /// How floats travel.
    ///
    /// Of everything learned.
    #[key(default = Codec::F32)]
    pub codec: Codec,
    /// Other codecs for some of [`KINDS`], such as `{ prompt = "f16" }`.
    #[key(read = table.optional_table("kinds", read_kinds).unwrap_or_default())]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, Codec>,
}

/// Which way a message travels, seen from the client.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum, Choice,
)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the server to a client.
    Down,
    /// From a client to the server.
    Up,
}

/// How floats travel. The discriminants are part of the frame format.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ValueEnum,
    Choice,
)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Codec {
    /// Values as they are, lossless for every type.
    #[default]
    F32 = 0,
    /// IEEE half precision, round to nearest even: 2 bytes per value, at most 65504.
    F16 = 1,
    /// bfloat16, round to nearest even: 2 bytes per value, the range of f32.
    Bf16 = 2,
    /// A signed byte per value times one scale per tensor (its largest magnitude / 127), which costs
    /// 4 bytes. The error of a value is at most half the scale.
    Int8 = 3,
}

/// What is left out of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum WireForm {
    /// Nothing: whole parameter sets travel.
    #[default]
    Full,
    /// What the receiver cannot have changed or does not need.
    Lean,
}

/// How long a client keeps assets it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum AssetCache {
    /// Not at all.
    #[default]
    None,
    /// Until the end of the task.
    Task,
    /// For the whole run.
    Run,
}

/// Kinds of content that a codec may be chosen for: the learned ones. Counts, statistics and
/// data always travel as they are.
pub const KINDS: [&str; 5] = ["weights", "prompt", "head", "prototypes", "generator"];

fn read_kinds(table: &mut TableReader<'_>) -> BTreeMap<String, Codec> {
    let read = |name| Some((name, table.optional(&Param::unset(name, "codec of this kind"))?));
    let given: Vec<(&str, Codec)> = KINDS.into_iter().filter_map(read).collect();
    given.into_iter().map(|(name, codec)| (name.to_owned(), codec)).collect()
}
