//! Models of single clients, built from download and upload, and the content that uploads disclose.

use std::sync::Arc;

use candle_core::Tensor;

use super::averager::{Averager, is_closing};
use crate::data::TaskView;
use crate::methods::parts::{AveragingMethod, ClassMeans};
use crate::policy::{Disclosures, Member, Message, PolicyError, Predictor, RunContext};

impl<C: AveragingMethod> Averager<C> {
    /// Returns a client's own model in a phase of a task: its download `sent` with the rows of its upload `own` put in.
    ///
    /// `None` if the messages do not contain a whole model.
    pub(super) fn client_model(
        &self,
        (view, phase): (&Arc<TaskView>, usize),
        sent: &Message,
        own: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let Some(whole) = self.messages().client_parameters((view, phase), sent, own)? else {
            return Ok(None);
        };
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

    /// Returns what an upload discloses: class means with a feature map, or a parameter update.
    pub(super) fn disclosed(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        match self.parts().class_means {
            _ if is_closing(member.phase) => Ok(None),
            Some(means) => self.disclosed_means(means, member, upload, ctx),
            None => self.messages().disclosed_update(member, upload, ctx),
        }
    }

    /// Returns the class means of an upload, with the sample counts of the client's shard.
    fn disclosed_means(
        &self,
        means: &dyn ClassMeans,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        let (parts, view) = (self.parts(), &member.participant.view);
        let mut classes = means.class_means(upload)?;
        let counts = ctx.shard_label_counts(&member.shard);
        for class in &mut classes {
            class.samples = counts.get(&(class.row as u32)).copied().unwrap_or(0).into();
        }
        classes.retain(|class| class.samples > 0);
        if classes.is_empty() {
            return Ok(None);
        }
        let (sent, context) = (&member.download, parts.context(&self.model, ctx));
        let describing =
            match self.messages().client_parameters((view, member.phase), sent, upload)? {
                Some(whole) => means.describing_model(&context, view.task.index(), &whole)?,
                None => None,
            };
        let model = match describing {
            Some(model) => Some(model),
            None => self.client_model((view, member.phase), sent, upload, ctx)?,
        };
        let Some(model) = model else { return Ok(None) };
        let map = Box::new(move |pixels: &Tensor| model.features_with_gradient(pixels));
        Ok(Some(Disclosures::Means { map, classes }))
    }
}
