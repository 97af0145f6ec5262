//! Linear map of features into a space of label embeddings, as in LANDER.
//!
//! ```text
//! branch   scores = W f + b                h = A f + a     (the release)
//! below    scores = W (A f + a) + b        h = A f + a
//! ```
//! The parameter names distinguish them: `anchor.*` for a branch, `mapping.*` below the rows of the head.

use candle_core::{Device, Tensor};
use clap::ValueEnum;

use super::{ModelError, Parameter, ParameterSet, Variables, ops};
use crate::numerics::distributions::uniform;
use crate::numerics::streams::StreamKey;
use crate::scenario::reader::Choice;

/// Position of the map of features.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum MappingPlace {
    /// A branch: the head reads features.
    Branch,
    /// Below the head, which reads mapped features.
    Below,
}

impl MappingPlace {
    const ALL: [MappingPlace; 2] = [MappingPlace::Branch, MappingPlace::Below];

    /// Returns the names of weight and bias.
    fn names(self) -> [&'static str; 2] {
        match self {
            MappingPlace::Branch => ["anchor.weight", "anchor.bias"],
            MappingPlace::Below => ["mapping.weight", "mapping.bias"],
        }
    }

    /// Returns names and shapes of the parameters of a map from `inputs` to `outputs`.
    pub fn shapes(self, inputs: usize, outputs: usize) -> Vec<(String, Vec<usize>)> {
        let [weight, bias] = self.names();
        vec![(weight.to_owned(), vec![outputs, inputs]), (bias.to_owned(), vec![outputs])]
    }

    /// Returns initial values as of PyTorch's linear layers: uniform in `±1/sqrt(inputs)`.
    ///
    /// Every parameter has its own stream, keyed by its name.
    pub fn initial_parameters(self, inputs: usize, outputs: usize, key: StreamKey) -> ParameterSet {
        let bound = 1.0 / (inputs.max(1) as f64).sqrt();
        let start = |(name, shape): (String, Vec<usize>)| {
            let mut rng = key.named(&name).rng();
            let count = shape.iter().product();
            let values: Vec<f32> =
                (0..count).map(|_| uniform(&mut rng, -bound, bound) as f32).collect();
            (name, Parameter { shape, values: values.into() })
        };
        self.shapes(inputs, outputs).into_iter().map(start).collect()
    }
}

/// Linear map of features, frozen or over variables.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    weight: Tensor,
    bias: Tensor,
    pub place: MappingPlace,
}

impl Mapping {
    /// Returns true if a set holds a map.
    pub fn is_in(set: &ParameterSet) -> bool {
        MappingPlace::ALL.iter().any(|place| set.get(place.names()[0]).is_some())
    }

    /// Returns the map that a set holds, frozen.
    ///
    /// # Errors
    /// Returns an error if a weight lacks its bias, or the device fails.
    pub fn frozen(set: &ParameterSet, device: &Device) -> Result<Option<Mapping>, ModelError> {
        Mapping::with(set, |_, parameter| parameter.tensor(device))
    }

    /// Returns the map that a set holds, over new variables, which are also returned.
    ///
    /// # Errors
    /// Fails as [`frozen`](Mapping::frozen) does.
    pub fn trainable(
        set: &ParameterSet,
        device: &Device,
    ) -> Result<(Option<Mapping>, Variables), ModelError> {
        let mut variables = Variables::new();
        let mapping = Mapping::with(set, |name, parameter| {
            let variable = parameter.variable(device)?;
            let tensor = variable.as_tensor().clone();
            variables.push((name.into(), variable));
            Ok(tensor)
        })?;
        Ok((mapping, variables))
    }

    fn with(
        set: &ParameterSet,
        mut tensor: impl FnMut(&str, &Parameter) -> Result<Tensor, ModelError>,
    ) -> Result<Option<Mapping>, ModelError> {
        for place in MappingPlace::ALL {
            let [weight, bias] = place.names();
            let Some(found) = set.get(weight) else { continue };
            let missing = || ModelError::Input { reason: format!("`{weight}` without `{bias}`") };
            let other = set.get(bias).ok_or_else(missing)?;
            let (weight, bias) = (tensor(weight, found)?, tensor(bias, other)?);
            return Ok(Some(Mapping { weight, bias, place }));
        }
        Ok(None)
    }

    /// Returns mapped features `(b, outputs)` of features `(b, inputs)`.
    pub fn apply(&self, features: &Tensor) -> candle_core::Result<Tensor> {
        ops::linear(features, &self.weight, Some(&self.bias))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    #[test]
    fn names_say_the_place_and_values_are_kept() -> Result<(), ModelError> {
        let key = StreamKey::new(2, Domain::Init);
        let x = Tensor::new(&[[1f32, -2.0]], &Device::Cpu)?;
        for place in MappingPlace::ALL {
            let set = place.initial_parameters(2, 3, key);
            assert!(Mapping::is_in(&set) && set.len() == 2);
            let mapping = Mapping::frozen(&set, &Device::Cpu)?.expect("a map");
            let (over, variables) = Mapping::trainable(&set, &Device::Cpu)?;
            assert_eq!((mapping.place, over.expect("a map").place), (place, place));
            assert_eq!(variables.len(), 2);
            let [weight, bias] = place.names();
            let (w, b) = (&set.get(weight).unwrap().values, &set.get(bias).unwrap().values);
            assert!(w.iter().chain(b.iter()).all(|v| v.abs() < 0.7072 && *v != 0.0));
            for (row, got) in mapping.apply(&x)?.to_vec2::<f32>()?[0].iter().enumerate() {
                assert!((got - (w[2 * row] - 2.0 * w[2 * row + 1] + b[row])).abs() < 1e-6);
            }
            let cut = set.filter(|name| name == weight);
            assert!(Mapping::frozen(&cut, &Device::Cpu).is_err());
        }
        assert!(Mapping::frozen(&ParameterSet::new(), &Device::Cpu)?.is_none());
        Ok(())
    }
}
