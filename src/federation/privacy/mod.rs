//! Privacy services of the engine: they act on any method's uploads, outside its policies.
//!
//! * [`Noise`] adds Gaussian noise to chosen tensors of an upload, on the client, before it is coded.
//! * **Secure aggregation** lets the server learn the sum of a round's uploads and nothing else.
//!   Methods allow it whose server keeps no tensor whole (see [`Capability`](crate::policy::Capability)).
//!
//! # Secure aggregation
//! The protocol is that of Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving
//! Machine Learning" (CCS 2017), for an honest but curious server and clients that may vanish at
//! any step. A round has these legs ([`ProtocolStep`]):
//!
//! ```text
//! up    keys       two public keys of every participant
//! down  roster     the keys of all                           -> pairs agree on seeds s(i,j)
//! up    shares     secret shares of own keys, one sealed pair for every other participant
//! down  inbox      the shares the others made for this one   -> those with shares are members
//!       ... download, training ...
//! up    upload     y = x + b(i) + sum over j > i of s(i,j) - sum over j < i of s(j,i)    mod 2^w
//! down  survivors  whose upload arrived
//! up    answer     shares: of b(i) for those that did, of the pair key for those that did not
//! ```
//! Numbers x are fixed-point integers modulo 2^32 or 2^64 ([`FixedPoint`]), so pairwise masks cancel exactly and the
//! order of adding changes nothing. From enough answers the server expands the remaining masks ([`Masks::remove`]) and
//! reads the exact sum of those whose upload arrived. Below the threshold, at any leg, the round aggregates nothing.
//!
//! **Simulated**: every frame of every leg with its size ([`ProtocolStep::shape`]), its journey (latency, loss,
//! outcome, charge), the dependence of legs on each other, and real masks and ring arithmetic. **Not simulated**: key
//! agreement, encryption and secret sharing. Seeds come from the run's named streams, so the run's seed reveals all
//! masks; this measures costs and effects of the protocol and protects no data.

mod masking;
mod masks;
mod noise;
mod protocol_steps;
mod ring;

use crate::numerics::share::least_share_of;
pub(crate) use masking::{MaskedSum, Masking};
pub use masks::Masks;
pub use noise::{Noise, NoiseTarget};
pub use protocol_steps::{
    KeyExchange, ProtocolContext, ProtocolFrame, ProtocolStep, Unmasking, exchange_keys, unmask,
};
pub use ring::{FixedPoint, Modulus, Unrepresentable};

/// Rules of secure aggregation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecureAggregation {
    /// Conversion of numbers to integers.
    pub numbers: FixedPoint,
    /// Fraction of a round's participants that must take every leg.
    pub threshold: f64,
}

impl SecureAggregation {
    /// Returns the number of participants that must take every leg.
    ///
    /// It is at least two, for a sum of one upload is the upload.
    pub fn needed(&self, participants: usize) -> usize {
        least_share_of(participants, self.threshold).max(2)
    }
}

/// The privacy services of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrivacyRules {
    /// Secure aggregation, if the server sees only sums.
    pub secure: Option<SecureAggregation>,
    /// Noise that is added to uploads.
    pub noise: Option<Noise>,
}
