//! Messages of FedWEIT: units of the base, adaptive parts, and the knowledge base.
//!
//! A base is encoded as its sent units, concatenated over all layers, and a bit for every unit. Adaptive parts are
//! encoded as the values that exceed the limit, and a bit for every value.

use std::sync::Arc;

use super::layers::WeitShape;
use super::sparse::{bits_of, bytes_of, most_sent, sent_units, spread, thresholded};
use super::state::{ATTENTION, LOCAL, MASK};
use crate::model::{Parameter, ParameterSet};
use crate::policy::{
    Asset, AssetSpec, AveragingGroup, Message, MessageSpec, TensorSpec, UploadSize, Weight,
};
use crate::wire::{
    Body, BodyShape, Dtype, Kind, MetaReader, MetaWriter, NamedTensor, Section, TensorValues,
    WireError,
};

/// Name of the knowledge base as an asset.
pub(super) const KNOWLEDGE: &str = "knowledge";
/// Prefix of the elementwise weights of a base: 1 for sent values, 0 for others.
const SENT: &str = "sent.";
const UNITS: &str = "units";
const BITS: &str = "bits";
const VALUES: &str = "values";

fn bytes(kind: Kind, name: &str, bytes: Vec<u8>) -> Result<Section, WireError> {
    let tensor = NamedTensor::new(name, [bytes.len()], TensorValues::U8(bytes.into()))?;
    Ok(Section::new(kind, vec![tensor]))
}

/// Returns values as a parameter: decoded messages have all tensors of weights among the parameters.
fn numbers(values: Vec<f32>) -> Parameter {
    Parameter { shape: vec![values.len()], values: values.into() }
}

fn numbers_in<'m>(message: &'m Message, name: &str) -> Result<&'m [f32], WireError> {
    let missing = || WireError::Malformed(format!("`{name}` is missing"));
    Ok(&message.parameters.get(name).ok_or_else(missing)?.values)
}

fn bytes_in(tensor: &NamedTensor) -> Result<&[u8], WireError> {
    match tensor.values() {
        TensorValues::U8(bytes) => Ok(bytes),
        _ => Err(WireError::Malformed(format!("`{}` has no bits", tensor.name()))),
    }
}

fn named<'m>(message: &'m Message, name: &str) -> Result<&'m NamedTensor, WireError> {
    message.named(name).ok_or_else(|| WireError::Malformed(format!("`{name}` is missing")))
}

/// Returns the specification of a download for training.
///
/// The size of the knowledge base is an upper bound, reached if all values exceed the limit.
pub(super) fn download_spec(shape: &WeitShape, assets: Vec<AssetSpec>) -> MessageSpec {
    let place = |layer: &super::SplitLayer| TensorSpec::parameter(&*layer.name, &layer.shape);
    let control = vec![0; 8 * assets.len()];
    MessageSpec {
        control,
        is_upper_bound: !assets.is_empty(),
        assets,
        ..MessageSpec::of(shape.layers.iter().map(place).collect())
    }
}

/// Returns the specification of an upload of training, for masks that are all different.
pub(super) fn upload_spec(shape: &WeitShape, dropped: f64) -> MessageSpec {
    let sent = shape.layers.iter().map(|layer| most_sent(layer.units(), dropped) * layer.width());
    let units = shape.units().div_ceil(8);
    MessageSpec {
        extra: vec![TensorSpec::new(Kind::Settings, UNITS, &[units], Dtype::U8)],
        size: UploadSize::FromValues,
        ..MessageSpec::of(vec![TensorSpec::parameter(VALUES, &[sent.sum()])])
    }
}

/// Returns an upload of training, and the number of its values that are not zero.
pub(super) fn upload(
    shape: &WeitShape,
    base: &ParameterSet,
    mask: &ParameterSet,
    dropped: f64,
) -> Result<(Message, usize), WireError> {
    let (mut units, mut values) = (Vec::new(), Vec::new());
    for layer in &shape.layers {
        let (Some(base), Some(mask)) = (base.get(&layer.name), mask.get(&layer.name)) else {
            return Err(WireError::Malformed(format!("`{}` was not trained", layer.name)));
        };
        let sent = sent_units(&mask.values, dropped);
        let rows = base.values.chunks(layer.width().max(1)).zip(&sent);
        values.extend(rows.filter(|(_, sent)| **sent).flat_map(|(row, _)| row.iter().copied()));
        units.extend(sent);
    }
    let nonzero = values.iter().filter(|value| **value != 0.0).count();
    let parameters = [(VALUES, numbers(values))].into_iter().collect();
    let extra = vec![bytes(Kind::Settings, UNITS, bytes_of(units))?];
    Ok((Message { extra, ..Message::of(parameters) }, nonzero))
}

/// Returns the specification of a contribution: all values of the base, and weights of sent ones.
pub(super) fn contribution_spec(shape: &WeitShape) -> MessageSpec {
    let place = |layer: &super::SplitLayer| {
        let place = TensorSpec::parameter(&*layer.name, &layer.shape);
        place.averaged(AveragingGroup::All, Weight::Elementwise(SENT))
    };
    let parameters: Vec<TensorSpec> = shape.layers.iter().map(place).collect();
    let extra = parameters.iter().filter_map(TensorSpec::weights).collect();
    MessageSpec { extra, ..MessageSpec::of(parameters) }
}

/// Returns the contribution of an upload. Values that were not sent are those of the download, with weight 0.
///
/// # Errors
/// When the upload does not have the shapes of the layers.
pub(super) fn contribution(
    shape: &WeitShape,
    download: &ParameterSet,
    upload: &Message,
) -> Result<Message, WireError> {
    let units = bits_of(bytes_in(named(upload, UNITS)?)?, shape.units())?;
    let values = numbers_in(upload, VALUES)?;
    let widths = shape.layers.iter().flat_map(|l| std::iter::repeat_n(l.width(), l.units()));
    let places: Vec<bool> = units
        .iter()
        .zip(widths)
        .flat_map(|(sent, width)| std::iter::repeat_n(*sent, width))
        .collect();
    let all = spread(&places, values)?;
    let (mut parameters, mut weights, mut from) = (ParameterSet::new(), Vec::new(), 0);
    for layer in &shape.layers {
        let here = from..from + layer.numbers();
        from = here.end;
        let missing = || WireError::Malformed(format!("`{}` was not sent", layer.name));
        let before = download.get(&layer.name).ok_or_else(missing)?;
        if before.shape != layer.shape {
            return Err(missing());
        }
        let sent = &places[here.clone()];
        let own = all[here].iter().zip(sent).zip(before.values.iter());
        let values = own.map(|((value, sent), before)| if *sent { *value } else { *before });
        let parameter = Parameter { shape: layer.shape.clone(), values: values.collect() };
        parameters.insert(layer.name.as_str(), parameter);
        let weight: Vec<f32> = sent.iter().map(|sent| f32::from(u8::from(*sent))).collect();
        weights.push(NamedTensor::f32(format!("{SENT}{}", layer.name), &*layer.shape, weight)?);
    }
    let extra = vec![Section::new(Kind::Statistics, weights)];
    Ok(Message { parameters, extra, ..Message::default() })
}

/// Returns the values of all layers, concatenated.
fn flat(shape: &WeitShape, set: &ParameterSet) -> Vec<f32> {
    let values = |layer: &super::SplitLayer| set.get(&layer.name).map(|one| one.values.clone());
    let all = shape.layers.iter().filter_map(values);
    all.flat_map(|values| values.to_vec()).collect()
}

/// Inverts [`flat`].
fn unflat(shape: &WeitShape, values: &[f32]) -> ParameterSet {
    let mut from = 0;
    let layer = |layer: &super::SplitLayer| {
        let values = values[from..from + layer.numbers()].into();
        from += layer.numbers();
        (layer.name.clone(), Parameter { shape: layer.shape.clone(), values })
    };
    shape.layers.iter().map(layer).collect()
}

/// Returns the bits of adaptive parts, and their values that are not zero.
fn sparse(shape: &WeitShape, set: &ParameterSet) -> (Vec<u8>, Vec<f32>) {
    let all = flat(shape, set);
    let bits = bytes_of(all.iter().map(|value| *value != 0.0));
    (bits, all.into_iter().filter(|value| *value != 0.0).collect())
}

fn sparse_places(shape: &WeitShape, prefix: &str) -> [TensorSpec; 2] {
    let count = shape.numbers();
    let (bits, values) = (format!("{prefix}{BITS}"), format!("{prefix}{VALUES}"));
    [
        TensorSpec::new(Kind::Settings, bits, &[count.div_ceil(8)], Dtype::U8),
        TensorSpec::parameter(values, &[count]),
    ]
}

fn from_sparse(
    shape: &WeitShape,
    bits: &NamedTensor,
    values: &[f32],
) -> Result<ParameterSet, WireError> {
    let bits = bits_of(bytes_in(bits)?, shape.numbers())?;
    Ok(unflat(shape, &spread(&bits, values)?))
}

/// Parts of one task of a client in its report at the end of a stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ReportedPart {
    /// First head row of the task.
    pub first_row: usize,
    /// Adaptive parts that exceed the limit, for the knowledge base.
    pub adaptive: ParameterSet,
    /// Masks of all split layers.
    pub mask: ParameterSet,
    /// Attention and other parameters; empty for an earlier task, whose ones the server has.
    pub attention: ParameterSet,
    pub local: ParameterSet,
}

/// Returns the specification of a report of `parts` parts; the last is that of the current task.
pub(super) fn report_spec(shape: &WeitShape, parts: usize, entries: usize) -> MessageSpec {
    let (mut parameters, mut extra) = (Vec::new(), Vec::new());
    let statistic = |name: String, shape: &[usize]| {
        TensorSpec::new(Kind::Statistics, name, shape, Dtype::F32).kept()
    };
    for part in 0..parts {
        let [bits, values] = sparse_places(shape, &format!("{part}."));
        extra.push(bits);
        parameters.push(values);
        let masks = shape.layers.iter();
        extra.extend(
            masks.map(|layer| statistic(format!("{part}.{MASK}/{}", layer.name), &[layer.units()])),
        );
        if part + 1 == parts {
            if entries > 0 {
                extra.extend(shape.layers.iter().map(|layer| {
                    statistic(format!("{part}.{ATTENTION}/{}", layer.name), &[entries])
                }));
            }
            let mut local: Vec<_> = shape.local.iter().collect();
            local.sort();
            extra.extend(
                local
                    .into_iter()
                    .map(|(name, shape)| statistic(format!("{part}.{LOCAL}/{name}"), shape)),
            );
        }
    }
    let rows: Vec<u32> = vec![u32::MAX; parts];
    let mut control = MetaWriter::new();
    control.u32s(&rows);
    let (control, size) = (control.finish(), UploadSize::FromValues);
    MessageSpec { control, extra, size, ..MessageSpec::of(parameters) }
}

/// Returns the report of these parts, with adaptive values that exceed `limit`.
pub(super) fn report(
    shape: &WeitShape,
    parts: &[ReportedPart],
    limit: f64,
) -> Result<Message, WireError> {
    let mut control = MetaWriter::new();
    control.u32s(&parts.iter().map(|part| part.first_row as u32).collect::<Vec<_>>());
    let (mut parameters, mut extra) = (ParameterSet::new(), Vec::new());
    for (number, part) in parts.iter().enumerate() {
        let kept = sparse_set(&part.adaptive, limit);
        let (bits, values) = sparse(shape, &kept);
        extra.push(bytes(Kind::Settings, &format!("{number}.{BITS}"), bits)?);
        parameters.insert(format!("{number}.{VALUES}"), numbers(values));
        let mut said = Section::new(Kind::Statistics, Vec::new());
        for (name, set) in [(MASK, &part.mask), (ATTENTION, &part.attention), (LOCAL, &part.local)]
        {
            let name = format!("{number}.{name}");
            said.tensors.extend(crate::policy::vector_tensors(&name, set));
        }
        extra.push(said);
    }
    Ok(Message { control: control.finish(), extra, ..Message::of(parameters) })
}

/// Returns a set with zeros in place of values that do not exceed the limit.
pub(super) fn sparse_set(set: &ParameterSet, limit: f64) -> ParameterSet {
    let one = |(name, parameter): (&Arc<str>, &Parameter)| {
        let values = thresholded(&parameter.values, limit).into();
        (Arc::clone(name), Parameter { shape: parameter.shape.clone(), values })
    };
    set.iter().map(one).collect()
}

/// Reads a report.
///
/// # Errors
/// When the message does not have the shapes of the layers.
pub(super) fn read_report(
    shape: &WeitShape,
    message: &Message,
) -> Result<Vec<ReportedPart>, WireError> {
    let mut fields = message.fields();
    let rows = fields.u32s()?;
    fields.finish()?;
    let read = |(number, row): (usize, &u32)| {
        let of = |name: &str| named(message, &format!("{number}.{name}"));
        let values = numbers_in(message, &format!("{number}.{VALUES}"))?;
        let adaptive = from_sparse(shape, of(BITS)?, values)?;
        let set =
            |name: &str| crate::policy::vectors_of(&message.extra, &format!("{number}.{name}"));
        let part = ReportedPart {
            first_row: *row as usize,
            adaptive,
            mask: set(MASK)?,
            attention: set(ATTENTION)?,
            local: set(LOCAL)?,
        };
        let fits = shape.layers.iter().all(|layer| {
            part.mask.get(&layer.name).is_some_and(|mask| mask.shape == [layer.units()])
        });
        let whole = shape
            .local
            .iter()
            .all(|(name, shape)| part.local.get(name).is_some_and(|found| found.shape == *shape));
        match fits && (whole || number + 1 < rows.len()) {
            true => Ok(part),
            false => Err(WireError::Malformed(format!("part {number} is not whole"))),
        }
    };
    rows.iter().enumerate().map(read).collect()
}

/// Returns the specification of a knowledge base of which all values exceed the limit.
pub(super) fn knowledge_spec(shape: &WeitShape, entries: usize, version: u32) -> AssetSpec {
    let entry = |client: usize| sparse_places(shape, &format!("{client}."));
    let extra = (0..entries).flat_map(entry).collect();
    let mut control = MetaWriter::new();
    control.u32s(&(0..entries as u32).collect::<Vec<_>>());
    let layout = MessageSpec { control: control.finish(), extra, ..MessageSpec::default() };
    let body: BodyShape = layout.body();
    AssetSpec { name: KNOWLEDGE, version, body, renewed_in: None }
}

/// Returns the knowledge base of these adaptive parts, each with the id of its client.
pub(super) fn knowledge<'e>(
    shape: &WeitShape,
    entries: impl Iterator<Item = (u32, &'e ParameterSet)>,
    version: u32,
) -> Result<Asset, WireError> {
    let (mut clients, mut sections) = (Vec::new(), Vec::new());
    for (client, adaptive) in entries {
        let (bits, values) = sparse(shape, adaptive);
        sections.push(bytes(Kind::Settings, &format!("{client}.{BITS}"), bits)?);
        let values = NamedTensor::f32(format!("{client}.{VALUES}"), [values.len()], values)?;
        sections.push(Section::new(Kind::Weights, vec![values]));
        clients.push(client);
    }
    let mut control = MetaWriter::new();
    control.u32s(&clients);
    Ok(Asset::new(KNOWLEDGE, version, Kind::Weights, Body::new(control.finish(), sections)))
}

/// Returns the adaptive parts in a knowledge base, in the order of clients.
///
/// # Errors
/// When the body does not have the shapes of the layers.
pub(super) fn entries_of(shape: &WeitShape, body: &Body) -> Result<Vec<ParameterSet>, WireError> {
    let mut fields = MetaReader::new(&body.meta);
    let clients = fields.u32s()?;
    fields.finish()?;
    let entry = |client: &u32| {
        let bits = body.tensor(Kind::Settings, &format!("{client}.{BITS}"))?;
        let values = body.tensor(Kind::Weights, &format!("{client}.{VALUES}"))?;
        from_sparse(shape, bits, values.as_f32()?)
    };
    clients.iter().map(entry).collect()
}
