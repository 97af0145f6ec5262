//! Tensors, control fields and assets of a download in addition to parameters.

use std::sync::Arc;

use super::Demands;
use crate::policy::{
    Asset, AssetSpec, ExchangeFacts, Message, ModelFacts, Participant, PolicyError, RoundContext,
    RunContext, TensorSpec,
};
use crate::wire::Section;

/// Tensors, control fields and assets of a download in addition to parameters.
pub trait DownloadExtras<M> {
    /// Returns the specifications of the tensors of every download.
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let _ = facts;
        Vec::new()
    }

    /// Returns true if downloads may hold less than specified, depending on what the server knows by then.
    fn is_upper_bound(&self, facts: &ExchangeFacts<'_>) -> bool {
        let _ = facts;
        false
    }

    /// Returns the tensors that all downloads of a round share.
    ///
    /// # Errors
    /// An error ends the run.
    fn sections(&self, memory: &M, round: &RoundContext) -> Result<Vec<Section>, PolicyError> {
        let _ = (memory, round);
        Ok(Vec::new())
    }

    /// Returns further tensors of a participant's download.
    ///
    /// Their sections follow those of [`sections`](DownloadExtras::sections). They may depend on the rows of the
    /// participant's view or, if downloads are [personal](DownloadExtras::is_personal), on the participant.
    ///
    /// # Errors
    /// An error ends the run.
    fn personal_sections(
        &self,
        model: &ModelFacts,
        memory: &M,
        participant: &Participant,
    ) -> Result<Vec<Section>, PolicyError> {
        let _ = (model, memory, participant);
        Ok(Vec::new())
    }

    /// Returns true if every participant gets its own download.
    ///
    /// Otherwise participants with equal views share one.
    fn is_personal(&self) -> bool {
        false
    }

    /// Returns control fields with the byte length of those in downloads, to count sizes.
    fn field_template(&self, facts: &ExchangeFacts<'_>) -> Vec<u8> {
        let _ = facts;
        Vec::new()
    }

    /// Returns the control fields of a round's downloads.
    fn fields(&self, memory: &M, round: &RoundContext) -> Vec<u8> {
        let _ = (memory, round);
        Vec::new()
    }

    /// Returns the round of the phase of a download, or 0 if uploaded parameters do not depend on it.
    fn round(&self, download: &Message) -> u32 {
        let _ = download;
        0
    }

    /// Returns the shapes of the assets that training in a task needs, after the previous model.
    fn asset_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<AssetSpec> {
        let _ = facts;
        Vec::new()
    }

    /// Returns a participant's assets, in the order of [`asset_specs`](DownloadExtras::asset_specs).
    ///
    /// # Errors
    /// An error ends the run.
    fn assets(
        &self,
        memory: &M,
        participant: &Participant,
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        let _ = (memory, participant, ctx);
        Ok(Vec::new())
    }

    /// Returns the demands of tensors, fields and assets on scenario and engine.
    fn demands(&self) -> Demands {
        Demands::default()
    }
}

/// Downloads of FedAvg: parameters alone.
pub struct PlainDownload;

impl<M> DownloadExtras<M> for PlainDownload {}
