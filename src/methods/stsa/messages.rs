//! What STSA sends: the seed of the random layer down; sums up.

use super::config::{Payload, StsaConfig, Variant};
use crate::numerics::symmetric::{Symmetric, packed_len};
use crate::policy::OldMessage;
use crate::wire::{
    Body, BodySketch, Dtype, Kind, MetaReader, NamedTensor, Section, SectionSketch, TensorSketch,
    Values, WireError,
};

const SEED: &str = "seed";
const GRAM: &str = "gram";
const SUMS: &str = "sums";
const COUNTS: &str = "counts";

/// Server to client: all it needs beside the frozen network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Down {
    /// Of the random layer.
    pub seed: u64,
}

impl Down {
    /// Its shape.
    pub fn sketch() -> BodySketch {
        let seed = TensorSketch::new(SEED, [], Dtype::U64);
        BodySketch::new(0, vec![SectionSketch::new(Kind::Settings, vec![seed])])
    }
}

impl OldMessage for Down {
    fn pack(&self) -> Body {
        let seed = NamedTensor::new(SEED, [], Values::U64([self.seed].into()));
        let seed = seed.expect("one value fills a scalar");
        Body::new(Vec::new(), vec![Section::new(Kind::Settings, vec![seed])])
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        MetaReader::new(&body.meta).finish()?;
        Ok(Down { seed: body.tensor(Kind::Settings, SEED)?.shaped(&[])?.as_u64()?[0] })
    }
}

/// Sums of features by class: `P^T`, a row per class of the task.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSums {
    /// Width of a row, `D`.
    pub width: usize,
    /// `(classes, D)`, row-major.
    pub values: Vec<f64>,
}

impl ClassSums {
    /// Zeros.
    pub fn zeros(classes: usize, width: usize) -> ClassSums {
        ClassSums { width, values: vec![0.0; classes * width] }
    }

    /// How many classes.
    pub fn classes(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// The sum of a class.
    pub fn row(&self, class: usize) -> &[f64] {
        &self.values[class * self.width..(class + 1) * self.width]
    }

    /// The sum of a class, to change.
    pub fn row_mut(&mut self, class: usize) -> &mut [f64] {
        &mut self.values[class * self.width..(class + 1) * self.width]
    }

    /// Adds those of the same classes.
    pub fn add(&mut self, other: &ClassSums) {
        self.values.iter_mut().zip(&other.values).for_each(|(a, b)| *a += b);
    }
}

/// What is sent beside the sums: how features spread around them.
#[derive(Clone, Debug, PartialEq)]
pub enum Spread {
    /// STSA: `G`, the sum of `h h^T`.
    Gram(Symmetric),
    /// STSA-E: how many samples each class has. Whole numbers, unless noise was added.
    Counts(Vec<f64>),
}

/// Client to server.
#[derive(Clone, Debug, PartialEq)]
pub struct Up {
    /// Sums of the features of every class of the task.
    pub sums: ClassSums,
    /// How they spread.
    pub spread: Spread,
    /// The numbers in which they travel.
    pub payload: Payload,
    /// Whether of `G` the lower triangle travels only.
    pub symmetric: bool,
}

impl Up {
    /// Its shape for a task of so many classes.
    pub fn sketch(config: &StsaConfig, width: usize, classes: usize) -> BodySketch {
        let dtype = match config.payload {
            Payload::F32 => Dtype::F32,
            Payload::F64 => Dtype::F64,
        };
        let sums = TensorSketch::new(SUMS, [classes, width], dtype);
        let tensors = match config.variant {
            Variant::Exact { symmetric: false } => {
                vec![TensorSketch::new(GRAM, [width, width], dtype), sums]
            }
            Variant::Exact { symmetric: true } => {
                vec![TensorSketch::new(GRAM, [packed_len(width)], dtype), sums]
            }
            Variant::Estimated(_) => vec![sums, TensorSketch::new(COUNTS, [classes], dtype)],
        };
        BodySketch::new(0, vec![SectionSketch::new(Kind::Statistics, tensors)])
    }

    fn tensor(&self, name: &str, shape: &[usize], values: &[f64]) -> NamedTensor {
        let tensor = match self.payload {
            Payload::F32 => {
                NamedTensor::f32(name, shape, values.iter().map(|v| *v as f32).collect::<Vec<_>>())
            }
            Payload::F64 => NamedTensor::f64(name, shape, values),
        };
        tensor.expect("sums fill their shapes")
    }
}

impl OldMessage for Up {
    fn pack(&self) -> Body {
        let (classes, width) = (self.sums.classes(), self.sums.width);
        let sums = self.tensor(SUMS, &[classes, width], &self.sums.values);
        let tensors = match &self.spread {
            Spread::Gram(gram) if self.symmetric => {
                vec![self.tensor(GRAM, &[gram.packed().len()], gram.packed()), sums]
            }
            Spread::Gram(gram) => vec![self.tensor(GRAM, &[width, width], &gram.full()), sums],
            Spread::Counts(counts) => vec![sums, self.tensor(COUNTS, &[counts.len()], counts)],
        };
        Body::new(Vec::new(), vec![Section::new(Kind::Statistics, tensors)])
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        MetaReader::new(&body.meta).finish()?;
        let sums = body.tensor(Kind::Statistics, SUMS)?;
        let payload = if sums.dtype() == Dtype::F64 { Payload::F64 } else { Payload::F32 };
        let (classes, width) = match *sums.shape() {
            [classes, width] => (classes, width),
            _ => return Err(WireError::Malformed("`sums` is no matrix".into())),
        };
        let gram = body.of_kind(Kind::Statistics).find(|tensor| &**tensor.name() == GRAM);
        let symmetric = gram.is_some_and(|gram| gram.shape().len() == 1);
        let spread = match gram {
            Some(gram) if symmetric => {
                let packed = numbers(gram.shaped(&[packed_len(width)])?)?;
                Symmetric::from_packed(width, packed).map(Spread::Gram)
            }
            Some(gram) => {
                let full = numbers(gram.shaped(&[width, width])?)?;
                Symmetric::from_full(width, &full).map(Spread::Gram)
            }
            None => {
                let counts = body.tensor(Kind::Statistics, COUNTS)?.shaped(&[classes])?;
                Some(Spread::Counts(numbers(counts)?))
            }
        };
        let spread = spread.ok_or_else(|| WireError::Malformed("`gram` is no matrix".into()))?;
        let sums = ClassSums { width, values: numbers(sums)? };
        Ok(Up { sums, spread, payload, symmetric })
    }
}

fn numbers(tensor: &NamedTensor) -> Result<Vec<f64>, WireError> {
    match tensor.dtype() {
        Dtype::F64 => Ok(tensor.as_f64()?.to_vec()),
        _ => Ok(tensor.as_f32()?.iter().map(|value| f64::from(*value)).collect()),
    }
}
