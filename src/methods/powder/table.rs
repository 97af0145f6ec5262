//! Table of the client tasks of a run, which the server keeps side by side.

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

/// Identity of a client task: its owner and its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientTaskKey {
    /// Task of the client, or the stage in which the client task began.
    pub task: TaskId,
    /// Owner of the client task.
    pub client: ClientId,
}

impl ClientTaskKey {
    /// Returns the client task that a participant works on.
    pub fn of(participant: &Participant) -> ClientTaskKey {
        ClientTaskKey { task: participant.view.task, client: participant.client }
    }
}

/// State of one client task at the server.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTaskEntry {
    /// Identity of the client task.
    pub key: ClientTaskKey,
    /// Head rows of the client task, among those of all.
    pub rows: Range<usize>,
    /// Components and head of the client task.
    pub parameters: ParameterSet,
    /// Number of times that its owner has trained it.
    pub rounds: u32,
    /// Attention of the client task's samples, once computed.
    pub attention: Option<Attention>,
    /// True if the attention is current: no training and no new stage since it was computed.
    pub fresh: bool,
    /// Share of each class in its row of class similarities (see [`Likeness::class_shares`]).
    pub class_shares: Vec<f32>,
    /// Row of `W` from the last stage in which a client worked on it.
    ///
    /// Empty before that, when it uses itself alone.
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

/// Table of all client tasks that began, numbered in that order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientTaskTable {
    entries: Vec<ClientTaskEntry>,
    /// `W` of the stage, over the client tasks that existed when it was computed.
    weights: Vec<Vec<f64>>,
}

impl ClientTaskTable {
    /// Returns all client tasks, in the order in which they began.
    pub fn entries(&self) -> &[ClientTaskEntry] {
        &self.entries
    }

    /// Returns the number of a client task, or `None` if it did not begin.
    pub fn find(&self, key: ClientTaskKey) -> Option<usize> {
        self.entries.iter().position(|client_task| client_task.key == key)
    }

    /// Returns a client task by number, mutably.
    pub fn entry_mut(&mut self, number: usize) -> &mut ClientTaskEntry {
        &mut self.entries[number]
    }

    /// Returns the number of a client task, which is created with these head rows if it does not exist.
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

    /// Returns the client tasks against which a client task's samples need not be scored again.
    ///
    /// They were scored, and nothing has changed since.
    pub fn known(&self, client_task: usize) -> &[u32] {
        match &self.entries[client_task] {
            ClientTaskEntry { fresh: true, attention: Some(Attention { over, .. }), .. } => over,
            _ => &[],
        }
    }

    /// Stores the attention of a client task, which extends what is [known](ClientTaskTable::known).
    pub fn take(&mut self, client_task: usize, found: Attention, blocks: usize) {
        let client_task = &mut self.entries[client_task];
        let before = client_task.attention.take().filter(|_| client_task.fresh);
        client_task.attention = Some(match before {
            Some(before) => before.with(&found, blocks),
            None => found,
        });
        client_task.fresh = true;
    }

    /// Stores the parameters that a client task's owner trained; all attention is out of date from now on.
    pub fn learn(&mut self, client_task: usize, parameters: ParameterSet) {
        self.entries.iter_mut().for_each(|client_task| client_task.fresh = false);
        let client_task = &mut self.entries[client_task];
        client_task.parameters = parameters;
        client_task.rounds += 1;
    }

    /// Returns numbers and keys of the client tasks that others may use, without those in `known`.
    ///
    /// Keys and attention vectors are mixed as when each client task was last worked on.
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

    /// Computes `W` as a stage begins, and the class shares of the client tasks `asked`.
    ///
    /// Clients now work on those in `asked`, which will change, so scores of other client tasks against them are
    /// dropped.
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

    /// Returns a client task's row of `W`; one that began since is similar to itself alone.
    pub fn weights(&self, client_task: usize) -> Vec<f64> {
        let mut row = self.weights.get(client_task).cloned().unwrap_or_default();
        row.resize(self.entries.len(), 0.0);
        if client_task >= self.weights.len() {
            row[client_task] = 1.0;
        }
        row
    }

    /// Returns the mixtures that a client task uses: rows of `W` of its most similar client tasks.
    ///
    /// With prefixes side by side there is a single row, with equal shares of all.
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

    /// Returns the parameters that a client task uses: its own, and those that mix in others.
    pub fn mixed(&self, client_task: usize, shape: &ClientTaskShape) -> ParameterSet {
        let rows = self.rows(client_task, shape);
        let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
        let all: Vec<&ParameterSet> =
            self.entries.iter().map(|client_task| &client_task.parameters).collect();
        joined([&self.entries[client_task].parameters, &shape.mix(&rows, client_task, &all)])
    }

    /// Returns the table for a client: `count` client tasks (padded), with the receiver's mixtures.
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

    /// Saves the whole table, for a checkpoint.
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

    /// Reads a saved table; inverts [`save`](ClientTaskTable::save).
    ///
    /// # Errors
    /// When the body was not written by `save`.
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
