//! Dimensions of FedHAF's two networks, and their initial values (Table 6 of the paper).
//!
//! ```text
//! module g   adjust.1  Linear(d, 512)    BN(512)  ReLU  dropout
//!            adjust.2  Linear(512, 512)  BN(512)  ReLU  dropout   (+ what entered it)
//!            adjust.3  Linear(512, 256)  BN(256)
//! head h     head.hidden Linear(256, 128)  head.norm BN(128)  ReLU  dropout,  head Linear(128, C)
//! ```
//! The table prints `BN(1024)` and `BN(128)` in the module, which fit no layer, and a "residual add" that cannot be an
//! identity around the whole module. Here norms have the widths of their layers, and the residual is a key of the
//! scenario.

use clap::ValueEnum;

use crate::model::resnet::is_buffer;
use crate::model::{LinearHead, Parameter, ParameterSet};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;
use crate::scenario::reader::Choice;

/// Position of the module's residual connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Residual {
    /// Identity around the second layer.
    Identity,
    /// No residual connection.
    None,
    /// Projection around the last layer.
    Last,
    /// Projection around the whole module.
    Whole,
}

/// Dimensions of module and head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkShape {
    /// Width of a frozen feature, `d`.
    pub features: usize,
    /// Dimensions of the module; `None` without one.
    pub module: Option<ModuleShape>,
    /// Width of the head's hidden layer.
    pub head_hidden: usize,
    /// Number of head rows.
    pub classes: usize,
}

/// Dimensions of the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleShape {
    /// Width of its first two layers.
    pub hidden: usize,
    /// Width of the adjusted features.
    pub output: usize,
    /// Position of the residual connection.
    pub residual: Residual,
}

/// Names of the module's layers, in order.
pub(super) const LAYERS: [&str; 3] = ["adjust.1", "adjust.2", "adjust.3"];
/// Name of the projection around a layer or the whole module.
pub(super) const SHORTCUT: &str = "adjust.shortcut";
/// Names of the head's hidden layer and its norm.
pub(super) const HIDDEN: &str = "head.hidden";
pub(super) const HEAD_NORM: &str = "head.norm";

/// Returns true if a parameter belongs to the module; all others belong to the head.
pub(crate) fn of_module(name: &str) -> bool {
    name.starts_with("adjust.")
}

impl NetworkShape {
    /// Returns the widths of Table 6, with the residual around the layer of equal widths.
    pub fn table_6(features: usize, classes: usize) -> NetworkShape {
        let module = ModuleShape { hidden: 512, output: 256, residual: Residual::Identity };
        NetworkShape { features, module: Some(module), head_hidden: 128, classes }
    }

    /// Returns the width of the head's input.
    pub fn adjusted(&self) -> usize {
        self.module.map_or(self.features, |module| module.output)
    }

    /// Returns names and shapes of everything but the head's rows: the part that all tasks share.
    pub fn common(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = Vec::new();
        if let Some(ModuleShape { hidden, output, residual }) = self.module {
            let widths = [(self.features, hidden), (hidden, hidden), (hidden, output)];
            for (layer, (inputs, outputs)) in LAYERS.into_iter().zip(widths) {
                linear(layer, inputs, outputs, &mut shapes);
                norm(&format!("{layer}.norm"), outputs, &mut shapes);
            }
            match residual {
                Residual::None | Residual::Identity => {}
                Residual::Last => linear(SHORTCUT, hidden, output, &mut shapes),
                Residual::Whole => linear(SHORTCUT, self.features, output, &mut shapes),
            }
        }
        linear(HIDDEN, self.adjusted(), self.head_hidden, &mut shapes);
        norm(HEAD_NORM, self.head_hidden, &mut shapes);
        shapes
    }

    /// Returns names and shapes of all tensors, with `rows` rows of the head.
    pub fn shapes(&self, rows: usize) -> Vec<(String, Vec<usize>)> {
        let mut shapes = self.common();
        shapes.push((LinearHead::WEIGHT.to_owned(), vec![rows, self.head_hidden]));
        shapes.push((LinearHead::BIAS.to_owned(), vec![rows]));
        shapes
    }

    /// Returns the number of trainable values of module and head together.
    pub fn parameter_count(&self) -> usize {
        let shapes = self.shapes(self.classes);
        let trained = shapes.iter().filter(|(name, _)| !is_buffer(name));
        trained.map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Returns initial values: weights normal with variance `2 / inputs` (He et al. 2015), biases 0, norms 1 and 0.
    ///
    /// Every tensor has its own stream, keyed by its name.
    pub fn initial_parameters(&self, key: StreamKey) -> ParameterSet {
        self.shapes(self.classes).into_iter().map(|shape| initial(shape, key)).collect()
    }

    /// Returns initial values of everything but the head's rows.
    pub fn initial_common(&self, key: StreamKey) -> ParameterSet {
        self.common().into_iter().map(|shape| initial(shape, key)).collect()
    }
}

fn initial((name, shape): (String, Vec<usize>), key: StreamKey) -> (String, Parameter) {
    let mut values = vec![0f32; shape.iter().product()];
    if let &[_, inputs] = shape.as_slice() {
        let deviation = (2.0 / inputs as f64).sqrt() as f32;
        fill_normal(&mut key.named(&name).rng(), &mut values);
        values.iter_mut().for_each(|v| *v *= deviation);
    } else if name.ends_with("norm.weight") || name.ends_with(".running_var") {
        values.fill(1.0);
    }
    (name, Parameter { shape, values: values.into() })
}

fn linear(name: &str, inputs: usize, outputs: usize, shapes: &mut Vec<(String, Vec<usize>)>) {
    shapes.push((format!("{name}.weight"), vec![outputs, inputs]));
    shapes.push((format!("{name}.bias"), vec![outputs]));
}

fn norm(name: &str, width: usize, shapes: &mut Vec<(String, Vec<usize>)>) {
    for parameter in ["weight", "bias", "running_mean", "running_var"] {
        shapes.push((format!("{name}.{parameter}"), vec![width]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    fn shape(features: usize, residual: Residual) -> NetworkShape {
        let module = ModuleShape { hidden: 512, output: 256, residual };
        NetworkShape { features, module: Some(module), head_hidden: 128, classes: 100 }
    }

    /// FedHAF card, section 2.
    #[test]
    fn parameters_are_as_many_as_the_card_says() {
        let count = |features, residual| shape(features, residual).parameter_count();
        assert_eq!(count(2048, Residual::None), 1_491_684);
        assert_eq!(count(2048, Residual::Identity), 1_491_684);
        assert_eq!(count(2048, Residual::Last), 1_623_012);
        assert_eq!(count(2048, Residual::Whole), 2_016_228);
        assert_eq!(count(768, Residual::Identity), 836_324);
        let head = NetworkShape { module: None, ..shape(256, Residual::None) };
        assert_eq!(head.parameter_count(), 46_052);
    }

    #[test]
    fn start_values_are_he_s_and_norms_pass_on() {
        let set = shape(300, Residual::Whole).initial_parameters(StreamKey::new(1, Domain::Init));
        let values = |name: &str| set.get(name).unwrap_or_else(|| panic!("{name}")).values.clone();
        let weights = values("adjust.2.weight");
        let square = weights.iter().map(|v| v * v).sum::<f32>() / weights.len() as f32;
        assert!((square * 256.0 - 1.0).abs() < 0.02, "{square}");
        assert!(values("adjust.1.norm.weight").iter().all(|v| *v == 1.0));
        assert!(values("head.norm.running_var").iter().all(|v| *v == 1.0));
        for name in ["head.bias", "adjust.3.bias", "head.norm.running_mean", "head.norm.bias"] {
            assert!(values(name).iter().all(|v| *v == 0.0), "{name}");
        }
    }
}
