//! Layers that are split, and the other parameters, which are a client's own.

use super::SplitLayers;
use crate::model::{HeadKind, HeadShape, LinearHead, Parameter, ParameterSet};
use crate::policy::ModelFacts;

/// A layer whose weight is split. Its first extent are output units, each with one mask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitLayer {
    /// Name of the weight.
    pub name: String,
    /// Its extents.
    pub shape: Vec<usize>,
}

impl SplitLayer {
    /// Returns the number of output units.
    pub fn units(&self) -> usize {
        self.shape.first().copied().unwrap_or(0)
    }

    /// Returns the number of weights of a unit.
    pub fn width(&self) -> usize {
        self.shape.iter().skip(1).product()
    }

    /// Returns the number of weights.
    pub fn numbers(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Names and sizes of everything that a client trains for a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeitShape {
    /// Layers that are split, by name.
    pub layers: Vec<SplitLayer>,
    /// Other parameters of the network, which are the client's own in every task.
    pub local: Vec<(String, Vec<usize>)>,
}

impl WeitShape {
    /// Returns the shape for tasks of this number of classes.
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

    /// Returns the number of output units of all layers.
    pub fn units(&self) -> usize {
        self.layers.iter().map(SplitLayer::units).sum()
    }

    /// Returns the number of weights of all layers.
    pub fn numbers(&self) -> usize {
        self.layers.iter().map(SplitLayer::numbers).sum()
    }

    /// Returns the number of the client's own other parameters.
    pub fn local_numbers(&self) -> usize {
        self.local.iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Returns the parameters of a set that are split.
    pub fn split_of(&self, set: &ParameterSet) -> ParameterSet {
        set.filter(|name| self.layers.iter().any(|layer| layer.name == name))
    }

    /// Returns the parameters of a set that are the client's own.
    pub fn local_of(&self, set: &ParameterSet) -> ParameterSet {
        set.filter(|name| self.local.iter().any(|(own, _)| own == name))
    }

    /// Returns a set with one row of numbers per layer, such as masks; `width` says how many.
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
