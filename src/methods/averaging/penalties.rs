//! Linear and proximal penalties in the loss of a pack, besides the cross-entropy.

use std::ops::Range;

use candle_core::Tensor;

use super::parameter_vectors::per_variable;
use super::{Objective, TrainingStep};
use crate::learning::losses::{Linear, proximals};
use crate::learning::{Classifier, LearningError};
use crate::model::{ModelError, ParameterSet, Variables};

/// Linear penalty `<w, s_m>` of each member `m`, over all trained parameters `w`.
pub(in crate::methods) struct LinearPenalty {
    /// Term of every variable; `None` where the vectors of all members are zero.
    terms: Vec<Option<Linear>>,
    members: usize,
}

impl LinearPenalty {
    /// Creates the penalty from one set of vectors `s_m` per member; of the head they cover `rows`.
    ///
    /// # Errors
    /// When a vector is missing.
    pub fn new(
        network: &Classifier,
        sets: &[ParameterSet],
        rows: &Range<usize>,
    ) -> Result<LinearPenalty, ModelError> {
        let each = per_variable(network, sets, rows)?.into_iter().zip(network.variables());
        let term = |(slope, (_, variable)): (Vec<f32>, &(_, candle_core::Var))| {
            let moves = slope.iter().any(|value| *value != 0.0);
            moves.then(|| Linear::new(slope, variable)).transpose()
        };
        let terms = each.map(term).collect::<Result<_, _>>()?;
        Ok(LinearPenalty { terms, members: sets.len() })
    }

    /// Returns the losses with the penalty added, `(members)`.
    ///
    /// Without any term the losses are returned as they are, so that training gives the same bits.
    ///
    /// # Errors
    /// When the variables are not those of the network.
    pub fn added(&self, losses: Tensor, variables: &Variables) -> Result<Tensor, LearningError> {
        let terms = self.terms.iter().zip(variables);
        terms.into_iter().try_fold(losses, |sum, (term, (_, variable))| match term {
            Some(term) => Ok(sum.broadcast_add(&term.of(variable, self.members)?)?),
            None => Ok(sum),
        })
    }
}

/// Cross-entropy plus the linear penalty.
impl Objective for LinearPenalty {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        self.added(pass.outputs()?.losses, pass.model.variables())
    }
}

/// Proximal penalty `alpha_m / 2 |w - a_m|^2` of each member `m`, over all trained parameters `w`.
pub(in crate::methods) struct ProximalPenalty {
    alphas: Vec<f64>,
    /// Anchors `a_m`, by variable.
    anchors: Vec<Vec<f32>>,
}

impl ProximalPenalty {
    /// Creates the penalty of members with these strengths and anchors; of the head it covers `rows`.
    ///
    /// # Errors
    /// When an anchor is missing.
    pub fn new(
        network: &Classifier,
        (alphas, anchors): (Vec<f64>, &[ParameterSet]),
        rows: &Range<usize>,
    ) -> Result<ProximalPenalty, ModelError> {
        Ok(ProximalPenalty { alphas, anchors: per_variable(network, anchors, rows)? })
    }

    /// Returns the losses with the penalty added, `(members)`; unchanged if no `alpha_m` is positive.
    ///
    /// # Errors
    /// When the variables are not those of the network.
    pub fn added(&self, losses: Tensor, variables: &Variables) -> Result<Tensor, LearningError> {
        if self.alphas.iter().all(|alpha| *alpha <= 0.0) {
            return Ok(losses);
        }
        let terms = variables.iter().zip(&self.anchors);
        terms.into_iter().try_fold(losses, |sum, ((_, variable), anchor)| {
            Ok(sum.broadcast_add(&proximals(variable, anchor, &self.alphas)?)?)
        })
    }
}
