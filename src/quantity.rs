//! Types of quantities: identifiers, rounds, bytes and virtual time.
//!
//! Each is a separate type, so that a client cannot be taken for a round or a byte for a nanosecond.
//!
//! ```
//! use fedcast::quantity::{Bytes, VirtualTime};
//! let frame = Bytes(3_379_600);
//! assert_eq!(frame.to_string(), "3.38 MB");
//! assert_eq!(VirtualTime::from_seconds(1.5).0, 1_500_000_000);
//! ```

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul};

use serde::{Deserialize, Serialize};

use crate::document::{CellType, Content, Document};

macro_rules! counted {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number as an index into a `Vec`.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

counted! {
    /// A client of the federation, `0..clients`.
    ClientId(u32)
}
counted! {
    /// One aggregation, counted from 0 over the whole run (not per task).
    Round(u32)
}
counted! {
    /// Number of a participant within its round, from 0.
    ParticipantId(u32)
}
counted! {
    /// A stage of class-incremental learning, counted from 0; people read it counted from 1.
    TaskId(u16)
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {}", self.0)
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round {}", self.0 + 1)
    }
}

impl fmt::Display for ParticipantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "participant {}", self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.0 + 1)
    }
}

/// A number of bytes. `Display` uses decimal units (1 MB = 1,000,000 B), as the papers do.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Document for Bytes {
    const CONTENT: Content = Content::Value(CellType::Int, "bytes");
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}

impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, times: u64) -> Bytes {
        Bytes(self.0 * times)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(parts: I) -> Bytes {
        Bytes(parts.map(|b| b.0).sum())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(f64, &str); 4] = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
        let value = self.0 as f64;
        match UNITS.iter().find(|(size, _)| value >= *size) {
            Some((size, unit)) => {
                let scaled = value / size;
                let decimals = if scaled < 10.0 { 2 } else { 1 };
                write!(f, "{scaled:.decimals$} {unit}")
            }
            None => write!(f, "{} B", self.0),
        }
    }
}

/// Seconds of real time. `Display` has the two largest units that are not zero: `0.4 s`, `12 s`, `3 min 20 s`,
/// `2 h 5 min`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct WallSeconds(pub f64);

impl fmt::Display for WallSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, whole) = (self.0, self.0.round() as u64);
        match whole {
            // Tenths are shown below 10 seconds only, and only if there are any.
            0..10 if seconds.fract() != 0.0 => write!(f, "{seconds:.1} s"),
            0..60 => write!(f, "{whole} s"),
            60..3600 => write!(f, "{} min {} s", whole / 60, whole % 60),
            _ => write!(f, "{} h {} min", whole / 3600, whole % 3600 / 60),
        }
    }
}

/// A moment (or a span) on the simulated clock, in whole nanoseconds since the run began.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct VirtualTime(pub u64);

impl VirtualTime {
    /// The start of the run.
    pub const ZERO: VirtualTime = VirtualTime(0);

    /// The end of the simulated clock, where every later time ends, too.
    pub const END: VirtualTime = VirtualTime(u64::MAX);

    /// Rounds once to the nearest nanosecond; negative and NaN inputs become zero.
    pub fn from_seconds(seconds: f64) -> VirtualTime {
        VirtualTime((seconds.max(0.0) * 1e9).round() as u64)
    }

    /// For people and plots; never fed back into the simulation.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add for VirtualTime {
    type Output = VirtualTime;
    fn add(self, span: VirtualTime) -> VirtualTime {
        VirtualTime(self.0.saturating_add(span.0))
    }
}

impl fmt::Display for VirtualTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.as_seconds())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_said_in_the_units_that_fit() {
        let said = [0.44, 9.4, 9.96, 8.0, 59.4, 59.6, 200.0, 7_500.0];
        assert_eq!(
            said.map(|s| WallSeconds(s).to_string()),
            ["0.4 s", "9.4 s", "10 s", "8 s", "59 s", "1 min 0 s", "3 min 20 s", "2 h 5 min"]
        );
    }

    #[test]
    fn bytes_read_in_decimal_units() {
        assert_eq!(Bytes(999).to_string(), "999 B");
        assert_eq!(Bytes(1_000).to_string(), "1.00 kB");
        assert_eq!(Bytes(343_502_224).to_string(), "343.5 MB");
    }

    #[test]
    fn time_rounds_once_and_never_wraps() {
        assert_eq!(VirtualTime::from_seconds(f64::NAN), VirtualTime::ZERO);
        assert_eq!(VirtualTime(u64::MAX) + VirtualTime(5), VirtualTime(u64::MAX));
    }
}
