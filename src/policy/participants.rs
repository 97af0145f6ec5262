//! Default participants of a round, and downloads for all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Message, Participant, Stage};
use crate::quantity::{ClientId, ParticipantId};

/// Returns the default participants: one per client.
pub fn one_participant_per_client(stage: &Stage, cohort: &[ClientId]) -> Vec<Participant> {
    cohort
        .iter()
        .enumerate()
        .map(|(place, client)| Participant {
            id: ParticipantId(place as u32),
            client: *client,
            role: Default::default(),
            dummy_client: None,
            kind: Default::default(),
            view: stage.view_of(*client),
        })
        .collect()
}

/// Returns one shared download for every participant.
pub fn shared<D>(down: D, participants: &[Participant]) -> Vec<Arc<D>> {
    let download = Arc::new(down);
    vec![download; participants.len()]
}

/// Applies `change` to every download.
///
/// Downloads that participants share stay shared, so that they are packed and charged as copies of one.
pub fn each_changed(
    downloads: &[Arc<Message>],
    change: impl Fn(&Message) -> Message,
) -> Vec<Arc<Message>> {
    let mut changed: BTreeMap<*const Message, Arc<Message>> = BTreeMap::new();
    let once = |download: &Arc<Message>| {
        let new = || Arc::new(change(download));
        Arc::clone(changed.entry(Arc::as_ptr(download)).or_insert_with(new))
    };
    downloads.iter().map(once).collect()
}
