//! Effects that let a participant be trained, or deliver a known result to its client.

use std::sync::Arc;

use super::messages::{Broadcast, Stop, ToClient, TrainingFinished};
use super::training::TrainingJob;
use crate::federation::compute::{SuppliedTraining, answered};
use crate::federation::effect::Effect;
use crate::federation::envelope::{ActorMessage, Envelope};
use crate::federation::error::FederationError;
use crate::federation::packs::Ticket;
use crate::federation::queue::EventClass;
use crate::policy::{Failure, MissedTask};
use crate::quantity::VirtualTime;
use crate::wire::Body;

/// Returns the effect that trains a participant with its pack and notifies its client at `end`.
pub(super) fn ask(
    broadcast: Broadcast,
    state: Body,
    missed: Vec<MissedTask>,
    (worked, end): (VirtualTime, VirtualTime),
) -> Effect {
    let (context, participant) = (Arc::clone(&broadcast.context), broadcast.participant.clone());
    let (to, ticket) =
        (participant.client, Ticket { round: context.round, participant: participant.id });
    let (job, result) = TrainingJob::new(broadcast, state, missed, (worked, end));
    let pending = Box::pin(async move {
        let trained =
            answered(result, |gone| gone).await.unwrap_or_else(|panic| TrainingFinished {
                context,
                participant,
                state: Some(Body::default()),
                samples: 0,
                worked,
                result: Err(Stop::Failed(Failure::Panicked(panic))),
            });
        ActorMessage::Client(to, ToClient::Trained(Box::new(trained)))
    });
    Effect::Train { at: end, to, ticket, job: Box::new(job), pending }
}

/// Returns the effect that trains a participant of a stateless client before its download arrives.
pub(in crate::federation) fn train_ahead(broadcast: Broadcast) -> Effect {
    let ticket = Ticket { round: broadcast.context.round, participant: broadcast.participant.id };
    // The client's own job, which takes the answer, has the times of the work.
    let time = (VirtualTime::ZERO, VirtualTime::ZERO);
    let (job, answer) = TrainingJob::new(broadcast, Body::default(), Vec::new(), time);
    Effect::TrainAhead { ticket, job: Box::new(job), answer }
}

/// Returns the effects of a participant whose training is known without computing.
///
/// Its pack does not wait for it any longer, and its client is notified at `end`.
pub(super) fn supply(
    broadcast: Broadcast,
    training: Result<SuppliedTraining, FederationError>,
    (worked, end): (VirtualTime, VirtualTime),
) -> [Effect; 2] {
    let Broadcast { context, participant, .. } = broadcast;
    let (to, ticket) =
        (participant.client, Ticket { round: context.round, participant: participant.id });
    let (samples, result) = match training {
        Ok(SuppliedTraining { samples, result }) => (samples, result.map_err(Stop::Failed)),
        Err(error) => (0, Err(Stop::Ends(error))),
    };
    let trained = TrainingFinished { context, participant, state: None, samples, worked, result };
    let message = ToClient::Trained(Box::new(trained));
    let delivery = Envelope::for_client(end, EventClass::Timer, to, message);
    [Effect::LeavePack(ticket), Effect::Deliver(delivery)]
}
