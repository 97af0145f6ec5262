//! Parts of the virtual time of rounds: clients' work, links, waiting, and the server's own work.
//!
//! A round lasts as long as the update that closes it: that of the participant that came last among those that were
//! aggregated. While a frame of this participant is in transit, the time counts as links; while its client trains, as
//! clients' work. After the last awaited update the server computes until the round closes. The rest is waiting: for
//! a deadline, for participants that send nothing, for clients that are away, and between rounds. The four parts add
//! up to the whole.
//!
//! ```
//! use fedcast::report::TimeParts;
//! let parts = TimeParts { work_s: 2.5, links_s: 1.0, waiting_s: 0.5, server_s: 68.0 };
//! assert_eq!(parts.total_s(), 72.0);
//! ```

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::document::Document;
use crate::federation::{ClosingPolicy, Direction, Entry, Event, FrameOutcome};
use crate::policy::ParticipantKind;
use crate::quantity::{ParticipantId, Round, VirtualTime};

/// Seconds of virtual time, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Document)]
pub struct TimeParts {
    /// Local work of the client whose update was aggregated last, round by round.
    pub work_s: f64,
    /// Transfer of frames to and from this client.
    pub links_s: f64,
    /// Time without work or links: deadlines, clients that send nothing or are away, time between rounds.
    pub waiting_s: f64,
    /// Server's own work when rounds close.
    pub server_s: f64,
}

impl TimeParts {
    /// Returns the sum of the four parts.
    pub fn total_s(&self) -> f64 {
        self.work_s + self.links_s + self.waiting_s + self.server_s
    }
}

/// Parts in nanoseconds, so that sums are exact.
#[derive(Clone, Copy, Debug, Default)]
struct Spans {
    work: u64,
    links: u64,
    waiting: u64,
    server: u64,
}

impl Spans {
    fn add(&mut self, other: Spans) {
        self.work += other.work;
        self.links += other.links;
        self.waiting += other.waiting;
        self.server += other.server;
    }

    fn seconds(self) -> TimeParts {
        let seconds = |nanos: u64| VirtualTime(nanos).as_seconds();
        TimeParts {
            work_s: seconds(self.work),
            links_s: seconds(self.links),
            waiting_s: seconds(self.waiting),
            server_s: seconds(self.server),
        }
    }
}

/// Computes the parts of every round from a journal.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch {
    closing: ClosingPolicy,
    open: Option<TimedRound>,
    /// Participants whose update may still count, of this round or of earlier ones.
    participants: BTreeMap<(Round, ParticipantId), ParticipantTimes>,
    total: Spans,
}

#[derive(Clone, Debug)]
struct TimedRound {
    round: Round,
    at: u64,
    participants: usize,
    /// Participants of earlier rounds whose updates this round aggregates.
    stale: Vec<(Round, ParticipantId)>,
    /// Time at which each participant was known to send nothing that counts.
    silent: BTreeMap<ParticipantId, u64>,
}

/// Work and transfers of the participant of an update, as spans of nanoseconds.
#[derive(Clone, Debug, Default)]
struct ParticipantTimes {
    frames: Vec<(u64, u64)>,
    work: Vec<(u64, u64)>,
    /// Arrival time of its last frame; the end of its work if no frame is charged.
    came: u64,
    /// True if its update is at the server.
    here: bool,
}

impl Stopwatch {
    /// Returns a stopwatch for rounds that close by this rule.
    pub fn new(closing: ClosingPolicy) -> Stopwatch {
        Stopwatch { closing, ..Stopwatch::default() }
    }

    /// Returns the parts of all rounds so far within `virtual_s`; time between rounds is waiting.
    pub fn total(&self, virtual_s: f64) -> TimeParts {
        let Spans { work, links, server, .. } = self.total;
        let whole = VirtualTime::from_seconds(virtual_s).0;
        let waiting = whole.saturating_sub(work + links + server);
        Spans { waiting, ..self.total }.seconds()
    }

    /// Adds an entry; returns the parts of the round that it closes, if any.
    pub fn take(&mut self, entry: &Entry) -> Option<TimeParts> {
        let at = entry.at.0;
        match &entry.event {
            Event::RoundOpened { round, participants, .. } => {
                let (stale, silent) = (Vec::new(), BTreeMap::new());
                let participants = *participants as usize;
                self.open = Some(TimedRound { round: *round, at, participants, stale, silent });
            }
            // A round waits for load clients, of which nothing is aggregated.
            Event::FrameCharged {
                kind: ParticipantKind::LoadClient,
                round,
                participant,
                direction,
                outcome,
                ..
            } if *direction == Direction::Up || *outcome == FrameOutcome::Lost => {
                self.silent(*round, *participant, at);
            }
            Event::FrameCharged { kind: ParticipantKind::LoadClient, .. } => {}
            Event::FrameCharged { round, participant, direction, outcome, latency, .. } => {
                let gone = matches!(outcome, FrameOutcome::Lost | FrameOutcome::Late);
                if gone && *direction == Direction::Up {
                    self.silent(*round, *participant, at);
                } else if *outcome == FrameOutcome::Delivered {
                    let times = self.participants.entry((*round, *participant)).or_default();
                    times.frames.push((at.saturating_sub(*latency), at));
                    times.here |= *direction == Direction::Up;
                    times.came = times.came.max(at);
                }
            }
            Event::ClientTrained { round, participant, work_ns: worked, .. } => {
                let times = self.participants.entry((*round, *participant)).or_default();
                times.work.push((at.saturating_sub(*worked), at));
                times.came = times.came.max(at);
            }
            Event::ClientFailed { round, participant, .. }
            | Event::UpdateRejected { round, participant, .. } => {
                self.silent(*round, *participant, at);
            }
            Event::UpdateStale { round, participant, .. } => {
                self.open.iter_mut().for_each(|open| open.stale.push((*round, *participant)));
            }
            Event::RoundClosed { aggregated, missing, .. } => {
                let open = self.open.take()?;
                let missing: BTreeSet<ParticipantId> = missing.iter().copied().collect();
                let parts = self.parts(&open, at, *aggregated, &missing);
                // An update counts once.
                self.participants.retain(|(round, participant), _| {
                    let counted = *round == open.round && !missing.contains(participant);
                    !counted && !open.stale.contains(&(*round, *participant))
                });
                self.total.add(parts);
                return Some(parts.seconds());
            }
            _ => {}
        }
        None
    }

    fn silent(&mut self, round: Round, participant: ParticipantId, at: u64) {
        self.participants.remove(&(round, participant));
        if let Some(open) = self.open.as_mut().filter(|open| open.round == round) {
            open.silent.insert(participant, at);
        }
    }

    fn parts(
        &self,
        open: &TimedRound,
        closed: u64,
        aggregated: u32,
        missing: &BTreeSet<ParticipantId>,
    ) -> Spans {
        // A damaged journal may close a round before it opens it.
        let closed = closed.max(open.at);
        let own = (open.round, ParticipantId(0))..=(open.round, ParticipantId(u32::MAX));
        let own = self
            .participants
            .range(own)
            .filter(|((_, participant), _)| !missing.contains(participant));
        let stale = open.stale.iter().filter_map(|participant| self.participants.get(participant));
        let counted: Vec<&ParticipantTimes> = own.map(|(_, times)| times).chain(stale).collect();
        let last = counted.iter().max_by_key(|times| times.came).copied();
        let aggregation_start = match aggregated {
            // Without updates there is nothing to compute.
            0 => closed,
            _ => self.aggregation_start(
                open,
                last.map_or(open.at, |times| times.came),
                counted.len(),
            ),
        };
        let aggregation_start = aggregation_start.clamp(open.at, closed);
        let within = |spans: &[(u64, u64)]| covered(spans, open.at, aggregation_start);
        let links = last.map_or(0, |times| within(&times.frames));
        let work =
            last.map_or(0, |times| within(&times.work)).min(aggregation_start - open.at - links);
        let (waiting, server) =
            (aggregation_start - open.at - links - work, closed - aggregation_start);
        Spans { work, links, waiting, server }
    }

    /// Returns the time at which the server began to aggregate.
    ///
    /// No more updates could arrive, enough had arrived, or the deadline had passed.
    fn aggregation_start(&self, open: &TimedRound, last: u64, counted: usize) -> u64 {
        let own = (open.round, ParticipantId(0))..=(open.round, ParticipantId(u32::MAX));
        let here = self.participants.range(own).filter(|(_, times)| times.here).count();
        let out = here + open.silent.len() < open.participants;
        let rule = self.closing.of(open.participants);
        if !out {
            return last.max(open.silent.values().copied().max().unwrap_or(0));
        }
        match rule.deadline {
            Some(deadline) if counted < rule.enough => last.max(open.at + deadline.0),
            _ => last,
        }
    }
}

/// Returns the part of `from..to` that lies in any of the spans.
fn covered(spans: &[(u64, u64)], from: u64, to: u64) -> u64 {
    let clipped =
        spans.iter().map(|(start, end)| ((*start).clamp(from, to), (*end).clamp(from, to)));
    let mut clipped: Vec<(u64, u64)> = clipped.collect();
    clipped.sort_unstable();
    let (mut sum, mut reached) = (0, from);
    for (start, end) in clipped {
        sum += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    sum
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::federation::{ClosingGoal, ClosingRules, FrameBytes};
    use crate::quantity::{ClientId, TaskId};

    const MS: u64 = 1_000_000;

    fn opened(at: u64, round: u32, participants: u32) -> Entry {
        let (round, task, cohort, behind) = (Round(round), TaskId(0), vec![], vec![]);
        entry(at, Event::RoundOpened { round, task, phase: 0, cohort, participants, behind })
    }

    fn entry(at: u64, event: Event) -> Entry {
        Entry { seq: 0, at: VirtualTime(at * MS), event, numbers: None }
    }

    fn frame(at: u64, participant: (u32, u32), way: Direction, latency: u64, late: bool) -> Entry {
        let outcome = if late { FrameOutcome::Late } else { FrameOutcome::Delivered };
        entry(
            at,
            Event::FrameCharged {
                round: Round(participant.0),
                task: TaskId(0),
                phase: 0,
                participant: ParticipantId(participant.1),
                client: ClientId(participant.1),
                direction: way,
                outcome,
                bytes: Arc::new(FrameBytes::default()),
                sent: 0,
                latency: latency * MS,
                kind: ParticipantKind::default(),
                copy: false,
                asset: None,
            },
        )
    }

    fn trained(at: u64, participant: (u32, u32), worked: u64) -> Entry {
        let (round, participant) = (Round(participant.0), ParticipantId(participant.1));
        let (task, client, worked) = (TaskId(0), ClientId(participant.0), worked * MS);
        let (phase, samples, kept) = (0, 1, 0);
        entry(
            at,
            Event::ClientTrained {
                round,
                task,
                phase,
                participant,
                client,
                samples,
                work_ns: worked,
                state_bytes: kept,
            },
        )
    }

    fn closed(at: u64, round: u32, aggregated: u32, missing: &[u32]) -> Entry {
        let missing = missing.iter().copied().map(ParticipantId).collect();
        let (round, task, phase, stale) = (Round(round), TaskId(0), 0, 0);
        entry(at, Event::RoundClosed { round, task, phase, aggregated, stale, missing })
    }

    /// Returns milliseconds of work, links, waiting and server of the rounds that the entries close.
    fn parts(closing: ClosingPolicy, entries: Vec<Entry>) -> Vec<[u64; 4]> {
        let mut watch = Stopwatch::new(closing);
        let of = |parts: TimeParts| {
            let TimeParts { work_s, links_s, waiting_s, server_s } = parts;
            [work_s, links_s, waiting_s, server_s].map(|s| (s * 1e3).round() as u64)
        };
        entries.iter().filter_map(|entry| watch.take(entry).map(of)).collect()
    }

    const DOWN: Direction = Direction::Down;
    const UP: Direction = Direction::Up;

    /// Returns a round of two participants; the client of the second was away for 40 ms before it began.
    fn round(begin: u64) -> Vec<Entry> {
        vec![
            opened(begin, 0, 2),
            frame(begin + 10, (0, 0), DOWN, 10, false),
            frame(begin + 20, (0, 1), DOWN, 20, false),
            trained(begin + 40, (0, 0), 30),
            frame(begin + 45, (0, 0), UP, 5, false),
            trained(begin + 100, (0, 1), 40),
            frame(begin + 107, (0, 1), UP, 7, false),
        ]
    }

    #[test]
    fn a_round_is_as_long_as_its_last_update_and_the_server() {
        let all = |mut entries: Vec<Entry>| {
            entries.push(closed(1_300, 0, 2, &[]));
            parts(ClosingPolicy::default(), entries)
        };
        assert_eq!(all(round(1_000)), [[40, 27, 40, 193]]);
    }

    #[test]
    fn a_round_closed_before_its_opening_takes_no_time() {
        let entries = vec![opened(10, 0, 1), closed(5, 0, 1, &[])];
        assert_eq!(parts(ClosingPolicy::default(), entries), [[0; 4]]);
    }

    #[test]
    fn a_deadline_is_waited_for_and_what_comes_after_it_is_the_server_s() {
        let deadline = Some(VirtualTime(80 * MS));
        let closing = ClosingPolicy {
            rules: ClosingRules { deadline, ..ClosingRules::default() },
            ..ClosingPolicy::default()
        };
        let mut entries = round(0);
        entries.truncate(5);
        entries.push(closed(95, 0, 1, &[1]));
        entries.push(frame(107, (0, 1), UP, 7, true));
        assert_eq!(parts(closing, entries.clone()), [[30, 15, 35, 15]]);
        // Without a beginning the round closed with the first update: there was no waiting.
        let first =
            ClosingRules { enough: ClosingGoal::Share(0.5), deadline, ..ClosingRules::default() };
        let closing = ClosingPolicy { rules: first, ..ClosingPolicy::default() };
        assert_eq!(parts(closing, entries), [[30, 15, 0, 50]]);
    }

    #[test]
    fn participants_that_send_nothing_are_waited_for() {
        let mut entries = round(0);
        entries.truncate(5);
        let (round, task, participant, client) =
            (Round(0), TaskId(0), ParticipantId(1), ClientId(1));
        let (reason, detail) = ("crashed".to_owned(), String::new());
        entries.push(entry(
            60,
            Event::ClientFailed { round, task, participant, client, reason, detail },
        ));
        entries.push(closed(70, 0, 1, &[1]));
        assert_eq!(parts(ClosingPolicy::default(), entries), [[30, 15, 15, 10]]);
        let no_updates = vec![opened(0, 0, 1), closed(70, 0, 0, &[0])];
        assert_eq!(parts(ClosingPolicy::default(), no_updates), [[0, 0, 70, 0]]);
    }

    #[test]
    fn load_clients_are_waited_for() {
        let load = |at, late| {
            let mut frame = frame(at, (0, 2), UP, 5, late);
            if let Event::FrameCharged { kind, .. } = &mut frame.event {
                *kind = ParticipantKind::LoadClient;
            }
            frame
        };
        let with_load = |at, close: u64| {
            let mut entries = round(0);
            entries[0] = opened(0, 0, 3);
            entries.extend((at < close).then(|| load(at, false)));
            entries.push(closed(close, 0, 2, &[]));
            entries.extend((at > close).then(|| load(at, true)));
            entries
        };
        assert_eq!(parts(ClosingPolicy::default(), with_load(200, 230)), [[40, 27, 133, 30]]);
        let deadline = Some(VirtualTime(180 * MS));
        let closing = ClosingPolicy {
            rules: ClosingRules { deadline, ..ClosingRules::default() },
            ..ClosingPolicy::default()
        };
        assert_eq!(parts(closing, with_load(300, 190)), [[40, 27, 113, 10]]);
    }

    #[test]
    fn frames_side_by_side_count_once_and_all_parts_make_the_whole() {
        assert_eq!(covered(&[(5, 20), (0, 10), (30, 40)], 0, 100), 30);
        assert_eq!(covered(&[(5, 20)], 10, 15), 5);
        assert_eq!(covered(&[], 0, 9), 0);
        let mut watch = Stopwatch::new(ClosingPolicy::default());
        let mut entries = round(1_000);
        entries.push(closed(1_300, 0, 2, &[]));
        entries.iter().for_each(|entry| _ = watch.take(entry));
        let total = watch.total(1.3);
        assert!((total.total_s() - 1.3).abs() < 1e-12, "{total:?}");
        assert!((total.waiting_s - 1.04).abs() < 1e-12, "a second before the round: {total:?}");
    }
}
