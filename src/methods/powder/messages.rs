//! What Powder sends: a slot and what is mixed with it, keys to be looked at, and what samples attend to.

use crate::model::ParameterSet;
use crate::policy::{Message, parameter_sections, parameter_sketches, parameters_of};
use crate::wire::{
    Body, BodySketch, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, SectionSketch,
    TensorSketch, WireError,
};

use super::shape::SlotShape;
use super::similarity::Attention;

const RELATIVES: &str = "relatives";
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
    /// The slot's components and head, and what other slots give to its mixtures.
    pub parameters: ParameterSet,
    /// Whether somebody has trained the slot before, so that what arrives teaches.
    pub teaches: bool,
    /// How close each class is to a class of another slot.
    pub relatives: Vec<f32>,
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
        BodySketch::new(lesson_meta(false).len(), sections)
    }

    /// The shape of so many slots' components.
    pub fn looks_sketch(shape: &SlotShape, slots: usize) -> BodySketch {
        let numbers: Vec<u32> = (0..slots as u32).collect();
        BodySketch::new(looks_meta(&numbers).len(), parameter_sketches(&shape.looks(slots)))
    }
}

fn lesson_meta(teaches: bool) -> Vec<u8> {
    let mut meta = MetaWriter::new();
    meta.bool(false).bool(teaches);
    meta.finish()
}

fn looks_meta(slots: &[u32]) -> Vec<u8> {
    let mut meta = MetaWriter::new();
    meta.bool(true).u32s(slots);
    meta.finish()
}

impl Message for Down {
    fn pack(&self) -> Body {
        match self {
            Down::Lesson(lesson) => {
                let mut sections = parameter_sections(&lesson.parameters);
                let relatives = lesson.relatives.clone();
                let relatives = NamedTensor::f32(RELATIVES, [relatives.len()], relatives);
                let relatives = relatives.expect("a list fills its own length");
                sections.push(Section::new(Kind::Statistics, vec![relatives]));
                Body::new(lesson_meta(lesson.teaches), sections)
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
                Down::Lesson(Lesson { parameters, teaches: meta.bool()?, relatives })
            }
            true => Down::Looks(Looks { slots: meta.u32s()?, parameters }),
        };
        meta.finish()?;
        Ok(down)
    }
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

impl Message for Up {
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
