//! `[privacy]`: protection of uploads from the server.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Keys};

/// Protection of uploads from the server.
#[derive(Clone, Debug, PartialEq, Serialize, Keys)]
pub struct PrivacySection {
    /// Secure aggregation: the server only sees the sum of a round's uploads.
    #[key(default = false)]
    pub secure_aggregation: bool,
    /// Ring of secure aggregation.
    #[key(first, default = Modulus::Bits64)]
    pub modulus: Modulus,
    /// Fractional bits of numbers in that ring.
    #[key(default = modulus.usual_digits(), at_most = modulus.max_digits())]
    pub bits: u32,
    /// Fraction of participants that must complete every step of the protocol; at least 2 of them.
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
    /// Standard deviation of the noise eps.
    #[key(example = 1.0, at_least = 0.0)]
    pub scale: f64,
    /// Factor on eps: an upload X becomes X + q eps.
    #[key(default = 1.0, at_least = 0.0)]
    pub q: f64,
    /// Tensors of an upload by name, or kinds of content.
    #[key(example = vec!["statistics".to_owned()])]
    pub on: Vec<String>,
}

/// Ring of integers modulo a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
pub enum Modulus {
    /// 4 bytes per number, small range.
    #[serde(rename = "2^32")]
    #[value(name = "2^32")]
    Bits32,
    /// 8 bytes per number.
    #[serde(rename = "2^64")]
    #[value(name = "2^64")]
    Bits64,
}

impl Modulus {
    /// Returns the default number of fractional bits.
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
