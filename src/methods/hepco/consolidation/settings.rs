//! Settings of the server's step: every default is the paper's or its release's, as noted.

use clap::ValueEnum;

use super::GenerationLoss;
use crate::methods::fedavg_prompt::PoolShape;
use crate::numerics::share::share_of;
use crate::scenario::reader::{Choice, Keys};

/// Upper bound of numbers of steps and of widths at the server.
const LARGEST: f64 = 100_000.0;

/// Weight of a client in the losses of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Weighting {
    /// Fraction of the round's samples of the label that the client has.
    ///
    /// `omega_i(y) = n_i(y) / N`: clients do not count for old classes.
    Omega,
    /// Plain sums over clients, as printed in the paper.
    Plain,
}

/// Order of the arguments in the divergence of heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum KlForm {
    /// KL(client || server), as in the release.
    ClientServer,
    /// KL(server || client), as in the paper.
    ServerClient,
}

/// Effect of the distance of weighted prompts on a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum MseGradient {
    /// None: its value is only reported.
    ///
    /// As released: the prompt module detaches the query, and weighted prompts depend on a pseudo-query through it
    /// alone.
    Detached,
    /// Gradient of its mean, which leads the generator to where server and teachers differ.
    ///
    /// The mean is over queries and numbers of a prompt: the paper's mean squared error.
    Mean,
    /// Gradient of its sum, which outweighs the labels.
    ///
    /// It has no bound, and generated queries lose their labels; for study.
    Sum,
}

/// Divisor of label counts in the weights of `weighting = "omega"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum OmegaForm {
    /// Samples of the round, plus one for every class of the data set without samples.
    Release,
    /// Samples of the round, so that all weights sum to 1.
    Normalized,
}

/// Settings of the repair of averaged pools and heads.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct ConsolidationSettings {
    /// Weight of a client in the losses of the server.
    #[key(default = Weighting::Omega, source = "public code; the paper writes plain sums")]
    pub weighting: Weighting,
    /// Divisor of label counts in the weights of `weighting = "omega"`.
    #[key(default = OmegaForm::Release, source = "public code")]
    pub omega: OmegaForm,
    /// Order of the arguments in the divergence of heads.
    #[key(default = KlForm::ClientServer, source = "public code; the paper writes the other")]
    pub kl: KlForm,
    /// Weight of the divergence of heads in the loss of a generator; 0: ablation without it.
    #[key(default = 1.0, source = "paper", at_least = 0.0)]
    pub lambda_kl: f64,
    /// Weight of the distance of weighted prompts in the loss of a generator; 0: ablation without it.
    #[key(default = 0.1, source = "paper", at_least = 0.0)]
    pub lambda_mse: f64,
    /// Effect of the distance of weighted prompts on a generator.
    #[key(default = MseGradient::Detached, source = "public code; the paper writes a mean")]
    pub mse_gradient: MseGradient,
    /// Old pseudo-queries per new one, rounded down per batch; 0: no distillation from the previous server.
    #[key(default = 0.5, source = "paper", at_least = 0.0, at_most = 100.0)]
    pub replay_ratio: f64,
    /// Steps of training of a generator.
    #[key(default = 100, source = "paper", at_most = LARGEST)]
    pub generator_steps: u32,
    /// Further steps of the generator of old classes, for every earlier task.
    #[key(default = 50, source = "public code", at_most = LARGEST)]
    pub old_steps_per_task: u32,
    /// Steps of prompt distillation; 0: ablation without it.
    #[key(default = 200, source = "paper", at_most = LARGEST)]
    pub prompt_steps: u32,
    /// Steps of head distillation; 0: ablation without it.
    #[key(default = 200, source = "paper", at_most = LARGEST)]
    pub head_steps: u32,
    /// Pseudo-queries of new classes per step of the server.
    #[key(default = 64, source = "public code", at_least = 2.0, at_most = LARGEST)]
    pub server_batch: u32,
    /// Learning rate of all steps of the server.
    #[key(default = 1e-4, source = "paper", above = 0.0)]
    pub server_lr: f64,
    /// Width of the noise that generators get.
    #[key(default = 64, source = "public code", at_least = 1.0, at_most = LARGEST)]
    pub noise: u32,
    /// Width of the class embedding that generators get.
    #[key(default = 64, source = "public code", at_least = 1.0, at_most = LARGEST)]
    pub embedding: u32,
    /// Widths of the generators' hidden layers.
    #[key(default = [256, 1024], source = "public code", at_least = 1.0, at_most = LARGEST)]
    pub hidden: [u32; 2],
}

impl ConsolidationSettings {
    /// Returns the old pseudo-queries in a step.
    pub fn replayed(&self) -> usize {
        share_of(self.server_batch as usize, self.replay_ratio)
    }

    /// Returns true if the server does anything beyond averaging.
    pub fn consolidates(&self) -> bool {
        self.prompt_steps > 0 || self.head_steps > 0
    }

    /// Returns the multiplications of the steps after a round of this number of clients, in a task from 0: forward
    /// through generators, weighted prompts and heads, and twice as much backward where they learn.
    pub fn multiplications(
        &self,
        pools: &PoolShape,
        classes: usize,
        task: usize,
        clients: usize,
    ) -> f64 {
        if !self.consolidates() {
            return 0.0;
        }
        let [first, second] = self.hidden.map(|width| width as usize);
        let (dim, input) = (pools.dim, (self.embedding + self.noise) as usize);
        let generator = input * first + first * second + second * dim;
        let (head, prompts) = (classes * dim, pools.blocks * pools.pool * dim * (1 + pools.length));
        let replayed = if task == 0 { 0 } else { self.replayed() };
        let batch = self.server_batch as usize;
        let generation = |steps: u32, teachers: usize| {
            steps as usize * batch * 3 * (generator + (1 + teachers) * (head + prompts))
        };
        let old_steps = self.generator_steps + self.old_steps_per_task * task as u32;
        let old = if replayed == 0 { 0 } else { generation(old_steps, 1) };
        let of_prompts = |queries: usize, teachers: usize| {
            self.prompt_steps as usize * queries * (generator + (3 + teachers) * prompts)
        };
        let of_head = self.head_steps as usize * (batch + replayed) * (generator + 3 * head);
        let distillation = of_prompts(batch, clients) + of_prompts(replayed, 1) + of_head;
        (generation(self.generator_steps, clients) + old + distillation) as f64
    }

    pub(super) fn generation_loss(&self) -> GenerationLoss {
        let (kl, mse, gradient) = (self.lambda_kl, self.lambda_mse, self.mse_gradient);
        GenerationLoss { kl, mse, gradient, form: self.kl }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 2 steps of 4 queries, half as many old ones, a generator of (2 + 3) x 5 + 5 x 7 + 7 x 8 = 116.
    #[test]
    fn work_is_counted_model_by_model() {
        let settings = ConsolidationSettings {
            generator_steps: 2,
            old_steps_per_task: 1,
            prompt_steps: 3,
            head_steps: 5,
            server_batch: 4,
            replay_ratio: 0.5,
            noise: 2,
            embedding: 3,
            hidden: [5, 7],
            ..ConsolidationSettings::default()
        };
        let pools = PoolShape { blocks: 2, pool: 3, length: 4, dim: 8 };
        let (head, prompts) = (10 * 8, 2 * 3 * 8 * 5);
        let new = 2 * 4 * 3 * (116 + 4 * (head + prompts));
        let first = new + 3 * 4 * (116 + 6 * prompts) + 5 * 4 * (116 + 3 * head);
        assert_eq!(settings.multiplications(&pools, 10, 0, 3), f64::from(first));
        let old = 4 * 4 * 3 * (116 + 2 * (head + prompts)) + 3 * 2 * (116 + 4 * prompts);
        let third = first + old + 5 * 2 * (116 + 3 * head);
        assert_eq!(settings.multiplications(&pools, 10, 2, 3), f64::from(third));
        let plain = ConsolidationSettings { prompt_steps: 0, head_steps: 0, ..settings };
        assert_eq!(plain.multiplications(&pools, 10, 2, 3), 0.0);
        // Either distillation alone needs generators.
        let of = |prompt_steps, head_steps| ConsolidationSettings {
            prompt_steps,
            head_steps,
            ..settings
        };
        let (prompts, head, generators) = (of(3, 0), of(0, 5), f64::from(new));
        for one in [&prompts, &head] {
            assert!(one.consolidates() && one.multiplications(&pools, 10, 0, 3) > generators);
        }
        assert!(!of(0, 0).consolidates());
    }
}
