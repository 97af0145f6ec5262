//! NumPy's arrays: `.npy`, and those packed in a `.npz`.
//!
//! A file is `\x93NUMPY`, two bytes of version, the length of a header, the header (a Python dictionary with `descr`,
//! `fortran_order` and `shape`) and the values. Numbers of any width are read, and texts (`U`) as labels; pickled
//! objects are not. Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::io::{Error, ErrorKind, Read, Result};

use half::f16;

use crate::data::labels::Labels;

/// An array as it lies in a file.
#[derive(Clone, Debug)]
pub(super) struct Array {
    kind: u8,
    /// Bytes of a value.
    size: usize,
    big_endian: bool,
    by_column: bool,
    pub shape: Vec<usize>,
    values: Vec<u8>,
}

fn wrong(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidData, what.into())
}

impl Array {
    /// Reads an array of at most `limit` bytes.
    ///
    /// # Errors
    /// No array, one of objects, fewer or more values than its shape says.
    pub fn read(source: impl Read, limit: u64) -> Result<Array> {
        let mut source = source.take(limit + 1);
        let mut head = [0; 8];
        source.read_exact(&mut head)?;
        if head[..6] != *b"\x93NUMPY" {
            return Err(wrong("it does not begin as an array does"));
        }
        let mut length = [0; 4];
        let width = if head[6] == 1 { 2 } else { 4 };
        source.read_exact(&mut length[..width])?;
        let length = u64::from(u32::from_le_bytes(length));
        if length > 1 << 16 {
            return Err(wrong(format!("a header of {length} bytes")));
        }
        let mut header = vec![0; length as usize];
        source.read_exact(&mut header)?;
        let header = String::from_utf8_lossy(&header).into_owned();
        let mut array = Array::described(&header)
            .ok_or_else(|| wrong(format!("a header that is not understood: {}", header.trim())))?;
        if !b"fiubU".contains(&array.kind) {
            return Err(wrong(
                "neither numbers nor texts; save it without objects (allow_pickle=False)",
            ));
        }
        let is_read = match array.kind {
            b'f' => [2, 4, 8].contains(&array.size),
            b'i' | b'u' => [1, 2, 4, 8].contains(&array.size),
            b'b' => array.size == 1,
            _ => array.size > 0,
        };
        if !is_read {
            let bits = array.size.saturating_mul(8);
            return Err(wrong(format!("values of {bits} bits; save it with at most 64")));
        }
        let bytes = array.shape.iter().try_fold(array.size, |all, extent| all.checked_mul(*extent));
        let bytes = bytes.filter(|bytes| *bytes as u64 <= limit);
        let bytes = bytes.ok_or_else(|| wrong(format!("shape {:?} is too large", array.shape)))?;
        source.read_to_end(&mut array.values)?;
        if array.values.len() != bytes {
            let (found, shape) = (array.values.len(), &array.shape);
            return Err(wrong(format!("{found} bytes of values, and shape {shape:?} has {bytes}")));
        }
        Ok(array)
    }

    fn described(header: &str) -> Option<Array> {
        let value = |key: &str| {
            let rest = header.split_once(&format!("'{key}':"))?.1;
            Some(rest.trim_start())
        };
        let description = value("descr")?.strip_prefix('\'')?.split_once('\'')?.0;
        let (order, description) = match description.as_bytes().first()? {
            b'<' | b'>' | b'|' | b'=' => description.split_at(1),
            _ => ("<", description),
        };
        let (kind, size) = description.split_at_checked(1)?;
        let kind = kind.as_bytes()[0];
        let size: usize = size.parse().ok()?;
        let shape = value("shape")?.strip_prefix('(')?.split_once(')')?.0;
        let extents = shape.split(',').map(str::trim).filter(|extent| !extent.is_empty());
        Some(Array {
            kind,
            size: if kind == b'U' { size.checked_mul(4)? } else { size },
            big_endian: order == ">",
            by_column: value("fortran_order")?.starts_with("True"),
            shape: extents.map(|extent| extent.parse().ok()).collect::<Option<_>>()?,
            values: Vec::new(),
        })
    }

    /// The bytes of a value, the lowest first.
    fn bytes(&self, place: usize) -> [u8; 8] {
        let mut bytes = [0; 8];
        let found = &self.values[place * self.size..(place + 1) * self.size];
        for (at, byte) in found.iter().enumerate() {
            bytes[if self.big_endian { self.size - 1 - at } else { at }] = *byte;
        }
        bytes
    }

    fn number(&self, place: usize) -> f64 {
        let bytes = self.bytes(place);
        let [a, b, c, d, ..] = bytes;
        match (self.kind, self.size) {
            (b'f', 2) => f16::from_le_bytes([a, b]).to_f64(),
            (b'f', 4) => f64::from(f32::from_le_bytes([a, b, c, d])),
            (b'f', _) => f64::from_le_bytes(bytes),
            (b'i', _) => self.signed(place) as f64,
            _ => u64::from_le_bytes(bytes) as f64,
        }
    }

    fn signed(&self, place: usize) -> i64 {
        // A negative number of few bytes has its sign in the highest of these.
        let unused = 64 - 8 * self.size as u32;
        i64::from_le_bytes(self.bytes(place)) << unused >> unused
    }

    fn whole(&self, place: usize) -> Result<i64> {
        if self.kind == b'i' {
            return Ok(self.signed(place));
        }
        let value = u64::from_le_bytes(self.bytes(place));
        let most = i64::MAX;
        value.try_into().map_err(|_| wrong(format!("label {value} of row {place} is above {most}")))
    }

    /// As rows of `width` numbers, one behind the other.
    ///
    /// # Errors
    /// Texts, other widths, numbers of a size that is not read.
    pub fn rows(&self, width: usize) -> Result<Vec<f32>> {
        let &[rows, found] = self.shape.as_slice() else {
            return Err(wrong(format!("shape {:?} instead of (rows, {width})", self.shape)));
        };
        if found != width {
            return Err(wrong(format!("rows of {found} numbers; set data.width = {found}")));
        }
        if self.kind == b'U' {
            return Err(wrong("texts instead of numbers"));
        }
        let place = |row: usize, column: usize| match self.by_column {
            true => column * rows + row,
            false => row * width + column,
        };
        let each = (0..rows).flat_map(|row| (0..width).map(move |column| (row, column)));
        Ok(each.map(|(row, column)| self.number(place(row, column)) as f32).collect())
    }

    /// As one label per row.
    ///
    /// # Errors
    /// Numbers with a fraction, more than one per row.
    pub fn labels(&self) -> Result<Labels> {
        let one = self.shape.iter().skip(1).all(|extent| *extent == 1);
        let Some(&rows) = self.shape.first().filter(|_| one) else {
            return Err(wrong(format!("shape {:?} instead of one label per row", self.shape)));
        };
        if self.kind == b'U' {
            return Ok(Labels::Words((0..rows).map(|row| self.text(row)).collect()));
        }
        if self.kind != b'f' {
            let labels = (0..rows).map(|row| self.whole(row)).collect::<Result<_>>()?;
            return Ok(Labels::Numbers(labels));
        }
        let whole = |row: usize| {
            let label = self.number(row);
            let message = || wrong(format!("label {label} of row {row} is no whole number"));
            (label.fract() == 0.0 && label.abs() < 1e15).then_some(label as i64).ok_or_else(message)
        };
        Ok(Labels::Numbers((0..rows).map(whole).collect::<Result<_>>()?))
    }

    /// A text of so many code points, padded with zeros.
    fn text(&self, place: usize) -> String {
        let points = self.values[place * self.size..(place + 1) * self.size].as_chunks::<4>().0;
        let point = |bytes: &[u8; 4]| match self.big_endian {
            true => u32::from_be_bytes(*bytes),
            false => u32::from_le_bytes(*bytes),
        };
        let points = points.iter().map(point).take_while(|point| *point != 0);
        points.map(|point| char::from_u32(point).unwrap_or('\u{fffd}')).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What NumPy writes of an array.
    pub fn npy(descr: &str, by_column: bool, shape: &str, values: &[u8]) -> Vec<u8> {
        let order = if by_column { "True" } else { "False" };
        let header =
            format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({shape}), }}\n");
        let length = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), values].concat()
    }

    pub fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    fn read(bytes: &[u8]) -> Result<Array> {
        Array::read(bytes, 1 << 20)
    }

    #[test]
    fn numbers_of_every_width_order_and_sign_are_read() {
        let three = floats(&[1.5, -2.0, 3.0, 4.0, 5.0, 6.0]);
        let rows = read(&npy("<f4", false, "2, 3", &three)).unwrap().rows(3).unwrap();
        assert_eq!(rows, [1.5, -2.0, 3.0, 4.0, 5.0, 6.0]);
        let turned = read(&npy("<f4", true, "2, 3", &three)).unwrap().rows(3).unwrap();
        assert_eq!(turned, [1.5, 3.0, 5.0, -2.0, 4.0, 6.0]);
        let big: Vec<u8> = [1.5f64, -0.25].iter().flat_map(|value| value.to_be_bytes()).collect();
        assert_eq!(read(&npy(">f8", false, "1, 2", &big)).unwrap().rows(2).unwrap(), [1.5, -0.25]);
        let half: Vec<u8> =
            [0.5, 2.0].iter().flat_map(|v| f16::from_f64(*v).to_le_bytes()).collect();
        assert_eq!(read(&npy("<f2", false, "2, 1", &half)).unwrap().rows(1).unwrap(), [0.5, 2.0]);
        assert_eq!(
            read(&npy("|u1", false, "1, 2", &[200, 3])).unwrap().rows(2).unwrap(),
            [200.0, 3.0]
        );
    }

    #[test]
    fn labels_are_whole_numbers_or_texts() {
        let labels = |bytes: &[u8]| read(bytes).unwrap().labels();
        let minus = labels(&npy("<i2", false, "2,", &[0xff, 0xff, 7, 0])).unwrap();
        assert_eq!(minus, Labels::Numbers(vec![-1, 7]));
        assert_eq!(
            labels(&npy("<f4", false, "2, 1", &floats(&[3.0, 1.0]))).unwrap(),
            Labels::Numbers(vec![3, 1])
        );
        assert!(
            labels(&npy("<f4", false, "1,", &floats(&[0.5])))
                .unwrap_err()
                .to_string()
                .contains("label 0.5 of row 0")
        );
        assert!(labels(&npy("<f4", false, "1, 2", &floats(&[1.0, 2.0]))).is_err());
        let texts: Vec<u8> =
            ['o', 'x', 'é', '\0'].iter().flat_map(|c| u32::from(*c).to_le_bytes()).collect();
        assert_eq!(
            labels(&npy("<U2", false, "2,", &texts)).unwrap(),
            Labels::Words(vec!["ox".into(), "é".into()])
        );
    }

    #[test]
    fn unsigned_numbers_above_those_with_a_sign_are_no_labels() {
        let high = read(&npy("<u8", false, "2, 1", &[[0; 8], [0xff; 8]].concat())).unwrap();
        assert_eq!(high.rows(1).unwrap(), [0.0, u64::MAX as f32]);
        let error = high.labels().unwrap_err().to_string();
        assert!(error.contains("label 18446744073709551615 of row 1"), "{error}");
        let low = read(&npy("<u8", false, "1,", &7u64.to_le_bytes())).unwrap();
        assert_eq!(low.labels().unwrap(), Labels::Numbers(vec![7]));
    }

    #[test]
    fn what_is_no_array_or_not_whole_is_refused() {
        let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        let whole = npy("<f4", false, "2, 1", &floats(&[1.0, 2.0]));
        assert!(
            error(&whole[..whole.len() - 1]).contains("7 bytes of values, and shape [2, 1] has 8")
        );
        assert!(error(&[whole.as_slice(), &[0]].concat()).contains("9 bytes of values"));
        assert!(error(&npy("|O", false, "2,", &[])).contains("header"));
        assert!(error(&npy("|O8", false, "1,", &[0; 8])).contains("without objects"));
        assert!(error(&npy("<f4", false, "99999999999, 99999999999", &[])).contains("too large"));
        assert!(error(b"PK\x03\x04 and so on").contains("does not begin"));
        for descr in ["<f16", "<f1", "<i3", "<u16", "|b8", "<i0"] {
            let error = error(&npy(descr, false, "1,", &[0; 16]));
            assert!(error.contains("save it with at most 64"), "{descr}: {error}");
        }
        assert!(error(&npy("<U0", false, "99999999999,", &[])).contains("values of 0 bits"));
        let rows = |width| read(&whole).unwrap().rows(width).unwrap_err().to_string();
        assert!(rows(3).contains("rows of 1 numbers; set data.width = 1"));
    }
}
