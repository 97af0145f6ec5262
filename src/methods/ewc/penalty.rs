//! Cross-entropy with a penalty on the distance from an earlier model.

use std::ops::Range;

use candle_core::{Tensor, Var};

use crate::learning::losses::anchored;
use crate::learning::{Classifier, LearningError};
use crate::methods::TaskLabels;
use crate::methods::averaging::{Objective, TrainingStep};
use crate::model::ParameterSet;

/// Cross-entropy plus EWC's penalty, for members with an anchor.
pub(super) struct EwcObjective {
    held: Vec<Option<Vec<VariableAnchor>>>,
    strength: f64,
    /// Form of labels, and the head rows of the task.
    labels: (TaskLabels, Range<usize>),
}

/// Anchor of a variable: earlier values, and the importance of each.
struct VariableAnchor {
    anchor: Vec<f32>,
    importance: Vec<f32>,
}

impl EwcObjective {
    /// Creates the penalty from the members' earlier models and Fisher information, and its strength.
    ///
    /// Rows that an earlier model did not have get no penalty.
    pub fn new(
        network: &Classifier,
        anchors: Vec<Option<(ParameterSet, ParameterSet)>>,
        strength: f64,
        labels: (TaskLabels, Range<usize>),
    ) -> EwcObjective {
        let numbers = |set: &ParameterSet, name: &str| -> Vec<f32> {
            let known = set.get(name).map(|known| &known.values[..]).unwrap_or_default();
            let place = network.place_of(name).unwrap_or_default();
            place.map(|at| known.get(at).copied().unwrap_or(0.0)).collect()
        };
        let of = |(anchor, importance): (ParameterSet, ParameterSet)| {
            let held = network.variables().iter().map(|(name, _)| VariableAnchor {
                anchor: numbers(&anchor, name),
                importance: numbers(&importance, name),
            });
            held.collect()
        };
        let held = anchors.into_iter().map(|anchor| anchor.map(of)).collect();
        EwcObjective { held, strength, labels }
    }

    /// Returns each member's cross-entropy, `(members)`.
    fn cross_entropy(&self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let (labels, task) = &self.labels;
        let rows = pass.step.batch.labels().iter().map(|row| labels.row(*row, task));
        Ok(pass.labeled_outputs(&rows.collect::<Vec<_>>())?.losses)
    }

    /// Returns the penalty of one member of a pack of `members`; `None` without variables.
    fn of_member(
        &self,
        (held, member, members): (&[VariableAnchor], usize, usize),
        variables: &[(std::sync::Arc<str>, Var)],
    ) -> Result<Option<Tensor>, LearningError> {
        let mut all: Option<Tensor> = None;
        for ((_, variable), VariableAnchor { anchor, importance }) in variables.iter().zip(held) {
            let own = match members {
                1 => variable.as_tensor().clone(),
                _ => variable.narrow(0, member, 1)?,
            };
            let one = anchored(&own, anchor, importance, self.strength)?;
            all = Some(match all {
                Some(sum) => (sum + one)?,
                None => one,
            });
        }
        Ok(all)
    }
}

impl Objective for EwcObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let losses = self.cross_entropy(pass)?;
        if self.held.iter().all(Option::is_none) {
            return Ok(losses);
        }
        let members = pass.model.members();
        let mut penalties = Vec::with_capacity(members);
        for (member, held) in self.held.iter().enumerate() {
            // A member without a sample in this step does not move, and its loss is not read.
            let penalty = match held {
                Some(held) => self.of_member((held, member, members), pass.model.variables())?,
                None => None,
            };
            let none = || Tensor::zeros((), losses.dtype(), losses.device());
            penalties.push(penalty.map_or_else(none, Ok)?);
        }
        Ok((&losses + Tensor::stack(&penalties, 0)?.reshape(losses.shape())?)?)
    }
}
