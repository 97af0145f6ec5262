//! Work of a Powder client on a client task, alone or in a pack.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::Powder;
use super::distillation::{NotTrue, batch_shares};
use super::messages::{ClientTaskDownload, SimilarityKeys, trained_client_task};
use super::prompts::{ClientTaskPrompts, is_own};
use super::similarity::Attention;
use crate::data::{Batch, Loader, Shard};
use crate::learning::feature_inversion::UpdateMatching;
use crate::learning::prompting::ComponentPart;
use crate::learning::{
    Classifier, LearningError, MemberData, PackBatch, QueryView, TrainingReport, train_pack,
};
use crate::model::ops;
use crate::model::{FrozenPart, ParameterSet, prompts};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    ClientResult, Disclosures, Failure, Member, Message, Participant, PolicyError, RunContext,
    TrainedClass,
};

/// Client of a pack, with its download.
#[derive(Clone, Copy, Debug)]
pub struct Learner<'a> {
    /// Participant of the round: its client, role and task view.
    pub participant: &'a Participant,
    /// Download of its client task.
    pub download: &'a ClientTaskDownload,
    /// Samples of the client.
    pub shard: &'a Shard,
    /// Stream key of the client's draws.
    pub key: StreamKey,
}

impl<'a> Learner<'a> {
    /// Creates a learner from a member of a pack and its decoded download.
    pub fn of((member, download): (&'a Member, &'a ClientTaskDownload)) -> Learner<'a> {
        Learner {
            participant: &member.participant,
            download,
            shard: &member.shard,
            key: member.key,
        }
    }

    /// Returns true if two client tasks can train in one pack: equal shapes, and both or neither with a teacher.
    pub fn alike(&self, other: &Learner<'_>) -> bool {
        let of = |learner: &Learner<'_>| {
            let download = learner.download;
            (download.is_mixed(), download.distills, download.class_shares.len())
        };
        of(self) == of(other)
    }
}

/// Samples of a step, as a [`TrainingExtension`] sees them.
pub struct LearnerStep<'a> {
    /// Batch of all members.
    pub batch: &'a PackBatch,
    /// Class of each sample, counted among those of its client task.
    pub classes: &'a [u32],
}

/// Extension of training that adds tokens to the input of a step, or reads scores of components.
///
/// Its tokens are not trained by the step.
pub trait TrainingExtension {
    /// Returns the tokens `(b, n, d)` that follow the patches of a step's samples; `None` for a plain step.
    ///
    /// # Errors
    /// When a tensor operation fails.
    fn tokens(&mut self, step: &LearnerStep<'_>) -> Result<Option<Tensor>, LearningError> {
        let _ = step;
        Ok(None)
    }

    /// Receives the cross-entropy of each member in the current step, `(members)`.
    ///
    /// It is the step for which [`tokens`](TrainingExtension::tokens) was called.
    ///
    /// # Errors
    /// When a tensor operation fails.
    fn cross_entropies(
        &mut self,
        step: &LearnerStep<'_>,
        losses: &Tensor,
    ) -> Result<(), LearningError> {
        let _ = (step, losses);
        Ok(())
    }

    /// Returns true if the extension needs [`scores`](TrainingExtension::scores).
    fn watches(&self) -> bool {
        false
    }

    /// Receives the scores of a member's own components for its samples.
    ///
    /// Every block has `(samples, components)` scores, row-major.
    fn scores(&mut self, member: usize, classes: &[u32], by_block: &[Vec<f32>]) {
        let _ = (member, classes, by_block);
    }
}

/// Extension that does nothing.
impl TrainingExtension for () {}

impl Powder {
    /// Trains the client tasks of [alike](Learner::alike) learners as one pack; each may fail alone.
    pub fn learn(
        &self,
        learners: &[Learner<'_>],
        ctx: &RunContext,
        companion: &mut dyn TrainingExtension,
    ) -> Vec<Result<ClientResult, Failure>> {
        match self.train_client_tasks(learners, ctx, companion) {
            Ok(client_tasks) => client_tasks
                .into_iter()
                .map(|client_task| client_task.map_err(Failure::from))
                .collect(),
            Err(error) => Failure::of_all(learners.len(), error),
        }
    }

    fn train_client_tasks(
        &self,
        learners: &[Learner<'_>],
        ctx: &RunContext,
        companion: &mut dyn TrainingExtension,
    ) -> Result<Vec<Result<ClientResult, PolicyError>>, PolicyError> {
        let Some(first) = learners.first() else { return Ok(Vec::new()) };
        let classes = first.download.class_shares.len();
        let received: Vec<ParameterSet> =
            learners.iter().map(|learner| learner.download.received(&self.shape)).collect();
        let model = |trains| {
            let prompting = Arc::new(self.prompting(trains));
            Classifier::pack_with(&ctx.backbone, received.clone(), 0..classes, Some(prompting))
        };
        let student = model(true)?;
        let distils = first.download.distills && self.config.kd_weight > 0.0 && classes > 2;
        let teacher = distils.then(|| model(false)).transpose()?;
        let loader = |learner: &Learner<'_>| {
            let loader =
                ctx.with_frozen_features(ctx.train_loader(learner.shard), student.frozen_part())?;
            ctx.with_queries(loader, self.config.query)
        };
        let loaders = learners.iter().map(loader).collect::<Result<Vec<Loader>, _>>()?;
        let courses: Vec<MemberData<'_>> = loaders
            .iter()
            .zip(learners)
            .map(|(loader, learner)| MemberData { loader, key: learner.key })
            .collect();
        let downloads =
            ClientTaskDownloads { powder: self, learners, ctx, student: &student, teacher };
        let plan = &ctx.training;
        let mut optimizer = plan.optimizer.clone().over_pack(student.vars(), student.members());
        let reports = train_pack(plan, &mut optimizer, student.variables(), &courses, |batch| {
            downloads.losses(batch, &loaders[0], companion)
        })?;
        let layout = trained_client_task(&self.shape, classes);
        let outcome = |(all, report): (ParameterSet, Result<_, LearningError>)| {
            let metrics = TrainingReport::metrics(&report?);
            Ok(ClientResult { upload: Message::filling(&layout, all.filter(is_own), [])?, metrics })
        };
        Ok(student.pack_parameters()?.into_iter().zip(reports).map(outcome).collect())
    }

    /// Returns the change of a client task's parameters, with its network, for the inversion of updates.
    ///
    /// The loss of the network is the cross-entropy over the classes of the client task. `None` if nothing can be
    /// matched.
    ///
    /// # Errors
    /// When download and upload do not fit each other.
    pub fn moved_client_task(
        &self,
        member: &Member,
        download: &ClientTaskDownload,
        upload: &Message,
        ctx: &RunContext,
    ) -> Result<Option<Disclosures>, PolicyError> {
        let (received, classes) = (download.received(&self.shape), download.class_shares.len());
        let mut sent = received.clone();
        for (name, parameter) in upload.parameters.iter() {
            sent.insert(Arc::clone(name), parameter.clone());
        }
        let network = |set: ParameterSet| {
            let prompting = Arc::new(self.prompting(true));
            Classifier::pack_with(&ctx.backbone, vec![set], 0..classes, Some(prompting))
        };
        let matching = UpdateMatching::new(network(received)?, &network(sent)?, &|_| 1.0)?;
        let first = member.participant.view.rows.start;
        let trained = |(row, samples): (u32, u32)| {
            let row = row as usize;
            let label = row.checked_sub(first).filter(|label| *label < classes)? as u32;
            Some(TrainedClass { row, label, samples: samples.into() })
        };
        let counts = ctx.shard_label_counts(&member.shard);
        let classes: Vec<TrainedClass> = counts.into_iter().filter_map(trained).collect();
        let matching = matching.map(Box::new).filter(|_| !classes.is_empty());
        Ok(matching.map(|matching| Disclosures::Update { matching, classes }))
    }

    /// Returns the prompts of client tasks; their parameters train if `trains` is true and tokens exist.
    pub(super) fn prompting(&self, trains: bool) -> ClientTaskPrompts {
        let blocks = self.shape.blocks.clone();
        ClientTaskPrompts { blocks, trains: trains && self.shape.length > 0, form: self.shape.form }
    }

    /// Computes the attention of a member's samples over the components in its download, as its upload.
    ///
    /// # Errors
    /// When samples cannot be read.
    pub fn look(
        &self,
        member: &Member,
        download: &Message,
        ctx: &RunContext,
    ) -> Result<ClientResult, PolicyError> {
        let (rows, looks) = (&member.participant.view.rows, SimilarityKeys::read(download)?);
        let found = self.attention(rows, &member.shard, &looks, ctx)?;
        Ok(ClientResult { upload: found.write(&self.shape)?, metrics: Vec::new() })
    }

    /// Returns the attention of a shard's samples to the components in `looks`, by class.
    ///
    /// All labels of the samples lie in `rows`.
    pub(super) fn attention(
        &self,
        rows: &Range<usize>,
        shard: &Shard,
        looks: &SimilarityKeys,
        ctx: &RunContext,
    ) -> Result<Attention, PolicyError> {
        let (classes, shape) = (rows.len(), &self.shape);
        let width = shape.scores(looks.client_tasks.len());
        let (mut sums, mut counts) = (vec![0f64; classes * width], vec![0u32; classes]);
        let loader = ctx.with_queries(ctx.statistics_loader(shard), QueryView::Clean)?;
        for batch in loader.in_order(ctx.evaluation_batch) {
            let batch = batch?;
            let queries = queries_of(&batch, ctx)?;
            let mut first = 0;
            // There are no keys as long as no client task may be used by others.
            for block in shape.blocks.clone().filter(|_| !looks.client_tasks.is_empty()) {
                let part = |part: ComponentPart| -> Result<Tensor, PolicyError> {
                    let name = part.name(block);
                    let found = looks.parameters.get(&name).ok_or_else(|| {
                        PolicyError::Unsupported(format!("`{name}` is not among what was sent"))
                    })?;
                    Ok(found.tensor(&ctx.device)?)
                };
                let (keys, attention) =
                    (part(ComponentPart::Key)?, part(ComponentPart::Attention)?);
                let scores = prompts::attended_cosines(&queries, &keys, &attention)?;
                for (row, scores) in batch.labels().iter().zip(scores.to_vec2::<f32>()?) {
                    let class = *row as usize - rows.start;
                    let to = &mut sums[class * width + first..];
                    to.iter_mut().zip(&scores).for_each(|(sum, v)| *sum += f64::from(*v));
                }
                first += looks.client_tasks.len() * shape.components;
            }
            batch.labels().iter().for_each(|row| counts[*row as usize - rows.start] += 1);
        }
        let mean =
            |(at, sum): (usize, f64)| (sum / f64::from(counts[at / width.max(1)].max(1))) as f32;
        let means = sums.into_iter().enumerate().map(mean).collect();
        Ok(Attention { over: looks.client_tasks.clone(), means, counts })
    }
}

/// Returns the queries of a batch: those that it carries, or else the frozen backbone's features of its pixels.
fn queries_of(batch: &Batch, ctx: &RunContext) -> Result<Tensor, PolicyError> {
    match batch.queries(&ctx.device)? {
        Some(queries) => Ok(queries),
        None => Ok(ctx.backbone.frozen(&ctx.pixels(batch)?, FrozenPart::Whole)?),
    }
}

/// Pack in training: learners with their downloads, student and teacher.
struct ClientTaskDownloads<'a> {
    powder: &'a Powder,
    learners: &'a [Learner<'a>],
    ctx: &'a RunContext,
    student: &'a Classifier,
    teacher: Option<Classifier>,
}

impl ClientTaskDownloads<'_> {
    /// Returns the loss of each member in a step, `(members)`.
    fn losses(
        &self,
        batch: &PackBatch,
        loader: &Loader,
        companion: &mut dyn TrainingExtension,
    ) -> Result<Tensor, LearningError> {
        let (device, groups) = (&self.ctx.device, &batch.groups);
        let classes = self.classes(batch);
        let step = LearnerStep { batch, classes: &classes };
        let input = match companion.tokens(&step)? {
            None => None,
            Some(tokens) => Some((pixels_of(&batch.batch, loader, device)?, tokens)),
        };
        let logits = |model: &Classifier| -> Result<Tensor, LearningError> {
            let features = match &input {
                None => model.pack_features(batch, device)?,
                Some((pixels, tokens)) => model.pack_features_with(batch, pixels, tokens)?,
            };
            Ok(model.head().pack_logits(&features, groups)?)
        };
        let now = logits(self.student)?;
        let width = self.learners[0].download.class_shares.len();
        let mut losses = ops::grouped_cross_entropy(&now, &classes, 0..width, groups)?;
        companion.cross_entropies(&step, &losses)?;
        if let Some(teacher) = &self.teacher {
            let targets = logits(teacher)?.flatten_all()?.to_vec1::<f32>()?;
            losses = (losses + self.distillation(&now, &targets, &step)?)?;
        }
        if companion.watches() {
            self.show(&step, companion)?;
        }
        Ok(losses)
    }

    /// Returns the class of each sample, counted among those of its client task.
    fn classes(&self, PackBatch { batch, groups, .. }: &PackBatch) -> Vec<u32> {
        let labels = batch.labels();
        let of_member = |(learner, run): (&Learner<'_>, Range<usize>)| {
            let first = learner.participant.view.rows.start as u32;
            labels[run].iter().map(move |row| row.wrapping_sub(first)).collect::<Vec<u32>>()
        };
        self.learners.iter().zip(groups.runs()).flat_map(of_member).collect()
    }

    fn distillation(
        &self,
        logits: &Tensor,
        teacher: &[f32],
        step: &LearnerStep<'_>,
    ) -> Result<Tensor, LearningError> {
        let config = &self.powder.config;
        let width = logits.dim(1)?;
        let mut losses = Vec::with_capacity(self.learners.len());
        for (learner, run) in self.learners.iter().zip(step.batch.groups.runs()) {
            if run.is_empty() {
                losses.push(Tensor::zeros((), logits.dtype(), logits.device())?);
                continue;
            }
            let labels = &step.classes[run.clone()];
            let class_shares = labels.iter().map(|class| {
                learner.download.class_shares.get(*class as usize).copied().unwrap_or(1.0)
            });
            let not_true = NotTrue {
                teacher: &teacher[run.start * width..run.end * width],
                labels,
                shares: &batch_shares(class_shares),
                temperature: config.kd_temperature,
            };
            let own = logits.narrow(0, run.start, run.len())?.contiguous()?;
            losses.push((not_true.loss(&own)? * config.kd_weight)?);
        }
        Ok(Tensor::stack(&losses, 0)?)
    }

    /// Passes the current scores of each member's own components to an extension.
    fn show(
        &self,
        step: &LearnerStep<'_>,
        companion: &mut dyn TrainingExtension,
    ) -> Result<(), LearningError> {
        let (batch, variables) = (&step.batch.batch, self.student.variables());
        let queries =
            queries_of(batch, self.ctx).map_err(|error| LearningError::Shape(error.to_string()))?;
        let alone = self.learners.len() == 1;
        for (member, run) in step.batch.groups.runs().enumerate() {
            if run.is_empty() {
                continue;
            }
            let own = queries.narrow(0, run.start, run.len())?;
            let mut by_block = Vec::new();
            for block in self.powder.shape.blocks.clone() {
                let part = |part: ComponentPart| -> Result<Option<Tensor>, LearningError> {
                    let name = part.name(block);
                    let found = variables.iter().find(|(other, _)| **other == *name);
                    let now = found.map(|(_, variable)| match alone {
                        true => Ok(variable.as_tensor().detach()),
                        false => variable.as_tensor().detach().get(member),
                    });
                    Ok(now.transpose()?)
                };
                let (Some(keys), Some(attention)) =
                    (part(ComponentPart::Key)?, part(ComponentPart::Attention)?)
                else {
                    continue;
                };
                let scores = prompts::attended_cosines(&own, &keys, &attention)?;
                by_block.push(scores.flatten_all()?.to_vec1::<f32>()?);
            }
            companion.scores(member, &step.classes[run], &by_block);
        }
        Ok(())
    }
}

/// Returns the pixels of a batch, loading them if it carries outputs of frozen blocks instead.
fn pixels_of(batch: &Batch, loader: &Loader, device: &Device) -> Result<Tensor, LearningError> {
    match batch.inputs() {
        Batch::Images { .. } => Ok(batch.pixels(device)?),
        _ => {
            let stacked = loader.split().pixels(loader.transform(), batch.samples())?;
            Ok(Tensor::from_vec(stacked.pixels, stacked.shape.as_slice(), device)?)
        }
    }
}
