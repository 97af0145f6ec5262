//! Prototypes at the server: a mean over clients, weighted by distances from the mean features that clients report.

use super::weights::{heuristic_weights, weighted};
use super::{Pilora, Unreported};
use crate::data::TaskView;
use crate::methods::averaging::{ClosedRound, LatestTask};
use crate::methods::class_statistics::ClassMean;
use crate::methods::parts::{Demands, ServerUpdate};
use crate::model::{Parameter, ParameterSet, PrototypeHead};
use crate::policy::{Capability, KeptUpload, Message, Metrics, PolicyError};
use crate::wire::{MetaReader, WireError};

impl ServerUpdate<LatestTask> for Pilora {
    fn server_update(
        &self,
        _memory: &mut LatestTask,
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        // PILoRA replaces the plain mean of prototypes, which `theta` holds here, by its own.
        let before = closing.before.filter(|name| name == PrototypeHead::PROTOTYPES);
        *theta = std::mem::take(theta).merge(&before);
        self.merge(&closing.aggregate.kept_uploads, &closing.round.stage.view, theta)
    }

    fn demands(&self) -> Demands {
        Demands::restricting(
            &[Capability::MixedTasks],
            "its server weighs prototypes of one task's classes",
        )
    }
}

impl Pilora {
    /// Merges the clients' prototypes into `theta`, weighted by the reports with enough features.
    fn merge(
        &self,
        kept: &[KeptUpload],
        view: &TaskView,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let mut reports = Vec::new();
        let mut clients = Vec::new();
        for upload in kept {
            let own = upload.update.parameters.get(PrototypeHead::PROTOTYPES);
            let missing = || WireError::Malformed("an upload without prototypes".to_owned());
            clients.push((own.ok_or_else(missing)?, first_row(&upload.update)?));
            reports.extend(ClassMean::reported(&upload.update)?);
        }
        let Some(whole) = theta.get(PrototypeHead::PROTOTYPES).cloned() else {
            return Ok(Vec::new());
        };
        let width = whole.width();
        let (mut values, mut met) = (whole.values.to_vec(), 0);
        for row in view.rows.clone() {
            let counts = |report: &&ClassMean| {
                report.row as usize == row && report.count > u64::from(self.min_features)
            };
            let features: Vec<Vec<f64>> =
                reports.iter().filter(counts).map(|report| report.mean.clone()).collect();
            met += usize::from(!features.is_empty());
            let own = |(prototypes, first): &(&Parameter, usize)| -> Option<Vec<f64>> {
                let at = row.checked_sub(*first)? * width;
                let own = prototypes.values.get(at..at + width)?;
                Some(own.iter().map(|value| f64::from(*value)).collect())
            };
            let prototypes: Vec<Vec<f64>> = clients.iter().filter_map(own).collect();
            if prototypes.is_empty() || features.is_empty() && self.unreported == Unreported::Keep {
                continue;
            }
            let weights = heuristic_weights(&prototypes, &features, self.sharpness);
            let merged = weighted(&prototypes, &weights);
            let place = &mut values[row * width..(row + 1) * width];
            place.iter_mut().zip(&merged).for_each(|(to, from)| *to = *from as f32);
        }
        let shape = whole.shape;
        theta.insert(PrototypeHead::PROTOTYPES, Parameter { shape, values: values.into() });
        Ok(vec![("reported_classes", met as f64)])
    }
}

/// Returns the head row at which an upload's prototypes start.
fn first_row(update: &Message) -> Result<usize, WireError> {
    Ok(MetaReader::new(&update.control).u64()? as usize)
}
