//! Merging of a server's state into one network, if it is one.

use std::collections::{BTreeMap, BTreeSet};

use super::ExportError;
use crate::model::ParameterSet;
use crate::wire::{Body, Kind, NamedTensor, Section, WireError};

/// Returns the backbone with the server's changes and its head as one network. The names are those of the backbone's
/// file.
pub(super) fn merged(
    state: &Body,
    backbone: &ParameterSet,
    method: &str,
) -> Result<Body, ExportError> {
    let refuse = |why: String| Err(ExportError::NotMerged(why));
    if let Some(prompt) = state.of_kind(Kind::Prompt).next() {
        return refuse(format!(
            "{} uses prompts ({}), which cannot be merged into the backbone's tensors",
            method,
            prompt.name()
        ));
    }
    let head: BTreeMap<String, &NamedTensor> =
        state.of_kind(Kind::Head).map(|tensor| (tensor.name().to_string(), tensor)).collect();
    let names: BTreeSet<&str> = head.keys().map(String::as_str).collect();
    let linear = names == BTreeSet::from(["head.bias", "head.weight"])
        || names == BTreeSet::from(["head.weight"]);
    if !linear {
        return refuse(format!(
            "the classifier of {} is no linear layer: its tensors are {}",
            method,
            if names.is_empty() {
                "none".to_string()
            } else {
                names.into_iter().collect::<Vec<_>>().join(", ")
            }
        ));
    }
    let own: BTreeMap<&str, &NamedTensor> =
        state.of_kind(Kind::Weights).map(|tensor| (&**tensor.name(), tensor)).collect();
    if let Some(other) = own.keys().find(|name| backbone.get(name).is_none()) {
        return refuse(format!("{other} is an additional tensor, not one of the backbone's"));
    }
    let broken = |error: WireError| ExportError::NotMerged(error.to_string());
    let mut tensors = Vec::new();
    for (name, parameter) in backbone.iter().filter(|(name, _)| !name.starts_with("head.")) {
        tensors.push(match own.get(&**name) {
            Some(own) => (*own).clone(),
            None => NamedTensor::f32(&**name, parameter.shape.clone(), parameter.values.to_vec())
                .map_err(broken)?,
        });
    }
    tensors.extend(head.into_values().cloned());
    Ok(Body::new(Vec::new(), vec![Section::new(Kind::Weights, tensors)]))
}
