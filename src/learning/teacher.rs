//! Teachers: frozen earlier models from whose logits a student learns.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{Classifier, LearningError, PackBatch};
use crate::data::Batch;
use crate::model::{Backbone, BatchNormMode, HeadKind, ModelError, ParameterSet};

/// Frozen model that answers with logits on some head rows.
///
/// Its answers are plain numbers without gradients.
#[derive(Clone, Debug)]
pub struct Teacher {
    model: Classifier,
    rows: Range<usize>,
    /// True if each member of a pack has a copy of the teacher.
    packed: bool,
}

impl Teacher {
    /// Returns the teacher of these parameters, for those of `rows` that its head has. Without `norms` it normalizes by
    /// running moments; with `norms` it does so as a student in training, although it is never updated.
    ///
    /// # Errors
    /// Returns an error if parameters are missing or do not fit the backbone.
    pub fn new(
        backbone: &Arc<Backbone>,
        parameters: &ParameterSet,
        rows: Range<usize>,
        norms: Option<BatchNormMode>,
    ) -> Result<Teacher, ModelError> {
        let rows = rows.start..rows.end.min(head_rows_of(parameters));
        let model = match norms {
            None => Classifier::frozen(backbone, parameters)?,
            Some(norms) => {
                let own = vec![parameters.clone()];
                Classifier::pack_normed(backbone, own, 0..rows.end, None, norms)?
            }
        };
        Ok(Teacher { model, rows, packed: false })
    }

    /// Returns a teacher for the members of a pack, of a network without batch norms.
    ///
    /// A member gets the same bits as alone, as the shapes of all matrix products are the same.
    ///
    /// # Errors
    /// Fails as [`new`](Teacher::new) does, and if the parameters cannot be in packs.
    pub fn of_pack(
        backbone: &Arc<Backbone>,
        parameters: &ParameterSet,
        rows: Range<usize>,
        members: usize,
    ) -> Result<Teacher, ModelError> {
        let rows = rows.start..rows.end.min(head_rows_of(parameters));
        let model = Classifier::pack(backbone, vec![parameters.clone(); members], 0..rows.end)?;
        Ok(Teacher { model, rows, packed: true })
    }

    /// Returns the head rows that it answers for.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// Returns the network that answers.
    pub fn model(&self) -> &Classifier {
        &self.model
    }

    /// Returns the teacher's logits of a batch, `(batch, rows)` row-major, on its [`rows`](Teacher::rows).
    ///
    /// If a cache supplied features in place of pixels, the part below them must be frozen in the teacher, too.
    ///
    /// # Errors
    /// Returns an error if the batch does not fit the network.
    pub fn answers(&self, batch: &Batch, device: &Device) -> Result<Vec<f32>, LearningError> {
        self.own_logits(self.model.logits(&self.model.batch_features(batch, device)?)?)
    }

    /// Returns the teacher's answers for the samples of a pack.
    ///
    /// # Errors
    /// Fails as [`answers`](Teacher::answers) does.
    pub fn pack_answers(
        &self,
        step: &PackBatch,
        device: &Device,
    ) -> Result<Vec<f32>, LearningError> {
        match self.packed {
            true => self.own_logits(self.model.pack_logits(step, device, None)?.logits),
            false => self.answers(&step.batch, device),
        }
    }

    /// Returns the logits on the teacher's rows as plain numbers.
    fn own_logits(&self, logits: Tensor) -> Result<Vec<f32>, LearningError> {
        let logits = logits.detach().narrow(1, self.rows.start, self.rows.len())?.contiguous()?;
        Ok(logits.flatten_all()?.to_vec1::<f32>()?)
    }
}

/// Returns the number of head rows among these parameters.
fn head_rows_of(parameters: &ParameterSet) -> usize {
    let first = HeadKind::of(parameters).by_row().first();
    let rows = first.and_then(|name| parameters.get(name)?.shape.first().copied());
    rows.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{LinearHead, ModuleShape, NetworkShape, Parameter, PixelShape, Residual};
    use crate::numerics::streams::{Domain, StreamKey};

    fn backbone() -> Arc<Backbone> {
        Arc::new(Backbone::Pixels(PixelShape { channels: 2, image: 1 }))
    }

    fn batch(values: &[f32]) -> Batch {
        let rows = values.len() / 2;
        let (values, shape) = (values.to_vec(), vec![rows, 2]);
        Batch::Features { values, shape, labels: vec![0; rows], samples: vec![0; rows] }
    }

    #[test]
    fn a_teacher_answers_for_the_rows_that_it_has() {
        let weight = Parameter { shape: vec![3, 2], values: [1.0, 0.0, 0.0, 2.0, 3.0, 3.0].into() };
        let bias = Parameter { shape: vec![3], values: [0.5, 0.0, -1.0].into() };
        let head: ParameterSet =
            [(LinearHead::WEIGHT, weight), (LinearHead::BIAS, bias)].into_iter().collect();
        let batch = batch(&[1.0, 2.0, 0.0, -1.0]);
        for norms in [None, Some(BatchNormMode::Batch)] {
            let answers = |rows| {
                let teacher = Teacher::new(&backbone(), &head, rows, norms).unwrap();
                (teacher.rows(), teacher.answers(&batch, &Device::Cpu).unwrap())
            };
            assert_eq!(answers(0..2), (0..2, vec![1.5, 4.0, 0.5, -2.0]));
            assert_eq!(answers(1..9), (1..3, vec![4.0, 8.0, -2.0, -4.0]));
        }
    }

    /// In evaluation mode a sample's output does not depend on its batch.
    ///
    /// With the norms of a student in training it does (FedLwF-2T card, section 5).
    #[test]
    fn a_teacher_with_batch_norms_answers_sample_by_sample() {
        let module = ModuleShape { hidden: 4, output: 3, residual: Residual::Identity };
        let shape = NetworkShape { features: 2, module: Some(module), head_hidden: 4, classes: 3 };
        let parameters = shape.initial_parameters(StreamKey::new(1, Domain::Init));
        for (norms, alike) in [(None, true), (Some(BatchNormMode::Batch), false)] {
            let teacher = Teacher::new(&backbone(), &parameters, 0..3, norms).unwrap();
            let answers = |values: &[f32]| teacher.answers(&batch(values), &Device::Cpu).unwrap();
            let apart = [answers(&[1.0, -0.5]), answers(&[0.2, 0.8])].concat();
            assert_eq!(apart == answers(&[1.0, -0.5, 0.2, 0.8]), alike, "{norms:?}");
        }
    }
}
