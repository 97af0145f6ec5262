//! Encoding of parameters: named tensors in sections by kind.
//!
//! A parameter's kind follows from its name: `prompt.*` is [`Kind::Prompt`], `head.*` is
//! [`Kind::Head`], everything else belongs to the backbone ([`Kind::Weights`]). Sections come in
//! this order, names sorted within them; the same shapes give the same [`SectionShape`]es.

use std::sync::Arc;

use crate::model::{Parameter, ParameterSet};
use crate::wire::{
    Body, Kind, Loading, NamedTensor, SavedField, Saving, Section, SectionShape, TensorShape,
    WireError,
};

pub(crate) const KINDS: [Kind; 3] = [Kind::Weights, Kind::Prompt, Kind::Head];

/// Returns the kind of a parameter of this name.
pub fn kind_of(name: &str) -> Kind {
    match name.split_once('.') {
        Some(("prompt", _)) => Kind::Prompt,
        Some(("head", _)) => Kind::Head,
        _ => Kind::Weights,
    }
}

/// Returns the sections that carry `parameters`; values are shared, not copied.
pub fn parameter_sections(parameters: &ParameterSet) -> Vec<Section> {
    let of_kind = |kind| {
        let tensors = parameters.iter().filter(|(name, _)| kind_of(name) == kind);
        let tensors = tensors.map(|(name, parameter)| {
            let Parameter { shape, values } = parameter.clone();
            NamedTensor::f32(Arc::clone(name), shape, values).expect("a parameter fills its shape")
        });
        Section::new(kind, tensors.collect())
    };
    KINDS.map(of_kind).into_iter().filter(|section| !section.tensors.is_empty()).collect()
}

/// Returns the parameters that a body carries and ignores the rest of it.
pub fn parameters_of(body: &Body) -> Result<ParameterSet, WireError> {
    let mut parameters = ParameterSet::default();
    for kind in KINDS {
        for tensor in body.of_kind(kind) {
            let (shape, values) = (tensor.shape().to_vec(), Arc::clone(tensor.as_f32()?));
            parameters.insert(Arc::clone(tensor.name()), Parameter { shape, values });
        }
    }
    Ok(parameters)
}

/// Parameters have no name in a body, so a body has one such field; `None` is an empty set.
impl SavedField for Option<ParameterSet> {
    fn save_field(&self, into: &mut Saving) {
        into.sections.extend(self.iter().flat_map(parameter_sections));
    }

    fn load_field(from: &mut Loading<'_>) -> Result<Self, WireError> {
        Ok(Some(parameters_of(from.body)?).filter(|parameters| !parameters.is_empty()))
    }
}

/// Returns the sections that parameters of these names and shapes fill.
pub fn parameter_section_shapes(shapes: &[(String, Vec<usize>)]) -> Vec<SectionShape> {
    let mut sorted: Vec<&(String, Vec<usize>)> = shapes.iter().collect();
    sorted.sort();
    let of_kind = |kind| {
        let tensors = sorted.iter().filter(|(name, _)| kind_of(name) == kind);
        let tensors = tensors.map(|(name, shape)| TensorShape::f32(name.as_str(), shape.clone()));
        SectionShape::new(kind, tensors.collect())
    };
    KINDS.map(of_kind).into_iter().filter(|section| !section.tensors.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::LinearHead;
    use crate::wire::Kind;

    #[test]
    fn parameter_shapes_are_sorted_by_kind_and_name() {
        let shapes = [("prompt.01", 4), (LinearHead::WEIGHT, 6), ("prompt.00", 2)];
        let sections = parameter_section_shapes(
            &shapes.map(|(name, length)| (name.to_string(), vec![length])),
        );
        let said: Vec<(Kind, Vec<&str>)> = sections
            .iter()
            .map(|section| (section.kind, section.tensors.iter().map(|t| &*t.name).collect()))
            .collect();
        let mut expected = [
            (Kind::Head, vec![LinearHead::WEIGHT]),
            (Kind::Prompt, vec!["prompt.00", "prompt.01"]),
        ];
        expected.sort_by_key(|(kind, _)| KINDS.iter().position(|one| one == kind));
        assert_eq!(said, expected);
    }
}
