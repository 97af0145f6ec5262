//! Distance classifier: `logit_c = -|f - p_c| / sqrt(d)` with a prototype `p_c` per class (PILoRA).

use candle_core::{D, Device, Tensor};

use super::ModelError;
use super::ops::{self, SampleGroups};
use super::parameters::{Parameter, ParameterSet, Variables};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;

/// Head with negative distances of a feature from every class's prototype. The nearest prototype wins.
#[derive(Clone, Debug)]
pub struct PrototypeHead {
    /// Prototypes `(C, d)`, or `(members, C, d)` for a pack with a head each.
    pub prototypes: Tensor,
}

/// Smallest squared distance. The root has no slope at zero, and rounding may give a negative square.
const NEAREST: f64 = 1e-12;

/// Standard deviation of initial prototypes.
const DEVIATION: f32 = 0.1;

impl PrototypeHead {
    /// Name of the prototypes in parameter sets.
    pub const PROTOTYPES: &'static str = "head.prototypes";

    /// Returns initial values: normal with standard deviation 0.1.
    pub fn initial_parameters(classes: usize, dim: usize, key: StreamKey) -> ParameterSet {
        let mut values = vec![0f32; classes * dim];
        fill_normal(&mut key.rng(), &mut values);
        values.iter_mut().for_each(|value| *value *= DEVIATION);
        let prototypes = Parameter { shape: vec![classes, dim], values: values.into() };
        [(PrototypeHead::PROTOTYPES, prototypes)].into_iter().collect()
    }

    /// Returns a frozen head from the entry `head.prototypes` of a set.
    ///
    /// # Errors
    /// Returns an error if there is none, or it is no matrix.
    pub fn frozen_at(set: &ParameterSet, device: &Device) -> Result<PrototypeHead, ModelError> {
        Ok(PrototypeHead { prototypes: PrototypeHead::entry(set)?.tensor(device)? })
    }

    /// Returns the head over a new variable. A pack's heads are [stacked](ParameterSet::stacked).
    ///
    /// # Errors
    /// Fails as [`PrototypeHead::frozen_at`] does.
    pub fn trainable_at(
        set: &ParameterSet,
        device: &Device,
    ) -> Result<(PrototypeHead, Variables), ModelError> {
        let variable = PrototypeHead::entry(set)?.variable(device)?;
        let head = PrototypeHead { prototypes: variable.as_tensor().clone() };
        Ok((head, vec![(PrototypeHead::PROTOTYPES.into(), variable)]))
    }

    fn entry(set: &ParameterSet) -> Result<&Parameter, ModelError> {
        let name = PrototypeHead::PROTOTYPES;
        let found = set.get(name).filter(|found| matches!(found.shape.len(), 2 | 3));
        found.ok_or_else(|| ModelError::Missing {
            file: "parameter set".to_owned(),
            name: name.to_owned(),
            expected: None,
            advice: "a head of prototypes is a matrix (classes, features)",
        })
    }

    /// Returns the number of head rows.
    ///
    /// # Errors
    /// Returns an error if the prototypes are no matrix.
    pub fn classes(&self) -> Result<usize, ModelError> {
        Ok(self.prototypes.dim(D::Minus2)?)
    }

    /// Returns logits `(b, C)` of `features` `(b, d)`.
    ///
    /// # Errors
    /// Returns an error if the features have another width.
    pub fn logits(&self, features: &Tensor) -> Result<Tensor, ModelError> {
        self.pack_logits(features, &SampleGroups::one(features.dim(0)?))
    }

    /// Returns [`PrototypeHead::logits`] for the members of a pack, with a head each or one for all.
    ///
    /// # Errors
    /// Returns an error if the features have another width, or there is neither one head nor one per member.
    pub fn pack_logits(
        &self,
        features: &Tensor,
        members: &SampleGroups,
    ) -> Result<Tensor, ModelError> {
        let products = ops::grouped_linear(features, &self.prototypes, None, members)?;
        let own = ops::sum(&features.sqr()?, 1)?;
        let squares = ops::sum(&self.prototypes.sqr()?, D::Minus1)?;
        let squares = match squares.rank() {
            1 => squares.broadcast_as(products.shape())?,
            _ => squares.index_select(&members.index(features.device())?, 0)?,
        };
        let squares = ops::shift_rows(&squares, &own)?.sub(&(products * 2.0)?)?;
        let width = 1.0 / features.dim(1)? as f64;
        Ok(squares.maximum(NEAREST)?.affine(width, 0.0)?.sqrt()?.neg()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ops::testing::{draw, finite_difference};
    use crate::numerics::streams::Domain;
    use candle_core::Result;

    fn of(prototypes: &Tensor) -> PrototypeHead {
        PrototypeHead { prototypes: prototypes.clone() }
    }

    #[test]
    fn gradients_are_finite_differences_and_logits_are_distances() -> Result<()> {
        let (f, p) = (draw("f", (3, 6)), draw("p", (4, 6)));
        let logits = |t: &[Tensor]| of(&t[1]).logits(&t[0]).map_err(candle_core::Error::wrap);
        finite_difference(&[&f, &p], logits);
        let found = logits(&[f.clone(), p.clone()])?.to_vec2::<f32>()?;
        let (f, p) = (f.to_vec2::<f32>()?, p.to_vec2::<f32>()?);
        for (i, c) in [(0, 0), (2, 3), (1, 2)] {
            let square: f32 = f[i].iter().zip(&p[c]).map(|(f, p)| (f - p) * (f - p)).sum();
            assert!((found[i][c] + (square / 6.0).sqrt()).abs() < 1e-6);
        }
        Ok(())
    }

    /// PILoRA card, invariant 5: the nearest prototype is where `<f, p> - |p|^2 / 2` is largest. At a prototype there
    /// is a finite slope.
    #[test]
    fn the_nearest_wins_and_at_a_prototype_nothing_breaks() -> Result<()> {
        let (f, p) = (draw("f", (5, 6)), draw("p", (4, 6)));
        let best = |scores: Tensor| scores.argmax(1)?.to_vec1::<u32>();
        let products = f.matmul(&p.t()?)?;
        let half = (p.sqr()?.sum(1)? * 0.5)?;
        let other = best(products.broadcast_sub(&half)?)?;
        assert_eq!(best(of(&p).logits(&f).map_err(candle_core::Error::wrap)?)?, other);

        let at = candle_core::Var::from_tensor(&p.narrow(0, 1, 1)?.contiguous()?)?;
        let logits = of(&p).logits(&at).map_err(candle_core::Error::wrap)?;
        assert!(logits.to_vec2::<f32>()?[0][1] > -1e-3);
        let gradients = logits.sum_all()?.backward()?;
        let gradient = gradients.get(&at).expect("a gradient").to_vec2::<f32>()?;
        assert!(gradient[0].iter().all(|g| g.is_finite()));
        Ok(())
    }

    #[test]
    fn a_head_per_member_agrees_with_each_alone() -> std::result::Result<(), ModelError> {
        let groups = SampleGroups::new([2, 0, 1]);
        let (f, p) = (draw("f", (3, 6)), draw("p", (3, 4, 6)));
        let together = of(&p).pack_logits(&f, &groups)?.to_vec2::<f32>()?;
        for (member, run) in groups.runs().enumerate().filter(|(_, run)| !run.is_empty()) {
            let own = f.narrow(0, run.start, run.len())?;
            assert_eq!(together[run], of(&p.get(member)?).logits(&own)?.to_vec2::<f32>()?);
        }
        // One head for all.
        let shared = of(&p.get(1)?);
        let all = shared.pack_logits(&f, &groups)?.to_vec2::<f32>()?;
        assert_eq!(all[..2], shared.logits(&f.narrow(0, 0, 2)?)?.to_vec2::<f32>()?);
        Ok(())
    }

    #[test]
    fn parameters_are_checked_and_train() -> std::result::Result<(), ModelError> {
        let start = PrototypeHead::initial_parameters(50, 8, StreamKey::new(1, Domain::Init));
        let values = &start.get(PrototypeHead::PROTOTYPES).unwrap().values;
        let variance = values.iter().map(|v| v * v).sum::<f32>() / 400.0;
        assert!((variance / 0.01 - 1.0).abs() < 0.3, "{variance}");
        let (head, variables) = PrototypeHead::trainable_at(&start, &Device::Cpu)?;
        assert_eq!((head.classes()?, variables.len()), (50, 1));
        assert_eq!(ParameterSet::snapshot(&variables)?, start);
        let error = PrototypeHead::frozen_at(&ParameterSet::new(), &Device::Cpu).unwrap_err();
        assert!(error.to_string().contains("head.prototypes"), "{error}");
        Ok(())
    }
}
