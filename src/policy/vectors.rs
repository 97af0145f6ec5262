//! Vectors that accompany parameters: sets with as many numbers as the parameters have.
//!
//! Examples are gradients, velocities and drifts. They are sent and saved under their own names.
//!
//! In a message, a client's state or a server's memory the vector `velocity` of the parameter `head.weight` is the
//! tensor `velocity/head.weight`. Its kind is [`Kind::Statistics`], so it is not taken for a parameter:
//! [`parameters_of`](super::parameters_of) does not see it, and its [place](vector_places) defines its aggregation.
//!
//! ```
//! use fedcast::model::{Parameter, ParameterSet};
//! use fedcast::policy::{parameters_of, vector_section, vectors_of};
//! use fedcast::wire::Body;
//! let bias = Parameter { shape: vec![2], values: [1.0, 2.0].into() };
//! let velocity: ParameterSet = [("head.bias", bias)].into_iter().collect();
//! let saved = Body::new(Vec::new(), vec![vector_section("velocity", &velocity)]);
//! assert_eq!(vectors_of(&saved.sections, "velocity")?, velocity);
//! assert!(parameters_of(&saved)?.is_empty());
//! # Ok::<(), fedcast::wire::WireError>(())
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use super::TensorSpec;
use crate::model::{Parameter, ParameterSet};
use crate::wire::{Dtype, Kind, Loading, NamedTensor, SavedField, Saving, Section, WireError};

/// Separator between the name of a set and that of a parameter.
const SEPARATOR: char = '/';

/// Returns the tensors of a set, for a section that holds others, too. Values are shared, not copied.
pub fn vector_tensors<'s>(
    name: &'s str,
    vectors: &'s ParameterSet,
) -> impl Iterator<Item = NamedTensor> + 's {
    vectors.iter().map(move |(of, vector)| {
        let Parameter { shape, values } = vector.clone();
        let name = format!("{name}{SEPARATOR}{of}");
        NamedTensor::f32(name, shape, values).expect("a parameter fills its shape")
    })
}

/// Returns the section that carries a set.
pub fn vector_section(name: &str, vectors: &ParameterSet) -> Section {
    Section::new(Kind::Statistics, vector_tensors(name, vectors).collect())
}

/// Returns the set of that name among these sections; empty if there is none.
///
/// # Errors
/// Returns an error if its numbers are not f32.
pub fn vectors_of(sections: &[Section], name: &str) -> Result<ParameterSet, WireError> {
    let of_kind = sections.iter().filter(|section| section.kind == Kind::Statistics);
    let mut vectors = ParameterSet::new();
    for tensor in of_kind.flat_map(|section| &section.tensors) {
        if let Some((_, of)) = tensor.name().split_once(SEPARATOR).filter(|(set, _)| *set == name) {
            let (shape, values) = (tensor.shape().to_vec(), Arc::clone(tensor.as_f32()?));
            vectors.insert(of, Parameter { shape, values });
        }
    }
    Ok(vectors)
}

/// Returns the names of the sets among these sections, in their order there.
pub fn vector_names(sections: &[Section]) -> Vec<&str> {
    let of_kind = sections.iter().filter(|section| section.kind == Kind::Statistics);
    let tensors = of_kind.flat_map(|section| &section.tensors);
    let mut names: Vec<&str> =
        tensors.filter_map(|tensor| Some(tensor.name().split_once(SEPARATOR)?.0)).collect();
    names.dedup();
    names
}

/// Returns the places of a set with a vector for each of these parameters, in their order by name.
///
/// The places are not aggregated.
pub fn vector_places(name: &str, parameters: &[TensorSpec]) -> Vec<TensorSpec> {
    let mut places: Vec<TensorSpec> = parameters
        .iter()
        .map(|parameter| {
            let name = format!("{name}{SEPARATOR}{}", parameter.name);
            let place = TensorSpec::new(Kind::Statistics, name, &parameter.shape, Dtype::F32);
            place.from_row(parameter.first_row)
        })
        .collect();
    places.sort_by(|a, b| a.name.cmp(&b.name));
    places
}

/// One section per set.
impl SavedField for BTreeMap<String, ParameterSet> {
    fn save_field(&self, into: &mut Saving) {
        into.sections.extend(self.iter().map(|(name, set)| vector_section(name, set)));
    }

    fn load_field(from: &mut Loading<'_>) -> Result<Self, WireError> {
        let sections = &from.body.sections;
        let set = |name: &str| Ok((name.to_owned(), vectors_of(sections, name)?));
        vector_names(sections).into_iter().map(set).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::MessageSpec;
    use crate::wire::Body;

    fn set(names: &[&str], value: f32) -> ParameterSet {
        let one = |name: &&str| {
            ((*name).to_owned(), Parameter { shape: vec![1, 2], values: [value, 2.0].into() })
        };
        names.iter().map(one).collect()
    }

    /// Sets with the same prefix do not mix, and lie as their layout says.
    #[test]
    fn sets_are_distinguished_by_name() {
        let (one, other) = (set(&["head.bias", "conv.weight"], 1.0), set(&["head.bias"], 3.0));
        let sections = vec![vector_section("drift", &one), vector_section("drift.7", &other)];
        assert_eq!(vectors_of(&sections, "drift").unwrap(), one);
        assert_eq!(vectors_of(&sections, "drift.7").unwrap(), other);
        assert!(vectors_of(&sections, "drif").unwrap().is_empty());
        assert_eq!(vector_names(&sections), ["drift", "drift.7"]);
        let places = [
            TensorSpec::parameter("head.bias", &[1, 2]),
            TensorSpec::parameter("conv.weight", &[1, 2]),
        ];
        let layout =
            MessageSpec { extra: vector_places("drift", &places), ..MessageSpec::default() };
        let body = Body::new(Vec::new(), vec![vector_section("drift", &one)]);
        assert!(body.fills(&layout.body()));
    }
}
