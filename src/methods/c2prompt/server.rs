//! C2Prompt's server: Powder's, with Gaussians of classes and class-aware aggregation of components.

use std::sync::Arc;

use super::C2Prompt;
use super::affinity::Histogram;
use super::messages::{closed, scores};
use super::moments::ClientTaskMoments;
use super::reports::{Report, Reports};
use crate::methods::powder::{ClientTaskKey, PowderServer};
use crate::policy::{
    Aggregate, KeptUpload, Message, Participant, PolicyError, Predictor, RoundContext, RunContext,
    Server, shared,
};
use crate::wire::{Body, WireError};

/// C2Prompt's server, around Powder's.
pub struct C2PromptServer {
    pub(super) method: Arc<C2Prompt>,
    pub(super) powder: PowderServer,
    /// Moments that clients reported.
    pub(super) reports: Reports,
    pub(super) metrics: Vec<(&'static str, f64)>,
}

impl C2PromptServer {
    /// Returns a download for each participant: the Gaussians of its classes over all clients.
    fn gaussians(
        &self,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let dim = ctx.backbone.dim();
        let classes: Vec<Vec<u32>> =
            participants.iter().map(|participant| classes_of(participant, ctx)).collect();
        let gaussians = self.reports.gaussians(classes.iter().map(Vec::as_slice), dim)?;
        gaussians
            .into_iter()
            .map(|of_participant| Ok(Arc::new(of_participant.write(dim)?)))
            .collect()
    }

    /// Stores the moments reported in round 0, and records metrics about them.
    fn take(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let report = |kept: KeptUpload| -> Result<(ClientTaskKey, Report), PolicyError> {
            let (participant, moments) =
                (&kept.meta.participant, ClientTaskMoments::read(&kept.update)?);
            Ok((
                ClientTaskKey::of(participant),
                Report { classes: classes_of(participant, ctx), moments },
            ))
        };
        let kept = aggregate.into_iter().flat_map(|aggregate| aggregate.kept_uploads);
        let reported = kept.map(report).collect::<Result<Vec<_>, _>>()?;
        self.reports.take(reported, self.method.config.moments);
        let stage = round.stage.task;
        let shares = [
            ("lcdc_second_holders", self.reports.second_holders(stage)),
            ("lcdc_other_samples", self.reports.other_samples(stage)),
        ];
        self.metrics.extend(shares.into_iter().filter_map(|(name, share)| Some((name, share?))));
        Ok(())
    }
}

/// Returns the classes of a participant as ids of the data set.
///
/// A class that occurs in several tasks has one id.
fn classes_of(participant: &Participant, ctx: &RunContext) -> Vec<u32> {
    ctx.task_sequence.classes_of(&participant.view)
}

impl Server for C2PromptServer {
    fn broadcast(
        &mut self,
        round: &RoundContext,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let downloads = match C2Prompt::inner(round.phase) {
            Some(phase) => {
                let inner = RoundContext { phase, ..round.clone() };
                self.powder.broadcast(&inner, participants, ctx)?
            }
            None if C2Prompt::asks(round.phase) => {
                return Ok(shared(closed(round.phase, Message::default()), participants));
            }
            None => self.gaussians(participants, ctx)?,
        };
        // Participants share no message, even if it is equal, so that each is charged as a frame.
        let close = |download| Arc::new(closed(round.phase, Arc::unwrap_or_clone(download)));
        Ok(downloads.into_iter().map(close).collect())
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        self.metrics.clear();
        let Some(phase) = C2Prompt::inner(round.phase) else {
            return match C2Prompt::asks(round.phase) {
                true => self.take(round, aggregate, ctx),
                false => Ok(()),
            };
        };
        let Some(aggregate) = aggregate else { return Ok(()) };
        let matched =
            |kept: &KeptUpload| -> Result<Option<(ClientTaskKey, Histogram)>, PolicyError> {
                let (participant, found) = (&kept.meta.participant, scores(&kept.update)?);
                let histogram =
                    |scores| Histogram { classes: classes_of(participant, ctx), scores };
                Ok(found.map(|scores| (ClientTaskKey::of(participant), histogram(scores))))
            };
        let matched = aggregate.kept_uploads.iter().filter_map(|kept| matched(kept).transpose());
        let matched: Vec<_> = matched.collect::<Result<_, _>>()?;
        let inner = RoundContext { phase, ..round.clone() };
        self.powder.end_round(&inner, Some(aggregate), ctx)?;
        self.metrics.extend(self.powder.metrics());
        match self.mixes_after(round) && !matched.is_empty() {
            true => self.aggregate(matched, ctx),
            false => Ok(()),
        }
    }

    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        self.powder.predictor(ctx)
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.metrics.clone()
    }

    fn save(&self) -> Body {
        let mut body = self.powder.save();
        body.sections.push(self.reports.save());
        body
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.powder.load(saved)?;
        self.reports = Reports::load(saved)?;
        self.metrics.clear();
        Ok(())
    }
}
