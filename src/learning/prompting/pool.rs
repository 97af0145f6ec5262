//! Prompt parameters of all members of a pack: the rows that train, and the prompts of each member's samples.
//!
//! Members are adapted one after another, each as it would be alone, and the results are concatenated. So a member of a
//! pack gets the same bits as alone. The transformer's blocks then have a prefix per sample.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{PromptTensors, Prompting};
use crate::model::ops::SampleGroups;
use crate::model::{
    Adaptation, ModelError, Parameter, ParameterSet, Prefix, PromptTokens, Variables,
};

/// Parameters that a [`Prompting`] reads, frozen or over variables.
#[derive(Clone, Debug)]
pub(in crate::learning) struct PromptPool {
    prompting: Arc<dyn Prompting>,
    parameters: Vec<PoolParameter>,
    members: usize,
}

/// One parameter, split along its rows; in a pack every part has a leading axis of members.
#[derive(Clone, Debug)]
struct PoolParameter {
    name: Arc<str>,
    /// Rows before, in and after the trained range; empty ones are left out.
    parts: Vec<Tensor>,
}

/// Returns true for names of prompt parameters.
pub(in crate::learning) fn is_prompt(name: &str) -> bool {
    name.starts_with("prompt.")
}

impl PromptPool {
    /// Returns a pool with everything frozen.
    pub fn frozen(
        prompting: Arc<dyn Prompting>,
        received: &ParameterSet,
        device: &Device,
    ) -> Result<PromptPool, ModelError> {
        let whole = |(name, parameter): (&Arc<str>, &Parameter)| -> Result<_, ModelError> {
            Ok(PoolParameter { name: Arc::clone(name), parts: vec![parameter.tensor(device)?] })
        };
        let prompts = received.iter().filter(|(name, _)| is_prompt(name));
        let parameters = prompts.map(whole).collect::<Result<_, _>>()?;
        Ok(PromptPool { prompting, parameters, members: 1 })
    }

    /// Returns a pool over variables, which are sorted by name. `stacked` holds the parameters of `members` members.
    pub fn trainable(
        prompting: Arc<dyn Prompting>,
        stacked: &ParameterSet,
        members: usize,
        device: &Device,
    ) -> Result<(PromptPool, Variables), ModelError> {
        let (mut parameters, mut variables) = (Vec::new(), Variables::new());
        for (name, parameter) in stacked.iter().filter(|(name, _)| is_prompt(name)) {
            let axis = usize::from(members > 1);
            let rows = parameter.shape.get(axis).copied().unwrap_or(0);
            let trained = prompting.trained(name, rows);
            let mut parts = Vec::new();
            for range in [0..trained.start, trained.clone(), trained.end..rows] {
                if range.is_empty() {
                    continue;
                }
                let cut = rows_of(parameter, axis, range.clone());
                parts.push(match range == trained {
                    false => cut.tensor(device)?,
                    true => {
                        let variable = cut.variable(device)?;
                        variables.push((Arc::clone(name), variable.clone()));
                        variable.as_tensor().clone()
                    }
                });
            }
            if rows == 0 {
                parts.push(parameter.tensor(device)?);
            }
            parameters.push(PoolParameter { name: Arc::clone(name), parts });
        }
        Ok((PromptPool { prompting, parameters, members }, variables))
    }

    /// Returns the rule that turns queries into prompts.
    pub fn prompting(&self) -> &Arc<dyn Prompting> {
        &self.prompting
    }

    /// Returns the current parameters of a member.
    fn tensors_of(&self, member: usize) -> Result<PromptTensors, ModelError> {
        let whole = |parameter: &PoolParameter| -> Result<_, ModelError> {
            let part = |part: &Tensor| match self.members {
                1 => Ok(part.clone()),
                _ => part.get(member),
            };
            let parts = parameter.parts.iter().map(part).collect::<Result<Vec<_>, _>>()?;
            let tensor = if let [one] = &parts[..] { one.clone() } else { Tensor::cat(&parts, 0)? };
            Ok((Arc::clone(&parameter.name), tensor))
        };
        self.parameters.iter().map(whole).collect()
    }

    /// Returns the adaptation of samples with these queries `(b, d)`. `groups` assigns samples to members of a pack.
    pub fn adapt(
        &self,
        queries: &Tensor,
        groups: Option<&SampleGroups>,
    ) -> Result<Adaptation, ModelError> {
        let mut parts = Vec::new();
        for (member, run) in runs(queries, groups)? {
            let own = queries.narrow(0, run.start, run.len())?;
            let adaptation = self.prompting.adapt(&self.tensors_of(member)?, &own)?;
            parts.push(each_sample(adaptation, run.len())?);
        }
        Ok(Adaptation { groups: groups.cloned(), per_sample: true, ..joined(&parts)? })
    }

    /// Returns each member's additional loss, `(members)`, or `[]` without a pack. `None` if there is none.
    pub fn losses(
        &self,
        queries: &Tensor,
        groups: &SampleGroups,
    ) -> Result<Option<Tensor>, ModelError> {
        let mut losses = vec![None; groups.members()];
        for (member, run) in runs(queries, Some(groups))? {
            let own = queries.narrow(0, run.start, run.len())?;
            losses[member] = self.prompting.loss(&self.tensors_of(member)?, &own)?;
        }
        if losses.iter().all(Option::is_none) {
            return Ok(None);
        }
        let zero = Tensor::zeros((), queries.dtype(), queries.device())?;
        let losses: Vec<Tensor> =
            losses.into_iter().map(|loss| loss.unwrap_or_else(|| zero.clone())).collect();
        Ok(Some(Tensor::stack(&losses, 0)?))
    }
}

/// Returns the samples of every member that has any.
fn runs(
    queries: &Tensor,
    groups: Option<&SampleGroups>,
) -> Result<Vec<(usize, Range<usize>)>, ModelError> {
    Ok(match groups {
        None => vec![(0, 0..queries.dim(0)?)],
        Some(groups) => groups.runs().enumerate().filter(|(_, run)| !run.is_empty()).collect(),
    })
}

/// Returns a range of a parameter's rows, whose leading axis is that of members if `axis` is 1.
fn rows_of(parameter: &Parameter, axis: usize, rows: Range<usize>) -> Parameter {
    let members: usize = parameter.shape[..axis].iter().product();
    let width: usize = parameter.shape[axis + 1..].iter().product();
    let all = parameter.shape[axis];
    let of = |member: usize| {
        let start = member * all * width;
        &parameter.values[start + rows.start * width..start + rows.end * width]
    };
    let mut shape = parameter.shape.clone();
    shape[axis] = rows.len();
    Parameter { shape, values: (0..members).flat_map(of).copied().collect() }
}

/// Gives prefixes and tokens of blocks a leading axis of `samples`.
fn each_sample(adaptation: Adaptation, samples: usize) -> Result<Adaptation, ModelError> {
    let each = |tensor: &Tensor| match *tensor.dims() {
        [length, dim] => tensor.broadcast_as((samples, length, dim))?.contiguous(),
        _ => Ok(tensor.clone()),
    };
    let prefix = adaptation.prefix.iter().map(|prefix| match prefix {
        None => Ok(None),
        Some(Prefix { keys, values }) => {
            Ok(Some(Prefix { keys: each(keys)?, values: each(values)? }))
        }
    });
    let prefix = prefix.collect::<Result<_, ModelError>>()?;
    let tokens = adaptation.block_tokens.iter().map(|own| own.as_ref().map(each).transpose());
    let block_tokens = tokens.collect::<Result<_, candle_core::Error>>()?;
    Ok(Adaptation { prefix, block_tokens, ..adaptation })
}

/// Returns the members' adaptations, concatenated along their samples.
fn joined(parts: &[Adaptation]) -> Result<Adaptation, ModelError> {
    let [first, others @ ..] = parts else { return Ok(Adaptation::none()) };
    if others.is_empty() {
        return Ok(first.clone());
    }
    let differ = || ModelError::Input {
        reason: "the members of a pack are prompted in different places".to_owned(),
    };
    let cat = |of: &dyn Fn(&Adaptation) -> Option<Tensor>| -> Result<Tensor, ModelError> {
        let all: Option<Vec<Tensor>> = parts.iter().map(of).collect();
        Ok(Tensor::cat(&all.ok_or_else(differ)?, 0)?)
    };
    let mut prefix = Vec::with_capacity(first.prefix.len());
    for (block, own) in first.prefix.iter().enumerate() {
        prefix.push(match own {
            None => None,
            Some(_) => {
                let of = |part: &Adaptation| part.prefix.get(block).cloned().flatten();
                let keys = cat(&|part| of(part).map(|prefix| prefix.keys))?;
                let values = cat(&|part| of(part).map(|prefix| prefix.values))?;
                Some(Prefix { keys, values })
            }
        });
    }
    let tokens = match &first.tokens {
        None => None,
        Some(own) => {
            let tokens = cat(&|part| part.tokens.as_ref().map(|tokens| tokens.tokens.clone()))?;
            Some(PromptTokens { tokens, ..own.clone() })
        }
    };
    let mut block_tokens = Vec::with_capacity(first.block_tokens.len());
    for (block, own) in first.block_tokens.iter().enumerate() {
        let of = |part: &Adaptation| part.block_tokens.get(block).cloned().flatten();
        block_tokens.push(own.as_ref().map(|_| cat(&of)).transpose()?);
    }
    Ok(Adaptation { prefix, tokens, block_tokens, ..first.clone() })
}

#[cfg(test)]
mod tests;
