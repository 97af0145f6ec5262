//! Views into a method for measures and commands: models of clients, content of uploads, generated images.

use std::sync::Arc;

use super::{
    Disclosures, ExchangeFacts, GeneratedImages, ImageRequest, Member, Message, ModelFacts,
    PolicyError, Predictor, RunContext,
};
use crate::wire::Body;

/// Views into a method that no round needs: by default a method shows nothing.
pub trait MethodInspection {
    /// Builds the client's own model before aggregation, for the federated-bias measures.
    ///
    /// # Errors
    /// If the messages do not fit each other.
    fn local_model(
        &self,
        facts: &ExchangeFacts<'_>,
        sent: &Message,
        own: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let _ = (facts, sent, own, ctx);
        Ok(None)
    }

    /// Returns what an upload shows of single classes: their mean vectors, or else the parameter update.
    ///
    /// `member` is the participant as it trained. `None` if this upload shows neither. A method whose uploads may show
    /// something says so in its profile ([`discloses`](super::MethodProfile::discloses)).
    ///
    /// # Errors
    /// If the messages do not fit each other.
    fn disclosures(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        let _ = (member, upload, ctx);
        Ok(None)
    }

    /// Returns images that the server has made without data for clients to replay, from what it saved.
    ///
    /// `None` if it makes none, or had made none yet.
    ///
    /// # Errors
    /// Returns an error if the state is of another method, or the network fails.
    fn generated_images(
        &self,
        model: &ModelFacts,
        saved: &Body,
        request: &ImageRequest<'_>,
    ) -> Result<Option<GeneratedImages>, PolicyError> {
        let _ = (model, saved, request);
        Ok(None)
    }
}
