//! Renewal of the vectors of clients, by the clients or by a server that keeps them.

use super::{CONTROL, ControlVariates, LocalTrajectory, Variates};
use crate::data::TaskView;
use crate::methods::averaging::{
    ClosedRound, Keeper, LocalTrainingResult, PackClient, ParameterVectors, RATES, RowPurpose,
    SAMPLES, VectorStore, VectorSums,
};
use crate::methods::parts::{ClientContext, SharedModel};
use crate::model::ParameterSet;
use crate::policy::{KeptUpload, Message, ModelFacts, PolicyError, vectors_of};
use crate::wire::{Kind, WireError};

/// Returns the vectors of a download by name, with rows at the server's indices.
pub(super) fn sent_vectors<M: ControlVariates>(
    method: &M,
    (shared, model): (&SharedModel<'_>, &ModelFacts),
    view: &TaskView,
    download: &Message,
) -> Result<VectorStore, WireError> {
    let vectors = ParameterVectors::of(shared, model, view, RowPurpose::Down);
    let set =
        |name: &&'static str| Ok((*name, vectors.padded(&vectors_of(&download.extra, name)?)));
    sent_names(method).iter().map(set).collect()
}

/// Returns the names of the vectors in a download.
pub(super) fn sent_names<M: ControlVariates>(method: &M) -> &'static [&'static str] {
    match method.keeping().keeper {
        Keeper::Client => &[CONTROL],
        Keeper::Server => M::SENT,
    }
}

/// Renews the vectors of a member that has trained, and adds the change of its variate to its result.
///
/// # Errors
/// When a message does not fit.
pub(in crate::methods) fn renew<M: ControlVariates>(
    method: &M,
    context: &ClientContext<'_>,
    member: &mut PackClient<'_, VectorStore>,
    (trained, gradient): (&mut LocalTrainingResult, Option<ParameterSet>),
) -> Result<(), PolicyError> {
    let way = LocalTrajectory { to: &trained.parameters, rates: trained.rates, gradient };
    let known = Variates::of_member(method, context, member)?;
    let (own, change) = method.renewed(&known, &way);
    let up = ParameterVectors::of(
        &context.shared,
        context.model,
        &member.participant.view,
        RowPurpose::Up,
    );
    trained.vectors = up.take(&change)?;
    own.iter().for_each(|(name, set)| member.state.set(name, set.clone()));
    Ok(())
}

/// Renews the vectors that the server keeps, for the clients that uploaded.
///
/// Returns the sum of the changes of their variates.
pub(super) fn renew_clients<M: ControlVariates>(
    method: &M,
    memory: &mut VectorStore,
    control: &ParameterSet,
    closing: &ClosedRound<'_>,
) -> Result<VectorSums, PolicyError> {
    let ClosedRound { model, shared, ctx, .. } = *closing;
    let mut changes = VectorSums::default();
    for kept in &closing.aggregate.kept_uploads {
        let (client, view) = (kept.meta.participant.client, &*kept.meta.participant.view);
        let (from, to) = local_trajectory(&shared, model, kept)?;
        let number = |name: &str| -> Result<f64, PolicyError> {
            Ok(kept.update.tensor(Kind::Statistics, name)?.numbers().iter().sum())
        };
        let (samples, rates) = (number(SAMPLES)? as usize, number(RATES)?);
        let (control, own) = (control.clone(), memory.all_of_client(M::VECTORS, client));
        let sent = sent_vectors(method, (&shared, model), view, &kept.sent)?;
        let known = Variates { model, shared, view, ctx, samples, from, control, sent, own };
        let way = LocalTrajectory { to: &to, rates, gradient: None };
        let (own, change) = method.renewed(&known, &way);
        changes.add(&ParameterVectors::of(&shared, model, view, RowPurpose::Up).take(&change)?);
        own.iter()
            .for_each(|(name, set)| memory.set(VectorStore::of_client(name, client), set.clone()));
    }
    Ok(changes)
}

/// Returns the parameters at the start and at the end of a client's training, from a kept upload.
///
/// # Errors
/// When the upload does not fit the download.
pub(in crate::methods) fn local_trajectory(
    shared: &SharedModel<'_>,
    model: &ModelFacts,
    kept: &KeptUpload,
) -> Result<(ParameterSet, ParameterSet), PolicyError> {
    let view = &kept.meta.participant.view;
    let down = ParameterVectors::of(shared, model, view, RowPurpose::Down);
    let from = down.padded(&kept.sent.parameters);
    let up = ParameterVectors::of(shared, model, view, RowPurpose::Up);
    let to = up.put(&from, &kept.update.parameters)?;
    Ok((from, to))
}
