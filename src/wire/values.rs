//! Element types, and values shared between messages.

use std::ops::BitOr;
use std::sync::Arc;

use bytemuck::NoUninit;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use crate::numerics::wide::{WideWork, wide};

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

    /// Returns the bytes per element; 0 for [`Dtype::Bits`], see [`Dtype::bytes`].
    pub fn width(self) -> usize {
        (self.bits() / 8) as usize
    }

    /// Returns the bytes that `elements` elements take (saturating: no real tensor comes near).
    pub fn bytes(self, elements: u64) -> u64 {
        match self {
            Dtype::Bits => elements.div_ceil(8),
            other => elements.saturating_mul(other.bits() / 8),
        }
    }

    /// Returns the name in messages and tables.
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
pub enum TensorValues {
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

impl TensorValues {
    /// Returns the element type.
    pub fn dtype(&self) -> Dtype {
        match self {
            TensorValues::F32(_) => Dtype::F32,
            TensorValues::F64(_) => Dtype::F64,
            TensorValues::F16(_) => Dtype::F16,
            TensorValues::Bf16(_) => Dtype::Bf16,
            TensorValues::I8(_) => Dtype::I8,
            TensorValues::U8(_) => Dtype::U8,
            TensorValues::U32(_) => Dtype::U32,
            TensorValues::U64(_) => Dtype::U64,
            TensorValues::I64(_) => Dtype::I64,
            TensorValues::Bits(_) => Dtype::Bits,
        }
    }

    /// Returns every value as f64; bits as zeros and ones.
    pub fn numbers(&self) -> Vec<f64> {
        match self {
            TensorValues::F32(v) => v.iter().map(|x| f64::from(*x)).collect(),
            TensorValues::F64(v) => v.to_vec(),
            TensorValues::F16(v) => v.iter().map(|x| x.to_f64()).collect(),
            TensorValues::Bf16(v) => v.iter().map(|x| x.to_f64()).collect(),
            TensorValues::I8(v) => v.iter().map(|x| f64::from(*x)).collect(),
            TensorValues::U8(v) => v.iter().map(|x| f64::from(*x)).collect(),
            TensorValues::U32(v) => v.iter().map(|x| f64::from(*x)).collect(),
            TensorValues::U64(v) => v.iter().map(|x| *x as f64).collect(),
            TensorValues::I64(v) => v.iter().map(|x| *x as f64).collect(),
            TensorValues::Bits(v) => v
                .iter()
                .flat_map(|byte| (0..8).map(move |bit| f64::from(byte >> bit & 1)))
                .collect(),
        }
    }

    /// Returns the bytes held, before any codec.
    pub fn bytes(&self) -> u64 {
        (match self {
            TensorValues::F32(v) => std::mem::size_of_val(&v[..]),
            TensorValues::F64(v) => std::mem::size_of_val(&v[..]),
            TensorValues::F16(v) => std::mem::size_of_val(&v[..]),
            TensorValues::Bf16(v) => std::mem::size_of_val(&v[..]),
            TensorValues::I8(v) => v.len(),
            TensorValues::U8(v) | TensorValues::Bits(v) => v.len(),
            TensorValues::U32(v) => std::mem::size_of_val(&v[..]),
            TensorValues::U64(v) => std::mem::size_of_val(&v[..]),
            TensorValues::I64(v) => std::mem::size_of_val(&v[..]),
        }) as u64
    }

    /// Passes the raw bits to `take`, little endian, in pieces that stay in the CPU's caches.
    ///
    /// Returns true if no float among them is NaN or infinite, which is checked in the same pass.
    pub fn visit_le(&self, mut take: impl FnMut(&[u8])) -> bool {
        let take: &mut dyn FnMut(&[u8]) = &mut take;
        match self {
            TensorValues::F32(v) => pieces(v, f32::to_le_bytes, all_finite_f32, take),
            TensorValues::F64(v) => pieces(v, f64::to_le_bytes, all_finite_f64, take),
            TensorValues::F16(v) => pieces(v, f16::to_le_bytes, all_finite_f16, take),
            TensorValues::Bf16(v) => pieces(v, bf16::to_le_bytes, all_finite_bf16, take),
            TensorValues::I8(v) => pieces(v, i8::to_le_bytes, |_| true, take),
            TensorValues::U8(v) | TensorValues::Bits(v) => {
                pieces(v, u8::to_le_bytes, |_| true, take)
            }
            TensorValues::U32(v) => pieces(v, u32::to_le_bytes, |_| true, take),
            TensorValues::U64(v) => pieces(v, u64::to_le_bytes, |_| true, take),
            TensorValues::I64(v) => pieces(v, i64::to_le_bytes, |_| true, take),
        }
    }

    /// Reads the output of [`TensorValues::visit_le`]; `None` if the bytes are no whole number of elements.
    pub fn from_le(dtype: Dtype, bytes: &[u8]) -> Option<TensorValues> {
        Some(match dtype {
            Dtype::F32 => TensorValues::F32(elements(bytes, f32::from_le_bytes)?),
            Dtype::F64 => TensorValues::F64(elements(bytes, f64::from_le_bytes)?),
            Dtype::F16 => TensorValues::F16(elements(bytes, f16::from_le_bytes)?),
            Dtype::Bf16 => TensorValues::Bf16(elements(bytes, bf16::from_le_bytes)?),
            Dtype::I8 => TensorValues::I8(elements(bytes, i8::from_le_bytes)?),
            Dtype::U8 => TensorValues::U8(bytes.into()),
            Dtype::U32 => TensorValues::U32(elements(bytes, u32::from_le_bytes)?),
            Dtype::U64 => TensorValues::U64(elements(bytes, u64::from_le_bytes)?),
            Dtype::I64 => TensorValues::I64(elements(bytes, i64::from_le_bytes)?),
            Dtype::Bits => TensorValues::Bits(bytes.into()),
        })
    }

    /// Returns true if both have the same element type and the same bits.
    ///
    /// NaN equals the same NaN; -0 differs from 0.
    pub fn same_bits(&self, other: &TensorValues) -> bool {
        match (self, other) {
            (TensorValues::F32(a), TensorValues::F32(b)) => {
                Arc::ptr_eq(a, b) || same(a, b, |x, y| x.to_bits() == y.to_bits())
            }
            (TensorValues::F64(a), TensorValues::F64(b)) => {
                same(a, b, |x, y| x.to_bits() == y.to_bits())
            }
            (TensorValues::F16(a), TensorValues::F16(b)) => {
                same(a, b, |x, y| x.to_bits() == y.to_bits())
            }
            (TensorValues::Bf16(a), TensorValues::Bf16(b)) => {
                same(a, b, |x, y| x.to_bits() == y.to_bits())
            }
            (TensorValues::I8(a), TensorValues::I8(b)) => a == b,
            (TensorValues::U8(a), TensorValues::U8(b))
            | (TensorValues::Bits(a), TensorValues::Bits(b)) => a == b,
            (TensorValues::U32(a), TensorValues::U32(b)) => a == b,
            (TensorValues::U64(a), TensorValues::U64(b)) => a == b,
            (TensorValues::I64(a), TensorValues::I64(b)) => a == b,
            _ => false,
        }
    }

    /// Returns true if no float is NaN or infinite; integers always are finite.
    pub fn is_finite(&self) -> bool {
        self.visit_le(|_| ())
    }
}

fn same<T>(a: &[T], b: &[T], eq: impl Fn(&T, &T) -> bool) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| eq(x, y))
}

/// Passes the values on in pieces of 4 MiB.
///
/// Shorter ones cost BLAKE3: it hashes each as a separate tree, whose small ends do not fill its wide registers (pieces
/// of 1 MiB: 3 % of a round of 6.5 MB; of 32 kB: a third of its speed); longer ones leave the CPU's caches between the
/// search for NaN and the use of the values. Little-endian values are passed in place; elsewhere they go through a
/// buffer.
fn pieces<T: NoUninit, const W: usize>(
    values: &[T],
    le: impl Fn(T) -> [u8; W],
    finite: impl Fn(&[T]) -> bool,
    take: &mut dyn FnMut(&[u8]),
) -> bool {
    const PIECE: usize = 1 << 22;
    let mut all_finite = true;
    for piece in values.chunks(PIECE / W) {
        all_finite &= finite(piece);
        if cfg!(target_endian = "little") {
            take(bytemuck::cast_slice(piece));
        } else {
            let bytes: Vec<u8> = piece.iter().flat_map(|value| le(*value)).collect();
            take(&bytes);
        }
    }
    all_finite
}

/// Check for NaN and infinity: the OR of all values after adding 1 to their exponents.
///
/// The exponent of NaN and infinity is all ones, so the addition carries into the sign bit. Integer operations without
/// an early exit run in wide registers.
struct Carries<'a, T, C> {
    all: &'a [T],
    carry: C,
}

impl<T: Copy, B: Default + BitOr<Output = B>, C: Fn(T) -> B> WideWork for Carries<'_, T, C> {
    type Answer = B;

    #[inline(always)]
    fn run(self) -> B {
        let mut bits = B::default();
        for value in self.all {
            bits = bits | (self.carry)(*value);
        }
        bits
    }
}

fn all_finite_f32(all: &[f32]) -> bool {
    let carry = |value: f32| (value.to_bits() & 0x7f80_0000) + 0x0080_0000;
    wide(Carries { all, carry }) >> 31 == 0
}

fn all_finite_f64(all: &[f64]) -> bool {
    const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
    const LOWEST: u64 = 0x0010_0000_0000_0000;
    let carry = |value: f64| (value.to_bits() & EXPONENT) + LOWEST;
    wide(Carries { all, carry }) >> 63 == 0
}

fn all_finite_f16(all: &[f16]) -> bool {
    let carry = |value: f16| (value.to_bits() & 0x7c00) + 0x0400;
    wide(Carries { all, carry }) >> 15 == 0
}

fn all_finite_bf16(all: &[bf16]) -> bool {
    let carry = |value: bf16| (value.to_bits() & 0x7f80) + 0x0080;
    wide(Carries { all, carry }) >> 15 == 0
}

fn elements<T, const W: usize>(bytes: &[u8], le: impl Fn([u8; W]) -> T) -> Option<Arc<[T]>> {
    let (whole, rest) = bytes.as_chunks::<W>();
    rest.is_empty().then(|| whole.iter().map(|b| le(*b)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The extreme values of every type are finite; NaN and infinities are found at every place.
    #[test]
    fn one_value_that_is_not_finite_is_found() {
        fn check<T: Copy>(values: impl Fn(Vec<T>) -> TensorValues, finite: &[T], others: [T; 3]) {
            let whole: Vec<T> = finite.iter().copied().cycle().take(70).collect();
            assert!(values(whole.clone()).is_finite());
            for other in others {
                for at in [0, 33, 69] {
                    let mut one = whole.clone();
                    one[at] = other;
                    assert!(!values(one).is_finite(), "{at}");
                }
            }
        }
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        let finite = [0.0, -0.0, f32::MAX, f32::MIN, f32::from_bits(1), f32::MIN_POSITIVE, -1.5];
        check(|v| TensorValues::F32(v.into()), &finite, [nan, infinity, -infinity]);
        let finite = [0.0, -0.0, f64::MAX, f64::MIN, f64::from_bits(1), f64::MIN_POSITIVE, -1.5];
        let (nan, infinity) = (f64::NAN, f64::INFINITY);
        check(|v| TensorValues::F64(v.into()), &finite, [nan, infinity, -infinity]);
        let finite = [f16::ZERO, f16::MAX, f16::MIN, f16::from_bits(1)];
        let others = [f16::NAN, f16::INFINITY, f16::NEG_INFINITY];
        check(|v| TensorValues::F16(v.into()), &finite, others);
        let finite = [bf16::ZERO, bf16::MAX, bf16::MIN, bf16::from_bits(1)];
        let others = [bf16::NAN, bf16::INFINITY, bf16::NEG_INFINITY];
        check(|v| TensorValues::Bf16(v.into()), &finite, others);
        assert!(TensorValues::U32([u32::MAX].into()).is_finite());
    }
}
