//! A named tensor: shape, element type and shared values.
//!
//! ```
//! use fedcast::wire::{Dtype, NamedTensor};
//! let head = NamedTensor::f32("head.weight", [2, 3], vec![0.5; 6])?;
//! assert_eq!((head.dtype(), head.elements()), (Dtype::F32, 6));
//! assert!(NamedTensor::f32("head.weight", [2, 3], vec![0.5; 5]).is_err());
//! # Ok::<(), fedcast::wire::WireError>(())
//! ```

use std::sync::Arc;

use super::{Dtype, TensorShape, TensorValues, WireError};

/// A tensor with a name that is unique within its section.
#[derive(Clone, Debug)]
pub struct NamedTensor {
    name: Arc<str>,
    shape: Vec<usize>,
    values: TensorValues,
}

impl NamedTensor {
    /// Creates a tensor.
    ///
    /// Fails with [`WireError::Shape`] if the values do not fill the shape exactly (or, for bits, if unused bits of the
    /// last byte are set).
    pub fn new(
        name: impl Into<Arc<str>>,
        shape: impl Into<Vec<usize>>,
        values: TensorValues,
    ) -> Result<NamedTensor, WireError> {
        let tensor = NamedTensor { name: name.into(), shape: shape.into(), values };
        let elements = shape_elements(&tensor.shape);
        let wanted = tensor.dtype().bytes(elements);
        if wanted != tensor.values.bytes() {
            return Err(WireError::Shape {
                name: tensor.name.to_string(),
                shape: tensor.shape.clone(),
                dtype: tensor.dtype().name(),
                wanted,
                got: tensor.values.bytes(),
            });
        }
        if let TensorValues::Bits(bytes) = &tensor.values
            && !elements.is_multiple_of(8)
            && bytes.last().is_some_and(|last| last >> (elements % 8) != 0)
        {
            return Err(WireError::Malformed(format!("`{}` has bits beyond its end", tensor.name)));
        }
        Ok(tensor)
    }

    /// Creates a tensor of f32 values, from a `Vec` or an `Arc` (which is shared, not copied).
    pub fn f32(
        name: impl Into<Arc<str>>,
        shape: impl Into<Vec<usize>>,
        values: impl Into<Arc<[f32]>>,
    ) -> Result<NamedTensor, WireError> {
        NamedTensor::new(name, shape, TensorValues::F32(values.into()))
    }

    /// Creates a tensor of f64 values.
    pub fn f64(
        name: impl Into<Arc<str>>,
        shape: impl Into<Vec<usize>>,
        values: impl Into<Arc<[f64]>>,
    ) -> Result<NamedTensor, WireError> {
        NamedTensor::new(name, shape, TensorValues::F64(values.into()))
    }

    /// Creates a tensor of u32 values.
    pub fn u32(
        name: impl Into<Arc<str>>,
        shape: impl Into<Vec<usize>>,
        values: impl Into<Arc<[u32]>>,
    ) -> Result<NamedTensor, WireError> {
        NamedTensor::new(name, shape, TensorValues::U32(values.into()))
    }

    /// Returns the name, unique within its section.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns the dimensions; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the values, row-major.
    pub fn values(&self) -> &TensorValues {
        &self.values
    }

    /// Returns the element type.
    pub fn dtype(&self) -> Dtype {
        self.values.dtype()
    }

    /// Returns the number of elements; 1 for a scalar.
    pub fn elements(&self) -> u64 {
        shape_elements(&self.shape)
    }

    /// Returns all values as f64.
    pub fn numbers(&self) -> Vec<f64> {
        self.values.numbers()
    }

    /// Returns the shape and type without the values.
    pub fn tensor_shape(&self) -> TensorShape {
        TensorShape { name: self.name.clone(), shape: self.shape.clone(), dtype: self.dtype() }
    }

    /// Returns true if it has the name, dimensions and type of the shape.
    pub fn fills(&self, tensor_shape: &TensorShape) -> bool {
        self.name == tensor_shape.name
            && self.shape == tensor_shape.shape
            && self.dtype() == tensor_shape.dtype
    }

    /// Returns the tensor if it has this shape, else [`WireError::OtherShape`].
    pub fn shaped(&self, shape: &[usize]) -> Result<&NamedTensor, WireError> {
        if self.shape == shape {
            return Ok(self);
        }
        Err(WireError::OtherShape {
            name: self.name.to_string(),
            wanted: shape.to_vec(),
            got: self.shape.clone(),
        })
    }

    /// Returns the values as f32, shared; [`WireError::Type`] if they are of another type.
    pub fn as_f32(&self) -> Result<&Arc<[f32]>, WireError> {
        match &self.values {
            TensorValues::F32(v) => Ok(v),
            _ => Err(self.not(Dtype::F32)),
        }
    }

    /// Returns the values as f64.
    pub fn as_f64(&self) -> Result<&Arc<[f64]>, WireError> {
        match &self.values {
            TensorValues::F64(v) => Ok(v),
            _ => Err(self.not(Dtype::F64)),
        }
    }

    /// Returns the values as u32.
    pub fn as_u32(&self) -> Result<&Arc<[u32]>, WireError> {
        match &self.values {
            TensorValues::U32(v) => Ok(v),
            _ => Err(self.not(Dtype::U32)),
        }
    }

    /// Returns the values as u64.
    pub fn as_u64(&self) -> Result<&Arc<[u64]>, WireError> {
        match &self.values {
            TensorValues::U64(v) => Ok(v),
            _ => Err(self.not(Dtype::U64)),
        }
    }

    fn not(&self, wanted: Dtype) -> WireError {
        WireError::Type {
            name: self.name.to_string(),
            wanted: wanted.name(),
            got: self.dtype().name(),
        }
    }
}

/// Returns the product of the dimensions, saturating (a product that large matches no values).
pub(crate) fn shape_elements(shape: &[usize]) -> u64 {
    shape.iter().fold(1, |n: u64, d| n.saturating_mul(*d as u64))
}
