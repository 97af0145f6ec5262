//! `[wire]`: how messages are encoded. `wire = "verify"` stands for `wire = { verify = true }`.

use std::collections::BTreeMap;

use serde::Serialize;

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
    /// The codec of everything. Default `f32`.
    pub codec: CodecName,
    /// Other codecs for some kinds of content, such as `{ prompt = "f16" }`. Default none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, CodecName>,
}

/// How floats travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Nothing.
    Full,
    /// What the receiver cannot have changed or does not need.
    Lean,
}

/// How long a client keeps assets it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    /// Not at all.
    None,
    /// Until the end of the task.
    Task,
    /// For the whole run.
    Run,
}
