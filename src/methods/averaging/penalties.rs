//! Linear and proximal terms in the loss of a pack: what its clients add to every gradient.

use std::ops::Range;

use candle_core::Tensor;

use super::parameter_vectors::per_variable;
use super::{Objective, TrainingStep};
use crate::learning::losses::{Linear, proximals};
use crate::learning::{Classifier, LearningError};
use crate::model::{ModelError, ParameterSet, Variables};

/// `<w, s_m>` of every member over all that trains.
pub(in crate::methods) struct LinearPenalty {
    /// Term of every variable; none where all slopes are zero.
    terms: Vec<Option<Linear>>,
    members: usize,
}

impl LinearPenalty {
    /// Creates the terms of members with these vectors; of the head they cover `rows`.
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

    /// Returns the losses with the terms added, `(members)`. Where there is none the losses come back as they are, so
    /// that they train to the same bits.
    ///
    /// # Errors
    /// Other variables than those of the network.
    pub fn added(&self, losses: Tensor, variables: &Variables) -> Result<Tensor, LearningError> {
        let terms = self.terms.iter().zip(variables);
        terms.into_iter().try_fold(losses, |sum, (term, (_, variable))| match term {
            Some(term) => Ok(sum.broadcast_add(&term.of(variable, self.members)?)?),
            None => Ok(sum),
        })
    }
}

/// The cross-entropy with these terms.
impl Objective for LinearPenalty {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        self.added(pass.outputs()?.losses, pass.model.variables())
    }
}

/// `alpha_m / 2 |w - a_m|^2` of every member over all that trains.
pub(in crate::methods) struct ProximalPenalty {
    alphas: Vec<f64>,
    /// `a_m`, of every variable.
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

    /// Returns the losses with the terms added, `(members)`; the losses as they are where nothing pulls.
    ///
    /// # Errors
    /// Other variables than those of the network.
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
