//! Codecs: conversion of a tensor's values to bytes.
//!
//! `f32` leaves every tensor as it is. The others are lossy and apply only to f32 tensors of learnable
//! kinds (weights, prompt, head, prototypes, generator); counts, statistics and pixels always travel as they are.
//! Lossy codecs really change what the receiver gets.
//!
//! ```
//! use fedcast::wire::{Codec, CodecPlan, Dtype, Kind};
//! let plan = CodecPlan::new(Codec::F16).with(Kind::Head, Codec::F32);
//! assert_eq!(plan.codec(Kind::Prompt, Dtype::F32), Codec::F16);
//! assert_eq!(plan.codec(Kind::Head, Dtype::F32), Codec::F32);
//! assert_eq!(plan.codec(Kind::Statistics, Dtype::F32), Codec::F32); // never touched
//! assert_eq!(Codec::Int8.encoded_length(Dtype::F32, 1000), 1004); // the scale takes 4
//! ```

mod float16;
mod int8;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use super::{Dtype, Kind, NamedTensor, TensorValues, WireError};
pub use crate::scenario::Codec;
use crate::scenario::DirectionSection;

impl Codec {
    /// Every codec, in order of its code.
    pub const ALL: [Codec; 4] = [Codec::F32, Codec::F16, Codec::Bf16, Codec::Int8];

    /// Returns the name in scenarios and reports.
    pub fn name(self) -> &'static str {
        match self {
            Codec::F32 => "f32",
            Codec::F16 => "f16",
            Codec::Bf16 => "bf16",
            Codec::Int8 => "int8",
        }
    }

    /// Returns true if every value arrives bit for bit.
    pub fn is_lossless(self) -> bool {
        self == Codec::F32
    }

    /// Returns the bytes of payload for a tensor.
    ///
    /// The size of every codec here depends only on the shape. Lossy codecs encode f32 only.
    pub fn encoded_length(self, dtype: Dtype, elements: u64) -> u64 {
        match self {
            Codec::F32 => dtype.bytes(elements),
            Codec::F16 | Codec::Bf16 => elements.saturating_mul(2),
            Codec::Int8 => elements.saturating_add(4),
        }
    }

    /// Passes the encoded bytes of a tensor to `take`, in pieces.
    ///
    /// # Errors
    /// [`WireError::NotEncodable`]: `f16` and `bf16` refuse finite values that would become infinite (NaN and
    /// infinities pass, for the receiver to judge); `int8` refuses all values that are not finite.
    pub fn encode(self, tensor: &NamedTensor, take: impl FnMut(&[u8])) -> Result<(), WireError> {
        match self {
            Codec::F32 => {
                tensor.values().visit_le(take);
                Ok(())
            }
            Codec::F16 => float16::encode::<f16>(tensor.as_f32()?, take),
            Codec::Bf16 => float16::encode::<bf16>(tensor.as_f32()?, take),
            Codec::Int8 => int8::encode(tensor.as_f32()?, take),
        }
        .map_err(|index| self.refusal(tensor, index))
    }

    /// Returns the values that the receiver gets, without making bytes; equal to encoding and decoding.
    pub fn round_trip(self, tensor: &NamedTensor) -> Result<TensorValues, WireError> {
        match self {
            Codec::F32 => Ok(tensor.values().clone()),
            Codec::F16 => float16::round_trip::<f16>(tensor.as_f32()?).map(TensorValues::F32),
            Codec::Bf16 => float16::round_trip::<bf16>(tensor.as_f32()?).map(TensorValues::F32),
            Codec::Int8 => int8::round_trip(tensor.as_f32()?).map(TensorValues::F32),
        }
        .map_err(|index| self.refusal(tensor, index))
    }

    /// Decodes the output of [`Codec::encode`]; `None` if these bytes are no encoding of that type.
    pub(crate) fn decode(self, dtype: Dtype, bytes: &[u8]) -> Option<TensorValues> {
        if self == Codec::F32 {
            return TensorValues::from_le(dtype, bytes);
        }
        if dtype != Dtype::F32 {
            return None;
        }
        let values: Option<Arc<[f32]>> = match self {
            Codec::F16 => float16::decode::<f16>(bytes),
            Codec::Bf16 => float16::decode::<bf16>(bytes),
            _ => int8::decode(bytes),
        };
        values.map(TensorValues::F32)
    }

    fn refusal(self, tensor: &NamedTensor, index: usize) -> WireError {
        let value = tensor.as_f32().ok().and_then(|v| v.get(index).copied());
        WireError::NotEncodable {
            name: tensor.name().to_string(),
            codec: self.name(),
            value: value.map_or_else(|| "?".into(), |v| v.to_string()),
            index,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Codec> {
        Codec::ALL.into_iter().find(|c| *c as u8 == code)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Codec of each kind in one direction. The default leaves all values unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodecPlan {
    /// Codec of all kinds not in `kinds`.
    pub default: Codec,
    /// Codecs of single kinds.
    pub kinds: BTreeMap<Kind, Codec>,
}

impl CodecPlan {
    /// Creates a plan with one codec for all learnable kinds.
    pub fn new(default: Codec) -> CodecPlan {
        CodecPlan { default, kinds: BTreeMap::new() }
    }

    /// Returns the plan with another codec for one kind.
    pub fn with(mut self, kind: Kind, codec: Codec) -> CodecPlan {
        self.kinds.insert(kind, codec);
        self
    }

    /// Returns the plan of a direction's section in the scenario; fails on a kind that does not exist.
    pub fn from_section(section: &DirectionSection) -> Result<CodecPlan, WireError> {
        let mut plan = CodecPlan::new(section.codec);
        for (name, codec) in &section.kinds {
            let kind = Kind::from_name(name).ok_or_else(|| {
                let all: Vec<&str> = Kind::all().map(Kind::name).collect();
                WireError::UnknownKind(name.clone(), all.join(", "))
            })?;
            plan.kinds.insert(kind, *codec);
        }
        Ok(plan)
    }

    /// Returns the codec of a tensor: always lossless unless it is f32 and its kind learnable.
    pub fn codec(&self, kind: Kind, dtype: Dtype) -> Codec {
        if dtype != Dtype::F32 || !kind.is_learnable() {
            return Codec::F32;
        }
        self.kinds.get(&kind).copied().unwrap_or(self.default)
    }

    /// Returns true if no message changes under this plan.
    pub fn is_lossless(&self) -> bool {
        Kind::all().all(|k| self.codec(k, Dtype::F32).is_lossless())
    }
}
