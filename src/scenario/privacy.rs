//! `[privacy]`: what the server may see of uploads.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys};

/// What the server may see of uploads.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct PrivacySection {
    /// The server sees the sum of a round's uploads only.
    #[key(default = false)]
    pub secure_aggregation: bool,
    /// Ring of secure aggregation.
    #[key(first, default = Modulus::Bits64)]
    pub modulus: Modulus,
    /// Binary digits after the point in that ring.
    #[key(default = modulus.usual_digits(), at_most = modulus.max_digits())]
    pub bits: u32,
    /// Part of the participants that must take every leg, at least 2.
    #[key(
        default = 0.6667,
        at_least = 0.0,
        at_most = 1.0,
        source = "two thirds, as in Bonawitz et al. 2017"
    )]
    pub threshold: f64,
    /// Gaussian noise on uploads.
    #[key(table)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseSection>,
}

/// Gaussian noise `q * eps` on uploads.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct NoiseSection {
    /// Deviation of the noise eps.
    #[key(example = 1.0, at_least = 0.0)]
    pub scale: f64,
    /// Factor on eps: an upload X becomes X + q eps.
    #[key(default = 1.0, at_least = 0.0)]
    pub q: f64,
    /// Tensors of an upload by name, or kinds of content.
    #[key(example = vec!["statistics".to_owned()])]
    pub on: Vec<String>,
}

/// Integers modulo a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
pub enum Modulus {
    /// 4 bytes a number, small range.
    #[serde(rename = "2^32")]
    #[value(name = "2^32")]
    Bits32,
    /// Eight bytes a number.
    #[serde(rename = "2^64")]
    #[value(name = "2^64")]
    Bits64,
}

impl Modulus {
    /// Binary digits after the point, unless a scenario says others.
    fn usual_digits(self) -> u32 {
        match self {
            Modulus::Bits32 => 12,
            Modulus::Bits64 => 24,
        }
    }

    fn max_digits(self) -> f64 {
        match self {
            Modulus::Bits32 => 30.0,
            Modulus::Bits64 => 62.0,
        }
    }
}
