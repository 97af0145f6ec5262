//! A server's state as a safetensors file: what PyTorch, JAX and `safetensors` itself read.
//!
//! Tensors are named `kind/name`: what they are for (`prompt`, `head`, `weights`, `statistics`, ...) and their name in the
//! method's layout. Where a state has several sections of a kind with the same names, those after the first have a
//! number: `statistics/2/gram`. The metadata say which run and task they are of.

use std::collections::BTreeMap;

use safetensors::tensor::{Dtype as FileDtype, TensorView};

use crate::wire::{Body, Dtype, Kind, NamedTensor, Section, TensorValues};

/// Form of tensor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// `kind/name`.
    WithKinds,
    /// `name`, for states of one kind.
    Plain,
}

/// Encodes the bytes of the file.
///
/// # Errors
/// Returns a description if the format has no type for a tensor.
pub fn encode(
    state: &Body,
    metadata: &BTreeMap<String, String>,
    names: Names,
) -> Result<Vec<u8>, String> {
    let named = named(state, names);
    let raw: Vec<(&String, &NamedTensor, Vec<u8>)> = named
        .iter()
        .map(|(name, tensor)| {
            let mut bytes = Vec::new();
            tensor.values().visit_le(|piece| bytes.extend_from_slice(piece));
            (name, *tensor, bytes)
        })
        .collect();
    let views: Result<Vec<(&str, TensorView<'_>)>, String> = raw
        .iter()
        .map(|(name, tensor, bytes)| {
            // Bits stay packed, eight to a byte: the format has no type for them.
            let shape = match tensor.dtype() {
                Dtype::Bits => vec![bytes.len()],
                _ => tensor.shape().to_vec(),
            };
            let view = TensorView::new(dtype(tensor.dtype()), shape, bytes);
            Ok((name.as_str(), view.map_err(|error| format!("{name}: {error}"))?))
        })
        .collect();
    // One key, because the library writes several in the order of a hash map.
    let metadata_entry = serde_json::to_string(metadata).map_err(|error| error.to_string())?;
    let metadata_entry = std::iter::once(("fedcast".to_string(), metadata_entry)).collect();
    safetensors::serialize(views?, Some(metadata_entry)).map_err(|error| error.to_string())
}

/// Returns every tensor with a unique name, in the order of names.
fn named(state: &Body, names: Names) -> BTreeMap<String, &NamedTensor> {
    let mut all = BTreeMap::new();
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for (kind, tensor) in state.tensors() {
        if names == Names::Plain {
            all.insert(tensor.name().to_string(), tensor);
            continue;
        }
        let time = times.entry(format!("{kind}/{}", tensor.name())).or_default();
        *time += 1;
        let name = match *time {
            1 => format!("{kind}/{}", tensor.name()),
            more => format!("{kind}/{more}/{}", tensor.name()),
        };
        all.insert(name, tensor);
    }
    all
}

fn dtype(dtype: Dtype) -> FileDtype {
    match dtype {
        Dtype::F32 => FileDtype::F32,
        Dtype::F64 => FileDtype::F64,
        Dtype::F16 => FileDtype::F16,
        Dtype::Bf16 => FileDtype::BF16,
        Dtype::I8 => FileDtype::I8,
        Dtype::U8 | Dtype::Bits => FileDtype::U8,
        Dtype::U32 => FileDtype::U32,
        Dtype::U64 => FileDtype::U64,
        Dtype::I64 => FileDtype::I64,
    }
}

/// Decodes the tensors of a file; the meta of the state is not in it.
///
/// # Errors
/// Returns a description of what is wrong with the file.
pub fn decode(bytes: &[u8]) -> Result<Body, String> {
    let file = safetensors::SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
    let mut sections: BTreeMap<Kind, Vec<NamedTensor>> = BTreeMap::new();
    for (name, view) in file.tensors() {
        let known =
            name.split_once('/').and_then(|(kind, rest)| Some((Kind::from_name(kind)?, rest)));
        let (kind, rest) = known.ok_or_else(|| format!("{name} is of no kind"))?;
        let values = Dtype::ALL.into_iter().find(|known| dtype(*known) == view.dtype());
        let values = values.and_then(|dtype| TensorValues::from_le(dtype, view.data()));
        let values = values.ok_or_else(|| format!("{name} is of an unknown type"))?;
        let tensor = NamedTensor::new(rest, view.shape().to_vec(), values);
        sections.entry(kind).or_default().push(tensor.map_err(|error| error.to_string())?);
    }
    let section = |(kind, tensors)| Section::new(kind, tensors);
    Ok(Body::new(Vec::new(), sections.into_iter().map(section).collect()))
}

/// Returns the metadata of a file.
///
/// # Errors
/// Returns a description of what is wrong with the file.
pub fn metadata(bytes: &[u8]) -> Result<BTreeMap<String, String>, String> {
    let (_, header) =
        safetensors::SafeTensors::read_metadata(bytes).map_err(|error| error.to_string())?;
    let text = header.metadata().as_ref().and_then(|all| all.get("fedcast"));
    let text = text.ok_or("it is not a model that fedcast kept")?;
    serde_json::from_str(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use safetensors::SafeTensors;

    use super::*;

    #[test]
    fn tensors_keep_names_shapes_types_and_bits() {
        let gram = |value: f64| NamedTensor::f64("gram", [1, 2], vec![value, -0.0]).unwrap();
        let weight = NamedTensor::f32("weight", [2, 3], vec![1.5; 6]).unwrap();
        let sections = vec![
            Section::new(Kind::Head, vec![weight]),
            Section::new(Kind::Statistics, vec![gram(1.0)]),
            Section::new(Kind::Statistics, vec![gram(2.0)]),
        ];
        let metadata_entry = BTreeMap::from([("task".to_string(), "3".to_string())]);
        let bytes =
            encode(&Body::new(vec![], sections), &metadata_entry, Names::WithKinds).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let mut names = file.names();
        names.sort_unstable();
        assert_eq!(names, ["head/weight", "statistics/2/gram", "statistics/gram"]);
        let head = file.tensor("head/weight").unwrap();
        assert_eq!((head.shape(), head.dtype()), (&[2, 3][..], FileDtype::F32));
        let second = file.tensor("statistics/2/gram").unwrap();
        assert_eq!(second.data(), [2.0f64.to_le_bytes(), (-0.0f64).to_le_bytes()].concat());
        assert_eq!(metadata(&bytes).unwrap(), metadata_entry);
        let state = decode(&bytes).unwrap();
        let weight = state.tensor(Kind::Head, "weight").unwrap();
        assert_eq!(weight.shaped(&[2, 3]).unwrap().as_f32().unwrap()[..], [1.5; 6]);
        assert!(decode(&bytes[..bytes.len() - 1]).is_err());
    }
}
