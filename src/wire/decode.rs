//! Decoder of frames.
//!
//! Arbitrary bytes give a body or an error, never a panic, and never allocate more than a few times their own length.

use std::sync::Arc;

use super::header::HEADER_LENGTH;
use super::meta::take_varint;
use super::tensor::shape_elements;
use super::{Body, Codec, Dtype, FrameHeader, Kind, NamedTensor, Section, WireError};

/// A row of the tensor table.
struct TensorTableRow {
    name: Arc<str>,
    dtype: Dtype,
    codec: Codec,
    shape: Vec<usize>,
    length: usize,
}

/// Decodes header and body of a frame, with the values that lossy codecs left.
pub fn decode(frame: &[u8]) -> Result<(FrameHeader, Body), WireError> {
    let (header, length) = FrameHeader::decode(frame)?;
    let mut rest = &frame[HEADER_LENGTH..];
    if length != rest.len() as u64 {
        return Err(WireError::Malformed(format!(
            "its header announces {length} bytes, but {} follow",
            rest.len()
        )));
    }
    let length = varint(&mut rest, "meta")?;
    let meta = take(&mut rest, length, "meta")?.to_vec();
    let mut table = Vec::new();
    for _ in 0..varint(&mut rest, "table")? {
        let code = byte(&mut rest)?;
        let kind = Kind::from_code(code)
            .ok_or_else(|| WireError::Malformed(format!("unknown kind {code}")))?;
        let rows: Result<Vec<TensorTableRow>, WireError> =
            (0..varint(&mut rest, "table")?).map(|_| row(&mut rest)).collect();
        table.push((kind, rows?));
    }
    let mut sections = Vec::with_capacity(table.len());
    for (kind, rows) in table {
        let mut tensors = Vec::with_capacity(rows.len());
        for row in rows {
            let bytes = take(&mut rest, row.length as u64, "data")?;
            let values = row.codec.decode(row.dtype, bytes).ok_or_else(|| {
                WireError::Malformed(format!(
                    "the data of `{}` are no {} in codec {}",
                    row.name,
                    row.dtype.name(),
                    row.codec
                ))
            })?;
            tensors.push(NamedTensor::new(row.name, row.shape, values)?);
        }
        sections.push(Section::new(kind, tensors));
    }
    if !rest.is_empty() {
        return Err(WireError::Malformed(format!("{} bytes follow its last tensor", rest.len())));
    }
    Ok((header, Body::new(meta, sections)))
}

fn row(rest: &mut &[u8]) -> Result<TensorTableRow, WireError> {
    let length = varint(rest, "table")?;
    let name = std::str::from_utf8(take(rest, length, "table")?)
        .map_err(|_| WireError::Malformed("a tensor's name is not UTF-8".into()))?;
    let (dtype, codec) = (byte(rest)?, byte(rest)?);
    let unknown =
        || WireError::Malformed(format!("tensor `{name}` has type {dtype} and codec {codec}"));
    let dtype = Dtype::from_code(dtype).ok_or_else(unknown)?;
    let codec = Codec::from_code(codec).ok_or_else(unknown)?;
    let rank = varint(rest, "table")?;
    let shape: Result<Vec<usize>, WireError> =
        (0..rank).map(|_| usize::try_from(varint(rest, "table")?).map_err(|_| unknown())).collect();
    let shape = shape?;
    let length = varint(rest, "table")?;
    if length != codec.encoded_length(dtype, shape_elements(&shape)) {
        return Err(WireError::Malformed(format!(
            "tensor `{name}` of shape {shape:?} cannot take {length} bytes"
        )));
    }
    let length = usize::try_from(length).map_err(|_| WireError::Truncated("data"))?;
    Ok(TensorTableRow { name: name.into(), dtype, codec, shape, length })
}

fn varint(rest: &mut &[u8], part: &'static str) -> Result<u64, WireError> {
    take_varint(rest).ok_or(WireError::Truncated(part))
}

fn byte(rest: &mut &[u8]) -> Result<u8, WireError> {
    Ok(take(rest, 1, "table")?[0])
}

fn take<'a>(rest: &mut &'a [u8], length: u64, part: &'static str) -> Result<&'a [u8], WireError> {
    let length = usize::try_from(length).ok().filter(|l| *l <= rest.len());
    let (first, after) = rest.split_at(length.ok_or(WireError::Truncated(part))?);
    *rest = after;
    Ok(first)
}
