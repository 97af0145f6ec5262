//! `[wire]`: encoding of messages. `wire = "verify"` stands for `wire = { verify = true }`.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::reader::{Choice, Keys, Param, TableReader};

/// Encoding of messages.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct WireSection {
    /// Messages from the server to clients.
    #[key(table)]
    pub down: DirectionSection,
    /// Messages from clients to the server.
    #[key(table)]
    pub up: DirectionSection,
    /// Content of messages: whole parameter sets, or only what the receiver needs.
    #[key(default = WireForm::Full)]
    pub form: WireForm,
    /// True to encode and decode every message and compare it with the original.
    #[key(default = false)]
    pub verify: bool,
    /// Time for which clients keep assets that they received.
    #[key(default = AssetCache::None)]
    pub asset_cache: AssetCache,
}

/// Direction of messages, seen from the client.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct DirectionSection {
    /// Codec of floats, for all learned content.
    #[key(default = Codec::F32)]
    pub codec: Codec,
    /// Codecs for some of [`KINDS`], such as `{ prompt = "f16" }`.
    #[key(read = table.optional_table("kinds", read_kinds).unwrap_or_default())]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, Codec>,
}

/// Direction of a message, seen from the client.
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

/// Codec of floats. The discriminants are part of the frame format.
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
    /// Values unchanged, lossless for every type.
    #[default]
    F32 = 0,
    /// IEEE half precision, round to nearest even: 2 bytes per value, at most 65504.
    F16 = 1,
    /// bfloat16, round to nearest even: 2 bytes per value, the range of f32.
    Bf16 = 2,
    /// 8-bit integer per value times one 4-byte scale per tensor (its largest magnitude / 127).
    ///
    /// The error of a value is at most half the scale.
    Int8 = 3,
}

/// Content of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum WireForm {
    /// Whole parameter sets.
    #[default]
    Full,
    /// Only what the receiver needs and does not have yet.
    Lean,
}

/// Time for which a client keeps assets that it received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum AssetCache {
    /// Until the end of the round.
    #[default]
    None,
    /// Until the end of the task.
    Task,
    /// For the whole run.
    Run,
}

/// Kinds of content that may have their own codec: the learned ones. Counts, statistics and data are sent unchanged.
pub const KINDS: [&str; 5] = ["weights", "prompt", "head", "prototypes", "generator"];

fn read_kinds(table: &mut TableReader<'_>) -> BTreeMap<String, Codec> {
    let read =
        |name| Some((name, table.optional(&Param::unset(name, "codec of this kind of content"))?));
    let given: Vec<(&str, Codec)> = KINDS.into_iter().filter_map(read).collect();
    given.into_iter().map(|(name, codec)| (name.to_owned(), codec)).collect()
}
