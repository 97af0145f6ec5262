//! Exchange after the training of a task.

use super::{ClientContext, Demands};
use crate::data::TaskView;
use crate::methods::averaging::{ClosedRound, PackClient};
use crate::policy::{ExchangeFacts, Metrics, ModelFacts, PolicyError, TensorSpec};
use crate::wire::Section;

/// Exchange after the training of a task: every participant gets the parameters once more and returns a report.
///
/// The report changes no parameter.
pub trait FinalExchange<S, M> {
    /// Returns the name of the phase.
    fn name(&self) -> &'static str;

    /// Returns the number of rounds of a task that train, out of the `rounds` of the scenario.
    fn training_rounds(&self, rounds: u32) -> u32 {
        rounds
    }

    /// Returns true if its downloads come with the assets of training, too.
    fn sends_assets(&self) -> bool {
        false
    }

    /// Returns the specifications of a report's tensors.
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec>;

    /// Returns the tensors of a client's report, and metrics for the journal.
    ///
    /// # Errors
    /// An error means that the participant fails and sends nothing.
    fn report(
        &self,
        context: &ClientContext<'_>,
        member: &mut PackClient<'_, S>,
    ) -> Result<(Vec<Section>, Metrics), PolicyError>;

    /// Updates the server's memory with the aggregate of the reports; returns metrics of the round.
    ///
    /// # Errors
    /// An error ends the run.
    fn aggregate(&self, memory: &mut M, closing: ClosedRound<'_>) -> Result<Metrics, PolicyError>;

    /// Returns sample passes of a report, for virtual time.
    fn work(&self, model: &ModelFacts, view: &TaskView, samples: usize) -> f64 {
        let _ = (model, view);
        samples as f64
    }

    /// Returns the demands of the exchange on scenario and engine.
    fn demands(&self) -> Demands {
        Demands::default()
    }
}
