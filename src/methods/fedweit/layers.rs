//! Layers whose weights are split, and the other parameters, which each client keeps for itself.

use super::SplitLayers;
use crate::model::{HeadKind, HeadShape, LinearHead, Parameter, ParameterSet};
use crate::policy::ModelFacts;

/// Layer whose weight is split into a base and adaptive parts.
///
/// The first dimension of the weight counts output units, each of which has one mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitLayer {
    /// Name of the weight, such as `head.weight`.
    pub name: String,
    /// Shape of the weight.
    pub shape: Vec<usize>,
}

impl SplitLayer {
    /// Returns the number of output units.
    pub fn units(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// Returns the number of weights of an output unit.
    pub fn width(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Returns the number of all weights of the layer.
    pub fn numbers(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Names and shapes of all parameters that a client trains for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeitShape {
    /// Split layers, sorted by name.
    pub layers: Vec<SplitLayer>,
    /// Other parameters of the network, which each client trains separately in every task.
    pub local: Vec<(String, Vec<usize>)>,
}

impl WeitShape {
    /// Returns the shape for tasks of `classes` classes.
    pub fn new(train: SplitLayers, model: &ModelFacts, classes: usize) -> WeitShape {
        let head = HeadShape { kind: HeadKind::Linear, rows: classes, dim: model.backbone.dim() };
        let (mut layers, mut local) = (Vec::new(), Vec::new());
        if train == SplitLayers::Network {
            for (name, shape) in model.backbone.parameter_shapes() {
                match name.ends_with(".weight") && shape.len() > 1 {
                    true => layers.push(SplitLayer { name, shape }),
                    false => local.push((name, shape)),
                }
            }
        }
        for (name, shape) in head.shapes() {
            match train == SplitLayers::Head && name == LinearHead::WEIGHT {
                true => layers.push(SplitLayer { name, shape }),
                false => local.push((name, shape)),
            }
        }
        layers.sort_by(|a, b| a.name.cmp(&b.name));
        WeitShape { layers, local }
    }

    /// Returns the number of output units of all split layers.
    pub fn units(&self) -> usize {
        self.layers.iter().map(SplitLayer::units).sum()
    }

    /// Returns the number of weights of all split layers.
    pub fn numbers(&self) -> usize {
        self.layers.iter().map(SplitLayer::numbers).sum()
    }

    /// Returns the number of elements of the client's other parameters.
    pub fn local_numbers(&self) -> usize {
        self.local.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Returns the weights of split layers in a set.
    pub fn split_of(&self, set: &ParameterSet) -> ParameterSet {
        set.filter(|name| self.layers.iter().any(|layer| layer.name == name))
    }

    /// Returns the parameters in a set that the client keeps for itself.
    pub fn local_of(&self, set: &ParameterSet) -> ParameterSet {
        set.filter(|name| self.local.iter().any(|(own, _)| own == name))
    }

    /// Returns a set with a vector of `width(layer)` values for each split layer, such as its masks.
    pub fn rows(
        &self,
        width: impl Fn(&SplitLayer) -> usize,
        mut values: impl FnMut(&SplitLayer, usize) -> Vec<f32>,
    ) -> ParameterSet {
        let row = |layer: &SplitLayer| {
            let count = width(layer);
            let values = values(layer, count).into();
            (layer.name.clone(), Parameter { shape: vec![count], values })
        };
        self.layers.iter().map(row).collect()
    }
}
