//! Messages of Powder: a client task and its mixture, keys to be scored, and the attention of samples.
//!
//! The first control field of a message is true if it serves to compute similarities, and false if it serves training.

use std::sync::Arc;

use super::prompts::OWN_SHARE;
use super::shape::ClientTaskShape;
use super::similarity::Attention;
use crate::model::{LinearHead, Parameter, ParameterSet};
use crate::policy::{Message, MessageSpec, TensorSpec, UploadSize};
use crate::wire::TensorValues::{F32, F64, U32};
use crate::wire::{Dtype, Kind, MetaReader, MetaWriter, NamedTensor, WireError};

const CLASS_SHARES: &str = "class_shares";
const SLOT: &str = "slot";
const WEIGHTS: &str = "weights";
const MEANS: &str = "attention";
const COUNTS: &str = "counts";

/// Download for training: a client task and its mixture with others.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTaskDownload {
    /// Components and head of the client task, and the part that other client tasks add to its mixtures.
    ///
    /// The latter is missing if a table is sent.
    pub parameters: ParameterSet,
    /// All client tasks, from which the receiver computes the same mixtures.
    pub table: Option<SharedTable>,
    /// True if the received client task is the teacher of the distillation: in every round but the run's first.
    pub distills: bool,
    /// Share of each class in its row of class similarities.
    ///
    /// See [`Likeness::class_shares`](super::Likeness::class_shares). The share is smaller for classes that have
    /// relatives in other client tasks.
    pub class_shares: Vec<f32>,
}

/// All client tasks of a run, started or not, as every client gets them.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedTable {
    /// Components and heads of all client tasks, concatenated; zeros for those that did not start.
    pub parameters: ParameterSet,
    /// Index of the receiver's client task.
    pub client_task: u32,
    /// Rows of `W` of the most similar client tasks, `(top, client tasks)`; unused rows are zero.
    pub weights: Vec<f64>,
    /// True if client tasks are mixed.
    pub mixes: bool,
}

impl ClientTaskDownload {
    /// Returns the specification of a download with this number of classes.
    ///
    /// `mixes` is true if it uses other client tasks; `table` is the number of client tasks in a table, or `None`
    /// without one.
    pub fn layout(
        shape: &ClientTaskShape,
        classes: usize,
        (distills, mixes): (bool, bool),
        table: Option<usize>,
    ) -> MessageSpec {
        let mut extra = vec![statistic(CLASS_SHARES, &[classes], Dtype::F32)];
        let mut parameters = shape.own(classes);
        match table {
            None if mixes => parameters.extend(shape.others()),
            None => {}
            Some(client_tasks) => {
                parameters = shape.table(classes, client_tasks);
                extra.push(statistic(SLOT, &[], Dtype::U32));
                extra.push(statistic(WEIGHTS, &[shape.top, client_tasks], Dtype::F64));
            }
        }
        let mut control = MetaWriter::new();
        control.bool(false).bool(distills).bool(table.is_some()).bool(table.is_some() && mixes);
        MessageSpec {
            control: control.finish(),
            parameters: places(parameters),
            extra,
            ..MessageSpec::default()
        }
    }

    /// Writes the download into a message.
    ///
    /// # Errors
    /// When parameters or the table do not have this shape.
    pub fn write(self, shape: &ClientTaskShape) -> Result<Message, WireError> {
        let (about, classes) = ((self.distills, self.is_mixed()), self.class_shares.len());
        let client_tasks = self.table.as_ref().map(|table| table.weights.len() / shape.top.max(1));
        let layout = ClientTaskDownload::layout(shape, classes, about, client_tasks);
        let class_shares = F32(self.class_shares.into());
        match self.table {
            None => Message::filling(&layout, self.parameters, [class_shares]),
            Some(SharedTable { parameters, client_task, weights, .. }) => {
                let values = [class_shares, U32([client_task].into()), F64(weights.into())];
                Message::filling(&layout, parameters, values)
            }
        }
    }

    /// Reads the download of a message; inverts [`write`](ClientTaskDownload::write).
    ///
    /// # Errors
    /// When the message is no such download.
    pub fn read(message: &Message) -> Result<ClientTaskDownload, WireError> {
        let mut fields = fields_of(message, false)?;
        let (distills, shared, mixes) = (fields.bool()?, fields.bool()?, fields.bool()?);
        fields.finish()?;
        let class_shares = message.tensor(Kind::Statistics, CLASS_SHARES)?.as_f32()?.to_vec();
        let parameters = message.parameters.clone();
        if !shared {
            return Ok(ClientTaskDownload { parameters, table: None, distills, class_shares });
        }
        let client_task = message.tensor(Kind::Statistics, SLOT)?.shaped(&[])?.as_u32()?[0];
        let weights = message.tensor(Kind::Statistics, WEIGHTS)?.as_f64()?.to_vec();
        let rows = parameters.get(LinearHead::BIAS).map_or(0, |bias| bias.values.len());
        if client_task as usize >= rows / class_shares.len().max(1) {
            return Err(WireError::Malformed(format!("no client task {client_task} in a table")));
        }
        let table = Some(SharedTable { parameters, client_task, weights, mixes });
        Ok(ClientTaskDownload { parameters: ParameterSet::new(), table, distills, class_shares })
    }

    /// Returns true if the client task is mixed with others.
    pub fn is_mixed(&self) -> bool {
        let shared = self.table.as_ref().map(|table| table.mixes);
        shared.unwrap_or_else(|| self.parameters.get(OWN_SHARE).is_some())
    }

    /// Returns the client task's parameters and the part that other client tasks add to its mixtures.
    ///
    /// If a table was sent, the part is computed from it.
    pub fn received(&self, shape: &ClientTaskShape) -> ParameterSet {
        let Some(table) = &self.table else { return self.parameters.clone() };
        let client_tasks = shape.client_tasks_of(&table.parameters, self.class_shares.len());
        let place = table.client_task as usize;
        let mut received = client_tasks[place].clone();
        if table.mixes {
            let rows = table.weights.chunks_exact(client_tasks.len());
            let rows: Vec<&[f64]> = rows.filter(|row| row.iter().any(|w| *w > 0.0)).collect();
            let all: Vec<&ParameterSet> = client_tasks.iter().collect();
            for (name, parameter) in shape.mix(&rows, place, &all).iter() {
                received.insert(name.clone(), parameter.clone());
            }
        }
        received
    }
}

/// Returns the specification of an upload after training: a client task with this number of classes.
pub fn trained_client_task(shape: &ClientTaskShape, classes: usize) -> MessageSpec {
    let mut control = MetaWriter::new();
    control.bool(false);
    let parameters = places(shape.own(classes)).into_iter().map(TensorSpec::kept).collect();
    MessageSpec { control: control.finish(), ..MessageSpec::of(parameters) }
}

/// Keys and attention vectors of client tasks, mixed as in their last training.
#[derive(Clone, Debug, PartialEq)]
pub struct SimilarityKeys {
    /// Numbers of the client tasks, ascending.
    pub client_tasks: Vec<u32>,
    /// Keys and attention vectors of the client tasks, their rows concatenated.
    pub parameters: ParameterSet,
}

impl SimilarityKeys {
    /// Returns the specification of a download with the keys of these client tasks.
    ///
    /// Those of client tasks that have not begun, or that the receiver has scored, are not sent.
    pub fn layout(shape: &ClientTaskShape, client_tasks: &[u32]) -> MessageSpec {
        let place = |(name, rows): (String, Vec<usize>)| similarity(&name, &rows, Dtype::F32);
        let extra = shape.looks(client_tasks.len()).into_iter().map(place).collect();
        let control = looking_at(client_tasks);
        MessageSpec { control, extra, is_upper_bound: true, ..MessageSpec::default() }
    }

    /// Writes the keys into a message.
    ///
    /// # Errors
    /// When they do not have this shape.
    pub fn write(self, shape: &ClientTaskShape) -> Result<Message, WireError> {
        let layout = SimilarityKeys::layout(shape, &self.client_tasks);
        let values = layout.extra.iter().map(|place| {
            let found = self.parameters.get(&place.name);
            F32(found.map(|parameter| Arc::clone(&parameter.values)).unwrap_or_default())
        });
        let values: Vec<_> = values.collect();
        Message::filling(&layout, ParameterSet::new(), values)
    }

    /// Reads the keys of a message; inverts [`write`](SimilarityKeys::write).
    ///
    /// # Errors
    /// When the message is no such download.
    pub fn read(message: &Message) -> Result<SimilarityKeys, WireError> {
        let mut fields = fields_of(message, true)?;
        let client_tasks = fields.u32s()?;
        fields.finish()?;
        let all = message.extra.iter().filter(|section| section.kind == Kind::Similarity);
        let parameter = |tensor: &NamedTensor| -> Result<(Arc<str>, Parameter), WireError> {
            let (shape, values) = (tensor.shape().to_vec(), tensor.as_f32()?.to_vec().into());
            Ok((Arc::clone(tensor.name()), Parameter { shape, values }))
        };
        let parameters = all.flat_map(|section| &section.tensors).map(parameter);
        Ok(SimilarityKeys { client_tasks, parameters: parameters.collect::<Result<_, _>>()? })
    }
}

impl Attention {
    /// Returns the specification of an upload of attention, for these client tasks.
    ///
    /// Client tasks that were trained since are scored, too, so the size is not known in advance.
    pub fn layout(shape: &ClientTaskShape, classes: usize, client_tasks: &[u32]) -> MessageSpec {
        let extra = vec![
            similarity(MEANS, &[classes, shape.scores(client_tasks.len())], Dtype::F32).kept(),
            similarity(COUNTS, &[classes], Dtype::U32).kept(),
        ];
        let size = UploadSize::FromValues;
        MessageSpec { control: looking_at(client_tasks), extra, size, ..MessageSpec::default() }
    }

    /// Writes the attention into a message.
    ///
    /// # Errors
    /// When the scores do not have this shape.
    pub fn write(self, shape: &ClientTaskShape) -> Result<Message, WireError> {
        let layout = Attention::layout(shape, self.counts.len(), &self.over);
        let values = [F32(self.means.into()), U32(self.counts.into())];
        Message::filling(&layout, ParameterSet::new(), values)
    }

    /// Reads the attention of a message; inverts [`write`](Attention::write).
    ///
    /// # Errors
    /// When the message is no such upload.
    pub fn read(message: &Message) -> Result<Attention, WireError> {
        let mut fields = fields_of(message, true)?;
        let over = fields.u32s()?;
        fields.finish()?;
        let means = message.tensor(Kind::Similarity, MEANS)?.as_f32()?.to_vec();
        let counts = message.tensor(Kind::Similarity, COUNTS)?.as_u32()?.to_vec();
        Ok(Attention { over, means, counts })
    }
}

fn statistic(name: &str, shape: &[usize], dtype: Dtype) -> TensorSpec {
    TensorSpec::new(Kind::Statistics, name, shape, dtype)
}

/// Returns the specification of a tensor that is sent only to compute similarities.
///
/// It has its own kind: the release computes similarities where the images are and sends nothing, so these bytes are
/// not Powder's.
fn similarity(name: &str, shape: &[usize], dtype: Dtype) -> TensorSpec {
    TensorSpec::new(Kind::Similarity, name, shape, dtype)
}

fn places(parameters: Vec<(String, Vec<usize>)>) -> Vec<TensorSpec> {
    parameters.into_iter().map(|(name, shape)| TensorSpec::parameter(name, &shape)).collect()
}

fn looking_at(client_tasks: &[u32]) -> Vec<u8> {
    let mut control = MetaWriter::new();
    control.bool(true).u32s(client_tasks);
    control.finish()
}

/// Returns the control fields after the first, or an error if the message serves the other purpose.
fn fields_of(message: &Message, looking: bool) -> Result<MetaReader<'_>, WireError> {
    let mut fields = message.fields();
    match fields.bool()? == looking {
        true => Ok(fields),
        false => Err(WireError::Malformed("a message of Powder of another phase".to_owned())),
    }
}
