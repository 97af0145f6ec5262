//! Moments of what enters the layers of the network of all tasks, which clients send.

use std::collections::BTreeMap;

use super::memory::Tasks;
use super::{Lorm, earlier_in};
use crate::data::TaskView;
use crate::learning::Classifier;
use crate::methods::averaging::{ClosedRound, LocalTrainingResult, PackClient, sample_count};
use crate::methods::parts::{ClientContext, FinalExchange, UploadExtras};
use crate::methods::regression::{Layer, values_of};
use crate::model::{Factor, ParameterSet, lora_name};
use crate::numerics::regression_mean::SecondMoments;
use crate::policy::{ExchangeFacts, Metrics, ModelFacts, PolicyError, RunContext, TensorSpec};
use crate::wire::{Kind, Section};

impl Lorm {
    /// Returns the multiplications per sample that the input moments of these layers cost.
    fn measuring(&self, layers: &[Layer]) -> f64 {
        layers.iter().map(|layer| self.statistics.measuring(layer)).sum()
    }

    /// Returns the input moments of a client's samples in the network of all tasks, by name of weight.
    ///
    /// The current task's pairs and head are those of `now`; earlier pairs come with the download.
    fn measure(
        &self,
        member: &PackClient<'_, ()>,
        now: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<BTreeMap<String, SecondMoments>, PolicyError> {
        let earlier = earlier_in(member.download)?;
        let network = Classifier::frozen(&ctx.backbone, &Lorm::averaged(&earlier, now)?)?;
        self.statistics.measure(&network, member, ctx)
    }
}

impl UploadExtras<()> for Lorm {
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let layers = self.measured(facts.model);
        let moments = layers.iter().map(|layer| self.statistics.place(layer));
        [sample_count()].into_iter().chain(moments).collect()
    }

    fn sections(
        &self,
        &ClientContext { ctx, .. }: &ClientContext<'_>,
        member: &PackClient<'_, ()>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        let moments = self.measure(member, &trained.parameters, ctx)?;
        let mut statistics = trained.sample_count()?;
        statistics
            .tensors
            .extend(self.statistics.tensors(&self.measured(&ctx.facts(1)), &moments)?);
        Ok(vec![statistics])
    }

    fn model_work(&self, model: &ModelFacts, samples: usize) -> f64 {
        let moments = self.measuring(&self.measured(model));
        model.passes(samples as f64 * moments)
    }
}

/// Exchange as a task ends, in which every client sends the moments of that task once more.
impl FinalExchange<(), Tasks> for Lorm {
    fn name(&self) -> &'static str {
        "moments"
    }

    /// Returns true: clients need the pairs of earlier tasks to build the network of all tasks.
    fn sends_assets(&self) -> bool {
        true
    }

    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let layers = self.layers(facts.model).into_iter();
        layers.map(|(_, _, layer)| self.statistics.place(&layer)).collect()
    }

    fn report(
        &self,
        &ClientContext { model, ctx, .. }: &ClientContext<'_>,
        member: &mut PackClient<'_, ()>,
    ) -> Result<(Vec<Section>, Metrics), PolicyError> {
        let moments = self.measure(member, &member.received, ctx)?;
        let layers = self.layers(model).into_iter().map(|(_, _, layer)| layer);
        let tensors = self.statistics.tensors(&layers.collect::<Vec<_>>(), &moments)?;
        Ok((vec![Section::new(Kind::Statistics, tensors)], Vec::new()))
    }

    fn aggregate(
        &self,
        tasks: &mut Tasks,
        closing: ClosedRound<'_>,
    ) -> Result<Metrics, PolicyError> {
        let ClosedRound { model, before, aggregate, .. } = closing;
        let mut reported = Vec::new();
        for (block, place, layer) in self.layers(model) {
            let moments = self.statistics.total(&layer, &aggregate)?;
            let (a, _) = values_of(before, &lora_name(block, place, Factor::A))?;
            reported.push((layer.weight, moments.after(&a), moments));
        }
        tasks.report(reported);
        Ok(Vec::new())
    }

    /// Returns the passes of one forward pass, and of the moments.
    fn work(&self, model: &ModelFacts, _view: &TaskView, samples: usize) -> f64 {
        let blocks: Vec<Layer> = self.layers(model).into_iter().map(|(_, _, l)| l).collect();
        let moments = samples as f64 * self.measuring(&blocks);
        samples as f64 / 3.0 + model.passes(moments)
    }
}
