//! A server's state as a safetensors file: what PyTorch, JAX and `safetensors` itself read.
//!
//! Tensors are named `kind/name`: what they are for (`prompt`, `head`, `weights`, `statistics`, ...) and their name in the
//! method's layout. Where a state has several sections of a kind with the same names, those after the first have a
//! number: `statistics/2/gram`. The metadata say which run and task they are of.

use std::collections::{BTreeMap, HashMap};

use safetensors::tensor::{Dtype as FileDtype, TensorView};

use crate::wire::{Body, Dtype, NamedTensor};

/// The bytes of the file.
///
/// # Errors
/// A tensor that the format has no type for, in words.
pub fn encode(state: &Body, metadata: &BTreeMap<String, String>) -> Result<Vec<u8>, String> {
    let named = named(state);
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
            // Eight to a byte, as they are: the format has no bits.
            let shape = match tensor.dtype() {
                Dtype::Bits => vec![bytes.len()],
                _ => tensor.shape().to_vec(),
            };
            let view = TensorView::new(dtype(tensor.dtype()), shape, bytes);
            Ok((name.as_str(), view.map_err(|error| format!("{name}: {error}"))?))
        })
        .collect();
    let metadata: HashMap<String, String> =
        metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    // One key, so that the order of a hash map cannot show.
    let metadata = match serde_json::to_string(&metadata.iter().collect::<BTreeMap<_, _>>()) {
        Ok(text) => HashMap::from([("fedcast".to_string(), text)]),
        Err(error) => return Err(error.to_string()),
    };
    safetensors::serialize(views?, Some(metadata)).map_err(|error| error.to_string())
}

/// Every tensor with a name of its own, in the order of names.
fn named(state: &Body) -> BTreeMap<String, &NamedTensor> {
    let mut all = BTreeMap::new();
    let mut times: HashMap<String, u32> = HashMap::new();
    for (kind, tensor) in state.tensors() {
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

/// What the metadata of a file say.
///
/// # Errors
/// What is wrong with the file, in words.
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
    use crate::wire::{Kind, Section};

    #[test]
    fn tensors_keep_names_shapes_types_and_bits() {
        let gram = |value: f64| NamedTensor::f64("gram", [1, 2], vec![value, -0.0]).unwrap();
        let weight = NamedTensor::f32("weight", [2, 3], vec![1.5; 6]).unwrap();
        let sections = vec![
            Section::new(Kind::Head, vec![weight]),
            Section::new(Kind::Statistics, vec![gram(1.0)]),
            Section::new(Kind::Statistics, vec![gram(2.0)]),
        ];
        let said = BTreeMap::from([("task".to_string(), "3".to_string())]);
        let bytes = encode(&Body::new(vec![], sections), &said).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let mut names = file.names();
        names.sort_unstable();
        assert_eq!(names, ["head/weight", "statistics/2/gram", "statistics/gram"]);
        let head = file.tensor("head/weight").unwrap();
        assert_eq!((head.shape(), head.dtype()), (&[2, 3][..], FileDtype::F32));
        let second = file.tensor("statistics/2/gram").unwrap();
        assert_eq!(second.data(), [2.0f64.to_le_bytes(), (-0.0f64).to_le_bytes()].concat());
        assert_eq!(metadata(&bytes).unwrap(), said);
    }
}
