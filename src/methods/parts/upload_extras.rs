//! Tensors of an upload besides parameters.

use std::sync::Arc;

use super::ClientContext;
use crate::methods::averaging::{LocalTrainingResult, PackClient, SAMPLES, sample_count};
use crate::model::ParameterSet;
use crate::policy::{
    ClassDisclosure, ExchangeFacts, Message, ModelFacts, PolicyError, Predictor, Restriction,
    TensorSpec, UploadSize,
};
use crate::wire::Section;

/// Tensors of an upload besides parameters; by default the sample count alone. An implementor that sends others names
/// it among them, if it sends it.
pub trait UploadExtras<S> {
    /// Returns the places of the tensors, in the order in which they travel.
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let _ = facts;
        vec![sample_count()]
    }

    /// Returns the tensors of those places.
    ///
    /// # Errors
    /// What makes the upload unusable.
    fn sections(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, S>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        let _ = (context, member);
        Ok(vec![trained.sample_count()?])
    }

    /// Returns the name of the tensor that says how much an upload counts in the mean.
    fn weight_tensor(&self) -> &'static str {
        SAMPLES
    }

    /// Returns the prefix of the names of tensors that weigh every number of a parameter by itself.
    ///
    /// They exist if clients send [such](UploadExtras::elementwise_weights); no other parameter of an upload may have
    /// such a name.
    fn elementwise_weight_prefix(&self) -> Option<&'static str> {
        None
    }

    /// Returns how much every number of every parameter counts in the mean, in its whole shape.
    ///
    /// # Errors
    /// What the network reports.
    fn elementwise_weights(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, S>,
        trained: &LocalTrainingResult,
    ) -> Result<ParameterSet, PolicyError> {
        let _ = (context, member, trained);
        Ok(ParameterSet::new())
    }

    /// Returns the control fields of an upload whose head begins at this row. `usual` are those of FedAvg.
    fn fields(&self, facts: &ExchangeFacts<'_>, first_row: usize, usual: Vec<u8>) -> Vec<u8> {
        let _ = (facts, first_row);
        usual
    }

    /// Refuses an upload that cannot be used.
    ///
    /// # Errors
    /// Why it cannot.
    fn validate(&self, update: &Message) -> Result<(), PolicyError> {
        let _ = update;
        Ok(())
    }

    /// Returns true if uploads may have means of classes, see [`class_means`](UploadExtras::class_means).
    fn has_class_means(&self) -> bool {
        false
    }

    /// Returns the mean features of classes in an upload, by the model as its client trained it. Numbers of samples are
    /// as the upload has them, 0 if it has none.
    ///
    /// # Errors
    /// When it says something else.
    fn class_means(&self, update: &Message) -> Result<Vec<ClassDisclosure>, PolicyError> {
        let _ = update;
        Ok(Vec::new())
    }

    /// Returns the model whose features the class means are of, from a client's whole parameters.
    ///
    /// See [`class_means`](UploadExtras::class_means). By default it is the client's model as it answers.
    ///
    /// # Errors
    /// When the parameters do not fit the backbone.
    fn describing_model(
        &self,
        context: &ClientContext<'_>,
        task: usize,
        whole: &ParameterSet,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let _ = (context, task, whole);
        Ok(None)
    }

    /// Returns when the size of an upload is known.
    fn size(&self) -> UploadSize {
        UploadSize::Static
    }

    /// Returns sample passes that the tensors cost a client besides its training, for virtual time.
    fn work(&self, samples: usize) -> f64 {
        let _ = samples;
        0.0
    }

    /// Returns further sample passes, those that depend on the model.
    fn model_work(&self, model: &ModelFacts, samples: usize) -> f64 {
        let _ = (model, samples);
        0.0
    }

    /// Returns services that the tensors cannot bear.
    fn restrictions(&self) -> Vec<Restriction> {
        Vec::new()
    }
}

/// Uploads of FedAvg: the sample count besides parameters.
pub struct SampleCount;

impl<S> UploadExtras<S> for SampleCount {}
