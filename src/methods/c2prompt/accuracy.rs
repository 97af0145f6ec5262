//! What mixing does to answers: slots are tested on the spot, by a server that could not do so outside a simulation.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::server::C2PromptServer;
use crate::data::Loader;
use crate::learning::evaluation::evaluate;
use crate::policy::{Lab, PolicyError, Scope, Server};

impl C2PromptServer {
    /// Accuracy on the test images of some slots, each with its task known: the mean over slots, 0 for none. Slots
    /// with the same head rows count as one. Draws nothing and changes nothing.
    pub(super) fn accuracy(&self, slots: &[usize], lab: &Lab) -> Result<f64, PolicyError> {
        let table = self.powder.table().slots();
        let tasks: BTreeSet<(usize, usize)> =
            slots.iter().map(|slot| (table[*slot].rows.start, table[*slot].rows.end)).collect();
        let predictor = self.powder.predictor(lab)?;
        let (test, curriculum) = (&lab.dataset.test, &lab.curriculum);
        let mut sum = 0.0;
        for rows in tasks.iter().map(|(start, end)| *start..*end) {
            let row = |sample: &u32| curriculum.row_of(test.labels()[*sample as usize]) as usize;
            let own = (0..test.len() as u32).filter(|sample| rows.contains(&row(sample)));
            let (transform, scope) = (&lab.statistics_transform, Scope::Task(rows.clone()));
            let loader = Loader::new(
                Arc::clone(test),
                own.collect(),
                Arc::clone(curriculum),
                Arc::clone(transform),
            );
            let loader = lab.frozen_of(loader, &*predictor)?;
            let classes = curriculum.classes();
            let tally = evaluate(&loader, lab.evaluation_batch, classes, rows.clone(), |batch| {
                predictor.batch_scores(batch, &lab.device, &scope)
            })?;
            sum += tally.accuracy(rows);
        }
        Ok(sum / tasks.len().max(1) as f64)
    }
}
