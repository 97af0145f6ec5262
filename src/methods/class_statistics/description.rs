//! What a client finds out about the features of its classes.

use std::sync::Arc;

use super::{ClassGaussian, ClassStatistics, CovarianceForm, messages};
use crate::learning::Classifier;
use crate::methods::averaged::{Client, Trained};
use crate::numerics::streams::Domain;
use crate::policy::{Lab, PolicyError};
use crate::wire::Section;

/// The features of a class, each of as many numbers.
pub struct ClassFeatures {
    /// Head row of the class.
    pub row: u32,
    pub features: Vec<Vec<f32>>,
}

/// Features of a client's samples by the model as it was just trained, class by class, on images of the statistics
/// transform. Of every class of the client's view, also those of which it has none.
///
/// # Errors
/// When the parameters do not fit the backbone, or a sample cannot be read.
pub fn features_by_class<S>(
    member: &Client<'_, S>,
    trained: &Trained,
    lab: &Lab,
) -> Result<Vec<ClassFeatures>, PolicyError> {
    let rows = &member.seat.view.rows;
    let local = Classifier::frozen(&lab.backbone, &trained.parameters)?;
    let loader = lab.frozen(lab.statistics_loader(member.shard), local.frozen_part())?;
    let mut classes: Vec<ClassFeatures> =
        rows.clone().map(|row| ClassFeatures { row: row as u32, features: Vec::new() }).collect();
    let key = member.key.domain(Domain::Augment);
    for batch in loader.in_order_drawn(lab.evaluation_batch, key) {
        let batch = batch?;
        let found = local.batch_features(&batch, &lab.device)?.to_vec2::<f32>()?;
        for (feature, label) in found.into_iter().zip(batch.labels()) {
            classes[*label as usize - rows.start].features.push(feature);
        }
    }
    Ok(classes)
}

/// Gaussians of the features of every class with at least `least` samples.
///
/// # Errors
/// As [`features_by_class`].
pub fn describe<S>(
    form: CovarianceForm,
    least: u32,
    member: &Client<'_, S>,
    trained: &Trained,
    lab: &Lab,
) -> Result<Option<Section>, PolicyError> {
    let dim = lab.backbone.dim();
    let all = features_by_class(member, trained, lab)?;
    let enough = all.iter().filter(|class| class.features.len() >= least as usize);
    let fitted = enough.map(|ClassFeatures { row, features }| {
        let gaussian = ClassGaussian::fit(form, dim, features);
        Arc::new(ClassStatistics { row: *row, gaussian })
    });
    Ok(messages::section(&fitted.collect::<Vec<_>>()))
}
