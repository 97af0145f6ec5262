//! Search for tensors in the content of a pickle, and for the positions of their bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use candle_core::pickle::Object;

/// Keys under which training programs keep weights.
///
/// Those averaged over training come first, as in timm.
const KEYS: [&str; 14] = [
    "state_dict_ema",
    "model_ema",
    "ema_state_dict",
    "model_ema_state_dict",
    "ema_model",
    "ema",
    "state_dict",
    "model_state_dict",
    "model_state",
    "model",
    "teacher",
    "net",
    "network",
    "student",
];

/// Largest number of keys within keys that are searched.
const WITHIN: usize = 2;

/// Tensor of a PyTorch file, as a view of a storage.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stored {
    /// Type as [`widened`](crate::weights::file::widened) names it.
    pub kind: String,
    pub shape: Vec<usize>,
    /// Strides in elements.
    pub strides: Vec<usize>,
    /// Offset of the first element, in elements.
    pub offset: usize,
    /// Name of the storage that holds the bytes.
    pub storage: String,
}

/// Content of a pickle.
#[derive(Debug)]
pub(super) struct Found {
    /// Keys that lead to its tensors.
    pub part: Option<String>,
    /// Keys that lead to other sets of tensors.
    pub others: Vec<String>,
    pub tensors: BTreeMap<String, Stored>,
    /// Names of tensors and arrays that are not stored as dense tensors, with their storage format.
    pub strange: Vec<String>,
}

/// Returns the named tensors of a pickle; `None` if there are none.
///
/// They are those below the keys `part`, if there is a set of tensors.
pub(super) fn found(object: Object, part: Option<&str>) -> Option<Found> {
    let mut sets = Vec::new();
    list_sets(&object, &mut Vec::new(), &mut sets);
    let asked = part.filter(|part| sets.iter().any(|set| set == part));
    let path = asked.map_or_else(|| chosen(&object), |part| Some(part.to_owned()))?;
    let mut object = object;
    for key in path.split('.').filter(|key| !key.is_empty()) {
        let Object::Dict(pairs) = object else { return None };
        object = pairs.into_iter().find(|pair| is_named(pair, key))?.1;
    }
    let Object::Dict(pairs) = object else { return None };
    let others = sets.into_iter().filter(|set| *set != path && !set.is_empty());
    let mut others: Vec<String> = others.collect();
    others.sort();
    let part = (!path.is_empty()).then_some(path);
    let mut found = Found { part, others, tensors: BTreeMap::new(), strange: Vec::new() };
    for (name, value) in pairs {
        let Ok(name) = name.unicode() else { continue };
        let maker = maker(&value);
        match (stored(value), maker) {
            (Some(tensor), _) => drop(found.tensors.insert(name, tensor)),
            (None, Some(maker)) => found.strange.push(format!("{name} ({maker})")),
            // Other values, such as numbers and texts, are kept next to tensors by training programs.
            (None, None) => {}
        }
    }
    let empty = found.tensors.is_empty() && found.strange.is_empty();
    (!empty).then_some(found)
}

/// Lists the keys that lead to every set of named tensors, joined by dots.
///
/// The outermost set has an empty entry.
fn list_sets(object: &Object, path: &mut Vec<String>, sets: &mut Vec<String>) {
    let Object::Dict(pairs) = object else { return };
    if pairs
        .iter()
        .any(|(name, value)| matches!(name, Object::Unicode(_)) && maker(value).is_some())
    {
        sets.push(path.join("."));
    }
    if path.len() > WITHIN {
        return;
    }
    for (name, value) in pairs {
        // Keys with a dot are skipped, as they would look like two keys.
        if let Object::Unicode(name) = name
            && !name.contains('.')
        {
            path.push(name.clone());
            list_sets(value, path, sets);
            path.pop();
        }
    }
}

/// Returns the keys of the tensors that are read by default.
fn chosen(object: &Object) -> Option<String> {
    let mut object = object;
    let mut path = Vec::new();
    for _ in 0..=WITHIN {
        let Object::Dict(pairs) = object else { return None };
        let held = KEYS.iter().find_map(|key| {
            let inner = &pairs.iter().find(|pair| is_named(pair, key))?.1;
            let mut sets = Vec::new();
            list_sets(inner, &mut Vec::new(), &mut sets);
            (!sets.is_empty()).then_some((*key, inner))
        });
        let Some((key, inner)) = held else {
            return Some(path.join("."));
        };
        path.push(key);
        object = inner;
    }
    None
}

/// Returns true if the pair has this key.
fn is_named((name, _): &(Object, Object), key: &str) -> bool {
    matches!(name, Object::Unicode(name) if name == key)
}

/// Returns the function that would make a tensor or an array of this object, if it is one.
fn maker(object: &Object) -> Option<String> {
    let callable = match object {
        Object::Reduce { callable, .. } => callable,
        // The object that is built comes first, then its state.
        Object::Build { callable, .. } => return maker(callable),
        _ => return None,
    };
    let Object::Class { module_name, class_name } = &**callable else { return None };
    let makes = class_name.starts_with("_rebuild") || class_name.starts_with("_reconstruct");
    makes.then(|| format!("{module_name}.{class_name}"))
}

/// Returns the tensor that an object describes, if it is one.
fn stored(object: Object) -> Option<Stored> {
    let (module, class, args) = call(object)?;
    let mut args = args.into_iter();
    match (module.as_str(), class.as_str()) {
        ("torch._utils", "_rebuild_tensor_v2") => view(args),
        // Arguments are the tensor, whether it trains, and hooks.
        ("torch._utils", "_rebuild_parameter") => stored(args.next()?),
        // Arguments are a function, a class, the function's arguments and more.
        ("torch._tensor", "_rebuild_from_type_v2") => {
            let (callable, args) = (Box::new(args.next()?), Box::new(args.nth(1)?));
            stored(Object::Reduce { callable, args })
        }
        _ => None,
    }
}

fn call(object: Object) -> Option<(String, String, Vec<Object>)> {
    let Object::Reduce { callable, args } = object else { return None };
    let Object::Class { module_name, class_name } = *callable else { return None };
    let Object::Tuple(args) = *args else { return None };
    Some((module_name, class_name, args))
}

/// Returns the view of a tensor: storage, offset, shape and strides. Further arguments are not needed.
fn view(mut args: impl Iterator<Item = Object>) -> Option<Stored> {
    let Object::PersistentLoad(storage) = args.next()? else { return None };
    let offset = number(args.next()?)?;
    let (shape, strides) = (numbers(args.next()?)?, numbers(args.next()?)?);
    let Object::Tuple(storage) = *storage else { return None };
    // Its entries are the word `storage`, a class, a name, a device and a length.
    let mut storage = storage.into_iter().skip(1);
    let Object::Class { class_name, .. } = storage.next()? else { return None };
    let Object::Unicode(name) = storage.next()? else { return None };
    let kind = match class_name.strip_suffix("Storage").unwrap_or(&class_name) {
        "Float" => "F32",
        "Double" => "F64",
        "Half" => "F16",
        "BFloat16" => "BF16",
        "Long" => "I64",
        other => other,
    };
    (shape.len() == strides.len()).then(|| Stored {
        kind: kind.to_owned(),
        shape,
        strides,
        offset,
        storage: name,
    })
}

fn number(object: Object) -> Option<usize> {
    usize::try_from(object.int_or_long().ok()?).ok()
}

fn numbers(object: Object) -> Option<Vec<usize>> {
    object.tuple().ok()?.into_iter().map(number).collect()
}

impl Stored {
    /// Returns the number of bytes of an element; `None` for types that are no weights.
    pub fn size(&self) -> Option<usize> {
        match self.kind.as_str() {
            "F32" => Some(4),
            "F64" | "I64" => Some(8),
            "F16" | "BF16" => Some(2),
            _ => None,
        }
    }

    /// Returns the range of the storage from the first to the last element of the view.
    pub fn span(&self) -> Option<Range<usize>> {
        if self.shape.contains(&0) {
            return Some(self.offset..self.offset);
        }
        let last = self
            .shape
            .iter()
            .zip(&self.strides)
            .try_fold(self.offset, |at, (extent, stride)| {
                at.checked_add((extent - 1).checked_mul(*stride)?)
            })?;
        // A stride of 0 could turn a few bytes into any number of values.
        let values = self.shape.iter().try_fold(1usize, |all, extent| all.checked_mul(*extent))?;
        let span = self.offset..last.checked_add(1)?;
        (values <= span.len().max(1)).then_some(span)
    }

    /// Returns the elements in row-major order from the bytes of their span; `None` if they already are.
    pub fn rows(&self, bytes: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut dense = vec![1; self.shape.len()];
        for axis in (0..dense.len().saturating_sub(1)).rev() {
            dense[axis] = dense[axis + 1] * self.shape[axis + 1];
        }
        let differs = |axis: &usize| self.shape[*axis] > 1 && self.strides[*axis] != dense[*axis];
        (0..dense.len()).find(differs)?;
        let mut places = vec![0];
        for (extent, stride) in self.shape.iter().zip(&self.strides) {
            places = places
                .into_iter()
                .flat_map(|place: usize| (0..*extent).map(move |at| place + at * stride))
                .collect();
        }
        Some(places.into_iter().flat_map(|at| bytes[at * size..][..size].iter().copied()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(shape: &[usize], strides: &[usize], offset: usize) -> Stored {
        let (kind, storage) = ("F32".to_owned(), "0".to_owned());
        Stored { kind, shape: shape.to_vec(), strides: strides.to_vec(), offset, storage }
    }

    #[test]
    fn views_are_put_in_rows() {
        let bytes: Vec<u8> = (0..6).collect();
        assert_eq!(view(&[2, 3], &[3, 1], 0).rows(&bytes, 1), None);
        assert_eq!(view(&[3, 2], &[1, 3], 0).rows(&bytes, 1).unwrap(), [0, 3, 1, 4, 2, 5]);
        // An axis of one element may have any stride.
        assert_eq!(view(&[1, 3], &[77, 1], 0).rows(&bytes, 1), None);
        assert_eq!(view(&[2, 2], &[3, 1], 1).span(), Some(1..6));
        assert_eq!(view(&[2, 2], &[3, 1], 1).rows(&bytes[1..], 1).unwrap(), [1, 2, 4, 5]);
    }

    #[test]
    fn impossible_views_have_no_span() {
        assert_eq!(view(&[usize::MAX, 2], &[2, 1], 0).span(), None);
        assert_eq!(view(&[1 << 40], &[0], 0).span(), None);
        assert_eq!(view(&[0, 5], &[5, 1], 3).span(), Some(3..3));
        assert_eq!(view(&[], &[], 3).span(), Some(3..4));
    }
}
