//! What Powder sends: a slot and what is mixed with it, keys to be looked at, and what samples attend to.

use std::sync::Arc;

use super::prompts::OWN_SHARE;
use crate::model::{LinearHead, ParameterSet};
use crate::policy::{OldMessage, parameter_sections, parameter_sketches, parameters_of};
use crate::wire::{
    Body, BodySketch, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, SectionSketch,
    TensorSketch, WireError,
};

use super::shape::SlotShape;
use super::similarity::Attention;

const RELATIVES: &str = "relatives";
const SLOT: &str = "slot";
const WEIGHTS: &str = "weights";
const MEANS: &str = "attention";
const COUNTS: &str = "counts";

/// Server to client.
#[derive(Clone, Debug, PartialEq)]
pub enum Down {
    /// A slot to train.
    Lesson(Lesson),
    /// Components to look at.
    Looks(Looks),
}

/// A slot and what it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    /// The slot's components and head, and what other slots give to its mixtures; nothing where there is a table.
    pub parameters: ParameterSet,
    /// All slots, from which the receiver takes the same.
    pub table: Option<SharedTable>,
    /// Whether somebody has trained the slot before, so that what arrives teaches.
    pub teaches: bool,
    /// How close each class is to a class of another slot.
    pub relatives: Vec<f32>,
}

/// All slots of a run, begun or not, as everybody gets them.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedTable {
    /// Components and heads of all slots, one behind the other; zeros for those that did not begin.
    pub parameters: ParameterSet,
    /// The place of the receiver's slot.
    pub slot: u32,
    /// Rows of `W` of its most similar slots, `(top, slots)`; a row of zeros for none.
    pub weights: Vec<f64>,
    /// Whether they are to be mixed.
    pub mixes: bool,
}

impl Lesson {
    /// Whether the slot uses others.
    pub fn is_mixed(&self) -> bool {
        let shared = self.table.as_ref().map(|table| table.mixes);
        shared.unwrap_or_else(|| self.parameters.get(OWN_SHARE).is_some())
    }

    /// The slot's parameters and what is mixed with them, wherever they come from.
    pub fn received(&self, shape: &SlotShape) -> ParameterSet {
        let Some(table) = &self.table else { return self.parameters.clone() };
        let slots = shape.slots_of(&table.parameters, self.relatives.len());
        let place = table.slot as usize;
        let mut received = slots[place].clone();
        if table.mixes {
            let rows = table.weights.chunks_exact(slots.len());
            let rows: Vec<&[f64]> = rows.filter(|row| row.iter().any(|w| *w > 0.0)).collect();
            let all: Vec<&ParameterSet> = slots.iter().collect();
            for (name, parameter) in shape.mix(&rows, place, &all).iter() {
                received.insert(Arc::clone(name), parameter.clone());
            }
        }
        received
    }
}

/// Keys and attention of slots.
#[derive(Clone, Debug, PartialEq)]
pub struct Looks {
    /// The slots, by number, rising.
    pub slots: Vec<u32>,
    /// Their rows one behind the other.
    pub parameters: ParameterSet,
}

impl Down {
    /// The shape of a lesson in so many classes, with or without other slots.
    pub fn lesson_sketch(shape: &SlotShape, classes: usize, mixed: bool) -> BodySketch {
        let mut all = shape.own(classes);
        if mixed {
            all.extend(shape.others());
        }
        let mut sections = parameter_sketches(&all);
        let relatives = TensorSketch::f32(RELATIVES, [classes]);
        sections.push(SectionSketch::new(Kind::Statistics, vec![relatives]));
        BodySketch::new(lesson_meta(false, false, false).len(), sections)
    }

    /// The shape of a lesson with all of so many slots.
    pub fn table_sketch(shape: &SlotShape, classes: usize, slots: usize) -> BodySketch {
        let mut sections = parameter_sketches(&shape.table(classes, slots));
        let tensors = vec![
            TensorSketch::f32(RELATIVES, [classes]),
            TensorSketch::new(SLOT, [], Dtype::U32),
            TensorSketch::new(WEIGHTS, [shape.top, slots], Dtype::F64),
        ];
        sections.push(SectionSketch::new(Kind::Statistics, tensors));
        BodySketch::new(lesson_meta(false, true, true).len(), sections)
    }

    /// The shape of so many slots' components.
    pub fn looks_sketch(shape: &SlotShape, slots: usize) -> BodySketch {
        let numbers: Vec<u32> = (0..slots as u32).collect();
        BodySketch::new(looks_meta(&numbers).len(), parameter_sketches(&shape.looks(slots)))
    }
}

fn lesson_meta(teaches: bool, shared: bool, mixes: bool) -> Vec<u8> {
    let mut meta = MetaWriter::new();
    meta.bool(false).bool(teaches).bool(shared).bool(mixes);
    meta.finish()
}

fn looks_meta(slots: &[u32]) -> Vec<u8> {
    let mut meta = MetaWriter::new();
    meta.bool(true).u32s(slots);
    meta.finish()
}

impl OldMessage for Down {
    fn pack(&self) -> Body {
        match self {
            Down::Lesson(Lesson { parameters, table, teaches, relatives }) => {
                let set = table.as_ref().map_or(parameters, |table| &table.parameters);
                let mut sections = parameter_sections(set);
                let mut tensors =
                    vec![NamedTensor::f32(RELATIVES, [relatives.len()], relatives.clone())];
                if let Some(SharedTable { slot, weights, .. }) = table {
                    let rows = table_rows(weights, slots_in(set, relatives.len()));
                    tensors.push(NamedTensor::u32(SLOT, [], vec![*slot]));
                    tensors.push(NamedTensor::f64(WEIGHTS, rows, &weights[..]));
                }
                let tensors = tensors.into_iter().map(|t| t.expect("lists fill their shapes"));
                sections.push(Section::new(Kind::Statistics, tensors.collect()));
                let mixes = table.as_ref().is_some_and(|table| table.mixes);
                Body::new(lesson_meta(*teaches, table.is_some(), mixes), sections)
            }
            Down::Looks(looks) => {
                Body::new(looks_meta(&looks.slots), parameter_sections(&looks.parameters))
            }
        }
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let mut meta = MetaReader::new(&body.meta);
        let parameters = parameters_of(body)?;
        let down = match meta.bool()? {
            false => {
                let relatives = body.tensor(Kind::Statistics, RELATIVES)?.as_f32()?.to_vec();
                let (teaches, shared, mixes) = (meta.bool()?, meta.bool()?, meta.bool()?);
                match shared {
                    false => Down::Lesson(Lesson { parameters, table: None, teaches, relatives }),
                    true => {
                        let slot = body.tensor(Kind::Statistics, SLOT)?.shaped(&[])?.as_u32()?[0];
                        let weights = body.tensor(Kind::Statistics, WEIGHTS)?.as_f64()?.to_vec();
                        if slot as usize >= slots_in(&parameters, relatives.len()) {
                            return Err(WireError::Malformed(format!("no slot {slot} in a table")));
                        }
                        let table = Some(SharedTable { parameters, slot, weights, mixes });
                        let parameters = ParameterSet::new();
                        Down::Lesson(Lesson { parameters, table, teaches, relatives })
                    }
                }
            }
            true => Down::Looks(Looks { slots: meta.u32s()?, parameters }),
        };
        meta.finish()?;
        Ok(down)
    }
}

/// Slots of so many classes in a table.
fn slots_in(table: &ParameterSet, classes: usize) -> usize {
    table.get(LinearHead::BIAS).map_or(0, |bias| bias.values.len()) / classes.max(1)
}

/// The extents of so many weights of so many slots.
fn table_rows(weights: &[f64], slots: usize) -> [usize; 2] {
    [weights.len() / slots.max(1), slots]
}

/// Client to server.
#[derive(Clone, Debug, PartialEq)]
pub enum Up {
    /// The slot as it was trained.
    Learnt(ParameterSet),
    /// What the samples attend to.
    Attention(Attention),
}

impl Up {
    /// The shape of a slot of so many classes.
    pub fn learnt_sketch(shape: &SlotShape, classes: usize) -> BodySketch {
        BodySketch::new(learnt_meta().len(), parameter_sketches(&shape.own(classes)))
    }

    /// The shape of what samples of so many classes attend to.
    pub fn attention_sketch(shape: &SlotShape, classes: usize, slots: usize) -> BodySketch {
        let numbers: Vec<u32> = (0..slots as u32).collect();
        let means = [classes, shape.blocks.len() * slots * shape.components];
        let tensors =
            vec![TensorSketch::f32(MEANS, means), TensorSketch::new(COUNTS, [classes], Dtype::U32)];
        BodySketch::new(
            looks_meta(&numbers).len(),
            vec![SectionSketch::new(Kind::Statistics, tensors)],
        )
    }
}

fn learnt_meta() -> Vec<u8> {
    let mut meta = MetaWriter::new();
    meta.bool(false);
    meta.finish()
}

impl OldMessage for Up {
    fn pack(&self) -> Body {
        match self {
            Up::Learnt(parameters) => Body::new(learnt_meta(), parameter_sections(parameters)),
            Up::Attention(Attention { over, means, counts }) => {
                let width = means.len() / counts.len().max(1);
                let tensors = vec![
                    NamedTensor::f32(MEANS, [counts.len(), width], means.clone()),
                    NamedTensor::u32(COUNTS, [counts.len()], counts.clone()),
                ];
                let tensors =
                    tensors.into_iter().map(|tensor| tensor.expect("means fill their shape"));
                let section = Section::new(Kind::Statistics, tensors.collect());
                Body::new(looks_meta(over), vec![section])
            }
        }
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let mut meta = MetaReader::new(&body.meta);
        let up = match meta.bool()? {
            false => Up::Learnt(parameters_of(body)?),
            true => Up::Attention(Attention {
                over: meta.u32s()?,
                means: body.tensor(Kind::Statistics, MEANS)?.as_f32()?.to_vec(),
                counts: body.tensor(Kind::Statistics, COUNTS)?.as_u32()?.to_vec(),
            }),
        };
        meta.finish()?;
        Ok(up)
    }
}
