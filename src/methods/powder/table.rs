//! The client tasks of a run, side by side: what the server keeps.

use std::ops::Range;
use std::sync::Arc;

use super::config::SourceTasks;
use super::messages::SharedTable;
use super::shape::{ClientTaskForm, ClientTaskShape};
use super::similarity::{Attention, Likeness, most_similar};
use crate::model::{Parameter, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{Participant, parameter_sections, parameters_of};
use crate::quantity::{ClientId, TaskId};
use crate::wire::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};

/// Identity of a client task: the owner, and the task that it learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientTaskKey {
    /// The task, or the stage in which it began.
    pub task: TaskId,
    /// Its owner.
    pub client: ClientId,
}

impl ClientTaskKey {
    /// Returns the client task that a participant works on.
    pub fn of(participant: &Participant) -> ClientTaskKey {
        ClientTaskKey { task: participant.view.task, client: participant.client }
    }
}

/// One client task.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTaskEntry {
    /// Identity of the client task.
    pub key: ClientTaskKey,
    /// Its head rows among all.
    pub rows: Range<usize>,
    /// Components and head.
    pub parameters: ParameterSet,
    /// Number of times that its owner has trained it.
    pub rounds: u32,
    /// Attention of its samples, once it was computed.
    pub attention: Option<Attention>,
    /// True if the attention is current: no training and no new stage since it was computed.
    pub fresh: bool,
    /// The share of each of its classes in the class's own row (see [`Likeness::class_shares`]).
    pub class_shares: Vec<f32>,
    /// Its row of `W` from the last stage in which a client worked on it; empty before: then it mixes itself alone.
    pub row: Vec<f64>,
}

impl ClientTaskEntry {
    /// Returns true if its owner has trained it.
    pub fn is_trained(&self) -> bool {
        self.rounds > 0
    }

    /// Returns true if other client tasks may use it.
    pub fn lends(&self, lend: SourceTasks) -> bool {
        lend == SourceTasks::Started || self.is_trained()
    }
}

/// All client tasks that began, in the order in which they did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientTaskTable {
    entries: Vec<ClientTaskEntry>,
    /// `W` of the stage, over the client tasks there were as it was computed.
    weights: Vec<Vec<f64>>,
}

impl ClientTaskTable {
    /// Returns all client tasks, in the order in which they began.
    pub fn entries(&self) -> &[ClientTaskEntry] {
        &self.entries
    }

    /// Returns the number of a client task.
    pub fn find(&self, key: ClientTaskKey) -> Option<usize> {
        self.entries.iter().position(|client_task| client_task.key == key)
    }

    /// Returns a client task, to change.
    pub fn entry_mut(&mut self, number: usize) -> &mut ClientTaskEntry {
        &mut self.entries[number]
    }

    /// Returns the number of the client task with these head rows, which begins now if it has not yet.
    pub fn begin(
        &mut self,
        key: ClientTaskKey,
        rows: Range<usize>,
        shape: &ClientTaskShape,
        init: StreamKey,
    ) -> usize {
        if let Some(known) = self.find(key) {
            return known;
        }
        let classes = rows.len();
        let earlier: Vec<&ParameterSet> =
            self.entries.iter().map(|client_task| &client_task.parameters).collect();
        let draws = init.task(u32::from(key.task.0)).client(key.client.0);
        let parameters = shape.start(classes, &earlier, draws);
        let (attention, class_shares, row) = (None, vec![1.0; classes], Vec::new());
        let (rounds, fresh) = (0, false);
        let client_task =
            ClientTaskEntry { key, rows, parameters, rounds, attention, fresh, class_shares, row };
        self.entries.push(client_task);
        self.entries.len() - 1
    }

    /// Returns the client tasks that a client task's samples need not be scored against again: they were scored since
    /// anything changed.
    pub fn known(&self, client_task: usize) -> &[u32] {
        match &self.entries[client_task] {
            ClientTaskEntry { fresh: true, attention: Some(Attention { over, .. }), .. } => over,
            _ => &[],
        }
    }

    /// Takes what the samples of a client task attend to, besides what is [known](ClientTaskTable::known).
    pub fn take(&mut self, client_task: usize, found: Attention, blocks: usize) {
        let client_task = &mut self.entries[client_task];
        let before = client_task.attention.take().filter(|_| client_task.fresh);
        client_task.attention = Some(match before {
            Some(before) => before.with(&found, blocks),
            None => found,
        });
        client_task.fresh = true;
    }

    /// A client task was trained: `parameters` is what its owner made of it.
    pub fn learn(&mut self, client_task: usize, parameters: ParameterSet) {
        self.entries.iter_mut().for_each(|client_task| client_task.fresh = false);
        let client_task = &mut self.entries[client_task];
        client_task.parameters = parameters;
        client_task.rounds += 1;
    }

    /// Returns the client tasks that lend, by number, without those that are `known`.
    ///
    /// Each has the keys and attention that it mixed when it was last worked on.
    pub fn looks(
        &self,
        shape: &ClientTaskShape,
        lend: SourceTasks,
        known: &[u32],
    ) -> (Vec<u32>, ParameterSet) {
        let lending =
            self.entries.iter().zip(0..).filter(|(client_task, _)| client_task.lends(lend));
        let lending = lending.filter(|(_, number)| known.binary_search(number).is_err());
        let numbers: Vec<u32> = lending.map(|(_, number)| number).collect();
        let all: Vec<&ParameterSet> =
            self.entries.iter().map(|client_task| &client_task.parameters).collect();
        let row = |number: &u32| {
            let number = *number as usize;
            let mut row = self.entries[number].row.clone();
            row.resize(all.len(), 0.0);
            if self.entries[number].row.is_empty() {
                row[number] = 1.0;
            }
            row
        };
        let rows: Vec<Vec<f64>> = numbers.iter().map(row).collect();
        (numbers, shape.similarity_keys(&rows, &all))
    }

    /// A stage begins: computes `W`, and for the client tasks of `asked`, on which a client works now, how alone their
    /// classes are. What other client tasks attend to in those of `asked` will not stay as it is: from now on it does
    /// not count.
    pub fn compare(&mut self, likeness: &Likeness, lend: SourceTasks, asked: &[usize]) {
        let changing: Vec<u32> = asked.iter().map(|client_task| *client_task as u32).collect();
        for (number, client_task) in self.entries.iter_mut().enumerate() {
            if let (false, Some(attention)) = (asked.contains(&number), &mut client_task.attention)
            {
                *attention = attention.without(&changing, likeness.blocks);
            }
        }
        let attention: Vec<Option<&Attention>> =
            self.entries.iter().map(|client_task| client_task.attention.as_ref()).collect();
        let lending: Vec<bool> =
            self.entries.iter().map(|client_task| client_task.lends(lend)).collect();
        let weights = likeness.weights(&attention, &lending);
        let shares = likeness.class_shares(&attention, &lending, asked);
        self.weights = weights;
        self.entries.iter_mut().for_each(|client_task| client_task.fresh = false);
        for (client_task, shares) in asked.iter().zip(shares) {
            self.entries[*client_task].row = self.weights[*client_task].clone();
            if let Some(shares) = shares {
                self.entries[*client_task].class_shares = shares;
            }
        }
    }

    /// The row of `W` of a client task over all client tasks; one that began since is like itself alone.
    pub fn weights(&self, client_task: usize) -> Vec<f64> {
        let mut row = self.weights.get(client_task).cloned().unwrap_or_default();
        row.resize(self.entries.len(), 0.0);
        if client_task >= self.weights.len() {
            row[client_task] = 1.0;
        }
        row
    }

    /// Returns the shares that a client task takes of all: rows of `W` of its most similar client tasks. Side by side,
    /// it is an even share of each.
    fn rows(&self, client_task: usize, shape: &ClientTaskShape) -> Vec<Vec<f64>> {
        let count = self.entries.len();
        match shape.form {
            ClientTaskForm::Prefixes => vec![vec![1.0 / count as f64; count]],
            ClientTaskForm::Tokens => {
                let similar = most_similar(&self.weights(client_task), shape.top);
                similar.into_iter().map(|similar| self.weights(similar)).collect()
            }
        }
    }

    /// Returns the parameters that a client task uses: its own and the mixture with others.
    pub fn mixed(&self, client_task: usize, shape: &ClientTaskShape) -> ParameterSet {
        let rows = self.rows(client_task, shape);
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let all: Vec<&ParameterSet> =
            self.entries.iter().map(|client_task| &client_task.parameters).collect();
        joined([&self.entries[client_task].parameters, &shape.mix(&rows, client_task, &all)])
    }

    /// Returns all `count` client tasks as every client gets them, with what each takes from them.
    pub fn shared(
        &self,
        client_task: usize,
        count: usize,
        mixes: bool,
        shape: &ClientTaskShape,
    ) -> SharedTable {
        let mut weights = Vec::with_capacity(shape.top * count);
        for mut row in self.rows(client_task, shape) {
            row.resize(count, 0.0);
            weights.extend(row);
        }
        weights.resize(shape.top * count, 0.0);
        let all: Vec<&ParameterSet> =
            self.entries.iter().map(|client_task| &client_task.parameters).collect();
        let parameters = shape.table_of(&all, self.entries[client_task].rows.len(), count);
        SharedTable { parameters, client_task: client_task as u32, weights, mixes }
    }

    /// Everything, for a checkpoint.
    pub fn save(&self) -> Body {
        let (mut meta, mut all) = (MetaWriter::new(), ParameterSet::new());
        let mut statistics = Vec::new();
        meta.u64(self.entries.len() as u64).u64(self.weights.len() as u64);
        for (number, client_task) in self.entries.iter().enumerate() {
            meta.u64(u64::from(client_task.key.task.0)).u64(u64::from(client_task.key.client.0));
            meta.u64(client_task.rows.start as u64)
                .u64(client_task.rows.end as u64)
                .u64(u64::from(client_task.rounds));
            meta.bool(client_task.attention.is_some());
            for (name, parameter) in client_task.parameters.iter() {
                all.insert(format!("{number:05}/{name}"), parameter.clone());
            }
            statistics.push(NamedTensor::f32(
                format!("{number:05}/class_shares"),
                [client_task.class_shares.len()],
                client_task.class_shares.clone(),
            ));
            let name = format!("{number:05}/row");
            statistics.push(NamedTensor::f64(name, [client_task.row.len()], &client_task.row[..]));
            if let Some(Attention { over, means, counts }) = &client_task.attention {
                meta.bool(client_task.fresh).u32s(over).u32s(counts);
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

    /// Inverts [`save`](ClientTaskTable::save).
    ///
    /// # Errors
    /// Where it was not written by it.
    pub fn load(saved: &Body) -> Result<ClientTaskTable, WireError> {
        let mut meta = MetaReader::new(&saved.meta);
        let (count, compared) = (meta.u64()? as usize, meta.u64()? as usize);
        let all = parameters_of(saved)?;
        let mut client_tasks = Vec::new();
        for number in 0..count {
            let prefix = format!("{number:05}/");
            let list = |name: &str| -> Result<Vec<f32>, WireError> {
                let tensor = saved.tensor(Kind::Statistics, &format!("{prefix}{name}"))?;
                Ok(tensor.as_f32()?.to_vec())
            };
            let (task, client) = (TaskId(meta.u64()? as u16), ClientId(meta.u64()? as u32));
            let rows = meta.u64()? as usize..meta.u64()? as usize;
            let (rounds, looked) = (meta.u64()? as u32, meta.bool()?);
            let fresh = looked && meta.bool()?;
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
            let (key, class_shares) = (ClientTaskKey { task, client }, list("class_shares")?);
            let row = saved.tensor(Kind::Statistics, &format!("{prefix}row"))?.as_f64()?.to_vec();
            let client_task = ClientTaskEntry {
                key,
                rows,
                parameters,
                rounds,
                attention,
                fresh,
                class_shares,
                row,
            };
            client_tasks.push(client_task);
        }
        meta.finish()?;
        let weights = saved.tensor(Kind::Statistics, "weights")?.shaped(&[compared, compared])?;
        let weights = weights.as_f64()?;
        let row = |row: usize| weights[row * compared..(row + 1) * compared].to_vec();
        Ok(ClientTaskTable { entries: client_tasks, weights: (0..compared).map(row).collect() })
    }
}

fn joined(sets: [&ParameterSet; 2]) -> ParameterSet {
    let all = sets.into_iter().flat_map(ParameterSet::iter);
    all.map(|(name, parameter)| (Arc::clone(name), parameter.clone())).collect()
}
