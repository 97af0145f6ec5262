//! The opening of a round: its participants and what they are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::policy_steps::{StepRequest, policy};
use super::result_source::ResultSource;
use crate::federation::error::FederationError;
use crate::federation::exchange::Exchange;
use crate::federation::frames::{SentDownload, down_header, send_down};
use crate::federation::simulation_context::SimulationContext;
use crate::federation::sink::JobKind;
use crate::federation::timesheet::count_as;
use crate::policy::{Message, Participant, PolicyError, RoundContext, RunContext, Server};
use crate::quantity::ClientId;
use crate::wire::WireError;

/// Request to open a round: participants, their downloads, and the frames that carry them.
pub(in crate::federation) struct OpeningRequest {
    pub simulation: Arc<SimulationContext>,
    pub context: Arc<RoundContext>,
    pub cohort: Vec<ClientId>,
}

/// A round as the policy wants it.
pub(crate) struct RoundOpening {
    pub cohort: Vec<ClientId>,
    pub participants: Vec<Participant>,
    /// Downloads, one per participant; equal ones are shared.
    pub downs: Vec<Arc<SentDownload>>,
    /// Exchange of the first participant under secure aggregation, else `None`.
    pub first: Option<Arc<Exchange>>,
}

impl StepRequest for OpeningRequest {
    const STEP: &'static str = "open a round";
    type Answer = RoundOpening;

    fn work(
        self,
        server: &mut dyn Server,
        ctx: &RunContext,
    ) -> Result<RoundOpening, FederationError> {
        let OpeningRequest { simulation, context, cohort } = self;
        let mut participants = participants(&simulation, &context, &cohort)?;
        let downloads =
            server.broadcast(&context, &participants, ctx).map_err(policy("broadcast"))?;
        if downloads.len() != participants.len() {
            let (given, wanted) = (downloads.len(), participants.len());
            let what = format!("the method returned {given} downloads for {wanted} participants");
            return Err(FederationError::Impossible(what));
        }
        let mut packed: BTreeMap<*const Message, Arc<SentDownload>> = BTreeMap::new();
        // The messages stay alive until all are packed, so that no address is used twice.
        let mut sent = Vec::with_capacity(downloads.len());
        for (participant, download) in participants.iter().zip(&downloads) {
            let address = Arc::as_ptr(download);
            if let Some(known) = packed.get(&address) {
                sent.push(Arc::clone(known));
                continue;
            }
            let header = down_header(&context, participant);
            let download = Arc::clone(download);
            let send = || send_down(download, &simulation.coding, &header);
            let new = count_as(JobKind::Codec, send).map_err(unsendable(&context))?;
            let new = Arc::new(new);
            packed.insert(address, Arc::clone(&new));
            sent.push(new);
        }
        let first = first_exchange(&simulation, &context, &participants);
        for (participant, like) in
            simulation.load_participants(context.phase_name, &participants, &context.stage)
        {
            sent.push(Arc::clone(&sent[like]));
            participants.push(participant);
        }
        Ok(RoundOpening { cohort, participants, downs: sent, first })
    }

    fn known(self, source: &dyn ResultSource) -> Result<RoundOpening, FederationError> {
        let OpeningRequest { simulation, context, cohort } = self;
        let mut participants = participants(&simulation, &context, &cohort)?;
        let first = first_exchange(&simulation, &context, &participants);
        let load = simulation.load_participants(context.phase_name, &participants, &context.stage);
        participants.extend(load.into_iter().map(|(participant, _)| participant));
        let downloads = source.downs(&simulation, &context, &participants)?;
        Ok(RoundOpening { cohort, participants, downs: downloads, first })
    }
}

/// Returns the error of a broadcast that failed.
///
/// A value that no codec of downloads can carry comes from training that diverged; all other errors are the method's.
fn unsendable(context: &RoundContext) -> impl FnOnce(PolicyError) -> FederationError {
    let round = context.round;
    move |error| match error {
        PolicyError::Wire(source @ WireError::NotEncodable { .. }) => {
            FederationError::Download { round, source }
        }
        error => policy("pack a broadcast")(error),
    }
}

/// Returns the exchange of the first participant under secure aggregation, else `None`.
fn first_exchange(
    simulation: &SimulationContext,
    context: &RoundContext,
    participants: &[Participant],
) -> Option<Arc<Exchange>> {
    simulation
        .rules
        .privacy
        .secure
        .and(participants.first())
        .map(|participant| Arc::new(simulation.exchange(context, participant)))
}

/// Returns the participants of a cohort, with parts of shards as separate participants.
fn participants(
    simulation: &SimulationContext,
    context: &RoundContext,
    cohort: &[ClientId],
) -> Result<Vec<Participant>, FederationError> {
    let participants = simulation.method.participants(context, cohort);
    let phase = context.phase_name;
    let wrong = |what: String| Err(FederationError::Impossible(what));
    if let Some(place) =
        (0..participants.len()).find(|place| participants[*place].id.index() != *place)
    {
        return wrong(format!("the method numbered {} in place {place}", participants[place].id));
    }
    if let Some(participant) =
        participants.iter().find(|participant| participant.client.0 >= simulation.rules.clients)
    {
        return wrong(format!("the method lists {}, who is not there", participant.client));
    }
    let participants = simulation.split(phase, participants)?;
    let mut places = BTreeSet::new();
    for participant in &participants {
        if participant
            .dummy_client
            .is_some_and(|dummy_client| dummy_client >= (1 << Participant::DUMMY_CLIENT_BITS) - 1)
        {
            return wrong(format!(
                "the method gave {} a dummy client beyond 24 bits",
                participant.client
            ));
        }
        if !places.insert((participant.client, participant.role, participant.dummy_client)) {
            return wrong(format!(
                "the method lists {} twice in the same role and dummy client ({}); \
                 participants of one client need different roles or dummy clients",
                participant.client, participant.id
            ));
        }
    }
    Ok(participants)
}
