//! **RegMean** (Jin et al., ICLR 2023): FedAvg whose server merges every linear layer by least squares: its outputs on
//! each client's inputs fit those of that client's own layer. It has no means against forgetting.
//!
//! ```text
//! client   theta_m <- FedAvg's training;  one more pass over its samples, without gradients:
//!          G_m = sum X^T X of the inputs of every linear layer;  off-diagonals times gamma
//! server   W <- (sum_m W_m G_m) (sum_m G_m)^+  of every linear layer;  everything else as FedAvg
//! ```
//! Linear layers are those of a transformer's blocks, where `train = "all"`, and the head; patch embeddings, norms,
//! biases and convolutions are averaged. The weight of a client is in `G`, which grows with its samples. Samples of the
//! pass are augmented as in training. Where no client has inputs the pseudo-inverse gives weight zero, as the public
//! code has it; `unseen = "keep"` leaves what was there.
//!
//! On ViT-B/16 the matrices are 540 MB of an upload (270 MB with `symmetric = true`); the server adds up
//! products and matrices as uploads arrive and keeps no upload.

use super::averaging::{ClosedRound, LocalTrainingResult, PackClient, RowPurpose, sample_count};
use super::entry::MethodEntry;
use super::fedavg::{FedAvg, Train};
use super::parts::{
    AveragingMethod, ClientContext, Demands, ModelAdaptation, Parts, ServerUpdate, TransformUpload,
    UploadExtras,
};
use super::regression::{InputStatistics, Layer, Unseen, answer_in_place_of, answers, values_of};
use crate::learning::Classifier;
use crate::model::{HeadKind, LinearHead, Parameter, ParameterSet};
use crate::policy::{
    Capability, ExchangeFacts, MemoryFootprint, Message, MessageSpec, Metrics, ModelFacts,
    PolicyError, RoundContext, TensorSpec,
};
use crate::scenario::reader::{Keys, TableReader};
use crate::wire::{Kind, Section};

/// Source of the default factors on off-diagonals.
const GAMMAS: &str = "HGP's tables for CIFAR-100; 0.1 for its other data sets";

/// Keys of the `[method]` table of RegMean.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.check(table))]
pub struct RegMean {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Moments of inputs in uploads.
    #[key(read = InputStatistics::read(table, (0.5, 0.5), GAMMAS))]
    pub statistics: InputStatistics,
    /// Weights of directions without inputs.
    #[key(default = Unseen::Zero, source = "the public code: a pseudo-inverse")]
    pub unseen: Unseen,
}

impl RegMean {
    fn check(&self, table: &mut TableReader<'_>) {
        let has_module = self.fedavg.train == Train::Module;
        if has_module || self.fedavg.classifier != HeadKind::Linear {
            let key = if has_module { "train" } else { "classifier" };
            let message = "the regression mean solves least squares for a linear head on features";
            table.reject(key, message, "no linear head", "set a linear classifier and no module");
        }
    }

    /// Returns the layers that are merged, in the order in which their moments travel.
    fn layers(&self, model: &ModelFacts) -> Vec<Layer> {
        let blocks = Layer::of_blocks(model).map(|(_, _, layer)| layer);
        let blocks = blocks.filter(|_| self.fedavg.train == Train::All);
        blocks.chain([Layer::head(model)]).collect()
    }
}

impl AveragingMethod for RegMean {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        Parts { upload: self, transform: Some(self), server: self, ..self.fedavg.base() }
    }
}

impl UploadExtras<()> for RegMean {
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let layers = self.layers(facts.model);
        let moments = layers.iter().map(|layer| self.statistics.place(layer));
        [sample_count()].into_iter().chain(moments).collect()
    }

    /// Returns the sample count, and the moments of the inputs of the model that was just trained.
    fn sections(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, ()>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        let ctx = context.ctx;
        let network = Classifier::frozen(&ctx.backbone, &trained.parameters)?;
        let moments = self.statistics.measure(&network, member, ctx)?;
        let layers = self.layers(&ctx.facts(1));
        let mut statistics = trained.sample_count()?;
        statistics.tensors.extend(self.statistics.tensors(&layers, &moments)?);
        Ok(vec![statistics])
    }

    /// Returns the passes of one forward pass, for the moments.
    fn work(&self, samples: usize) -> f64 {
        samples as f64 / 3.0
    }

    /// Returns the passes of the moments' products.
    fn model_work(&self, model: &ModelFacts, samples: usize) -> f64 {
        let layers = self.layers(model);
        let moments: f64 = layers.iter().map(|layer| self.statistics.measuring(layer)).sum();
        model.passes(samples as f64 * moments)
    }
}

impl TransformUpload for RegMean {
    fn layout(&self, facts: &ExchangeFacts<'_>, mut upload: MessageSpec) -> MessageSpec {
        for layer in self.layers(facts.model) {
            answer_in_place_of(&layer.weight, &layer, &mut upload);
        }
        upload
    }

    fn transform(
        &self,
        facts: &ExchangeFacts<'_>,
        _sent: &Message,
        mut update: Message,
    ) -> Result<Message, PolicyError> {
        let mut products = Vec::new();
        for layer in self.layers(facts.model) {
            let moments = self.statistics.sent(&layer, &update)?;
            let (own, rows) = values_of(&update.parameters, &layer.weight)?;
            products.push(answers(&layer, (&own, rows), &moments)?);
        }
        update.extra.push(Section::new(Kind::Statistics, products));
        Ok(update)
    }

    fn demands(&self) -> Demands {
        let why = "its server multiplies the weights of each client by that client's own moments";
        Demands::restricting(&[Capability::SecureAggregation], why)
    }
}

impl ServerUpdate<()> for RegMean {
    fn server_update(
        &self,
        _memory: &mut (),
        closing: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let ClosedRound { model, shared, before, aggregate, round, .. } = closing;
        let head = shared.cut(model, &round.stage.view, RowPurpose::Up).head;
        for layer in self.layers(model) {
            let rows = match layer.weight.as_str() {
                LinearHead::WEIGHT => head.clone(),
                name => 0..before.get(name).map_or(0, Parameter::rows),
            };
            self.statistics.merge((&layer, rows), self.unseen, (before, &aggregate), theta)?;
        }
        Ok(Vec::new())
    }

    /// Returns the work of multiplying every update's weights by its moments, and of the merge.
    fn work(&self, model: &ModelFacts, _round: &RoundContext, updates: usize) -> f64 {
        let of = |layer: &Layer| {
            let product = self.statistics.product(layer, layer.outputs);
            updates as f64 * product + self.statistics.solving(layer, layer.outputs)
        };
        model.passes(self.layers(model).iter().map(of).sum())
    }

    /// Returns the memory of the parameters (f32) and of a round's sums of products and moments (f64).
    fn memory_footprint(&self, model: &ModelFacts) -> Option<MemoryFootprint> {
        let parameters = self.fedavg.parameters(model).numbers();
        let sums = self
            .layers(model)
            .into_iter()
            .map(|layer| self.statistics.numbers(&layer) + layer.inputs * layer.outputs);
        Some(MemoryFootprint {
            server: 4 * parameters as u64 + 8 * sums.sum::<usize>() as u64,
            client: 0,
        })
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose server merges every linear layer by least squares: its outputs fit those of each \
               client's layer on that client's inputs.",
        source: "Jin, Ren, Preotiuc-Pietro, Cheng: Dataless Knowledge Fusion by Merging Weights of \
                 Language Models, ICLR 2023; HGP's benchmark",
        state: "server: the parameters; client: nothing",
        ..MethodEntry::averaging("regmean", RegMean::read)
    }
}
