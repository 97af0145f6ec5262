//! **HGP**, hierarchical generative prototypes (Salami et al., arXiv 2406.02447).
//!
//! The backbone is frozen; one prefix prompt, shared by all tasks, and a linear head are learnt
//! by federated averaging. So nearly all of the bias of clients (towards their classes) and of tasks (towards
//! new classes) ends up in the head. After every round the server removes it: each client also
//! sends a Gaussian of the features of each of its classes, and the server retrains the head on
//! features drawn from all of them, old classes included.
//!
//! ```text
//! client   prompt P, head W,b  <- down
//!          E epochs: minimise CE over the rows of the current task
//!          (n, mu, var) of f(x; P) for every class with n >= 2            (prototypes)
//! server   P, W, b  <- mean weighted by n_m
//!          Gaussians of the classes described anew are replaced           (mixture)
//!          W, b  <- SGD on features drawn from the mixture                (rebalance)
//! ```
//! Clients keep nothing between rounds. What differs between paper and public code is a key of
//! [`Hgp`]; the defaults are the combination behind the published numbers.

mod config;
mod mixture;
mod prototypes;
mod rebalance;

use std::sync::Arc;

pub use config::{Hgp, KeptFor, Learns, PromptInit};
pub use mixture::Mixture;
pub use prototypes::{Cells, ClassGaussian, ClassStatistics, CovarianceForm, Prototypes};
pub use rebalance::{Omega, Rebalance, RebalanceLoss, Rebalancing};

use super::averaged::{
    Averaged, Averaging, Client, Closing, Needs, Parameters, Trained, Weights, sample_count,
};
use super::registry::MethodEntry;
use crate::learning::{Classifier, Head, TrainingPlan};
use crate::model::{HeadKind, LinearHead, Parameter, ParameterSet};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{
    Lab, Message, ModelFacts, Place, PolicyError, Service, SketchFacts, UpSize, Veto,
};
use crate::wire::{MetaWriter, Section};

impl Averaged for Hgp {
    type State = ();
    type Memory = Prototypes;

    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let below = match self.train {
            Learns::Prompt => self.prompt(model).shapes(),
            Learns::All => model.backbone.parameter_shapes(),
            Learns::Head => Vec::new(),
        };
        Parameters::shared(below).head(HeadKind::Linear, model.classes, model.backbone.dim())
    }

    /// The head draws at step 0, block `j` of the prompt at step `1 + j`; the backbone is as loaded.
    fn initial(
        &self,
        model: &ModelFacts,
        lab: &Lab,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let deviation = match self.init {
            PromptInit::Zeros => 0.0,
            PromptInit::Normal => 0.02,
        };
        let below = match self.train {
            Learns::Prompt => self.prompt(model).initial_parameters(deviation, init),
            Learns::All => lab.backbone.parameters()?,
            Learns::Head => ParameterSet::new(),
        };
        let (classes, dim) = (model.classes, model.backbone.dim());
        Ok(below.merge(&self.head_init.parameters(classes, dim, init)))
    }

    fn averaging(&self) -> Averaging {
        Averaging { weights: Weights::BySamples, head: self.head }
    }

    /// A prompt needs blocks to live in, and training everything a backbone that can be trained.
    fn needs(&self) -> Vec<Needs> {
        let instead = "`method.train = \"head\"`";
        match self.train {
            Learns::Prompt => vec![Needs::Blocks { what: "the prompt of HGP", instead }],
            Learns::All => vec![Needs::TrainableBackbone { instead }],
            Learns::Head => Vec::new(),
        }
    }

    /// A backbone that trains is its client's own.
    fn largest_pack(&self) -> usize {
        match self.train {
            Learns::All => 1,
            Learns::Prompt | Learns::Head => usize::MAX,
        }
    }

    fn vetoes(&self) -> Vec<Veto> {
        match self.rebalances() {
            true => {
                let why = "its server balances old classes against those of one task";
                Veto::against(&[Service::Mixed], why)
            }
            false => Vec::new(),
        }
    }

    fn control(&self, facts: &SketchFacts<'_>, first_row: usize) -> Vec<u8> {
        let mut control = MetaWriter::new();
        control.u64(first_row as u64).u32s(&self.described(facts));
        control.finish()
    }

    fn says(&self, facts: &SketchFacts<'_>) -> Vec<Place> {
        let (n, dim) = (self.described(facts).len(), facts.model.backbone.dim());
        [sample_count()].into_iter().chain(prototypes::places(n, dim, self.covariance)).collect()
    }

    fn size(&self) -> UpSize {
        UpSize::FromShard
    }

    /// Mean and spread of the features of every class with at least two samples, by the model
    /// as it was just trained here.
    fn describe(
        &self,
        member: &Client<'_, ()>,
        trained: &Trained,
        lab: &Lab,
    ) -> Result<Vec<Section>, PolicyError> {
        let mut said = vec![trained.sample_count()?];
        if !self.rebalances() {
            return Ok(said);
        }
        let (rows, dim) = (&member.seat.view.rows, lab.backbone.dim());
        let local = Classifier::frozen(&lab.backbone, &trained.parameters)?;
        let loader = lab.frozen(lab.statistics_loader(member.shard), local.frozen_part())?;
        let mut features: Vec<Vec<Vec<f32>>> = vec![Vec::new(); rows.len()];
        for batch in loader.in_order_drawn(lab.evaluation_batch, member.key.domain(Domain::Augment))
        {
            let batch = batch?;
            let found = local.batch_features(&batch, &lab.device)?.to_vec2::<f32>()?;
            for (feature, label) in found.into_iter().zip(batch.labels()) {
                features[*label as usize - rows.start].push(feature);
            }
        }
        let several = features.iter().zip(rows.clone()).filter(|(features, _)| features.len() >= 2);
        let classes = several.map(|(features, row)| {
            let gaussian = ClassGaussian::fit(self.covariance, dim, features);
            Arc::new(ClassStatistics { row: row as u32, gaussian })
        });
        said.extend(prototypes::section(&classes.collect::<Vec<_>>()));
        Ok(said)
    }

    /// Training, and one forward pass (a third of a training pass) for the Gaussians.
    fn work(&self, samples: usize, plan: &TrainingPlan) -> f64 {
        samples as f64 * (plan.epochs as f64 + 1.0 / 3.0)
    }

    /// A Gaussian nobody can draw from is this seat's bad update, not the end of the run.
    fn accepts(&self, update: &Message) -> Result<(), PolicyError> {
        prototypes::drawable(update, self.cov_scale)
    }

    fn after_mean(
        &self,
        memory: &mut Prototypes,
        Closing { folded, round, .. }: Closing<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Vec<(&'static str, f64)>, PolicyError> {
        let mut said = Vec::with_capacity(folded.kept.len());
        for upload in &folded.kept {
            said.push((upload.meta.seat.client, prototypes::said(&upload.update)?));
        }
        memory.update(&said, self.memory == KeptFor::Round);
        let (mut head, drawn) = (head_of(theta)?, (&*memory, self.cov_scale));
        let (view, key) = (&round.period.view, round.key(Domain::Rebalance));
        if self.rebalancing.run(drawn, &mut head, view, key)?.is_some() {
            put_head(theta, head);
        }
        Ok(Vec::new())
    }
}

fn head_of(parameters: &ParameterSet) -> Result<Head, PolicyError> {
    let values = |name: &str| {
        let found = parameters.get(name).map(|parameter| parameter.values.to_vec());
        found.ok_or_else(|| PolicyError::Unsupported(format!("the server lost `{name}`")))
    };
    Ok(Head { weight: values(LinearHead::WEIGHT)?, bias: values(LinearHead::BIAS)? })
}

fn put_head(parameters: &mut ParameterSet, head: Head) {
    let (rows, dim) = (head.rows(), head.dim());
    let weight = Parameter { shape: vec![rows, dim], values: head.weight.into() };
    parameters.insert(LinearHead::WEIGHT, weight);
    let bias = Parameter { shape: vec![rows], values: head.bias.into() };
    parameters.insert(LinearHead::BIAS, bias);
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "One prefix prompt and a linear head on a frozen backbone, averaged over clients; \
               after every round the server rebalances the head on features drawn from the \
               clients' per-class Gaussians.",
        source: "Salami, Buzzega, Mosconi, Verasani, Calderara: Federated Class-Incremental \
                 Learning with Hierarchical Generative Prototypes, arXiv 2406.02447",
        state: "server: prompt, head, a Gaussian per class and client; client: nothing",
        clip: Some(1.0),
        ..MethodEntry::averaging("hgp", Hgp::read)
    }
}
