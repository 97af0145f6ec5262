//! `[privacy]`: what the server may see of uploads.

use clap::ValueEnum;
use serde::Serialize;

use super::reader::{Choice, Param, TableReader, defaults};

/// What the server may see of uploads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PrivacySection {
    /// Whether the server sees the sum of a round's uploads only. Default false.
    pub secure_aggregation: bool,
    /// The ring of secure aggregation. Default 2^64.
    pub modulus: Modulus,
    /// Binary digits after the point. Default 24, or 12 in the smaller ring.
    pub bits: u32,
    /// The part of a round's seats that must take every leg, at least two. Default 0.6667.
    pub threshold: f64,
    /// Gaussian noise on uploads. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noise: Option<NoiseSection>,
}

/// Gaussian noise `q * eps` on uploads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NoiseSection {
    /// Deviation of eps. Required.
    pub scale: f64,
    /// Factor on eps. Default 1.
    pub q: f64,
    /// Names of tensors of an upload, or of kinds of content. Required.
    pub on: Vec<String>,
}

/// Integers modulo a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
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

impl Choice for Modulus {}

impl PrivacySection {
    pub(super) fn read(table: &mut TableReader<'_>) -> PrivacySection {
        let secure = Param::new(
            "secure_aggregation",
            false,
            "the server sees the sum of a round's uploads only",
        );
        let modulus = Param::new("modulus", Modulus::Bits64, "ring of secure aggregation");
        let modulus = table.get(&modulus);
        let (digits, most) = match modulus {
            Modulus::Bits32 => (12, 30.0),
            Modulus::Bits64 => (24, 62.0),
        };
        let bits = Param::new("bits", digits, "binary digits after the point in that ring");
        let threshold = Param::new(
            "threshold",
            0.6667,
            "part of the seats that must take every leg, at least 2",
        )
        .source("two thirds, as in Bonawitz et al. 2017");
        PrivacySection {
            secure_aggregation: table.get(&secure),
            modulus,
            bits: table.get(&bits.at_most(most)),
            threshold: table.get(&threshold.at_least(0.0).at_most(1.0)),
            noise: table.optional_table("noise", NoiseSection::read),
        }
    }
}

impl Default for PrivacySection {
    fn default() -> Self {
        defaults(Self::read)
    }
}

impl NoiseSection {
    fn read(table: &mut TableReader<'_>) -> NoiseSection {
        let scale = Param::required("scale", 1.0, "deviation of the noise eps").at_least(0.0);
        let q = Param::new("q", 1.0, "factor on eps: an upload X becomes X + q eps").at_least(0.0);
        let on: Param<Vec<String>> = Param::required(
            "on",
            vec!["statistics".to_owned()],
            "tensors of an upload by name, or kinds of content",
        );
        NoiseSection { scale: table.get(&scale), q: table.get(&q), on: table.get(&on) }
    }
}
