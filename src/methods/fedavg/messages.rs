//! What FedAvg sends: the parameters that train, and how many samples they were trained on.

use std::ops::Range;
use std::sync::Arc;

use crate::learning::{head_rows, with_head_rows};
use crate::model::{HeadShape, LinearHead, ModelError, ParameterSet};
use crate::policy::{Asset, OldMessage, parameter_sections, parameter_sketches, parameters_of};
use crate::wire::{
    Body, BodySketch, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, SectionSketch,
    TensorSketch, WireError,
};

/// Name of the sample count.
pub(super) const SAMPLES: &str = "samples";

/// Server to client.
#[derive(Clone, Debug)]
pub struct Down {
    /// What trains, with the head rows `0..n` that the receiver needs.
    pub parameters: ParameterSet,
    /// The same as the previous task left it, for methods that distil from it: named here, shipped to whoever
    /// lacks it.
    pub previous: Option<Arc<Asset>>,
}

/// Bytes of the digest by which a Down names the previous model.
const DIGEST_BYTES: usize = 8;

impl From<ParameterSet> for Down {
    /// Without a previous model.
    fn from(parameters: ParameterSet) -> Down {
        Down { parameters, previous: None }
    }
}

impl Down {
    /// Takes of the server's parameters what travels.
    ///
    /// # Errors
    /// When the head has fewer rows.
    pub fn cut(parameters: &ParameterSet, rows: Range<usize>) -> Result<Down, ModelError> {
        Ok(head_rows(parameters, rows)?.into())
    }

    /// The previous model's parameters.
    ///
    /// # Errors
    /// An asset that holds something else.
    pub fn previous_parameters(&self) -> Result<Option<ParameterSet>, WireError> {
        self.previous.as_ref().map(|asset| parameters_of(&asset.body)).transpose()
    }

    /// Its shape: `others` beside a head.
    pub fn sketch(others: &[(String, Vec<usize>)], head: HeadShape) -> BodySketch {
        BodySketch::new(0, parameter_sketches(&with_head(others, head)))
    }

    /// The same of one that names a previous model.
    pub fn naming_sketch(others: &[(String, Vec<usize>)], head: HeadShape) -> BodySketch {
        BodySketch::new(DIGEST_BYTES, parameter_sketches(&with_head(others, head)))
    }
}

impl OldMessage for Down {
    fn pack(&self) -> Body {
        let named = self.previous.iter().flat_map(|asset| asset.digest().to_le_bytes());
        Body::new(named.collect(), parameter_sections(&self.parameters))
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        Down::unpack_with(body, &[])
    }

    fn unpack_with(body: &Body, assets: &[Arc<Asset>]) -> Result<Self, WireError> {
        let previous = match *body.meta.as_slice() {
            [] => None,
            ref named => {
                let of = |asset: &&Arc<Asset>| asset.digest().to_le_bytes() == *named;
                let found = assets.iter().find(of).ok_or_else(|| {
                    WireError::Malformed("a Down names a previous model nobody has".to_owned())
                })?;
                Some(Arc::clone(found))
            }
        };
        Ok(Down { parameters: parameters_of(body)?, previous })
    }

    fn assets(&self) -> Vec<Arc<Asset>> {
        self.previous.iter().cloned().collect()
    }
}

/// Client to server.
#[derive(Clone, Debug)]
pub struct Up {
    /// What trained; of the head the rows from `first_row` on.
    pub parameters: ParameterSet,
    /// The first head row among them.
    pub first_row: u32,
    /// `n_m`: samples of the shard, the client's weight.
    pub samples: u32,
}

impl Up {
    /// Takes of a client's parameters (head rows from 0 on) what travels.
    ///
    /// # Errors
    /// When the head has fewer rows.
    pub fn cut(
        parameters: &ParameterSet,
        rows: Range<usize>,
        samples: usize,
    ) -> Result<Up, ModelError> {
        let (first_row, samples) = (rows.start as u32, samples as u32);
        Ok(Up { parameters: head_rows(parameters, rows)?, first_row, samples })
    }

    /// The client's parameters in the shape in which it received them.
    ///
    /// # Errors
    /// When they do not fit what was sent.
    pub fn whole(&self, down: &Down) -> Result<ParameterSet, ModelError> {
        with_head_rows(&down.parameters, &self.parameters, self.first_row as usize)
    }

    /// Of what was sent, the part that comes back in this upload.
    ///
    /// # Errors
    /// When it holds more head rows than were sent.
    pub fn base(&self, down: &Down) -> Result<ParameterSet, ModelError> {
        let rows = self.parameters.get(LinearHead::WEIGHT).map_or(0, |weight| weight.shape[0]);
        let first = self.first_row as usize;
        head_rows(&down.parameters, first..first + rows)
    }

    /// What the sections of a body say, whose meta said `first_row`.
    pub(in crate::methods) fn from_sections(body: &Body, first_row: u32) -> Result<Up, WireError> {
        let samples = body.tensor(Kind::Statistics, SAMPLES)?.shaped(&[])?.as_u32()?[0];
        Ok(Up { parameters: parameters_of(body)?, first_row, samples })
    }

    /// Its shape: `others` beside a head whose first row is `first_row`.
    pub fn sketch(
        others: &[(String, Vec<usize>)],
        head: HeadShape,
        first_row: usize,
    ) -> BodySketch {
        let mut sections = parameter_sketches(&with_head(others, head));
        let samples = TensorSketch::new(SAMPLES, [], Dtype::U32);
        sections.push(SectionSketch::new(Kind::Statistics, vec![samples]));
        let mut meta = MetaWriter::new();
        meta.u64(first_row as u64);
        BodySketch::new(meta.finish().len(), sections)
    }
}

impl OldMessage for Up {
    fn pack(&self) -> Body {
        let mut meta = MetaWriter::new();
        meta.u64(u64::from(self.first_row));
        let mut sections = parameter_sections(&self.parameters);
        let samples =
            NamedTensor::u32(SAMPLES, [], vec![self.samples]).expect("one value fills a scalar");
        sections.push(Section::new(Kind::Statistics, vec![samples]));
        Body::new(meta.finish(), sections)
    }

    fn unpack(body: &Body) -> Result<Self, WireError> {
        let mut meta = MetaReader::new(&body.meta);
        let first_row = meta.u64()? as u32;
        meta.finish()?;
        Up::from_sections(body, first_row)
    }
}

/// Names and shapes of what travels: `others` and those of a head.
pub(super) fn with_head(
    others: &[(String, Vec<usize>)],
    head: HeadShape,
) -> Vec<(String, Vec<usize>)> {
    others.iter().cloned().chain(head.shapes()).collect()
}
