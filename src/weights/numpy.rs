//! Files of `numpy.savez`, read by candle.
//!
//! Sizes are checked first, so that the reader never allocates more than the file can hold.

use std::path::Path;

use candle_core::npy::NpzTensors;
use candle_core::{DType, Error};

use super::advice::convert_npz;
use super::file::finite;
use super::{FileTensor, Listed, Listing, WeightsError};

/// Largest compression ratio of deflate, by which sizes are bounded.
const INFLATION: u64 = 1_032;

const FORMAT: &str = "NumPy file";

/// Open `.npz` file.
pub(super) struct NumpyFile {
    arrays: NpzTensors,
}

impl NumpyFile {
    /// Reads the header of every array; `length` is that of the file.
    pub fn open(
        origin: &str,
        path: &Path,
        length: u64,
    ) -> Result<(Listing, NumpyFile), WeightsError> {
        let malformed = |error: Error| malformed(origin, &error.to_string());
        let arrays = NpzTensors::new(path).map_err(malformed)?;
        let mut listing = Listing::new();
        for name in arrays.names() {
            let (shape, dtype) = arrays.get_shape_and_dtype(name).map_err(malformed)?;
            let shape = shape.into_dims();
            let bytes = shape.iter().try_fold(dtype.size_in_bytes() as u64, |all, extent| {
                all.checked_mul(*extent as u64)
            });
            if bytes.is_none_or(|bytes| bytes > length.saturating_mul(INFLATION)) {
                let reason = format!("`{name}` says it is larger than the file can hold");
                return Err(WeightsError::malformed(origin, FORMAT, reason));
            }
            let kind = format!("{dtype:?}").to_uppercase();
            listing.insert(name.clone(), Listed { shape, kind });
        }
        Ok((listing, NumpyFile { arrays }))
    }

    /// Reads one array.
    pub fn read(&mut self, origin: &str, name: &str) -> Result<FileTensor, WeightsError> {
        let array = self.arrays.get(name).map_err(|error| malformed(origin, &error.to_string()))?;
        let Some(array) = array else {
            return Err(WeightsError::malformed(origin, FORMAT, format!("`{name}` is gone")));
        };
        if !matches!(array.dtype(), DType::F16 | DType::F32 | DType::F64) {
            let (file, name) = (origin.to_owned(), name.to_owned());
            return Err(WeightsError::Type { file, name, kind: format!("{:?}", array.dtype()) });
        }
        let values = array
            .to_dtype(DType::F32)
            .and_then(|array| array.flatten_all()?.to_vec1::<f32>())
            .map_err(|error| malformed(origin, &error.to_string()))?;
        let tensor = FileTensor { shape: array.dims().to_vec(), values: values.into() };
        finite(origin, name, tensor)
    }
}

fn malformed(origin: &str, reason: &str) -> WeightsError {
    // The first line is enough: a backtrace may follow.
    let reason = reason.lines().next().unwrap_or_default().to_owned();
    let advice = match reason.contains("fortran") || reason.contains("descr") {
        true => convert_npz(origin),
        false => super::error::AGAIN.to_owned(),
    };
    WeightsError::Malformed { file: origin.to_owned(), format: FORMAT, reason, advice }
}

#[cfg(test)]
mod tests {
    use crate::weights::WeightsFile;
    use candle_core::{Device, Tensor};

    #[test]
    fn arrays_are_read_by_name_and_cut_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.npz");
        let arrays = [
            ("a/kernel", Tensor::new(&[[1f32, 2.0], [3.0, 4.0]], &Device::Cpu).unwrap()),
            ("a/bias", Tensor::new(&[0.5f64, -0.5], &Device::Cpu).unwrap()),
        ];
        Tensor::write_npz(&arrays, &path).unwrap();
        let mut file = WeightsFile::open(&path).unwrap();
        assert_eq!(file.listing()["a/kernel"].shape, [2, 2]);
        assert_eq!(&*file.read("a/kernel").unwrap().values, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(&*file.read("a/bias").unwrap().values, [0.5, -0.5]);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        assert!(WeightsFile::open(&path).is_err());
    }

    /// An array that says it has 2^60 values.
    #[test]
    fn what_an_array_says_of_itself_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w.npz");
        Tensor::write_npz(&[("a", Tensor::new(&[1f32, 2.0], &Device::Cpu).unwrap())], &path)
            .unwrap();
        let mut bytes = std::fs::read(&path).unwrap();
        let head = b"'shape': (2,), }";
        let at = bytes.windows(head.len()).position(|part| part == head).unwrap();
        bytes[at..at + head.len()].copy_from_slice(b"'shape':(999999)");
        std::fs::write(&path, bytes).unwrap();
        let error = WeightsFile::open(&path).err().unwrap().to_string();
        assert!(error.contains("larger than the file can hold"), "{error}");
    }
}
