//! Reasons why a participant sends nothing.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ClientResult, PolicyError};

/// Reason why a participant sends nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "reason", content = "detail")]
pub enum Failure {
    /// Training produced a value that is not finite; the text names the place.
    NonFinite(String),
    /// The shard has no sample to train on.
    NoData,
    /// A sample could not be read, or a feature cache not be used; ends the run.
    Data(String),
    /// The policy refused or could not compute.
    Policy(String),
    /// The memory of the device was full. With a pack of one it ends the run; larger ones are tried
    /// again in halves.
    Memory(String),
    /// The job panicked.
    Panicked(String),
    /// The upload cannot be masked: a number beyond the range of secure aggregation.
    OutOfRange(String),
    /// The client vanished (a fault of the scenario).
    Crashed,
    /// The download was damaged in transit; the text describes the error that was found.
    Corrupt(String),
    /// The download found the client away.
    Away,
    /// The client went away before its work was done.
    Left,
}

impl Failure {
    /// Returns one failure for each member of a pack that `error` stopped.
    pub fn of_all(
        members: usize,
        error: impl Into<PolicyError>,
    ) -> Vec<Result<ClientResult, Failure>> {
        vec![Err(Failure::from(error.into())); members]
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NonFinite(place) => write!(f, "{place} is not finite"),
            Failure::NoData => f.write_str("the shard is empty"),
            Failure::Data(why)
            | Failure::Policy(why)
            | Failure::OutOfRange(why)
            | Failure::Memory(why)
            | Failure::Corrupt(why) => f.write_str(why),
            Failure::Panicked(why) => write!(f, "training panicked: {why}"),
            Failure::Crashed => f.write_str("the client crashed"),
            Failure::Away => f.write_str("the client was away"),
            Failure::Left => f.write_str("the client left"),
        }
    }
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Failure {
        match error {
            PolicyError::NonFinite(place) => Failure::NonFinite(place),
            PolicyError::Data(error) => Failure::Data(error.to_string()),
            PolicyError::Cache(error) => Failure::Data(error.to_string()),
            full if full.is_out_of_memory() => Failure::Memory(full.to_string()),
            other => Failure::Policy(other.to_string()),
        }
    }
}
