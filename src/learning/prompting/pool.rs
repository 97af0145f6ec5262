//! The prompt parameters of all members of a pack: which rows train, and what each member's samples get.
//!
//! Members are adapted one after another, each as it would be alone, and laid one behind the other: so a
//! member of a pack has the bits it has alone. The blocks of the transformer then see prefixes per sample.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{PromptTensors, Prompting};
use crate::model::ops::Groups;
use crate::model::{
    Adaptation, ModelError, Parameter, ParameterSet, Prefix, PromptTokens, Variables,
};

/// The parameters that a [`Prompting`] reads, frozen or over variables.
#[derive(Clone, Debug)]
pub(in crate::learning) struct PromptPool {
    prompting: Arc<dyn Prompting>,
    parameters: Vec<PoolParameter>,
    members: usize,
}

/// One parameter, cut along its rows; in a pack every part has a leading axis of members.
#[derive(Clone, Debug)]
struct PoolParameter {
    name: Arc<str>,
    /// Rows before, in and behind the trained range, as far as there are any.
    parts: Vec<Tensor>,
}

/// Names of prompt parameters.
pub(in crate::learning) fn is_prompt(name: &str) -> bool {
    name.starts_with("prompt.")
}

impl PromptPool {
    /// Everything frozen.
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

    /// Over variables, which come back sorted by name; `stacked` are the parameters of so many members.
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
            parameters.push(PoolParameter { name: Arc::clone(name), parts });
        }
        Ok((PromptPool { prompting, parameters, members }, variables))
    }

    /// How queries become prompts.
    pub fn prompting(&self) -> &Arc<dyn Prompting> {
        &self.prompting
    }

    /// The parameters of a member as they are now.
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

    /// What samples with these queries `(b, d)` get; `groups` says whose they are where there is a pack.
    pub fn adapt(
        &self,
        queries: &Tensor,
        groups: Option<&Groups>,
    ) -> Result<Adaptation, ModelError> {
        let mut parts = Vec::new();
        for (member, run) in runs(queries, groups)? {
            let own = queries.narrow(0, run.start, run.len())?;
            let adaptation = self.prompting.adapt(&self.tensors_of(member)?, &own)?;
            parts.push(each_sample(adaptation, run.len())?);
        }
        Ok(Adaptation { groups: groups.cloned(), per_sample: true, ..joined(&parts)? })
    }

    /// What is added to each member's loss, `(members)`, or `[]` without a pack; `None` for nothing.
    pub fn losses(&self, queries: &Tensor, groups: &Groups) -> Result<Option<Tensor>, ModelError> {
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

/// The samples of every member that has one.
fn runs(
    queries: &Tensor,
    groups: Option<&Groups>,
) -> Result<Vec<(usize, Range<usize>)>, ModelError> {
    Ok(match groups {
        None => vec![(0, 0..queries.dim(0)?)],
        Some(groups) => groups.runs().enumerate().filter(|(_, run)| !run.is_empty()).collect(),
    })
}

/// Rows of a parameter, whose leading axis is that of members where `axis` is 1.
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

/// Prefixes and tokens of blocks with a leading axis of `samples`.
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

/// The adaptations of members one behind the other.
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
mod tests {
    use candle_core::DType;

    use super::*;
    use crate::data::Batch;
    use crate::learning::{Classifier, PackBatch};
    use crate::model::{Backbone, LinearHead, embedded_vit, prompts};
    use crate::numerics::streams::{Domain, StreamKey};

    const DIM: usize = 64;

    /// A weighted prefix for block 1, whose rows 1 and 2 of 4 train, and the sum of cosines as a loss.
    #[derive(Debug)]
    struct Weighted;

    impl Prompting for Weighted {
        fn first_block(&self) -> usize {
            1
        }

        fn trained(&self, _name: &str, _rows: usize) -> Range<usize> {
            1..3
        }

        fn adapt(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Adaptation, ModelError> {
            let weights = prompts::cosines(queries, pool.get("prompt.01.keys")?)?;
            let prompt = prompts::weighted(&weights, pool.get("prompt.01.prompts")?)?;
            // And one prompt for all samples.
            let shared = pool.get("prompt.01.prompts")?.get(2)?;
            let halves = |prompt| Prefix::halves(prompt).map(Some);
            let prefix = vec![None, halves(&prompt)?, halves(&shared)?];
            Ok(Adaptation { prefix, ..Adaptation::none() })
        }

        fn loss(
            &self,
            pool: &PromptTensors,
            queries: &Tensor,
        ) -> Result<Option<Tensor>, ModelError> {
            let similar = prompts::cosines(queries, pool.get("prompt.01.keys")?)?;
            Ok(Some(similar.sum(1)?.mean(0)?))
        }
    }

    fn received(shift: f32) -> ParameterSet {
        let of = |shape: &[usize]| Parameter {
            shape: shape.to_vec(),
            values: (0..shape.iter().product()).map(|i: usize| (i as f32 + shift).sin()).collect(),
        };
        let mut set = LinearHead::initial_parameters(4, DIM, StreamKey::new(1, Domain::Init));
        set.insert("prompt.01.keys", of(&[4, DIM]));
        set.insert("prompt.01.prompts", of(&[4, 6, DIM]));
        set
    }

    fn batch(samples: Range<u32>) -> Batch {
        let pixels = samples.clone().flat_map(|s| (0..64).map(move |i| (i * (s + 3)) as f32));
        let count = samples.len();
        let inputs = Box::new(Batch::Images {
            pixels: pixels.map(|v| (v * 0.37).sin()).collect(),
            shape: [count, 1, 8, 8],
            labels: samples.clone().map(|s| s % 2 + 1).collect(),
            samples: samples.clone().collect(),
        });
        let queries = samples.flat_map(|s| (0..DIM as u32).map(move |i| (i * (s + 7)) as f32));
        Batch::Queried { inputs, queries: queries.map(|v| (v * 0.11).cos()).collect() }
    }

    type Learnt = (Vec<f32>, Vec<Vec<Vec<f32>>>);

    /// Losses, and by variable the gradient of each member.
    fn learn(received: Vec<ParameterSet>, batches: Vec<Batch>, sizes: Vec<usize>) -> Learnt {
        let (backbone, members) = (Arc::new(Backbone::from(embedded_vit().unwrap())), sizes.len());
        let model =
            Classifier::pack_with(&backbone, received, 1..3, Some(Arc::new(Weighted))).unwrap();
        let step = PackBatch {
            batch: Batch::join(batches).unwrap(),
            groups: Groups::new(sizes),
            steps: vec![0; members],
        };
        let losses = model.pack_losses(&step, &Device::Cpu, None).unwrap();
        let grads = losses.sum_all().unwrap().backward().unwrap();
        let by_member = |gradient: &Tensor| {
            let flat = gradient.reshape((members, ())).unwrap();
            flat.to_vec2::<f32>().unwrap()
        };
        let gradients = model.vars().iter().map(|v| by_member(grads.get(v).unwrap())).collect();
        (losses.flatten_all().unwrap().to_vec1().unwrap(), gradients)
    }

    #[test]
    fn a_member_of_a_pack_gets_the_bits_it_gets_alone() {
        let sets = [received(0.0), received(0.5), received(1.0)];
        let sizes = vec![3, 0, 5];
        let (losses, gradients) = learn(sets.to_vec(), vec![batch(0..3), batch(3..8)], sizes);
        for (member, samples) in [(0, 0..3), (2, 3..8)] {
            let size = samples.len();
            let alone = learn(vec![sets[member].clone()], vec![batch(samples)], vec![size]);
            assert_eq!(losses[member], alone.0[0]);
            for (together, alone) in gradients.iter().zip(&alone.1) {
                assert!(alone[0].iter().any(|g| *g != 0.0));
                assert_eq!(together[member], alone[0]);
            }
        }
        assert_eq!(losses[1], 0.0);
        assert!(gradients.iter().all(|of| of[1].iter().all(|g| *g == 0.0)));
    }

    #[test]
    fn only_the_trained_rows_are_variables_and_move() {
        let backbone = Arc::new(Backbone::from(embedded_vit().unwrap()));
        let start = received(0.0);
        let members = vec![start.clone(); 2];
        let model =
            Classifier::pack_with(&backbone, members, 1..3, Some(Arc::new(Weighted))).unwrap();
        let shapes: Vec<_> = model.variables().iter().map(|(_, v)| v.dims().to_vec()).collect();
        let expected: [&[usize]; 4] = [&[2, 2], &[2, 2, DIM], &[2, 2, DIM], &[2, 2, 6, DIM]];
        assert_eq!(shapes, expected);
        for variable in model.vars() {
            variable
                .set(&Tensor::ones(variable.shape(), DType::F32, &Device::Cpu).unwrap())
                .unwrap();
        }
        for now in model.pack_parameters().unwrap() {
            for (name, parameter) in now.iter() {
                let (before, width) = (start.get(name).unwrap(), parameter.values.len() / 4);
                for row in 0..4 {
                    let of = |p: &Parameter| p.values[row * width..(row + 1) * width].to_vec();
                    let expected =
                        if (1..3).contains(&row) { vec![1.0; width] } else { of(before) };
                    assert_eq!(of(parameter), expected, "{name}, row {row}");
                }
            }
        }
    }

    #[test]
    fn brought_queries_are_those_that_are_computed() {
        let backbone = Arc::new(Backbone::from(embedded_vit().unwrap()));
        let model =
            Classifier::frozen_with(&backbone, &received(0.0), Some(Arc::new(Weighted))).unwrap();
        let images = batch(0..5);
        let pixels = images.pixels(&Device::Cpu).unwrap();
        let queries = backbone.frozen(&pixels, crate::model::FrozenPart::Whole).unwrap();
        let queries = queries.flatten_all().unwrap().to_vec1().unwrap();
        let brought = Batch::Queried { inputs: Box::new(images.inputs().clone()), queries };
        let of = |batch: &Batch| {
            model.batch_features(batch, &Device::Cpu).unwrap().to_vec2::<f32>().unwrap()
        };
        let computed = of(images.inputs());
        assert_eq!(of(&brought), computed);
        assert_eq!(model.features(&pixels).unwrap().to_vec2::<f32>().unwrap(), computed);
        assert_ne!(of(&images), computed, "prompts depend on queries");
    }
}
