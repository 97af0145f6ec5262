//! LoRA pairs of a classifier: all frozen, or the last one at every layer over variables.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};

use crate::model::{
    LoraBlock, ModelError, Parameter, ParameterSet, Variables, is_lora, lora_pairs, loras_of,
};

type Blocks = Vec<Option<LoraBlock>>;

fn of_set(set: &ParameterSet) -> impl Iterator<Item = (&Arc<str>, &Parameter)> {
    set.iter().filter(|(name, _)| is_lora(name))
}

/// Returns all pairs of a set, frozen.
pub(super) fn frozen(set: &ParameterSet, device: &Device) -> Result<Blocks, ModelError> {
    let mut factors = Vec::new();
    for (name, parameter) in of_set(set) {
        factors.push((Arc::clone(name), lora_pairs(&parameter.tensor(device)?, 1)?));
    }
    loras_of(factors)
}

/// Returns the pairs of a pack. The last one at every layer trains, except for factors named by `stays`.
pub(super) fn trainable(
    stacked: &ParameterSet,
    members: usize,
    stays: &dyn Fn(&str) -> bool,
    device: &Device,
) -> Result<(Blocks, Variables), ModelError> {
    let (mut factors, mut variables) = (Vec::new(), Variables::new());
    for (name, parameter) in of_set(stacked) {
        let mut pairs: Vec<Tensor> = lora_pairs(&parameter.tensor(device)?, members)?;
        if let Some(last) = pairs.last_mut().filter(|_| !stays(name)) {
            let variable = Var::from_tensor(last)?;
            *last = variable.as_tensor().clone();
            variables.push((Arc::clone(name), variable));
        }
        factors.push((Arc::clone(name), pairs));
    }
    Ok((loras_of(factors)?, variables))
}
