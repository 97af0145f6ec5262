//! What most methods train: a backbone, perhaps with a prefix prompt or adapters, and a head.
//!
//! **The parameters decide what trains.** A [`ParameterSet`] that a client received may hold
//! * `head.weight` and `head.bias` (a linear head), or `head.weight` and `head.sigma` (a cosine head);
//! * `prompt.00`, `prompt.01`, ...: a prefix prompt `(length, d)` of block 0, 1, ..., the first half of
//!   its rows keys and the second half values (as in HGP);
//! * `adapter.00.down.weight`, ...: a bottleneck adapter of every block (as in STSA's first stage);
//! * `adjust.*`, `head.hidden.*` and `head.norm.*`: FedHAF's module and the hidden layer of its head, between frozen
//!   features and the rows (features are then the module's); its batch norms take moments of the batch in training;
//! * every parameter of the backbone by its own names: full fine-tuning. Its buffers (running statistics of
//!   batch norms) move with the forward passes of training and come back among the parameters.
//!
//! What it does not hold stays frozen as the lab's backbone has it. With a
//! [`Prompting`](super::Prompting) everything named `prompt.*` is its own, and what the backbone gets depends on
//! the query of each sample.
//!
//! [`Classifier::pack`] trains the parameters of several clients at once, stacked along a leading axis,
//! on the one frozen backbone.

mod head_rows;
mod prompt;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{Device, Tensor, Var};

pub use head_rows::{head_rows, with_head_rows};
pub use prompt::{PromptShape, prompt_name};

use self::head_rows::with_rows;
use super::prompting::{PromptPool, Prompting, is_prompt};
use super::{LearningError, PackBatch};
use crate::data::Batch;
use crate::model::ops::Groups;
use crate::model::{
    Adaptation, Adjustment, Backbone, ClassHead, Dropout, FrozenPart, ModelError, Norms, Parameter,
    ParameterSet, Residual, Trains, Variables, adapters_of, is_adapter, ops,
};

/// A network that answers with scores over head rows, frozen or in training.
#[derive(Clone, Debug)]
pub struct Classifier {
    backbone: Arc<Backbone>,
    /// What all samples get.
    adaptation: Adaptation,
    /// What each sample gets by its query.
    pool: Option<PromptPool>,
    /// What lies between the backbone and the rows of the head.
    adjustment: Option<Adjustment>,
    head: ClassHead,
    /// The rows of the whole head that `head` holds.
    rows: Range<usize>,
    /// What trains, sorted by name; empty when frozen.
    variables: Variables,
    /// By each member of a pack; by one where there is no pack.
    received: Vec<ParameterSet>,
    /// The same at other places, made when first asked for.
    copies: Copies,
}

type Copies = Arc<Mutex<Vec<Arc<Classifier>>>>;

impl Classifier {
    /// Everything frozen, all received head rows.
    ///
    /// # Errors
    /// When parameters are missing or do not fit the backbone.
    pub fn frozen(backbone: &Arc<Backbone>, received: &ParameterSet) -> Result<Self, ModelError> {
        Classifier::frozen_with(backbone, received, None)
    }

    /// [`Classifier::frozen`] with prompts that depend on queries.
    ///
    /// # Errors
    /// When parameters are missing or do not fit the backbone.
    pub fn frozen_with(
        backbone: &Arc<Backbone>,
        received: &ParameterSet,
        prompting: Option<Arc<dyn Prompting>>,
    ) -> Result<Self, ModelError> {
        let backbone = match backbone.is_in(received) {
            false => Arc::clone(backbone),
            true => Arc::new(backbone.frozen_here(received)?),
        };
        let device = &backbone.place().device;
        let shared = prompts(received, prompting.is_none());
        let prompts: Vec<Tensor> =
            shared.map(|(_, prompt)| prompt.tensor(device)).collect::<Result<_, _>>()?;
        let pool = prompting.map(|own| PromptPool::frozen(own, received, device)).transpose()?;
        let adjustment = adjustment(received, Trains::NOTHING, device)?;
        let (head, copies) = (ClassHead::frozen_at(received, device)?, Copies::default());
        let (rows, variables) = (0..head.classes()?, Variables::new());
        let named = |name: &str| received.get(name).map(|parameter| parameter.tensor(device));
        let adapters = adapters_of(named)?;
        let adaptation = Adaptation { adapters, ..Adaptation::prompts(&prompts)? };
        let received = vec![received.clone()];
        Ok(Classifier {
            backbone,
            adaptation,
            pool,
            adjustment,
            head,
            rows,
            variables,
            received,
            copies,
        })
    }

    /// Received parameters as fresh variables; of the head only `rows`, the classes of the task
    /// at hand (so that no optimiser can move any other row).
    ///
    /// # Errors
    /// When parameters are missing or do not fit the backbone.
    pub fn trainable(
        backbone: &Arc<Backbone>,
        received: &ParameterSet,
        rows: Range<usize>,
    ) -> Result<Self, ModelError> {
        Classifier::pack(backbone, vec![received.clone()], rows)
    }

    /// [`Classifier::trainable`] for the members of a pack: variables hold their values one behind the
    /// other, `(members, ..)`. The backbone itself, and a module upon it, train in packs of one only.
    ///
    /// # Errors
    /// When parameters are missing, do not fit the backbone, or differ in shape between members.
    pub fn pack(
        backbone: &Arc<Backbone>,
        received: Vec<ParameterSet>,
        rows: Range<usize>,
    ) -> Result<Self, ModelError> {
        Classifier::pack_with(backbone, received, rows, None)
    }

    /// [`Classifier::pack`] with prompts that depend on queries: of their parameters the rows train that
    /// `prompting` names.
    ///
    /// # Errors
    /// As [`Classifier::pack`].
    pub fn pack_with(
        backbone: &Arc<Backbone>,
        received: Vec<ParameterSet>,
        rows: Range<usize>,
        prompting: Option<Arc<dyn Prompting>>,
    ) -> Result<Self, ModelError> {
        let stacked = ParameterSet::stacked(&received)?;
        let alone = backbone.is_in(&received[0]) || Adjustment::is_in(&received[0]);
        if alone && received.len() > 1 {
            let reason =
                "a pack shares one backbone and no module, and one trains; use packs of one".into();
            return Err(ModelError::Input { reason });
        }
        let mut variables = Variables::new();
        let backbone = match backbone.is_in(&received[0]) {
            false => Arc::clone(backbone),
            true => {
                let own = backbone.trainable_here(&received[0])?;
                variables.extend(own.variables().iter().cloned());
                Arc::new(own)
            }
        };
        let shared = prompts(&stacked, prompting.is_none());
        let prompt_set: ParameterSet = shared.map(|(n, p)| (Arc::clone(n), p.clone())).collect();
        let device = &backbone.place().device;
        let prompt_variables = prompt_set.variables(device)?;
        let mut adaptation =
            Adaptation::prompts(prompt_variables.iter().map(|(_, v)| v.as_tensor()))?;
        variables.extend(prompt_variables);
        let mut pool = None;
        if let Some(prompting) = prompting {
            let (own, trained) =
                PromptPool::trainable(prompting, &stacked, received.len(), device)?;
            variables.extend(trained);
            pool = Some(own);
        }
        let adapter_variables = stacked.filter(is_adapter).variables(device)?;
        let named = |wanted: &str| {
            let found = adapter_variables.iter().find(|(name, _)| &**name == wanted);
            found.map(|(_, variable)| Ok(variable.as_tensor().clone()))
        };
        adaptation.adapters = adapters_of(named)?;
        variables.extend(adapter_variables);
        let adjustment = adjustment(&received[0], Trains::BOTH, device)?;
        variables.extend(adjustment.iter().flat_map(|own| own.variables().iter().cloned()));
        let heads: Vec<ParameterSet> =
            received.iter().map(|set| head_rows(set, rows.clone())).collect::<Result<_, _>>()?;
        let (head, of_head) = ClassHead::trainable_at(&ParameterSet::stacked(&heads)?, device)?;
        variables.extend(of_head);
        variables.sort_by(|a, b| a.0.cmp(&b.0));
        let copies = Copies::default();
        Ok(Classifier {
            backbone,
            adaptation,
            pool,
            adjustment,
            head,
            rows,
            variables,
            received,
            copies,
        })
    }

    /// Members of the pack it trains; 1 where there is no pack.
    pub fn members(&self) -> usize {
        self.received.len()
    }

    /// This classifier, frozen, at the place of `backbone`, which is a copy of its own; `None` where it
    /// is there already. A place gets one copy, which lives as long as this one.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn copy_at(&self, backbone: &Arc<Backbone>) -> Result<Option<Arc<Self>>, ModelError> {
        let place = backbone.place();
        if self.backbone.place().same(place) {
            return Ok(None);
        }
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = copies.iter().find(|copy| copy.backbone.place().same(place)) {
            return Ok(Some(Arc::clone(copy)));
        }
        let prompting = self.pool.as_ref().map(|pool| Arc::clone(pool.prompting()));
        let copy = Classifier::frozen_with(backbone, &self.parameters()?, prompting)?;
        let copy = Arc::new(copy);
        copies.push(Arc::clone(&copy));
        Ok(Some(copy))
    }

    /// What trains, sorted by name.
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// The same without their names.
    pub fn vars(&self) -> Vec<Var> {
        self.variables.iter().map(|(_, var)| var.clone()).collect()
    }

    /// What it was made from.
    pub fn received(&self) -> &ParameterSet {
        &self.received[0]
    }

    /// The network below the head.
    pub fn backbone(&self) -> &Arc<Backbone> {
        &self.backbone
    }

    /// The head rows that [`logits`](Classifier::logits) are of.
    pub fn rows(&self) -> Range<usize> {
        self.rows.clone()
    }

    /// The head.
    pub fn head(&self) -> &ClassHead {
        &self.head
    }

    /// `(b, c, h, w)` to `(b, d)`.
    ///
    /// # Errors
    /// When the pixels do not fit the backbone.
    pub fn features(&self, pixels: &Tensor) -> Result<Tensor, ModelError> {
        let queries = match &self.pool {
            Some(_) => Some(self.backbone.frozen(pixels, FrozenPart::Whole)?),
            None => None,
        };
        self.below_head(pixels, &self.adaptation_for(queries.as_ref(), None)?)
    }

    /// Whether it asks for queries; where a batch brings none it computes them itself.
    pub fn asks_queries(&self) -> bool {
        self.pool.is_some()
    }

    /// What samples with these queries get; `groups` says whose they are where there is a pack.
    fn adaptation_for(
        &self,
        queries: Option<&Tensor>,
        groups: Option<&Groups>,
    ) -> Result<Adaptation, ModelError> {
        match (&self.pool, queries) {
            (Some(pool), Some(queries)) => pool.adapt(queries, groups),
            _ => Ok(Adaptation { groups: groups.cloned(), ..self.adaptation.clone() }),
        }
    }

    /// The queries of a batch: its own, or those of its pixels.
    fn queries_of(&self, batch: &Batch, device: &Device) -> Result<Option<Tensor>, LearningError> {
        if self.pool.is_none() {
            return Ok(None);
        }
        Ok(Some(match batch.queries(device)? {
            Some(queries) => queries,
            None => self.backbone.frozen(&batch.pixels(device)?, FrozenPart::Whole)?,
        }))
    }

    /// How much of it is the backbone it was made upon: what a cache may hand over in place of pixels.
    pub fn frozen_part(&self) -> FrozenPart {
        let prompted = self.pool.as_ref().map(|pool| pool.prompting().first_block());
        match prompted.or_else(|| self.adaptation.first_adapted_block()) {
            _ if self.backbone.is_in(self.received()) => FrozenPart::Nothing,
            None => FrozenPart::Whole,
            Some(0) => FrozenPart::Nothing,
            Some(block) => FrozenPart::Below(block),
        }
    }

    /// Features `(b, d)` of a batch of images, or of what [`frozen_part`](Classifier::frozen_part)
    /// gave for them.
    ///
    /// # Errors
    /// When the batch does not fit the backbone.
    pub fn batch_features(&self, batch: &Batch, device: &Device) -> Result<Tensor, LearningError> {
        let queries = self.queries_of(batch, device)?;
        self.adapted_features(batch, device, &self.adaptation_for(queries.as_ref(), None)?)
    }

    fn adapted_features(
        &self,
        batch: &Batch,
        device: &Device,
        adaptation: &Adaptation,
    ) -> Result<Tensor, LearningError> {
        let Batch::Features { values, shape, .. } = batch.inputs() else {
            return Ok(self.below_head(&batch.pixels(device)?, adaptation)?);
        };
        Ok(self.above(Tensor::from_slice(values, shape.as_slice(), device)?, adaptation)?)
    }

    /// Pixels to features; the frozen part as a cache would have it, to the bit.
    fn below_head(&self, pixels: &Tensor, adaptation: &Adaptation) -> Result<Tensor, ModelError> {
        match self.frozen_part() {
            FrozenPart::Nothing => self.backbone.features(pixels, adaptation),
            part => self.above(self.backbone.frozen(pixels, part)?, adaptation),
        }
    }

    /// What the frozen part gave to features.
    fn above(&self, rows: Tensor, adaptation: &Adaptation) -> Result<Tensor, ModelError> {
        match (self.frozen_part(), &self.adjustment) {
            (FrozenPart::Below(block), _) => self.backbone.features_from(&rows, block, adaptation),
            (FrozenPart::Whole, Some(own)) => Ok(own.adjust(&rows, None)?),
            (FrozenPart::Whole | FrozenPart::Adapted(_) | FrozenPart::Nothing, _) => Ok(rows),
        }
    }

    /// Features to what the rows of the head get.
    fn below_rows(&self, features: &Tensor) -> Result<Tensor, ModelError> {
        match &self.adjustment {
            Some(own) => Ok(own.hidden(features, None)?),
            None => Ok(features.clone()),
        }
    }

    /// `(b, d)` to `(b, rows)`.
    ///
    /// # Errors
    /// When the features do not fit the head.
    pub fn logits(&self, features: &Tensor) -> Result<Tensor, ModelError> {
        self.head.logits(&self.below_rows(features)?)
    }

    /// `CE_cur`: mean cross-entropy over the rows of this classifier only, the training mask of
    /// the benchmark. `labels` are head rows.
    ///
    /// # Errors
    /// When a label is not among the rows.
    pub fn masked_loss(&self, pixels: &Tensor, labels: &[u32]) -> Result<Tensor, LearningError> {
        self.loss_of(&self.features(pixels)?, labels)
    }

    fn loss_of(&self, features: &Tensor, labels: &[u32]) -> Result<Tensor, LearningError> {
        let logits = self.logits(features)?;
        Ok(ops::cross_entropy(&logits, &self.own_rows(labels), 0..self.rows.len())?)
    }

    /// [`Classifier::masked_loss`] of a batch of images, or of what
    /// [`frozen_part`](Classifier::frozen_part) gave for them.
    ///
    /// # Errors
    /// When a label is not among the rows.
    pub fn batch_loss(&self, batch: &Batch, device: &Device) -> Result<Tensor, LearningError> {
        self.loss_of(&self.batch_features(batch, device)?, batch.labels())
    }

    /// [`batch_loss`](Classifier::batch_loss) of each member of a pack on its own samples, `(members)`;
    /// `dropout` is for its adapters.
    ///
    /// # Errors
    /// When a label is not among the rows, or there are more or fewer members.
    pub fn pack_losses(
        &self,
        step: &PackBatch,
        device: &Device,
        dropout: Option<Dropout>,
    ) -> Result<Tensor, LearningError> {
        Ok(self.pack_outputs(step, device, dropout)?.losses)
    }

    /// Features `(b, d)` of the samples of a pack.
    ///
    /// # Errors
    /// When the batch does not fit the backbone.
    pub fn pack_features(
        &self,
        step: &PackBatch,
        device: &Device,
    ) -> Result<Tensor, LearningError> {
        let queries = self.queries_of(&step.batch, device)?;
        let adaptation = self.adaptation_for(queries.as_ref(), Some(&step.groups))?;
        self.adapted_features(&step.batch, device, &adaptation)
    }

    /// [`pack_features`](Classifier::pack_features) from these `pixels` of the samples, with `tokens` `(b, n, d)`
    /// behind the patches from the first block on.
    ///
    /// # Errors
    /// When pixels or tokens do not fit the backbone.
    pub fn pack_features_with(
        &self,
        step: &PackBatch,
        pixels: &Tensor,
        tokens: &Tensor,
    ) -> Result<Tensor, LearningError> {
        let queries = match (&self.pool, step.batch.queries(pixels.device())?) {
            (Some(_), None) => Some(self.backbone.frozen(pixels, FrozenPart::Whole)?),
            (_, brought) => brought,
        };
        let mut adaptation = self.adaptation_for(queries.as_ref(), Some(&step.groups))?;
        if adaptation.block_tokens.is_empty() {
            adaptation.block_tokens.push(None);
        }
        adaptation.block_tokens[0] = Some(tokens.clone());
        Ok(self.backbone.features(pixels, &adaptation)?)
    }

    /// [`pack_losses`](Classifier::pack_losses) with the features they come from.
    ///
    /// # Errors
    /// As there.
    pub fn pack_outputs(
        &self,
        step: &PackBatch,
        device: &Device,
        dropout: Option<Dropout>,
    ) -> Result<PackOutputs, LearningError> {
        let PackBatch { batch, groups, .. } = step;
        let queries = self.queries_of(batch, device)?;
        let adaptation = self.adaptation_for(queries.as_ref(), Some(groups))?;
        let adaptation = Adaptation { dropout, ..adaptation };
        let features = self.adapted_features(batch, device, &adaptation)?;
        let logits = self.head.pack_logits(&self.below_rows(&features)?, groups)?;
        let labels = self.own_rows(batch.labels());
        let losses = ops::grouped_cross_entropy(&logits, &labels, 0..self.rows.len(), groups)?;
        let own = match (&self.pool, &queries) {
            (Some(pool), Some(queries)) => pool.losses(queries, groups)?,
            _ => None,
        };
        let losses = match own {
            Some(own) => (losses + own)?,
            None => losses,
        };
        Ok(PackOutputs { features, losses })
    }

    /// Head rows as rows of this head.
    fn own_rows(&self, labels: &[u32]) -> Vec<u32> {
        let start = self.rows.start as u32;
        labels.iter().map(|label| label.wrapping_sub(start)).collect()
    }

    /// The rows of a parameter that train, of one of which some do.
    fn trained_rows(&self, name: &str, whole: &Parameter) -> Range<usize> {
        match &self.pool {
            Some(pool) if is_prompt(name) => pool.prompting().trained(name, whole.shape[0]),
            _ => self.rows.clone(),
        }
    }

    /// Everything received, with what trained as it is now; of a pack, the first member's.
    ///
    /// # Errors
    /// What the device reports.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        Ok(self.pack_parameters()?.swap_remove(0))
    }

    /// Everything each member received, with what trained as it is now.
    ///
    /// # Errors
    /// What the device reports.
    pub fn pack_parameters(&self) -> Result<Vec<ParameterSet>, ModelError> {
        let mut results = self.received.clone();
        for (name, variable) in &self.variables {
            let now = Parameter::of(variable)?;
            let alone = results.len() == 1;
            let each = now.values.chunks(now.values.len().div_ceil(results.len()).max(1));
            for (result, values) in results.iter_mut().zip(each) {
                let whole = result.get(name).expect("variables are made from what was received");
                let shape = whole.shape.clone();
                let parameter = match whole.values.len() == values.len() {
                    true if alone => Parameter { shape, values: Arc::clone(&now.values) },
                    true => Parameter { shape, values: values.into() },
                    false => with_rows(whole, self.trained_rows(name, whole), values),
                };
                result.insert(Arc::clone(name), parameter);
            }
        }
        // A backbone that trains is in a pack of one.
        if self.backbone.is_in(&self.received[0]) && !self.variables.is_empty() {
            for (name, buffer) in self.backbone.buffers()?.iter() {
                results[0].insert(Arc::clone(name), buffer.clone());
            }
        }
        if let Some(own) = &self.adjustment {
            for (name, buffer) in own.buffers()?.iter() {
                results[0].insert(Arc::clone(name), buffer.clone());
            }
        }
        Ok(results)
    }
}

/// What a pass over the samples of a pack gives.
#[derive(Clone, Debug)]
pub struct PackOutputs {
    /// `(b, d)`.
    pub features: Tensor,
    /// `(members)`.
    pub losses: Tensor,
}

/// The networks between features and rows that a set holds; their residual is the usual one.
fn adjustment(
    set: &ParameterSet,
    trains: Trains,
    device: &Device,
) -> Result<Option<Adjustment>, ModelError> {
    if !Adjustment::is_in(set) {
        return Ok(None);
    }
    Adjustment::new(set, Residual::Identity, trains, Norms::Batch, device).map(Some)
}

/// The prefix prompts of all samples, where there are any.
fn prompts(set: &ParameterSet, any: bool) -> impl Iterator<Item = (&Arc<str>, &Parameter)> {
    set.iter().filter(move |(name, _)| any && is_prompt(name))
}
