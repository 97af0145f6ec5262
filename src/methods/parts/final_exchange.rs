//! Exchange after the training of a task.

use super::ClientContext;
use crate::data::TaskView;
use crate::methods::averaging::{ClosedRound, PackClient};
use crate::policy::{ExchangeFacts, Metrics, ModelFacts, PolicyError, TensorSpec};
use crate::wire::Section;

/// Exchange after the training of a task: every participant gets the parameters once more and answers with a
/// report, which changes no parameter.
pub trait FinalExchange<S, M> {
    /// Returns the name of the phase.
    fn name(&self) -> &'static str;

    /// Returns the number of rounds of a task that train, of those that the scenario asks for.
    fn training_rounds(&self, rounds: u32) -> u32 {
        rounds
    }

    /// Returns true if its downloads name the assets of training, too.
    fn sends_assets(&self) -> bool {
        false
    }

    /// Returns the places of a report.
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec>;

    /// Returns the tensors of a report, and what the journal says of them.
    ///
    /// # Errors
    /// What makes the member fail.
    fn report(
        &self,
        context: &ClientContext<'_>,
        member: &mut PackClient<'_, S>,
    ) -> Result<(Vec<Section>, Metrics), PolicyError>;

    /// Takes in the aggregate of the reports; returns metrics of the round.
    ///
    /// # Errors
    /// What ends the run.
    fn aggregate(&self, memory: &mut M, closing: ClosedRound<'_>) -> Result<Metrics, PolicyError>;

    /// Returns sample passes of a report, for virtual time.
    fn work(&self, model: &ModelFacts, view: &TaskView, samples: usize) -> f64 {
        let _ = (model, view);
        samples as f64
    }
}
