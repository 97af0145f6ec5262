//! Aggregation of uploads: means by group, sums, and uploads kept whole.
//!
//! [`Aggregate::of`] aggregates one upload as its [`MessageSpec`] declares, [`Aggregate::merge`] joins the aggregates
//! of earlier and later participants. Nothing here knows a method.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use super::message_spec::{Mean, StalenessRule, TensorStructure};
use super::{
    AveragingGroup, ElementwiseAverage, Message, MessageSpec, ParameterAverage, Participant,
    PolicyError, TensorSpec, Weight,
};
use crate::model::{Parameter, ParameterSet};
use crate::numerics::symmetric::Symmetric;
use crate::quantity::Round;
use crate::wire::{Body, Kind, NamedTensor, Section, WireError};

/// Result of aggregating the uploads of some participants of a round.
#[derive(Clone, Debug, Default)]
pub struct Aggregate {
    /// Weighted means of differences to what was sent.
    pub means: BTreeMap<AveragingGroup, ParameterAverage>,
    /// Mean in which every number has its own weights.
    pub elementwise: ElementwiseAverage,
    /// Sums by name of tensor; of symmetric matrices the lower triangle.
    pub sums: BTreeMap<Arc<str>, Vec<f64>>,
    /// Uploads kept whole: in participant order, then those of earlier rounds.
    pub kept_uploads: Vec<KeptUpload>,
}

/// Facts that the server knows about an upload in addition to its content.
#[derive(Clone, Debug)]
pub struct UploadMeta {
    /// The participant that sent it.
    pub participant: Participant,
    /// The round its download belonged to.
    pub base: Round,
    /// Number of aggregations since that round; 0 in synchronous runs.
    pub staleness: u32,
    /// Factor by which staleness scales its contribution; 1 if it is not stale.
    pub discount: f64,
}

impl UploadMeta {
    /// Returns the facts of an upload of the current round.
    pub fn timely(participant: Participant, base: Round) -> UploadMeta {
        UploadMeta { participant, base, staleness: 0, discount: 1.0 }
    }
}

/// An upload that is handed over whole.
#[derive(Clone, Debug)]
pub struct KeptUpload {
    /// Sender and weight facts of the upload.
    pub meta: UploadMeta,
    /// Download that its participant received.
    pub sent: Arc<Message>,
    /// Upload of the participant.
    pub update: Message,
}

impl Aggregate {
    /// Aggregates one upload, as the layouts of its exchange declare.
    ///
    /// # Errors
    /// If the upload does not fit the download of its participant.
    pub fn of(
        meta: &UploadMeta,
        (sent, download): (&Arc<Message>, &MessageSpec),
        (update, upload): (Message, &MessageSpec),
    ) -> Result<Aggregate, PolicyError> {
        let mut aggregate = Aggregate::default();
        for (group, moved) in moved((&**sent, download), (&update, upload))? {
            aggregate.means.insert(group, moved.average().discounted(meta.discount));
        }
        aggregate.elementwise =
            elementwise((sent, download), (&update, upload))?.discounted(meta.discount);
        for place in &upload.extra {
            let Some(stale) = place.aggregation.sum else { continue };
            let tensor = update.tensor(place.kind, &place.name)?;
            let mut sum = summed(place, tensor.shape(), tensor.numbers())?;
            if stale == StalenessRule::Scaled && meta.discount != 1.0 {
                sum.iter_mut().for_each(|value| *value *= meta.discount);
            }
            aggregate.sums.insert(Arc::clone(&place.name), sum);
        }
        if upload.tensor_specs().any(|place| place.aggregation.keep) {
            let (meta, sent) = (meta.clone(), Arc::clone(sent));
            aggregate.kept_uploads.push(KeptUpload { meta, sent, update });
        }
        Ok(aggregate)
    }

    /// Merges the aggregate of earlier participants (`self`) with that of later ones.
    pub fn merge(mut self, later: Aggregate) -> Aggregate {
        for (group, average) in later.means {
            let merged = match self.means.remove(&group) {
                Some(mine) => mine.merge(average),
                None => average,
            };
            self.means.insert(group, merged);
        }
        self.elementwise = self.elementwise.merge(later.elementwise);
        for (name, values) in later.sums {
            match self.sums.get_mut(&name) {
                Some(mine) => mine.iter_mut().zip(&values).for_each(|(a, b)| *a += b),
                None => drop(self.sums.insert(name, values)),
            }
        }
        self.kept_uploads.extend(later.kept_uploads);
        self
    }

    /// Returns `base` plus the means: group after group, then those with elementwise weights.
    pub fn apply(&self, base: &ParameterSet) -> ParameterSet {
        let mut means = self.means.values();
        let first = means.next().map_or_else(|| base.clone(), |average| average.apply(base));
        self.elementwise.apply(means.fold(first, |set, average| average.apply(&set)))
    }

    /// Returns the sum of this name.
    ///
    /// # Errors
    /// If no upload had it.
    pub fn sum(&self, name: &str) -> Result<&[f64], PolicyError> {
        let missing = || PolicyError::Unsupported(format!("no upload holds `{name}`"));
        Ok(self.sums.get(name).ok_or_else(missing)?)
    }

    /// Returns the aggregate of the sum of a round's [masked contributions](masked_contribution).
    ///
    /// # Errors
    /// If it is not a sum of them.
    pub fn of_sum(
        sum: &Body,
        download: &MessageSpec,
        upload: &MessageSpec,
    ) -> Result<Aggregate, PolicyError> {
        let mut aggregate = Aggregate::default();
        let mut groups: BTreeMap<AveragingGroup, WeightedDelta> = BTreeMap::new();
        for place in &upload.parameters {
            let Some(mean) = by_upload(place) else { continue };
            let values = sum.tensor(place.kind, &place.name)?.as_f64()?;
            let (before, after) = around(place, download.parameter(&place.name));
            let zeros = |count| std::iter::repeat_n(0.0, count);
            let all = zeros(before).chain(values.iter().copied()).chain(zeros(after));
            let group = match groups.entry(mean.group) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    new.insert(WeightedDelta::by(weight_in(sum, upload, &mean.weight)?))
                }
            };
            group.sums.push((Arc::clone(&place.name), all.collect()));
        }
        aggregate.means =
            groups.into_iter().map(|(group, moved)| (group, moved.average())).collect();
        for place in upload.extra.iter().filter(|place| place.aggregation.sum.is_some()) {
            let tensor = sum.tensor(place.kind, &place.name)?;
            let values = summed(place, tensor.shape(), tensor.as_f64()?.to_vec())?;
            aggregate.sums.insert(Arc::clone(&place.name), values);
        }
        Ok(aggregate)
    }
}

/// Returns a client's summands for secure aggregation.
///
/// They are the tensors of its upload as f64, each number weighted as the aggregation does it; a tensor of counts that
/// is a weight becomes that weight.
///
/// # Errors
/// Returns an error if the upload does not fit the download.
pub fn masked_contribution(
    (sent, download): (&Message, &MessageSpec),
    (update, upload): (&Message, &MessageSpec),
) -> Result<Body, PolicyError> {
    let moved = moved((sent, download), (update, upload))?;
    let moved: BTreeMap<Arc<str>, Vec<f64>> =
        moved.into_values().flat_map(|moved| moved.sums).collect();
    let mut weights: BTreeMap<&str, f64> = BTreeMap::new();
    for mean in upload.parameters.iter().filter_map(by_upload) {
        let name = mean.weight.tensor();
        if !weights.contains_key(name) {
            weights.insert(name, weight_of(update, &mean.weight)?);
        }
    }
    let adding = |kind: Kind, tensor: &NamedTensor| -> Result<NamedTensor, PolicyError> {
        let name = tensor.name();
        let values = match (moved.get(name), upload.parameter(name), weights.get(&**name)) {
            (Some(all), Some(place), _) if kind == place.kind => {
                let (before, _) = around(place, download.parameter(name));
                all[before..before + tensor.elements() as usize].to_vec()
            }
            // The weight may differ from the sum of the counts, so it takes the first place and the others are zero.
            (None, _, Some(weight)) => {
                (0..tensor.elements()).map(|at| if at == 0 { *weight } else { 0.0 }).collect()
            }
            _ => tensor.numbers(),
        };
        Ok(NamedTensor::f64(Arc::clone(name), tensor.shape(), values)?)
    };
    let body = update.body();
    let section = |section: &Section| -> Result<Section, PolicyError> {
        let tensors = section.tensors.iter().map(|tensor| adding(section.kind, tensor));
        Ok(Section::new(section.kind, tensors.collect::<Result<_, _>>()?))
    };
    let sections = body.sections.iter().map(section).collect::<Result<_, _>>()?;
    Ok(Body::new(body.meta, sections))
}

/// Returns the upload with `change(before, after)` in place of every number that is averaged.
///
/// `before` is what the server sent, `after` what the client made of it.
///
/// # Errors
/// If it does not fit what was sent.
pub fn map_averaged(
    (sent, download): (&Message, &MessageSpec),
    (update, upload): (&Message, &MessageSpec),
    change: &mut dyn FnMut(f32, f32) -> f32,
) -> Result<Message, PolicyError> {
    let mut parameters = update.parameters.clone();
    for (name, trained) in update.parameters.iter() {
        let Some(place) = upload.parameter(name).filter(|place| place.aggregation.mean.is_some())
        else {
            continue;
        };
        let (from, start) = base_of(sent, download, place, trained)?;
        let before = &from.values[start..start + trained.values.len()];
        let values = before.iter().zip(trained.values.iter());
        let values = values.map(|(before, after)| change(*before, *after)).collect();
        parameters.insert(Arc::clone(name), Parameter { shape: trained.shape.clone(), values });
    }
    Ok(Message { parameters, ..update.clone() })
}

/// Contribution of an upload to a mean: each parameter's rows, from the server's first to the last one sent.
struct WeightedDelta {
    weight: f64,
    /// `weight * (value - sent)` by parameter, flat.
    sums: Vec<(Arc<str>, Vec<f64>)>,
}

impl WeightedDelta {
    fn by(weight: f64) -> WeightedDelta {
        WeightedDelta { weight, sums: Vec::new() }
    }

    fn average(self) -> ParameterAverage {
        ParameterAverage::from_sums(self.weight, self.sums)
    }
}

fn moved(
    (sent, download): (&Message, &MessageSpec),
    (update, upload): (&Message, &MessageSpec),
) -> Result<BTreeMap<AveragingGroup, WeightedDelta>, PolicyError> {
    let mut groups: BTreeMap<AveragingGroup, WeightedDelta> = BTreeMap::new();
    for place in &upload.parameters {
        let Some(mean) = by_upload(place) else { continue };
        let group = match groups.entry(mean.group) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(WeightedDelta::by(weight_of(update, &mean.weight)?)),
        };
        let Some(trained) = update.parameters.get(&place.name) else { continue };
        let (from, start) = base_of(sent, download, place, trained)?;
        let around = around(place, download.parameter(&place.name));
        let base = &from.values[start..start + trained.values.len()];
        let sum = ParameterAverage::weighted(group.weight, base, &trained.values, around);
        group.sums.push((Arc::clone(&place.name), sum));
    }
    Ok(groups)
}

/// Returns the mean of a parameter if an upload has one weight in it, else `None`.
fn by_upload(place: &TensorSpec) -> Option<&Mean> {
    place.aggregation.mean.as_ref().filter(|mean| !mean.weight.is_elementwise())
}

/// Returns the contribution of an upload to a mean in which every number has its own weight.
fn elementwise(
    (sent, download): (&Message, &MessageSpec),
    (update, upload): (&Message, &MessageSpec),
) -> Result<ElementwiseAverage, PolicyError> {
    let mut average = ElementwiseAverage::default();
    for place in &upload.parameters {
        let Some(weights) = place.weights() else { continue };
        let Some(trained) = update.parameters.get(&place.name) else { continue };
        let (from, start) = base_of(sent, download, place, trained)?;
        let base = &from.values[start..start + trained.values.len()];
        let weights =
            update.tensor(weights.kind, &weights.name)?.shaped(&trained.shape)?.as_f32()?;
        let before = place.first_row * width(&place.shape);
        average.insert(&place.name, before, (base, &trained.values, weights));
    }
    Ok(average)
}

/// Returns the parameter of the download that one of an upload belongs to.
///
/// Also returns the index in it at which the values of the upload begin.
fn base_of<'m>(
    sent: &'m Message,
    download: &MessageSpec,
    place: &TensorSpec,
    trained: &Parameter,
) -> Result<(&'m Parameter, usize), PolicyError> {
    let misfit = || {
        PolicyError::Unsupported(format!(
            "an upload holds `{}` of shape {:?} from row {}, which its receiver was not sent",
            place.name, trained.shape, place.first_row
        ))
    };
    let from = sent.parameters.get(&place.name).ok_or_else(misfit)?;
    let first = download.parameter(&place.name).map_or(0, |place| place.first_row);
    let start = place.first_row.checked_sub(first).ok_or_else(misfit)? * width(&trained.shape);
    let alike = from.shape.len() == trained.shape.len()
        && from.shape.get(1..) == trained.shape.get(1..)
        && start + trained.values.len() <= from.values.len();
    alike.then_some((from, start)).ok_or_else(misfit)
}

/// Returns the numbers of values of a parameter before and after those that the upload holds.
fn around(upload: &TensorSpec, download: Option<&TensorSpec>) -> (usize, usize) {
    let width = width(&upload.shape);
    let rows = |place: &TensorSpec| place.shape.first().copied().unwrap_or(1);
    let end = upload.first_row + rows(upload);
    let sent = download.map_or(end, |download| download.first_row + rows(download));
    (upload.first_row * width, sent.saturating_sub(end) * width)
}

/// Returns the number of values in a row.
fn width(shape: &[usize]) -> usize {
    shape.get(1..).unwrap_or_default().iter().product()
}

fn weight_of(update: &Message, weight: &Weight) -> Result<f64, PolicyError> {
    let name = weight.tensor();
    let missing = || WireError::Malformed(format!("an upload without its weight `{name}`"));
    let tensor = update.named(name).ok_or_else(missing)?;
    Ok(weight.of(tensor.numbers().iter().sum()))
}

/// Returns the total weight in a sum of masked contributions.
fn weight_in(sum: &Body, upload: &MessageSpec, weight: &Weight) -> Result<f64, PolicyError> {
    let name = weight.tensor();
    let missing = || WireError::Malformed(format!("a sum without its weight `{name}`"));
    let place = upload.other(name).ok_or_else(missing)?;
    Ok(sum.tensor(place.kind, name)?.as_f64()?.iter().sum())
}

/// Returns the numbers to be added: of symmetric matrices the lower triangle, the mean of both halves if both travel.
fn summed(place: &TensorSpec, shape: &[usize], values: Vec<f64>) -> Result<Vec<f64>, PolicyError> {
    match (place.structure, shape) {
        (TensorStructure::Symmetric, [rows, columns]) if rows == columns => {
            let matrix = Symmetric::from_full(*rows, &values);
            let misfit = || WireError::Malformed(format!("`{}` is no matrix", place.name));
            Ok(matrix.ok_or_else(misfit)?.packed().to_vec())
        }
        _ => Ok(values),
    }
}

#[cfg(test)]
mod tests;
