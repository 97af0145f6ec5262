//! Safetensors files, read by the format's library.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use safetensors::tensor::{Metadata, SafeTensors};

use super::file::widened;
use super::{FileTensor, Listed, Listing, WeightsError};

/// Safetensors file in memory, with its index.
pub(super) struct SafetensorsFile<'a> {
    bytes: Cow<'a, [u8]>,
    /// Offset of the tensors, in bytes.
    start: usize,
    index: Metadata,
}

/// Number of bytes before the index, which hold its length.
const LENGTH: usize = 8;

impl<'a> SafetensorsFile<'a> {
    /// Reads the index.
    pub fn open(file: &str, bytes: Cow<'a, [u8]>) -> Result<(Listing, Self), WeightsError> {
        let read = SafeTensors::read_metadata(&bytes);
        let (length, index) = read.map_err(|error| malformed(file, error.to_string()))?;
        Ok((listed(&index), SafetensorsFile { bytes, start: LENGTH + length, index }))
    }

    /// Reads one tensor.
    pub fn read(&self, file: &str, name: &str) -> Result<FileTensor, WeightsError> {
        let place = self.index.info(name).and_then(|info| {
            let (from, to) = info.data_offsets;
            Some((info, self.bytes.get(self.start + from..self.start + to)?))
        });
        let Some((info, data)) = place else {
            let reason = format!("the bytes of `{name}` are not in it");
            return Err(malformed(file, reason));
        };
        widened(file, name, &format!("{:?}", info.dtype), &info.shape, data)
    }
}

/// Returns the listing of a file of this length, without reading its tensors.
pub(super) fn index(name: &str, file: &File, length: u64) -> Result<Listing, WeightsError> {
    let mut size = [0; LENGTH];
    let mut reader = file;
    reader.read_exact(&mut size).map_err(|error| malformed(name, error.to_string()))?;
    let size = u64::from_le_bytes(size);
    if size > length.saturating_sub(LENGTH as u64) {
        return Err(malformed(name, "its index is longer than the file".to_owned()));
    }
    let mut bytes = Vec::new();
    reader.take(size).read_to_end(&mut bytes).map_err(|e| malformed(name, e.to_string()))?;
    let index: Metadata =
        serde_json::from_slice(&bytes).map_err(|error| malformed(name, error.to_string()))?;
    Ok(listed(&index))
}

fn listed(index: &Metadata) -> Listing {
    let tensors: BTreeMap<_, _> = index.tensors().into_iter().collect();
    let listed = |info: &safetensors::tensor::TensorInfo| Listed {
        shape: info.shape.clone(),
        kind: format!("{:?}", info.dtype),
    };
    tensors.into_iter().map(|(name, info)| (name, listed(info))).collect()
}

fn malformed(file: &str, reason: String) -> WeightsError {
    let reason: String = reason.chars().take(300).collect();
    WeightsError::malformed(file, "safetensors file", reason)
}
