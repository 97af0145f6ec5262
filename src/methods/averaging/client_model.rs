//! A client's own model, of its download and its upload, and what the upload shows of its classes.

use std::sync::Arc;

use candle_core::Tensor;

use super::RowPurpose;
use super::averager::{Averager, is_closing};
use crate::data::TaskView;
use crate::learning::Classifier;
use crate::learning::feature_inversion::UpdateMatching;
use crate::methods::parts::AveragingMethod;
use crate::model::{Adjustment, ParameterSet};
use crate::policy::{
    Disclosures, Member, Message, PolicyError, Predictor, RunContext, TrainedClass,
};

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
        let Some(whole) = self.client_parameters((view, phase), sent, own)? else {
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

    /// Returns the parameters of a client in a phase of a task: `own` over `sent`. `None` if the messages are not a
    /// whole model.
    fn client_parameters(
        &self,
        (view, phase): (&Arc<TaskView>, usize),
        sent: &Message,
        own: &Message,
    ) -> Result<Option<ParameterSet>, PolicyError> {
        let all = &*self.parameters;
        let down = self.cut(view, RowPurpose::Down);
        if is_closing(phase) || down.only_trained {
            return Ok(None);
        }
        let received = down.padded(all, &sent.parameters);
        Ok(Some(self.cut(view, RowPurpose::Up).put(all, &received, &own.parameters)?))
    }

    /// Returns what an upload shows: class means with the features of its client's model, or the move of parameters.
    pub(super) fn disclosed(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        match self.parts().upload.has_class_means() {
            _ if is_closing(member.phase) => Ok(None),
            true => self.disclosed_means(member, upload, ctx),
            false => self.disclosed_update(member, upload, ctx),
        }
    }

    /// Returns the class means of an upload; numbers of samples are those of the shard.
    fn disclosed_means(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        let (parts, view) = (self.parts(), &member.participant.view);
        let mut classes = parts.upload.class_means(upload)?;
        let counts = ctx.shard_label_counts(&member.shard);
        for class in &mut classes {
            class.samples = counts.get(&(class.row as u32)).copied().unwrap_or(0).into();
        }
        classes.retain(|class| class.samples > 0);
        if classes.is_empty() {
            return Ok(None);
        }
        let (sent, context) = (&member.download, parts.context(&self.model, ctx));
        let describing = match self.client_parameters((view, member.phase), sent, upload)? {
            Some(whole) => parts.upload.describing_model(&context, view.task.index(), &whole)?,
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

    /// Returns the move of the parameters that a client sent, with the network that it trained. The loss of the network
    /// is the cross-entropy, with what keys of prompts add.
    fn disclosed_update(
        &self,
        member: &Member,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        let (parts, model, view) = (self.parts(), &*self.model, &member.participant.view);
        let (all, shared, task) = (&*self.parameters, parts.shared(), view.task.index());
        let received = self.cut(view, RowPurpose::Down).padded(all, &member.download.parameters);
        let sent = self.cut(view, RowPurpose::Up).put(all, &received, &upload.parameters)?;
        let (rows, norms) =
            (shared.trained_rows(model, view), shared.adaptation.settings(view).norms);
        // Which parameters train may depend on the round: those of the upload do, if they moved.
        let stays = |name: &str| upload.parameters.get(name).is_none();
        let network = |set: ParameterSet| {
            let prompting = shared.adaptation.prompting(model, task, true);
            let rows = rows.clone();
            // Moments of a batch of one image leave nothing of it.
            if ctx.backbone.is_in(&set) || Adjustment::is_in(&set) {
                return Classifier::evaluating(&ctx.backbone, vec![set], rows);
            }
            Classifier::pack_but(&ctx.backbone, vec![set], rows, prompting, norms, &stays)
        };
        let factors = |name: &str| shared.adaptation.rate_factor(name);
        let matching = UpdateMatching::new(network(received)?, &network(sent)?, factors)?;
        let trained = |(row, samples): (u32, u32)| {
            let class = TrainedClass { row: row as usize, label: row, samples: samples.into() };
            rows.contains(&class.row).then_some(class)
        };
        let classes: Vec<TrainedClass> =
            ctx.shard_label_counts(&member.shard).into_iter().filter_map(trained).collect();
        let matching = matching.map(Box::new).filter(|_| !classes.is_empty());
        Ok(matching.map(|matching| Disclosures::Update { matching, classes }))
    }
}
