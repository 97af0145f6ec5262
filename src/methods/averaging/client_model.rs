//! A client's own model, of its download and its upload, and what the upload shows of its classes.

use std::sync::Arc;

use candle_core::Tensor;

use super::RowPurpose;
use super::averager::{Averager, is_closing};
use crate::data::TaskView;
use crate::methods::parts::AveragingMethod;
use crate::policy::{Disclosures, Member, Message, PolicyError, Predictor, RunContext};

impl<C: AveragingMethod> Averager<C> {
    /// Returns the model of a client in a phase of a task: `own` over `sent`. `None` if the messages are not a whole
    /// model.
    pub(super) fn client_model(
        &self,
        (view, phase): (&Arc<TaskView>, usize),
        sent: &Message,
        own: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let all = &*self.parameters;
        let down = self.cut(view, RowPurpose::Down);
        if is_closing(phase) || down.only_trained {
            return Ok(None);
        }
        let received = down.padded(all, &sent.parameters);
        let whole = self.cut(view, RowPurpose::Up).put(all, &received, &own.parameters)?;
        let (parts, model, task) = (self.parts(), &*self.model, view.task.index());
        let own = match parts.answer {
            Some(answer) => answer.client_predictor(model, task, sent, &whole, ctx)?,
            None => None,
        };
        match own {
            Some(own) => Ok(Some(own)),
            None => parts.adaptation.predictor(model, task, &whole, ctx).map(Some),
        }
    }

    /// Returns the class means of an upload, with the features of its client's model.
    pub(super) fn disclosed(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        if is_closing(member.phase) {
            return Ok(None);
        }
        let classes = self.parts().upload.class_means(upload)?;
        if classes.is_empty() {
            return Ok(None);
        }
        let stage = (&member.participant.view, member.phase);
        let Some(model) = self.client_model(stage, &member.download, upload, ctx)? else {
            return Ok(None);
        };
        let map = Box::new(move |pixels: &Tensor| model.features_with_gradient(pixels));
        Ok(Some(Disclosures { map, classes }))
    }
}
