//! Loss of a client's step, with gradients of the parts of which weights are composed.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};

use super::terms::{LayerSlopes, LayerValues, LossTerms, PastLayer, TermWeights};
use crate::learning::losses::Linear;
use crate::learning::optimizer::lend;
use crate::learning::{Classifier, LearningError, PackBatch};

/// Variables and constants of a layer's parts.
pub(super) struct LayerVariables {
    /// Name of the weight.
    pub name: Arc<str>,
    pub base: Var,
    pub mask: Var,
    pub adaptive: Var,
    /// Attention to each entry of the knowledge base, if there is one.
    pub attention: Option<Var>,
    /// Entries of the knowledge base.
    pub knowledge: Vec<Arc<[f32]>>,
    /// Mask, adaptive part and weight at the start of the current task, for every earlier task.
    pub past: Vec<[Arc<[f32]>; 3]>,
    /// Masks and adaptive parts of earlier tasks, if they train.
    pub past_variables: Vec<[Var; 2]>,
}

/// Losses of a client's training steps.
pub(super) struct WeitSteps<'a> {
    pub network: &'a Classifier,
    pub device: &'a Device,
    /// First head row of the task.
    pub first_row: u32,
    pub weights: TermWeights,
    pub layers: Vec<LayerVariables>,
}

fn values(var: &Tensor) -> Result<Vec<f32>, LearningError> {
    Ok(lend(var, |values| Ok(values.to_vec()))?)
}

impl LayerVariables {
    /// Returns the variables with the names of their parts, in the order of [`WeitSteps::slopes`].
    fn all(&self) -> Vec<(&'static str, Var)> {
        let mut all = vec![
            ("base", self.base.clone()),
            ("mask", self.mask.clone()),
            ("adaptive", self.adaptive.clone()),
        ];
        all.extend(self.attention.clone().map(|attention| ("attention", attention)));
        let past = self.past_variables.iter().flatten();
        all.extend(past.map(|var| ("past", var.clone())));
        all
    }
}

/// Values of a layer's variables at a step.
struct Now {
    base: Vec<f32>,
    mask: Vec<f32>,
    adaptive: Vec<f32>,
    attention: Vec<f32>,
    past: Vec<[Arc<[f32]>; 2]>,
}

impl Now {
    fn of(layer: &LayerVariables) -> Result<Now, LearningError> {
        let mut past: Vec<[Arc<[f32]>; 2]> = Vec::new();
        for (number, [mask, adaptive, _]) in layer.past.iter().enumerate() {
            past.push(match layer.past_variables.get(number) {
                Some([mask, adaptive]) => [values(mask)?.into(), values(adaptive)?.into()],
                None => [Arc::clone(mask), Arc::clone(adaptive)],
            });
        }
        Ok(Now {
            base: values(&layer.base)?,
            mask: values(&layer.mask)?,
            adaptive: values(&layer.adaptive)?,
            attention: match &layer.attention {
                Some(attention) => values(attention)?,
                None => Vec::new(),
            },
            past,
        })
    }

    fn layer<'n>(&'n self, layer: &'n LayerVariables) -> LayerValues<'n> {
        let entries = layer.knowledge.iter().map(|entry| &entry[..]);
        LayerValues {
            base: &self.base,
            mask: &self.mask,
            adaptive: &self.adaptive,
            knowledge: self.attention.iter().copied().zip(entries).collect(),
        }
    }
}

impl WeitSteps<'_> {
    /// Returns all trained variables: the parts of all layers, then the client's other parameters.
    pub fn trainables(&self) -> Vec<(Arc<str>, Var)> {
        let part = |layer: &LayerVariables| {
            let name = Arc::clone(&layer.name);
            let named = move |(part, var): (&str, Var)| (format!("{part}.{name}").into(), var);
            layer.all().into_iter().map(named).collect::<Vec<(Arc<str>, Var)>>()
        };
        self.layers.iter().flat_map(part).chain(self.local()).collect()
    }

    /// Returns the variables of the network that are not composed.
    fn local(&self) -> impl Iterator<Item = (Arc<str>, Var)> {
        let is_local = |name: &str| self.layers.iter().all(|layer| &*layer.name != name);
        let all = self.network.variables().iter();
        all.filter(move |(name, _)| is_local(name)).cloned()
    }

    fn weight(&self, name: &str) -> Result<&Var, LearningError> {
        let found = self.network.variables().iter().find(|(other, _)| &**other == name);
        let missing = || LearningError::NoGradient { name: name.to_owned() };
        Ok(&found.ok_or_else(missing)?.1)
    }

    /// Returns the loss of each member at a step, with gradients with respect to the parts.
    pub fn losses(&self, step: &PackBatch) -> Result<Tensor, LearningError> {
        let mut all = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let (now, weight) = (Now::of(layer)?, self.weight(&layer.name)?);
            let theta = now.layer(layer).compose();
            let theta = Tensor::from_vec(theta, weight.shape(), weight.device())?;
            weight.set(&theta.to_dtype(weight.dtype())?)?;
            all.push(now);
        }
        let own = step.batch.labels().iter().map(|row| row.wrapping_sub(self.first_row));
        let labels: Vec<u32> = own.collect();
        let losses = self.network.labeled_outputs(step, &labels, self.device, None)?.losses;
        let gradients = losses.backward()?;
        let gradient = |name: &str, var: &Var| {
            let missing = || LearningError::NoGradient { name: name.to_owned() };
            values(gradients.get(var).ok_or_else(missing)?)
        };
        let (mut slopes, mut terms) = (Vec::new(), LossTerms::default());
        for (layer, now) in self.layers.iter().zip(&all) {
            let theta = gradient(&layer.name, self.weight(&layer.name)?)?;
            let (of_layer, own) = self.slopes(layer, now, &theta);
            terms = terms.plus(own);
            slopes.extend(of_layer);
        }
        for (name, var) in self.local() {
            slopes.push(gradient(&name, &var)?);
        }
        let mut sum = (losses.detach() + terms.sum())?;
        for (slope, (_, var)) in slopes.into_iter().zip(self.trainables()) {
            let term = Linear::new(slope, &var)?.of(&var, 1)?;
            // Adds the gradient only; the value of the loss does not change.
            sum = sum.broadcast_add(&(&term - term.detach())?)?;
        }
        Ok(sum)
    }

    /// Returns the gradients of a layer's variables, in their order, and the values of its loss terms.
    fn slopes(
        &self,
        layer: &LayerVariables,
        now: &Now,
        theta: &[f32],
    ) -> (Vec<Vec<f32>>, LossTerms) {
        let of_layer = now.layer(layer);
        let mut slopes = of_layer.slopes(theta);
        let starts = layer.past.iter().map(|[_, _, start]| start);
        let past = now.past.iter().zip(starts);
        let past: Vec<PastLayer<'_>> =
            past.map(|([mask, adaptive], start)| PastLayer { mask, adaptive, start }).collect();
        let retroactive = !layer.past_variables.is_empty();
        let terms = of_layer.add_terms(&self.weights, &past, retroactive, &mut slopes);
        let LayerSlopes { base, mask, adaptive, attention, past } = slopes;
        let mut all = vec![base, mask, adaptive];
        if layer.attention.is_some() {
            all.push(attention);
        }
        all.extend(past.into_iter().flat_map(|(mask, adaptive)| [mask, adaptive]));
        let narrow = |slope: Vec<f64>| slope.into_iter().map(|value| value as f32).collect();
        (all.into_iter().map(narrow).collect(), terms)
    }
}
