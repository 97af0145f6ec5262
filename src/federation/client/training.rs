//! The training job of a pack: a pure function from downloads, states and shards to uploads.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::arrival;
use super::learning::{SavedStates, client_update};
use super::messages::{Broadcast, Stop, TrainingFinished};
use crate::federation::aggregation::{AggregationTree, Upload};
use crate::federation::compute::ClientUpdate;
use crate::federation::error::FederationError;
use crate::federation::event::Direction;
use crate::federation::faults::{damage, spoil};
use crate::federation::frames::{SentUpload, send_masked, send_up, shape_fault};
use crate::federation::guard::guard;
use crate::federation::job_queue::JobOrder;
use crate::federation::metric_value::MetricValue;
use crate::federation::privacy::{Masking, Noise};
use crate::federation::retry::{Full, in_halves};
use crate::federation::simulation_context::SimulationContext;
use crate::federation::sink::JobKind;
use crate::federation::specs::CompiledSpec;
use crate::federation::timesheet::count_as;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    ClientResult, Failure, Member, Message, MessageSpec, MissedTask, Participant, RoundContext,
    RunContext, UploadMeta, map_averaged, masked_contribution,
};
use crate::quantity::VirtualTime;
use crate::wire::{Body, CodecPlan, FrameHeader, WireError, encode};

/// A participant that waits to be trained.
pub(crate) struct TrainingJob {
    pub broadcast: Broadcast,
    /// State that its client kept.
    pub state: Body,
    pub missed: Vec<MissedTask>,
    worked: VirtualTime,
    end: VirtualTime,
    answer: oneshot::Sender<Result<TrainingFinished, String>>,
}

/// Receiver of the result of a job.
pub(crate) type TrainingAnswer = oneshot::Receiver<Result<TrainingFinished, String>>;

impl TrainingJob {
    /// Creates a job from the length and the end of its work, and the receiver of its answer.
    pub fn new(
        broadcast: Broadcast,
        state: Body,
        missed: Vec<MissedTask>,
        (worked, end): (VirtualTime, VirtualTime),
    ) -> (TrainingJob, TrainingAnswer) {
        let (answer, result) = oneshot::channel();
        (TrainingJob { broadcast, state, missed, worked, end, answer }, result)
    }

    /// Answers with the result of the same training that was begun ahead, as soon as that is there.
    pub async fn answer_from(self, ahead: TrainingAnswer) {
        let TrainingJob { worked, answer, .. } = self;
        if let Ok(trained) = ahead.await {
            // No one listens after the run was abandoned.
            let _ = answer.send(trained.map(|trained| TrainingFinished { worked, ..trained }));
        }
    }

    /// Returns the position of the job in the queue of the workers.
    ///
    /// Uploads that are aggregated at once merge sooner if participants train in order. Results of other participants
    /// wait for the end of their simulated work, so these train in the order of the ends.
    pub fn order(&self) -> JobOrder {
        let Broadcast { aggregation, participant, .. } = &self.broadcast;
        let end = match aggregation {
            Some(_) => VirtualTime::ZERO,
            None => self.end,
        };
        JobOrder { end, participant: participant.id }
    }
}

fn panicked(why: String) -> Stop {
    Stop::Failed(Failure::Panicked(why))
}

/// Data of a pack's member that its policy does not see.
pub(crate) struct MemberMeta {
    context: Arc<RoundContext>,
    masking: Option<Arc<Masking>>,
    aggregation: Option<AggregationTree>,
    worked: VirtualTime,
    answer: oneshot::Sender<Result<TrainingFinished, String>>,
}

impl MemberMeta {
    fn answer(self, member: Member, result: Result<ClientUpdate, Stop>) {
        let MemberMeta { context, worked, answer, .. } = self;
        let Member { participant, state, shard, .. } = member;
        let samples = shard.len();
        let state = Some(state);
        // No one listens after the run was abandoned.
        let _ = answer.send(Ok(TrainingFinished {
            context,
            participant,
            state,
            samples,
            worked,
            result,
        }));
    }
}

/// Trains a pack on the calling worker.
pub(crate) fn train_together(
    simulation: &SimulationContext,
    ctx: &RunContext,
    jobs: Vec<TrainingJob>,
) {
    let (places, mut members) = members(simulation, jobs);
    // A pack is of one round.
    let Some(context) = places.first().map(|place| Arc::clone(&place.context)) else { return };
    let saved = saved_states(simulation, &members);
    let outcomes = learn_together(simulation, &ctx.in_round(&context), &mut members, &saved);
    seal_all(simulation, places, members, outcomes, &saved);
}

/// Splits the jobs of a pack into the members that their policy sees and the data that it does not see.
pub(crate) fn members(
    simulation: &SimulationContext,
    jobs: Vec<TrainingJob>,
) -> (Vec<MemberMeta>, Vec<Member>) {
    let split = |job| {
        let TrainingJob {
            broadcast: Broadcast { context, participant, download, masking, aggregation, .. },
            ..
        } = job;
        let TrainingJob { state, missed, worked, answer, .. } = job;
        let member = Member {
            phase: context.phase,
            download: Arc::clone(&download.message),
            state,
            shard: simulation.participant_shard(context.phase_name, &participant),
            key: participant.key(context.run_seed, context.round),
            missed,
            participant,
        };
        (MemberMeta { context, masking, aggregation, worked, answer }, member)
    };
    jobs.into_iter().map(split).unzip()
}

/// Returns the state of each member before training.
///
/// A failed participant leaves the state as it was, also if it panicked half-way.
pub(crate) fn saved_states(simulation: &SimulationContext, members: &[Member]) -> SavedStates {
    match simulation.stateless {
        true => SavedStates::new(),
        false => {
            members.iter().map(|member| (member.participant.id, member.state.clone())).collect()
        }
    }
}

/// Training result of a member, as a worker of any process can compute it.
///
/// Faults, privacy, codecs and accounts are applied later.
#[derive(Clone, Debug)]
pub(crate) struct Learning {
    pub upload: Message,
    pub metrics: BTreeMap<String, MetricValue>,
}

impl From<ClientResult> for Learning {
    fn from(ClientResult { upload, metrics }: ClientResult) -> Learning {
        let metrics =
            metrics.into_iter().map(|(name, v)| (name.to_string(), MetricValue(v))).collect();
        Learning { upload, metrics }
    }
}

/// Trains the clients of a pack in the run context of its round.
///
/// A member fails alone, unless the policy panics: its progress is unknown then, and all members fail. A pack that
/// finds the memory of the device full is tried again in halves.
pub(crate) fn learn_together(
    simulation: &SimulationContext,
    ctx: &RunContext,
    members: &mut [Member],
    saved: &SavedStates,
) -> Vec<Result<Learning, Failure>> {
    let method = &*simulation.method;
    let outcomes =
        in_halves(members, &mut |pack: &mut [Member]| client_update(method, ctx, pack, saved));
    let outcome = |outcome: Result<Result<ClientResult, Failure>, Full>| {
        outcome.unwrap_or_else(|Full(why)| Err(Failure::Memory(why))).map(Learning::from)
    };
    outcomes.into_iter().map(outcome).collect()
}

/// Turns the training results of a pack into uploads, and answers for each participant.
pub(crate) fn seal_all(
    simulation: &SimulationContext,
    places: Vec<MemberMeta>,
    members: Vec<Member>,
    outcomes: Vec<Result<Learning, Failure>>,
    saved: &SavedStates,
) {
    for ((place, mut member), outcome) in places.into_iter().zip(members).zip(outcomes) {
        let sealed = guard(|| seal(simulation, &place, &member, outcome?));
        let result = sealed.unwrap_or_else(|panic| Err(panicked(panic)));
        if let (Err(_), Some(saved)) = (&result, saved.get(&member.participant.id)) {
            member.state = saved.clone();
        }
        place.answer(member, result);
    }
}

/// Turns a training result into an upload: applies attack, noise and faults, then masks or encodes it.
fn seal(
    simulation: &SimulationContext,
    meta: &MemberMeta,
    member: &Member,
    learning: Learning,
) -> Result<ClientUpdate, Stop> {
    // The comparison of client models is about those without attack and noise.
    let (context, participant) = (&*meta.context, &member.participant);
    let own = simulation.rules.compares(context).then(|| learning.upload.clone());
    let (faults, seed) = (&simulation.rules.faults, simulation.rules.seed);
    let victim = simulation.victim(context.round, participant);
    let counts = simulation.holdings.counts_of(&simulation.task_sequence, &member.shard);
    let exchange = Arc::new(simulation.exchange_over(context, participant, counts));
    let (download, upload) = (&exchange.download.layout, &exchange.upload.layout);
    let (update, forged) = match faults.lies(seed, victim) {
        Some((malice, mut rng)) => {
            let mut change = |before, after| malice.of(before, after, &mut rng);
            let lie =
                map_averaged((&member.download, download), (&learning.upload, upload), &mut change);
            (lie.map_err(Failure::from)?, Some(malice.to_string()))
        }
        None => (learning.upload, None),
    };
    let update = match &simulation.rules.privacy.noise {
        Some(noise) => add_noise(noise, &update, upload, member.key)?,
        None => update,
    };
    let header = FrameHeader {
        kind: context.phase as u16,
        run: context.run_seed,
        sender: participant.client.0,
        receiver: FrameHeader::SERVER,
        round: context.round.0,
        task: context.stage.task.0,
        sequence: participant.id.0,
    };
    let body = match faults.spoils(seed, victim) {
        Some((how, mut rng)) => spoil(update.body(), how, &mut rng),
        None => update.body(),
    };
    let send = || match &meta.masking {
        Some(masking) => {
            let body = mask(
                masking,
                participant,
                (&member.download, download),
                (&update, &exchange.upload),
                &body,
            )?;
            Ok(send_masked(body, &simulation.coding, &header))
        }
        None => Ok(send_up(body, &exchange.upload, &simulation.coding, &header)),
    };
    let sent = count_as(JobKind::Codec, send).map_err(Stop::Failed)?;
    let sent = sent.map_err(|error| refused(participant, context, error))?;
    let mut sent = SentUpload { own, exchange: Some(Arc::clone(&exchange)), ..sent };
    let corrupt = faults.corrupts(seed, victim, Direction::Up).filter(|_| simulation.charged);
    if let (Some(mut rng), None, Some(body)) = (corrupt, &sent.fault, &sent.body) {
        let lossless = CodecPlan::default();
        let plan = if meta.masking.is_some() { &lossless } else { &simulation.coding.up };
        let frame = encode(&header, body, plan).map_err(|e| refused(participant, context, e))?;
        sent.fault = damage(frame, &mut rng);
    }
    let (metrics, method) = (learning.metrics, &simulation.method);
    let state_bytes = match simulation.stateless {
        true => 0,
        false => method.state_bytes(&member.state).unwrap_or(0),
    };
    aggregate_now(simulation, meta, member, &mut sent);
    Ok(ClientUpdate { up: sent, forged, metrics, state_bytes })
}

/// Adds an upload to the aggregation of its round, or drops its values if it will be lost or refused.
///
/// Values need not wait for the end of the work on the simulated clock: only digest, size and metrics do. The aggregate
/// is the same, since a round that waits for all of its participants aggregates whatever arrives.
fn aggregate_now(
    simulation: &SimulationContext,
    meta: &MemberMeta,
    member: &Member,
    sent: &mut SentUpload,
) {
    let Some(aggregation) = &meta.aggregation else { return };
    let Some(body) = sent.body.take() else { return };
    let (context, participant) = (&*meta.context, &member.participant);
    let arrives = arrival::arrives(simulation, context, participant, sent.bytes.frame());
    if sent.fault.is_some() || !arrives {
        return;
    }
    let upload = Upload {
        meta: UploadMeta::timely(participant.clone(), context.round),
        sent: Arc::clone(&member.download),
        body,
        exchange: sent.exchange.clone(),
    };
    count_as(JobKind::Aggregate, || aggregation.transform_upload(upload));
}

/// Returns the upload with the noise of differential privacy.
fn add_noise(
    noise: &Noise,
    upload: &Message,
    layout: &MessageSpec,
    key: StreamKey,
) -> Result<Message, Failure> {
    let noisy = noise.apply(&upload.body(), &layout.symmetric(), key);
    let noisy = noisy.and_then(|body| Message::from_body(&body, &upload.assets));
    noisy.map_err(|error| Failure::Policy(error.to_string()))
}

/// Returns the masked upload, for a server that sees only sums.
///
/// The server cannot check masked content, so a bad update is found here.
fn mask(
    masking: &Masking,
    participant: &Participant,
    sent: (&Message, &MessageSpec),
    (update, upload): (&Message, &CompiledSpec),
    body: &Body,
) -> Result<Body, Failure> {
    if let Some(tensor) = body.first_not_finite() {
        return Err(Failure::NonFinite(format!("tensor `{}`", tensor.name())));
    }
    if let Some(fault) = shape_fault(body, upload) {
        return Err(Failure::Policy(fault));
    }
    let contribution = masked_contribution(sent, (update, &upload.layout))?;
    masking.mask(participant.id, &contribution).map_err(Failure::OutOfRange)
}

/// Returns the reason to stop after a wire error.
///
/// A codec that refuses a value is the client's failure; a frame that does not survive its own encoding is the
/// engine's.
fn refused(participant: &Participant, context: &RoundContext, error: WireError) -> Stop {
    match error {
        WireError::Changed(_) | WireError::Malformed(_) | WireError::Truncated(_) => {
            let (client, round, participant) = (participant.client, context.round, participant.id);
            Stop::Ends(FederationError::Upload { client, round, participant, source: error })
        }
        other => Stop::Failed(Failure::Policy(other.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::rules::Rules;
    use crate::federation::testing::{participant, setup};
    use crate::quantity::Round;

    #[test]
    fn an_upload_that_changes_on_the_wire_ends_the_run_and_a_refused_value_does_not() {
        let setup = setup(Rules { clients: 1, ..Rules::default() });
        let participant = participant(&setup, 0);
        let view = Arc::clone(&participant.view);
        let context = RoundContext {
            round: Round(0),
            stage: crate::policy::Stage::of(view, 2),
            phase: 0,
            phase_name: "train",
            round_in_phase: 0,
            rounds_in_phase: 1,
            run_seed: 0,
        };
        for error in [
            WireError::Changed("head".into()),
            WireError::Malformed("head".into()),
            WireError::Truncated("head"),
        ] {
            let stop = refused(&participant, &context, error);
            assert!(matches!(stop, Stop::Ends(FederationError::Upload { .. })));
        }
        let stop = refused(&participant, &context, WireError::TooLarge(1 << 50));
        assert!(matches!(stop, Stop::Failed(Failure::Policy(_))));
    }
}
