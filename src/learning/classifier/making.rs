//! Construction of classifiers from parameters, frozen or over new variables.

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{Classifier, Copies, head_rows, pairs};
use crate::learning::prompting::{PromptPool, Prompting, is_prompt};
use crate::model::{
    Adaptation, Adjustment, Backbone, BatchNormMode, ByBatch, ClassHead, Mapping, ModelError,
    Parameter, ParameterSet, Residual, Trains, Variables, adapters_of, is_adapter,
};

/// Function that copies a backbone over variables with these values.
type OwnBackbone = fn(&Backbone, &ParameterSet) -> Result<Backbone, ModelError>;

/// Predicate on parameter names: true for those that do not train.
type Stays<'a> = &'a dyn Fn(&str) -> bool;

impl Classifier {
    /// Returns a completely frozen classifier with all received head rows.
    ///
    /// # Errors
    /// Returns an error if parameters are missing or do not fit the backbone.
    pub fn frozen(backbone: &Arc<Backbone>, received: &ParameterSet) -> Result<Self, ModelError> {
        Classifier::frozen_with(backbone, received, None)
    }

    /// Returns [`Classifier::frozen`] with prompts that depend on queries.
    ///
    /// # Errors
    /// Returns an error if parameters are missing or do not fit the backbone.
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
        let adjustment = adjustment(received, Trains::NOTHING, ByBatch::NOTHING, device)?;
        let mapping = Mapping::frozen(received, device)?;
        let (head, copies) = (ClassHead::frozen_at(received, device)?, Copies::default());
        let (rows, variables) = (0..head.classes()?, Variables::new());
        let named = |name: &str| received.get(name).map(|parameter| parameter.tensor(device));
        let adapters = adapters_of(named)?;
        let loras = pairs::frozen(received, device)?;
        let adaptation = Adaptation { adapters, loras, ..Adaptation::prompts(&prompts)? };
        let received = vec![received.clone()];
        Ok(Classifier {
            backbone,
            adaptation,
            pool,
            mapping,
            adjustment,
            head,
            rows,
            variables,
            received,
            copies,
        })
    }

    /// Returns a classifier over new variables with the received values.
    ///
    /// Of the head it takes only `rows`, the classes of the current task, so that no optimizer can move any other row.
    ///
    /// # Errors
    /// Returns an error if parameters are missing or do not fit the backbone.
    pub fn trainable(
        backbone: &Arc<Backbone>,
        received: &ParameterSet,
        rows: Range<usize>,
    ) -> Result<Self, ModelError> {
        Classifier::pack(backbone, vec![received.clone()], rows)
    }

    /// Returns [`Classifier::trainable`] for the members of a pack.
    ///
    /// Variables hold the members' values stacked, `(members, ..)`. The backbone itself, and a module on it, train in
    /// packs of one only.
    ///
    /// # Errors
    /// Returns an error if parameters are missing, do not fit the backbone, or differ in shape between members.
    pub fn pack(
        backbone: &Arc<Backbone>,
        received: Vec<ParameterSet>,
        rows: Range<usize>,
    ) -> Result<Self, ModelError> {
        Classifier::pack_with(backbone, received, rows, None)
    }

    /// Returns [`Classifier::pack`] with prompts that depend on queries.
    ///
    /// Of the prompt parameters only those rows train that `prompting` names.
    ///
    /// # Errors
    /// Fails as [`Classifier::pack`] does.
    pub fn pack_with(
        backbone: &Arc<Backbone>,
        received: Vec<ParameterSet>,
        rows: Range<usize>,
        prompting: Option<Arc<dyn Prompting>>,
    ) -> Result<Self, ModelError> {
        Classifier::pack_normed(backbone, received, rows, prompting, BatchNormMode::Batch)
    }

    /// Returns [`Classifier::pack_with`] with a choice of the moments by which a module normalizes.
    ///
    /// # Errors
    /// Fails as [`Classifier::pack`] does.
    pub fn pack_normed(
        backbone: &Arc<Backbone>,
        received: Vec<ParameterSet>,
        rows: Range<usize>,
        prompting: Option<Arc<dyn Prompting>>,
        norms: BatchNormMode,
    ) -> Result<Self, ModelError> {
        Classifier::pack_but(backbone, received, rows, prompting, norms, &|_| false)
    }

    /// Returns [`Classifier::pack_normed`] in which some factors of LoRA pairs stay frozen.
    ///
    /// `stays` returns true for the names of these.
    ///
    /// # Errors
    /// Fails as [`Classifier::pack`] does.
    pub fn pack_but(
        backbone: &Arc<Backbone>,
        received: Vec<ParameterSet>,
        rows: Range<usize>,
        prompting: Option<Arc<dyn Prompting>>,
        norms: BatchNormMode,
        stays: &dyn Fn(&str) -> bool,
    ) -> Result<Self, ModelError> {
        let own = Backbone::trainable_here;
        let by_batch = ByBatch::training(Trains::BOTH, norms);
        Classifier::over_variables(backbone, received, rows, prompting, (own, by_batch, stays))
    }

    /// Returns [`Classifier::pack`] in evaluation mode: batch norms use their running statistics.
    ///
    /// It serves gradients of single samples.
    ///
    /// # Errors
    /// Fails as [`Classifier::pack`] does.
    pub fn evaluating(
        backbone: &Arc<Backbone>,
        received: Vec<ParameterSet>,
        rows: Range<usize>,
    ) -> Result<Self, ModelError> {
        let nothing: &dyn Fn(&str) -> bool = &|_| false;
        let how = (Backbone::evaluating_here as OwnBackbone, ByBatch::NOTHING, nothing);
        Classifier::over_variables(backbone, received, rows, None, how)
    }

    fn over_variables(
        backbone: &Arc<Backbone>,
        received: Vec<ParameterSet>,
        rows: Range<usize>,
        prompting: Option<Arc<dyn Prompting>>,
        (own, by_batch, stays): (OwnBackbone, ByBatch, Stays<'_>),
    ) -> Result<Self, ModelError> {
        let stacked = ParameterSet::stacked(&received)?;
        if !Classifier::packs(backbone, &received[0]) && received.len() > 1 {
            let reason =
                "a pack shares one backbone and no module, and one trains; use packs of one".into();
            return Err(ModelError::Input { reason });
        }
        let mut variables = Variables::new();
        let backbone = match backbone.is_in(&received[0]) {
            false => Arc::clone(backbone),
            true => {
                let own = own(backbone, &received[0])?;
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
        let (loras, of_loras) = pairs::trainable(&stacked, received.len(), stays, device)?;
        adaptation.loras = loras;
        variables.extend(of_loras);
        let adjustment = adjustment(&received[0], Trains::BOTH, by_batch, device)?;
        variables.extend(adjustment.iter().flat_map(|own| own.variables().iter().cloned()));
        let (mapping, of_mapping) = Mapping::trainable(&received[0], device)?;
        variables.extend(of_mapping);
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
            mapping,
            adjustment,
            head,
            rows,
            variables,
            received,
            copies,
        })
    }

    /// Returns true if several copies of these parameters can train in one pack.
    pub fn packs(backbone: &Backbone, set: &ParameterSet) -> bool {
        !backbone.is_in(set) && !Adjustment::is_in(set) && !Mapping::is_in(set)
    }

    /// Returns a frozen copy of this classifier on the device of `backbone`, another copy of its backbone. `None` if it
    /// is already there. Each device gets one copy, which lives as long as this classifier.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn copy_at(&self, backbone: &Arc<Backbone>) -> Result<Option<Arc<Self>>, ModelError> {
        let place = backbone.place();
        if self.backbone.place().same(place) {
            return Ok(None);
        }
        let mut copies = self.copies.lock();
        if let Some(copy) = copies.iter().find(|copy| copy.backbone.place().same(place)) {
            return Ok(Some(Arc::clone(copy)));
        }
        let prompting = self.pool.as_ref().map(|pool| Arc::clone(pool.prompting()));
        let copy = Classifier::frozen_with(backbone, &self.parameters()?, prompting)?;
        let copy = Arc::new(copy);
        copies.push(Arc::clone(&copy));
        Ok(Some(copy))
    }
}

/// Returns the module between features and head rows, if the set has one, with the default residual.
fn adjustment(
    set: &ParameterSet,
    trains: Trains,
    by_batch: ByBatch,
    device: &Device,
) -> Result<Option<Adjustment>, ModelError> {
    if !Adjustment::is_in(set) {
        return Ok(None);
    }
    Adjustment::new(set, Residual::Identity, trains, by_batch, device).map(Some)
}

/// Returns the prefix prompts that are the same for all samples, if there may be any.
fn prompts(set: &ParameterSet, any: bool) -> impl Iterator<Item = (&Arc<str>, &Parameter)> {
    set.iter().filter(move |(name, _)| any && is_prompt(name))
}
