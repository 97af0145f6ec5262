//! Recorded exchanges of a run over other links, speeds or closing rules, without training.
//!
//! Everything learned is replayed from the journal (see [`RecordedRun`]); clocks, links and closing rules act again.
//! That is true only as long as the learning is what it was: the same cohorts, the same uploads aggregated
//! into the same rounds, the same states of clients. The first decision of the server that comes out
//! otherwise ends it with a [`WhatIfError::OtherLearning`].

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

use super::assemble::{AssembleError, assemble};
use super::changes::{changed, table_of};
use super::journal_file::JournalReader;
use super::run_directory::{names, read_manifest};
use super::run_error::RunError;
use crate::exit::{CommandError, Exit};
use crate::federation::{
    Cadence, Digests, EndReason, Entry, Event, EventSink, FederationError, Interrupt, Journal,
    RecordedRun, SinkError, simulate,
};
use crate::methods::Registry;
use crate::quantity::{ClientId, ParticipantId, Round};
use crate::scenario::{ArrivalChoice, Scenario};

/// Sections that may change, because they affect only times.
const CLOCKS: [&str; 5] = ["time", "links", "round", "devices", "cache"];

/// Reason why a run cannot be replayed with other times.
#[derive(Debug, Error)]
pub enum WhatIfError {
    /// Other updates would be aggregated.
    #[error("{0}, so other updates would be aggregated\n  help: run the changed scenario instead")]
    OtherLearning(String),
    /// The run, its inputs or its directory are invalid.
    #[error("{0}")]
    Run(#[source] RunError),
}

impl<E: Into<RunError>> From<E> for WhatIfError {
    fn from(error: E) -> WhatIfError {
        WhatIfError::Run(error.into())
    }
}

impl CommandError for WhatIfError {
    fn exit_code(&self) -> Exit {
        match self {
            WhatIfError::OtherLearning(_) => Exit::Usage,
            WhatIfError::Run(error) => error.exit_code(),
        }
    }
}

fn refused(reason: impl Into<String>) -> WhatIfError {
    WhatIfError::OtherLearning(reason.into())
}

/// Replays the run at `path` with these overrides; `readers` see every entry as it would have been. Returns the digests
/// that the changed scenario would have.
///
/// # Errors
/// Returns [`WhatIfError::OtherLearning`] if training would differ, and an error if the run is not complete or a
/// scenario or its inputs are invalid.
pub fn what_if(
    path: &Path,
    overrides: &[String],
    methods: &Registry,
    readers: Vec<Box<dyn EventSink>>,
) -> Result<Digests, WhatIfError> {
    if read_manifest(path)?.forked.is_some() {
        return Err(AssembleError::unsupported(
            "a forked run cannot be timed again: it has two scenarios",
            "time the original run, or fork that with the changed links",
        )
        .into());
    }
    let recorded = super::assemble::load(&path.join(names::SCENARIO), &[], methods)?;
    let changed = changed(path, &recorded, overrides, methods)?;
    same_learning(&recorded, &changed)?;
    let mut reader = JournalReader::open(&path.join(names::EVENTS))?;
    let (mut recorded_run, mut decisions, mut stale) =
        (RecordedRun::default(), VecDeque::new(), false);
    let mut trained = Trained::new();
    while let Some(entry) = reader.next_entry()? {
        recorded_run.read(&entry).map_err(FederationError::Unrecorded)?;
        stale |= matches!(entry.event, Event::UpdateStale { .. });
        note(&mut trained, &entry.event);
        if matches!(&entry.event, Event::RunEnded { reason } if *reason != EndReason::Done) {
            return Err(refused("the recorded run is not complete"));
        }
        decisions.extend(decision(&entry.event).cloned());
    }
    let weights = |s: &Scenario| (s.round.late, s.round.staleness_exponent, s.round.max_staleness);
    if stale && weights(&recorded) != weights(&changed) {
        return Err(refused("late updates were aggregated and would have other weights"));
    }
    let mut setup = assemble(&changed, methods, Some(1))?.setup;
    setup.rules.snapshots = Cadence::Never;
    setup.recorded = Some(Arc::new(recorded_run));
    let stateful = !setup.method.profile().stateless;
    let replayed = Arc::new(Mutex::new(WhatIfReplay {
        decisions,
        readers,
        journal: Journal::new(),
        trained: Trained::new(),
        other: None,
    }));
    let end = simulate(
        setup,
        Box::new(WhatIfSink(Arc::clone(&replayed))),
        Box::new(()),
        Interrupt::default(),
    );
    let replayed = replayed.lock();
    if let Some(reason) = &replayed.other {
        return Err(refused(reason.clone()));
    }
    match end {
        Err(FederationError::Unrecorded(what)) => return Err(refused(what)),
        end => end?,
    };
    if stateful && replayed.trained != trained {
        return Err(refused("clients with a state would be trained in another order"));
    }
    Ok(replayed.journal.digests())
}

/// Returns the scenario of the run at `path` with these overrides.
///
/// # Errors
/// Returns an error if the scenario is invalid.
pub fn what_if_scenario(
    path: &Path,
    overrides: &[String],
    methods: &Registry,
) -> Result<Scenario, AssembleError> {
    let recorded = super::assemble::load(&path.join(names::SCENARIO), &[], methods)?;
    changed(path, &recorded, overrides, methods)
}

/// Checks that only clocks differ, and that nothing that depends on them decides the training.
fn same_learning(recorded: &Scenario, changed: &Scenario) -> Result<(), WhatIfError> {
    let (then, now) = (table_of(recorded), table_of(changed));
    let other = then
        .keys()
        .chain(now.keys())
        // Published numbers, and what they are not compared with, change no training.
        .filter(|key| !CLOCKS.contains(&key.as_str()) && *key != "expected")
        .find(|key| then.get(*key) != now.get(*key));
    if let Some(key) = other {
        return Err(refused(format!("`{key}` affects training")));
    }
    match changed.tasks.arrival {
        // Client tasks and their owners are drawn beforehand, whatever the times are.
        ArrivalChoice::Global | ArrivalChoice::ClientTasks { .. } => Ok(()),
        _ => Err(refused("tasks reach clients at times of the virtual clock")),
    }
}

/// Returns the event if it is a decision of the server that training depends on.
fn decision(event: &Event) -> Option<&Event> {
    let decides = matches!(
        event,
        Event::TaskStarted { .. }
            | Event::PhaseStarted { .. }
            | Event::RoundOpened { .. }
            | Event::UpdateStale { .. }
            | Event::SecureSumOpened { .. }
            | Event::RoundClosed { .. }
    );
    decides.then_some(event)
}

/// Rounds that each client was trained for, in order.
type Trained = BTreeMap<ClientId, Vec<(Round, ParticipantId)>>;

fn note(trained: &mut Trained, event: &Event) {
    if let Event::ClientTrained { round, participant, client, .. } = event {
        trained.entry(*client).or_default().push((*round, *participant));
    }
}

struct WhatIfReplay {
    /// Decisions of the recorded run that are still to come.
    decisions: VecDeque<Event>,
    readers: Vec<Box<dyn EventSink>>,
    journal: Journal,
    trained: Trained,
    /// First decision that differs.
    other: Option<String>,
}

struct WhatIfSink(Arc<Mutex<WhatIfReplay>>);

impl EventSink for WhatIfSink {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.0.lock().take(entry)
    }
}

impl WhatIfReplay {
    fn take(&mut self, entry: &Entry) -> Result<(), SinkError> {
        if let Some(now) = decision(&entry.event) {
            let then = self.decisions.pop_front();
            if then.as_ref() != Some(now) {
                self.other = Some(difference(then.as_ref(), now));
                return Err(SinkError::Stop("training would differ".into()));
            }
        }
        note(&mut self.trained, &entry.event);
        self.journal.push(entry);
        self.readers.iter_mut().try_for_each(|reader| reader.record(entry))
    }
}

/// Describes the difference of two events in words.
fn difference(then: Option<&Event>, now: &Event) -> String {
    match (then, now) {
        (
            Some(Event::RoundClosed { missing: then, .. }),
            Event::RoundClosed { round, missing: now, .. },
        ) => {
            let lacks = now.iter().find(|participant| !then.contains(participant));
            let extra = then.iter().find(|participant| !now.contains(participant));
            match (lacks, extra) {
                (Some(participant), _) => format!("{round} would close without {participant}"),
                (None, Some(participant)) => {
                    format!("{round} would close with {participant}, which was missing")
                }
                (None, None) => format!("{round} would aggregate another number of updates"),
            }
        }
        (_, Event::RoundOpened { round, .. }) => format!("{round} would sample other clients"),
        (_, Event::UpdateStale { round, participant, into, .. }) => {
            format!("the update of {participant} of {round} would be aggregated into {into}")
        }
        (_, Event::RoundClosed { round, .. }) => format!("{round} would close before late updates"),
        (_, event) => format!("`{}` would occur at another point", event.name()),
    }
}
