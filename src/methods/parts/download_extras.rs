//! Tensors, control fields and assets of a download besides parameters.

use std::sync::Arc;

use crate::policy::{
    Asset, AssetSpec, ExchangeFacts, Message, ModelFacts, Participant, PolicyError, RoundContext,
    RunContext, TensorSpec,
};
use crate::wire::Section;

/// Tensors, control fields and assets of a download besides parameters.
pub trait DownloadExtras<M> {
    /// Returns the places of the tensors of every download.
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let _ = facts;
        Vec::new()
    }

    /// Returns true if downloads may hold less than the places: what the server knows by then.
    fn is_upper_bound(&self, facts: &ExchangeFacts<'_>) -> bool {
        let _ = facts;
        false
    }

    /// Returns the tensors of a round's downloads.
    ///
    /// # Errors
    /// What ends the run.
    fn sections(&self, memory: &M, round: &RoundContext) -> Result<Vec<Section>, PolicyError> {
        let _ = (memory, round);
        Ok(Vec::new())
    }

    /// Returns further tensors of a download, behind those: what depends on the rows of its receiver's view or, where
    /// downloads are [personal](DownloadExtras::is_personal), on the receiver.
    ///
    /// # Errors
    /// What ends the run.
    fn personal_sections(
        &self,
        model: &ModelFacts,
        memory: &M,
        participant: &Participant,
    ) -> Result<Vec<Section>, PolicyError> {
        let _ = (model, memory, participant);
        Ok(Vec::new())
    }

    /// Returns true if every receiver gets its own download; otherwise those of one view share theirs.
    fn is_personal(&self) -> bool {
        false
    }

    /// Returns control fields of as many bytes as downloads will have.
    fn field_template(&self, facts: &ExchangeFacts<'_>) -> Vec<u8> {
        let _ = facts;
        Vec::new()
    }

    /// Returns the control fields of a round's downloads.
    fn fields(&self, memory: &M, round: &RoundContext) -> Vec<u8> {
        let _ = (memory, round);
        Vec::new()
    }

    /// Returns the round of the phase of a download, if the parameters of uploads depend on it.
    fn round(&self, download: &Message) -> u32 {
        let _ = download;
        0
    }

    /// Returns assets that the downloads of a task's training name, behind the previous model.
    fn asset_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<AssetSpec> {
        let _ = facts;
        Vec::new()
    }

    /// Returns those assets, in the same order.
    ///
    /// # Errors
    /// What ends the run.
    fn assets(
        &self,
        memory: &M,
        participant: &Participant,
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        let _ = (memory, participant, ctx);
        Ok(Vec::new())
    }
}

/// Downloads of FedAvg: parameters alone.
pub struct PlainDownload;

impl<M> DownloadExtras<M> for PlainDownload {}
