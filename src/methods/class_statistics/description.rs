//! Class statistics in uploads: moments of the features of a client's classes.

use std::sync::Arc;

use super::{ClassGaussian, ClassMean, ClassStatistics, CovarianceForm, messages};
use crate::learning::Classifier;
use crate::methods::averaging::{LocalTrainingResult, PackClient, sample_count};
use crate::methods::parts::{ClassMeans, ClientContext, UploadExtras};
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
    /// Returns the settings of the descriptions.
    fn descriptions(&self) -> Descriptions;

    /// Returns the part for class means; `None` if uploads describe no class.
    fn as_class_means(&self) -> Option<&dyn ClassMeans>
    where
        Self: Sized,
    {
        self.descriptions().used.then_some(self)
    }

    /// Returns the width of a feature.
    fn feature_width(&self, model: &ModelFacts) -> usize;

    /// Returns the time at which the size of an upload is known.
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

    fn size(&self) -> UploadSize {
        DescribesClasses::size(self)
    }

    fn work(&self, samples: usize) -> f64 {
        DescribesClasses::work(self, samples)
    }
}

impl<M: DescribesClasses> ClassMeans for M {
    fn class_means(&self, update: &Message) -> Result<Vec<ClassDisclosure>, PolicyError> {
        let disclosure = |ClassMean { row, count, mean }| ClassDisclosure {
            row: row as usize,
            samples: count,
            mean,
        };
        Ok(ClassMean::reported(update)?.into_iter().map(disclosure).collect())
    }
}

/// Settings of the descriptions in uploads, which are computed with the client's trained model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Descriptions {
    /// True if the server uses them; otherwise uploads describe no class.
    pub used: bool,
    /// Smallest number of samples of a class for which a client describes it.
    pub least: u32,
    /// Description of the spread of features around their mean; `None` if only means are sent.
    pub spread: Option<FeatureSpread>,
}

/// Spread of features around the mean of their class.
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

    /// Returns the control fields of an upload whose head rows begin at `first_row`.
    fn fields(self, facts: &ExchangeFacts<'_>, first_row: usize) -> Vec<u8> {
        messages::fields(first_row, &self.rows(facts))
    }

    /// Returns the specifications of the tensors that describe classes, with features of width `dim`.
    fn places(self, facts: &ExchangeFacts<'_>, dim: usize) -> Vec<TensorSpec> {
        let n = self.rows(facts).len();
        match self.spread {
            Some(FeatureSpread { form, .. }) => messages::places(n, dim, form),
            None => ClassMean::places(n, dim),
        }
    }

    /// Validates that features can be drawn from the Gaussians of an upload.
    ///
    /// An error rejects the upload, but does not end the run.
    fn accepts(self, update: &Message) -> Result<(), PolicyError> {
        match self.spread {
            Some(FeatureSpread { scale, .. }) => messages::check_drawable(update, scale),
            None => Ok(()),
        }
    }

    /// Returns the time at which the size of an upload is known: it depends on the classes of the client's shard.
    fn size(self) -> UploadSize {
        if self.used { UploadSize::FromShard } else { UploadSize::Static }
    }

    /// Returns the sample passes for descriptions: one forward pass, a third of a training pass.
    fn work(self, samples: usize) -> f64 {
        if self.used { samples as f64 / 3.0 } else { 0.0 }
    }

    /// Returns the tensors that describe all classes with enough samples; `None` if there is no such class.
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

/// Features of the samples of a class, all of one width.
pub struct ClassFeatures {
    /// Head row of the class.
    pub row: u32,
    pub features: Vec<Vec<f32>>,
}

impl ClassFeatures {
    /// Returns the number and the mean of the features, of which there is at least one.
    fn mean(&self) -> ClassMean {
        let DiagonalGaussian { count, mean, .. } =
            DiagonalGaussian::fit(self.features[0].len(), self.features.iter());
        ClassMean { row: self.row, count, mean }
    }
}

/// Returns the features of a client's samples by class, computed with the model just trained.
///
/// Images are transformed as for statistics. The list has every class of the client's view, also those without samples.
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
