//! Tensors of an upload in addition to parameters.

use super::{ClientContext, Demands};
use crate::methods::averaging::{LocalTrainingResult, PackClient, SAMPLES, sample_count};
use crate::model::ParameterSet;
use crate::policy::{ExchangeFacts, Message, ModelFacts, PolicyError, TensorSpec, UploadSize};
use crate::wire::Section;

/// Tensors of an upload in addition to parameters; by default the sample count alone.
///
/// An implementor that replaces them and still needs the sample count includes it.
pub trait UploadExtras<S> {
    /// Returns the specifications of the tensors, in the order in which they travel.
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let _ = facts;
        vec![sample_count()]
    }

    /// Returns the tensors of those specifications.
    ///
    /// # Errors
    /// An error means that the participant fails and sends nothing.
    fn sections(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, S>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        let _ = (context, member);
        Ok(vec![trained.sample_count()?])
    }

    /// Returns the name of the tensor whose sum is the upload's weight in the mean.
    fn weight_tensor(&self) -> &'static str {
        SAMPLES
    }

    /// Returns the prefix of the names of tensors with elementwise weights; `None` if there are none.
    ///
    /// Clients send them as [`elementwise_weights`](UploadExtras::elementwise_weights); no other tensor of an upload
    /// may have such a name.
    fn elementwise_weight_prefix(&self) -> Option<&'static str> {
        None
    }

    /// Returns the elementwise weights of a client's parameters in the mean, in their whole shapes.
    ///
    /// # Errors
    /// When a pass of the network fails.
    fn elementwise_weights(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, S>,
        trained: &LocalTrainingResult,
    ) -> Result<ParameterSet, PolicyError> {
        let _ = (context, member, trained);
        Ok(ParameterSet::new())
    }

    /// Returns the control fields of an upload whose head starts at row `first_row`; `usual` are FedAvg's.
    fn fields(&self, facts: &ExchangeFacts<'_>, first_row: usize, usual: Vec<u8>) -> Vec<u8> {
        let _ = (facts, first_row);
        usual
    }

    /// Validates the tensors and control fields of an upload.
    ///
    /// # Errors
    /// When the upload cannot be used.
    fn validate(&self, update: &Message) -> Result<(), PolicyError> {
        let _ = update;
        Ok(())
    }

    /// Returns the time at which the size of an upload is known.
    fn size(&self) -> UploadSize {
        UploadSize::Static
    }

    /// Returns the sample passes that the tensors cost in addition to training, for virtual time.
    fn work(&self, samples: usize) -> f64 {
        let _ = samples;
        0.0
    }

    /// Returns further sample passes of the tensors, which depend on the model.
    fn model_work(&self, model: &ModelFacts, samples: usize) -> f64 {
        let _ = (model, samples);
        0.0
    }

    /// Returns the demands of the tensors on scenario and engine.
    fn demands(&self) -> Demands {
        Demands::default()
    }
}

/// Uploads of FedAvg: the sample count in addition to parameters.
pub struct SampleCount;

impl<S> UploadExtras<S> for SampleCount {}
