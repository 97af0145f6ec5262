//! Server of FedWEIT: the base, the knowledge base of every task, and the parts that clients reported.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::messages::{ReportedPart, knowledge, read_report};
use super::state::{composed, taken_over, transfer_of};
use super::{FedWeitMethod, SplitLayers, WeitShape};
use crate::learning::Classifier;
use crate::methods::powder::{ClientTaskModel, ClientTaskModels};
use crate::model::{FrozenPart, LinearHead, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Aggregate, Asset, ElementwiseAverage, KeptUpload, Message, Participant, PolicyError, Predictor,
    RoundContext, RunContext, Server,
};
use crate::wire::{Body, Loading, MetaReader, MetaWriter, SavedField, Saving, WireError};

/// Parts of one task of one client.
#[derive(Clone, Debug, PartialEq)]
struct ClientPart {
    /// Head rows of the task.
    rows: Range<usize>,
    /// Task, whose knowledge base was used.
    task: u32,
    adaptive: ParameterSet,
    mask: ParameterSet,
    /// Weighted sum over the knowledge base.
    transfer: ParameterSet,
    local: ParameterSet,
}

/// Adaptive parts by client, and the asset that contains them.
#[derive(Clone, Debug)]
struct Knowledge {
    entries: Vec<(u32, ParameterSet)>,
    asset: Arc<Asset>,
}

/// Server of FedWEIT.
pub(super) struct WeitServer {
    method: FedWeitMethod,
    init: StreamKey,
    /// Base that is sent: zero where no client sent a value in the last round.
    base: ParameterSet,
    /// Latest value of each element that clients sent, for predictions.
    held: ParameterSet,
    /// Reported parts, by client and first head row.
    parts: BTreeMap<(u32, usize), ClientPart>,
    /// Knowledge bases, by the task in which clients receive them.
    knowledge: BTreeMap<u32, Knowledge>,
    metrics: Vec<(&'static str, f64)>,
}

impl WeitServer {
    pub fn new(method: FedWeitMethod, init: StreamKey) -> WeitServer {
        WeitServer {
            method,
            init,
            base: ParameterSet::new(),
            held: ParameterSet::new(),
            parts: BTreeMap::new(),
            knowledge: BTreeMap::new(),
            metrics: Vec::new(),
        }
    }

    /// Returns the first base, for tasks of `classes` classes.
    fn first_base(&self, classes: usize, ctx: &RunContext) -> Result<ParameterSet, PolicyError> {
        let config = &self.method.config;
        let all = match config.train {
            SplitLayers::Network => ctx.backbone.parameters()?,
            SplitLayers::Head => {
                config.head_init.parameters(classes, ctx.backbone.dim(), self.init)
            }
        };
        Ok(self.method.shape(classes).split_of(&all))
    }

    /// Makes the knowledge base for a task from reported adaptive parts.
    fn remember(
        &mut self,
        task: u32,
        entries: Vec<(u32, ParameterSet)>,
        shape: &WeitShape,
    ) -> Result<(), WireError> {
        let by_client = entries.iter().map(|(client, set)| (*client, set));
        let asset = Arc::new(knowledge(shape, by_client, task)?);
        self.knowledge.insert(task, Knowledge { entries, asset });
        Ok(())
    }

    /// Stores a client's report; returns the adaptive parts of its current task.
    fn take(
        &mut self,
        participant: &Participant,
        reported: Vec<ReportedPart>,
        shape: &WeitShape,
    ) -> Option<ParameterSet> {
        let (client, view) = (participant.client.0, &participant.view);
        let mut latest = None;
        for part in reported {
            if part.first_row != view.rows.start {
                if let Some(known) = self.parts.get_mut(&(client, part.first_row)) {
                    (known.adaptive, known.mask) = (part.adaptive, part.mask);
                }
                continue;
            }
            let task = u32::from(view.task.0);
            let known = self.knowledge.get(&task).map(|known| &known.entries[..]);
            let entries = known.unwrap_or_default().iter().map(|(_, set)| set.clone());
            let transfer = transfer_of(shape, &part.attention, &entries.collect::<Vec<_>>());
            latest = Some(part.adaptive.clone());
            let ReportedPart { first_row, adaptive, mask, local, .. } = part;
            let rows = view.rows.clone();
            let part = ClientPart { rows, task, adaptive, mask, transfer, local };
            self.parts.insert((client, first_row), part);
        }
        latest
    }

    /// Sets the base to the mean over the clients that sent a value, and to zero where none did.
    fn merge(&mut self, average: &ElementwiseAverage) {
        let mean = average.apply(self.base.clone());
        let mut base = ParameterSet::new();
        let (mut sent, mut all) = (0, 0);
        for (name, parameter) in mean.iter() {
            let weights = average.weights(name).unwrap_or_default();
            let is_sent = |at: usize| weights.get(at).is_some_and(|weight| *weight > 0.5);
            let value = |(at, value): (usize, &f32)| if is_sent(at) { *value } else { 0.0 };
            let mut merged = parameter.clone();
            merged.values = parameter.values.iter().enumerate().map(value).collect();
            sent += (0..merged.values.len()).filter(|at| is_sent(*at)).count();
            all += merged.values.len();
            base.insert(Arc::clone(name), merged);
        }
        self.held = taken_over(&self.held, &base);
        self.base = base;
        self.metrics = vec![("sent_fraction", sent as f64 / all.max(1) as f64)];
    }

    fn classes(&self) -> usize {
        self.base.get(LinearHead::WEIGHT).map_or(1, |head| head.rows())
    }
}

impl Server for WeitServer {
    fn broadcast(
        &mut self,
        round: &RoundContext,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        if !FedWeitMethod::trains(round.phase) {
            let nothing = Arc::new(Message::default());
            return Ok(participants.iter().map(|_| Arc::clone(&nothing)).collect());
        }
        let mut made = BTreeMap::<u32, Arc<Message>>::new();
        let mut downloads = Vec::with_capacity(participants.len());
        for participant in participants {
            let classes = participant.view.rows.len();
            if self.base.is_empty() {
                self.base = self.first_base(classes, ctx)?;
                self.held = self.base.clone();
            }
            if self.method.config.train == SplitLayers::Head && classes != self.classes() {
                let rows = self.classes();
                return Err(PolicyError::Unsupported(format!(
                    "a task of {classes} classes and a split head of {rows} rows: tasks must be of \
                     one size, or set `method.train = \"network\"`"
                )));
            }
            let task = u32::from(participant.view.task.0);
            if task > 0 && !self.knowledge.contains_key(&task) {
                self.remember(task, Vec::new(), &self.method.shape(classes))?;
            }
            let asset = self.knowledge.get(&task).map(|known| Arc::clone(&known.asset));
            let base = &self.base;
            let download = made.entry(task).or_insert_with(|| {
                let control = asset.iter().flat_map(|asset| asset.digest().to_le_bytes());
                let control = control.collect();
                let assets = asset.iter().cloned().collect();
                Arc::new(Message { control, assets, ..Message::of(base.clone()) })
            });
            downloads.push(Arc::clone(download));
        }
        Ok(downloads)
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        _ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        self.metrics.clear();
        let Some(aggregate) = aggregate else { return Ok(()) };
        if FedWeitMethod::trains(round.phase) {
            self.merge(&aggregate.elementwise);
            return Ok(());
        }
        let mut entries = BTreeMap::new();
        for KeptUpload { meta, update, .. } in aggregate.kept_uploads {
            let shape = self.method.shape(meta.participant.view.rows.len());
            let reported = read_report(&shape, &update)?;
            if let Some(adaptive) = self.take(&meta.participant, reported, &shape) {
                entries.insert(meta.participant.client.0, adaptive);
            }
        }
        let shape = self.method.shape(self.classes());
        let numbers = entries.len() * shape.numbers();
        let values =
            entries.values().flat_map(ParameterSet::iter).flat_map(|(_, p)| p.values.iter());
        let kept = values.filter(|value| **value != 0.0).count();
        self.metrics = vec![
            ("knowledge_entries", entries.len() as f64),
            ("knowledge_density", kept as f64 / numbers.max(1) as f64),
        ];
        let next = u32::from(round.stage.task.0) + 1;
        Ok(self.remember(next, entries.into_iter().collect(), &shape)?)
    }

    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        let (mut models, mut frozen) = (Vec::new(), FrozenPart::Nothing);
        for ClientPart { rows, adaptive, mask, transfer, local, .. } in self.parts.values() {
            let shape = self.method.shape(rows.len());
            let theta = composed(&shape, &self.held, mask, adaptive, Some(transfer));
            let model = Arc::new(Classifier::frozen(&ctx.backbone, &theta.merge(local))?);
            frozen = model.frozen_part();
            models.push(ClientTaskModel { rows: rows.clone(), model });
        }
        Ok(Arc::new(ClientTaskModels::of_networks(&ctx.backbone, models, frozen)))
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.metrics.clone()
    }

    fn save(&self) -> Body {
        let (mut numbers, mut sets) = (Vec::new(), BTreeMap::new());
        sets.insert("base".to_owned(), self.base.clone());
        sets.insert("held".to_owned(), self.held.clone());
        for (at, ((client, _), part)) in self.parts.iter().enumerate() {
            let Range { start, end } = part.rows;
            numbers.extend([*client, start as u32, end as u32, part.task]);
            let named = [
                ("adaptive", &part.adaptive),
                ("mask", &part.mask),
                ("transfer", &part.transfer),
                ("local", &part.local),
            ];
            sets.extend(named.map(|(name, set)| (format!("part.{at}.{name}"), set.clone())));
        }
        let mut known = Vec::new();
        for (task, knowledge) in &self.knowledge {
            known.extend([*task, knowledge.entries.len() as u32]);
            for (client, entry) in &knowledge.entries {
                known.push(*client);
                sets.insert(format!("knowledge.{task}.{client}"), entry.clone());
            }
        }
        sets.retain(|_, set| !set.is_empty());
        let mut into = Saving { meta: MetaWriter::new(), sections: Vec::new() };
        into.meta.u32s(&numbers).u32s(&known);
        sets.save_field(&mut into);
        into.finish()
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        let mut from = Loading { meta: MetaReader::new(&saved.meta), body: saved };
        let (numbers, known) = (from.meta.u32s()?, from.meta.u32s()?);
        let mut sets = BTreeMap::<String, ParameterSet>::load_field(&mut from)?;
        from.meta.finish()?;
        let mut set = |name: String| sets.remove(&name).unwrap_or_default();
        self.base = set("base".to_owned());
        self.held = set("held".to_owned());
        self.parts.clear();
        for (at, part) in numbers.chunks_exact(4).enumerate() {
            let rows = part[1] as usize..part[2] as usize;
            let mut of = |name: &str| set(format!("part.{at}.{name}"));
            let loaded = ClientPart {
                rows,
                task: part[3],
                adaptive: of("adaptive"),
                mask: of("mask"),
                transfer: of("transfer"),
                local: of("local"),
            };
            self.parts.insert((part[0], part[1] as usize), loaded);
        }
        self.knowledge.clear();
        let shape = self.method.shape(self.classes());
        let mut known = known.into_iter();
        while let (Some(task), Some(count)) = (known.next(), known.next()) {
            let clients: Vec<u32> = known.by_ref().take(count as usize).collect();
            let entry = |client: u32| (client, set(format!("knowledge.{task}.{client}")));
            let entries = clients.into_iter().map(entry).collect();
            self.remember(task, entries, &shape)?;
        }
        self.metrics.clear();
        Ok(())
    }
}
