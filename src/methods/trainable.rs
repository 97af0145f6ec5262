//! Parameters that train by choice: the whole network, the head alone (linear probe), a prefix prompt, low-rank pairs or
//! adapters and the head, or FedHAF's module and head.
//!
//! Twenty methods train so; [`Trainable::base`] has their parts. Means of low-rank factors are taken factor by factor, and
//! the mean of products is not the product of means. On plain pixels, which have no parameters, all there is is the head:
//! logistic regression.

use clap::ValueEnum;

use super::HeadForm;
use super::averaged::{Averaging, Cut, Memory, OldLogits, Parameters, Requirement, Weights};
use super::low_rank::{ALL_BLOCKS, LowRank};
use super::parts::{Adaptation, Parts, RowQuery, TrainingSettings};
use super::prompted::prompt_has_halves;
use crate::data::TaskView;
use crate::learning::PromptShape;
use crate::model::{
    AdapterShape, HeadKind, HeadStart, LoraPlace, NetworkShape, Norms, ParameterSet,
};
use crate::numerics::streams::StreamKey;
use crate::policy::{ClientState, Lab, ModelFacts, PolicyError, Service, Veto, kind_of};
use crate::scenario::reader::{Choice, Param, TableReader, defaults};
use crate::wire::Kind;

/// What trains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Train {
    /// Every parameter of the backbone, and the head.
    All,
    /// The head on frozen features (linear probe).
    Head,
    /// A prefix prompt and the head.
    ///
    /// The prompt starts from zeros.
    Prompt,
    /// Low-rank pairs beside linear layers, and the head (LoRA).
    Lora,
    /// A bottleneck adapter in every block, and the head.
    Adapter,
    /// FedHAF's module and head on frozen features.
    Module,
}

/// Keys of what trains and how clients are averaged, in the `[method]` tables of FedAvg and of the methods upon it.
#[derive(Clone, Debug, PartialEq)]
pub struct Trainable {
    /// What trains.
    pub train: Train,
    /// How much a client counts.
    pub weights: Weights,
    /// What the loss does with the logits of earlier tasks.
    pub old_logits: OldLogits,
    /// Which classifier stands upon the features.
    pub classifier: HeadKind,
    /// How a linear head starts.
    pub head_init: HeadStart,
    /// Which head rows messages carry.
    pub head: HeadForm,
    /// Factor on the learning rate of everything but the head.
    pub backbone_lr: f64,
    /// Rows of the prompt in a block, for [`Train::Prompt`].
    pub prompt_len: u32,
    /// Blocks with a prompt, for [`Train::Prompt`].
    pub n_blocks: u32,
    /// Pairs, for [`Train::Lora`].
    pub lora: LowRank,
    /// Width between an adapter's two layers, for [`Train::Adapter`].
    pub bottleneck: u32,
    /// Moments of the module's batch norms after the first task, for [`Train::Module`].
    pub norms: Norms,
    /// Share of entries dropped in training, for [`Train::Module`] and [`Train::Adapter`].
    pub dropout: f64,
}

impl Default for Trainable {
    fn default() -> Self {
        defaults(Trainable::read)
    }
}

impl Trainable {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> Trainable {
        Trainable::read_weighing(table, Weights::BySamples, "McMahan et al., algorithm 1")
    }

    /// The same for methods whose source weighs clients so.
    pub(in crate::methods) fn read_weighing(
        table: &mut TableReader<'_>,
        weights: Weights,
        source: &'static str,
    ) -> Trainable {
        let weights = Param::new("weights", weights, "how much a client counts").source(source);
        let weights = table.get(&weights);
        Trainable { weights, ..Trainable::unweighted(table) }
    }

    /// The keys of methods that weigh clients in one way only.
    pub(in crate::methods) fn unweighted(table: &mut TableReader<'_>) -> Trainable {
        let old_logits =
            Param::new("old_logits", OldLogits::Mask, "logits of earlier tasks in the loss");
        let old_logits = table.get(&old_logits.source("HGP; HePCo's FedAvg-FT has keep"));
        Trainable { old_logits, ..Trainable::learning(table) }.in_messages(table)
    }

    /// With the keys that say what messages carry, and how a module trains.
    pub(in crate::methods) fn in_messages(self, table: &mut TableReader<'_>) -> Trainable {
        let head = Param::new("head", HeadForm::Fixed, "head rows in messages");
        Trainable { head: table.get(&head), ..self }.upon_module(table)
    }

    /// The keys that say what trains and how; what concerns a federation stays at its default.
    pub(in crate::methods) fn learning(table: &mut TableReader<'_>) -> Trainable {
        let train = table.get(&Param::new("train", Train::All, "what trains"));
        let classifier = Param::new("classifier", HeadKind::Linear, "the head upon the features");
        let head_init = Param::new("head_init", HeadStart::Uniform, "how a linear head starts");
        let backbone_lr =
            Param::new("backbone_lr", 1.0, "factor on the learning rate below the head")
                .source("1; the public code of HGP has 0.01 as its `slow learner`")
                .at_least(0.0);
        let prompt_len = Param::new("prompt_len", 200, "rows of a prompt if `train = \"prompt\"`")
            .source("HGP")
            .at_least(2.0);
        let n_blocks = Param::new("n_blocks", 5, "prompted blocks if `train = \"prompt\"`")
            .source("HGP")
            .at_least(1.0)
            .at_most(99.0);
        let lora = LowRank { rank: 4, at: vec![LoraPlace::Q, LoraPlace::V], blocks: ALL_BLOCKS };
        let of_adapters = "width between an adapter's two layers if `train = \"adapter\"`";
        let of_lora = ["lora_rank", "lora_at", "lora_blocks"];
        let config = Trainable {
            train,
            weights: Weights::BySamples,
            old_logits: OldLogits::Mask,
            classifier: table.get(&classifier.source("linear; STSA's first stage has cosine")),
            head_init: table
                .get(&head_init.source("PyTorch; the public code of HGP has timm's normal")),
            head: HeadForm::Fixed,
            backbone_lr: table.get(&backbone_lr),
            prompt_len: table.get(&prompt_len),
            n_blocks: table.get(&n_blocks),
            lora: LowRank::read(table, of_lora, lora, "Hu et al. 2022: queries and values"),
            bottleneck: table.get(&Trainable::bottleneck(of_adapters)),
            norms: Norms::Batch,
            dropout: 0.0,
        };
        prompt_has_halves(table, config.prompt_len);
        config
    }

    /// The width of adapters.
    pub(in crate::methods) fn bottleneck(doc: &'static str) -> Param<u32> {
        Param::new("bottleneck", 64, doc).source("STSA").at_least(1.0).at_most(65_536.0)
    }

    /// With the keys that say how FedHAF's module trains; its baselines have them to be like it.
    pub(in crate::methods) fn upon_module(self, table: &mut TableReader<'_>) -> Trainable {
        let norms = "moments in the module after the first task if `train = \"module\"`";
        let norms = Param::new("norms", Norms::Batch, norms).source("not in FedHAF's paper");
        let dropout =
            "share of entries dropped in training if `train` is \"module\" or \"adapter\"";
        let dropout = Param::new("dropout", 0.0, dropout)
            .source("not in FedHAF's paper; 0.1 in STSA's adapters");
        let dropout = dropout.at_least(0.0).below(1.0);
        Trainable { norms: table.get(&norms), dropout: table.get(&dropout), ..self }
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

    /// FedHAF's networks upon this backbone.
    fn module(model: &ModelFacts) -> NetworkShape {
        NetworkShape::table_6(model.backbone.dim(), model.classes)
    }

    /// Width of the features that it learns.
    pub(in crate::methods) fn feature_width(&self, model: &ModelFacts) -> usize {
        match self.train {
            Train::Module => Trainable::module(model).adjusted(),
            _ => model.backbone.dim(),
        }
    }

    /// Width of what the rows of the head get.
    fn width(&self, model: &ModelFacts) -> usize {
        match self.train {
            Train::Module => Trainable::module(model).head_hidden,
            _ => model.backbone.dim(),
        }
    }
}

impl Adaptation for Trainable {
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

    /// The backbone as loaded, a prompt of zeros, pairs and adapters that add nothing, a head drawn at `init`.
    fn initial(
        &self,
        model: &ModelFacts,
        lab: &Lab,
        init: StreamKey,
    ) -> Result<ParameterSet, PolicyError> {
        let below = match self.train {
            Train::All => lab.backbone.parameters()?,
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

    /// Prompts, pairs and adapters need blocks to live in, and training everything a backbone that can be trained.
    fn requirements(&self) -> Vec<Requirement> {
        let instead = "`method.train = \"head\"`";
        match self.train {
            Train::Prompt => vec![Requirement::blocks("a prefix prompt", instead)],
            Train::Lora => vec![Requirement::blocks("a LoRA", instead)],
            Train::Adapter => {
                let instead = "train the whole network with `method.name = \"fedavg\"`";
                vec![Requirement::blocks("an adapter", instead)]
            }
            Train::All => vec![Requirement::trainable_backbone(instead)],
            Train::Head | Train::Module => Vec::new(),
        }
    }

    fn vetoes(&self) -> Vec<Veto> {
        match (self.train, self.norms) {
            (Train::Module, Norms::Settled) => {
                Veto::against(&[Service::Mixed], "the moments of a module settle in the first task")
            }
            _ => Vec::new(),
        }
    }

    fn rows(&self, query: &RowQuery<'_>) -> Cut {
        query.rows(self.old_logits.rows(query.view))
    }

    fn settings(&self, view: &TaskView) -> TrainingSettings {
        let dropout = match self.train {
            Train::Module | Train::Adapter => self.dropout,
            Train::All | Train::Head | Train::Prompt | Train::Lora => 0.0,
        };
        // In the first task there is nothing that could have settled.
        let norms = if view.rows.start == 0 { Norms::Batch } else { self.norms };
        // A backbone that trains is its client's own, and so is a module; others have no batch norms that train.
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
    /// Returns the parts of FedAvg, for methods that are FedAvg but for some.
    pub fn base<S: ClientState, M: Memory>(&self) -> Parts<'_, S, M> {
        Parts::fedavg(self, Averaging { weights: self.weights, head: self.head })
    }
}
