//! The second of two staged methods: class means of frozen features, collected in one round per
//! task; the nearest mean wins.
//!
//! What travels is not what is aggregated: a client sends its own means in f32, and what the server
//! adds up is what they are means of.

use std::sync::Arc;

use candle_core::Tensor;
use fedcast::data::TaskView;
use fedcast::numerics::streams::StreamKey;
use fedcast::policy::*;
use fedcast::wire::*;

pub struct NearestMean;

/// Returns the number of samples of each head row of a task.
fn counts(view: &TaskView) -> TensorSpec {
    TensorSpec::new(Kind::Statistics, "counts", &[view.rows.len()], Dtype::U32)
}

/// Returns the upload of a client for a task.
fn sent(view: &TaskView, dim: usize) -> MessageSpec {
    let means = TensorSpec::new(Kind::Statistics, "means", &[view.rows.len(), dim], Dtype::F32);
    let control = vec![view.rows.start as u8];
    MessageSpec { control, extra: vec![counts(view), means], ..MessageSpec::default() }
}

impl Method for NearestMean {
    fn server(&self, ctx: &RunContext, _init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        features(ctx)?;
        Ok(Box::new(NearestMeanServer { means: Vec::new() }))
    }

    fn profile(&self) -> MethodProfile {
        MethodProfile::default()
    }

    fn phases(&self, _stage: &Stage, _rounds: u32) -> Vec<Phase> {
        vec![Phase::new("statistics", 1, CohortRule::Holders)]
    }

    /// The server has nothing to say but which features to use, and that is an asset.
    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        let dim = facts.model.backbone.dim();
        match message {
            MessageKind::Download => MessageSpec::default(),
            MessageKind::Upload => sent(facts.view, dim),
            MessageKind::Contribution => {
                let shape = [facts.view.rows.len(), dim];
                let sums = TensorSpec::new(Kind::Statistics, "sums", &shape, Dtype::F64);
                let extra =
                    [counts(facts.view), sums].map(|place| place.summed(StalenessRule::Refuse));
                MessageSpec { extra: extra.into(), ..sent(facts.view, dim) }
            }
        }
    }

    /// A mean times its count.
    fn transform_upload(
        &self,
        facts: &ExchangeFacts<'_>,
        _sent: &Message,
        update: Message,
    ) -> Result<Message, PolicyError> {
        let counts = update.tensor(Kind::Statistics, "counts")?;
        let means = update.tensor(Kind::Statistics, "means")?;
        let rows = means.as_f32()?.chunks(means.shape()[1]).zip(counts.as_u32()?.iter());
        let sums =
            rows.flat_map(|(mean, count)| mean.iter().map(|m| f64::from(*m) * f64::from(*count)));
        let values = [counts.values().clone(), TensorValues::F64(sums.collect())];
        let layout = self.message_spec(MessageKind::Contribution, facts);
        Ok(Message::filling(&layout, update.parameters.clone(), values)?)
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        members.iter().map(|member| collected(member, ctx).map_err(Failure::from)).collect()
    }
}

fn features(ctx: &RunContext) -> Result<&Arc<dyn Predictor>, PolicyError> {
    let missing = || PolicyError::Unsupported("needs the features of a first method".into());
    ctx.first_method.as_ref().ok_or_else(missing)
}

/// Means of a client's features by head row; zeros where it has no sample.
fn collected(member: &Member, ctx: &RunContext) -> Result<ClientResult, PolicyError> {
    let view = &member.participant.view;
    let (rows, dim) = (view.rows.clone(), ctx.backbone.dim());
    let (mut counts, mut sums) = (vec![0u32; rows.len()], vec![vec![0.0; dim]; rows.len()]);
    for batch in ctx.statistics_loader(&member.shard).in_order(ctx.evaluation_batch) {
        let batch = batch?;
        let found = features(ctx)?.features(&ctx.pixels(&batch)?)?.to_vec2::<f32>()?;
        for (feature, label) in found.iter().zip(batch.labels()) {
            let at = *label as usize - rows.start;
            counts[at] += 1;
            sums[at].iter_mut().zip(feature).for_each(|(sum, f)| *sum += f64::from(*f));
        }
    }
    let mean = |(sum, count): (&Vec<f64>, &u32)| -> Vec<f32> {
        sum.iter().map(|s| (s / f64::from((*count).max(1))) as f32).collect()
    };
    let means = sums.iter().zip(&counts).flat_map(mean).collect();
    let values = [TensorValues::U32(counts.into()), TensorValues::F32(means)];
    let upload = Message::filling(&sent(view, dim), Default::default(), values)?;
    Ok(ClientResult { upload, metrics: Vec::new() })
}

pub struct NearestMeanServer {
    /// By head row.
    means: Vec<Vec<f32>>,
}

impl Server for NearestMeanServer {
    fn broadcast(
        &mut self,
        _round: &RoundContext,
        participants: &[Participant],
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        Ok(shared(Message::default(), participants))
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        if let Some(aggregate) = aggregate {
            self.means.truncate(round.stage.view.rows.start);
            let (counts, sums) = (aggregate.sum("counts")?, aggregate.sum("sums")?);
            let mean = |(sum, count): (&[f64], &f64)| {
                sum.iter().map(|s| (s / count.max(1.0)) as f32).collect()
            };
            self.means.extend(sums.chunks(ctx.backbone.dim()).zip(counts).map(mean));
        }
        Ok(())
    }

    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        let features = Arc::clone(features(ctx)?);
        Ok(Arc::new(Nearest { features, means: self.means.clone() }))
    }

    fn save(&self) -> Body {
        let dim = self.means.first().map_or(0, Vec::len);
        let means = NamedTensor::f32("means", [self.means.len(), dim], self.means.concat());
        Body::new(Vec::new(), vec![Section::new(Kind::Prototypes, vec![means.unwrap()])])
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        let means = saved.tensor(Kind::Prototypes, "means")?;
        let dim = means.shape()[1].max(1);
        self.means = means.as_f32()?.chunks(dim).map(<[f32]>::to_vec).collect();
        Ok(())
    }
}

struct Nearest {
    features: Arc<dyn Predictor>,
    means: Vec<Vec<f32>>,
}

impl Predictor for Nearest {
    fn features(&self, pixels: &Tensor) -> Result<Tensor, PolicyError> {
        self.features.features(pixels)
    }

    fn scores(&self, pixels: &Tensor, scope: &Scope) -> Result<Tensor, PolicyError> {
        let features = self.features(pixels)?.to_vec2::<f32>()?;
        let distance = |feature: &[f32], mean: &[f32]| -> f32 {
            feature.iter().zip(mean).map(|(f, m)| (f - m) * (f - m)).sum()
        };
        let means = &self.means[scope.rows()];
        let scores: Vec<f32> = features
            .iter()
            .flat_map(|feature| means.iter().map(|mean| -distance(feature, mean)))
            .collect();
        Ok(Tensor::from_vec(scores, (features.len(), means.len()), pixels.device())?)
    }
}
