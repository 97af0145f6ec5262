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

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use super::{TensorSketch, WireError};

/// The type of a tensor's elements. The discriminants are part of the frame format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Dtype {
    /// 32-bit float.
    F32 = 1,
    /// 64-bit float.
    F64 = 2,
    /// IEEE half precision.
    F16 = 3,
    /// The upper half of an f32.
    Bf16 = 4,
    /// Signed byte.
    I8 = 5,
    /// Unsigned byte.
    U8 = 6,
    /// 32-bit unsigned.
    U32 = 7,
    /// 64-bit unsigned.
    U64 = 8,
    /// 64-bit signed.
    I64 = 9,
    /// One bit per element, lowest bit of each byte first; unused bits of the last byte are zero.
    Bits = 10,
}

impl Dtype {
    /// Every type, in order of its code.
    pub const ALL: [Dtype; 10] = [
        Dtype::F32,
        Dtype::F64,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::I8,
        Dtype::U8,
        Dtype::U32,
        Dtype::U64,
        Dtype::I64,
        Dtype::Bits,
    ];

    /// Bits per element.
    pub fn bits(self) -> u64 {
        match self {
            Dtype::F64 | Dtype::U64 | Dtype::I64 => 64,
            Dtype::F32 | Dtype::U32 => 32,
            Dtype::F16 | Dtype::Bf16 => 16,
            Dtype::I8 | Dtype::U8 => 8,
            Dtype::Bits => 1,
        }
    }

    /// Bytes per element; 0 for [`Dtype::Bits`], see [`Dtype::bytes`].
    pub fn width(self) -> usize {
        (self.bits() / 8) as usize
    }

    /// Bytes that `elements` elements take (saturating: no real tensor comes near).
    pub fn bytes(self, elements: u64) -> u64 {
        match self {
            Dtype::Bits => elements.div_ceil(8),
            other => elements.saturating_mul(other.bits() / 8),
        }
    }

    /// The name in messages and tables.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::I8 => "i8",
            Dtype::U8 => "u8",
            Dtype::U32 => "u32",
            Dtype::U64 => "u64",
            Dtype::I64 => "i64",
            Dtype::Bits => "bits",
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|d| *d as u8 == code)
    }
}

/// The values of a tensor, row-major, shared: cloning copies a pointer.
#[derive(Clone, Debug)]
pub enum Values {
    /// 32-bit floats.
    F32(Arc<[f32]>),
    /// 64-bit floats.
    F64(Arc<[f64]>),
    /// Half-precision floats.
    F16(Arc<[f16]>),
    /// Brain floats.
    Bf16(Arc<[bf16]>),
    /// Signed bytes.
    I8(Arc<[i8]>),
    /// Unsigned bytes, e.g. pixels.
    U8(Arc<[u8]>),
    /// 32-bit unsigned, e.g. counts.
    U32(Arc<[u32]>),
    /// 64-bit unsigned, e.g. seeds.
    U64(Arc<[u64]>),
    /// 64-bit signed.
    I64(Arc<[i64]>),
    /// Packed bits, see [`Dtype::Bits`].
    Bits(Arc<[u8]>),
}

impl Values {
    /// The element type.
    pub fn dtype(&self) -> Dtype {
        match self {
            Values::F32(_) => Dtype::F32,
            Values::F64(_) => Dtype::F64,
            Values::F16(_) => Dtype::F16,
            Values::Bf16(_) => Dtype::Bf16,
            Values::I8(_) => Dtype::I8,
            Values::U8(_) => Dtype::U8,
            Values::U32(_) => Dtype::U32,
            Values::U64(_) => Dtype::U64,
            Values::I64(_) => Dtype::I64,
            Values::Bits(_) => Dtype::Bits,
        }
    }

    /// Bytes held, before any codec.
    pub fn bytes(&self) -> u64 {
        (match self {
            Values::F32(v) => std::mem::size_of_val(&v[..]),
            Values::F64(v) => std::mem::size_of_val(&v[..]),
            Values::F16(v) => std::mem::size_of_val(&v[..]),
            Values::Bf16(v) => std::mem::size_of_val(&v[..]),
            Values::I8(v) => v.len(),
            Values::U8(v) | Values::Bits(v) => v.len(),
            Values::U32(v) => std::mem::size_of_val(&v[..]),
            Values::U64(v) => std::mem::size_of_val(&v[..]),
            Values::I64(v) => std::mem::size_of_val(&v[..]),
        }) as u64
    }

    /// Hands the raw bits to `take`, little endian, in pieces of at most 4 KiB (bytes as they lie, in one piece).
    pub fn visit_le(&self, mut take: impl FnMut(&[u8])) {
        let take = &mut take;
        match self {
            Values::F32(v) => pieces(v, f32::to_le_bytes, take),
            Values::F64(v) => pieces(v, f64::to_le_bytes, take),
            Values::F16(v) => pieces(v, f16::to_le_bytes, take),
            Values::Bf16(v) => pieces(v, bf16::to_le_bytes, take),
            Values::I8(v) => pieces(v, i8::to_le_bytes, take),
            Values::U8(v) | Values::Bits(v) => take(v),
            Values::U32(v) => pieces(v, u32::to_le_bytes, take),
            Values::U64(v) => pieces(v, u64::to_le_bytes, take),
            Values::I64(v) => pieces(v, i64::to_le_bytes, take),
        }
    }

    /// The inverse of [`Values::visit_le`]; `None` when the bytes are no whole number of elements.
    pub fn from_le(dtype: Dtype, bytes: &[u8]) -> Option<Values> {
        Some(match dtype {
            Dtype::F32 => Values::F32(elements(bytes, f32::from_le_bytes)?),
            Dtype::F64 => Values::F64(elements(bytes, f64::from_le_bytes)?),
            Dtype::F16 => Values::F16(elements(bytes, f16::from_le_bytes)?),
            Dtype::Bf16 => Values::Bf16(elements(bytes, bf16::from_le_bytes)?),
            Dtype::I8 => Values::I8(elements(bytes, i8::from_le_bytes)?),
            Dtype::U8 => Values::U8(bytes.into()),
            Dtype::U32 => Values::U32(elements(bytes, u32::from_le_bytes)?),
            Dtype::U64 => Values::U64(elements(bytes, u64::from_le_bytes)?),
            Dtype::I64 => Values::I64(elements(bytes, i64::from_le_bytes)?),
            Dtype::Bits => Values::Bits(bytes.into()),
        })
    }

    /// The same element type and the same bits (NaN equals the same NaN; -0 differs from 0).
    pub fn same_bits(&self, other: &Values) -> bool {
        match (self, other) {
            (Values::F32(a), Values::F32(b)) => {
                Arc::ptr_eq(a, b) || same(a, b, |x, y| x.to_bits() == y.to_bits())
            }
            (Values::F64(a), Values::F64(b)) => same(a, b, |x, y| x.to_bits() == y.to_bits()),
            (Values::F16(a), Values::F16(b)) => same(a, b, |x, y| x.to_bits() == y.to_bits()),
            (Values::Bf16(a), Values::Bf16(b)) => same(a, b, |x, y| x.to_bits() == y.to_bits()),
            (Values::I8(a), Values::I8(b)) => a == b,
            (Values::U8(a), Values::U8(b)) | (Values::Bits(a), Values::Bits(b)) => a == b,
            (Values::U32(a), Values::U32(b)) => a == b,
            (Values::U64(a), Values::U64(b)) => a == b,
            (Values::I64(a), Values::I64(b)) => a == b,
            _ => false,
        }
    }

    /// Whether no float is NaN or infinite; integers always are finite.
    pub fn is_finite(&self) -> bool {
        match self {
            Values::F32(v) => v.iter().all(|x| x.is_finite()),
            Values::F64(v) => v.iter().all(|x| x.is_finite()),
            Values::F16(v) => v.iter().all(|x| x.is_finite()),
            Values::Bf16(v) => v.iter().all(|x| x.is_finite()),
            _ => true,
        }
    }
}

fn same<T>(a: &[T], b: &[T], eq: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| eq(x, y))
}

/// Converts through a small buffer instead of viewing the slice as bytes: no unsafe code, any byte order.
fn pieces<T: Copy, const W: usize>(
    values: &[T],
    le: impl Fn(T) -> [u8; W],
    take: &mut impl FnMut(&[u8]),
) {
    let mut buffer = [0u8; 4096];
    for piece in values.chunks(buffer.len() / W) {
        for (bytes, value) in buffer.chunks_exact_mut(W).zip(piece) {
            bytes.copy_from_slice(&le(*value));
        }
        take(&buffer[..piece.len() * W]);
    }
}

fn elements<T, const W: usize>(bytes: &[u8], le: impl Fn([u8; W]) -> T) -> Option<Arc<[T]>> {
    let (whole, rest) = bytes.as_chunks::<W>();
    rest.is_empty().then(|| whole.iter().map(|b| le(*b)).collect())
}

/// A tensor with a name that is unique within its section.
#[derive(Clone, Debug)]
pub struct NamedTensor {
    name: Arc<str>,
    shape: Vec<usize>,
    values: Values,
}

impl NamedTensor {
    /// Fails with [`WireError::Shape`] when the values do not fill the shape exactly (or, for bits, when
    /// unused bits of the last byte are set).
    pub fn new(
        name: impl Into<Arc<str>>,
        shape: impl Into<Vec<usize>>,
        values: Values,
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
        if let Values::Bits(bytes) = &tensor.values
            && !elements.is_multiple_of(8)
            && bytes.last().is_some_and(|last| last >> (elements % 8) != 0)
        {
            return Err(WireError::Malformed(format!("`{}` has bits beyond its end", tensor.name)));
        }
        Ok(tensor)
    }

    /// [`NamedTensor::new`] with f32 values, from a `Vec` or an `Arc` (which is shared, not copied).
    pub fn f32(
        name: impl Into<Arc<str>>,
        shape: impl Into<Vec<usize>>,
        values: impl Into<Arc<[f32]>>,
    ) -> Result<NamedTensor, WireError> {
        NamedTensor::new(name, shape, Values::F32(values.into()))
    }

    /// [`NamedTensor::new`] with f64 values.
    pub fn f64(
        name: impl Into<Arc<str>>,
        shape: impl Into<Vec<usize>>,
        values: impl Into<Arc<[f64]>>,
    ) -> Result<NamedTensor, WireError> {
        NamedTensor::new(name, shape, Values::F64(values.into()))
    }

    /// [`NamedTensor::new`] with u32 values.
    pub fn u32(
        name: impl Into<Arc<str>>,
        shape: impl Into<Vec<usize>>,
        values: impl Into<Arc<[u32]>>,
    ) -> Result<NamedTensor, WireError> {
        NamedTensor::new(name, shape, Values::U32(values.into()))
    }

    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The dimensions; empty for a scalar.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The values, row-major.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The element type.
    pub fn dtype(&self) -> Dtype {
        self.values.dtype()
    }

    /// The number of elements; 1 for a scalar.
    pub fn elements(&self) -> u64 {
        shape_elements(&self.shape)
    }

    /// Shape and type without the values.
    pub fn sketch(&self) -> TensorSketch {
        TensorSketch { name: self.name.clone(), shape: self.shape.clone(), dtype: self.dtype() }
    }

    /// The same tensor if it has this shape, else [`WireError::OtherShape`].
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

    /// The values as f32, shared; [`WireError::Type`] when they are of another type.
    pub fn as_f32(&self) -> Result<&Arc<[f32]>, WireError> {
        match &self.values {
            Values::F32(v) => Ok(v),
            _ => Err(self.not(Dtype::F32)),
        }
    }

    /// The values as f64.
    pub fn as_f64(&self) -> Result<&Arc<[f64]>, WireError> {
        match &self.values {
            Values::F64(v) => Ok(v),
            _ => Err(self.not(Dtype::F64)),
        }
    }

    /// The values as bytes.
    pub fn as_u8(&self) -> Result<&Arc<[u8]>, WireError> {
        match &self.values {
            Values::U8(v) => Ok(v),
            _ => Err(self.not(Dtype::U8)),
        }
    }

    /// The values as u32.
    pub fn as_u32(&self) -> Result<&Arc<[u32]>, WireError> {
        match &self.values {
            Values::U32(v) => Ok(v),
            _ => Err(self.not(Dtype::U32)),
        }
    }

    /// The values as u64.
    pub fn as_u64(&self) -> Result<&Arc<[u64]>, WireError> {
        match &self.values {
            Values::U64(v) => Ok(v),
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

/// Product of the dimensions, saturating (a product that large matches no values).
pub(crate) fn shape_elements(shape: &[usize]) -> u64 {
    shape.iter().fold(1, |n: u64, d| n.saturating_mul(*d as u64))
}
