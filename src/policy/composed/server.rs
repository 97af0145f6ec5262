//! The server of two methods, one after the other.

use std::sync::Arc;

use super::bodies::{join, malformed, split};
use super::{Composed, FrozenExtractor, down_within, with_features};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Aggregate, KeptUpload, Message, Participant, PolicyError, Predictor, RoundContext, RunContext,
    Server, Stage, each_changed,
};
use crate::quantity::TaskId;
use crate::wire::{Body, BodyShape, WireError};

pub(super) struct ComposedServer {
    method: Composed,
    first: Box<dyn Server>,
    second: Option<Second>,
    /// Run context for the second server, which cannot be built before the features exist.
    ctx: RunContext,
    init: StreamKey,
}

/// Stage of a saved server: first method active, features frozen with nothing trained on them, or second method active.
pub(super) const FIRST: u8 = 0;
const FROZEN: u8 = 1;
const SECOND: u8 = 2;

/// Bits of a digest that a metric holds exactly.
const HASH: u64 = (1 << 48) - 1;

struct Second {
    server: Box<dyn Server>,
    frozen: FrozenExtractor,
    /// True after a round of the second method is over. Before that it has no predictor.
    has_trained: bool,
}

impl ComposedServer {
    pub(super) fn new(
        method: Composed,
        first: Box<dyn Server>,
        ctx: &RunContext,
        init: StreamKey,
    ) -> Self {
        ComposedServer { method, first, second: None, ctx: ctx.clone(), init }
    }

    /// Freezes the first method's features as they stand, with a second server on them.
    fn freeze(&self) -> Result<Second, PolicyError> {
        let frozen = self.method.freeze(&*self.first, &self.ctx)?;
        let (found, announced) = (frozen.asset.body.shape(), &self.method.profile.features);
        if found.sections != announced.sections {
            let tensors = |body: &BodyShape| -> usize {
                body.sections.iter().map(|section| section.tensors.len()).sum()
            };
            return Err(PolicyError::Unsupported(format!(
                "the first method announced features of {} tensors and gives {}, or others",
                tensors(announced),
                tensors(&found)
            )));
        }
        // A separate unit: methods choose the step themselves.
        let init = self.init.unit(1);
        let server = self.method.then.server(&with_features(&self.ctx, &frozen)?, init)?;
        Ok(Second { server, frozen, has_trained: false })
    }

    /// Ends the first method: freezes its features and begins the stage of the second.
    fn start_second(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        self.first.end_stage(stage, ctx)?;
        let mut second = self.freeze()?;
        second.server.begin_stage(stage, &with_features(ctx, &second.frozen)?)?;
        self.second = Some(second);
        Ok(())
    }

    fn second(&mut self, stage: &Stage, ctx: &RunContext) -> Result<&mut Second, PolicyError> {
        if self.second.is_none() {
            self.start_second(stage, ctx)?;
        }
        self.second.as_mut().ok_or_else(|| PolicyError::Unsupported("no second method".into()))
    }

    /// Returns the round as its own method counts phases.
    fn inner(&self, round: &RoundContext) -> (bool, RoundContext) {
        let (second, phase) = self.method.stage(&round.stage.view, round.phase);
        (second, RoundContext { phase, ..round.clone() })
    }

    fn ends_first(&self, round: &RoundContext) -> bool {
        let last = self.method.first_phases(&round.stage.view);
        round.phase + 1 == last && round.round_in_phase + 1 >= round.rounds_in_phase
    }
}

impl Server for ComposedServer {
    fn begin_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        if stage.task == TaskId(0) {
            return self.first.begin_stage(stage, ctx);
        }
        let second = self.second(stage, ctx)?;
        second.server.begin_stage(stage, &with_features(ctx, &second.frozen)?)
    }

    fn broadcast(
        &mut self,
        round: &RoundContext,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let (is_second, inner) = self.inner(round);
        let (downloads, features) = if is_second {
            let second = self.second(&round.stage, ctx)?;
            let ctx = with_features(ctx, &second.frozen)?;
            (second.server.broadcast(&inner, participants, &ctx)?, Some(second.frozen.clone()))
        } else {
            (self.first.broadcast(&inner, participants, ctx)?, None)
        };
        Ok(each_changed(&downloads, |download| outside(download, features.as_ref())))
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let (is_second, inner) = self.inner(round);
        let aggregate = aggregate.map(within).transpose()?;
        if is_second {
            let second = self.second(&round.stage, ctx)?;
            let ctx = with_features(ctx, &second.frozen)?;
            second.server.end_round(&inner, aggregate, &ctx)?;
            second.has_trained = true;
            return Ok(());
        }
        self.first.end_round(&inner, aggregate, ctx)?;
        if self.ends_first(round) {
            self.start_second(&round.stage, ctx)?;
        }
        Ok(())
    }

    fn end_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        let second = self.second(stage, ctx)?;
        second.server.end_stage(stage, &with_features(ctx, &second.frozen)?)
    }

    /// Returns the first method's predictor until the second has trained, and then the second's.
    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        match self.second.as_ref().filter(|second| second.has_trained) {
            None => self.first.predictor(ctx),
            Some(second) => second.server.predictor(&with_features(ctx, &second.frozen)?),
        }
    }

    /// Returns the server's metrics and a hash of the state that the features are made of.
    ///
    /// The hash is computed at every call; a change of it would show that the features are not frozen.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        let Some(second) = &self.second else { return self.first.metrics() };
        let digest = second.frozen.features.feature_state().digest();
        let mut metrics = second.server.metrics();
        metrics.push(("features_hash", (digest & HASH) as f64));
        metrics
    }

    fn save(&self) -> Body {
        let stage = match &self.second {
            None => FIRST,
            Some(second) if !second.has_trained => FROZEN,
            Some(_) => SECOND,
        };
        let second = self.second.as_ref().map(|second| second.server.save());
        let mut body = join(self.first.save(), second.unwrap_or_default());
        body.meta.insert(0, stage);
        body
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        let (stage, first, then) = saved_parts(saved)?;
        self.first.load(&first)?;
        self.second = None;
        if stage != FIRST {
            let mut second = self.freeze().map_err(|error| malformed(&error.to_string()))?;
            second.server.load(&then)?;
            second.has_trained = stage == SECOND;
            self.second = Some(second);
        }
        Ok(())
    }
}

/// Returns the stage of a saved server, and what each of its servers saved.
pub(super) fn saved_parts(saved: &Body) -> Result<(u8, Body, Body), WireError> {
    let mut saved = saved.clone();
    if saved.meta.is_empty() {
        return Err(malformed("is empty"));
    }
    let stage = saved.meta.remove(0);
    let (first, then) = split(&saved)?;
    Ok((stage, first, then))
}

/// Returns an aggregate whose kept uploads are as the inner method sees them. Their content was already unwrapped when
/// it was transformed.
fn within(aggregate: Aggregate) -> Result<Aggregate, WireError> {
    let inner = |kept: KeptUpload| -> Result<KeptUpload, WireError> {
        Ok(KeptUpload { sent: Arc::new(down_within(&kept.sent)?), ..kept })
    };
    let kept = aggregate.kept_uploads.into_iter().map(inner).collect::<Result<_, _>>()?;
    Ok(Aggregate { kept_uploads: kept, ..aggregate })
}

/// Returns a download with the tag of its stage and the features it builds on.
fn outside(inner: &Message, features: Option<&FrozenExtractor>) -> Message {
    let mut download = inner.clone();
    let mut tag = vec![u8::from(features.is_some())];
    if let Some(frozen) = features {
        tag.extend(frozen.asset.digest().to_le_bytes());
        download.assets.push(Arc::clone(&frozen.asset));
    }
    download.control.splice(0..0, tag);
    download
}
