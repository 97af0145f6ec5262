//! Loss of a client, and the mean features of classes that it collects in training.

use std::collections::BTreeMap;
use std::ops::Range;

use candle_core::{Device, Tensor};

use super::Pilora;
use crate::data::TaskView;
use crate::learning::{Classifier, LearningError, head_rows};
use crate::methods::averaging::{Objective, PackClient, TrainingStep};
use crate::methods::class_statistics::ClassMean;
use crate::model::ops::{self, SampleGroups};
use crate::model::{Factor, ModelError, Parameter, ParameterSet, PrototypeHead, lora_pairs};
use crate::policy::PolicyError;

/// Counts and sums of the features that a client trained on, by head row.
#[derive(Clone, Debug, Default)]
pub(super) struct ClassFeatureSums(BTreeMap<u32, (u64, Vec<f64>)>);

impl ClassFeatureSums {
    fn add(&mut self, row: u32, feature: &[f32]) {
        let (count, sum) = self.0.entry(row).or_insert_with(|| (0, vec![0.0; feature.len()]));
        *count += 1;
        sum.iter_mut().zip(feature).for_each(|(sum, value)| *sum += f64::from(*value));
    }

    /// Returns counts and means of these classes as two parameters, `(rows)` and `(rows, dim)`.
    ///
    /// A class without features has zeros.
    pub fn vectors(&self, rows: &[u32], dim: usize) -> ParameterSet {
        let (mut counts, mut means) = (Vec::new(), Vec::new());
        for row in rows {
            let (count, sum) = self.0.get(row).cloned().unwrap_or_else(|| (0, vec![0.0; dim]));
            counts.push(count as f32);
            means.extend(sum.into_iter().map(|value| (value / count.max(1) as f64) as f32));
        }
        let vector = |shape, values: Vec<f32>| Parameter { shape, values: values.into() };
        let counts = vector(vec![rows.len()], counts);
        let means = vector(vec![rows.len(), dim], means);
        [(COUNTS, counts), (MEANS, means)].into_iter().collect()
    }

    /// Returns the class means that [`vectors`](ClassFeatureSums::vectors) wrote for these classes.
    pub fn read(rows: &[u32], vectors: &ParameterSet) -> Vec<ClassMean> {
        let (Some(counts), Some(means)) = (vectors.get(COUNTS), vectors.get(MEANS)) else {
            return Vec::new();
        };
        let width = means.width().max(1);
        let classes = rows.iter().zip(counts.values.iter()).zip(means.values.chunks(width));
        let class = |((row, count), mean): ((&u32, &f32), &[f32])| ClassMean {
            row: *row,
            count: *count as u64,
            mean: mean.iter().map(|value| f64::from(*value)).collect(),
        };
        classes.map(class).collect()
    }
}

const COUNTS: &str = "counts";
const MEANS: &str = "means";

/// Loss of PiLoRA: cross-entropy over distances, pull to the own prototype, penalties on `A`.
///
/// The penalties keep `A` apart from earlier ones and sparse.
pub(super) struct PiloraObjective<'o> {
    method: Pilora,
    view: TaskView,
    /// Fixed prototypes of other classes that compete: of rows before the task's, and of rows after them.
    others: [Option<PrototypeHead>; 2],
    /// Number of competing head rows before the task's.
    before: u32,
    /// Tensors `A` of earlier tasks, by parameter name.
    earlier: BTreeMap<String, Vec<Tensor>>,
    met: &'o mut [ClassFeatureSums],
}

impl<'o> PiloraObjective<'o> {
    /// Creates the loss of a pack, all of whose members got the same download as `first`.
    pub fn new(
        method: &Pilora,
        first: &PackClient<'_, ()>,
        met: &'o mut [ClassFeatureSums],
        device: &Device,
    ) -> Result<PiloraObjective<'o>, PolicyError> {
        let view = TaskView::clone(&first.participant.view);
        let received = &first.received;
        let compete = method.compete.rows(&view, rows_of(received));
        let part = |rows: Range<usize>| -> Result<_, ModelError> {
            if rows.is_empty() {
                return Ok(None);
            }
            let set = head_rows(received, rows)?;
            PrototypeHead::frozen_at(&set, device).map(Some)
        };
        let (before, behind) = (compete.start..view.rows.start, view.rows.end..compete.end);
        let mut earlier = BTreeMap::new();
        for (name, parameter) in
            received.iter().filter(|(name, _)| Factor::of(name) == Some(Factor::A))
        {
            let mut pairs = lora_pairs(&parameter.tensor(device)?, 1)?;
            pairs.pop();
            earlier.insert(name.to_string(), pairs);
        }
        Ok(PiloraObjective {
            method: method.clone(),
            others: [part(before.clone())?, part(behind)?],
            before: before.len() as u32,
            view,
            earlier,
            met,
        })
    }

    /// Returns the logits of all classes that compete, divided by the temperature, from those of the task.
    fn competing(
        &self,
        features: &Tensor,
        own: &Tensor,
        groups: &SampleGroups,
    ) -> Result<Tensor, LearningError> {
        let [before, behind] = &self.others;
        let of = |head: &Option<PrototypeHead>| {
            head.as_ref().map(|head| head.pack_logits(features, groups)).transpose()
        };
        let all: Vec<Tensor> =
            [of(before)?, Some(own.clone()), of(behind)?].into_iter().flatten().collect();
        Ok((Tensor::cat(&all, 1)? / self.method.temperature)?)
    }

    /// Returns the loss terms that depend on parameters alone, `(members)`; `None` if there are none.
    fn of_parameters(&self, network: &Classifier) -> Result<Option<Tensor>, LearningError> {
        let Pilora { orthogonality, sparsity, decay, .. } = self.method;
        let members = network.members();
        let mut sums: Vec<Tensor> = Vec::with_capacity(members);
        for member in 0..members {
            let mut terms: Vec<Tensor> = Vec::new();
            for (name, variable) in network.variables() {
                let own = match members {
                    1 => variable.as_tensor().clone(),
                    _ => variable.get(member)?,
                };
                if decay > 0.0 {
                    terms.push((ops::sum_all(&own.sqr()?)? * (0.5 * decay))?);
                }
                if Factor::of(name) != Some(Factor::A) {
                    continue;
                }
                if sparsity > 0.0 {
                    terms.push((ops::sum_all(&own.abs()?)? * sparsity)?);
                }
                let earlier = self.earlier.get(&**name).filter(|_| orthogonality > 0.0);
                for other in earlier.into_iter().flatten() {
                    let products = ops::linear(&own, other, None)?;
                    terms.push((ops::sum_all(&products.abs()?)? * orthogonality)?);
                }
            }
            let Some(first) = terms.first().cloned() else { return Ok(None) };
            let sum = terms[1..].iter().try_fold(first, |sum, term| sum + term)?;
            sums.push(sum);
        }
        Ok(Some(Tensor::stack(&sums, 0)?))
    }
}

/// Returns the number of prototypes in a set of parameters.
fn rows_of(set: &ParameterSet) -> usize {
    set.get(PrototypeHead::PROTOTYPES).map_or(0, |prototypes| prototypes.rows())
}

impl Objective for PiloraObjective<'_> {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let outputs = pass.pack_logits()?;
        let (batch, groups) = (&pass.step.batch, &pass.step.groups);
        let features = outputs.features.detach().to_vec2::<f32>()?;
        for (run, met) in groups.runs().zip(self.met.iter_mut()) {
            run.for_each(|at| met.add(batch.labels()[at], &features[at]));
        }
        let start = self.view.rows.start as u32;
        let own: Vec<u32> = batch.labels().iter().map(|row| row - start).collect();
        let logits = self.competing(&outputs.features, &outputs.logits, groups)?;
        let labels: Vec<u32> = own.iter().map(|row| row + self.before).collect();
        let columns = 0..logits.dim(1)?;
        let mut losses = ops::grouped_cross_entropy(&logits, &labels, columns, groups)?;
        if self.method.pull > 0.0 {
            let column = Tensor::from_vec(own, (batch.len(), 1), pass.device)?;
            let distances = outputs.logits.gather(&column, 1)?.squeeze(1)?.neg()?;
            let pull = pass.by_member(|run| {
                Ok(ops::mean_all(&distances.narrow(0, run.start, run.len())?)?)
            })?;
            losses = (losses + (pull * self.method.pull)?)?;
        }
        match self.of_parameters(pass.model)? {
            Some(terms) => Ok((losses + terms)?),
            None => Ok(losses),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_described_by_the_mean_of_its_features() {
        let mut met = ClassFeatureSums::default();
        for (row, feature) in [(4, [1.0, 2.0]), (7, [9.0, 9.0]), (4, [2.0, 6.0]), (4, [3.0, 1.0])] {
            met.add(row, &feature);
        }
        let sums = ClassFeatureSums::read(&[4, 5, 7], &met.vectors(&[4, 5, 7], 2));
        let sums: Vec<_> =
            sums.into_iter().map(|class| (class.row, class.count, class.mean)).collect();
        let wanted = [(4, 3, vec![2.0, 3.0]), (5, 0, vec![0.0; 2]), (7, 1, vec![9.0; 2])];
        assert_eq!(sums, wanted);
    }
}
