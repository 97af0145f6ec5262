//! **FisherAVG** (Matena and Raffel, NeurIPS 2022): FedAvg weighted elementwise by Fisher information.
//!
//! An element of a client's parameters counts by how much the client's outputs depend on it. Nothing in the method
//! prevents forgetting.
//!
//! ```text
//! client   theta_m <- FedAvg's training
//!          F_m = sum over (x, y) of its samples  p(y|x) (grad log p(y|x))^2    at theta_m, one sample at a time
//! server   theta = sum_m (F_m + e) theta_m / sum_m (F_m + e),  e = 1e-12,     elementwise
//! ```
//! `p` is the softmax over the rows that train. Sample counts enter through the sums; with
//! `client_weighting = "uniform"` each `F_m` is divided by its number of samples, so that clients have equal weights.
//! If no client's outputs depend on an element, `e` makes its mean a plain one. Running statistics of batch norms have
//! no Fisher information and are averaged as by FedAvg; uploads then contain the sample count. For confident, correct
//! predictions the gradient vanishes, and with it the Fisher information.
//!
//! The benchmark's code takes labels modulo the number of the task's classes in this pass (`labels = "modulo"`), not in
//! training. Its pass sees images in [0, 1], neither cropped nor normalized (`data.statistics.transform = "raw"`).

use super::averaging::{ClientWeighting, LocalTrainingResult, PackClient, sample_count};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::local_fisher::{FORM_SOURCE, local_fisher};
use super::parts::{AveragingMethod, ClientContext, ModelAdaptation, Parts, UploadExtras};
use super::task_labels::{LABELS_SOURCE, TaskLabels};
use crate::learning::fisher::FisherForm;
use crate::model::{ParameterSet, is_buffer};
use crate::policy::{ExchangeFacts, ModelFacts, PolicyError, TensorSpec};
use crate::scenario::reader::Keys;
use crate::wire::Section;

/// Name prefix of the tensors with Fisher information.
pub const FISHER: &str = "fisher/";

/// Keys of the `[method]` table of FisherAVG.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct FisherAvg {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Squared gradients that the Fisher information averages.
    #[key(default = FisherForm::Truth, source = FORM_SOURCE)]
    pub fisher: FisherForm,
    /// Labels of samples in the Fisher information; training has their own.
    #[key(default = TaskLabels::Own, source = LABELS_SOURCE)]
    pub labels: TaskLabels,
}

impl FisherAvg {
    /// Returns true if any parameter is averaged by sample counts: running statistics are.
    fn counts(&self, model: &ModelFacts) -> bool {
        self.fedavg.parameters(model).iter().any(|parameter| is_buffer(&parameter.name))
    }
}

impl AveragingMethod for FisherAvg {
    type State = ();
    type Memory = ();

    fn parts(&self) -> Parts<'_, (), ()> {
        Parts { upload: self, ..self.fedavg.base() }
    }
}

impl UploadExtras<()> for FisherAvg {
    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        self.counts(facts.model).then(sample_count).into_iter().collect()
    }

    fn sections(
        &self,
        _context: &ClientContext<'_>,
        _member: &PackClient<'_, ()>,
        trained: &LocalTrainingResult,
    ) -> Result<Vec<Section>, PolicyError> {
        match trained.parameters.iter().any(|(name, _)| is_buffer(name)) {
            true => Ok(vec![trained.sample_count()?]),
            false => Ok(Vec::new()),
        }
    }

    fn elementwise_weight_prefix(&self) -> Option<&'static str> {
        Some(FISHER)
    }

    fn elementwise_weights(
        &self,
        context: &ClientContext<'_>,
        member: &PackClient<'_, ()>,
        trained: &LocalTrainingResult,
    ) -> Result<ParameterSet, PolicyError> {
        let ClientContext { model, shared, ctx } = *context;
        let view = &member.participant.view;
        let there = (&trained.parameters, shared.trained_rows(model, view));
        let sum = local_fisher((self.fisher, self.labels, view), there, member.shard, ctx)?;
        let factor = match self.fedavg.client_weighting {
            ClientWeighting::BySamples => 1.0,
            ClientWeighting::Uniform => 1.0 / sum.terms.max(1) as f64,
        };
        Ok(sum.scaled(factor, f64::INFINITY, &trained.parameters))
    }

    /// Charges one pass over the samples for the Fisher information.
    fn work(&self, samples: usize) -> f64 {
        samples as f64
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg that weights every parameter of a client by its Fisher information there.",
        source: "Matena and Raffel, Merging Models with Fisher-Weighted Averaging, NeurIPS 2022; \
                 HGP's benchmark",
        state: "server: the parameters; client: nothing",
        ..MethodEntry::averaging("fisheravg", FisherAvg::read)
    }
}
