//! C2Prompt's client: Powder's, with compensation prompts in some steps and a histogram of components and classes.

use candle_core::{Device, Tensor};

use super::messages::{histogram, opened};
use super::moments::Gaussians;
use super::state::{Compensation, Prompts};
use super::{C2Prompt, C2PromptConfig};
use crate::learning::LearningError;
use crate::methods::powder::{ClientTaskDownload, Learner, LearnerStep, TrainingExtension};
use crate::numerics::affinity::ClassHistogram;
use crate::numerics::distributions::uniform;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{ClientResult, ClientState, Failure, Member, Message, PolicyError, RunContext};
use crate::wire::{NamedTensor, Section, WireError};

/// Returns the state that a member kept of its current client task.
pub(super) fn entered(member: &Member) -> Result<Compensation, PolicyError> {
    let mut state = Compensation::of(&member.state)?;
    state.enter(member.participant.view.task);
    Ok(state)
}

impl C2Prompt {
    /// Trains client tasks; members with equal downloads and equal states form a pack.
    pub(super) fn learn(
        &self,
        members: &[Member],
        states: &[Compensation],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let download = |member: &Member| {
            ClientTaskDownload::read(&opened(member.phase, Message::clone(&member.download))?)
        };
        let downloads: Vec<ClientTaskDownload> =
            match members.iter().map(download).collect::<Result<_, _>>() {
                Ok(downloads) => downloads,
                Err(error) => return Failure::of_all(members.len(), error),
            };
        let learners = members.iter().zip(&downloads).map(Learner::of);
        let all: Vec<(Learner<'_>, &Compensation)> = learners.zip(states).collect();
        // All members of a pack run one network in every step, so clients with random decisions train alone.
        let tossed = |state: &Compensation| self.config.tosses() && state.prompts().is_some();
        let packs = all.chunk_by(|(one, state), (other, other_state)| {
            one.alike(other)
                && state.prompts().is_some() == other_state.prompts().is_some()
                && !tossed(state)
        });
        packs.flat_map(|pack| self.learn_together(pack, ctx)).collect()
    }

    fn learn_together(
        &self,
        pack: &[(Learner<'_>, &Compensation)],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let (learners, states): (Vec<Learner<'_>>, Vec<&Compensation>) =
            pack.iter().copied().unzip();
        let mut training = match CompensationTraining::new(self, &learners, &states, &ctx.device) {
            Ok(training) => training,
            Err(error) => return Failure::of_all(learners.len(), error),
        };
        let results = self.powder.learn(&learners, ctx, &mut training);
        let with_compensation = |(member, outcome): (usize, Result<ClientResult, Failure>)| {
            let mut outcome = outcome?;
            outcome.metrics.push(("compensated_steps", training.compensated[member].steps as f64));
            outcome.metrics.extend(training.cross_entropies_of(member));
            outcome.upload.extra.extend(training.matched(member).map_err(PolicyError::from)?);
            Ok(outcome)
        };
        results.into_iter().enumerate().map(with_compensation).collect()
    }

    /// Handles an exchange of any other phase, for one client.
    pub(super) fn exchange(
        &self,
        member: &Member,
        state: &mut Compensation,
        ctx: &RunContext,
    ) -> Result<ClientResult, PolicyError> {
        let Member { phase, participant, shard, key, .. } = member;
        let download = opened(*phase, Message::clone(&member.download))?;
        if C2Prompt::inner(*phase).is_some() {
            return self.powder.look(member, &download, ctx);
        }
        if C2Prompt::asks(*phase) {
            let upload = self.moments(participant, shard, ctx)?.write(self.dim)?;
            return Ok(ClientResult { upload, metrics: Vec::new() });
        }
        let (upload, mut metrics) = (Message::default(), Vec::new());
        // A client that continues its client task keeps its prompts.
        if state.prompts().is_none() && !shard.is_empty() {
            let found =
                self.compensate((participant, shard, *key), &Gaussians::read(&download)?, ctx)?;
            let epochs = &found.report.epoch_losses;
            let loss = |epoch: Option<&f64>| epoch.copied().unwrap_or(0.0);
            metrics = vec![
                ("steps", found.report.steps as f64),
                ("alignment_first", loss(epochs.first())),
                ("alignment_last", loss(epochs.last())),
            ];
            state.keep(participant.view.task, found.prompts);
        }
        Ok(ClientResult { upload, metrics })
    }
}

/// Extension of Powder's training: compensation prompts in some steps, and histograms.
struct CompensationTraining<'a> {
    config: &'a C2PromptConfig,
    /// Schedule of each member's random decisions.
    schedules: Vec<CompensationSchedule>,
    /// Compensation prompts of each member; empty if there are none.
    prompts: Vec<Tensor>,
    histograms: Vec<ClassHistogram>,
    /// Losses of each member's steps with compensation prompts.
    compensated: Vec<LossMean>,
    /// Losses of each member's steps without compensation prompts.
    plain: Vec<LossMean>,
    /// True if the current step has compensation prompts.
    compensates: bool,
}

/// Number of a member's steps of one kind, and the sum of their cross-entropies.
#[derive(Clone, Copy, Debug, Default)]
struct LossMean {
    steps: u64,
    sum: f64,
}

impl LossMean {
    fn mean(self) -> Option<f64> {
        (self.steps > 0).then(|| self.sum / self.steps as f64)
    }
}

impl<'a> CompensationTraining<'a> {
    fn new(
        method: &'a C2Prompt,
        learners: &[Learner<'_>],
        states: &[&Compensation],
        device: &Device,
    ) -> Result<CompensationTraining<'a>, PolicyError> {
        let config = &method.config;
        let kept: Vec<&Prompts> = match config.compensates() {
            true => states.iter().filter_map(|state| state.prompts()).collect(),
            false => Vec::new(),
        };
        let tensor = |prompts: &&Prompts| -> Result<Tensor, PolicyError> {
            Ok(Tensor::from_slice(&prompts.values, &prompts.shape[..], device)?)
        };
        let sums = |learner: &Learner<'_>| {
            let classes = learner.download.class_shares.len();
            let (components, blocks) =
                (config.powder.components as usize, method.powder.shape.blocks.len());
            ClassHistogram::new(components, classes, blocks, config.cpa_scores.counting())
        };
        Ok(CompensationTraining {
            config,
            schedules: learners
                .iter()
                .map(|l| CompensationSchedule::new(config.probability, l.key))
                .collect(),
            prompts: kept.iter().map(tensor).collect::<Result<_, _>>()?,
            histograms: learners.iter().filter(|_| config.cpa).map(sums).collect(),
            compensated: vec![LossMean::default(); learners.len()],
            plain: vec![LossMean::default(); learners.len()],
            compensates: false,
        })
    }

    /// Returns a member's mean cross-entropy over steps with compensation prompts, and over the others.
    ///
    /// They are reported separately: the prompts of a class reveal the class to the network.
    fn cross_entropies_of(&self, member: usize) -> impl Iterator<Item = (&'static str, f64)> {
        let named = [
            ("ce_compensated", self.compensated[member].mean()),
            ("ce_plain", self.plain[member].mean()),
        ];
        named.into_iter().filter_map(|(name, mean)| Some((name, mean?)))
    }

    /// Returns the histogram that is uploaded with a member's client task, if there is one.
    fn matched(&self, member: usize) -> Result<Option<Section>, WireError> {
        let Some(found) = self.histograms.get(member) else { return Ok(None) };
        let scores = found.entries().into_iter().map(|entry| entry as f32).collect::<Vec<f32>>();
        let components = self.config.powder.components as usize;
        let place = histogram(components, scores.len() / components.max(1));
        let tensor = NamedTensor::f32(place.name, place.shape, scores)?;
        Ok(Some(Section::new(place.kind, vec![tensor])))
    }
}

/// Random decision for every batch of a client's round: compensation prompts or none.
#[derive(Clone, Copy, Debug)]
struct CompensationSchedule {
    probability: f64,
    key: StreamKey,
}

impl CompensationSchedule {
    /// Creates the schedule of a client's round from the key of its random streams.
    fn new(probability: f64, key: StreamKey) -> CompensationSchedule {
        CompensationSchedule { probability, key: key.domain(Domain::Method) }
    }

    /// Returns true if a step of the client, counted from 0, has compensation prompts.
    fn compensated(&self, step: u64) -> bool {
        uniform(&mut self.key.step(step).rng(), 0.0, 1.0) < self.probability
    }
}

impl TrainingExtension for CompensationTraining<'_> {
    fn tokens(&mut self, step: &LearnerStep<'_>) -> Result<Option<Tensor>, LearningError> {
        // Any member decides for all: either there is only one, or the probability is 0 or 1.
        let mut tossed = self.schedules.iter().zip(&step.batch.steps);
        self.compensates = !self.prompts.is_empty()
            && tossed.any(|(schedules, step)| schedules.compensated(*step));
        if !self.compensates {
            return Ok(None);
        }
        let mut parts = Vec::new();
        for (prompts, run) in self.prompts.iter().zip(step.batch.groups.runs()) {
            if !run.is_empty() {
                let classes = step.classes[run].to_vec();
                let count = classes.len();
                let classes = Tensor::from_vec(classes, count, prompts.device())?;
                parts.push(prompts.index_select(&classes, 0)?);
            }
        }
        Ok(Some(Tensor::cat(&parts, 0)?))
    }

    fn cross_entropies(
        &mut self,
        step: &LearnerStep<'_>,
        losses: &Tensor,
    ) -> Result<(), LearningError> {
        let kind = if self.compensates { &mut self.compensated } else { &mut self.plain };
        let losses = losses.to_vec1::<f32>()?;
        for ((mean, loss), run) in kind.iter_mut().zip(losses).zip(step.batch.groups.runs()) {
            if !run.is_empty() {
                mean.steps += 1;
                mean.sum += f64::from(loss);
            }
        }
        Ok(())
    }

    fn watches(&self) -> bool {
        !self.histograms.is_empty()
    }

    fn scores(&mut self, member: usize, classes: &[u32], by_block: &[Vec<f32>]) {
        let components = self.config.powder.components as usize;
        for (sample, class) in classes.iter().enumerate() {
            self.histograms[member].add(*class as usize, &of_sample(by_block, sample, components));
        }
    }
}

/// Returns a sample's scores for all components, block by block (`(samples, components)` each).
fn of_sample(by_block: &[Vec<f32>], sample: usize, components: usize) -> Vec<f32> {
    let own = sample * components..(sample + 1) * components;
    by_block.iter().flat_map(|scores| &scores[own.clone()]).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tosses(key: StreamKey) -> Vec<bool> {
        (0..200).map(|step| CompensationSchedule::new(0.5, key).compensated(step)).collect()
    }

    #[test]
    fn scores_of_a_sample_are_its_own_in_every_block() {
        let block = |first: u32| (first..first + 6).map(|score| score as f32).collect::<Vec<f32>>();
        let blocks = [block(0), block(10)];
        assert_eq!(of_sample(&blocks, 0, 3), [0.0, 1.0, 2.0, 10.0, 11.0, 12.0]);
        assert_eq!(of_sample(&blocks, 1, 3), [3.0, 4.0, 5.0, 13.0, 14.0, 15.0]);
    }

    #[test]
    fn reported_losses_are_means_over_steps() {
        assert_eq!(LossMean { steps: 4, sum: 6.0 }.mean(), Some(1.5));
        assert_eq!(LossMean::default().mean(), None);
    }

    /// Every client, round and batch makes its own fair random decision.
    #[test]
    fn a_coin_for_every_batch_of_a_client() {
        let key = StreamKey::new(3, Domain::Shuffle).round(7).client(1);
        let mine = tosses(key);
        let heads = mine.iter().filter(|compensated| **compensated).count();
        assert!((75..125).contains(&heads), "{heads}");
        for other in [key.client(2), key.round(8), key.unit(1), key.task(1)] {
            let theirs = tosses(other);
            let agree = mine.iter().zip(&theirs).filter(|(a, b)| a == b).count();
            assert!((70..130).contains(&agree), "{agree}");
        }
        let rare = |probability| {
            (0..1000)
                .filter(|step| CompensationSchedule::new(probability, key).compensated(*step))
                .count()
        };
        assert_eq!((rare(0.0), rare(1.0)), (0, 1000));
        assert!((60..140).contains(&rare(0.1)));
    }
}
