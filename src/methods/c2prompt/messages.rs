//! What C2Prompt sends: what Powder sends, moments of classes up and Gaussians down in round 0, and how well
//! components match classes beside every trained slot.

use super::moments::{Gaussians, SlotMoments};
use crate::methods::powder;
use crate::policy::OldMessage;
use crate::wire::{
    Body, BodySketch, Dtype, Kind, NamedTensor, Section, SectionSketch, TensorSketch, WireError,
};

const MEANS: &str = "means";
const VARIANCES: &str = "variances";
const COUNTS: &str = "counts";
const HISTOGRAM: &str = "histogram";

/// Server to client.
#[derive(Clone, Debug, PartialEq)]
pub enum Down {
    /// What Powder sends.
    Powder(powder::Down),
    /// The moments of the receiver's classes are wanted.
    Ask,
    /// The Gaussians of its classes, of width `d`.
    Gaussians(Gaussians),
}

/// Client to server.
#[derive(Clone, Debug, PartialEq)]
pub enum Up {
    /// What Powder sends and, beside a trained slot, `(components, classes)` scores.
    Powder(powder::Up, Option<Vec<f32>>),
    /// The moments of its classes.
    Moments(SlotMoments),
    /// Compensation prompts are trained, and stay where they are.
    Done,
}

/// The first byte of a message.
const POWDER: u8 = 0;
const FIRST: u8 = 1;
const SECOND: u8 = 2;

fn tagged(tag: u8, mut body: Body) -> Body {
    body.meta.insert(0, tag);
    body
}

fn opened(body: &Body) -> Result<(u8, Body), WireError> {
    let (tag, rest) = body.meta.split_first().ok_or(WireError::Truncated("meta"))?;
    Ok((*tag, Body::new(rest.to_vec(), body.sections.clone())))
}

fn unknown(tag: u8) -> WireError {
    WireError::Malformed(format!("no message of C2Prompt begins with {tag}"))
}

/// `(classes, d)` of both.
fn gaussian_tensors(classes: usize, means: &[f32], variances: &[f32]) -> Vec<NamedTensor> {
    let shape = [classes, means.len() / classes.max(1)];
    let tensors = [(MEANS, means), (VARIANCES, variances)];
    let tensor = |(name, values): (&str, &[f32])| {
        NamedTensor::f32(name, shape, values.to_vec()).expect("moments fill their shape")
    };
    tensors.map(tensor).into()
}

fn gaussian_sketches(classes: usize, dim: usize) -> Vec<TensorSketch> {
    [MEANS, VARIANCES].map(|name| TensorSketch::f32(name, [classes, dim])).into()
}

fn values(body: &Body, name: &str) -> Result<Vec<f32>, WireError> {
    Ok(body.tensor(Kind::Prototypes, name)?.as_f32()?.to_vec())
}

impl Down {
    /// Powder's shape with a tag.
    pub fn powder_sketch(mut inner: BodySketch) -> BodySketch {
        inner.meta += 1;
        inner
    }

    /// The shape of a question.
    pub fn ask_sketch() -> BodySketch {
        BodySketch::new(1, Vec::new())
    }

    /// The shape of the Gaussians of so many classes.
    pub fn gaussians_sketch(classes: usize, dim: usize) -> BodySketch {
        let tensors = gaussian_sketches(classes, dim);
        BodySketch::new(1, vec![SectionSketch::new(Kind::Prototypes, tensors)])
    }
}

impl OldMessage for Down {
    fn pack(&self) -> Body {
        match self {
            Down::Powder(inner) => tagged(POWDER, inner.pack()),
            Down::Ask => Body::new(vec![FIRST], Vec::new()),
            Down::Gaussians(Gaussians { means, variances, classes }) => {
                let tensors = gaussian_tensors(*classes, means, variances);
                Body::new(vec![SECOND], vec![Section::new(Kind::Prototypes, tensors)])
            }
        }
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let (tag, inner) = opened(body)?;
        match tag {
            POWDER => Ok(Down::Powder(powder::Down::unpack(&inner)?)),
            FIRST => Ok(Down::Ask),
            SECOND => {
                let classes = body.tensor(Kind::Prototypes, MEANS)?.shape().first().copied();
                let (means, variances) = (values(body, MEANS)?, values(body, VARIANCES)?);
                let classes = classes.unwrap_or(0);
                Ok(Down::Gaussians(Gaussians { classes, means, variances }))
            }
            tag => Err(unknown(tag)),
        }
    }
}

impl Up {
    /// Powder's shape with a tag and, where they are wanted, scores of components for classes.
    pub fn powder_sketch(mut inner: BodySketch, histogram: Option<[usize; 2]>) -> BodySketch {
        inner.meta += 1;
        if let Some(shape) = histogram {
            let tensor = TensorSketch::f32(HISTOGRAM, shape);
            inner.sections.push(SectionSketch::new(Kind::Statistics, vec![tensor]));
        }
        inner
    }

    /// The shape of the moments of so many classes.
    pub fn moments_sketch(classes: usize, dim: usize) -> BodySketch {
        let mut tensors = gaussian_sketches(classes, dim);
        tensors.push(TensorSketch::new(COUNTS, [classes], Dtype::U32));
        BodySketch::new(1, vec![SectionSketch::new(Kind::Prototypes, tensors)])
    }

    /// The shape of nothing.
    pub fn done_sketch() -> BodySketch {
        BodySketch::new(1, Vec::new())
    }
}

impl OldMessage for Up {
    fn pack(&self) -> Body {
        match self {
            Up::Powder(inner, histogram) => {
                let mut body = tagged(POWDER, inner.pack());
                if let (powder::Up::Learnt(slot), Some(scores)) = (inner, histogram) {
                    let classes = slot.get("head.bias").map_or(1, |bias| bias.values.len()).max(1);
                    let shape = [scores.len() / classes, classes];
                    let tensor = NamedTensor::f32(HISTOGRAM, shape, scores.clone());
                    let tensor = tensor.expect("scores fill their shape");
                    body.sections.push(Section::new(Kind::Statistics, vec![tensor]));
                }
                body
            }
            Up::Moments(SlotMoments { means, variances, counts }) => {
                let mut tensors = gaussian_tensors(counts.len(), means, variances);
                let counts = NamedTensor::u32(COUNTS, [counts.len()], counts.clone());
                tensors.push(counts.expect("a list fills its own length"));
                Body::new(vec![FIRST], vec![Section::new(Kind::Prototypes, tensors)])
            }
            Up::Done => Body::new(vec![SECOND], Vec::new()),
        }
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let (tag, inner) = opened(body)?;
        match tag {
            POWDER => {
                let statistics = body.of_kind(Kind::Statistics);
                let found = statistics.into_iter().find(|tensor| &**tensor.name() == HISTOGRAM);
                let scores = found.map(|tensor| tensor.as_f32().map(|v| v.to_vec())).transpose()?;
                Ok(Up::Powder(powder::Up::unpack(&inner)?, scores))
            }
            FIRST => Ok(Up::Moments(SlotMoments {
                means: values(body, MEANS)?,
                variances: values(body, VARIANCES)?,
                counts: body.tensor(Kind::Prototypes, COUNTS)?.as_u32()?.to_vec(),
            })),
            SECOND => Ok(Up::Done),
            tag => Err(unknown(tag)),
        }
    }
}
