//! NumPy arrays read from `.npy` data.
//!
//! A file is `\x93NUMPY`, two bytes of version, the length of a header, the header (a Python dictionary with `descr`,
//! `fortran_order` and `shape`) and the values. Numbers of any width are read, and texts (`U`) as labels; pickled
//! objects are not. Format: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.

use std::io::Read;
use std::path::Path;

use half::f16;

use super::{ArrayError, broken};
use crate::data::DataError;
use crate::data::labels::{LabelReader, Labels, RowPlace};

/// An array with its values as the file has them.
#[derive(Clone, Debug)]
pub(in crate::data) struct Array {
    pub(super) kind: u8,
    /// Bytes per value.
    pub(super) size: usize,
    big_endian: bool,
    /// True if the first axis varies fastest (Fortran order).
    pub(super) by_column: bool,
    pub(super) shape: Vec<usize>,
    pub(super) values: Vec<u8>,
}

type Result<T> = std::result::Result<T, ArrayError>;

fn wrong(what: impl Into<String>) -> ArrayError {
    ArrayError::Damaged(what.into())
}

impl Array {
    /// Reads an array of at most `limit` bytes.
    ///
    /// # Errors
    /// Returns an error if the data are no array or one of objects, or have fewer or more values than the shape says.
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
        match descr(&header) {
            Some(kind) if kind.starts_with("'|O") || kind.starts_with("'O") => {
                return Err(ArrayError::Objects);
            }
            Some(kind) if kind.starts_with('[') => {
                return Err(ArrayError::Kind(
                    "rows of named fields (a structured array)".to_owned(),
                ));
            }
            _ => {}
        }
        let mut array = Array::described(&header)
            .ok_or_else(|| wrong(format!("a header that is not understood: {}", header.trim())))?;
        if !b"fiubUS".contains(&array.kind) {
            let kind = char::from(array.kind);
            return Err(ArrayError::Kind(format!(
                "values of the kind `{kind}`, neither numbers nor texts"
            )));
        }
        let is_read = match array.kind {
            b'f' => [2, 4, 8].contains(&array.size),
            b'i' | b'u' => [1, 2, 4, 8].contains(&array.size),
            b'b' => array.size == 1,
            _ => array.size > 0,
        };
        if !is_read {
            return Err(ArrayError::Bits(array.size.saturating_mul(8)));
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
        let value = |key: &str| value(header, key);
        let description = descr(header)?.strip_prefix('\'')?.split_once('\'')?.0;
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

    /// Returns the bytes of a value in little-endian order, padded with zeros.
    fn bytes(&self, place: usize) -> [u8; 8] {
        let mut bytes = [0; 8];
        let found = &self.values[place * self.size..(place + 1) * self.size];
        for (at, byte) in found.iter().enumerate() {
            bytes[if self.big_endian { self.size - 1 - at } else { at }] = *byte;
        }
        bytes
    }

    pub(super) fn number(&self, place: usize) -> f64 {
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
        // A narrower signed value has its sign bit in its own highest byte.
        let unused = 64 - 8 * self.size as u32;
        i64::from_le_bytes(self.bytes(place)) << unused >> unused
    }

    fn is_text(&self) -> bool {
        b"US".contains(&self.kind)
    }

    /// Returns the array as concatenated rows of `width` numbers.
    ///
    /// # Errors
    /// Returns an error if the values are texts or not finite, or if rows have another width.
    pub fn rows(&self, width: usize) -> Result<Vec<f32>> {
        let &[rows, found] = self.shape.as_slice() else {
            let expected = format!("(rows, {width})");
            return Err(ArrayError::Shape { found: self.shape.clone(), expected });
        };
        if found != width {
            return Err(ArrayError::Width(found));
        }
        if self.is_text() {
            return Err(ArrayError::Kind("texts instead of numbers".to_owned()));
        }
        let place = |row: usize, column: usize| match self.by_column {
            true => column * rows + row,
            false => row * width + column,
        };
        let each = (0..rows).flat_map(|row| (0..width).map(move |column| (row, column)));
        let number = |(row, column): (usize, usize)| {
            let value = self.number(place(row, column));
            let infinite = ArrayError::Infinite { value, row };
            (value as f32).is_finite().then_some(value as f32).ok_or(infinite)
        };
        each.map(number).collect()
    }

    /// Returns one label or owner per row.
    ///
    /// `name` is the array's name, in the file or folder at `path`.
    ///
    /// # Errors
    /// Returns an error if there are several values per row, or missing ones.
    pub fn labels(&self, path: &Path, name: &str) -> std::result::Result<Labels, DataError> {
        let one = self.shape.iter().skip(1).all(|extent| *extent == 1);
        let Some(&rows) = self.shape.first().filter(|_| one) else {
            return Err(broken(path, &ArrayError::SeveralLabels(self.shape.clone())));
        };
        let mut reader = LabelReader::new(path, name);
        for row in 0..rows {
            let place = || RowPlace::Row(row);
            match self.kind {
                b'U' | b'S' => {
                    let text = self.text(row).ok_or(ArrayError::NoText(row));
                    reader.push_text(&text.map_err(|error| broken(path, &error))?, place)?;
                }
                b'b' => reader.push_truth(self.number(row) != 0.0),
                b'i' => reader.push_whole(self.signed(row)),
                b'u' => reader.push_unsigned(u64::from_le_bytes(self.bytes(row))),
                _ => reader.push_float(self.number(row), place)?,
            }
        }
        Ok(reader.finish())
    }

    /// Returns a text of fixed size, stored as code points or bytes with zero padding; `None` if invalid.
    fn text(&self, place: usize) -> Option<String> {
        let bytes = &self.values[place * self.size..(place + 1) * self.size];
        if self.kind == b'S' {
            let padding = bytes.iter().rev().take_while(|byte| **byte == 0).count();
            let text = std::str::from_utf8(&bytes[..bytes.len() - padding]).ok()?;
            return Some(text.to_owned());
        }
        let point = |bytes: &[u8; 4]| match self.big_endian {
            true => u32::from_be_bytes(*bytes),
            false => u32::from_le_bytes(*bytes),
        };
        let points = bytes.as_chunks::<4>().0.iter().map(point);
        points.take_while(|point| *point != 0).map(char::from_u32).collect()
    }
}

/// Returns the rest of a header from the value of a key on.
fn value<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    Some(header.split_once(&format!("'{key}':"))?.1.trim_start())
}

/// Returns the rest of a header from the type code of its values on.
fn descr(header: &str) -> Option<&str> {
    value(header, "descr")
}

#[cfg(test)]
pub(in crate::data) mod tests {
    use super::*;

    /// Returns an array as NumPy writes it.
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

    fn labels(bytes: &[u8]) -> std::result::Result<Labels, String> {
        let array = read(bytes).unwrap();
        array.labels(Path::new("t"), "y").map_err(|error| error.to_string())
    }

    #[test]
    fn labels_are_numbers_texts_or_truths() {
        let texts = |bytes: &[u8]| {
            labels(bytes).unwrap().texts().iter().map(|t| (*t).to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(texts(&npy("<i2", false, "2,", &[0xff, 0xff, 7, 0])), ["-1", "7"]);
        assert_eq!(texts(&npy("<f4", false, "2, 1", &floats(&[3.0, 1.0]))), ["3", "1"]);
        assert_eq!(texts(&npy("<f4", false, "1,", &floats(&[0.5]))), ["0.5"]);
        assert_eq!(texts(&npy("|b1", false, "2,", &[1, 0])), ["True", "False"]);
        let several = labels(&npy("<f4", false, "1, 2", &floats(&[1.0, 2.0]))).unwrap_err();
        assert!(
            several.contains("one label per row. Save the class of each row: y.argmax"),
            "{several}"
        );
        let points: Vec<u8> =
            ['o', 'x', 'é', '\0'].iter().flat_map(|c| u32::from(*c).to_le_bytes()).collect();
        assert_eq!(texts(&npy("<U2", false, "2,", &points)), ["ox", "é"]);
        assert_eq!(texts(&npy("|S3", false, "2,", b"ox\0\xc3\xa9\0")), ["ox", "é"]);
        let bad = labels(&npy("|S1", false, "2,", b"o\xff")).unwrap_err();
        assert!(bad.contains("no Unicode in row 1"), "{bad}");
    }

    #[test]
    fn labels_without_a_value_are_refused_with_their_row() {
        let nan = labels(&npy("<f4", false, "2,", &floats(&[1.0, f32::NAN]))).unwrap_err();
        assert!(
            nan.contains("t: expected a value of `y` in every row, found `NaN` in row 1"),
            "{nan}"
        );
        let empty = labels(&npy("|S2", false, "2,", b"ox\0\0")).unwrap_err();
        assert!(empty.contains("found none in row 1"), "{empty}");
    }

    #[test]
    fn unsigned_numbers_above_those_with_a_sign_keep_their_digits() {
        let high = read(&npy("<u8", false, "2, 1", &[[0; 8], [0xff; 8]].concat())).unwrap();
        assert_eq!(high.rows(1).unwrap(), [0.0, u64::MAX as f32]);
        let labels = high.labels(Path::new("t"), "y").unwrap();
        assert_eq!(labels.texts(), ["0", "18446744073709551615"]);
    }

    #[test]
    fn what_is_no_array_or_not_whole_is_refused() {
        let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        let whole = npy("<f4", false, "2, 1", &floats(&[1.0, 2.0]));
        assert!(
            error(&whole[..whole.len() - 1]).contains("7 bytes of values, and shape [2, 1] has 8")
        );
        assert!(error(&[whole.as_slice(), &[0]].concat()).contains("9 bytes of values"));
        for descr in ["|O", "O", "|O8"] {
            let objects = read(&npy(descr, false, "2,", &[])).unwrap_err();
            assert!(objects.to_string().contains("Python objects"), "{objects}");
            assert!(objects.advice().contains("x.astype(str)"), "{}", objects.advice());
        }
        let fields = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n";
        let length = (fields.len() as u16).to_le_bytes();
        let bytes = [b"\x93NUMPY\x01\x00", length.as_slice(), fields.as_bytes(), &[0; 4]].concat();
        assert!(error(&bytes).contains("rows of named fields"));
        assert!(error(&npy("<M8", false, "1,", &[0; 8])).contains("of the kind `M`"));
        assert!(error(&npy("<f4", false, "99999999999, 99999999999", &[])).contains("too large"));
        assert!(error(b"PK\x03\x04 and so on").contains("does not begin"));
        for descr in ["<f16", "<f1", "<i3", "<u16", "|b8", "<i0"] {
            let error = read(&npy(descr, false, "1,", &[0; 16])).unwrap_err();
            assert!(error.advice().contains("Save it with at most 64"), "{descr}: {error}");
        }
        assert!(error(&npy("<U0", false, "99999999999,", &[])).contains("values of 0 bits"));
        let width = read(&whole).unwrap().rows(3).unwrap_err();
        assert_eq!(
            (width.to_string(), width.advice()),
            ("rows of 1 numbers".into(), "Set data.width = 1".into())
        );
        let nan = read(&npy("<f4", false, "2, 1", &floats(&[1.0, f32::NAN]))).unwrap();
        assert_eq!(nan.rows(1).unwrap_err().to_string(), "NaN in row 1");
    }
}
