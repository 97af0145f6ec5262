//! Accuracy before and after mixing, for the journal.
//!
//! The server tests client tasks directly, which it could not do outside of a simulation.

use std::collections::BTreeSet;

use super::server::C2PromptServer;
use crate::policy::{PolicyError, RunContext, Server};

impl C2PromptServer {
    /// Returns the mean accuracy over some client tasks, each on its own test images with its task known.
    ///
    /// `None` if no client task has test images. Client tasks with the same head rows count as one. No random numbers
    /// are drawn, and no state changes.
    pub(super) fn accuracy(
        &self,
        client_tasks: &[usize],
        ctx: &RunContext,
    ) -> Result<Option<f64>, PolicyError> {
        let table = self.powder.table().entries();
        let tasks: BTreeSet<(usize, usize)> = client_tasks
            .iter()
            .map(|client_task| (table[*client_task].rows.start, table[*client_task].rows.end))
            .collect();
        let predictor = self.powder.predictor(ctx)?;
        let (mut sum, mut tested) = (0.0, 0);
        for (start, end) in &tasks {
            let within =
                ctx.accuracy_within(*start..*end, &ctx.statistics_transform, &*predictor)?;
            sum += within.unwrap_or(0.0);
            tested += usize::from(within.is_some());
        }
        Ok((tested > 0).then(|| sum / tested as f64))
    }
}
