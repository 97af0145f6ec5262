//! Round of a client: parts of its task, their training, and the learning rate of the next round.

use std::sync::Arc;

use candle_core::{Tensor, Var};

use super::layers::{SplitLayer, WeitShape};
use super::messages::{KNOWLEDGE, ReportedPart, entries_of, report, sparse_set, upload};
use super::state::{
    ADAPTIVE, ATTENTION, BASE, INITIAL, LOCAL, MASK, START, TRANSFER, WeitState, composed,
    transfer_of,
};
use super::steps::{LayerVariables, WeitSteps};
use super::terms::TermWeights;
use super::{DriftStart, FedWeit};
use crate::data::Shard;
use crate::learning::{Classifier, MemberData, train_pack};
use crate::model::{Parameter, ParameterSet};
use crate::numerics::distributions::normal;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{ClientResult, ClientState, Member, PolicyError, RunContext};
use crate::wire::Saved;

/// Standard deviation of a standard normal truncated at 2, by which Keras divides.
const CUT_DEVIATION: f64 = 0.879_625_661_034_239_8;

/// Draws `count` initial values: normals of variance `1 / count`, truncated at two standard deviations.
fn variance_scaled(count: usize, key: StreamKey) -> Vec<f32> {
    let deviation = (1.0 / count.max(1) as f64).sqrt() / CUT_DEVIATION;
    let mut rng = key.rng();
    let mut draw = || loop {
        let value = normal(&mut rng, 0.0, 1.0);
        if value.abs() <= 2.0 {
            return (deviation * value) as f32;
        }
    };
    (0..count).map(|_| draw()).collect()
}

/// Training of a FedWEIT client.
pub(super) struct WeitClient<'a> {
    pub config: &'a FedWeit,
    pub shape: &'a WeitShape,
    pub ctx: &'a RunContext,
}

impl WeitClient<'_> {
    /// Trains a member and updates its state; returns its upload and metrics.
    pub fn train(&self, member: &mut Member) -> Result<ClientResult, PolicyError> {
        let mut state = WeitState::of(&member.state)?;
        let entries = match member.download.asset(KNOWLEDGE) {
            Some(asset) => entries_of(self.shape, &asset.body)?,
            None => Vec::new(),
        };
        self.enter(&mut state, member, entries.len())?;
        let (training, validating) = self.split(&member.shard);
        let mut metrics = self.learn(&mut state, member, &training, &entries)?;
        state.put(TRANSFER, transfer_of(self.shape, &state.set(ATTENTION), &entries));
        if let Some((loss, accuracy)) = self.validate(&state, member, &validating)? {
            self.note(&mut state, loss);
            metrics.push(("validation_loss", loss));
            metrics.push(("validation_accuracy", accuracy));
        }
        let (base, mask) = (state.set(BASE), state.set(MASK));
        let (upload, nonzero) = upload(self.shape, &base, &mask, self.config.dropped)?;
        metrics.push(("lr_factor", state.factor));
        metrics.push(("nonzero_sent", nonzero as f64));
        member.state = state.save();
        Ok(ClientResult { upload, metrics })
    }

    /// Returns a member's report at the end of a stage: the parts of its tasks.
    pub fn report(&self, member: &Member) -> Result<ClientResult, PolicyError> {
        let state = WeitState::of(&member.state)?;
        let first_row = member.participant.view.rows.start;
        if !state.works_on(first_row) {
            let why = "the client has no parts of this task: it has not trained it".to_owned();
            return Err(PolicyError::Unsupported(why));
        }
        let past = |row: usize| ReportedPart {
            first_row: row,
            adaptive: state.set(&WeitState::of_past(row, ADAPTIVE)),
            mask: state.set(&WeitState::of_past(row, MASK)),
            ..ReportedPart::default()
        };
        let moved = if self.config.retroactive { state.past() } else { Vec::new() };
        let mut parts: Vec<ReportedPart> = moved.into_iter().map(past).collect();
        parts.push(ReportedPart {
            first_row,
            adaptive: state.set(ADAPTIVE),
            mask: state.set(MASK),
            attention: state.set(ATTENTION),
            local: state.set(LOCAL),
        });
        let upload = report(self.shape, &parts, self.config.sparsity)?;
        let kept = sparse_set(&state.set(ADAPTIVE), self.config.sparsity);
        let kept = kept.iter().flat_map(|(_, part)| part.values.iter()).filter(|v| **v != 0.0);
        Ok(ClientResult { upload, metrics: vec![("nonzero_sent", kept.count() as f64)] })
    }

    /// Takes over the received base, and begins the task if it is new.
    fn enter(
        &self,
        state: &mut WeitState,
        member: &Member,
        entries: usize,
    ) -> Result<(), PolicyError> {
        let received = self.shape.split_of(&member.download.parameters);
        let fits = |layer: &SplitLayer| {
            received.get(&layer.name).is_some_and(|found| found.shape == layer.shape)
        };
        if let Some(layer) = self.shape.layers.iter().find(|layer| !fits(layer)) {
            let why = format!("`{}` was not sent in the shape {:?}", layer.name, layer.shape);
            return Err(PolicyError::Unsupported(why));
        }
        let view = &member.participant.view;
        if state.works_on(view.rows.start) {
            state.take_base(&received);
            return Ok(());
        }
        state.begin(view.rows.start);
        if self.config.drift_start == DriftStart::Own {
            state.mark_starts(self.shape, &state.set(BASE));
        }
        state.take_base(&received);
        if self.config.drift_start == DriftStart::Received {
            state.mark_starts(self.shape, &state.set(BASE));
        }
        let key = member.key.domain(Domain::Init);
        let drawn = |what: &str, layer: &SplitLayer, count: usize| {
            variance_scaled(count, key.named(&format!("{what}/{}", layer.name)))
        };
        let masks = self.shape.rows(SplitLayer::units, |layer, count| drawn(MASK, layer, count));
        state.put(MASK, masks);
        if entries > 0 {
            let attention =
                self.shape.rows(|_| entries, |layer, count| drawn(ATTENTION, layer, count));
            state.put(ATTENTION, attention);
        }
        let fraction = self.config.adaptive_start;
        let initial = state.set(INITIAL);
        state.put(ADAPTIVE, initial.zipped(&initial, |b, _| (f64::from(b) * fraction) as f32));
        let dim = self.ctx.backbone.dim();
        let head = self.config.head_init.parameters(view.rows.len(), dim, key);
        let local = self.ctx.backbone.parameters()?.merge(&head);
        state.put(LOCAL, self.shape.local_of(&local));
        Ok(())
    }

    /// Splits a shard into training and validation samples: every n-th sample of a class validates.
    fn split(&self, shard: &Shard) -> (Shard, Shard) {
        if self.config.validation <= 0.0 {
            return (Arc::clone(shard), Shard::from([]));
        }
        let every = (1.0 / self.config.validation).round().max(2.0) as usize;
        let labels = self.ctx.dataset.train.labels();
        let mut met = std::collections::BTreeMap::<u32, usize>::new();
        let validates = |sample: &u32| {
            let count = met.entry(labels[*sample as usize]).or_default();
            *count += 1;
            count.is_multiple_of(every)
        };
        let (validating, training): (Vec<u32>, Vec<u32>) =
            shard.iter().copied().partition(validates);
        (training.into(), validating.into())
    }

    fn learn(
        &self,
        state: &mut WeitState,
        member: &Member,
        shard: &Shard,
        entries: &[ParameterSet],
    ) -> Result<Vec<(&'static str, f64)>, PolicyError> {
        let (ctx, view) = (self.ctx, &member.participant.view);
        let theta = self.weights(state, &state.set(ADAPTIVE), entries);
        let received = theta.merge(&state.set(LOCAL));
        let network = Classifier::pack(&ctx.backbone, vec![received], 0..view.rows.len())?;
        let loader = ctx.with_frozen_features(ctx.train_loader(shard), network.frozen_part())?;
        let past = state.past();
        let layers = self.shape.layers.iter();
        let layers = layers.map(|layer| self.variables(layer, state, &past, entries));
        let steps = WeitSteps {
            network: &network,
            device: &ctx.device,
            first_row: view.rows.start as u32,
            weights: TermWeights {
                decay: self.config.decay,
                base_decays: past.is_empty(),
                sparsity: self.config.sparsity,
                drift: self.config.drift,
            },
            layers: layers.collect::<Result<Vec<LayerVariables>, PolicyError>>()?,
        };
        let trainables = steps.trainables();
        let vars: Vec<Var> = trainables.iter().map(|(_, var)| var.clone()).collect();
        let count = vars.len();
        let mut optimizer = ctx.training.optimizer.clone().over_pack(vars, 1);
        optimizer.set_rate_factors(vec![state.factor; count]);
        let courses = [MemberData { loader: &loader, key: member.key }];
        let reports = train_pack(&ctx.training, &mut optimizer, &trainables, &courses, |step| {
            steps.losses(step)
        })?;
        let report = reports.into_iter().next().transpose()?;
        let take =
            |of: &dyn Fn(&LayerVariables) -> Option<Var>| -> Result<ParameterSet, PolicyError> {
                let mut set = ParameterSet::new();
                for layer in &steps.layers {
                    if let Some(var) = of(layer) {
                        set.insert(&*layer.name, Parameter::of(&var)?);
                    }
                }
                Ok(set)
            };
        state.put(BASE, take(&|layer| Some(layer.base.clone()))?);
        state.put(MASK, take(&|layer| Some(layer.mask.clone()))?);
        state.put(ADAPTIVE, take(&|layer| Some(layer.adaptive.clone()))?);
        if !entries.is_empty() {
            state.put(ATTENTION, take(&|layer| layer.attention.clone())?);
        }
        for (number, row) in past.iter().enumerate().filter(|_| self.config.retroactive) {
            let var = |layer: &LayerVariables, which: usize| {
                layer.past_variables.get(number).map(|pair| pair[which].clone())
            };
            state.put(WeitState::of_past(*row, MASK), take(&|layer| var(layer, 0))?);
            state.put(WeitState::of_past(*row, ADAPTIVE), take(&|layer| var(layer, 1))?);
        }
        state.put(LOCAL, self.shape.local_of(&network.parameters()?));
        Ok(report.map(|report| report.metrics()).unwrap_or_default())
    }

    /// Returns the composed weights of all split layers, with these adaptive parts.
    fn weights(
        &self,
        state: &WeitState,
        adaptive: &ParameterSet,
        entries: &[ParameterSet],
    ) -> ParameterSet {
        let transfer = transfer_of(self.shape, &state.set(ATTENTION), entries);
        composed(self.shape, &state.set(BASE), &state.set(MASK), adaptive, Some(&transfer))
    }

    fn variables(
        &self,
        layer: &SplitLayer,
        state: &WeitState,
        past: &[usize],
        entries: &[ParameterSet],
    ) -> Result<LayerVariables, PolicyError> {
        let device = &self.ctx.device;
        let found = |set: ParameterSet| {
            let missing = || PolicyError::Unsupported(format!("no part of `{}`", layer.name));
            set.get(&layer.name).cloned().ok_or_else(missing)
        };
        let own = |name: &str| found(state.set(name));
        let of_past = |row: usize, part: &str| found(state.set(&WeitState::of_past(row, part)));
        let attention = match entries.is_empty() {
            true => None,
            false => Some(own(ATTENTION)?.variable(device)?),
        };
        let (mut earlier, mut past_variables) = (Vec::new(), Vec::new());
        for row in past {
            let (mask, adaptive) = (of_past(*row, MASK)?, of_past(*row, ADAPTIVE)?);
            if self.config.retroactive {
                past_variables.push([mask.variable(device)?, adaptive.variable(device)?]);
            }
            let start = of_past(*row, START)?.values;
            earlier.push([mask.values, adaptive.values, start]);
        }
        let entries = entries.iter().map(|entry| Ok(found(entry.clone())?.values));
        Ok(LayerVariables {
            name: layer.name.as_str().into(),
            base: own(BASE)?.variable(device)?,
            mask: own(MASK)?.variable(device)?,
            adaptive: own(ADAPTIVE)?.variable(device)?,
            attention,
            knowledge: entries.collect::<Result<Vec<_>, PolicyError>>()?,
            past: earlier,
            past_variables,
        })
    }

    /// Returns the mean cross-entropy and the accuracy on validation samples; `None` without any.
    ///
    /// The task's rows compete, and adaptive parts are thresholded as for predictions.
    fn validate(
        &self,
        state: &WeitState,
        member: &Member,
        shard: &Shard,
    ) -> Result<Option<(f64, f64)>, PolicyError> {
        if shard.is_empty() {
            return Ok(None);
        }
        let (ctx, first) = (self.ctx, member.participant.view.rows.start as u32);
        let adaptive = sparse_set(&state.set(ADAPTIVE), self.config.sparsity);
        let (base, mask, lent) = (state.set(BASE), state.set(MASK), state.set(TRANSFER));
        let theta = composed(self.shape, &base, &mask, &adaptive, Some(&lent));
        let model = Classifier::frozen(&ctx.backbone, &theta.merge(&state.set(LOCAL)))?;
        let loader = ctx.statistics_loader(shard);
        let loader = ctx.with_frozen_features(loader, model.frozen_part())?;
        let (mut sum, mut right) = (0.0, 0.0);
        for batch in loader.in_order(ctx.evaluation_batch) {
            let batch = batch?;
            let logits = model.logits(&model.batch_features(&batch, &ctx.device)?)?;
            for (row, label) in rows_of(&logits)?.iter().zip(batch.labels()) {
                let label = label.wrapping_sub(first) as usize;
                sum += cross_entropy(row, label);
                let own = row.get(label);
                right += f64::from(u8::from(row.iter().all(|z| own.is_some_and(|own| z <= own))));
            }
        }
        let count = shard.len() as f64;
        Ok(Some((sum / count, right / count)))
    }

    /// Records a validation loss; lowers the learning rate after `patience` rounds without a better one.
    fn note(&self, state: &mut WeitState, loss: f64) {
        if loss < state.lowest {
            (state.lowest, state.waited) = (loss, 0);
            return;
        }
        state.waited += 1;
        if state.waited >= u64::from(self.config.patience) {
            state.factor /= self.config.lr_divisor;
            state.waited = 0;
        }
    }
}

fn rows_of(logits: &Tensor) -> Result<Vec<Vec<f32>>, PolicyError> {
    Ok(logits.to_dtype(candle_core::DType::F32)?.to_vec2::<f32>()?)
}

/// Returns `-log softmax(z)_y` of the logits `z` and the label `y`.
fn cross_entropy(logits: &[f32], label: usize) -> f64 {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = logits.iter().map(|z| libm::exp(f64::from(*z) - f64::from(most))).sum();
    let own = logits.get(label).copied().unwrap_or(f32::NEG_INFINITY);
    libm::log(sum) + f64::from(most) - f64::from(own)
}
