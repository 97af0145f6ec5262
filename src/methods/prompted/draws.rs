//! Start values of prompts, and the frequencies with which keys are selected.

use candle_core::{Device, Tensor};

use crate::data::Loader;
use crate::learning::LearningError;
use crate::model::{Parameter, prompts};
use crate::numerics::distributions::uniform;
use crate::numerics::streams::StreamKey;

/// Returns a parameter of this shape, uniform on -1..1.
pub(in crate::methods) fn uniform_parameter(shape: &[usize], key: StreamKey) -> Parameter {
    let mut rng = key.rng();
    let values = (0..shape.iter().product::<usize>()).map(|_| uniform(&mut rng, -1.0, 1.0) as f32);
    Parameter { shape: shape.to_vec(), values: values.collect() }
}

/// Returns the share of each key among the `top` nearest keys of a loader's samples.
///
/// It is empty if the loader has no sample or no queries.
///
/// # Errors
/// When queries and keys do not fit.
pub(in crate::methods) fn shares(
    keys: &Parameter,
    loader: &Loader,
    top: usize,
) -> Result<Vec<f64>, LearningError> {
    let Some(queries) = loader.queries().filter(|_| !loader.is_empty()) else {
        return Ok(Vec::new());
    };
    let (shard, mut rows) = (loader.shard(), Vec::new());
    shard.iter().try_for_each(|sample| queries.read(*sample, &mut rows))?;
    let width = rows.len() / shard.len();
    let rows = Tensor::from_vec(rows, (shard.len(), width), &Device::Cpu)?;
    let similar = prompts::cosines(&rows, &keys.tensor(&Device::Cpu)?)?;
    let chosen = prompts::selection(&similar, top)?.concat();
    let mut counts = vec![0u32; keys.rows()];
    chosen.iter().for_each(|key| counts[*key as usize] += 1);
    Ok(counts.into_iter().map(|count| f64::from(count) / chosen.len() as f64).collect())
}
