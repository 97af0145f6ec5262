//! Dispatcher: takes jobs from the queues of the devices to ranks, and brings back their answers.
//!
//! A rank has as many places as workers, and one more while more jobs wait than the local workers could take: that one
//! is sent while the rank computes. The rank of a job changes no result; a client goes to the rank that had it last if
//! there is a place, because that one has its features. Answers are opened by workers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, never};

use super::cache_index::{CacheIndex, Packing};
use super::packet;
use super::rank_channel::{Rank, RankChannel, TransportEvent};
use super::remote_job::{JobResponse, RequestHeader, ResponseHeader};
use crate::federation::job_queue::{JobOrder, JobReceiver, JobSender};
use crate::federation::sink::JobKind;
use crate::federation::worker_pool::{Job, Work};
use crate::quantity::ClientId;

/// The other ranks of a run.
pub struct RemoteRanks {
    /// Channel to the other ranks.
    pub line: RankChannel,
    /// Ranks that compute for rank 0, in order from rank 1.
    pub ranks: Vec<RemoteRank>,
    /// Called for every rank that is lost.
    pub on_loss: Box<dyn Fn(&Loss) + Send>,
}

/// A rank that computes.
#[derive(Clone, Debug)]
pub struct RemoteRank {
    /// Number of the rank, from 1.
    pub rank: Rank,
    /// Number of concurrent jobs.
    pub workers: usize,
    /// Number of jobs that the rank has done.
    pub done: Arc<AtomicU64>,
}

/// A rank that computes no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Rank that was lost.
    pub rank: Rank,
    /// Number of jobs that others had to do.
    pub jobs: usize,
    /// Reason of the loss, as the transport or the dispatcher reports it.
    pub why: String,
}

/// Job queues of the workers, as the dispatcher uses them.
pub(crate) struct Queues {
    /// Queue of answers, and of jobs that must stay here.
    pub urgent: Sender<Job>,
    /// Blocks of tests that may travel.
    pub testing: (Sender<Job>, Receiver<Job>),
    /// Packs to be trained.
    pub training: (JobSender<Job>, JobReceiver<Job>),
    /// Workers of this process.
    pub workers: usize,
}

/// Thread that takes jobs to ranks. Dropping it drops the line, at which the ranks end.
pub(crate) struct Dispatcher {
    leave: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Dispatcher {
    /// Starts the thread.
    pub fn start(fleet: RemoteRanks, queues: Queues) -> std::io::Result<Dispatcher> {
        let (leave, leaving) = crossbeam_channel::bounded(0);
        let RemoteRanks { line, ranks, on_loss } = fleet;
        let rank_state = |RemoteRank { rank, workers, done }| {
            (rank, RankState { workers: workers.max(1), out: 0, done, sent: CacheIndex::default() })
        };
        let round = DispatchLoop {
            ranks: ranks.into_iter().map(rank_state).collect(),
            line,
            on_loss,
            queues,
            out: BTreeMap::new(),
            tickets: 0,
            bytes: 0,
            last: BTreeMap::new(),
        };
        let thread = std::thread::Builder::new().name("dispatcher".into());
        let thread = thread.spawn(move || round.run_loop(&leaving))?;
        Ok(Dispatcher { leave: Some(leave), thread: Some(thread) })
    }

    /// Ends the dispatcher without waiting for it.
    pub fn abandon(mut self) {
        self.thread = None;
    }
}

impl Drop for Dispatcher {
    fn drop(&mut self) {
        self.leave = None;
        if let Some(thread) = self.thread.take() {
            // The thread runs no job, so it cannot panic because of one.
            let _ = thread.join();
        }
    }
}

/// Maximum size of remote jobs in flight, in bytes; a single remote job may exceed it.
const IN_FLIGHT: usize = 1 << 30;

struct RankState {
    workers: usize,
    /// Number of jobs that the rank has.
    out: usize,
    done: Arc<AtomicU64>,
    sent: CacheIndex,
}

/// A job that a rank has.
struct InFlightJob {
    rank: Rank,
    job: Job,
    bytes: usize,
}

struct DispatchLoop {
    ranks: BTreeMap<Rank, RankState>,
    line: RankChannel,
    on_loss: Box<dyn Fn(&Loss) + Send>,
    queues: Queues,
    out: BTreeMap<u64, InFlightJob>,
    tickets: u64,
    /// Size of remote jobs in flight, in bytes.
    bytes: usize,
    /// Last rank of each client.
    last: BTreeMap<ClientId, Rank>,
}

impl DispatchLoop {
    fn run_loop(mut self, leaving: &Receiver<()>) {
        let (none, no_token) = (never(), never());
        while !self.ranks.is_empty() {
            let place = self.has_place();
            let testing = if place { &self.queues.testing.1 } else { &none };
            let training = if place { self.queues.training.1.tokens() } else { &no_token };
            crossbeam_channel::select_biased! {
                // Nothing is ever sent: the end of the channel is the signal.
                recv(leaving) -> _ => return,
                recv(self.line.incoming()) -> arrival => match arrival {
                    Ok(TransportEvent::Packet { from, bytes }) => self.landed(from, bytes),
                    Ok(TransportEvent::Lost { rank, why }) => self.lose(rank, why),
                    Err(_) => self.lose_all("the channel is closed"),
                },
                recv(testing) -> job => job.into_iter().for_each(|job| self.take(job)),
                recv(training) -> token => if token.is_ok() {
                    let job = self.queues.training.1.take();
                    job.into_iter().for_each(|job| self.take(job));
                },
            }
        }
        let _ = leaving.recv();
    }

    /// Returns true if any rank can take a job now.
    fn has_place(&self) -> bool {
        (self.bytes < IN_FLIGHT || self.out.is_empty())
            && self.ranks.values().any(|rank_state| self.room(rank_state) > 0)
    }

    /// Returns the free places of a rank.
    fn room(&self, rank_state: &RankState) -> usize {
        let ahead = usize::from(self.queues.training.1.len() > self.queues.workers);
        (rank_state.workers + ahead).saturating_sub(rank_state.out)
    }

    fn rank_for(&self, client: Option<ClientId>) -> Option<Rank> {
        let free = || self.ranks.iter().filter(|(_, rank_state)| self.room(rank_state) > 0);
        let known = client.and_then(|client| self.last.get(&client).copied());
        let known = known.filter(|known| free().any(|(rank, _)| rank == known));
        let most = || {
            free()
                .max_by_key(|(rank, rank_state)| (self.room(rank_state), std::cmp::Reverse(**rank)))
        };
        known.or_else(|| most().map(|(rank, _)| *rank))
    }

    /// Gives a job to a rank, or to the local workers if it cannot travel.
    fn take(&mut self, job: Job) {
        let rank = match &job.work {
            Work::Remote(remote_job) => self.rank_for(remote_job.client()),
            Work::Local(_) => None,
        };
        let sent = rank.and_then(|rank| Some((rank, self.remote_job(rank, &job)?)));
        let Some((rank, bytes)) = sent else {
            let _ = self.queues.urgent.send(job);
            return;
        };
        if let (Work::Remote(remote_job), Some(rank_state)) = (&job.work, self.ranks.get_mut(&rank))
        {
            rank_state.out += 1;
            self.last.extend(remote_job.client().map(|client| (client, rank)));
        }
        self.bytes += bytes;
        self.out.insert(self.tickets, InFlightJob { rank, job, bytes });
    }

    /// Sends a job to a rank. Returns the size of the packet in bytes, or `None` if the job cannot travel.
    fn remote_job(&mut self, rank: Rank, job: &Job) -> Option<usize> {
        let Work::Remote(remote_job) = &job.work else { return None };
        let mut packing = Packing::new(&mut self.ranks.get_mut(&rank)?.sent);
        let order = remote_job.order(&mut packing)?;
        let ticket = self.tickets + 1;
        let bytes = packing.seal(|forget| RequestHeader { ticket, forget, order }).ok()?;
        self.tickets = ticket;
        let length = bytes.len();
        self.line.send(rank, bytes);
        Some(length)
    }

    /// Takes an answer of a rank; a worker completes the job with it.
    fn landed(&mut self, from: Rank, bytes: Vec<u8>) {
        let (ResponseHeader { ticket, answer }, frames) = match packet::open(bytes) {
            Ok(read) => read,
            Err(why) => return self.lose(from, format!("it sent an invalid packet: {why}")),
        };
        let Some(out) = self.out.remove(&ticket) else { return };
        self.bytes -= out.bytes;
        if let Some(rank_state) = self.ranks.get_mut(&from) {
            rank_state.out -= 1;
        }
        if let JobResponse::Refused(why) = answer {
            let _ = self.queues.urgent.send(out.job);
            return self.lose(from, why);
        }
        if let Some(rank_state) = self.ranks.get(&from) {
            rank_state.done.fetch_add(1, Ordering::Relaxed);
        }
        let Job { requested_at, work, .. } = out.job;
        let Work::Remote(remote_job) = work else { return };
        let work = Work::Local(Box::new(move |ctx| {
            let landed = match frames.read() {
                Ok(bodies) => remote_job.complete(answer, bodies),
                Err(_) => Err(remote_job),
            };
            // A job that the answer does not fit is done here.
            if let Err(remote_job) = landed {
                remote_job.run(ctx);
            }
        }));
        let order = JobOrder::default();
        let _ = self.queues.urgent.send(Job { kind: JobKind::Codec, order, requested_at, work });
    }

    /// Removes a lost rank: its jobs go back into their queues.
    fn lose(&mut self, rank: Rank, why: String) {
        if self.ranks.remove(&rank).is_none() {
            return;
        }
        self.last.retain(|_, had| *had != rank);
        let (gone, out) =
            std::mem::take(&mut self.out).into_iter().partition(|(_, o)| o.rank == rank);
        self.out = out;
        let gone: BTreeMap<u64, InFlightJob> = gone;
        let jobs = gone.len();
        for InFlightJob { job, bytes, .. } in gone.into_values() {
            self.bytes -= bytes;
            let _ = match job.kind {
                JobKind::Train => self.queues.training.0.send(job.order, job).is_ok(),
                _ => self.queues.testing.0.send(job).is_ok(),
            };
        }
        (self.on_loss)(&Loss { rank, jobs, why });
    }

    fn lose_all(&mut self, why: &str) {
        let ranks: Vec<Rank> = self.ranks.keys().copied().collect();
        ranks.into_iter().for_each(|rank| self.lose(rank, why.to_owned()));
    }
}
