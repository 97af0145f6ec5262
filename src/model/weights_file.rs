//! Safetensors files: reading with errors that name the tensor, and writing.

use std::path::Path;
use std::sync::Arc;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::ModelError;
use super::parameters::{Parameter, ParameterSet};

/// The bytes of a weights file.
///
/// # Errors
/// When it cannot be read.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, ModelError> {
    let file = path.display().to_string();
    crate::files::read(path, crate::files::Kind::Weights)
        .map_err(|source| ModelError::Unreadable { file, source })
}

/// The tensors with a `wanted` name in the bytes of a safetensors file that comes from `origin`; f16, bf16
/// and f64 become f32.
///
/// # Errors
/// When it is malformed, or such a tensor is of a wrong type or not finite.
pub(super) fn read_parameters(
    origin: &str,
    bytes: &[u8],
    wanted: impl Fn(&str) -> bool,
) -> Result<ParameterSet, ModelError> {
    let malformed = |reason: String| ModelError::Malformed { file: origin.to_owned(), reason };
    if bytes.is_empty() {
        return Err(malformed("it is empty".to_owned()));
    }
    let file = SafeTensors::deserialize(bytes).map_err(|e| malformed(e.to_string()))?;
    let mut all = ParameterSet::new();
    for (name, view) in file.iter() {
        if wanted(name) {
            all.insert(name, read_tensor(origin, name, &view)?);
        }
    }
    Ok(all)
}

/// Parameters as the bytes of a safetensors file, f32.
///
/// # Errors
/// [`ModelError::Malformed`] when the format has no way to say it.
pub fn to_safetensors(parameters: &ParameterSet) -> Result<Vec<u8>, ModelError> {
    let raw: Vec<(&Arc<str>, &[usize], Vec<u8>)> = parameters
        .iter()
        .map(|(name, p)| {
            (name, p.shape.as_slice(), p.values.iter().flat_map(|v| v.to_le_bytes()).collect())
        })
        .collect();
    let malformed = |e: safetensors::SafeTensorError| ModelError::Malformed {
        file: "parameter set".to_owned(),
        reason: e.to_string(),
    };
    let views = raw
        .iter()
        .map(|(name, shape, bytes)| {
            Ok((&***name, TensorView::new(Dtype::F32, shape.to_vec(), bytes)?))
        })
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(malformed)?;
    safetensors::serialize(views, None).map_err(malformed)
}

fn read_tensor(file: &str, name: &str, view: &TensorView<'_>) -> Result<Parameter, ModelError> {
    let data = view.data();
    let values: Arc<[f32]> = match view.dtype() {
        Dtype::F32 => collect(data, f32::from_le_bytes),
        Dtype::F64 => collect(data, |b| f64::from_le_bytes(b) as f32),
        Dtype::F16 => collect(data, |b| f16::from_le_bytes(b).to_f32()),
        // A counter, such as the batches that a batch norm has seen.
        Dtype::I64 if view.shape().is_empty() => collect(data, |b| i64::from_le_bytes(b) as f32),
        Dtype::BF16 => collect(data, |b| bf16::from_le_bytes(b).to_f32()),
        other => {
            return Err(ModelError::Type {
                file: file.to_owned(),
                name: name.to_owned(),
                dtype: format!("{other:?}"),
            });
        }
    };
    if let Some(index) = values.iter().position(|v| !v.is_finite()) {
        return Err(ModelError::NotFinite {
            file: file.to_owned(),
            name: name.to_owned(),
            index,
            value: values[index],
        });
    }
    Ok(Parameter { shape: view.shape().to_vec(), values })
}

fn collect<const N: usize>(data: &[u8], read: impl Fn([u8; N]) -> f32) -> Arc<[f32]> {
    data.as_chunks::<N>().0.iter().map(|bytes| read(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_widened() {
        let (name, bytes) = ("norm.bias", bf16::from_f32(1.5).to_le_bytes());
        let view = TensorView::new(Dtype::BF16, vec![1], &bytes).unwrap();
        assert_eq!(&*read_tensor("file", name, &view).unwrap().values, [1.5]);
        let bytes = f16::from_f32(-0.25).to_le_bytes();
        let view = TensorView::new(Dtype::F16, vec![1], &bytes).unwrap();
        assert_eq!(&*read_tensor("file", name, &view).unwrap().values, [-0.25]);
    }

    #[test]
    fn a_counter_is_read_and_other_integers_are_refused() {
        let bytes = [7i64.to_le_bytes(), 8i64.to_le_bytes()].concat();
        let counter = TensorView::new(Dtype::I64, vec![], &bytes[..8]).unwrap();
        let read = read_tensor("file", "bn1.num_batches_tracked", &counter).unwrap();
        assert_eq!((&*read.values, read.shape.len()), (&[7.0f32][..], 0));
        let list = TensorView::new(Dtype::I64, vec![2], &bytes).unwrap();
        assert!(matches!(read_tensor("file", "x", &list), Err(ModelError::Type { .. })));
    }
}
