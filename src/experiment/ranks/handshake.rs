//! Handshake of ranks: rank 0 sends the scenario, all assemble the run, and all are compared.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::entry::{LostRank, RankEntry};
use super::{RankFingerprint, RanksError, fingerprint_diff};
use crate::experiment::RunError;
use crate::experiment::assemble::{AssembleError, Assembly, assemble};
use crate::federation::remote::{
    InjectedFault, Loss, Rank, RankChannel, RemoteRank, RemoteRanks, TransportEvent, loopback,
    serve,
};
use crate::methods::Registry;
use crate::scenario::{CachePlace, Scenario};

/// Request of rank 0 before the first job.
#[derive(Serialize, Deserialize)]
enum HandshakeRequest {
    /// Assemble this scenario, and report the result.
    Prepare { scenario: String },
    /// All agree.
    Begin,
}

/// Reply of another rank.
#[derive(Serialize, Deserialize)]
enum HandshakeReply {
    Present(Box<RankFingerprint>),
    Unable(String),
}

/// Other ranks, as rank 0 has them. Clones are the same ranks; they work for one run, and exit when the last clone is
/// dropped.
#[derive(Clone)]
pub struct Ranks {
    line: Arc<Mutex<Option<RankChannel>>>,
    others: u32,
    report: fn(&str),
}

/// The ranks of a run, for its manifest.
#[derive(Clone, Debug)]
pub struct RankRoster {
    /// All of them, rank 0 first, as they were when the run began.
    pub ranks: Vec<RankEntry>,
    /// Jobs that each has done for rank 0.
    done: Vec<Arc<AtomicU64>>,
    lost: Arc<Mutex<Vec<LostRank>>>,
}

impl RankRoster {
    /// Returns the ranks, with what they have done so far.
    pub fn at_work(&self) -> Vec<RankEntry> {
        let ranks = self.ranks.iter().zip(&self.done);
        let so_far = |(rank, done): (&RankEntry, &Arc<AtomicU64>)| RankEntry {
            jobs: done.load(Ordering::Relaxed),
            ..rank.clone()
        };
        ranks.map(so_far).collect()
    }

    /// Ranks that were lost so far.
    pub fn lost(&self) -> Vec<LostRank> {
        lock(&self.lost).clone()
    }
}

impl fmt::Debug for Ranks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} other ranks", self.others)
    }
}

impl Ranks {
    /// Returns the ranks at the other end of a line.
    pub fn new(line: RankChannel, others: u32) -> Ranks {
        Ranks { line: Arc::new(Mutex::new(Some(line))), others, report: |_| {} }
    }

    /// Returns the ranks with a function that reports lost ranks and the like.
    pub fn reporting_to(self, report: fn(&str)) -> Ranks {
        Ranks { report, ..self }
    }

    /// Starts threads of this process in place of other processes.
    ///
    /// # Errors
    /// Returns an error if threads cannot be started.
    pub fn loopback(others: u32, fault: InjectedFault) -> Result<Ranks, RanksError> {
        // An error there is reported to rank 0, or is the fault.
        let line = loopback(others, fault, |rank, line| {
            let _ = work(rank, &line, &Registry::builtin(), Some(2));
        })?;
        Ok(Ranks::new(line, others))
    }

    /// Lets the ranks assemble the run, in parallel with this process.
    pub(in crate::experiment) fn handshake(&self, scenario: &Scenario) {
        if let Some(line) = &*lock(&self.line) {
            let call = say(&HandshakeRequest::Prepare { scenario: scenario.to_effective_toml() });
            self.numbers().for_each(|rank| line.send(rank, call.clone()));
        }
    }

    /// Waits for the ranks, compares them with this process, and lets them work for the run.
    pub(in crate::experiment) fn join(
        &self,
        scenario: &Scenario,
        assembly: &mut Assembly,
    ) -> Result<RankRoster, RanksError> {
        let line = lock(&self.line).take().ok_or(RanksError::Busy)?;
        let mut all = vec![RankFingerprint::here(scenario, assembly)];
        all.extend(self.present(&line)?);
        let found = fingerprint_diff::compare(&all);
        if !found.is_none() {
            return Err(RanksError::Differ { table: found.table(&all) });
        }
        if let Some(warning) = fingerprint_diff::bound(&all) {
            (self.report)(&format!("warning: {warning}"));
        }
        let begin = say(&HandshakeRequest::Begin);
        self.numbers().for_each(|rank| line.send(rank, begin.clone()));
        // The pack is part of the plan, so it is the least that all can train.
        let pack = all.iter().map(|rank| rank.pack).min();
        assembly.setup.rules.pack = assembly.setup.rules.pack.min(pack.unwrap_or(1));
        let done: Vec<Arc<AtomicU64>> = all.iter().map(|_| Arc::default()).collect();
        let remotes = (0..).map(Rank).zip(all.iter().zip(&done)).skip(1);
        let remote = |(rank, (c, done)): (Rank, (&RankFingerprint, &Arc<AtomicU64>))| RemoteRank {
            rank,
            workers: c.workers,
            done: Arc::clone(done),
        };
        let remotes = remotes.map(remote).collect();
        let lost = Arc::<Mutex<Vec<LostRank>>>::default();
        let entry = |(rank, c): (Rank, RankFingerprint)| {
            let RankFingerprint { host, workers, devices, machine, .. } = c;
            RankEntry { rank, host, workers, devices, jobs: 0, machine }
        };
        let ranks: Vec<RankEntry> = (0..).map(Rank).zip(all).map(entry).collect();
        let roster = RankRoster { ranks, done, lost };
        let on_loss = Box::new(self.on_loss(&roster));
        assembly.setup.fleet = Some(RemoteRanks { line, ranks: remotes, on_loss });
        Ok(roster)
    }

    fn numbers(&self) -> impl Iterator<Item = Rank> {
        (1..=self.others).map(Rank)
    }

    /// Receives the fingerprints of the other ranks, in order.
    fn present(&self, line: &RankChannel) -> Result<Vec<RankFingerprint>, RanksError> {
        let mut present: Vec<Option<RankFingerprint>> = vec![None; self.others as usize];
        while present.iter().any(Option::is_none) {
            let (rank, bytes) = match line.incoming().recv() {
                Ok(TransportEvent::Packet { from, bytes }) => (from, bytes),
                Ok(TransportEvent::Lost { rank, why }) => {
                    return Err(RanksError::Lost { rank, why });
                }
                Err(_) => return Err(RanksError::Mpi("the channel is closed".into())),
            };
            let garbled = |why: String| RanksError::Garbled { rank, why };
            let place = (rank.0 as usize).checked_sub(1).and_then(|place| present.get_mut(place));
            let place = place.ok_or_else(|| garbled("this rank does not exist".into()))?;
            match serde_json::from_slice(&bytes).map_err(|error| garbled(error.to_string()))? {
                HandshakeReply::Present(fingerprint) => *place = Some(*fingerprint),
                HandshakeReply::Unable(why) => return Err(RanksError::Unable { rank, why }),
            }
        }
        Ok(present.into_iter().flatten().collect())
    }

    fn on_loss(&self, roster: &RankRoster) -> impl Fn(&Loss) + Send + 'static {
        let hosts: Vec<String> = roster.ranks.iter().map(|rank| rank.host.clone()).collect();
        let (report, lost) = (self.report, Arc::clone(&roster.lost));
        move |Loss { rank, jobs, why }| {
            let host = hosts.get(rank.0 as usize).cloned().unwrap_or_default();
            report(&format!(
                "warning: {rank} on {host} is lost ({why}); other ranks compute its {jobs} unfinished jobs"
            ));
            lock(&lost).push(LostRank { rank: *rank, host, jobs: *jobs, why: why.clone() });
        }
    }
}

/// Runs another rank from start to end: assembles the run of rank 0, sends its fingerprint, and works. `workers` is
/// its own number of workers from the command line.
///
/// # Errors
/// Fails if rank 0 is lost or sends an unexpected message. Errors of the run itself are reported to rank 0.
pub fn work(
    rank: Rank,
    line: &RankChannel,
    methods: &Registry,
    workers: Option<u32>,
) -> Result<(), RunError> {
    let Some(HandshakeRequest::Prepare { scenario }) = receive(line)? else { return Ok(()) };
    let (fingerprint, assembly) = match put_together(rank, &scenario, methods, workers) {
        Ok(made) => made,
        Err(error) => {
            line.send(Rank::ZERO, say(&HandshakeReply::Unable(error.to_string())));
            // Rank 0 reports the reason, and closes the line.
            while receive(line)?.is_some() {}
            return Ok(());
        }
    };
    line.send(Rank::ZERO, say(&HandshakeReply::Present(Box::new(fingerprint))));
    match receive(line)? {
        Some(HandshakeRequest::Begin) => Ok(serve(assembly.setup, line)?),
        _ => Ok(()),
    }
}

fn put_together(
    rank: Rank,
    scenario: &str,
    methods: &Registry,
    workers: Option<u32>,
) -> Result<(RankFingerprint, Assembly), AssembleError> {
    // Its paths are absolute.
    let read =
        Scenario::from_toml(scenario, "the scenario of rank 0", Path::new("/"), &[], methods)?;
    let scenario = read.scenario;
    let mut own = scenario.clone();
    if own.cache.features == CachePlace::File {
        // Two machines must not write into the same files.
        own.cache.folder = own.cache.folder.map(|folder| folder.join(format!("rank-{}", rank.0)));
    }
    let assembly = assemble(&own, methods, workers)?;
    Ok((RankFingerprint::here(&scenario, &assembly), assembly))
}

/// Receives a request of rank 0; `None` after it has closed the channel.
fn receive(line: &RankChannel) -> Result<Option<HandshakeRequest>, RanksError> {
    let rank = Rank::ZERO;
    match line.incoming().recv() {
        Ok(TransportEvent::Packet { bytes, .. }) => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| RanksError::Garbled { rank, why: error.to_string() }),
        Ok(TransportEvent::Lost { rank, why }) => Err(RanksError::Lost { rank, why }),
        Err(_) => Ok(None),
    }
}

fn say(what: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(what).expect("calls are texts and numbers")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests;
