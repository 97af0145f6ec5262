//! Names and shapes of a client task's parameters.

use std::ops::Range;

use super::prompts::{OWN_SHARE, OWN_TOKENS, others_name};
use crate::learning::prompting::ComponentPart;
use crate::methods::parts::sample_cost::of_prefix;
use crate::model::{HeadKind, HeadShape, LinearHead, Parameter, ParameterSet, prompts};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;
use crate::policy::ModelFacts;

use super::PowderConfig;

/// Form of a client task's components, and use of other client tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientTaskForm {
    /// Tokens of mixtures with the components of similar client tasks: Powder.
    #[default]
    Tokens,
    /// Prefixes of all client tasks' components side by side, divided by the number of client tasks: Fed-CODAP as
    /// Powder's benchmark has it.
    Prefixes,
}

/// Dimensions of a client task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTaskShape {
    /// Blocks that get tokens.
    pub blocks: Range<usize>,
    /// Number of components in a block.
    pub components: usize,
    /// Number of tokens of a component.
    pub length: usize,
    /// Width of the backbone.
    pub dim: usize,
    /// Largest number of mixtures that a client task uses.
    pub top: usize,
    /// Form of its components.
    pub form: ClientTaskForm,
}

impl ClientTaskShape {
    /// Creates the shape for a model; blocks beyond the depth of its backbone are left out.
    pub fn new(config: &PowderConfig, facts: &ModelFacts) -> ClientTaskShape {
        let depth = facts.backbone.vit().map_or(0, |vit| vit.depth);
        let first = (config.first_block as usize).min(depth.saturating_sub(1));
        ClientTaskShape {
            blocks: first..(first + config.n_blocks as usize).min(depth),
            components: config.components as usize,
            length: config.prompt_len as usize,
            dim: facts.backbone.dim(),
            top: config.top as usize,
            form: ClientTaskForm::Tokens,
        }
    }

    /// Returns the multiplications that a client task's prompts add to a forward pass.
    ///
    /// They are the sum of mixtures, the weights by attention and key, and the tokens or the prefix in each block.
    pub(super) fn multiplications(&self, model: &ModelFacts) -> f64 {
        let ClientTaskShape { components, length, dim, .. } = *self;
        let (mixed, prompts) = match self.form {
            ClientTaskForm::Tokens => {
                (self.top * components, model.backbone.cost_of_more_tokens(length))
            }
            ClientTaskForm::Prefixes => (components, of_prefix(model, length)),
        };
        self.blocks.len() as f64 * (prompts + (mixed * (length + 2) * dim) as f64)
    }

    /// Returns number (from 1, a step of random streams), block and kind of every component parameter.
    pub(super) fn parts(&self) -> impl Iterator<Item = (u64, usize, ComponentPart)> + use<> {
        let parts = |block| ComponentPart::ALL.into_iter().map(move |part| (block, part));
        self.blocks.clone().flat_map(parts).zip(1..).map(|((block, part), at)| (at, block, part))
    }

    /// Returns the shape of `rows` components of a kind.
    pub(super) fn rows(&self, part: ComponentPart, rows: usize) -> Vec<usize> {
        match part {
            ComponentPart::Prompt => vec![rows, self.length, self.dim],
            ComponentPart::Attention | ComponentPart::Key => vec![rows, self.dim],
        }
    }

    /// Returns names and shapes of a client task's own parameters: components, and a head of `classes` rows.
    pub fn own(&self, classes: usize) -> Vec<(String, Vec<usize>)> {
        let rows = self.components;
        let parts = self.parts().map(|(_, block, part)| (part.name(block), self.rows(part, rows)));
        parts.chain(self.head(classes).shapes()).collect()
    }

    /// Returns names and shapes of the parameters that mix in other client tasks.
    pub fn others(&self) -> Vec<(String, Vec<usize>)> {
        let rows = self.top * self.components;
        let name = |(_, block, part)| (others_name(block, part), self.rows(part, rows));
        let shares = [OWN_SHARE, OWN_TOKENS].map(|name| (name.to_owned(), vec![self.top]));
        self.parts().map(name).chain(shares).collect()
    }

    /// Returns names and shapes of a table of `client_tasks` client tasks with `classes` classes each.
    pub fn table(&self, classes: usize, client_tasks: usize) -> Vec<(String, Vec<usize>)> {
        let rows = client_tasks * self.components;
        let parts = self.parts().map(|(_, block, part)| (part.name(block), self.rows(part, rows)));
        parts.chain(self.head(client_tasks * classes).shapes()).collect()
    }

    /// Concatenates client tasks to a table, with zeros up to `count` client tasks.
    pub fn table_of(
        &self,
        client_tasks: &[&ParameterSet],
        classes: usize,
        count: usize,
    ) -> ParameterSet {
        let joined = |(name, shape): (String, Vec<usize>)| {
            let rows = client_tasks.iter().filter_map(|client_task| client_task.get(&name));
            let mut values: Vec<f32> = rows.flat_map(|rows| rows.values.iter().copied()).collect();
            values.resize(shape.iter().product(), 0.0);
            (name, Parameter { shape, values: values.into() })
        };
        self.table(classes, count).into_iter().map(joined).collect()
    }

    /// Splits a table into its client tasks.
    pub fn client_tasks_of(&self, table: &ParameterSet, classes: usize) -> Vec<ParameterSet> {
        let count =
            table.get(LinearHead::BIAS).map_or(0, |bias| bias.values.len()) / classes.max(1);
        let client_task = |at: usize| -> ParameterSet {
            let own = |(name, shape): (String, Vec<usize>)| {
                let width: usize = shape.iter().product();
                let values = &table.get(&name)?.values;
                let values = values.get(at * width..(at + 1) * width)?.into();
                Some((name, Parameter { shape, values }))
            };
            self.own(classes).into_iter().filter_map(own).collect()
        };
        (0..count).map(client_task).collect()
    }

    /// Returns names and shapes of the keys and attention vectors of `client_tasks` client tasks.
    pub fn looks(&self, client_tasks: usize) -> Vec<(String, Vec<usize>)> {
        let looks = self.parts().filter(|(_, _, part)| *part != ComponentPart::Prompt);
        let rows = client_tasks * self.components;
        looks.map(|(_, block, part)| (part.name(block), self.rows(part, rows))).collect()
    }

    /// Returns the number of scores of a sample on this number of client tasks.
    pub fn scores(&self, client_tasks: usize) -> usize {
        self.blocks.len() * client_tasks * self.components
    }

    fn head(&self, rows: usize) -> HeadShape {
        HeadShape { kind: HeadKind::Linear, rows, dim: self.dim }
    }

    /// Returns initial parameters of a client task with this number of classes, and a new head.
    ///
    /// Components are orthogonal to each other and to those of `earlier` client tasks, as far as the width allows: of
    /// those the latest count.
    pub fn start(&self, classes: usize, earlier: &[&ParameterSet], key: StreamKey) -> ParameterSet {
        let mut set = LinearHead::initial_parameters(classes, self.dim, key);
        for (number, block, part) in self.parts() {
            let (name, shape) = (part.name(block), self.rows(part, self.components));
            let width: usize = shape[1..].iter().product();
            let mut draws = vec![0f32; self.components * width];
            fill_normal(&mut key.step(number).rng(), &mut draws);
            let room = (width / self.components).saturating_sub(1);
            let latest = &earlier[earlier.len().saturating_sub(room)..];
            let rows = latest.iter().filter_map(|client_task| client_task.get(&name));
            let rows: Vec<f32> = rows.flat_map(|rows| rows.values.iter().copied()).collect();
            let values = match width {
                0 => Vec::new(),
                _ => prompts::gram_schmidt(&rows, &draws, width),
            };
            set.insert(name, Parameter { shape, values: values.into() });
        }
        set
    }

    /// Returns the keys and attention vectors of mixtures, concatenated.
    ///
    /// Each mixture is a sum over `client_tasks`, weighted by a row of `mixtures`.
    pub fn similarity_keys(
        &self,
        mixtures: &[Vec<f64>],
        client_tasks: &[&ParameterSet],
    ) -> ParameterSet {
        let joined = |(name, shape): (String, Vec<usize>)| {
            let width = shape.iter().product::<usize>() / mixtures.len().max(1);
            let rows = rows_of(&name, client_tasks);
            let of = |weights: &Vec<f64>| {
                sum_of(width, weights.iter().copied().zip(rows.iter().copied()))
            };
            let values: Vec<f32> = mixtures.iter().flat_map(of).map(|value| value as f32).collect();
            (name, Parameter { shape, values: values.into() })
        };
        self.looks(mixtures.len()).into_iter().map(joined).collect()
    }

    /// Returns the parameters that mix other client tasks into the components of client task `own`.
    ///
    /// `mixtures` are rows of `W` over all `client_tasks`, at most `top`; missing ones are zero. Prompts are divided by
    /// the number of mixtures. For prefixes the single row gives the client tasks that stand side by side, and the
    /// weights of their prompts.
    pub fn mix(
        &self,
        mixtures: &[&[f64]],
        own: usize,
        client_tasks: &[&ParameterSet],
    ) -> ParameterSet {
        if let (ClientTaskForm::Prefixes, [shares]) = (self.form, mixtures) {
            return self.others_concatenated(shares, own, client_tasks);
        }
        let share = 1.0 / mixtures.len().max(1) as f64;
        let mut set = ParameterSet::new();
        for (_, block, part) in self.parts() {
            let (name, shape) = (part.name(block), self.rows(part, self.top * self.components));
            let width: usize = shape.iter().product::<usize>() / self.top;
            let scale = if part == ComponentPart::Prompt { share } else { 1.0 };
            let mut values = Vec::with_capacity(width * self.top);
            let mut rows = rows_of(&name, client_tasks);
            rows[own] = None;
            for weights in mixtures {
                let weights = weights.iter().map(|weight| scale * weight);
                let others = sum_of(width, weights.zip(rows.iter().copied()));
                values.extend(others.into_iter().map(|v| v as f32));
            }
            values.resize(width * self.top, 0.0);
            set.insert(others_name(block, part), Parameter { shape, values: values.into() });
        }
        for (name, scale) in [(OWN_SHARE, 1.0), (OWN_TOKENS, share)] {
            let own = mixtures.iter().map(|weights| (scale * weights[own]) as f32);
            let mut values: Vec<f32> = own.collect();
            values.resize(self.top, 0.0);
            set.insert(name, Parameter { shape: vec![self.top], values: values.into() });
        }
        set
    }
}

impl ClientTaskShape {
    /// Returns the concatenated components of all other client tasks with a positive share.
    ///
    /// Their prompts are multiplied by that share.
    fn others_concatenated(
        &self,
        shares: &[f64],
        own: usize,
        client_tasks: &[&ParameterSet],
    ) -> ParameterSet {
        let others = || {
            let client_tasks = shares.iter().zip(client_tasks).enumerate();
            client_tasks.filter(move |(place, (share, _))| *place != own && **share > 0.0)
        };
        let mut set = ParameterSet::new();
        for (_, block, part) in self.parts() {
            let (name, mut values) = (part.name(block), Vec::new());
            for (_, (share, client_task)) in others() {
                let factor = if part == ComponentPart::Prompt { *share as f32 } else { 1.0 };
                let rows = client_task.get(&name).into_iter().flat_map(|rows| rows.values.iter());
                values.extend(rows.map(|value| factor * value));
            }
            let shape = self.rows(part, others().count() * self.components);
            set.insert(others_name(block, part), Parameter { shape, values: values.into() });
        }
        for (name, share) in [(OWN_SHARE, 1.0), (OWN_TOKENS, shares[own] as f32)] {
            set.insert(name, Parameter { shape: vec![1], values: [share].into() });
        }
        set
    }
}

/// Returns the values of a parameter in each client task; `None` if a client task lacks it.
fn rows_of<'a>(name: &str, client_tasks: &[&'a ParameterSet]) -> Vec<Option<&'a [f32]>> {
    client_tasks.iter().map(|client_task| client_task.get(name).map(|rows| &*rows.values)).collect()
}

/// Returns the weighted sum of a parameter with `width` numbers over client tasks, in their order.
fn sum_of<'a>(width: usize, rows: impl Iterator<Item = (f64, Option<&'a [f32]>)>) -> Vec<f64> {
    let rows = rows.filter(|(weight, _)| *weight > 0.0);
    let rows: Vec<(f64, &[f32])> = rows.filter_map(|(weight, row)| Some((weight, row?))).collect();
    let mut sum = vec![0f64; width];
    // 512 sums stay in the CPU's cache while all client tasks are added.
    const AT_ONCE: usize = 512;
    for (part, sum) in sum.chunks_mut(AT_ONCE).enumerate() {
        for (weight, row) in &rows {
            let row = row.get(part * AT_ONCE..).unwrap_or_default();
            sum.iter_mut().zip(row).for_each(|(to, v)| *to += weight * f64::from(*v));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than what is summed at a time.
    #[test]
    fn sums_of_wide_parameters_are_whole() {
        let rows = [1.0f32, 10.0].map(|by| (0..1100).map(|at| at as f32 * by).collect::<Vec<_>>());
        let weighted = [(0.5, Some(&rows[0][..])), (2.0, Some(&rows[1][..])), (1.0, None)];
        let sum = sum_of(1100, weighted.into_iter());
        assert!(sum.iter().enumerate().all(|(at, sum)| *sum == 20.5 * at as f64));
    }
}
