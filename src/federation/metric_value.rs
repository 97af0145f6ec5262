//! Encoding of numbers in the journal: metrics as shortest round-trip decimals, digests as sixteen hexadecimal digits.

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A measured value. Equal when the bits are equal, so that a NaN equals itself in a comparison of
/// journals; JSON has no NaN or infinity, which become the strings `"nan"`, `"inf"` and `"-inf"`.
#[derive(Clone, Copy, Debug)]
pub struct MetricValue(pub f64);

impl PartialEq for MetricValue {
    fn eq(&self, other: &MetricValue) -> bool {
        self.0.to_bits() == other.0.to_bits() || (self.0.is_nan() && other.0.is_nan())
    }
}

impl From<f64> for MetricValue {
    fn from(value: f64) -> MetricValue {
        MetricValue(value)
    }
}

impl Serialize for MetricValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else if self.0.is_nan() {
            serializer.serialize_str("nan")
        } else {
            serializer.serialize_str(if self.0 > 0.0 { "inf" } else { "-inf" })
        }
    }
}

impl<'de> Deserialize<'de> for MetricValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MetricValue, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = MetricValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, \"nan\", \"inf\" or \"-inf\"")
            }
            fn visit_f64<E: Error>(self, value: f64) -> Result<MetricValue, E> {
                Ok(MetricValue(value))
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<MetricValue, E> {
                Ok(MetricValue(value as f64))
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<MetricValue, E> {
                Ok(MetricValue(value as f64))
            }
            fn visit_str<E: Error>(self, value: &str) -> Result<MetricValue, E> {
                match value {
                    "nan" => Ok(MetricValue(f64::NAN)),
                    "inf" => Ok(MetricValue(f64::INFINITY)),
                    "-inf" => Ok(MetricValue(f64::NEG_INFINITY)),
                    other => Err(E::custom(format!("{other:?} is not a figure"))),
                }
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

/// A 64-bit digest over raw bits of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub u64);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Digest).map_err(D::Error::custom)
    }
}
