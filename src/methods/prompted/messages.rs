//! What travels: prompts and a head, cut to the rows that matter.

use std::ops::Range;

use crate::model::{HeadShape, LinearHead, ParameterSet};
use crate::policy::{OldMessage, parameter_sections, parameter_sketches, parameters_of};
use crate::wire::{
    Body, BodySketch, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, SectionSketch,
    TensorSketch, WireError,
};

pub use crate::methods::fedavg::Down;

/// Name of the sample count.
pub(super) const SAMPLES: &str = "samples";

/// Client to server.
#[derive(Clone, Debug)]
pub struct Up {
    /// What trained; of the head the rows from `first_row` on, of the prompts those of `task`.
    pub parameters: ParameterSet,
    /// The task that was learnt, from 0.
    pub task: u16,
    /// The first head row among the parameters.
    pub first_row: u32,
    /// `n_m`: samples of the shard, the client's weight.
    pub samples: u32,
}

impl Up {
    /// The head rows it carries.
    pub fn head_rows(&self) -> Range<usize> {
        let weight = self.parameters.get(LinearHead::WEIGHT);
        let rows = weight.and_then(|weight| weight.shape.first().copied()).unwrap_or(0);
        let first = self.first_row as usize;
        first..first + rows
    }

    /// Its shape: prompts and a head.
    pub fn sketch(prompts: &[(String, Vec<usize>)], head: HeadShape) -> BodySketch {
        let all: Vec<_> = prompts.iter().cloned().chain(head.shapes()).collect();
        let mut sections = parameter_sketches(&all);
        let samples = TensorSketch::new(SAMPLES, [], Dtype::U32);
        sections.push(SectionSketch::new(Kind::Statistics, vec![samples]));
        BodySketch::new(UpMeta { task: 0, first_row: 0 }.pack().len(), sections)
    }
}

/// What an Up says of itself beside its tensors.
pub(super) struct UpMeta {
    pub task: u16,
    pub first_row: u32,
}

impl UpMeta {
    pub fn pack(&self) -> Vec<u8> {
        let mut meta = MetaWriter::new();
        meta.u64(u64::from(self.task));
        meta.u64(u64::from(self.first_row));
        meta.finish()
    }

    pub fn unpack(bytes: &[u8]) -> Result<UpMeta, WireError> {
        let mut meta = MetaReader::new(bytes);
        let (task, first_row) = (meta.u64()? as u16, meta.u64()? as u32);
        meta.finish()?;
        Ok(UpMeta { task, first_row })
    }
}

impl OldMessage for Up {
    fn pack(&self) -> Body {
        let mut sections = parameter_sections(&self.parameters);
        let samples =
            NamedTensor::u32(SAMPLES, [], vec![self.samples]).expect("one value fills a scalar");
        sections.push(Section::new(Kind::Statistics, vec![samples]));
        let Up { task, first_row, .. } = *self;
        Body::new(UpMeta { task, first_row }.pack(), sections)
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let UpMeta { task, first_row } = UpMeta::unpack(&body.meta)?;
        let samples = body.tensor(Kind::Statistics, SAMPLES)?.shaped(&[])?.as_u32()?[0];
        Ok(Up { parameters: parameters_of(body)?, task, first_row, samples })
    }
}
