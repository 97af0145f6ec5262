//! Mean features of classes in uploads, which an attack inverts.

use std::sync::Arc;

use super::ClientContext;
use crate::model::ParameterSet;
use crate::policy::{ClassDisclosure, Message, PolicyError, Predictor};

/// Mean features of classes in uploads, which an attack inverts.
pub trait ClassMeans {
    /// Returns the mean features of classes in an upload, as the client's trained model computed them.
    ///
    /// Their numbers of samples are those in the upload, 0 if it has none.
    ///
    /// # Errors
    /// Returns an error if the upload has other tensors.
    fn class_means(&self, update: &Message) -> Result<Vec<ClassDisclosure>, PolicyError>;

    /// Returns the model that computes the features of class means, from whole parameters.
    ///
    /// `None`, the default, is the client's model as it predicts.
    ///
    /// # Errors
    /// Returns an error if the parameters do not fit the backbone.
    fn describing_model(
        &self,
        context: &ClientContext<'_>,
        task: usize,
        whole: &ParameterSet,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let _ = (context, task, whole);
        Ok(None)
    }
}
