//! Powder's server: keeps slots side by side, and compares them as a period begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::messages::{ClientTaskDownload, SimilarityKeys};
use super::predictor::{ClientTaskModel, ClientTaskModels};
use super::table::{ClientTaskKey, ClientTaskTable};
use super::{Attention, Downlink, OPENING, Powder};
use crate::learning::Classifier;
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Aggregate, KeptUpload, Message, Participant, PolicyError, Predictor, RoundContext, RunContext,
    Server,
};
use crate::wire::{Body, WireError};

/// What the server knows.
pub struct PowderServer {
    method: Arc<Powder>,
    init: StreamKey,
    table: ClientTaskTable,
    figures: Vec<(&'static str, f64)>,
}

impl PowderServer {
    /// Without slots.
    pub fn new(method: Arc<Powder>, init: StreamKey) -> PowderServer {
        PowderServer { method, init, table: ClientTaskTable::default(), figures: Vec::new() }
    }

    /// All slots.
    pub fn table(&self) -> &ClientTaskTable {
        &self.table
    }

    /// All slots, to change.
    pub fn table_mut(&mut self) -> &mut ClientTaskTable {
        &mut self.table
    }

    /// The number of a seat's slot, which begins now if it has not yet.
    fn begin(&mut self, participant: &Participant) -> usize {
        let (key, rows) = (ClientTaskKey::of(participant), participant.view.rows.clone());
        self.table.begin(key, rows, &self.method.shape, self.init)
    }

    /// `W` of the period that begins for these slots.
    fn compare(&mut self, asked: &[usize]) {
        self.table.compare(&self.method.likeness(), self.method.config.lend, asked);
        self.note(asked);
    }

    /// Looks at the samples of slots that clients leave in this round for others, which begin now.
    fn look_at_left(
        &mut self,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let latest = |participant: &Participant| {
            let slots = self.table.slots();
            let beginner = self.table.find(ClientTaskKey::of(participant)).is_none();
            slots.iter().rposition(|slot| beginner && slot.key.client == participant.client)
        };
        let left: Vec<usize> = participants.iter().filter_map(latest).collect();
        self.look_at(&left, ctx)
    }

    /// Looks at the samples of slots that clients work on: of all as a period begins, later of those that begin then.
    fn look_at_held(
        &mut self,
        round: &RoundContext,
        slots: &[usize],
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let opens = round.round_in_phase == 0;
        let new = |slot: &&usize| self.table.slots()[**slot].attention.is_none();
        let asked: Vec<usize> = slots.iter().filter(|slot| opens || new(slot)).copied().collect();
        self.look_at(&asked, ctx)?;
        if !asked.is_empty() {
            self.compare(&asked);
        }
        Ok(())
    }

    /// What clients would answer in a phase of their own.
    fn look_at(&mut self, slots: &[usize], ctx: &RunContext) -> Result<(), PolicyError> {
        let looks = self.looks(&[]);
        for slot in slots {
            let rows = self.table.slots()[*slot].rows.clone();
            // The classes of the data set of slots are their head rows.
            let samples = ctx.dataset.train.of_classes(rows.clone().map(|row| row as u32));
            let found = self.method.attention(&rows, &samples.into(), &looks, ctx)?;
            self.table.slot_mut(*slot).attention = Some(found);
        }
        Ok(())
    }

    /// Slots to be scored against, but for those that are `known`.
    fn looks(&self, known: &[u32]) -> SimilarityKeys {
        let Powder { shape, config, .. } = &*self.method;
        let (slots, parameters) = self.table.looks(shape, config.lend, known);
        SimilarityKeys { slots, parameters }
    }

    /// What clients that work on these slots are to score: who was asked a moment ago, as a period ended, is asked about
    /// slots that began since alone.
    fn questions(&self, slots: &[usize]) -> Result<Vec<Arc<Message>>, PolicyError> {
        let mut made = BTreeMap::<&[u32], Arc<Message>>::new();
        let question = |slot: &usize| {
            let known = self.table.known(*slot);
            if !made.contains_key(known) {
                made.insert(known, Arc::new(self.looks(known).write(&self.method.shape)?));
            }
            Ok(Arc::clone(&made[known]))
        };
        slots.iter().map(question).collect()
    }

    /// The mean weight that slots leave to themselves, over those that were asked.
    fn note(&mut self, asked: &[usize]) {
        let own: f64 = asked.iter().map(|slot| self.table.weights(*slot)[*slot]).sum();
        let mean = (!asked.is_empty()).then(|| ("own_weight", own / asked.len() as f64));
        self.figures = vec![("slots", self.table.slots().len() as f64)];
        self.figures.extend(mean);
    }
}

impl Server for PowderServer {
    /// Slots begin here, in the order of seats.
    fn broadcast(
        &mut self,
        round: &RoundContext,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        let method = Arc::clone(&self.method);
        let here = Powder::mixes(round.phase) && method.looks_at_server();
        if here {
            self.look_at_left(participants, ctx)?;
        }
        let slots: Vec<usize> =
            participants.iter().map(|participant| self.begin(participant)).collect();
        if here {
            self.look_at_held(round, &slots, ctx)?;
        }
        if !Powder::trains(round.phase) {
            return self.questions(&slots);
        }
        let mixes = Powder::mixes(round.phase);
        // The release distils in every round but the run's first, also what nobody has trained yet.
        let teaches = round.period.task.index() > 0 || round.round_in_phase > 0;
        let slot_down = |slot: usize| {
            let known = &self.table.slots()[slot];
            let (parameters, table) = match method.config.downlink {
                Downlink::Table => {
                    let count = method.slots(known.rows.len());
                    let shared = self.table.shared(slot, count, mixes, &method.shape);
                    (ParameterSet::new(), Some(shared))
                }
                Downlink::Needed if mixes => (self.table.mixed(slot, &method.shape), None),
                Downlink::Needed => (known.parameters.clone(), None),
            };
            let class_shares = known.class_shares.clone();
            let slot_down = ClientTaskDownload { parameters, table, teaches, class_shares };
            Ok(Arc::new(slot_down.write(&method.shape)?))
        };
        slots.into_iter().map(slot_down).collect()
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        folded: Option<Aggregate>,
        _lab: &RunContext,
    ) -> Result<(), PolicyError> {
        self.figures.clear();
        let Some(Aggregate { kept, .. }) = folded else { return Ok(()) };
        let mut asked = Vec::new();
        for KeptUpload { meta, update, .. } in kept {
            // A server that was lost may not know whom it asked.
            let number = self.begin(&meta.participant);
            if Powder::trains(round.phase) {
                self.table.learn(number, update.parameters);
            } else {
                let blocks = self.method.shape.blocks.len();
                self.table.take(number, Attention::read(&update)?, blocks);
                asked.push(number);
            }
        }
        if round.phase == OPENING {
            self.compare(&asked);
        }
        Ok(())
    }

    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        let shape = &self.method.shape;
        let mut slots = Vec::new();
        for (number, slot) in self.table.slots().iter().enumerate() {
            if !slot.is_trained() {
                continue;
            }
            let parameters = match self.method.config.transfer {
                true => self.table.mixed(number, shape),
                false => slot.parameters.clone(),
            };
            let prompting = Arc::new(self.method.prompting(false));
            let model = Classifier::frozen_with(&ctx.backbone, &parameters, Some(prompting))?;
            slots.push(ClientTaskModel { rows: slot.rows.clone(), model: Arc::new(model) });
        }
        Ok(Arc::new(ClientTaskModels::new(&ctx.backbone, slots, shape.blocks.start)))
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.figures.clone()
    }

    fn save(&self) -> Body {
        self.table.save()
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.table = ClientTaskTable::load(saved)?;
        self.figures.clear();
        Ok(())
    }
}
