//! Layouts of messages: their content and its aggregation, declared once.
//!
//! From one [`MessageSpec`] the engine derives the size of a message before anything is trained, the checks of what
//! arrives, the numbers that are averaged and over whom, the tensors that are added or that the server keeps whole, and
//! so the services (late aggregation, noise, robust aggregations, secure aggregation, ...) that a method supports. See
//! [`Aggregate`](super::Aggregate) for the result of aggregation.

use std::borrow::Cow;
use std::sync::Arc;

use super::{KINDS, kind_of};
use crate::document::Document;
use crate::numerics::symmetric::Symmetric;
use crate::wire::{
    BodyShape, Dtype, Kind, NamedTensor, SectionShape, TensorShape, TensorValues, WireError,
};

/// Content of a message of one direction in one exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageSpec {
    /// The control fields, as far as they are known beforehand. Their length is what counts.
    pub control: Vec<u8>,
    /// Parameters, in any order; they travel by kind and name.
    pub parameters: Vec<TensorSpec>,
    /// Other tensors, in the order in which they travel; neighbors of one kind share a section.
    pub extra: Vec<TensorSpec>,
    /// Assets that a download names.
    pub assets: Vec<AssetSpec>,
    /// Rule for the size of an upload: known before training or not.
    pub size: UploadSize,
    /// True if a download may hold less than declared besides its parameters: what the server knows by then.
    ///
    /// That is fewer or smaller tensors, or smaller assets.
    pub is_upper_bound: bool,
}

/// Tensor of a layout: its kind, name, shape and type, and its aggregation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// Kind that it is charged as.
    pub kind: Kind,
    /// Name of the tensor, unique within its kind.
    pub name: Arc<str>,
    /// Dimensions of the tensor; the first one counts rows.
    pub shape: Vec<usize>,
    /// Element type.
    pub dtype: Dtype,
    /// Constraint on its values.
    pub structure: TensorStructure,
    /// Row of the whole tensor at which this one begins.
    pub first_row: usize,
    /// Aggregation of the tensor on the server.
    pub aggregation: Aggregation,
}

/// Constraint on the values of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TensorStructure {
    /// No constraint.
    #[default]
    Plain,
    /// A symmetric matrix: all of it, `(n, n)`, or the lower triangle row by row, `n (n + 1) / 2` numbers. Noise keeps
    /// it symmetric; sums are packed.
    Symmetric,
}

/// Aggregation of a tensor on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aggregation {
    /// The weighted mean of differences to what was sent. For parameters.
    pub mean: Option<Mean>,
    /// Sum in f64, with the rule for late uploads.
    pub sum: Option<StalenessRule>,
    /// Handed to the server whole, by participant.
    pub keep: bool,
}

/// A weighted mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mean {
    /// Participants that the mean is taken over.
    pub group: AveragingGroup,
    /// Weight of an update.
    pub weight: Weight,
}

/// Participants that a mean is taken over. Means are applied in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AveragingGroup {
    /// All participants that sent something; rows that a participant did not send count as unchanged.
    All,
    /// Participants that learned this task, from 0: no other could change these rows.
    Task(u16),
    /// Participants whose head rows begin here.
    Head(u32),
}

/// Weight of an update in a mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The sum of this sent tensor of counts.
    Sum(&'static str),
    /// One if that sum is above zero, else zero.
    Presence(&'static str),
    /// Every number has its own weight: the same number of a sent tensor of that shape, named as the parameter behind
    /// this prefix. See [`ElementwiseAverage`](super::ElementwiseAverage).
    Elementwise(&'static str),
}

impl Weight {
    /// Returns the name of the tensor that it is read from, or the prefix of such names.
    pub fn tensor(&self) -> &'static str {
        match self {
            Weight::Sum(name) | Weight::Presence(name) | Weight::Elementwise(name) => name,
        }
    }

    /// Returns true if every number has its own weight.
    pub fn is_elementwise(&self) -> bool {
        matches!(self, Weight::Elementwise(_))
    }

    /// Returns the weight of `samples` samples.
    pub fn of(&self, samples: f64) -> f64 {
        match self {
            Weight::Sum(_) | Weight::Elementwise(_) => samples,
            Weight::Presence(_) => f64::from(u8::from(samples > 0.0)),
        }
    }
}

/// Rule for adding an upload of an earlier round to a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StalenessRule {
    /// Refused: it cannot be added any more.
    Refuse,
    /// Added whole: counts do not age.
    Whole,
    /// Added with the discount of its staleness.
    Scaled,
}

impl TensorSpec {
    /// Creates the spec of a tensor that the server reads and does not aggregate.
    pub fn new(kind: Kind, name: impl Into<Arc<str>>, shape: &[usize], dtype: Dtype) -> TensorSpec {
        TensorSpec {
            kind,
            name: name.into(),
            shape: shape.to_vec(),
            dtype,
            structure: TensorStructure::Plain,
            first_row: 0,
            aggregation: Aggregation::default(),
        }
    }

    /// Creates the spec of a parameter: numbers are f32, and the kind follows from the name.
    pub fn parameter(name: impl Into<Arc<str>>, shape: &[usize]) -> TensorSpec {
        let name = name.into();
        TensorSpec::new(kind_of(&name), name, shape, Dtype::F32)
    }

    /// Returns the spec with a weighted mean as the aggregation.
    pub fn averaged(self, group: AveragingGroup, weight: Weight) -> TensorSpec {
        TensorSpec {
            aggregation: Aggregation { mean: Some(Mean { group, weight }), ..self.aggregation },
            ..self
        }
    }

    /// Returns the spec of the tensor that holds this parameter's weights.
    ///
    /// `None` unless every number has its own weight.
    pub fn weights(&self) -> Option<TensorSpec> {
        let Mean { weight: Weight::Elementwise(prefix), .. } = self.aggregation.mean.as_ref()?
        else {
            return None;
        };
        let name = format!("{prefix}{}", self.name);
        let place = TensorSpec::new(Kind::Statistics, name, &self.shape, Dtype::F32);
        Some(place.from_row(self.first_row))
    }

    /// Returns the spec with a sum as the aggregation.
    pub fn summed(self, stale: StalenessRule) -> TensorSpec {
        TensorSpec { aggregation: Aggregation { sum: Some(stale), ..self.aggregation }, ..self }
    }

    /// Returns the spec of a tensor that the server keeps whole.
    pub fn kept(self) -> TensorSpec {
        TensorSpec { aggregation: Aggregation { keep: true, ..self.aggregation }, ..self }
    }

    /// Returns the spec of a symmetric matrix.
    pub fn symmetric(self) -> TensorSpec {
        TensorSpec { structure: TensorStructure::Symmetric, ..self }
    }

    /// Returns the spec of a tensor that begins at row `first_row` of the whole tensor.
    pub fn from_row(self, first_row: usize) -> TensorSpec {
        TensorSpec { first_row, ..self }
    }

    /// Returns a tensor of this spec that holds `numbers`.
    ///
    /// For a symmetric matrix they are the lower triangle row by row.
    ///
    /// # Errors
    /// Returns an error if they are too many or too few, or the spec is not one of real numbers.
    pub fn tensor(&self, numbers: &[f64]) -> Result<NamedTensor, WireError> {
        let misfit = |what: &str| WireError::Malformed(format!("`{}` {what}", self.name));
        let all = match (self.structure, &*self.shape) {
            (TensorStructure::Symmetric, [order, columns]) if order == columns => {
                let matrix = Symmetric::from_packed(*order, numbers.to_vec());
                matrix.ok_or_else(|| misfit("is not filled by that triangle"))?.full().into()
            }
            _ => Cow::Borrowed(numbers),
        };
        let values = match self.dtype {
            Dtype::F32 => TensorValues::F32(all.iter().map(|number| *number as f32).collect()),
            Dtype::F64 => TensorValues::F64(all.into()),
            _ => return Err(misfit("is no place for real numbers")),
        };
        NamedTensor::new(Arc::clone(&self.name), &*self.shape, values)
    }

    fn tensor_shape(&self) -> TensorShape {
        TensorShape::new(Arc::clone(&self.name), self.shape.clone(), self.dtype)
    }
}

impl MessageSpec {
    /// Creates a layout of parameters alone.
    pub fn of(parameters: Vec<TensorSpec>) -> MessageSpec {
        MessageSpec { parameters, ..MessageSpec::default() }
    }

    /// Returns the shape of the body: parameters by kind and name, then the other tensors in order.
    pub fn body(&self) -> BodyShape {
        let mut sorted: Vec<&TensorSpec> = self.parameters.iter().collect();
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
        let of_kind = |kind| {
            let places = sorted.iter().filter(|place| place.kind == kind);
            SectionShape::new(kind, places.map(|place| place.tensor_shape()).collect())
        };
        let mut sections: Vec<SectionShape> = KINDS.map(of_kind).into();
        sections.retain(|section| !section.tensors.is_empty());
        for same in self.extra.chunk_by(|a, b| a.kind == b.kind) {
            sections.push(SectionShape::new(
                same[0].kind,
                same.iter().map(TensorSpec::tensor_shape).collect(),
            ));
        }
        BodyShape::new(self.control.len(), sections)
    }

    /// Returns all tensor specs: parameters, then the others.
    pub fn tensor_specs(&self) -> impl Iterator<Item = &TensorSpec> {
        self.parameters.iter().chain(&self.extra)
    }

    /// Returns the parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&TensorSpec> {
        self.parameters.iter().find(|place| &*place.name == name)
    }

    /// Returns the other tensor of this name.
    pub fn other(&self, name: &str) -> Option<&TensorSpec> {
        self.extra.iter().find(|place| &*place.name == name)
    }

    /// Returns the names of symmetric matrices.
    pub fn symmetric(&self) -> Vec<&str> {
        let matrices =
            self.tensor_specs().filter(|place| place.structure == TensorStructure::Symmetric);
        matrices.map(|place| &*place.name).collect()
    }
}

/// Rule for the size of an upload: known before training or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, Document)]
#[serde(rename_all = "snake_case")]
pub enum UploadSize {
    /// Known: equal for every client.
    #[default]
    Static,
    /// Follows from the shard's class counts.
    FromShard,
    /// Depends on learned values; known only when training is done.
    FromValues,
}

/// Shape of an asset that a download names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssetSpec {
    /// Name within the method.
    pub name: &'static str,
    /// Version; a receiver that holds another version lacks this one.
    pub version: u32,
    /// Shape of the content.
    pub body: BodyShape,
    /// Phase whose aggregates alone change the content from one version to the next.
    ///
    /// If no upload of that phase was aggregated in between, versions of one shape have the same content, and a
    /// receiver that holds one of them lacks none. `None` if every version may be new.
    pub renewed_in: Option<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_present_counts_once_and_who_has_nothing_does_not() {
        assert_eq!(
            [0.0, 1.0, 7.0].map(|samples| Weight::Presence("n").of(samples)),
            [0.0, 1.0, 1.0]
        );
        assert_eq!([0.0, 7.0].map(|samples| Weight::Sum("n").of(samples)), [0.0, 7.0]);
    }

    #[test]
    fn matrices_are_those_said_to_be_symmetric() {
        let plain = TensorSpec::parameter("a", &[2, 2]);
        let gram = TensorSpec::new(Kind::Statistics, "gram", &[2, 2], Dtype::F64).symmetric();
        let layout = MessageSpec { extra: vec![gram], ..MessageSpec::of(vec![plain]) };
        assert_eq!(layout.symmetric(), ["gram"]);
    }

    #[test]
    fn a_body_has_sections_by_kind_and_what_else_is_sent_in_order() {
        let extra = |kind, name| TensorSpec::new(kind, name, &[3], Dtype::F64);
        let layout = MessageSpec {
            extra: vec![
                extra(Kind::Statistics, "z"),
                extra(Kind::Statistics, "a"),
                extra(Kind::Settings, "m"),
            ],
            ..MessageSpec::of(vec![
                TensorSpec::parameter("head.weight", &[2, 4]),
                TensorSpec::parameter("blocks.0.weight", &[4, 4]),
                TensorSpec::parameter("head.bias", &[2]),
            ])
        };
        let body = layout.body();
        let names = |section: &SectionShape| -> Vec<String> {
            section.tensors.iter().map(|tensor| tensor.name.to_string()).collect()
        };
        let sections: Vec<Vec<String>> = body.sections.iter().map(names).collect();
        let wanted: [&[&str]; 4] =
            [&["blocks.0.weight"], &["head.bias", "head.weight"], &["z", "a"], &["m"]];
        assert_eq!(sections, wanted);
        assert_eq!(layout.parameter("head.bias").unwrap().shape, [2]);
        assert_eq!(layout.other("m").unwrap().kind, Kind::Settings);
        assert!(layout.parameter("m").is_none() && layout.other("head.bias").is_none());
    }
}
