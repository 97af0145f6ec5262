//! Prototypes of a client: Gaussians of the features of its classes, and the tensors of an upload with them.

use std::sync::Arc;

use super::prototypes::{COUNTS, Gaussian, MEANS, VARIANCES, prototypes_of};
use super::{Features, Pip, Weighing};
use crate::learning::Classifier;
use crate::methods::averaging::{LocalTrainingResult, PackClient, sample_count};
use crate::methods::class_statistics::described;
use crate::methods::parts::{ClassMeans, ClientContext, ModelAdaptation, UploadExtras};
use crate::model::ParameterSet;
use crate::numerics::gaussian::DiagonalGaussian;
use crate::policy::{
    ClassDisclosure, ExchangeFacts, Message, ModelFacts, PolicyError, Predictor, RunContext,
    TensorSpec, UploadSize,
};
use crate::wire::{Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};

/// Number of samples of a class from which it is reported.
const LEAST: u32 = 2;

impl Pip {
    /// Returns the model that computes the features of Gaussians, with the expert that `features` selects.
    fn describing(
        &self,
        model: &ModelFacts,
        task: usize,
        parameters: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<Classifier, PolicyError> {
        let prompting = self.base.prompting(model, task, self.features == Features::Trained);
        Ok(Classifier::frozen_with(&ctx.backbone, parameters, prompting)?)
    }

    /// Returns a Gaussian of the trained model's features for every class with enough samples, by head row.
    fn gaussians(
        &self,
        member: &PackClient<'_, ()>,
        trained: &LocalTrainingResult,
        ctx: &RunContext,
    ) -> Result<Vec<DiagonalGaussian>, PolicyError> {
        let (view, model) = (&member.participant.view, &ctx.facts(0));
        let local = self.describing(model, view.task.index(), &trained.parameters, ctx)?;
        let loader =
            ctx.with_frozen_features(ctx.statistics_loader(member.shard), local.frozen_part())?;
        let loader = ctx.with_queries(loader, self.base.prompted.query)?;
        let mut classes = vec![Vec::new(); view.rows.len()];
        for batch in loader.in_order(ctx.evaluation_batch) {
            let batch = batch?;
            let found = local.batch_features(&batch, &ctx.device)?.to_vec2::<f32>()?;
            for (feature, label) in found.into_iter().zip(batch.labels()) {
                classes[*label as usize - view.rows.start].push(feature);
            }
        }
        let enough = classes.iter().filter(|class| class.len() >= LEAST as usize);
        Ok(enough.map(|class| DiagonalGaussian::fit(ctx.backbone.dim(), class.iter())).collect())
    }
}

impl UploadExtras<()> for Pip {
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let (n, dim) = (described(facts.counts, LEAST).len(), facts.model.backbone.dim());
        let place = |name, shape: &[usize], dtype| {
            TensorSpec::new(Kind::Prototypes, name, shape, dtype).kept()
        };
        let mut places = vec![sample_count()];
        if n > 0 {
            places.push(place(MEANS, &[n, dim], Dtype::F32));
            places.push(place(VARIANCES, &[n, dim], Dtype::F32));
            if self.proto_weights == Weighing::Classes {
                places.push(place(COUNTS, &[n], Dtype::U32));
            }
        }
        places
    }

    fn sections(
        &self,
        &ClientContext { ctx, .. }: &ClientContext<'_>,
        member: &PackClient<'_, ()>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        let mut sections = vec![trained.sample_count()?];
        let gaussians = self.gaussians(member, trained, ctx)?;
        if gaussians.is_empty() {
            return Ok(sections);
        }
        let narrow = |of: fn(&DiagonalGaussian) -> &Vec<f64>| {
            gaussians.iter().flat_map(|one| of(one).iter().map(|v| *v as f32)).collect::<Vec<_>>()
        };
        let (n, dim) = (gaussians.len(), ctx.backbone.dim());
        let mut tensors = vec![
            NamedTensor::f32(MEANS, [n, dim], narrow(|one| &one.mean))?,
            NamedTensor::f32(VARIANCES, [n, dim], narrow(|one| &one.variance))?,
        ];
        if self.proto_weights == Weighing::Classes {
            let counts = gaussians.iter().map(|one| one.count as u32).collect::<Vec<u32>>();
            tensors.push(NamedTensor::u32(COUNTS, [n], counts)?);
        }
        sections.push(Section::new(Kind::Prototypes, tensors));
        Ok(sections)
    }

    /// Returns the control fields of DualPrompt, followed by the head rows of the described classes.
    fn fields(&self, facts: &ExchangeFacts<'_>, _first_row: usize, usual: Vec<u8>) -> Vec<u8> {
        let mut rows = MetaWriter::new();
        rows.u32s(&described(facts.counts, LEAST));
        [usual, rows.finish()].concat()
    }

    fn size(&self) -> UploadSize {
        UploadSize::FromShard
    }

    /// Returns the passes of a forward pass for the features.
    fn work(&self, samples: usize) -> f64 {
        samples as f64 / 3.0
    }
}

impl ClassMeans for Pip {
    fn class_means(&self, update: &Message) -> Result<Vec<ClassDisclosure>, PolicyError> {
        let disclosure = |(row, Gaussian { mean, .. }): (u32, Gaussian)| ClassDisclosure {
            row: row as usize,
            samples: 0,
            mean,
        };
        let reported = prototypes_of(update, &described_in(update)?)?;
        Ok(reported.into_iter().map(disclosure).collect())
    }

    /// Returns the model with the expert that computes features for prototypes.
    fn describing_model(
        &self,
        &ClientContext { model, ctx, .. }: &ClientContext<'_>,
        task: usize,
        whole: &ParameterSet,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        Ok(Some(Arc::new(self.describing(model, task, whole, ctx)?)))
    }
}

/// Returns the head rows of the Gaussians in an upload, from its control fields.
///
/// # Errors
/// When the control fields have another form.
pub(super) fn described_in(update: &Message) -> Result<Vec<u32>, WireError> {
    let mut fields: MetaReader<'_> = update.fields();
    fields.u64()?;
    fields.u64()?;
    let rows = fields.u32s()?;
    fields.finish()?;
    Ok(rows)
}
