//! The linear classifier on top of the features.

use candle_core::{Device, Tensor};
use clap::ValueEnum;

use super::ModelError;
use super::ops::{self, SampleGroups};
use super::parameters::{Parameter, ParameterSet, Variables};
use crate::numerics::distributions::{fill_normal, uniform};
use crate::numerics::streams::StreamKey;
use crate::scenario::reader::Choice;

/// Start values of a linear head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum HeadStart {
    /// Weight and bias uniform on `±1/sqrt(dim)`.
    ///
    /// Default of a linear layer in PyTorch.
    #[default]
    Uniform,
    /// Weight normal of standard deviation 0.02, bias 0.
    ///
    /// The head that timm gives a vision transformer; it truncates at a hundred deviations.
    Normal,
    /// Weight uniform on `±sqrt(3/dim)`, bias 0.
    ///
    /// Kaiming's uniform start with a gain of one, which the head of STSA's release has where it does not take cosines.
    Kaiming,
}

impl HeadStart {
    /// Returns initial values of a linear head with `classes` rows on `dim` features.
    pub fn parameters(self, classes: usize, dim: usize, key: StreamKey) -> ParameterSet {
        let mut weight = vec![0.0; classes * dim];
        match self {
            HeadStart::Uniform => return LinearHead::initial_parameters(classes, dim, key),
            HeadStart::Normal => {
                fill_normal(&mut key.rng(), &mut weight);
                weight.iter_mut().for_each(|value| *value *= 0.02);
            }
            HeadStart::Kaiming => {
                let bound = (3.0 / dim.max(1) as f64).sqrt();
                let mut rng = key.rng();
                weight.fill_with(|| uniform(&mut rng, -bound, bound) as f32);
            }
        }
        let weight = Parameter { shape: vec![classes, dim], values: weight.into() };
        let bias = Parameter { shape: vec![classes], values: vec![0.0; classes].into() };
        [(LinearHead::WEIGHT, weight), (LinearHead::BIAS, bias)].into_iter().collect()
    }
}

/// Linear head, `logits = W h + b`: frozen tensors, or variables in training.
///
/// Row `c` of `weight` belongs to head row `c`, that is to the class that the task sequence puts there.
#[derive(Clone, Debug)]
pub struct LinearHead {
    /// Weight `(C, d)`, or `(members, C, d)` for a pack with a head each.
    pub weight: Tensor,
    /// Bias `(C)`, or `(members, C)`.
    pub bias: Tensor,
}

impl LinearHead {
    /// Name of the weight in parameter sets.
    pub const WEIGHT: &'static str = "head.weight";
    /// Name of the bias in parameter sets.
    pub const BIAS: &'static str = "head.bias";

    /// Returns a head of zeros for `classes` rows and `dim` features.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn zeros(classes: usize, dim: usize) -> Result<LinearHead, ModelError> {
        let zeros = |shape: &[usize]| Tensor::zeros(shape, candle_core::DType::F32, &Device::Cpu);
        Ok(LinearHead { weight: zeros(&[classes, dim])?, bias: zeros(&[classes])? })
    }

    /// Returns initial values as of PyTorch's `nn.Linear`: weight and bias uniform in `±1/sqrt(dim)`.
    pub fn initial_parameters(classes: usize, dim: usize, key: StreamKey) -> ParameterSet {
        let bound = 1.0 / (dim.max(1) as f64).sqrt();
        let mut rng = key.rng();
        let mut draw = |shape: &[usize]| Parameter {
            shape: shape.to_vec(),
            values: (0..shape.iter().product::<usize>())
                .map(|_| uniform(&mut rng, -bound, bound) as f32)
                .collect(),
        };
        let (weight, bias) = (draw(&[classes, dim]), draw(&[classes]));
        [(LinearHead::WEIGHT, weight), (LinearHead::BIAS, bias)].into_iter().collect()
    }

    /// Returns a frozen head from the entries `head.weight` and `head.bias` of a set.
    ///
    /// # Errors
    /// Returns an error if an entry is missing or the two do not fit.
    pub fn from_parameters(set: &ParameterSet) -> Result<LinearHead, ModelError> {
        LinearHead::frozen_at(set, &Device::Cpu)
    }

    /// Returns [`LinearHead::from_parameters`] on another device.
    ///
    /// # Errors
    /// Fails as [`LinearHead::from_parameters`] does.
    pub fn frozen_at(set: &ParameterSet, device: &Device) -> Result<LinearHead, ModelError> {
        let (weight, bias) = LinearHead::entries(set)?;
        Ok(LinearHead { weight: weight.tensor(device)?, bias: bias.tensor(device)? })
    }

    /// Returns the head over new variables, which are also returned sorted by name.
    ///
    /// The heads of a pack are [stacked](ParameterSet::stacked).
    ///
    /// # Errors
    /// Returns an error if an entry is missing or the two do not fit.
    pub fn with_trainables(set: &ParameterSet) -> Result<(LinearHead, Variables), ModelError> {
        LinearHead::trainable_at(set, &Device::Cpu)
    }

    /// Returns [`LinearHead::with_trainables`] on another device.
    ///
    /// # Errors
    /// Fails as [`LinearHead::with_trainables`] does.
    pub fn trainable_at(
        set: &ParameterSet,
        device: &Device,
    ) -> Result<(LinearHead, Variables), ModelError> {
        let (weight, bias) = LinearHead::entries(set)?;
        let weight = weight.variable(device)?;
        let bias = bias.variable(device)?;
        let head =
            LinearHead { weight: weight.as_tensor().clone(), bias: bias.as_tensor().clone() };
        Ok((head, vec![(LinearHead::BIAS.into(), bias), (LinearHead::WEIGHT.into(), weight)]))
    }

    fn entries(set: &ParameterSet) -> Result<(&Parameter, &Parameter), ModelError> {
        let shape = set.get(LinearHead::WEIGHT).map(|w| w.shape.clone()).unwrap_or_default();
        let (2 | 3, [rows @ .., _]) = (shape.len(), shape.as_slice()) else {
            return Err(ModelError::Missing {
                file: "parameter set".to_owned(),
                name: LinearHead::WEIGHT.to_owned(),
                expected: None,
                advice: "a linear head is a matrix (classes, features) and a bias",
            });
        };
        let weight = set.expect("parameter set", LinearHead::WEIGHT, &shape)?;
        Ok((weight, set.expect("parameter set", LinearHead::BIAS, rows)?))
    }

    /// Copies weight and bias.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        ParameterSet::snapshot(&[
            (LinearHead::WEIGHT, &self.weight),
            (LinearHead::BIAS, &self.bias),
        ])
    }

    /// Returns the number of head rows.
    pub fn classes(&self) -> usize {
        self.bias.dims().last().copied().unwrap_or(0)
    }

    /// Returns logits `(b, C)` of `features` `(b, d)`.
    ///
    /// # Errors
    /// Returns an error if the features have another width.
    pub fn logits(&self, features: &Tensor) -> Result<Tensor, ModelError> {
        Ok(ops::linear(features, &self.weight, Some(&self.bias))?)
    }

    /// Returns [`LinearHead::logits`] for the members of a pack.
    ///
    /// # Errors
    /// Returns an error if the features have another width, or there is not one head per member.
    pub fn pack_logits(
        &self,
        features: &Tensor,
        members: &SampleGroups,
    ) -> Result<Tensor, ModelError> {
        Ok(ops::grouped_linear(features, &self.weight, Some(&self.bias), members)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    #[test]
    fn a_head_starts_as_pytorch_timm_or_stsa_starts_it() {
        let key = StreamKey::new(1, Domain::Init);
        let moments = |values: &[f32]| {
            let n = values.len() as f64;
            let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
            (mean, values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n)
        };
        let of = |start: HeadStart, name| start.parameters(100, 64, key).get(name).cloned();
        let values = |start, name| of(start, name).expect("a head has it").values.to_vec();
        let (mean, variance) = moments(&values(HeadStart::Normal, LinearHead::WEIGHT));
        assert!(mean.abs() < 1e-3 && (variance / 4e-4 - 1.0).abs() < 0.1, "{mean} {variance}");
        assert_eq!(values(HeadStart::Normal, LinearHead::BIAS), vec![0.0; 100]);
        let uniform = values(HeadStart::Uniform, LinearHead::WEIGHT);
        // Of width 2/8: a variance of (1/4)^2 / 12.
        assert!((moments(&uniform).1 / (1.0 / 192.0) - 1.0).abs() < 0.1);
        assert!(uniform.iter().all(|v| v.abs() <= 0.125));
        assert!(values(HeadStart::Uniform, LinearHead::BIAS).iter().any(|v| *v != 0.0));
        let kaiming = values(HeadStart::Kaiming, LinearHead::WEIGHT);
        // Of half width sqrt(3/64): a variance of 1/64.
        let (mean, variance) = moments(&kaiming);
        assert!(mean.abs() < 5e-3 && (variance * 64.0 - 1.0).abs() < 0.1, "{mean} {variance}");
        let furthest = kaiming.iter().fold(0.0f32, |most, v| most.max(v.abs()));
        assert!((0.21..=0.216_506_36).contains(&furthest), "{furthest}");
        assert_eq!(values(HeadStart::Kaiming, LinearHead::BIAS), vec![0.0; 100]);
    }

    #[test]
    fn parameters_survive_the_round_trip_and_train() -> Result<(), ModelError> {
        let start = LinearHead::initial_parameters(3, 5, StreamKey::new(1, Domain::Init));
        assert_eq!(LinearHead::from_parameters(&start)?.parameters()?, start);
        let (head, variables) = LinearHead::with_trainables(&start)?;
        let features = Tensor::ones((2, 5), candle_core::DType::F32, &Device::Cpu)?;
        let loss = ops::cross_entropy(&head.logits(&features)?, &[0, 1], 0..3)?;
        let grads = loss.backward()?;
        for (name, variable) in &variables {
            let total = grads.get(variable).map(|g| g.sqr()?.sum_all()?.to_scalar::<f32>());
            assert!(total.is_some_and(|t| t.is_ok_and(|t| t > 0.0)), "{name} does not train");
        }
        Ok(())
    }
}
