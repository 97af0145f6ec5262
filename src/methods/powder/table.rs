//! The slots of a run, side by side: what the server keeps.

use std::ops::Range;
use std::sync::Arc;

use super::messages::SharedTable;
use super::shape::SlotShape;
use super::similarity::{Attention, Likeness, most_similar};
use crate::model::{Parameter, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{Seat, parameter_sections, parameters_of};
use crate::quantity::{ClientId, TaskId};
use crate::wire::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};

/// Whose slot it is: a client learns a task in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotKey {
    /// The task, or the period in which it began.
    pub task: TaskId,
    /// Its owner.
    pub client: ClientId,
}

impl SlotKey {
    /// The slot that a seat works on.
    pub fn of(seat: &Seat) -> SlotKey {
        SlotKey { task: seat.view.task, client: seat.client }
    }
}

/// One slot.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// Whose it is.
    pub key: SlotKey,
    /// Its head rows among all.
    pub rows: Range<usize>,
    /// Components and head.
    pub parameters: ParameterSet,
    /// How often its owner has trained it.
    pub rounds: u32,
    /// What its samples attend to, once somebody looked.
    pub attention: Option<Attention>,
    /// How close its classes are to those of other slots.
    pub relatives: Vec<f32>,
}

impl Slot {
    /// Whether its owner has trained it.
    pub fn is_trained(&self) -> bool {
        self.rounds > 0
    }
}

/// All slots that began, in the order in which they did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlotTable {
    slots: Vec<Slot>,
    /// `W` of the period, over the slots there were as it was computed.
    weights: Vec<Vec<f64>>,
}

impl SlotTable {
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// The number of a slot.
    pub fn find(&self, key: SlotKey) -> Option<usize> {
        self.slots.iter().position(|slot| slot.key == key)
    }

    /// A slot, to change.
    pub fn slot_mut(&mut self, number: usize) -> &mut Slot {
        &mut self.slots[number]
    }

    /// The number of the slot with these head rows, which begins now if it has not yet.
    pub fn begin(
        &mut self,
        key: SlotKey,
        rows: Range<usize>,
        shape: &SlotShape,
        init: StreamKey,
    ) -> usize {
        if let Some(known) = self.find(key) {
            return known;
        }
        let classes = rows.len();
        let earlier: Vec<&ParameterSet> = self.slots.iter().map(|slot| &slot.parameters).collect();
        let draws = init.task(u32::from(key.task.0)).client(key.client.0);
        let parameters = shape.start(classes, &earlier, draws);
        let (attention, relatives) = (None, vec![0.0; classes]);
        self.slots.push(Slot { key, rows, parameters, rounds: 0, attention, relatives });
        self.slots.len() - 1
    }

    /// The slots that were trained, by number, and their keys and attention.
    pub fn looks(&self, shape: &SlotShape) -> (Vec<u32>, ParameterSet) {
        let trained = self.slots.iter().zip(0..).filter(|(slot, _)| slot.is_trained());
        let (slots, numbers): (Vec<&ParameterSet>, Vec<u32>) =
            trained.map(|(slot, number)| (&slot.parameters, number)).unzip();
        (numbers, shape.looks_of(&slots))
    }

    /// A period begins: computes `W`, and for the slots of `asked` how close their classes are to others.
    pub fn compare(&mut self, likeness: &Likeness, asked: &[usize]) {
        let attention: Vec<Option<&Attention>> =
            self.slots.iter().map(|slot| slot.attention.as_ref()).collect();
        let trained: Vec<bool> = self.slots.iter().map(Slot::is_trained).collect();
        let weights = likeness.weights(&attention, &trained);
        let relatives: Vec<_> = asked
            .iter()
            .map(|slot| (*slot, likeness.relatives(&attention, &trained, *slot)))
            .collect();
        self.weights = weights;
        for (slot, relatives) in relatives {
            if let Some(relatives) = relatives {
                self.slots[slot].relatives = relatives;
            }
        }
    }

    /// The row of `W` of a slot over all slots; one that began since is like itself alone.
    pub fn weights(&self, slot: usize) -> Vec<f64> {
        let mut row = self.weights.get(slot).cloned().unwrap_or_default();
        row.resize(self.slots.len(), 0.0);
        if slot >= self.weights.len() {
            row[slot] = 1.0;
        }
        row
    }

    /// What a slot works with: its own parameters and what is mixed with them.
    pub fn mixed(&self, slot: usize, shape: &SlotShape) -> ParameterSet {
        let rows: Vec<Vec<f64>> = most_similar(&self.weights(slot), shape.top)
            .into_iter()
            .map(|similar| self.weights(similar))
            .collect();
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let all: Vec<&ParameterSet> = self.slots.iter().map(|slot| &slot.parameters).collect();
        joined([&self.slots[slot].parameters, &shape.mix(&rows, slot, &all)])
    }

    /// All slots as everybody gets them, with what a slot takes from them, for `count` slots.
    pub fn shared(&self, slot: usize, count: usize, mixes: bool, shape: &SlotShape) -> SharedTable {
        let mut weights = Vec::with_capacity(shape.top * count);
        for similar in most_similar(&self.weights(slot), shape.top) {
            let mut row = self.weights(similar);
            row.resize(count, 0.0);
            weights.extend(row);
        }
        weights.resize(shape.top * count, 0.0);
        let all: Vec<&ParameterSet> = self.slots.iter().map(|slot| &slot.parameters).collect();
        let parameters = shape.table_of(&all, self.slots[slot].rows.len(), count);
        SharedTable { parameters, slot: slot as u32, weights, mixes }
    }

    /// Everything, for a checkpoint.
    pub fn save(&self) -> Body {
        let (mut meta, mut all) = (MetaWriter::new(), ParameterSet::new());
        let mut statistics = Vec::new();
        meta.u64(self.slots.len() as u64).u64(self.weights.len() as u64);
        for (number, slot) in self.slots.iter().enumerate() {
            meta.u64(u64::from(slot.key.task.0)).u64(u64::from(slot.key.client.0));
            meta.u64(slot.rows.start as u64).u64(slot.rows.end as u64).u64(u64::from(slot.rounds));
            meta.bool(slot.attention.is_some());
            for (name, parameter) in slot.parameters.iter() {
                all.insert(format!("{number:05}/{name}"), parameter.clone());
            }
            statistics.push(NamedTensor::f32(
                format!("{number:05}/relatives"),
                [slot.relatives.len()],
                slot.relatives.clone(),
            ));
            if let Some(Attention { over, means, counts }) = &slot.attention {
                meta.u32s(over).u32s(counts);
                let name = format!("{number:05}/attention");
                statistics.push(NamedTensor::f32(name, [means.len()], means.clone()));
            }
        }
        let (rows, weights) = (self.weights.len(), self.weights.concat());
        statistics.push(NamedTensor::f64("weights", [rows, rows], &weights[..]));
        let statistics =
            statistics.into_iter().map(|tensor| tensor.expect("lists fill their shapes"));
        let mut sections = parameter_sections(&all);
        sections.push(Section::new(Kind::Statistics, statistics.collect()));
        Body::new(meta.finish(), sections)
    }

    /// The inverse of [`save`](SlotTable::save).
    ///
    /// # Errors
    /// Where it was not written by it.
    pub fn load(saved: &Body) -> Result<SlotTable, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (count, compared) = (meta.u64()? as usize, meta.u64()? as usize);
        let all = parameters_of(saved)?;
        let mut slots = Vec::new();
        for number in 0..count {
            let prefix = format!("{number:05}/");
            let list = |name: &str| -> Result<Vec<f32>, WireError> {
                let tensor = saved.tensor(Kind::Statistics, &format!("{prefix}{name}"))?;
                Ok(tensor.as_f32()?.to_vec())
            };
            let (task, client) = (TaskId(meta.u64()? as u16), ClientId(meta.u64()? as u32));
            let rows = meta.u64()? as usize..meta.u64()? as usize;
            let (rounds, looked) = (meta.u64()? as u32, meta.bool()?);
            let attention = match looked {
                false => None,
                true => Some(Attention {
                    over: meta.u32s()?,
                    counts: meta.u32s()?,
                    means: list("attention")?,
                }),
            };
            let own = |(name, parameter): (&Arc<str>, &Parameter)| {
                Some((name.strip_prefix(prefix.as_str())?.to_owned(), parameter.clone()))
            };
            let parameters = all.iter().filter_map(own).collect();
            let (key, relatives) = (SlotKey { task, client }, list("relatives")?);
            slots.push(Slot { key, rows, parameters, rounds, attention, relatives });
        }
        meta.finish()?;
        let weights = saved.tensor(Kind::Statistics, "weights")?.shaped(&[compared, compared])?;
        let weights = weights.as_f64()?;
        let row = |row: usize| weights[row * compared..(row + 1) * compared].to_vec();
        Ok(SlotTable { slots, weights: (0..compared).map(row).collect() })
    }
}

fn joined(sets: [&ParameterSet; 2]) -> ParameterSet {
    let all = sets.into_iter().flat_map(ParameterSet::iter);
    all.map(|(name, parameter)| (Arc::clone(name), parameter.clone())).collect()
}
