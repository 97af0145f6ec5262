//! HePCo's server step: a repair of the averaged pools and head, without data.
//!
//! Prompts are used as `sum_m cos(q, k_m) P_m`, so a mean of pools does not produce the mean of the clients' prompts.
//!
//! ```text
//! generators   one for the classes of the task, taught by the clients; from the second task on one for
//!              earlier classes, taught by the server as it was at the end of the last task
//! prompts      the server's pools are distilled on pseudo-queries from clients and the previous server
//! head         is trained to predict the labels for which pseudo-queries were generated
//! ```
//! A pseudo-query stands for the frozen transformer's query of an image and is the input of the head at the same time;
//! that is the method. The "epochs" of the paper are single mini-batch steps. All of it runs on the CPU in `f32`,
//! wherever clients train.

mod conditions;
mod disagreement;
mod divergence;
mod generation;
mod generator;
#[cfg(test)]
mod golden;
mod head_distillation;
mod models;
mod prompt_distillation;
mod pseudo_queries;
mod settings;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

use std::sync::Arc;

pub use conditions::Conditions;
pub use divergence::DivergenceTerms;
pub use generation::{GenerationLoss, Steps, Value};
pub use generator::{Generator, GeneratorShape};
pub use models::omega;
pub use settings::{ConsolidationSettings, KlForm, MseGradient, OmegaForm, Weighting};

use self::generation::{GeneratorObjective, train_generator};
use self::head_distillation::HeadStudent;
use self::models::{ConsolidationTeacher, Model};
use self::prompt_distillation::{DistillationBatch, Student};
use self::pseudo_queries::PseudoQueries;
use crate::data::TaskView;
use crate::learning::{LearningError, with_head_rows};
use crate::methods::fedavg_prompt::{PoolShape, keys_name, prompts_name};
use crate::model::{LinearHead, Parameter, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::Metrics;

/// Trained model of a client and its label counts.
#[derive(Clone, Debug)]
pub struct Local {
    /// The model's pools and head, with all head rows.
    pub parameters: Arc<ParameterSet>,
    /// The client's samples by head row.
    pub counts: Vec<u32>,
}

/// The server at the end of the last task.
#[derive(Clone, Debug)]
pub struct Previous {
    /// Pools and head; never changed.
    pub parameters: ParameterSet,
    /// Samples reported in all rounds so far, by head row.
    pub counts: Vec<u64>,
}

/// Generators of a round's pseudo-queries.
#[derive(Debug)]
pub struct Generators {
    /// Generator for classes of the task.
    pub new: Generator,
    /// Terms of its objective in the last step.
    pub new_value: Value,
    /// Generator for earlier classes, and its terms.
    pub old: Option<(Generator, Value)>,
}

/// Result of a distillation: a part of the server's parameters.
#[derive(Clone, Debug)]
pub struct Distilled {
    /// Trained parameters.
    pub parameters: ParameterSet,
    /// Loss of the last step, computed before its update.
    pub loss: f64,
}

/// Consolidation of one round: server, teachers, and the conditions of generators.
pub struct Consolidation<'a> {
    config: &'a ConsolidationSettings,
    shape: PoolShape,
    key: StreamKey,
    /// Index of the task, from 0.
    task: u32,
    classes: usize,
    averaged: &'a ParameterSet,
    server: Model,
    clients: Vec<ConsolidationTeacher>,
    new: Conditions,
    old: Option<Old>,
}

/// Source of the replay of earlier classes.
struct Old {
    teachers: Vec<ConsolidationTeacher>,
    conditions: Conditions,
    /// Pseudo-queries of earlier classes per distillation step.
    batch: usize,
}

/// Purpose of a random stream: the server's streams of a round, by `StreamKey::unit`.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Draws {
    NewGenerator = 1,
    OldGenerator = 2,
    NewForPrompts = 3,
    OldForPrompts = 4,
    NewForHead = 5,
    OldForHead = 6,
}

impl<'a> Consolidation<'a> {
    /// Prepares the consolidation of the mean of clients' parameters. `None` if no client reported a sample.
    ///
    /// # Errors
    /// When parameters do not fit the shape.
    pub fn new(
        (config, shape): (&'a ConsolidationSettings, PoolShape),
        view: &TaskView,
        averaged: &'a ParameterSet,
        clients: &[Local],
        previous: Option<&Previous>,
        key: StreamKey,
    ) -> Result<Option<Consolidation<'a>>, LearningError> {
        // Clients without samples have no weight as teachers.
        let clients: Vec<&Local> =
            clients.iter().filter(|c| c.counts.iter().any(|n| *n > 0)).collect();
        let counts: Vec<Vec<u32>> = clients.iter().map(|client| client.counts.clone()).collect();
        let classes = counts.first().map_or(0, Vec::len);
        let of_row = |row| counts.iter().map(|counts| u64::from(counts[row])).sum();
        let totals: Vec<u64> = (0..classes).map(of_row).collect();
        let Some(new) = Conditions::new(&totals, config.noise as usize) else { return Ok(None) };
        let weights = match config.weighting {
            Weighting::Omega => omega(&counts, config.omega),
            Weighting::Plain => vec![vec![1.0; classes]; clients.len()],
        };
        let seen = view.seen();
        let teacher = |(client, weights): (&&Local, Vec<f32>)| -> Result<ConsolidationTeacher, LearningError> {
            Ok(ConsolidationTeacher { model: Model::new(&client.parameters, &shape, seen)?, weights })
        };
        let batch = config.replayed();
        let old = previous.filter(|_| batch > 0).map(|previous| -> Result<_, LearningError> {
            let model = Model::new(&previous.parameters, &shape, seen)?;
            let teachers = vec![ConsolidationTeacher { model, weights: vec![1.0; classes] }];
            let conditions = Conditions::new(&previous.counts, config.noise as usize);
            Ok(conditions.map(|conditions| Old { teachers, conditions, batch }))
        });
        Ok(Some(Consolidation {
            config,
            shape,
            key,
            task: u32::from(view.task.0),
            classes,
            averaged,
            server: Model::new(averaged, &shape, seen)?,
            clients: clients.iter().zip(weights).map(teacher).collect::<Result<_, _>>()?,
            new,
            old: old.transpose()?.flatten(),
        }))
    }

    /// Runs the whole consolidation. Returns the trained parameters, and metrics for the journal.
    ///
    /// # Errors
    /// When a loss is not finite.
    pub fn run(&self) -> Result<(ParameterSet, Metrics), LearningError> {
        let generators = self.generators()?;
        let Value { heads, distance } = generators.new_value;
        let mut metrics = vec![
            ("generator_classification", heads.classification),
            ("generator_divergence", heads.divergence),
            ("generator_distance", distance),
        ];
        metrics.extend(heads.accuracy().map(|share| ("generator_accuracy", share)));
        if let Some((_, Value { heads, distance })) = generators.old {
            metrics.push(("old_generator_classification", heads.classification));
            metrics.push(("old_generator_divergence", heads.divergence));
            metrics.push(("old_generator_distance", distance));
            metrics.extend(heads.accuracy().map(|share| ("old_generator_accuracy", share)));
        }
        let mut moved = ParameterSet::new();
        if self.config.prompt_steps > 0 {
            let prompts = self.prompts(&generators)?;
            metrics.push(("prompt_distillation_loss", prompts.loss));
            moved = moved.merge(&prompts.parameters);
        }
        if self.config.head_steps > 0 {
            let head = self.head(&generators)?;
            metrics.push(("head_distillation_loss", head.loss));
            moved = moved.merge(&head.parameters);
        }
        Ok((moved, metrics))
    }

    /// Trains the generators of pseudo-queries, which live for this round only.
    ///
    /// # Errors
    /// When a loss is not finite.
    pub fn generators(&self) -> Result<Generators, LearningError> {
        let shape = GeneratorShape {
            classes: self.classes,
            embedding: self.config.embedding as usize,
            noise: self.config.noise as usize,
            hidden: self.config.hidden.map(|width| width as usize),
            dim: self.shape.dim,
        };
        let train = |teachers, conditions, count, draws| {
            let objective =
                GeneratorObjective::new(&self.server, teachers, self.config.generation_loss())?;
            let (batch, rate) = (self.config.server_batch as usize, self.config.server_lr);
            let steps = Steps { count, batch, rate };
            train_generator(&shape, &objective, conditions, steps, self.key.unit(draws as u32))
        };
        let count = self.config.generator_steps;
        let (new, new_value) = train(&self.clients, &self.new, count, Draws::NewGenerator)?;
        let Some(old) = &self.old else {
            return Ok(Generators { new, new_value, old: None });
        };
        let count = count + self.config.old_steps_per_task * self.task;
        let past = train(&old.teachers, &old.conditions, count, Draws::OldGenerator)?;
        Ok(Generators { new, new_value, old: Some(past) })
    }

    /// Distills keys and prompts from the clients and the previous server.
    ///
    /// # Errors
    /// When a loss is not finite, or a tensor operation fails.
    pub fn prompts(&self, generators: &Generators) -> Result<Distilled, LearningError> {
        let mut student = Student::new(&self.server)?;
        let mut optimizer = student.optimizer(self.config.server_lr);
        let mut loss = 0.0;
        for step in 0..self.config.prompt_steps {
            let new = self.queries_of_new(generators, Draws::NewForPrompts, step)?;
            let old = self.queries_of_old(generators, Draws::OldForPrompts, step)?;
            let batches = self.batches(new, old)?;
            loss = student.step(&batches, &mut optimizer, self.config.server_lr)?;
            finite(loss, "loss of the prompt distillation", step)?;
        }
        let mut parameters = ParameterSet::new();
        let PoolShape { pool, length, dim, .. } = self.shape;
        for (block, (keys, prompts)) in student.keys.iter().zip(&student.prompts).enumerate() {
            parameters.insert(keys_name(block), Parameter::of(keys)?);
            let prompts = prompts.reshape((pool, length, dim))?;
            parameters.insert(prompts_name(block), Parameter::of(&prompts)?);
        }
        Ok(Distilled { parameters, loss })
    }

    /// Trains the head's rows of classes seen on pseudo-queries.
    ///
    /// # Errors
    /// When a loss is not finite, or a tensor operation fails.
    pub fn head(&self, generators: &Generators) -> Result<Distilled, LearningError> {
        let mut student = HeadStudent::new(&self.server)?;
        let mut optimizer = student.optimizer(self.config.server_lr);
        let mut loss = 0.0;
        for step in 0..self.config.head_steps {
            let new = self.queries_of_new(generators, Draws::NewForHead, step)?;
            let old = self.queries_of_old(generators, Draws::OldForHead, step)?;
            let all = new.and(old)?;
            let batch = (&all.queries, all.labels.as_slice());
            loss = student.step(batch, &mut optimizer, self.config.server_lr)?;
            finite(loss, "loss of the head distillation", step)?;
        }
        let mut rows = ParameterSet::new();
        rows.insert(LinearHead::WEIGHT, Parameter::of(&student.weight)?);
        rows.insert(LinearHead::BIAS, Parameter::of(&student.bias)?);
        let head = self.averaged.filter(|name| rows.get(name).is_some());
        Ok(Distilled { parameters: with_head_rows(&head, &rows, 0)?, loss })
    }

    fn queries_of_new(
        &self,
        generators: &Generators,
        draws: Draws,
        step: u32,
    ) -> Result<PseudoQueries, LearningError> {
        let key = self.key.unit(draws as u32).step(u64::from(step));
        PseudoQueries::of(&generators.new, &self.new, self.config.server_batch as usize, key)
    }

    fn queries_of_old(
        &self,
        generators: &Generators,
        draws: Draws,
        step: u32,
    ) -> Result<Option<PseudoQueries>, LearningError> {
        let (Some((generator, _)), Some(old)) = (&generators.old, &self.old) else {
            return Ok(None);
        };
        let key = self.key.unit(draws as u32).step(u64::from(step));
        PseudoQueries::of(generator, &old.conditions, old.batch, key).map(Some)
    }

    /// Returns the batches of a step: new classes taught by the clients, old ones by the previous server.
    ///
    /// With `Weighting::Plain` clients also teach old classes, as in the paper's sums.
    fn batches(
        &self,
        new: PseudoQueries,
        old: Option<PseudoQueries>,
    ) -> Result<Vec<DistillationBatch<'_>>, LearningError> {
        let past = match (&self.old, &old) {
            (Some(known), Some(asked)) => Some(asked.clone().taught_by(&known.teachers)),
            _ => None,
        };
        let of_clients = match self.config.weighting {
            Weighting::Omega => new,
            Weighting::Plain => new.and(old)?,
        };
        Ok([of_clients.taught_by(&self.clients)].into_iter().chain(past).collect())
    }
}

fn finite(loss: f64, what: &str, step: u32) -> Result<(), LearningError> {
    match loss.is_finite() {
        true => Ok(()),
        false => Err(LearningError::NonFinite { what: what.into(), step: u64::from(step) }),
    }
}
