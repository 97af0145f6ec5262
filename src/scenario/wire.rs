//! `[wire]`: how messages are encoded. `wire = "verify"` stands for `wire = { verify = true }`.

use std::collections::BTreeMap;

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader, defaults};

/// How messages are encoded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WireSection {
    /// Server to client.
    pub down: DirectionSection,
    /// Client to server.
    pub up: DirectionSection,
    /// What is left out of messages. Default `full`.
    pub form: Form,
    /// Encodes and decodes every message and compares. Default false.
    pub verify: bool,
    /// How long a client keeps what it was sent. Default `none`.
    pub cache: Cache,
}

/// One direction, seen from the client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DirectionSection {
    /// The codec of everything learnt. Default `f32`.
    pub codec: CodecName,
    /// Other codecs for some of [`KINDS`], such as `{ prompt = "f16" }`. Default none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, CodecName>,
}

/// How floats travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CodecName {
    /// As they are, 4 bytes.
    F32,
    /// IEEE half, 2 bytes.
    F16,
    /// bfloat16, 2 bytes.
    Bf16,
    /// 1 byte and a scale per tensor.
    Int8,
}

/// What is left out of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Nothing: whole parameter sets travel.
    Full,
    /// What the receiver cannot have changed or does not need.
    Lean,
}

/// How long a client keeps assets it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Not at all.
    None,
    /// Until the end of the task.
    Task,
    /// For the whole run.
    Run,
}

impl Choice for CodecName {}

impl Choice for Form {}

impl Choice for Cache {}

impl WireSection {
    pub(super) fn read(table: &mut TableReader<'_>) -> WireSection {
        let verify = Param::new("verify", false, "encode and decode every message and compare");
        WireSection {
            down: table.table("down", DirectionSection::read),
            up: table.table("up", DirectionSection::read),
            form: table.get(&Param::new("form", Form::Full, "what is left out of messages")),
            verify: table.get(&verify),
            cache: table.get(&Param::new("cache", Cache::None, "what clients keep of assets")),
        }
    }
}

impl Default for WireSection {
    fn default() -> Self {
        defaults(Self::read)
    }
}

impl DirectionSection {
    fn read(table: &mut TableReader<'_>) -> DirectionSection {
        let codec = table.get(&Param::new("codec", CodecName::F32, "how floats travel"));
        let kinds = table.optional_table("kinds", read_kinds).unwrap_or_default();
        DirectionSection { codec, kinds }
    }
}

/// Kinds of content that a codec may be chosen for: the learnt ones. Counts, statistics and
/// data always travel as they are.
pub const KINDS: [&str; 5] = ["weights", "prompt", "head", "prototypes", "generator"];

fn read_kinds(table: &mut TableReader<'_>) -> BTreeMap<String, CodecName> {
    let read = |name| Some((name, table.optional(&Param::unset(name, "codec of this kind"))?));
    let given: Vec<(&str, CodecName)> = KINDS.into_iter().filter_map(read).collect();
    given.into_iter().map(|(name, codec)| (name.to_owned(), codec)).collect()
}
