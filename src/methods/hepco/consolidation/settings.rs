//! The settings of the server's step: every default is the paper's or its release's, as noted.

use clap::ValueEnum;

use super::GenerationLoss;
use crate::methods::fedavg_prompt::PoolShape;
use crate::numerics::share::share_of;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// Most steps, and the widest layer, of the server.
const LARGEST: f64 = 100_000.0;

/// How much each client counts in the server's losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Weighting {
    /// By its share of the round's samples of the label.
    ///
    /// `omega_i(y) = n_i(y) / N`: clients do not count for old classes.
    Omega,
    /// Plain sums over clients, as the paper is written.
    Plain,
}

/// The arguments of the divergence between heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum KlForm {
    /// KL(client || server), the release.
    ClientServer,
    /// KL(server || client), as the paper is written.
    ServerClient,
}

/// What the distance of weighted prompts does to a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum MseGradient {
    /// Nothing: its value is reported.
    ///
    /// As released: the prompt module detaches the query, and weighted prompts depend on a pseudo-query through it alone.
    Detached,
    /// It leads it to where server and teachers differ, as a mean over queries and numbers of a prompt.
    ///
    /// The paper as written: a mean squared error.
    Mean,
    /// The same as plain sums, which outweigh the labels.
    ///
    /// It has no bound, and generated queries lose their labels; for study.
    Sum,
}

/// What label counts are divided by, for `weighting = "omega"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum OmegaForm {
    /// Samples of the round, and one for every class of the data set without any.
    Release,
    /// Samples of the round: all weights together are 1.
    Normalised,
}

/// How the mean of pools and heads is repaired.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How much each client counts in the server's losses.
    pub weighting: Weighting,
    /// What label counts are divided by.
    pub omega: OmegaForm,
    /// The arguments of the divergence.
    pub kl: KlForm,
    /// How much the divergence of heads counts for a generator; 0 is the ablation without it.
    pub lambda_kl: f64,
    /// How much the distance of weighted prompts counts for a generator; 0 is the ablation without it.
    pub lambda_mse: f64,
    /// What that distance does to it.
    pub mse_gradient: MseGradient,
    /// Old pseudo-queries per new one; 0 is the ablation without the previous server.
    pub replay_ratio: f64,
    /// Steps of the generator of new classes.
    pub generator_steps: u32,
    /// Steps more per task of the generator of old classes.
    pub old_steps_per_task: u32,
    /// Steps of prompt distillation; 0 is the ablation without it.
    pub prompt_steps: u32,
    /// Steps of head distillation; 0 is the ablation without it.
    pub head_steps: u32,
    /// Pseudo-queries of new classes in a step.
    pub server_batch: u32,
    /// Learning rate of all steps of the server.
    pub server_lr: f64,
    /// Width of the generators' noise.
    pub noise: u32,
    /// Width of the generators' embedding of a class.
    pub embedding: u32,
    /// Widths of the generators' hidden layers.
    pub hidden: [u32; 2],
}

impl Default for Settings {
    fn default() -> Self {
        defaults(Settings::read)
    }
}

impl Settings {
    /// Reads its keys of the `[method]` table of HePCo.
    pub(in crate::methods) fn read(table: &mut TableReader<'_>) -> Settings {
        let (paper, code) = ("paper", "public code");
        let weighting =
            Param::new("weighting", Weighting::Omega, "how a client counts in server losses");
        let omega = Param::new("omega", OmegaForm::Release, "what label counts are divided by");
        let gradient = "what the distance of prompts does to a generator";
        let mse_gradient = Param::new("mse_gradient", MseGradient::Detached, gradient);
        let kl = Param::new("kl", KlForm::ClientServer, "the arguments of the divergence");
        let lambda =
            |name, default, doc| Param::new(name, default, doc).source(paper).at_least(0.0);
        let steps = |name, default, doc| Param::new(name, default, doc).at_most(LARGEST);
        let width =
            |name, default, doc| Param::new(name, default, doc).at_least(1.0).at_most(LARGEST);
        let replay = "old pseudo-queries per new one, whole ones of a batch; 0: no previous server";
        let hidden = Param::new("hidden", [256, 1024], "widths of the generators' hidden layers");
        let generator_steps = steps("generator_steps", 100, "steps of a generator");
        let old_steps = steps("old_steps_per_task", 50, "more for the old generator, per task");
        let prompt_steps = steps("prompt_steps", 200, "steps of prompt distillation");
        let head_steps = steps("head_steps", 200, "steps of head distillation");
        let batch = Param::new("server_batch", 64, "new pseudo-queries of a step");
        let (noise, embedding) =
            ("width of the generators' noise", "width of the embedding of a class");
        Settings {
            weighting: table.get(&weighting.source("public code; the paper writes plain sums")),
            omega: table.get(&omega.source(code)),
            kl: table.get(&kl.source("public code; the paper writes the other")),
            lambda_kl: table.get(&lambda("lambda_kl", 1.0, "weight of the divergence of heads")),
            lambda_mse: table.get(&lambda("lambda_mse", 0.1, "weight of the distance of prompts")),
            mse_gradient: table.get(&mse_gradient.source("public code; the paper writes a mean")),
            replay_ratio: table.get(&lambda("replay_ratio", 0.5, replay).at_most(100.0)),
            generator_steps: table.get(&generator_steps.source(paper)),
            old_steps_per_task: table.get(&old_steps.source(code)),
            prompt_steps: table.get(&prompt_steps.source(paper)),
            head_steps: table.get(&head_steps.source(paper)),
            server_batch: table.get(&batch.source(code).at_least(2.0).at_most(LARGEST)),
            server_lr: table.get(
                &Param::new("server_lr", 1e-4, "learning rate of all server steps")
                    .source(paper)
                    .above(0.0),
            ),
            noise: table.get(&width("noise", 64, noise).source(code)),
            embedding: table.get(&width("embedding", 64, embedding).source(code)),
            hidden: table.get(&hidden.source(code).at_least(1.0).at_most(LARGEST)),
        }
    }

    /// Old pseudo-queries in a step.
    pub fn replayed(&self) -> usize {
        share_of(self.server_batch as usize, self.replay_ratio)
    }

    /// Whether the server does anything beyond averaging.
    pub fn consolidates(&self) -> bool {
        self.prompt_steps > 0 || self.head_steps > 0
    }

    /// What the steps after a round of so many clients multiply, in a task from 0: forward through generators,
    /// weighted prompts and heads, and twice as much backward where they learn.
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
        let settings = Settings {
            generator_steps: 2,
            old_steps_per_task: 1,
            prompt_steps: 3,
            head_steps: 5,
            server_batch: 4,
            replay_ratio: 0.5,
            noise: 2,
            embedding: 3,
            hidden: [5, 7],
            ..Settings::default()
        };
        let pools = PoolShape { blocks: 2, pool: 3, length: 4, dim: 8 };
        let (head, prompts) = (10 * 8, 2 * 3 * 8 * 5);
        let new = 2 * 4 * 3 * (116 + 4 * (head + prompts));
        let first = new + 3 * 4 * (116 + 6 * prompts) + 5 * 4 * (116 + 3 * head);
        assert_eq!(settings.multiplications(&pools, 10, 0, 3), f64::from(first));
        let old = 4 * 4 * 3 * (116 + 2 * (head + prompts)) + 3 * 2 * (116 + 4 * prompts);
        let third = first + old + 5 * 2 * (116 + 3 * head);
        assert_eq!(settings.multiplications(&pools, 10, 2, 3), f64::from(third));
        let plain = Settings { prompt_steps: 0, head_steps: 0, ..settings };
        assert_eq!(plain.multiplications(&pools, 10, 2, 3), 0.0);
        // Either distillation alone needs generators.
        let of = |prompt_steps, head_steps| Settings { prompt_steps, head_steps, ..settings };
        let (prompts, head, generators) = (of(3, 0), of(0, 5), f64::from(new));
        for one in [&prompts, &head] {
            assert!(one.consolidates() && one.multiplications(&pools, 10, 0, 3) > generators);
        }
        assert!(!of(0, 0).consolidates());
    }
}
