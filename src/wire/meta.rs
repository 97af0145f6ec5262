//! The canonical encoding of fields that are not tensors: little endian, varint lengths, no field names.
//!
//! Writer and reader call the same methods in the same order; the reader checks that nothing is left.

use super::WireError;

/// Appends fields to a buffer.
#[derive(Clone, Debug, Default)]
pub struct MetaWriter {
    bytes: Vec<u8>,
}

impl MetaWriter {
    /// Creates an empty buffer.
    pub fn new() -> Self {
        MetaWriter::default()
    }

    /// Writes an unsigned number in 1 to 10 bytes of 7 bits each, lowest first.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        put_varint(value, |b| self.bytes.push(b));
        self
    }

    /// Writes a signed number, small ones of either sign in few bytes (zigzag).
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.u64(((value << 1) ^ (value >> 63)) as u64)
    }

    /// Writes the eight bytes of a float, NaN included.
    pub fn f64(&mut self, value: f64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Writes one byte.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.bytes.push(u8::from(value));
        self
    }

    /// Writes length and UTF-8 bytes.
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.u64(value.len() as u64);
        self.bytes.extend_from_slice(value.as_bytes());
        self
    }

    /// Writes length and numbers.
    pub fn u32s(&mut self, values: &[u32]) -> &mut Self {
        self.u64(values.len() as u64);
        for v in values {
            self.u64(u64::from(*v));
        }
        self
    }

    /// Returns the bytes for [`Body::meta`](super::Body::meta).
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads what [`MetaWriter`] wrote. Never panics: foreign bytes are a [`WireError`].
#[derive(Clone, Debug)]
pub struct MetaReader<'a> {
    rest: &'a [u8],
}

impl<'a> MetaReader<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        MetaReader { rest: bytes }
    }

    /// Reads a number written by [`MetaWriter::u64`].
    pub fn u64(&mut self) -> Result<u64, WireError> {
        take_varint(&mut self.rest).ok_or(WireError::Truncated("meta"))
    }

    /// Reads a number written by [`MetaWriter::i64`].
    pub fn i64(&mut self) -> Result<i64, WireError> {
        let z = self.u64()?;
        Ok((z >> 1) as i64 ^ -((z & 1) as i64))
    }

    /// Reads a number written by [`MetaWriter::f64`].
    pub fn f64(&mut self) -> Result<f64, WireError> {
        let (first, rest) =
            self.rest.split_first_chunk::<8>().ok_or(WireError::Truncated("meta"))?;
        self.rest = rest;
        Ok(f64::from_le_bytes(*first))
    }

    /// Reads a flag written by [`MetaWriter::bool`].
    pub fn bool(&mut self) -> Result<bool, WireError> {
        match self.take(1)? {
            [0] => Ok(false),
            [1] => Ok(true),
            other => Err(WireError::Malformed(format!("{other:?} is no boolean"))),
        }
    }

    /// Reads a string written by [`MetaWriter::str`].
    pub fn str(&mut self) -> Result<&'a str, WireError> {
        let length = self.u64()?;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes)
            .map_err(|_| WireError::Malformed("a text in the meta is not UTF-8".into()))
    }

    /// Reads numbers written by [`MetaWriter::u32s`].
    pub fn u32s(&mut self) -> Result<Vec<u32>, WireError> {
        let length = self.u64()?;
        if length > self.rest.len() as u64 {
            return Err(WireError::Truncated("meta")); // a number takes at least a byte
        }
        (0..length)
            .map(|_| {
                u32::try_from(self.u64()?)
                    .map_err(|_| WireError::Malformed("a number in the meta exceeds u32".into()))
            })
            .collect()
    }

    /// Fails when bytes are left: writer and reader disagree.
    pub fn finish(self) -> Result<(), WireError> {
        match self.rest.len() {
            0 => Ok(()),
            n => Err(WireError::Malformed(format!("{n} bytes of the meta were not read"))),
        }
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(length).ok().filter(|l| *l <= self.rest.len());
        let (first, rest) = self.rest.split_at(length.ok_or(WireError::Truncated("meta"))?);
        self.rest = rest;
        Ok(first)
    }
}

/// Writes seven bits per byte, lowest first; the top bit is set if more follow.
pub(crate) fn put_varint(mut value: u64, mut put: impl FnMut(u8)) {
    while value >= 0x80 {
        put(value as u8 | 0x80);
        value >>= 7;
    }
    put(value as u8);
}

/// Takes a varint from the front of `rest`.
///
/// `None` if the bytes end early, the number exceeds 64 bits, or is not in its shortest form (a second encoding of the
/// same message would have another size).
pub(crate) fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let (byte, after) = rest.split_first()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 || shift > 0 && *byte == 0 {
            return None;
        }
        value |= bits << shift;
        *rest = after;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(
            u: u64, i: i64, f: f64, b: bool, s: String, list: Vec<u32>,
        ) {
            let mut w = MetaWriter::new();
            w.u64(u).i64(i).f64(f).bool(b).str(&s).u32s(&list);
            let bytes = w.finish();
            let mut r = MetaReader::new(&bytes);
            prop_assert_eq!(r.u64(), Ok(u));
            prop_assert_eq!(r.i64(), Ok(i));
            prop_assert_eq!(r.f64().map(f64::to_bits), Ok(f.to_bits()));
            prop_assert_eq!(r.bool(), Ok(b));
            prop_assert_eq!(r.str(), Ok(&s[..]));
            prop_assert_eq!(r.u32s(), Ok(list));
            prop_assert_eq!(r.finish(), Ok(()));
        }

        #[test]
        fn foreign_bytes_never_panic(bytes: Vec<u8>) {
            let mut r = MetaReader::new(&bytes);
            let _ = (r.u32s(), r.str(), r.bool(), r.i64(), r.f64());
        }
    }

    #[test]
    fn a_number_has_one_encoding() {
        let mut w = MetaWriter::new();
        w.u64(0).u64(127).u64(128).i64(-1);
        let bytes = w.finish();
        assert_eq!(bytes, [0, 127, 0x80, 1, 1]);
        assert!(MetaReader::new(&[0x80, 0]).u64().is_err());
        assert!(MetaReader::new(&[0xff; 10]).u64().is_err());
        assert!(MetaReader::new(&bytes).finish().is_err());
    }
}
