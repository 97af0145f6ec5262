//! Memory of a client between rounds, with all that is needed to compute its participants again.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::federation::compute::Supplier;
use crate::federation::error::FederationError;
use crate::federation::frames::SentDownload;
use crate::federation::simulation_context::SimulationContext;
use crate::federation::snapshot::Cadence;
use crate::quantity::{ClientId, ParticipantId, Round, TaskId};
use crate::wire::Body;

/// Memory of a client: all that is kept of it while it has nothing to do.
#[derive(Default)]
pub(crate) struct ClientMemory {
    state: StateLocation,
    /// Task of the last participant that did not fail: the latest one that the state knows.
    pub last_task: Option<TaskId>,
    /// Participants that a later snapshot may list as pending, in order, with the states they began from.
    before: VecDeque<ComputedParticipant>,
}

#[derive(Default)]
enum StateLocation {
    /// The client has not trained yet, and its state is empty.
    #[default]
    Fresh,
    Here(Body),
    /// A worker has it.
    Lent,
    /// A source supplied the last training. If the next one is computed, the state is that of the snapshot.
    Answered,
}

/// Participant, with the state that its training began from.
struct ComputedParticipant {
    participant: (Round, ParticipantId),
    state: Body,
    download: Arc<SentDownload>,
}

/// State of a client for a snapshot.
pub(crate) struct ClientSnapshot {
    pub state: Body,
    /// Pending participants, which are computed again from this state on, with their downloads.
    pub out: Vec<((Round, ParticipantId), Arc<SentDownload>)>,
}

impl ClientMemory {
    /// Returns true for the memory of a client that never trained.
    pub fn is_blank(&self) -> bool {
        matches!(self.state, StateLocation::Fresh)
            && self.before.is_empty()
            && self.last_task.is_none()
    }

    /// Returns true if a worker has the state.
    pub fn is_lent(&self) -> bool {
        matches!(self.state, StateLocation::Lent)
    }

    /// Marks the state as lent for a participant that is not computed.
    pub fn lend_without_worker(&mut self) {
        self.state = StateLocation::Lent;
    }

    /// Lends the state to a training; it must not be lent already.
    ///
    /// # Errors
    /// Returns an error if the state should be in the snapshot and is not.
    pub fn lend(
        &mut self,
        (simulation, supplier): (&SimulationContext, &Supplier),
        client: ClientId,
        (participant, download): ((Round, ParticipantId), &Arc<SentDownload>),
    ) -> Result<Body, FederationError> {
        let state = match std::mem::replace(&mut self.state, StateLocation::Lent) {
            StateLocation::Here(state) => state,
            StateLocation::Answered => saved(supplier, client)?,
            StateLocation::Fresh | StateLocation::Lent => Body::default(),
        };
        if simulation.rules.snapshots != Cadence::Never {
            let (state, download) = (state.clone(), Arc::clone(download));
            self.before.push_back(ComputedParticipant { participant, state, download });
        }
        Ok(state)
    }

    /// Takes the state back; `None` if its training was not computed.
    pub fn take_back(&mut self, state: Option<Body>) {
        self.state = state.map_or(StateLocation::Answered, StateLocation::Here);
    }

    /// Returns the state for a snapshot while the participants `out` are pending.
    ///
    /// `None` if the client never trained. States that no later snapshot can need are dropped.
    pub fn keep(
        &mut self,
        supplier: &Supplier,
        client: ClientId,
        out: &BTreeSet<(Round, ParticipantId)>,
    ) -> Option<ClientSnapshot> {
        while self.before.front().is_some_and(|first| !out.contains(&first.participant)) {
            self.before.pop_front();
        }
        let state = match (self.before.front(), &self.state) {
            (Some(first), _) => first.state.clone(),
            (None, StateLocation::Here(state)) => state.clone(),
            (None, StateLocation::Fresh) => return None,
            (None, StateLocation::Answered | StateLocation::Lent) => {
                supplier.client_state(client)?.clone()
            }
        };
        let out =
            self.before.iter().map(|before| (before.participant, Arc::clone(&before.download)));
        Some(ClientSnapshot { state, out: out.collect() })
    }
}

fn saved(supplier: &Supplier, client: ClientId) -> Result<Body, FederationError> {
    let nothing =
        || FederationError::Unrecorded(format!("the state of {client} is not in the checkpoint"));
    supplier.client_state(client).cloned().ok_or_else(nothing)
}
