//! Contribution that the server computes from an upload.

use super::Demands;
use crate::policy::{ExchangeFacts, Message, MessageSpec, PolicyError};

/// Contribution that the server computes from an upload on arrival, and aggregates in its place.
pub trait TransformUpload {
    /// Returns the specification of the contribution from that of the upload.
    fn layout(&self, facts: &ExchangeFacts<'_>, upload: MessageSpec) -> MessageSpec;

    /// Returns the contribution of an upload, given the download that was sent.
    ///
    /// # Errors
    /// When the upload cannot be used.
    fn transform(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        upload: Message,
    ) -> Result<Message, PolicyError>;

    /// Returns the demands of the transform on scenario and engine.
    fn demands(&self) -> Demands {
        Demands::default()
    }
}
