//! Executes a recorded run again and compares it entry by entry.
//!
//! The comparison is a sink like any other: the first entry that differs ends the simulation.
//! A run that was interrupted is verified as far as it goes; one that ended with an error is the
//! same when it ends with the same error again.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

use super::assemble::{assemble_by, load};
use super::fork::before;
use super::input_places::{NotInputPlace, check_input_places};
use super::journal_file::{JournalError, JournalReader};
use super::machine::{ARITHMETIC, BY_CPU, Machine};
use super::manifest::Source;
use super::ranks::{ComputeResources, Ranks};
use super::resume::{Intact, ResumeError, ResumeSearch, find, find_start};
use super::run_directory::{names, read_manifest};
use super::run_error::RunError;
use super::trace::{first_difference, stream_path};
use crate::exit::{CommandError, Exit};
use crate::federation::{
    Cadence, Digests, EndReason, Entry, Event, EventSink, Interrupt, Journal, SinkError, simulate,
};
use crate::methods::Registry;

/// Entries shown before the first difference.
const BEFORE: usize = 10;

/// The first entry in which two runs differ.
#[derive(Debug, Error)]
pub struct Divergence {
    /// The number of the entry.
    pub seq: u64,
    /// Recorded entry; `None` if the recorded run had ended.
    pub recorded: Option<String>,
    /// Computed entry; `None` if the computed run has ended.
    pub computed: Option<String>,
    /// The entries before it, equal in both.
    pub before: Vec<String>,
    /// The first value that differs: its path, recorded, computed.
    pub value: Option<(String, String, String)>,
    /// The random streams behind the computed entry, else behind the recorded one.
    pub stream: Option<String>,
    /// Explanation, if there is one.
    pub hint: Option<String>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = || "(the run has ended)".to_string();
        writeln!(f, "the recomputed run differs from the recorded one at entry {}", self.seq)?;
        for line in &self.before {
            writeln!(f, "    {line}")?;
        }
        writeln!(f, "  - {}", self.recorded.clone().unwrap_or_else(end))?;
        write!(f, "  + {}", self.computed.clone().unwrap_or_else(end))?;
        if let Some((path, recorded, computed)) = &self.value {
            write!(f, "\n  value:  {path} was {recorded}, is {computed}")?;
        }
        if let Some(stream) = &self.stream {
            write!(f, "\n  stream: {stream}")?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  help: {hint}"),
            None => Ok(()),
        }
    }
}

/// Reason why a run was not verified.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// A round that the recorded run does not have.
    #[error("there is no round {round}: the run has {rounds} rounds")]
    NoRound {
        /// Asked for, from 1.
        round: u32,
        /// Number of rounds.
        rounds: u64,
    },
    /// A change that could change results.
    #[error(transparent)]
    NoPlace(#[from] NotInputPlace),
    /// The recomputed run is not the recorded one.
    #[error(transparent)]
    Diverged(Box<Divergence>),
    /// The recorded run cannot be resumed.
    #[error("{0}")]
    Resume(#[from] ResumeError),
    /// The run, its inputs or its directory are invalid.
    #[error("{0}")]
    Run(#[source] RunError),
}

impl<E: Into<RunError>> From<E> for VerifyError {
    fn from(error: E) -> VerifyError {
        VerifyError::Run(error.into())
    }
}

impl CommandError for VerifyError {
    fn exit_code(&self) -> Exit {
        match self {
            VerifyError::NoRound { .. } | VerifyError::NoPlace(_) => Exit::Usage,
            VerifyError::Diverged(_) => Exit::Diverged,
            VerifyError::Resume(error) => error.exit_code(),
            VerifyError::Run(error) => error.exit_code(),
        }
    }
}

/// Result of a verification: both runs are the same.
#[derive(Clone, Debug)]
pub struct Verified {
    /// Entries compared.
    pub entries: u64,
    /// Their digests, those of both runs.
    pub digests: Digests,
    /// True if the recorded run was interrupted and agrees as far as it goes.
    pub partial: bool,
    /// Entries that were replayed from the journal up to a checkpoint, and not computed.
    pub replayed: u64,
    /// Notices for the user about checkpoints.
    pub notices: Vec<String>,
}

/// Options of a verification.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Worker threads; the scenario's by default.
    pub workers: Option<u32>,
    /// Other processes that compute it, too.
    pub ranks: Option<Ranks>,
    /// Round, counted from 1, before which nothing need be computed if a checkpoint allows it.
    pub from_round: Option<u32>,
    /// Other places of inputs, as `data.path=...`, `backbone.weights=...` or `cache.folder=...`.
    pub places: Vec<String>,
}

/// Executes the run at `path` again with any number of workers. `progress` sees every entry
/// that was equal.
///
/// # Errors
/// Returns [`VerifyError::Diverged`] at the first difference, and an error if the journal is damaged or the run fails.
pub fn verify(
    path: &Path,
    methods: &Registry,
    options: VerifyOptions,
    progress: Option<Box<dyn EventSink>>,
    interrupt: Interrupt,
) -> Result<Verified, VerifyError> {
    check_input_places(&options.places)?;
    let manifest = read_manifest(path)?;
    let reader = JournalReader::open(&path.join(names::EVENTS))?;
    if let Some(round) = options.from_round {
        let rounds = rounds_in(path);
        if u64::from(round) > rounds {
            return Err(VerifyError::NoRound { round, rounds });
        }
    }
    let scenario = load(&path.join(names::SCENARIO), &options.places, methods)?;
    let resources = ComputeResources { workers: options.workers, ranks: options.ranks };
    let mut assembly = assemble_by(&scenario, methods, &resources)?;
    assembly.setup.rules.snapshots = Cadence::Never;
    assembly.setup.rules.models = false;
    assembly.setup.rules.answers = false;
    assembly.setup.before = before(path, &manifest, &assembly.setup, methods)?;
    let (mut replayed, mut notices) = (0, Vec::new());
    let forked = manifest.forked.is_some();
    if forked || options.from_round.is_some() {
        let from = options.from_round.unwrap_or(1);
        let mut found = match from.checked_sub(2) {
            Some(last) => find(path, &manifest, last)?,
            None => ResumeSearch::default(),
        };
        if forked && found.intact.is_none() {
            // What a forked run began with was computed elsewhere, under another scenario.
            found = find_start(path, &manifest)?;
        }
        notices = found.notices;
        match found.intact {
            Some(Intact { mark, recorded, place }) => {
                notices.push(format!("computing from after {place}"));
                replayed = mark.entries;
                assembly.setup.recorded = Some(Arc::new(recorded));
            }
            None if forked => return Err(ResumeError::NoFork(path.to_path_buf()).into()),
            None => notices.push(format!(
                "there is no checkpoint before round {from}: all rounds are computed"
            )),
        }
    }
    let compared = Arc::new(Mutex::new(JournalComparison {
        reader,
        equal: Journal::new(),
        ended: false,
        before: VecDeque::new(),
        progress,
        found: ComparisonOutcome::Equal,
    }));
    let sink = Comparer(Arc::clone(&compared));
    let inputs = [(&manifest.data, assembly.data), (&manifest.backbone, assembly.backbone)];
    // The same input may have another name at another place.
    let differs = |then: &Source, now: &Source| then.digest != now.digest;
    let changed =
        inputs.into_iter().find(|(then, now)| then.as_ref().is_some_and(|then| differs(then, now)));
    let changed = changed.map(|(_, now)| format!("{} has changed since the run", now.name));
    let end = simulate(assembly.setup, Box::new(sink), Box::new(()), interrupt);
    let mut comparison = compared.lock();
    match std::mem::replace(&mut comparison.found, ComparisonOutcome::Equal) {
        ComparisonOutcome::Different(mut divergence) => {
            divergence.hint =
                changed.or_else(|| hint(&manifest.fedcast, &manifest.machine, &divergence));
            Err(VerifyError::Diverged(divergence))
        }
        ComparisonOutcome::Unreadable(error) => Err(error.into()),
        found @ (ComparisonOutcome::Equal | ComparisonOutcome::Partial) => {
            let partial = matches!(found, ComparisonOutcome::Partial);
            if !partial {
                // The error of an aborted run is what both have as their last entry.
                if !comparison.ended {
                    end?;
                }
                comparison.reader.next_entry()?; // the last seal
            }
            let (entries, digests) = (comparison.equal.entries(), comparison.equal.digests());
            Ok(Verified { entries, digests, partial, replayed, notices })
        }
    }
}

/// Returns the number of rounds in the readable part of a journal.
///
/// The comparison finds the errors of the journal.
fn rounds_in(path: &Path) -> u64 {
    let Ok(mut reader) = JournalReader::open(&path.join(names::EVENTS)) else { return 0 };
    let mut rounds = 0;
    while let Ok(Some(entry)) = reader.next_entry() {
        rounds += u64::from(matches!(entry.event, Event::RoundOpened { .. }));
    }
    rounds
}

/// Returns an explanation of a difference from a recorded run, if one is known.
fn hint(version: &str, machine: &Machine, divergence: &Divergence) -> Option<String> {
    let event = |line: &Option<String>| {
        let line = line.as_deref()?;
        Some(line.split(",\"numbers\":").next()?.trim_end_matches('}').to_string())
    };
    let only_numbers = event(&divergence.recorded) == event(&divergence.computed);
    if version != env!("CARGO_PKG_VERSION") {
        return Some(format!("the run was recorded by fedcast {version}"));
    }
    let Machine { arithmetic, cpu, .. } = machine;
    match only_numbers && arithmetic != ARITHMETIC {
        true if arithmetic == BY_CPU => Some(format!(
            "only numbers differ, and the run was recorded by a version whose numbers depended on the CPU ({cpu}): \
             verify it with that build, on such a CPU"
        )),
        true => Some(format!(
            "only numbers differ, and the run was recorded with arithmetic {arithmetic}, this is {ARITHMETIC}: \
             verify it with that build"
        )),
        false => None,
    }
}

enum ComparisonOutcome {
    Equal,
    Partial,
    Different(Box<Divergence>),
    Unreadable(JournalError),
}

struct JournalComparison {
    reader: JournalReader,
    /// The entries that were equal.
    equal: Journal,
    /// True if the end of the run was among them.
    ended: bool,
    before: VecDeque<String>,
    progress: Option<Box<dyn EventSink>>,
    found: ComparisonOutcome,
}

struct Comparer(Arc<Mutex<JournalComparison>>);

impl EventSink for Comparer {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        self.0.lock().compare(entry)
    }
}

impl JournalComparison {
    fn compare(&mut self, computed: &Entry) -> Result<(), SinkError> {
        let recorded = match self.reader.next_entry() {
            Ok(recorded) => recorded,
            Err(error) => return Err(self.stop(ComparisonOutcome::Unreadable(error))),
        };
        let line = computed.to_line();
        let recorded_line = recorded.as_ref().map(Entry::to_line);
        if recorded_line.as_deref() == Some(&line) {
            self.equal.push(computed);
            self.ended = matches!(computed.event, Event::RunEnded { .. });
            if let Some(progress) = &mut self.progress {
                progress.record(computed)?;
            }
            if self.before.len() == BEFORE {
                self.before.pop_front();
            }
            self.before.push_back(line);
            return Ok(());
        }
        // An interrupted run, the recorded or this one, is compared as far as it goes.
        let cut = Event::RunEnded { reason: EndReason::Interrupted };
        if computed.event == cut || recorded.as_ref().is_some_and(|entry| entry.event == cut) {
            return Err(self.stop(ComparisonOutcome::Partial));
        }
        let value = recorded.as_ref().and_then(|recorded| first_difference(recorded, computed));
        let then = recorded.as_ref().and_then(|recorded| stream_path(&recorded.event));
        let divergence = Divergence {
            value,
            stream: stream_path(&computed.event).or(then),
            seq: computed.seq,
            recorded: recorded_line,
            computed: Some(line),
            before: self.before.iter().cloned().collect(),
            hint: None,
        };
        Err(self.stop(ComparisonOutcome::Different(Box::new(divergence))))
    }

    fn stop(&mut self, found: ComparisonOutcome) -> SinkError {
        self.found = found;
        SinkError::Stop("the comparison has ended".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::{MetricValue, Numbers};
    use crate::quantity::{ClientId, ParticipantId, Round, TaskId, VirtualTime};

    #[test]
    fn a_divergence_is_shown_with_both_values_and_the_stream() {
        let entry = |loss: f64| Entry {
            seq: 41,
            at: VirtualTime(7),
            event: Event::ClientTrained {
                round: Round(2),
                task: TaskId(1),
                phase: 0,
                participant: ParticipantId(3),
                client: ClientId(5),
                samples: 12,
                work_ns: 9,
                state_bytes: 0,
            },
            numbers: Some(Numbers {
                metrics: [("loss".to_string(), MetricValue(loss))].into(),
                ..Numbers::default()
            }),
        };
        let (recorded, computed) = (entry(0.5), entry(0.25));
        let divergence = Divergence {
            seq: 41,
            recorded: Some(recorded.to_line()),
            computed: Some(computed.to_line()),
            before: vec!["{\"seq\":40}".into()],
            value: first_difference(&recorded, &computed),
            stream: stream_path(&computed.event),
            hint: Some("look at the loss".into()),
        };
        let line = |loss| {
            format!(
                "{{\"seq\":41,\"at\":7,\"event\":{{\"type\":\"client_trained\",\"round\":2,\"task\":1,\
                 \"phase\":0,\"participant\":3,\"client\":5,\"samples\":12,\"work_ns\":9}},\
                 \"numbers\":{{\"metrics\":{{\"loss\":{loss}}}}}}}"
            )
        };
        let expected = format!(
            "the recomputed run differs from the recorded one at entry 41\n    {{\"seq\":40}}\n  \
             - {}\n  + {}\n  value:  numbers.metrics.loss was 0.5, is 0.25\n  stream: \
             shuffle,augment,dropout,method/task=1/round=2/client=5/participant=3\n  help: look at the loss",
            line("0.5"),
            line("0.25")
        );
        assert_eq!(divergence.to_string(), expected);
    }

    #[test]
    fn another_arithmetic_explains_numbers_and_no_events() {
        let machine =
            |arithmetic: &str| Machine { arithmetic: arithmetic.into(), ..Machine::here() };
        let differ = |recorded: &str, computed: &str| Divergence {
            seq: 0,
            recorded: Some(recorded.into()),
            computed: Some(computed.into()),
            before: Vec::new(),
            value: None,
            stream: None,
            hint: None,
        };
        let numbers = differ(r#"{"at":1,"numbers":{"a":1}}"#, r#"{"at":1,"numbers":{"a":2}}"#);
        let events = differ(r#"{"at":1,"numbers":{"a":1}}"#, r#"{"at":2,"numbers":{"a":1}}"#);
        let version = env!("CARGO_PKG_VERSION");
        let hinted = |arithmetic: &str, of: &Divergence| hint(version, &machine(arithmetic), of);
        assert!(hinted(BY_CPU, &numbers).unwrap().contains("depended on the CPU"));
        assert!(hinted("fixed-0", &numbers).unwrap().contains("arithmetic fixed-0"));
        assert_eq!(hinted("fixed-0", &events), None);
        assert_eq!(hinted(ARITHMETIC, &numbers), None);
        assert!(hint("0.0.1", &machine(ARITHMETIC), &events).unwrap().contains("fedcast 0.0.1"));
    }
}
