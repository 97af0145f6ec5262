//! The training of a pack as a remote job.
//!
//! Data that a rank can derive does not travel: shards, keys, learning rates, the samples of missed tasks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cache_index::{CachedRef, Packing};
use super::rank_cache::RankCache;
use super::remote_job::{JobRequest, JobResponse, RemoteJob};
use crate::data::TaskView;
use crate::federation::client::{
    Learning, TrainingJob, learn_together, members, saved_states, seal_all, train_together,
};
use crate::federation::metric_value::MetricValue;
use crate::federation::simulation_context::SimulationContext;
use crate::policy::{
    Asset, Failure, Member, Message, MissedTask, Participant, ParticipantKind, Role, RunContext,
};
use crate::quantity::{ClientId, ParticipantId, Round, TaskId};
use crate::wire::{Body, Kind};

/// A pack that waits to be trained.
pub(crate) struct RemoteTraining {
    simulation: Arc<SimulationContext>,
    jobs: Vec<TrainingJob>,
}

/// Order to a rank: the participants of a pack, and their position in the run.
#[derive(Serialize, Deserialize)]
pub(crate) struct TrainOrder {
    round: Round,
    phase: usize,
    phase_name: String,
    round_in_phase: u32,
    rounds_in_phase: u32,
    run_seed: u64,
    members: Vec<RemoteParticipant>,
}

#[derive(Serialize, Deserialize)]
struct RemoteParticipant {
    participant: ParticipantId,
    client: ClientId,
    role: u8,
    dummy_client: Option<u32>,
    kind: ParticipantKind,
    task: TaskId,
    /// View, if it is not the one that the task sequence gives this client.
    view: Option<RemoteView>,
    missed: Vec<TaskId>,
    down: RemoteDownload,
    /// Index of the frame with its state, if clients keep one.
    state: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct RemoteView {
    rows: Range<usize>,
    classes: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
struct RemoteDownload {
    body: CachedRef,
    assets: Vec<AssetOf<CachedRef>>,
    /// State that the method needs in addition to the download.
    remote_state: Option<CachedRef>,
}

/// Asset, and the place of its body.
#[derive(Serialize, Deserialize)]
struct AssetOf<B> {
    name: String,
    version: u32,
    kind: Kind,
    body: B,
}

impl<B> AssetOf<B> {
    fn new(asset: &Asset, body: B) -> AssetOf<B> {
        let Asset { version, kind, .. } = *asset;
        AssetOf { name: asset.name.to_string(), version, kind, body }
    }
}

/// Answer of a rank for one member.
#[derive(Serialize, Deserialize)]
pub(crate) struct RemoteTrainingResult {
    outcome: Result<RemoteUpload, Failure>,
    /// Index of the frame with its state after a success, if clients keep one.
    state: Option<usize>,
}

#[derive(Serialize, Deserialize)]
struct RemoteUpload {
    body: usize,
    assets: Vec<AssetOf<usize>>,
    metrics: BTreeMap<String, MetricValue>,
}

impl RemoteTraining {
    pub fn new(simulation: Arc<SimulationContext>, jobs: Vec<TrainingJob>) -> RemoteTraining {
        RemoteTraining { simulation, jobs }
    }
}

impl RemoteJob for RemoteTraining {
    fn run(self: Box<Self>, ctx: &RunContext) {
        train_together(&self.simulation, ctx, self.jobs);
    }

    fn order(&self, packing: &mut Packing<'_>) -> Option<JobRequest> {
        // Ranks know only the last context of a run, not those before a fork.
        if self.simulation.next.is_some() {
            return None;
        }
        let context = &self.jobs.first()?.broadcast.context;
        Some(JobRequest::Train(TrainOrder {
            round: context.round,
            phase: context.phase,
            phase_name: context.phase_name.to_owned(),
            round_in_phase: context.round_in_phase,
            rounds_in_phase: context.rounds_in_phase,
            run_seed: context.run_seed,
            members: self
                .jobs
                .iter()
                .map(|job| remote_participant(&self.simulation, job, packing))
                .collect(),
        }))
    }

    fn complete(
        self: Box<Self>,
        answer: JobResponse,
        bodies: Vec<Body>,
    ) -> Result<(), Box<dyn RemoteJob>> {
        let JobResponse::Trained(trained) = answer else { return Err(self) };
        let read = trained.into_iter().map(|trained| trained.read(&bodies));
        let Some(read) = read.collect::<Option<Vec<_>>>() else { return Err(self) };
        if read.len() != self.jobs.len() {
            return Err(self);
        }
        let (places, mut members) = members(&self.simulation, self.jobs);
        let saved = saved_states(&self.simulation, &members);
        let (outcome, states): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        for (member, state) in members.iter_mut().zip(states) {
            member.state = state.unwrap_or_default();
        }
        seal_all(&self.simulation, places, members, outcome, &saved);
        Ok(())
    }

    fn client(&self) -> Option<ClientId> {
        self.jobs.first().map(|job| job.broadcast.participant.client)
    }
}

fn remote_participant(
    simulation: &SimulationContext,
    job: &TrainingJob,
    packing: &mut Packing<'_>,
) -> RemoteParticipant {
    let Participant { id, client, role: Role(role), dummy_client, kind, ref view } =
        job.broadcast.participant;
    let download = &job.broadcast.download.message;
    let known = simulation.task_sequence.view_of(view.task, client);
    let asset = |asset: &Arc<Asset>| {
        let body = packing.content(asset.digest(), || (*asset.body).clone());
        AssetOf::new(asset, body)
    };
    let assets = download.assets.iter().map(asset).collect();
    let body = packing.shared(download, || download.body());
    let remote_state = simulation.method.remote_state(download);
    let remote_state = remote_state.map(|known| packing.shared(&known, || (*known).clone()));
    RemoteParticipant {
        participant: id,
        client,
        role,
        dummy_client,
        kind,
        task: view.task,
        view: (view != known)
            .then(|| RemoteView { rows: view.rows.clone(), classes: view.classes.clone() }),
        missed: job.missed.iter().map(|missed| missed.task).collect(),
        down: RemoteDownload { body, assets, remote_state },
        state: (!simulation.stateless).then(|| packing.frame(job.state.clone())),
    }
}

impl RemoteTrainingResult {
    /// Creates the answer for a member after training, with the frames of its upload and state.
    fn new(
        outcome: Result<Learning, Failure>,
        state: Option<&Body>,
        out: &mut Vec<Body>,
    ) -> RemoteTrainingResult {
        let mut frame = |body: Body| {
            out.push(body);
            out.len() - 1
        };
        let state = state.filter(|_| outcome.is_ok()).map(|state| frame(state.clone()));
        let outcome = outcome.map(|Learning { upload, metrics }| RemoteUpload {
            body: frame(upload.body()),
            assets: upload
                .assets
                .iter()
                .map(|a| AssetOf::new(a, frame((*a.body).clone())))
                .collect(),
            metrics,
        });
        RemoteTrainingResult { outcome, state }
    }

    /// Reads a member's result and state; `None` if a frame is missing.
    fn read(self, bodies: &[Body]) -> Option<(Result<Learning, Failure>, Option<Body>)> {
        let state = match self.state {
            Some(frame) => Some(bodies.get(frame)?.clone()),
            None => None,
        };
        let RemoteUpload { body, assets, metrics } = match self.outcome {
            Ok(upload) => upload,
            Err(failure) => return Some((Err(failure), state)),
        };
        let asset = |AssetOf { name, version, kind, body }: AssetOf<usize>| {
            Some(Arc::new(Asset::new(&name, version, kind, bodies.get(body)?.clone())))
        };
        let assets: Vec<_> = assets.into_iter().map(asset).collect::<Option<_>>()?;
        let upload = Message::from_body(bodies.get(body)?, &assets).ok()?;
        Some((Ok(Learning { upload, metrics }), state))
    }
}

/// A pack as a rank has it, ready to learn.
pub(super) struct RemotePack {
    members: Vec<Member>,
    /// State that the method needs in addition to the downloads.
    remote_state: Vec<(u64, Body)>,
    round_in_phase: u32,
    rounds_in_phase: u32,
}

impl TrainOrder {
    /// Builds the members from the packet, the cache, and data that every rank has.
    ///
    /// # Errors
    /// A description of what is missing.
    pub(super) fn unpack(
        self,
        simulation: &SimulationContext,
        cache: &mut RankCache,
        bodies: &[Body],
    ) -> Result<RemotePack, String> {
        let (mut members, mut remote_state) = (Vec::new(), Vec::new());
        for remote in &self.members {
            let asset = |asset: &AssetOf<CachedRef>| {
                let AssetOf { name, version, kind, body } = asset;
                cache.asset(*body, bodies, |body| Asset::new(name, *version, *kind, body))
            };
            let assets: Vec<_> =
                remote.down.assets.iter().map(asset).collect::<Result<_, String>>()?;
            if let Some(named) = remote.down.remote_state {
                remote_state.push((named.id, cache.body(named, bodies)?));
            }
            let download = cache.message(remote.down.body, bodies, &assets)?;
            members.push(self.member(simulation, remote, download, bodies)?);
        }
        let TrainOrder { round_in_phase, rounds_in_phase, .. } = self;
        Ok(RemotePack { members, remote_state, round_in_phase, rounds_in_phase })
    }

    fn member(
        &self,
        simulation: &SimulationContext,
        remote: &RemoteParticipant,
        download: Arc<Message>,
        bodies: &[Body],
    ) -> Result<Member, String> {
        let tasks = simulation.task_sequence.tasks.len();
        if remote.task.index() >= tasks || remote.missed.iter().any(|t| t.index() >= tasks) {
            return Err(format!("a remote job of {} names an unknown task", remote.client));
        }
        let task = remote.task;
        let view = match &remote.view {
            Some(RemoteView { rows, classes }) => {
                Arc::new(TaskView { task, rows: rows.clone(), classes: classes.clone() })
            }
            None => Arc::clone(simulation.task_sequence.view_of(task, remote.client)),
        };
        let participant = Participant {
            id: remote.participant,
            client: remote.client,
            role: Role(remote.role),
            dummy_client: remote.dummy_client,
            kind: remote.kind,
            view,
        };
        let state = match remote.state {
            None => Body::default(),
            Some(frame) => bodies.get(frame).cloned().ok_or("the frame of a state is missing")?,
        };
        let missed = remote.missed.iter().map(|task| MissedTask {
            task: *task,
            shard: simulation.shard(&simulation.task_sequence.tasks[task.index()], remote.client),
        });
        Ok(Member {
            phase: self.phase,
            download,
            state,
            shard: simulation.participant_shard(&self.phase_name, &participant),
            key: participant.key(self.run_seed, self.round),
            missed: missed.collect(),
            participant,
        })
    }
}

impl RemotePack {
    /// Returns the state that the method needs in addition to the downloads, by its number in the cache.
    pub fn remote_state(&self) -> &[(u64, Body)] {
        &self.remote_state
    }

    /// Trains the pack; returns the answer and its frames.
    pub fn client_update(
        mut self,
        simulation: &SimulationContext,
        ctx: &RunContext,
    ) -> (JobResponse, Vec<Body>) {
        let ctx = ctx.at_round(self.round_in_phase, self.rounds_in_phase);
        let saved = saved_states(simulation, &self.members);
        let outcome = learn_together(simulation, &ctx, &mut self.members, &saved);
        let mut bodies = Vec::new();
        let remembers = !simulation.stateless;
        let trained = outcome.into_iter().zip(&self.members).map(|(outcome, member)| {
            RemoteTrainingResult::new(outcome, remembers.then_some(&member.state), &mut bodies)
        });
        (JobResponse::Trained(trained.collect()), bodies)
    }
}

#[cfg(test)]
mod tests;
