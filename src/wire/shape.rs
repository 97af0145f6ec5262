//! Messages without values: what a method promises to send, before anything is trained.
//!
//! `plan` sizes a whole run from these shapes, with no data and no weights present.

use std::sync::Arc;

use super::{Dtype, Kind, tensor::shape_elements};

/// A tensor without its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorShape {
    /// Name, unique within its section.
    pub name: Arc<str>,
    /// The dimensions; empty for a scalar.
    pub shape: Vec<usize>,
    /// The element type.
    pub dtype: Dtype,
}

impl TensorShape {
    /// Creates a tensor of this shape and type.
    pub fn new(name: impl Into<Arc<str>>, shape: impl Into<Vec<usize>>, dtype: Dtype) -> Self {
        TensorShape { name: name.into(), shape: shape.into(), dtype }
    }

    /// Returns a tensor of f32.
    pub fn f32(name: impl Into<Arc<str>>, shape: impl Into<Vec<usize>>) -> Self {
        TensorShape::new(name, shape, Dtype::F32)
    }

    /// Returns the number of elements; 1 for a scalar.
    pub fn elements(&self) -> u64 {
        shape_elements(&self.shape)
    }
}

/// A section without values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionShape {
    /// Kind of the tensors.
    pub kind: Kind,
    /// Their shapes, in the order in which they travel.
    pub tensors: Vec<TensorShape>,
}

impl SectionShape {
    /// Creates a section of these tensors.
    pub fn new(kind: Kind, tensors: Vec<TensorShape>) -> Self {
        SectionShape { kind, tensors }
    }
}

/// A body without values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyShape {
    /// Length of the meta bytes.
    pub meta: usize,
    /// The sections in order.
    pub sections: Vec<SectionShape>,
}

impl BodyShape {
    /// Creates a body of these parts.
    pub fn new(meta: usize, sections: Vec<SectionShape>) -> Self {
        BodyShape { meta, sections }
    }
}
