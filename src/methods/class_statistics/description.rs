//! Descriptions of the features of a client's classes.

use std::sync::Arc;

use super::{ClassGaussian, ClassMean, ClassStatistics, CovarianceForm, messages};
use crate::learning::Classifier;
use crate::methods::averaging::{LocalTrainingResult, PackClient, sample_count};
use crate::methods::parts::{ClientContext, UploadExtras};
use crate::numerics::gaussian::DiagonalGaussian;
use crate::numerics::streams::Domain;
use crate::policy::{
    ClassDisclosure, ExchangeFacts, Message, ModelFacts, PolicyError, RunContext, TensorSpec,
    UploadSize,
};
use crate::wire::Section;

/// Method whose uploads describe the features of the clients' classes.
///
/// The description follows the sample count.
pub trait DescribesClasses {
    /// Returns the content of the descriptions.
    fn descriptions(&self) -> Descriptions;

    /// Returns the number of entries of a feature.
    fn feature_width(&self, model: &ModelFacts) -> usize;

    /// Returns when the size of an upload is known.
    fn size(&self) -> UploadSize {
        self.descriptions().size()
    }

    /// Returns sample passes of the descriptions, for virtual time.
    fn work(&self, samples: usize) -> f64 {
        self.descriptions().work(samples)
    }
}

impl<M: DescribesClasses> UploadExtras<()> for M {
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let mut places = vec![sample_count()];
        places.extend(self.descriptions().places(facts, self.feature_width(facts.model)));
        places
    }

    fn sections(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, ()>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        let mut sections = vec![trained.sample_count()?];
        sections.extend(self.descriptions().section(member, trained, context.ctx)?);
        Ok(sections)
    }

    fn fields(&self, facts: &ExchangeFacts<'_>, first_row: usize, _usual: Vec<u8>) -> Vec<u8> {
        self.descriptions().fields(facts, first_row)
    }

    fn validate(&self, update: &Message) -> Result<(), PolicyError> {
        self.descriptions().accepts(update)
    }

    fn has_class_means(&self) -> bool {
        self.descriptions().used
    }

    fn class_means(&self, update: &Message) -> Result<Vec<ClassDisclosure>, PolicyError> {
        let disclosure = |ClassMean { row, count, mean }| ClassDisclosure {
            row: row as usize,
            samples: count,
            mean,
        };
        Ok(ClassMean::said(update)?.into_iter().map(disclosure).collect())
    }

    fn size(&self) -> UploadSize {
        DescribesClasses::size(self)
    }

    fn work(&self, samples: usize) -> f64 {
        DescribesClasses::work(self, samples)
    }
}

/// Descriptions of class features in uploads, computed by the model as the client just trained it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descriptions {
    /// True if the server uses them; otherwise no class is described and the control fields list none.
    pub used: bool,
    /// Samples that a client must have of a class to describe it.
    pub least: u32,
    /// Description of the features around their mean; `None` if only the mean is used.
    pub spread: Option<FeatureSpread>,
}

/// Features around the mean of their class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FeatureSpread {
    /// Form of the covariance of the Gaussians.
    pub form: CovarianceForm,
    /// Factor by which the server multiplies covariances before it draws.
    pub scale: f64,
}

impl Descriptions {
    /// Returns the head rows of the classes that an upload describes.
    fn rows(self, facts: &ExchangeFacts<'_>) -> Vec<u32> {
        if self.used { messages::described(facts.counts, self.least) } else { Vec::new() }
    }

    /// Returns the control fields of an upload whose head begins at this row.
    fn fields(self, facts: &ExchangeFacts<'_>, first_row: usize) -> Vec<u8> {
        messages::fields(first_row, &self.rows(facts))
    }

    /// Returns the places of features of this width.
    fn places(self, facts: &ExchangeFacts<'_>, dim: usize) -> Vec<TensorSpec> {
        let n = self.rows(facts).len();
        match self.spread {
            Some(FeatureSpread { form, .. }) => messages::places(n, dim, form),
            None => ClassMean::places(n, dim),
        }
    }

    /// Refuses an upload with a Gaussian that cannot be drawn from: it is that client's fault, not the end of the run.
    fn accepts(self, update: &Message) -> Result<(), PolicyError> {
        match self.spread {
            Some(FeatureSpread { scale, .. }) => messages::drawable(update, scale),
            None => Ok(()),
        }
    }

    /// Returns when the size of an upload is known: it depends on the classes that a client has.
    fn size(self) -> UploadSize {
        if self.used { UploadSize::FromShard } else { UploadSize::Static }
    }

    /// Returns the sample passes of a client besides training: one forward pass, a third of a training pass.
    fn work(self, samples: usize) -> f64 {
        if self.used { samples as f64 / 3.0 } else { 0.0 }
    }

    /// The tensors of the places, of every class with enough samples; none where there is no such class.
    ///
    /// # Errors
    /// As [`features_by_class`].
    fn section<S>(
        self,
        member: &PackClient<'_, S>,
        trained: &LocalTrainingResult,
        ctx: &RunContext,
    ) -> Result<Option<Section>, PolicyError> {
        if !self.used {
            return Ok(None);
        }
        let all = features_by_class(member, trained, ctx)?;
        let enough = all.iter().filter(|class| class.features.len() >= self.least as usize);
        Ok(match self.spread {
            Some(FeatureSpread { form, .. }) => {
                let dim = ctx.backbone.dim();
                let gaussians = enough.map(|ClassFeatures { row, features }| {
                    let gaussian = ClassGaussian::fit(form, dim, features);
                    Arc::new(ClassStatistics { row: *row, gaussian })
                });
                messages::section(&gaussians.collect::<Vec<_>>())
            }
            None => ClassMean::section(&enough.map(ClassFeatures::mean).collect::<Vec<_>>()),
        })
    }
}

/// The features of a class, each of as many numbers.
pub struct ClassFeatures {
    /// Head row of the class.
    pub row: u32,
    pub features: Vec<Vec<f32>>,
}

impl ClassFeatures {
    /// Returns the mean of at least one feature.
    fn mean(&self) -> ClassMean {
        let DiagonalGaussian { count, mean, .. } =
            DiagonalGaussian::fit(self.features[0].len(), self.features.iter());
        ClassMean { row: self.row, count, mean }
    }
}

/// Returns the features of a client's samples by the model just trained, class by class.
///
/// Images are those of the statistics transform. All classes of the client's view are listed, also those of which it
/// has none.
///
/// # Errors
/// When the parameters do not fit the backbone, or a sample cannot be read.
pub fn features_by_class<S>(
    member: &PackClient<'_, S>,
    trained: &LocalTrainingResult,
    ctx: &RunContext,
) -> Result<Vec<ClassFeatures>, PolicyError> {
    let rows = &member.participant.view.rows;
    let local = Classifier::frozen(&ctx.backbone, &trained.parameters)?;
    let loader =
        ctx.with_frozen_features(ctx.statistics_loader(member.shard), local.frozen_part())?;
    let mut classes: Vec<ClassFeatures> =
        rows.clone().map(|row| ClassFeatures { row: row as u32, features: Vec::new() }).collect();
    let key = member.key.domain(Domain::Augment);
    for batch in loader.in_order_drawn(ctx.evaluation_batch, key) {
        let batch = batch?;
        let found = local.batch_features(&batch, &ctx.device)?.to_vec2::<f32>()?;
        for (feature, label) in found.into_iter().zip(batch.labels()) {
            classes[*label as usize - rows.start].features.push(feature);
        }
    }
    Ok(classes)
}
