//! Parameters that are trained by choice: the whole network, the head alone (linear probe), a prefix prompt, low-rank
//! pairs or adapters and the head, or FedHAF's module and head.
//!
//! Twenty methods use it; [`Trainable::base`] returns their parts. Means of low-rank factors are taken factor by
//! factor, and the mean of products is not the product of means. Plain pixels have no parameters, so only the head is
//! left: logistic regression.

mod keys;

use clap::ValueEnum;

pub(crate) use self::keys::{Setting, TrainableKeys};
use super::HeadForm;
use super::averaging::{
    AveragingConfig, ClientWeighting, OldLogits, Parameters, Requirement, RowSelection, ServerState,
};
use super::low_rank::{ALL_BLOCKS, LowRank};
use super::parts::{Demands, ModelAdaptation, Parts, RowQuery, TrainingSettings};
use super::prompted::prompt_has_halves;
use crate::data::TaskView;
use crate::learning::PromptShape;
use crate::model::{
    AdapterShape, BatchNormMode, HeadKind, HeadStart, LoraPlace, NetworkShape, ParameterSet,
};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Capability, ClientState, ModelFacts, PolicyError, Restriction, RunContext, kind_of,
};
use crate::scenario::reader::{Choice, Keys, TableReader};
use crate::wire::Kind;

/// Parameters that are trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Train {
    /// All parameters of the backbone, and the head.
    All,
    /// The head on frozen features (linear probe).
    Head,
    /// A prefix prompt and the head.
    ///
    /// The prompt starts at zero.
    Prompt,
    /// Low-rank pairs at linear layers, and the head (LoRA).
    Lora,
    /// A bottleneck adapter in every block, and the head.
    Adapter,
    /// FedHAF's module and the head, on frozen features.
    Module,
}

/// Trained parameters and their aggregation.
///
/// These are keys in the `[method]` tables of FedAvg and of the methods built on it.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(given(keys: TrainableKeys), default_given(TrainableKeys::FEDAVG), function = read_keys)]
#[keys(check = prompt_has_halves(table, section.prompt_len))]
pub struct Trainable {
    /// Weight of a client in the mean.
    #[key(read = keys.client_weighting.read(table, "client_weighting", doc))]
    pub client_weighting: ClientWeighting,
    /// Use of the logits of earlier tasks in the loss.
    #[key(read = keys.old_logits.read(table, "old_logits", doc))]
    pub old_logits: OldLogits,
    /// Parameters that are trained.
    #[key(default = Train::All)]
    pub train: Train,
    /// Classifier on the features.
    #[key(default = HeadKind::Linear, source = "linear; STSA's first stage has cosine")]
    pub classifier: HeadKind,
    /// Start values of a linear head.
    #[key(default = HeadStart::Uniform, source = "PyTorch; the public code of HGP has timm's normal")]
    pub head_init: HeadStart,
    /// Factor on the learning rate of all parameters but the head.
    #[key(
        default = 1.0,
        at_least = 0.0,
        source = "1; the public code of HGP has 0.01 as its `slow learner`"
    )]
    pub backbone_lr: f64,
    /// Rows of the prompt in a block, if `train = "prompt"`.
    #[key(default = 200, at_least = 2.0, source = "HGP")]
    pub prompt_len: u32,
    /// Number of blocks with a prompt, if `train = "prompt"`.
    #[key(default = 5, at_least = 1.0, at_most = 99.0, source = "HGP")]
    pub n_blocks: u32,
    /// Low-rank pairs, if `train = "lora"`.
    #[key(read = read_lora(table))]
    pub lora: LowRank,
    /// Width between the two layers of an adapter, if `train = "adapter"`.
    #[key(default = 64, at_least = 1.0, at_most = 65_536.0, source = "STSA")]
    pub bottleneck: u32,
    /// Rows of the head in messages.
    #[key(read = keys.head_form.read(table, "head_form", doc))]
    pub head_form: HeadForm,
    /// Moments of the module's batch norms after the first task, if `train = "module"`.
    #[key(default = BatchNormMode::Batch, when = keys.module, source = "not in FedHAF's paper")]
    pub batch_norm: BatchNormMode,
    /// Fraction of entries dropped in training, if `train` is "module" or "adapter".
    #[key(
        default = 0.0,
        when = keys.module,
        at_least = 0.0,
        below = 1.0,
        source = "not in FedHAF's paper; 0.1 in STSA's adapters"
    )]
    pub dropout: f64,
}

fn read_lora(table: &mut TableReader<'_>) -> LowRank {
    let usual = LowRank { rank: 4, at: vec![LoraPlace::Q, LoraPlace::V], blocks: ALL_BLOCKS };
    let names = ["lora_rank", "lora_at", "lora_blocks"];
    LowRank::read(table, names, usual, "Hu et al. 2022: queries and values")
}

impl Trainable {
    /// Reads the keys that FedAvg has.
    pub fn read(table: &mut TableReader<'_>) -> Trainable {
        Trainable::read_keys(table, TrainableKeys::FEDAVG)
    }

    fn prompt(&self, model: &ModelFacts) -> PromptShape {
        model.prompt_shape(self.n_blocks, self.prompt_len)
    }

    fn adapters(&self, model: &ModelFacts) -> AdapterShape {
        AdapterShape {
            blocks: model.backbone.vit().map_or(0, |vit| vit.depth),
            dim: model.backbone.dim(),
            bottleneck: self.bottleneck as usize,
        }
    }

    /// Returns the shape of FedHAF's networks on this backbone.
    fn module(model: &ModelFacts) -> NetworkShape {
        NetworkShape::table_6(model.backbone.dim(), model.classes)
    }

    /// Returns the width of the features that are trained: those of the module, or of the backbone.
    pub(in crate::methods) fn feature_width(&self, model: &ModelFacts) -> usize {
        match self.train {
            Train::Module => Trainable::module(model).adjusted(),
            _ => model.backbone.dim(),
        }
    }

    /// Returns the width of the head's input.
    fn width(&self, model: &ModelFacts) -> usize {
        match self.train {
            Train::Module => Trainable::module(model).head_hidden,
            _ => model.backbone.dim(),
        }
    }
}

impl ModelAdaptation for Trainable {
    fn parameters(&self, model: &ModelFacts) -> Parameters {
        let below = match self.train {
            Train::All => model.backbone.parameter_shapes(),
            Train::Head => Vec::new(),
            Train::Prompt => self.prompt(model).shapes(),
            Train::Lora => self.lora.shape(model, None).shapes(),
            Train::Adapter => self.adapters(model).shapes(),
            Train::Module => Trainable::module(model).common(),
        };
        Parameters::shared(below).head(self.classifier, model.classes, self.width(model))
    }

    /// Returns the initial parameters.
    ///
    /// They are the backbone as loaded, a prompt of zeros, pairs and adapters that add nothing, and a head drawn at
    /// `init`.
    fn initial(
        &self,
        model: &ModelFacts,
        ctx: &RunContext,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let below = match self.train {
            Train::All => ctx.backbone.parameters()?,
            Train::Head => ParameterSet::new(),
            Train::Prompt => self.prompt(model).initial_parameters(0.0, init),
            Train::Lora => self.lora.shape(model, None).initial_parameters(init),
            Train::Adapter => self.adapters(model).initial_parameters(init),
            Train::Module => Trainable::module(model).initial_common(init),
        };
        let width = self.width(model);
        let head = match self.classifier {
            HeadKind::Linear => self.head_init.parameters(model.classes, width, init),
            kind => kind.initial_parameters(model.classes, width, init),
        };
        Ok(below.merge(&head))
    }

    /// Requires blocks for prompts, pairs and adapters, and a trainable backbone for full training.
    fn demands(&self) -> Demands {
        let instead = "`method.train = \"head\"`";
        let requirements = match self.train {
            Train::Prompt => vec![Requirement::blocks("a prefix prompt", instead)],
            Train::Lora => vec![Requirement::blocks("a LoRA", instead)],
            Train::Adapter => {
                let instead = "train the whole network with `method.name = \"fedavg\"`";
                vec![Requirement::blocks("an adapter", instead)]
            }
            Train::All => vec![Requirement::trainable_backbone(instead)],
            Train::Head | Train::Module => Vec::new(),
        };
        let restrictions = match (self.train, self.batch_norm) {
            (Train::Module, BatchNormMode::Running) => Restriction::against(
                &[Capability::MixedTasks],
                "the moments of a module settle in the first task",
            ),
            _ => Vec::new(),
        };
        Demands { requirements, restrictions }
    }

    fn rows(&self, query: &RowQuery<'_>) -> RowSelection {
        query.rows(self.old_logits.rows(query.view))
    }

    fn settings(&self, view: &TaskView) -> TrainingSettings {
        let dropout = match self.train {
            Train::Module | Train::Adapter => self.dropout,
            Train::All | Train::Head | Train::Prompt | Train::Lora => 0.0,
        };
        // Running moments are settled after the first task.
        let norms = if view.rows.start == 0 { BatchNormMode::Batch } else { self.batch_norm };
        // A trained backbone or module belongs to one client, so it cannot be packed; the rest trains no batch norms.
        let (has_batch_norms, max_pack) = match self.train {
            Train::All | Train::Module => (true, 1),
            Train::Head | Train::Prompt | Train::Lora | Train::Adapter => (false, usize::MAX),
        };
        TrainingSettings { dropout, norms, has_batch_norms, query: None, max_pack }
    }

    fn rate_factor(&self, name: &str) -> f64 {
        match kind_of(name) {
            Kind::Head => 1.0,
            _ => self.backbone_lr,
        }
    }
}

impl Trainable {
    /// Returns the parts of FedAvg, on which other methods are built.
    pub fn base<S: ClientState, M: ServerState>(&self) -> Parts<'_, S, M> {
        Parts::fedavg(
            self,
            AveragingConfig { weights: self.client_weighting, head: self.head_form },
        )
    }
}
