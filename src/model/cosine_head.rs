//! Cosine classifier: `logit_c = sigma <f / |f|, w_c / |w_c|>`.

use candle_core::{D, Device, Tensor, Var};

use super::ModelError;
use super::head::LinearHead;
use super::ops::{self, SampleGroups};
use super::parameters::{Parameter, ParameterSet, Variables};
use crate::numerics::distributions::uniform;
use crate::numerics::streams::StreamKey;

/// Head with cosines between a feature and each class's weight, times a scalar `sigma`.
///
/// The lengths of features and weights do not count, so that no class wins by a long weight.
#[derive(Clone, Debug)]
pub struct CosineHead {
    /// Weight `(C, d)`, or `(members, C, d)` for a pack with a head each.
    pub weight: Tensor,
    /// Scale `[]`, or `(members)`.
    pub sigma: Tensor,
}

impl CosineHead {
    /// Name of the weight in parameter sets, which is that of a linear head.
    pub const WEIGHT: &'static str = LinearHead::WEIGHT;
    /// Name of the scale in parameter sets.
    pub const SIGMA: &'static str = "head.sigma";

    /// Returns the initial values of STSA's first stage: weights uniform in `±1/sqrt(dim)`, sigma 1.
    pub fn initial_parameters(classes: usize, dim: usize, key: StreamKey) -> ParameterSet {
        let bound = 1.0 / (dim.max(1) as f64).sqrt();
        let mut rng = key.rng();
        let values = (0..classes * dim).map(|_| uniform(&mut rng, -bound, bound) as f32).collect();
        let sigma = Parameter { shape: vec![], values: [1.0].into() };
        [(CosineHead::WEIGHT, Parameter { shape: vec![classes, dim], values })]
            .into_iter()
            .chain([(CosineHead::SIGMA, sigma)])
            .collect()
    }

    /// Returns a frozen head from the entries `head.weight` and `head.sigma` of a set.
    ///
    /// # Errors
    /// Returns an error if an entry is missing or has another shape.
    pub fn frozen_at(set: &ParameterSet, device: &Device) -> Result<CosineHead, ModelError> {
        let (weight, sigma) = CosineHead::entries(set)?;
        Ok(CosineHead { weight: weight.tensor(device)?, sigma: sigma.tensor(device)? })
    }

    /// Returns the head over new variables, which are also returned sorted by name.
    ///
    /// The heads of a pack are [stacked](ParameterSet::stacked).
    ///
    /// # Errors
    /// Fails as [`CosineHead::frozen_at`] does.
    pub fn trainable_at(
        set: &ParameterSet,
        device: &Device,
    ) -> Result<(CosineHead, Variables), ModelError> {
        let (weight, sigma) = CosineHead::entries(set)?;
        let weight = Var::from_tensor(&weight.tensor(device)?)?;
        let sigma = Var::from_tensor(&sigma.tensor(device)?)?;
        let head =
            CosineHead { weight: weight.as_tensor().clone(), sigma: sigma.as_tensor().clone() };
        Ok((head, vec![(CosineHead::SIGMA.into(), sigma), (CosineHead::WEIGHT.into(), weight)]))
    }

    fn entries(set: &ParameterSet) -> Result<(&Parameter, &Parameter), ModelError> {
        let shape = set.get(CosineHead::WEIGHT).map(|w| w.shape.clone()).unwrap_or_default();
        let (2 | 3, [members @ .., _, _]) = (shape.len(), shape.as_slice()) else {
            return Err(ModelError::Missing {
                file: "parameter set".to_owned(),
                name: CosineHead::WEIGHT.to_owned(),
                expected: None,
                advice: "a cosine head is a matrix (classes, features) and a scale",
            });
        };
        let weight = set.expect("parameter set", CosineHead::WEIGHT, &shape)?;
        Ok((weight, set.expect("parameter set", CosineHead::SIGMA, members)?))
    }

    /// Returns the number of head rows.
    ///
    /// # Errors
    /// Returns an error if the weight is no matrix.
    pub fn classes(&self) -> Result<usize, ModelError> {
        Ok(self.weight.dim(D::Minus2)?)
    }

    /// Returns logits `(b, C)` of `features` `(b, d)`.
    ///
    /// # Errors
    /// Returns an error if the features have another width.
    pub fn logits(&self, features: &Tensor) -> Result<Tensor, ModelError> {
        self.pack_logits(features, &SampleGroups::one(features.dim(0)?))
    }

    /// Returns [`CosineHead::logits`] for the members of a pack.
    ///
    /// # Errors
    /// Returns an error if the features have another width, or there is not one head per member.
    pub fn pack_logits(
        &self,
        features: &Tensor,
        members: &SampleGroups,
    ) -> Result<Tensor, ModelError> {
        let weight = ops::unit_rows(&self.weight)?;
        let cosines = ops::grouped_linear(&ops::unit_rows(features)?, &weight, None, members)?;
        // Expanded per sample, so that each member's gradient is summed as it would be alone.
        let sigma =
            self.sigma.flatten_all()?.index_select(&members.index(features.device())?, 0)?;
        Ok(ops::scale_rows(&cosines, &sigma)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ops::testing::{draw, finite_difference};
    use crate::numerics::streams::Domain;
    use candle_core::Result;

    fn logits(t: &[Tensor]) -> Result<Tensor> {
        let head = CosineHead { weight: t[1].clone(), sigma: t[2].clone() };
        head.logits(&t[0]).map_err(candle_core::Error::wrap)
    }

    #[test]
    fn gradients_are_finite_differences() {
        let sigma = Tensor::new(1.5f32, &Device::Cpu).unwrap();
        finite_difference(&[&draw("f", (3, 6)), &draw("w", (4, 6)), &sigma], logits);
    }

    #[test]
    fn a_head_per_member_agrees_with_each_alone() -> std::result::Result<(), ModelError> {
        let groups = SampleGroups::new([2, 0, 1]);
        let t = [&draw("f", (3, 6)), &draw("w", (3, 4, 6)), &draw("s", 3)];
        let pack = |t: &[Tensor]| {
            let head = CosineHead { weight: t[1].clone(), sigma: t[2].clone() };
            head.pack_logits(&t[0], &groups).map_err(candle_core::Error::wrap)
        };
        finite_difference(&t, pack);
        let together = pack(&t.map(Tensor::clone))?.to_vec2::<f32>()?;
        for (member, run) in groups.runs().enumerate().filter(|(_, run)| !run.is_empty()) {
            let head = CosineHead { weight: t[1].get(member)?, sigma: t[2].get(member)? };
            let own = t[0].narrow(0, run.start, run.len())?;
            let alone = head.pack_logits(&own, &SampleGroups::one(run.len()))?;
            assert_eq!(together[run], alone.to_vec2::<f32>()?);
        }
        Ok(())
    }

    #[test]
    fn only_directions_count() -> Result<()> {
        let (f, w) = (draw("f", (3, 6)), draw("w", (4, 6)));
        let sigma = Tensor::new(2f32, &Device::Cpu)?;
        let base = logits(&[f.clone(), w.clone(), sigma.clone()])?;
        let scaled = logits(&[(f * 7.0)?, (w.clone() * 0.1)?, sigma.clone()])?;
        assert!((base.clone() - scaled)?.abs()?.max_all()?.to_scalar::<f32>()? < 1e-6);
        assert!(base.abs()?.max_all()?.to_scalar::<f32>()? <= 2.0);
        // A weight with itself has cosine 1; a vector of zeros has no direction and no gradient.
        let own = logits(&[w.clone(), w.clone(), sigma.clone()])?.to_vec2::<f32>()?;
        assert!((0..4).all(|i| (own[i][i] - 2.0).abs() < 1e-6));
        let zero = Var::zeros((1, 6), candle_core::DType::F32, &Device::Cpu)?;
        let out = logits(&[zero.as_tensor().clone(), w, sigma])?;
        assert!(out.to_vec2::<f32>()?[0].iter().all(|v| *v == 0.0));
        let gradient = out.sum_all()?.backward()?.get(&zero).cloned().expect("a gradient");
        assert!(gradient.to_vec2::<f32>()?[0].iter().all(|g| g.is_finite()));
        Ok(())
    }

    #[test]
    fn parameters_are_checked_and_train() -> std::result::Result<(), ModelError> {
        let start = CosineHead::initial_parameters(3, 5, StreamKey::new(1, Domain::Init));
        assert_eq!(start.flat_length(), 16);
        let (head, variables) = CosineHead::trainable_at(&start, &Device::Cpu)?;
        let loss = ops::cross_entropy(&head.logits(&draw("f", (2, 5)))?, &[0, 1], 0..3)?;
        let grads = loss.backward()?;
        assert!(variables.iter().all(|(_, variable)| grads.get(variable).is_some()));
        assert_eq!(ParameterSet::snapshot(&variables)?, start);
        let error = CosineHead::frozen_at(&ParameterSet::new(), &Device::Cpu).unwrap_err();
        assert!(error.to_string().contains("head.weight"), "{error}");
        let weight = start.filter(|name| name == CosineHead::WEIGHT);
        let error = CosineHead::frozen_at(&weight, &Device::Cpu).unwrap_err();
        assert!(error.to_string().contains("head.sigma"), "{error}");
        Ok(())
    }
}
