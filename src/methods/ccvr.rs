//! **CCVR**, classifier calibration with virtual representations (Luo et al., NeurIPS 2021).
//!
//! Heterogeneous data hurt the classifier most, so after the mean the server draws features from Gaussians of the
//! classes and retrains the head on them.
//!
//! ```text
//! client   as FedAvg;  sends theta_m and (n, mu, Sigma) of f(x; theta_m) for every class it holds
//! server   theta <- mean weighted by n_m
//!          merged:  mu_c = sum_m n_mc mu_mc / N_c,
//!                   Sigma_c = sum_m (n_mc - 1)/(N_c - 1) Sigma_mc + sum_m n_mc/(N_c - 1) (mu_mc - mu_c)(mu_mc - mu_c)^T
//!          mixture: client m with probability n_mc / N_c, then its own Gaussian
//!          W, b  <- SGD on features drawn from them, every class as often
//! ```
//! The merged Gaussian has the moments of all samples together. `N_c` counts the samples of the clients that send a
//! Gaussian of c; clients with fewer samples than `min_samples` send none.
//!
//! The defaults are those of HGP's benchmark (fed-mammoth), which draws from the mixture. Its latest code calibrates
//! over the classes of the current task (`scope = "current"`), older code over all seen. `scope = "seen"` with a prompt
//! and `cov_scale = 3` is HGP. Luo et al. calibrate once, with plain cross-entropy, on one merged Gaussian per class
//! with its full covariance; so does FL-bench, in one pass over 200 features per class before each test:
//! `class_model = "merged"`, `covariance = "full"`, `calibrated = "last-round"`, `calibration_loss = "plain"`,
//! `calibration_epochs = 1`, `samples_per_class = 200`, `scope = "seen"`.
//!
//! If the whole network trains, Gaussians of old classes grow stale as features drift. Gaussians describe the features
//! of the clients' own models, but the calibrated head gets those of the mean model.

use clap::ValueEnum;

use super::averaging::ClosedRound;
use super::class_statistics::{
    CovarianceForm, DescribesClasses, Descriptions, FeatureSpread, GaussianLifetime, Omega,
    Prototypes, Rebalance, RebalanceLoss, RebalanceSchedule, Rebalancing,
};
use super::entry::MethodEntry;
use super::fedavg::{FedAvg, Train};
use super::parts::{AveragingMethod, Demands, Parts, ServerUpdate};
use crate::model::{HeadKind, ParameterSet};
use crate::policy::{Capability, Metrics, ModelFacts, PolicyError, RoundContext};
use crate::scenario::reader::{Choice, Keys, TableReader};

/// Distribution that the server builds from clients' Gaussians of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum ClassModel {
    /// One Gaussian with the moments of all samples together.
    ///
    /// If clients' means are far apart, it also covers the space between them.
    Merged,
    /// Mixture of all Gaussians: a client by its fraction of samples, then its Gaussian.
    Mixture,
}

/// Classes over which the head is calibrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum CalibrationScope {
    /// Classes of the current task, among themselves.
    Current,
    /// All classes seen.
    Seen,
}

/// Rounds of a task after which the head is calibrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Calibrated {
    /// Every round.
    EveryRound,
    /// Last round.
    ///
    /// Statistics are sent in every round nevertheless.
    LastRound,
}

/// Keys of the `[method]` table of CCVR.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.refuse_other_heads(table))]
pub struct Ccvr {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Form of the covariance in Gaussians of classes.
    #[key(
        default = CovarianceForm::Diagonal,
        source = "the code of HGP's benchmark; full in Luo et al."
    )]
    pub covariance: CovarianceForm,
    /// Distribution from which features of a class are drawn.
    #[key(default = ClassModel::Mixture, source = "the code of HGP's benchmark; merged in Luo et al.")]
    pub class_model: ClassModel,
    /// Factor on covariances when features are drawn.
    #[key(default = 1.0, source = "Luo et al.", above = 0.0)]
    pub cov_scale: f64,
    /// Smallest number of samples of a class for which a client sends its Gaussian.
    ///
    /// A single sample gives a mean only. Clients with fewer samples do not count in the weights of the class, either.
    #[key(
        default = 2,
        source = "the code of HGP's benchmark; 1 in Luo et al.'s formula",
        at_least = 1.0
    )]
    pub min_samples: u32,
    /// Time for which Gaussians of the current task are kept.
    #[key(default = GaussianLifetime::Cohort, source = CODE)]
    pub gaussian_lifetime: GaussianLifetime,
    /// Rounds of a task after which the head is calibrated.
    #[key(
        default = Calibrated::EveryRound,
        source = "the code of HGP's benchmark; once, after training, in Luo et al."
    )]
    pub calibrated: Calibrated,
    /// Calibration of the head.
    #[key(read = Calibration::read(table).into())]
    pub calibration: Rebalancing,
}

/// Source of most defaults.
const CODE: &str = "the code of HGP's benchmark";

/// Keys of the calibration.
#[derive(Keys)]
struct Calibration {
    /// Classes over which the head is calibrated.
    #[key(default = CalibrationScope::Current, source = CODE)]
    scope: CalibrationScope,
    /// Epochs of calibration; 0: none.
    #[key(
        name = "calibration_epochs",
        default = 5,
        source = "the code of HGP's benchmark; one pass in FL-bench",
        at_least = 0.0
    )]
    epochs: u32,
    /// Features drawn per class and epoch.
    #[key(default = 256, source = "the code of HGP's benchmark; 200 in FL-bench", at_least = 1.0)]
    samples_per_class: u32,
    /// Features per step of calibration.
    #[key(name = "calibration_batch", default = 256, source = CODE, at_least = 1.0)]
    batch: u32,
    /// Initial learning rate of calibration, for a cosine schedule.
    #[key(name = "calibration_lr", default = 0.01, source = CODE, above = 0.0)]
    lr: f64,
    /// Momentum of the SGD of calibration.
    #[key(
        name = "calibration_momentum",
        default = 0.9,
        source = CODE,
        at_least = 0.0,
        below = 1.0
    )]
    momentum: f64,
    /// Loss of calibration.
    #[key(
        name = "calibration_loss",
        default = RebalanceLoss::Normalized,
        source = "the code of HGP's benchmark; plain in Luo et al. and FL-bench"
    )]
    loss: RebalanceLoss,
    /// Temperature of the normalized logits.
    #[key(default = 0.1, source = CODE, above = 0.0)]
    tau: f64,
}

impl From<Calibration> for Rebalancing {
    fn from(calibration: Calibration) -> Self {
        let Calibration { scope, epochs, samples_per_class, batch, lr, momentum, loss, tau } =
            calibration;
        let over = match scope {
            _ if epochs == 0 => Rebalance::None,
            CalibrationScope::Current => Rebalance::Current,
            CalibrationScope::Seen => Rebalance::Both,
        };
        let (omega, schedule) = (Omega::Uniform, RebalanceSchedule::Cosine);
        Rebalancing {
            over,
            omega,
            samples_per_class,
            epochs,
            batch,
            lr,
            schedule,
            momentum,
            loss,
            tau,
        }
    }
}

impl Ccvr {
    fn refuse_other_heads(&self, table: &mut TableReader<'_>) {
        let module = self.fedavg.train == Train::Module;
        if module || self.fedavg.classifier != HeadKind::Linear {
            let key = if module { "train" } else { "classifier" };
            let message = "CCVR calibrates a linear head on the features of the backbone";
            let help = "set `classifier = \"linear\"` and another `train` than \"module\"";
            table.reject(key, message, "no such head", help);
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
        Parts {
            upload: self,
            class_means: self.as_class_means(),
            server: self,
            ..self.fedavg.base()
        }
    }
}

impl DescribesClasses for Ccvr {
    fn descriptions(&self) -> Descriptions {
        let (used, least) = (self.calibration.is_on(), self.min_samples);
        let spread = Some(FeatureSpread { form: self.covariance, scale: self.cov_scale });
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
        ClosedRound { aggregate, round, .. }: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        memory.take(&aggregate, self.gaussian_lifetime, round.stage.view.rows.clone())?;
        memory.keep_rows(self.calibration.over.rows(&round.stage.view));
        if !self.is_due(round) {
            return Ok(Vec::new());
        }
        let merged = (self.class_model == ClassModel::Merged).then(|| memory.merged());
        let drawn = (merged.as_ref().unwrap_or(memory), self.cov_scale);
        let loss = self.calibration.apply(drawn, theta, round)?;
        Ok(loss.map(|loss| ("calibration_loss", loss)).into_iter().collect())
    }

    fn work(&self, model: &ModelFacts, round: &RoundContext, _updates: usize) -> f64 {
        if self.is_due(round) { self.calibration.work(model, &round.stage.view) } else { 0.0 }
    }

    fn demands(&self) -> Demands {
        match self.calibration.is_on() {
            true => Demands::restricting(
                &[Capability::MixedTasks],
                "its server calibrates classes of one task",
            ),
            false => Demands::default(),
        }
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose server retrains the head after a round on features drawn from \
               Gaussians of the classes, which clients report.",
        source: "Luo, Chen, Hu, Zhang, Liang, Feng: No Fear of Heterogeneity: Classifier \
                 Calibration for Federated Learning with Non-IID Data, NeurIPS 2021",
        state: "server: the parameters, a Gaussian per class and client; client: nothing",
        ..MethodEntry::averaging("ccvr", Ccvr::read)
    }
}

#[cfg(test)]
mod tests;
