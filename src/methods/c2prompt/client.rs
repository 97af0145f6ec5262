//! C2Prompt's client: Powder's, with compensation prompts in some steps and a histogram of what matched.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::messages::{Down, Up};
use super::state::{Compensation, Prompts};
use super::{C2Prompt, C2PromptConfig};
use crate::learning::LearningError;
use crate::methods::powder::{self, Companion, Pupil, Step};
use crate::numerics::affinity::{ClassHistogram, Counting};
use crate::numerics::distributions::uniform;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{ClientPolicy, Failure, Lab, Member, Outcome, PolicyError};
use crate::quantity::ClientId;

/// Serves every client.
pub struct C2PromptClient {
    pub(super) method: Arc<C2Prompt>,
}

impl ClientPolicy<C2Prompt> for C2PromptClient {
    fn train(
        &self,
        members: &mut [Member<'_, C2Prompt>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        members.iter_mut().for_each(|member| member.state.enter(member.seat.view.task));
        let packs = members.chunk_by_mut(together);
        let mut outcomes = Vec::new();
        for pack in packs {
            match lessons(pack) {
                Some(pupils) => {
                    let states: Vec<&Compensation> =
                        pack.iter().map(|member| &*member.state).collect();
                    outcomes.extend(self.learn(&pupils, &states, lab));
                }
                None => {
                    let each = pack.iter_mut().map(|member| self.exchange(member, lab));
                    outcomes.extend(each.map(|outcome| outcome.map_err(Failure::from)));
                }
            }
        }
        outcomes
    }

    fn largest_pack(&self, phase: usize) -> usize {
        if C2Prompt::trains(phase) { usize::MAX } else { 1 }
    }
}

/// Whether two members learn in one pack.
fn together(a: &Member<'_, C2Prompt>, b: &Member<'_, C2Prompt>) -> bool {
    let equal_state = a.state.prompts().is_some() == b.state.prompts().is_some();
    let pupils = pupil(a).zip(pupil(b));
    equal_state && pupils.is_some_and(|(one, other)| one.alike(&other))
}

fn pupil<'a>(member: &'a Member<'_, C2Prompt>) -> Option<Pupil<'a>> {
    match &*member.down {
        Down::Powder(powder::Down::Lesson(lesson)) => {
            Some(Pupil { seat: &member.seat, lesson, shard: &member.shard, key: member.key })
        }
        _ => None,
    }
}

fn lessons<'a>(pack: &'a [Member<'_, C2Prompt>]) -> Option<Vec<Pupil<'a>>> {
    pack.iter().map(pupil).collect()
}

impl C2PromptClient {
    /// Trains slots.
    fn learn(
        &self,
        pupils: &[Pupil<'_>],
        states: &[&Compensation],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        let mut company = match Company::new(&self.method, pupils, states, &lab.device) {
            Ok(company) => company,
            Err(error) => return powder::Powder::answers(pupils.len(), Err(error)),
        };
        let learnt = self.method.powder.learn(pupils, lab, &mut company);
        let learnt = powder::Powder::answers(pupils.len(), learnt);
        let outcome = |(member, learnt)| -> Result<Outcome<Up>, Failure> {
            let Outcome { up, mut metrics } = powder::Powder::outcome(learnt?);
            metrics.push(("compensated_steps", company.compensated[member] as f64));
            let histogram = company.histograms.get(member).map(entries);
            Ok(Outcome { up: Up::Powder(up, histogram), metrics })
        };
        learnt.into_iter().enumerate().map(outcome).collect()
    }

    /// Everything else, one client at a time.
    fn exchange(
        &self,
        member: &mut Member<'_, C2Prompt>,
        lab: &Lab,
    ) -> Result<Outcome<Up>, PolicyError> {
        let (method, seat) = (&self.method, &member.seat);
        let mut metrics = Vec::new();
        let up = match &*member.down {
            Down::Powder(powder::Down::Looks(looks)) => {
                let found = method.powder.attention(seat, looks, &member.shard, lab)?;
                Up::Powder(powder::Up::Attention(found), None)
            }
            Down::Powder(powder::Down::Lesson(_)) => {
                return Err(PolicyError::Unsupported("a lesson is for a pack".to_owned()));
            }
            Down::Ask => Up::Moments(method.moments(seat, &member.shard, lab)?),
            Down::Gaussians(gaussians) => {
                // Who goes on with a slot keeps its prompts.
                if member.state.prompts().is_none() && !member.shard.is_empty() {
                    let place = (seat, &member.shard, member.key);
                    let found = method.compensate(place, gaussians, lab)?;
                    let epochs = &found.report.epoch_losses;
                    let loss = |epoch: Option<&f64>| epoch.copied().unwrap_or(0.0);
                    metrics = vec![
                        ("steps", found.report.steps as f64),
                        ("alignment_first", loss(epochs.first())),
                        ("alignment_last", loss(epochs.last())),
                    ];
                    member.state.keep(seat.view.task, found.prompts);
                }
                Up::Done
            }
        };
        Ok(Outcome { up, metrics })
    }
}

/// What goes along with training: compensation prompts in some steps, and histograms.
struct Company<'a> {
    config: &'a C2PromptConfig,
    /// Where steps are drawn: for all clients of a round alike, so that a pack is one network.
    key: StreamKey,
    /// Of each member; empty where there are none.
    prompts: Vec<Tensor>,
    histograms: Vec<ClassHistogram>,
    /// Steps with compensation prompts, of each member.
    compensated: Vec<u64>,
}

impl<'a> Company<'a> {
    fn new(
        method: &'a C2Prompt,
        pupils: &[Pupil<'_>],
        states: &[&Compensation],
        device: &Device,
    ) -> Result<Company<'a>, PolicyError> {
        let config = &method.config;
        let key = pupils.first().map_or(StreamKey::new(0, Domain::Method), |pupil| pupil.key);
        let kept: Vec<&Prompts> = match config.compensates() {
            true => states.iter().filter_map(|state| state.prompts()).collect(),
            false => Vec::new(),
        };
        let tensor = |prompts: &&Prompts| -> Result<Tensor, PolicyError> {
            Ok(Tensor::from_slice(&prompts.values, &prompts.shape[..], device)?)
        };
        let sums = |pupil: &Pupil<'_>| {
            let classes = pupil.lesson.relatives.len();
            let (components, blocks) =
                (config.powder.components as usize, method.powder.shape.blocks.len());
            ClassHistogram::new(components, classes, blocks, Counting::default())
        };
        Ok(Company {
            config,
            key: key.domain(Domain::Method).task(0).unit(0).client(EVERYBODY.0),
            prompts: kept.iter().map(tensor).collect::<Result<_, _>>()?,
            histograms: pupils.iter().filter(|_| config.cpa).map(sums).collect(),
            compensated: vec![0; pupils.len()],
        })
    }
}

/// A histogram as it travels.
fn entries(histogram: &ClassHistogram) -> Vec<f32> {
    histogram.entries().into_iter().map(|entry| entry as f32).collect()
}

/// Nobody draws at this client.
const EVERYBODY: ClientId = ClientId(u32::MAX - 1);

impl Companion for Company<'_> {
    fn tokens(&mut self, step: &Step<'_>) -> Result<Option<Tensor>, LearningError> {
        let number = step.batch.steps.iter().copied().max().unwrap_or(0);
        let drawn = uniform(&mut self.key.step(number).rng(), 0.0, 1.0);
        if self.prompts.is_empty() || drawn >= self.config.probability {
            return Ok(None);
        }
        let mut parts = Vec::new();
        let members = self.prompts.iter().zip(&mut self.compensated);
        for ((prompts, steps), run) in members.zip(step.batch.groups.runs()) {
            if !run.is_empty() {
                *steps += 1;
                let classes = step.classes[run].to_vec();
                let count = classes.len();
                let classes = Tensor::from_vec(classes, count, prompts.device())?;
                parts.push(prompts.index_select(&classes, 0)?);
            }
        }
        Ok(Some(Tensor::cat(&parts, 0)?))
    }

    fn watches(&self) -> bool {
        !self.histograms.is_empty()
    }

    fn scores(&mut self, member: usize, classes: &[u32], by_block: &[Vec<f32>]) {
        let components = self.config.powder.components as usize;
        for (sample, class) in classes.iter().enumerate() {
            let own = sample * components..(sample + 1) * components;
            let scores: Vec<f32> =
                by_block.iter().flat_map(|scores| scores[own.clone()].iter().copied()).collect();
            self.histograms[member].add(*class as usize, &scores);
        }
    }
}
