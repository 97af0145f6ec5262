//! Model at the end of the previous task, for methods that distill from it.
//!
//! It is an asset: every download names it, and a client is sent it once per task.

use std::ops::Range;
use std::sync::Arc;

use super::averager::TRAINING;
use super::{PackClient, first_of};
use crate::learning::Teacher;
use crate::methods::parts::ClientContext;
use crate::model::{ParameterSet, TeacherBatchNormMode};
use crate::policy::{
    Asset, AssetSpec, Message, PolicyError, parameter_section_shapes, parameter_sections,
    parameters_of,
};
use crate::quantity::TaskId;
use crate::wire::{Body, BodyShape, Kind, MetaReader, MetaWriter, WireError};

/// Name of the previous model as an asset.
const PREVIOUS: &str = "previous";

/// Registry text on the state of methods whose only teacher is the previous model.
pub(in crate::methods) const STATE: &str =
    "server: the parameters, and those at the end of the task before; client: nothing";

/// Source that the registry shows for the default batch norm mode of teachers.
pub(in crate::methods) const NORMS_SOURCE: &str = "teachers are in evaluation mode";

/// Returns the model at the end of `task` as an asset.
pub(in crate::methods) fn previous(task: TaskId, parameters: &ParameterSet) -> Arc<Asset> {
    let body = Body::new(Vec::new(), parameter_sections(parameters));
    Arc::new(Asset::new(PREVIOUS, u32::from(task.0), Kind::Weights, body))
}

/// Returns the previous model that a download names; `None` in the first task.
///
/// # Errors
/// When the asset does not contain parameters.
pub(in crate::methods) fn of(download: &Message) -> Result<Option<ParameterSet>, WireError> {
    download.asset(PREVIOUS).map(|asset| parameters_of(&asset.body)).transpose()
}

/// Returns the previous model as the teacher of a pack; `None` in the first task.
///
/// All members share the teacher. It predicts the head rows `rows`, with batch norms in the mode `norms` (which matters
/// only if clients train one at a time: packs have no batch norms).
///
/// # Errors
/// When the asset does not contain parameters, or these do not fit the backbone.
pub(in crate::methods) fn teacher<S>(
    ClientContext { shared, ctx, .. }: &ClientContext<'_>,
    pack: &[PackClient<'_, S>],
    (rows, norms): (Range<usize>, TeacherBatchNormMode),
) -> Result<Option<Teacher>, PolicyError> {
    let first = first_of(pack)?;
    let settings = shared.adaptation.settings(&first.participant.view);
    let norms = norms.of(settings.batch_norms());
    let teacher = |old| match settings.max_pack {
        1 => Teacher::new(&ctx.backbone, &old, rows, norms),
        _ => Teacher::of_pack(&ctx.backbone, &old, rows, pack.len()),
    };
    Ok(of(first.download)?.map(teacher).transpose()?)
}

/// Returns the specification of the asset [`previous()`] for parameters of these shapes.
///
/// `stays` is true if they are what they were at the end of the task before, unless a round of training changes them.
pub(in crate::methods) fn previous_shape(
    task: TaskId,
    shapes: &[(String, Vec<usize>)],
    stays: bool,
) -> AssetSpec {
    let body = BodyShape::new(0, parameter_section_shapes(shapes));
    let renewed_in = stays.then_some(TRAINING);
    AssetSpec { name: PREVIOUS, version: u32::from(task.0), body, renewed_in }
}

/// Saves the parameters of a server and its previous model.
///
/// The meta holds the number of sections of the parameters, and 1 + the task of the previous model, or 0 without one.
pub(in crate::methods) fn save(parameters: &ParameterSet, previous: Option<&Arc<Asset>>) -> Body {
    let mut sections = parameter_sections(parameters);
    let mut meta = MetaWriter::new();
    meta.u64(sections.len() as u64);
    meta.u64(previous.map_or(0, |asset| u64::from(asset.version) + 1));
    if let Some(asset) = previous {
        sections.extend(asset.body.sections.iter().cloned());
    }
    Body::new(meta.finish(), sections)
}

/// Reads the parameters and the previous model that [`save`] wrote.
pub(in crate::methods) fn load(
    saved: &Body,
) -> Result<(ParameterSet, Option<Arc<Asset>>), WireError> {
    let mut meta = MetaReader::new(&saved.meta);
    let (own, task) = (meta.u64()? as usize, meta.u64()?);
    meta.finish()?;
    let cut = || WireError::Malformed("a saved server is cut short".to_owned());
    let (own, others) = saved.sections.split_at_checked(own).ok_or_else(cut)?;
    let set = |sections: &[_]| parameters_of(&Body::new(Vec::new(), sections.to_vec()));
    let left = match task.checked_sub(1) {
        None => None,
        Some(task) => Some(previous(TaskId(task as u16), &set(others)?)),
    };
    Ok((set(own)?, left))
}
