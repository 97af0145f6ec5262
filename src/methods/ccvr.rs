//! **CCVR**, classifier calibration with virtual representations (Luo et al., NeurIPS 2021): heterogeneity hurts the
//! classifier most, so after the mean the server draws features from Gaussians of the classes and retrains the head
//! on them.
//!
//! ```text
//! client   as FedAvg;  sends theta_m and (n, mu, Sigma) of f(x; theta_m) for every class it holds
//! server   theta <- mean weighted by n_m
//!          merged:  mu_c = sum_m n_mc mu_mc / N_c,
//!                   Sigma_c = sum_m (n_mc - 1)/(N_c - 1) Sigma_mc + sum_m n_mc/(N_c - 1) (mu_mc - mu_c)(mu_mc - mu_c)^T
//!          mixture: client m with probability n_mc / N_c, then its own Gaussian
//!          W, b  <- SGD on features drawn from them, every class as often
//! ```
//! The merge is that of the samples together. Two codes are public: one calibrates over the classes of the current task
//! (`scope = "current"`), an earlier one over all seen; both draw from the mixture. `scope = "seen"` with a prompt and
//! `cov_scale = 3` is HGP. Where the whole network trains, Gaussians of old classes grow stale as features drift.
//! Gaussians are of the clients' own models, the head that is calibrated stands on the mean of them.

use clap::ValueEnum;

use super::averaged::Closing;
use super::class_statistics::{
    CovarianceForm, DescribesClasses, Descriptions, KeptFor, Omega, Prototypes, Rebalance,
    RebalanceLoss, Rebalancing, Spread,
};
use super::entry::MethodEntry;
use super::fedavg::{FedAvg, Train};
use super::parts::{AveragingMethod, Parts, ServerUpdate};
use crate::model::{HeadKind, ParameterSet};
use crate::policy::{Figures, ModelFacts, PolicyError, RoundContext, Service, Veto};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// What the server makes of the Gaussians of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum ClassModel {
    /// One Gaussian, that of all samples together.
    ///
    /// Where clients' means are far apart it covers the space between them, too.
    Merged,
    /// All of them: a client by its share of samples, then its Gaussian.
    Mixture,
}

/// Which classes the head is calibrated over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum CalibrationScope {
    /// Those of the current task, among themselves.
    Current,
    /// All classes seen.
    Seen,
}

/// After which rounds of a task the head is calibrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Calibrated {
    /// Every one.
    EveryRound,
    /// The last one.
    ///
    /// Statistics travel in every round nevertheless.
    LastRound,
}

/// The `[method]` table of CCVR.
#[derive(Clone, Debug, PartialEq)]
pub struct Ccvr {
    /// What trains and how.
    pub fedavg: FedAvg,
    /// What Gaussians remember.
    pub covariance: CovarianceForm,
    /// What is drawn from.
    pub class_model: ClassModel,
    /// What covariances are multiplied by before features are drawn.
    pub cov_scale: f64,
    /// Samples that a client must have of a class to describe it.
    pub min_samples: u32,
    /// How long Gaussians of the current task are kept.
    pub memory: KeptFor,
    /// After which rounds the head is calibrated.
    pub calibrated: Calibrated,
    /// Over which classes, and how.
    pub calibration: Rebalancing,
}

impl Default for Ccvr {
    fn default() -> Self {
        defaults(Ccvr::read)
    }
}

impl Ccvr {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> Ccvr {
        let (paper, code) = ("Luo et al.", "the code of HGP's benchmark");
        let fedavg = FedAvg::read(table);
        if fedavg.train == Train::Module || fedavg.classifier != HeadKind::Linear {
            let key = if fedavg.train == Train::Module { "train" } else { "classifier" };
            let message = "CCVR calibrates a linear head upon the features of the backbone";
            let help = "set `classifier = \"linear\"` and another `train` than \"module\"";
            table.reject(key, message, "no such head", help);
        }
        let covariance =
            Param::new("covariance", CovarianceForm::Diagonal, "what Gaussians remember");
        let class_model = Param::new("class_model", ClassModel::Merged, "what is drawn from");
        let scale = Param::new("cov_scale", 1.0, "factor on covariances when drawing");
        let least = "samples of a class that make a client describe it; one has a mean alone";
        let least = Param::new("min_samples", 2, least).at_least(1.0);
        let memory = Param::new("memory", KeptFor::Round, "how long Gaussians of a task are kept");
        let calibrated =
            Param::new("calibrated", Calibrated::EveryRound, "after which rounds of a task");
        Ccvr {
            fedavg,
            covariance: table
                .get(&covariance.source("the code of HGP's benchmark; full in the paper")),
            class_model: table.get(&class_model.source("Luo et al.; code has mixture")),
            cov_scale: table.get(&scale.source(paper).above(0.0)),
            min_samples: table.get(&least.source("code; the paper's formula takes 1")),
            memory: table.get(&memory.source(code)),
            calibrated: table.get(&calibrated.source("code; once in the paper")),
            calibration: Ccvr::read_calibration(table),
        }
    }

    fn read_calibration(table: &mut TableReader<'_>) -> Rebalancing {
        let code = "the code of HGP's benchmark";
        let scope = CalibrationScope::Current;
        let scope = Param::new("scope", scope, "classes the head is calibrated over").source(code);
        let samples = Param::new("samples_per_class", 256, "features drawn per class and epoch");
        let epochs = Param::new("calibration_epochs", 5, "epochs of calibration; 0 for none");
        let batch = Param::new("calibration_batch", 256, "features per step of calibration");
        let lr = Param::new("calibration_lr", 0.01, "learning rate at the start of the cosine");
        let momentum = Param::new("calibration_momentum", 0.9, "momentum of the calibrating SGD");
        let loss = Param::new("calibration_loss", RebalanceLoss::Normalised, "what it minimises");
        let tau = Param::new("tau", 0.1, "temperature of the normalised logits");
        let over = match table.get(&scope) {
            CalibrationScope::Current => Rebalance::Current,
            CalibrationScope::Seen => Rebalance::Both,
        };
        let epochs = table.get(&epochs.source(code).at_least(0.0));
        Rebalancing {
            over: if epochs == 0 { Rebalance::None } else { over },
            omega: Omega::Uniform,
            samples_per_class: table.get(&samples.source(code).at_least(1.0)),
            epochs,
            batch: table.get(&batch.source(code).at_least(1.0)),
            lr: table.get(&lr.source(code).above(0.0)),
            momentum: table.get(&momentum.source(code).at_least(0.0).below(1.0)),
            loss: table.get(&loss.source(code)),
            tau: table.get(&tau.source(code).above(0.0)),
        }
    }

    fn is_due(&self, round: &RoundContext) -> bool {
        let last = round.round_in_phase + 1 >= round.rounds_in_phase;
        self.calibration.is_on() && (last || self.calibrated == Calibrated::EveryRound)
    }
}

impl AveragingMethod for Ccvr {
    type State = ();
    type Memory = Prototypes;

    fn parts(&self) -> Parts<'_, (), Prototypes> {
        Parts { upload: self, server: self, ..self.fedavg.base() }
    }
}

impl DescribesClasses for Ccvr {
    fn descriptions(&self) -> Descriptions {
        let (used, least) = (self.calibration.is_on(), self.min_samples);
        let spread = Some(Spread { form: self.covariance, scale: self.cov_scale });
        Descriptions { used, least, spread }
    }

    fn feature_width(&self, model: &ModelFacts) -> usize {
        self.fedavg.feature_width(model)
    }
}

impl ServerUpdate<Prototypes> for Ccvr {
    fn server_update(
        &self,
        memory: &mut Prototypes,
        Closing { folded, round, .. }: Closing<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Figures, PolicyError> {
        memory.take(&folded, self.memory, round.period.view.rows.clone())?;
        memory.keep_rows(self.calibration.over.rows(&round.period.view));
        if !self.is_due(round) {
            return Ok(Vec::new());
        }
        let merged = (self.class_model == ClassModel::Merged).then(|| memory.merged());
        let drawn = (merged.as_ref().unwrap_or(memory), self.cov_scale);
        let loss = self.calibration.apply(drawn, theta, round)?;
        Ok(loss.map(|loss| ("calibration_loss", loss)).into_iter().collect())
    }

    fn work(&self, model: &ModelFacts, round: &RoundContext, _updates: usize) -> f64 {
        if self.is_due(round) { self.calibration.work(model, &round.period.view) } else { 0.0 }
    }

    fn vetoes(&self) -> Vec<Veto> {
        match self.calibration.is_on() {
            true => Veto::against(&[Service::Mixed], "its server calibrates classes of one task"),
            false => Vec::new(),
        }
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose server retrains the head after a round on features drawn from \
               Gaussians of the classes, which clients describe.",
        source: "Luo, Chen, Hu, Zhang, Liang, Feng: No Fear of Heterogeneity: Classifier \
                 Calibration for Federated Learning with Non-IID Data, NeurIPS 2021",
        state: "server: the parameters, a Gaussian per class and client; client: nothing",
        ..MethodEntry::averaging("ccvr", Ccvr::read)
    }
}

#[cfg(test)]
mod tests;
