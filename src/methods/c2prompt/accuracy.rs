//! Effect of mixing on predictions: the server tests client tasks directly, which it could not do outside a simulation.

use std::collections::BTreeSet;

use super::server::C2PromptServer;
use crate::policy::{PolicyError, RunContext, Server};

impl C2PromptServer {
    /// Returns the accuracy on the test images of some client tasks, each with its task known: the mean over client
    /// tasks that have such images, `None` where none has. Client tasks with the same head rows count as one. Draws
    /// nothing and changes nothing.
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
