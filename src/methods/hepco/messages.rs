//! What HePCo sends: down pools and head, up both again and how many samples of each class of the task
//! the client has. The paper does not mention the counts; its losses and label draws need them.

use std::ops::Range;

use crate::learning::{head_rows, with_head_rows};
use crate::methods::fedavg;
use crate::model::{ModelError, ParameterSet};
use crate::policy::{ClassCounts, OldMessage, parameter_sections, parameters_of};
use crate::wire::{
    Body, BodySketch, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, SectionSketch,
    TensorSketch, WireError,
};

/// Server to client: pools and head.
pub type Down = fedavg::Down;

/// Name of the label counts.
const COUNTS: &str = "label_counts";

/// Client to server.
#[derive(Clone, Debug)]
pub struct Up {
    /// Pools and, of the head, the rows from `first_row` on.
    pub parameters: ParameterSet,
    /// The first head row among them.
    pub first_row: u32,
    /// The head row that the first count is of.
    pub first_counted: u32,
    /// Samples of every class of the task.
    pub counts: Vec<u32>,
}

impl Up {
    /// Takes of a client's parameters (head rows from 0 on) what travels; `counted` are the rows of the task.
    ///
    /// # Errors
    /// When the head has fewer rows.
    pub fn cut(
        parameters: &ParameterSet,
        rows: Range<usize>,
        counted: Range<usize>,
        counts: &ClassCounts,
    ) -> Result<Up, ModelError> {
        let of = |row: usize| counts.get(&(row as u32)).copied().unwrap_or(0);
        let (first_row, first_counted) = (rows.start as u32, counted.start as u32);
        let (parameters, counts) = (head_rows(parameters, rows)?, counted.map(of).collect());
        Ok(Up { parameters, first_row, first_counted, counts })
    }

    /// The client's parameters in the shape in which it received them.
    ///
    /// # Errors
    /// When they do not fit what was sent.
    pub fn whole(&self, down: &Down) -> Result<ParameterSet, ModelError> {
        with_head_rows(&down.parameters, &self.parameters, self.first_row as usize)
    }

    /// Samples by head row, of so many rows.
    pub fn counts_by_row(&self, rows: usize) -> Vec<u32> {
        let mut by_row = vec![0; rows];
        let own = by_row.iter_mut().skip(self.first_counted as usize);
        own.zip(&self.counts).for_each(|(to, count)| *to = *count);
        by_row
    }

    /// All its samples.
    pub fn samples(&self) -> u32 {
        self.counts.iter().sum()
    }

    /// Its shape, from that of the parameters and the number of classes of the task.
    pub(super) fn sketch(parameters: Vec<SectionSketch>, classes: usize) -> BodySketch {
        let counts = TensorSketch::new(COUNTS, [classes], Dtype::U32);
        let mut sections = parameters;
        sections.push(SectionSketch::new(Kind::Statistics, vec![counts]));
        BodySketch::new(meta(0, 0).len(), sections)
    }
}

impl OldMessage for Up {
    fn pack(&self) -> Body {
        let mut sections = parameter_sections(&self.parameters);
        let counts = NamedTensor::u32(COUNTS, [self.counts.len()], self.counts.clone());
        let counts = counts.expect("a list fills its own length");
        sections.push(Section::new(Kind::Statistics, vec![counts]));
        Body::new(meta(self.first_row, self.first_counted), sections)
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let mut meta = MetaReader::new(&body.meta);
        let (first_row, first_counted) = (meta.u64()? as u32, meta.u64()? as u32);
        meta.finish()?;
        let counts = body.tensor(Kind::Statistics, COUNTS)?.as_u32()?.to_vec();
        Ok(Up { parameters: parameters_of(body)?, first_row, first_counted, counts })
    }
}

fn meta(first_row: u32, first_counted: u32) -> Vec<u8> {
    let mut meta = MetaWriter::new();
    meta.u64(u64::from(first_row));
    meta.u64(u64::from(first_counted));
    meta.finish()
}
