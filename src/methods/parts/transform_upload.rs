//! Contribution that the server makes of an upload.

use crate::policy::{ExchangeFacts, Message, MessageSpec, PolicyError, Restriction};

/// Contribution that the server makes of an upload as it arrives, and aggregates in its place.
pub trait TransformUpload {
    /// Returns the layout of the contribution of an upload with this layout.
    fn layout(&self, facts: &ExchangeFacts<'_>, upload: MessageSpec) -> MessageSpec;

    /// Returns the contribution of an upload.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn transform(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        upload: Message,
    ) -> Result<Message, PolicyError>;

    /// Returns services that cannot bear it.
    fn restrictions(&self) -> Vec<Restriction> {
        Vec::new()
    }
}
