//! Outcome of a case: it is rejected, or it runs and has digests and bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fedcast::experiment::RunError;
use fedcast::experiment::assemble::{assemble_by, blueprint};
use fedcast::experiment::plan::{Faults, Total, plan};
use fedcast::experiment::ranks::{ComputeResources, Ranks};
use fedcast::federation::{Direction, Entry, Event, EventSink, Interrupt, MemorySink, simulate};
use fedcast::methods::Registry;
use fedcast::policy::UploadSize;
use fedcast::report::Summary;
use fedcast::scenario::{Override, Scenario};

use super::cases::{BASE, Case};

/// Digits of a digest that identify a run, as `fedcast run` prints them.
pub const DIGITS: usize = 16;

/// Outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The scenario is refused before anything runs.
    Refused,
    /// Digests and bytes of a complete run.
    Ran(Figures),
}

/// Results of a run that must not change, and what a plan with its faults gives beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Digest E.
    pub events: String,
    /// Digest N.
    pub numbers: String,
    /// Frames to clients, and their bytes by kind.
    pub down: String,
    /// Frames to the server.
    pub up: String,
}

/// Runs a case on the calling thread.
///
/// # Errors
/// What ended a run that had begun.
pub fn of(case: &Case) -> Result<Outcome, String> {
    by(case, None)
}

/// Number of workers that `FEDCAST_FROZEN_WORKERS` asks for; none leaves it to the scenario.
fn asked_workers() -> Option<u32> {
    let asked = std::env::var("FEDCAST_FROZEN_WORKERS").ok()?;
    Some(asked.parse().expect("FEDCAST_FROZEN_WORKERS is a number of workers"))
}

/// Runs a case with other ranks, where there are some.
///
/// # Errors
/// What ended a run that had begun.
pub fn by(case: &Case, ranks: Option<Ranks>) -> Result<Outcome, String> {
    let run = AssertUnwindSafe(|| run(case, &ComputeResources { workers: asked_workers(), ranks }));
    catch_unwind(run).unwrap_or_else(|_| Err("it panicked".into()))
}

fn run(case: &Case, resources: &ComputeResources) -> Result<Outcome, String> {
    let Some((scenario, memory)) = simulated(case, resources)? else { return Ok(Outcome::Refused) };
    let mut summary = Summary::new("frozen");
    let entries = memory.entries();
    for entry in &entries {
        summary.record(entry).map_err(|error| error.to_string())?;
    }
    was_planned(&scenario, &summary, &entries)?;
    let digests = memory.digests();
    Ok(Outcome::Ran(Figures {
        events: digests.events[..DIGITS].to_string(),
        numbers: digests.numbers[..DIGITS].to_string(),
        down: bytes(&summary, Direction::Down),
        up: bytes(&summary, Direction::Up),
    }))
}

/// Returns the entries of a case; `None` if it is refused.
///
/// # Errors
/// What ended a run that had begun.
pub fn entries(case: &Case) -> Result<Option<Vec<Entry>>, String> {
    let ran = simulated(case, &ComputeResources { workers: asked_workers(), ranks: None })?;
    Ok(ran.map(|(_, memory)| memory.entries()))
}

/// Runs a case and keeps its entries; `None` if it is refused.
fn simulated(
    case: &Case,
    resources: &ComputeResources,
) -> Result<Option<(Scenario, MemorySink)>, String> {
    let overrides: Vec<Override> = case.overrides.iter().map(|set| Override::new(*set)).collect();
    let methods = Registry::builtin();
    let read = Scenario::from_toml(BASE, "frozen", Path::new("."), &overrides, &methods);
    let Ok(loaded) = read else { return Ok(None) };
    let Ok(assembly) = assemble_by(&loaded.scenario, &methods, resources) else { return Ok(None) };
    let memory = MemorySink::default();
    let end =
        simulate(assembly.setup, Box::new(memory.clone()), Box::new(()), Interrupt::default());
    end.map_err(|error| error.to_string())?;
    Ok(Some((loaded.scenario, memory)))
}

/// A plan with the faults of the run knows its bytes and its time beforehand; where the size of messages depends on
/// what is learned, or a client could not be trained and sent nothing, the most that they come to.
fn was_planned(scenario: &Scenario, ran: &Summary, entries: &[Entry]) -> Result<(), String> {
    let planned = blueprint(scenario, &Registry::builtin()).map_err(RunError::from);
    let planned = planned.and_then(|b| plan(&b, Faults::On));
    let planned = planned.map_err(|error| format!("it ran and has no plan: {error}"))?;
    let failed = entries.iter().any(|entry| matches!(entry.event, Event::ClientFailed { .. }));
    let exact = !failed
        && planned
            .phases
            .iter()
            .all(|phase| phase.upload_size != UploadSize::FromValues && !phase.down_at_most);
    let bytes = |direction| ran.total(direction).bytes.0;
    let mut ends = entries.iter().filter_map(|entry| match entry.event {
        Event::RoundClosed { .. } => Some(entry.at.as_seconds()),
        _ => None,
    });
    let waits = |entry: &Entry| matches!(entry.event, Event::TaskDelayed { .. });
    let waited = entries.iter().any(waits);
    let total = &planned.total;
    let took = (ends.next_back().unwrap_or(0.0), total.virtual_s);
    let (down, up) = (bytes(Direction::Down), bytes(Direction::Up));
    let same = match exact {
        false => down <= total.down && up <= total.up,
        true => (down, up) == (total.down, total.up) && (waited || (took.0 - took.1).abs() < 1e-6),
    };
    same.then_some(()).ok_or_else(|| {
        let Total { down: d, up: u, virtual_s, .. } = total;
        format!("down {down}, up {up} in {} s; planned {d}, {u} in {virtual_s} s", took.0)
    })
}

/// Such as `8 frames: control 1320, prompt 20480`, whatever became of the frames.
fn bytes(summary: &Summary, direction: Direction) -> String {
    let sums = summary.total(direction);
    let mut text = format!("{} frames: control {}", sums.frames, sums.control.0);
    for (kind, bytes) in sums.kinds.iter() {
        text += &format!("; {} {}", kind.name(), bytes.0);
    }
    text
}
