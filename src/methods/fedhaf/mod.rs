//! **FedHAF**, federated hierarchical anti-forgetting: distillation of a feature module and a head.
//!
//! A small module `g` adjusts the features of a frozen extractor `phi` for the head `h`. Clients keep a few samples of
//! every class they have held.
//!
//! ```text
//! client   exemplars: of every class the samples nearest to its mean of phi   (exemplars)
//!          stage 1, g frozen: h minimizes  l_ce CE(new over current outputs, exemplars over all)
//!                             + l_kd KL(h || previous h) on exemplars         (losses)
//!          stage 2, h frozen: g minimizes  l_fd |g - previous g|^2 on exemplars
//!                             + l_fb (norm of new classes - norm of old ones)^2          (stages)
//! server   g, h  <- mean weighted by n_m, running statistics included
//!          end of a task: (g, h) becomes the previous model, an asset
//! ```
//! In the first task there is nothing to distill, and `g` and `h` train together on the cross-entropy: the paper does
//! not mention it, but stage 2 alone would leave `g` at its random start. Exemplars are chosen when the client next
//! gets a download, from features that never change, so the time does not matter.
//!
//! Three readings of the paper decide how much it learns, and each is a key:
//! * `exemplars_in_ce`: equation 4 sums over new samples, but algorithm 1 and section 3.3 train the head on exemplars,
//!   too. Without them the outputs of two tasks are never compared;
//! * `squares`: equations 2 and 3 sum squares over the 256 entries of a feature. With running moments a step of that
//!   size, at the paper's rate of 0.02, is unstable by an estimate of the curvature; with batch moments it is stable;
//! * `batch_norm`: with the moments of small mixed batches a module in training differs from the one that predicts.
//!
//! Except for dropout, which only the student has, a model learns nothing from itself (invariant 2 of any distillation)
//! if both sides normalize the same way: the previous model uses batch moments wherever the model in training does,
//! unless `teacher_batch_norm` is set. The study of FedHAF shows the effect of each key, and of leaving out the second
//! stage.

mod exemplars;
mod features;
mod losses;
mod network;
mod stages;

use std::sync::Arc;

pub use crate::model::{BatchNormMode, ModuleShape, NetworkShape, Residual, TeacherBatchNormMode};
pub use losses::{Squares, Supervision};
pub use stages::Stages;

use self::exemplars::{herd, kept_of};
use self::features::FedHafModel;
use self::stages::TrainingPart;
use super::HeadForm;
use super::averaging::{
    AveragingConfig, ClientWeighting, LocalTrainingResult, PackClient, PackResult, Parameters,
    Requirement, previous, train_sequentially,
};
use super::entry::MethodEntry;
use super::held::HeldSamples;
use super::parts::{
    AveragingMethod, Demands, LocalTraining, LocalUpdate, ModelAdaptation, Parts, PreviousModel,
    TrainedRows, Workload,
};
use crate::data::Shard;
use crate::learning::Herding;
use crate::model::{FrozenPart, HeadKind, LinearHead, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{Capability, ModelFacts, PolicyError, Predictor, Restriction, RunContext};
use crate::scenario::reader::{Keys, TableReader};

/// Keys of the `[method]` table of FedHAF.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(check = section.refuse_settled_redraws(table))]
pub struct FedHaf {
    /// Feature adjustment module between features and head.
    #[key(default = true)]
    pub module: bool,
    /// Width of the module's first two layers.
    #[key(default = 512, source = "Table 6", at_least = 1.0, at_most = 65_536.0)]
    pub module_hidden: u32,
    /// Width of an adjusted feature, the output of the module.
    #[key(default = 256, source = "Table 6", at_least = 1.0, at_most = 65_536.0)]
    pub module_width: u32,
    /// Width of the head's hidden layer.
    #[key(default = 128, source = "Table 6", at_least = 1.0, at_most = 65_536.0)]
    pub head_hidden: u32,
    /// Place at which the module adds its input.
    #[key(
        default = Residual::Identity,
        source = "Table 6 has a \"residual add\" without a fitting place; identity: around a layer of equal widths"
    )]
    pub residual: Residual,
    /// Fraction of entries dropped in training.
    #[key(default = 0.1, source = "not in the paper", at_least = 0.0, below = 1.0)]
    pub dropout: f64,
    /// Moments of the module's batch norms after the first task.
    #[key(default = BatchNormMode::Running, source = "not in the paper")]
    pub batch_norm: BatchNormMode,
    /// Moments by which the previous model normalizes as teacher.
    #[key(default = TeacherBatchNormMode::Student, source = "not in the paper")]
    pub teacher_batch_norm: TeacherBatchNormMode,
    /// Reduction of the squares of a feature's entries, in the module's losses.
    #[key(
        default = Squares::Mean,
        source = "equations 2 and 3 have the sum, which is no longer stable at a rate of 0.02 and settled moments"
    )]
    pub squares: Squares,
    /// New start values of module and head at each task.
    #[key(default = false, source = "appendix C; forgets everything that is not distilled")]
    pub reinitialize: bool,
    /// Stages of a client's training after the first task.
    #[key(default = Stages::Two)]
    pub stages: Stages,
    /// Epochs of the module's stage; default: `client.epochs`.
    #[key(at_least = 1.0)]
    pub module_epochs: Option<u32>,
    /// Outputs that compete in the cross-entropy of new samples.
    #[key(default = Supervision::Split, source = "head splitting, section 4.2")]
    pub supervision: Supervision,
    /// Exemplars in the cross-entropy, over all classes seen.
    #[key(default = true, source = "algorithm 1 and section 3.3; equation 4 has new samples only")]
    pub exemplars_in_ce: bool,
    /// Factor on the cross-entropy.
    #[key(default = 1.0, source = "section 4.2", at_least = 0.0, at_most = 1e6)]
    pub lambda_ce: f64,
    /// Factor on the distillation of old outputs.
    #[key(default = 1.0, source = "section 4.2", at_least = 0.0, at_most = 1e6)]
    pub lambda_kd: f64,
    /// Factor on the distillation of features.
    #[key(default = 2.0, source = "section 4.2", at_least = 0.0, at_most = 1e6)]
    pub lambda_fd: f64,
    /// Factor on the balance of feature norms.
    #[key(default = 1.0, source = "section 4.2", at_least = 0.0, at_most = 1e6)]
    pub lambda_fb: f64,
    /// Fraction of the samples of a class that a client keeps.
    #[key(default = 0.2, source = "section 4.1", at_least = 0.0, at_most = 1.0)]
    pub retention: f64,
    /// Order in which the samples of a class are kept.
    #[key(default = Herding::Nearest, source = "equation 6")]
    pub herding: Herding,
    /// Weight of a client in the mean.
    #[key(default = ClientWeighting::BySamples, source = "section 3.3 and appendix C")]
    pub client_weighting: ClientWeighting,
    /// Rows of the head in messages.
    #[key(default = HeadForm::Fixed)]
    pub head_form: HeadForm,
}

impl FedHaf {
    fn refuse_settled_redraws(&self, table: &mut TableReader<'_>) {
        if self.reinitialize && self.batch_norm == BatchNormMode::Running {
            let message = "a module with new start values has no running moments";
            let help = "set `batch_norm = \"batch\"` too";
            table.reject("reinitialize", message, "with running statistics", help);
        }
    }

    /// Returns the shape of module and head for a model of these dimensions.
    pub fn shape(&self, model: &ModelFacts) -> NetworkShape {
        let module = ModuleShape {
            hidden: self.module_hidden as usize,
            output: self.module_width as usize,
            residual: self.residual,
        };
        NetworkShape {
            features: model.backbone.dim(),
            module: self.module.then_some(module),
            head_hidden: self.head_hidden as usize,
            classes: model.classes,
        }
    }

    /// Chooses exemplars, then trains all stages.
    fn train(
        &self,
        shape: &NetworkShape,
        member: &mut PackClient<'_, HeldSamples>,
        ctx: &RunContext,
    ) -> Result<LocalTrainingResult, PolicyError> {
        let view = Arc::clone(&member.participant.view);
        herd(self, member, ctx)?;
        let old = member.state.before(view.task);
        let previous = previous::of(member.download)?;
        let loader = ctx.train_loader(&joined(member.shard, &old));
        let loader = ctx.with_frozen_features(loader, FrozenPart::Whole)?;
        let mut parameters = member.received.clone();
        let mut metrics = Vec::new();
        for stage in
            TrainingPart::all(self, previous.is_some(), !old.is_empty(), ctx.training.epochs)
        {
            let from = (&loader, &parameters);
            let (trained, report) =
                stage.train((self, shape), member, from, previous.as_ref(), ctx)?;
            parameters = trained;
            match stage.parts {
                (true, _) => metrics.extend(report.metrics()),
                (false, _) => {
                    let last = report.epoch_losses.last().copied().unwrap_or(0.0);
                    metrics.push(("loss_module", last));
                }
            }
        }
        metrics.push(("exemplars", old.len() as f64));
        Ok(LocalTrainingResult {
            parameters,
            samples: member.shard.len(),
            metrics,
            ..LocalTrainingResult::default()
        })
    }
}

/// Returns the samples of the task and the exemplars of earlier ones, in ascending order.
fn joined(shard: &Shard, old: &[u32]) -> Shard {
    let mut all = [shard, old].concat();
    all.sort_unstable();
    all.into()
}

impl AveragingMethod for FedHaf {
    type State = HeldSamples;
    type Memory = ();

    fn parts(&self) -> Parts<'_, HeldSamples, ()> {
        let averaging = AveragingConfig { weights: self.client_weighting, head: self.head_form };
        Parts {
            // Exemplars train rows of old classes, too.
            trains: TrainedRows::Seen,
            local: self,
            previous_model: Some(PreviousModel { role: None, reinitializes: self.reinitialize }),
            ..Parts::fedavg(self, averaging)
        }
    }
}

impl ModelAdaptation for FedHaf {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let shape = self.shape(model);
        Parameters::shared(shape.common()).head(HeadKind::Linear, shape.classes, shape.head_hidden)
    }

    fn initial(
        &self,
        model: &ModelFacts,
        _ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        Ok(self.shape(model).initial_parameters(init))
    }

    fn predictor(
        &self,
        model: &ModelFacts,
        _task: usize,
        theta: &ParameterSet,
        ctx: &RunContext,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        let rows = theta.get(LinearHead::WEIGHT).map_or(0, |weight| weight.shape[0]);
        Ok(Arc::new(FedHafModel::new(&ctx.backbone, self.shape(model), theta, rows)?))
    }
}

impl LocalUpdate<HeldSamples> for FedHaf {
    fn client_update(
        &self,
        training: &LocalTraining<'_, HeldSamples>,
        pack: &mut [PackClient<'_, HeldSamples>],
    ) -> Result<PackResult, PolicyError> {
        let shape = self.shape(training.context.model);
        Ok(train_sequentially(pack, |member| self.train(&shape, member, training.context.ctx)))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }

    /// Returns the passes of all stages, as if the client's earlier tasks had been as large as this one.
    ///
    /// The exemplars it really has are known only to the client.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let Workload { participant, samples, plan, .. } = *load;
        let (task, classes) = (participant.view.task.index(), participant.view.rows.len());
        let exemplars = task * kept_of(samples, classes, self.retention);
        TrainingPart::work(self, task > 0, (samples, exemplars), plan.epochs)
    }

    /// Requires that clients with exemplars return.
    fn demands(&self) -> Demands {
        let why = "FedHAF's clients keep exemplars, but fresh clients never come back";
        let returning = || Requirement::returning_clients(why, Some("`method.retention = 0.0`"));
        Demands {
            requirements: (self.retention > 0.0).then(returning).into_iter().collect(),
            restrictions: Restriction::against(
                &[Capability::MixedTasks],
                "the previous model that teaches is of one task",
            ),
        }
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "A small module adjusts the features of a frozen extractor, and a head with batch norm classifies \
               them. Each client keeps a fraction of its samples, chosen by herding, and distills first the head, \
               then the module, from the previous task's model.",
        source: "FedHAF, federated hierarchical anti-forgetting (conference submission)",
        state: "client: exemplars; server: module, head, and both as the previous task left them",
        ..MethodEntry::averaging("fedhaf", FedHaf::read)
    }
}
