//! Content of a method's messages, read from their layouts for a reference model.

use std::sync::Arc;

use crate::data::TaskView;
use crate::methods::{MethodEntry, Registry};
use crate::model::VitConfig;
use crate::policy::{
    Aggregation, AveragingGroup, ClassCounts, ExchangeFacts, MessageKind, MessageSpec, Method,
    ModelFacts, Stage, TensorSpec, TensorStructure, UploadSize, Weight, WireForm,
};
use crate::quantity::TaskId;
use crate::scenario::MethodSection;

/// Reference model and client for message sizes.
///
/// The model is a ViT-Tiny with 100 classes in ten tasks. The client of the second task holds 50 samples of each of
/// its classes.
pub(super) struct ReferenceClient {
    pub facts: ModelFacts,
    pub view: Arc<TaskView>,
    counts: ClassCounts,
}

impl Default for ReferenceClient {
    fn default() -> ReferenceClient {
        let backbone = VitConfig::default().into();
        let facts = ModelFacts {
            backbone,
            classes: 100,
            tasks: 10,
            clients: 1,
            form: WireForm::Full,
            auxiliary: None,
        };
        let view = TaskView { task: TaskId(1), rows: 10..20, classes: (10..20).collect() };
        let counts = (10..20).map(|row| (row, 50)).collect();
        ReferenceClient { facts, view: Arc::new(view), counts }
    }
}

/// Builds a method with default settings for the reference model.
pub(super) fn build(
    registry: &Registry,
    entry: &MethodEntry,
    reference: &ReferenceClient,
) -> Option<Arc<dyn Method>> {
    let section = MethodSection::new(entry.name, toml::Table::new());
    registry.build(&section, &reference.facts).ok()
}

/// Describes every message of a task between the first and the last, and its aggregation.
pub(super) fn lines(registry: &Registry, entry: &MethodEntry) -> String {
    let reference = ReferenceClient::default();
    let Some(method) = build(registry, entry, &reference) else { return String::new() };
    let ReferenceClient { facts, view, counts } = &reference;
    let stage = Stage::of(Arc::clone(view), facts.tasks);
    let mut text = String::new();
    for (phase, listed) in method.phases(&stage, 1).iter().enumerate() {
        let exchanges = if listed.rounds == 0 { Vec::new() } else { method.profile().roles };
        for (role, word) in exchanges {
            let of = ExchangeFacts {
                model: facts,
                view,
                stage: view.task,
                phase,
                round_in_phase: 0,
                role,
                counts,
            };
            let layout = |message| method.message_spec(message, &of);
            let comma = if word.is_empty() { "" } else { ", " };
            text.push_str(&format!("    {}{comma}{word}\n", listed.name));
            text.push_str(&exchange(&layout(MessageKind::Download), &layout(MessageKind::Upload)));
        }
    }
    text
}

/// Describes the download and the upload of an exchange.
fn exchange(down: &MessageSpec, up: &MessageSpec) -> String {
    let mut text = message("down", down);
    for asset in &down.assets {
        let tensors = asset.body.sections.iter().flat_map(|s| &s.tensors);
        let values: u64 = tensors.map(|tensor| tensor.elements()).sum();
        text.push_str(&format!(
            "            asset `{}`, {values} values, kept as `wire.asset_cache` says\n",
            asset.name
        ));
    }
    if down.is_upper_bound {
        text.push_str("            upper bound: the size depends on the server's state\n");
    }
    text.push_str(&message("up", up));
    let size = match up.size {
        UploadSize::Static => return text,
        UploadSize::FromShard => "size depends on the classes that a client holds",
        UploadSize::FromValues => "size depends on the trained values",
    };
    text.push_str(&format!("            {size}\n"));
    text
}

/// Lists the tensors of a message; adjacent ones with the same aggregation share a line.
fn message(direction: &str, layout: &MessageSpec) -> String {
    let places: Vec<&TensorSpec> = layout.tensor_specs().collect();
    let alike = |a: &&TensorSpec, b: &&TensorSpec| {
        a.kind == b.kind && a.aggregation == b.aggregation && a.structure == b.structure
    };
    let mut text = String::new();
    for (line, group) in places.chunk_by(alike).enumerate() {
        let head = if line == 0 { direction } else { "" };
        let aggregation = becomes(&group[0].aggregation, group[0].structure);
        text.push_str(&format!(
            "      {head:5} {:11} {}{aggregation}\n",
            group[0].kind.name(),
            names(group)
        ));
    }
    if places.is_empty() {
        text.push_str(&format!(
            "      {direction:5} only {} control bytes\n",
            layout.control.len()
        ));
    }
    text
}

/// Names up to two tensors, or the first and the number of the others.
fn names(group: &[&TensorSpec]) -> String {
    let name = |place: &TensorSpec| {
        let extents: Vec<String> = place.shape.iter().map(usize::to_string).collect();
        format!("{} ({})", place.name, extents.join(" x "))
    };
    match group {
        [one] => name(one),
        [one, other] => format!("{}, {}", name(one), name(other)),
        [first, ..] => format!("{} and {} more", name(first), group.len() - 1),
        [] => String::new(),
    }
}

fn becomes(aggregation: &Aggregation, form: TensorStructure) -> String {
    let mut words = Vec::new();
    if let Some(mean) = &aggregation.mean {
        let over = match mean.group {
            AveragingGroup::All => "all participants",
            AveragingGroup::Task(_) => "participants that trained on the task",
            AveragingGroup::Head(_) => "participants that trained on the classes",
        };
        let weight = match &mean.weight {
            Weight::Sum(name) => format!("by `{name}`"),
            Weight::Presence(_) => "evenly".to_owned(),
            Weight::Elementwise(prefix) => format!("element by element, by `{prefix}*`"),
        };
        words.push(format!("mean over {over}, {weight}"));
    }
    if aggregation.sum.is_some() {
        words.push(
            if form == TensorStructure::Symmetric { "added, symmetric" } else { "added" }
                .to_owned(),
        );
    }
    if aggregation.keep {
        words.push("kept for the server's step".to_owned());
    }
    if words.is_empty() { String::new() } else { format!(": {}", words.join("; ")) }
}
