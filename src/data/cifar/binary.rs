//! The binary version: records of one or two label bytes and 3,072 pixels.

use std::path::PathBuf;

use super::{CifarLayout, PIXELS, Samples};
use crate::data::DataError;
use crate::files::text_of;

pub(super) fn names(
    (path, bytes): &(PathBuf, Vec<u8>),
    layout: &CifarLayout,
) -> Result<Vec<String>, DataError> {
    let expected = "names of classes as UTF-8 text";
    let text =
        text_of(bytes).map_err(|error| DataError::corrupt(path, expected, error.to_string()))?;
    let names: Vec<String> =
        text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect();
    if names.len() != layout.classes() {
        return Err(DataError::corrupt(
            path,
            format!("{} class names, one per line", layout.classes()),
            format!("{} lines", names.len()),
        ));
    }
    Ok(names)
}

pub(super) fn samples(
    files: &[&(PathBuf, Vec<u8>)],
    layout: &CifarLayout,
) -> Result<Samples, DataError> {
    let record = layout.labels.len() + PIXELS;
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for (path, bytes) in files {
        if bytes.is_empty() || bytes.len() % record != 0 {
            return Err(DataError::corrupt(
                path,
                format!("one or more whole records of {record} bytes"),
                format!(
                    "{} bytes: {} records and {} bytes more",
                    bytes.len(),
                    bytes.len() / record,
                    bytes.len() % record
                ),
            ));
        }
        pixels.reserve_exact(bytes.len() / record * PIXELS);
        for (i, bytes) in bytes.chunks_exact(record).enumerate() {
            let (ids, image) = bytes.split_at(layout.labels.len());
            for (&id, &values) in ids.iter().zip(layout.labels) {
                if usize::from(id) >= values {
                    return Err(DataError::corrupt(
                        path,
                        format!("labels below {values}"),
                        format!("label {id} in record {i}"),
                    ));
                }
            }
            labels.push(u32::from(ids[ids.len() - 1]));
            pixels.extend_from_slice(image);
        }
    }
    Ok((pixels, labels))
}
