//! Contribution that the server makes of an upload.

use crate::policy::{Layout, Message, PolicyError, SketchFacts, Veto};

/// Contribution that the server makes of an upload as it arrives, and aggregates in its place.
pub trait TransformUpload {
    /// Returns the layout of the contribution of an upload with this layout.
    fn layout(&self, facts: &SketchFacts<'_>, upload: Layout) -> Layout;

    /// Returns the contribution of an upload.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn transform(
        &self,
        facts: &SketchFacts<'_>,
        sent: &Message,
        upload: Message,
    ) -> Result<Message, PolicyError>;

    /// Returns services that cannot bear it.
    fn vetoes(&self) -> Vec<Veto> {
        Vec::new()
    }
}
