//! What comes of a case: it is refused, or it runs and has digests and bytes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use fedcast::experiment::assemble::assemble;
use fedcast::federation::{Direction, EventSink, Interrupt, Memory, simulate};
use fedcast::methods::Registry;
use fedcast::report::Summary;
use fedcast::scenario::{Override, Scenario};

use crate::cases::{BASE, Case};

/// So many digits of a digest identify a run, as `fedcast run` prints them.
const DIGITS: usize = 16;

/// What comes of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The scenario is refused before anything runs.
    Refused,
    /// It runs to its end.
    Ran(Figures),
}

/// What must not change of a run.
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
    catch_unwind(AssertUnwindSafe(|| run(case))).unwrap_or_else(|_| Err("it panicked".into()))
}

fn run(case: &Case) -> Result<Outcome, String> {
    let overrides: Vec<Override> = case.overrides.iter().map(|set| Override::new(*set)).collect();
    let methods = Registry::builtin();
    let read = Scenario::from_toml(BASE, "frozen", Path::new("."), &overrides, &methods);
    let Ok(loaded) = read else { return Ok(Outcome::Refused) };
    let Ok(assembly) = assemble(&loaded.scenario, &methods, None) else {
        return Ok(Outcome::Refused);
    };
    let memory = Memory::default();
    let end =
        simulate(assembly.setup, Box::new(memory.clone()), Box::new(()), Interrupt::default());
    end.map_err(|error| error.to_string())?;
    let mut summary = Summary::new("frozen");
    for entry in memory.entries() {
        summary.record(&entry).map_err(|error| error.to_string())?;
    }
    let digests = memory.digests();
    Ok(Outcome::Ran(Figures {
        events: digests.events[..DIGITS].to_string(),
        numbers: digests.numbers[..DIGITS].to_string(),
        down: bytes(&summary, Direction::Down),
        up: bytes(&summary, Direction::Up),
    }))
}

/// Such as `8 frames: control 1320, prompt 20480`, whatever became of the frames.
fn bytes(summary: &Summary, direction: Direction) -> String {
    let sums = summary.total(direction);
    let mut told = format!("{} frames: control {}", sums.frames, sums.control.0);
    for (kind, bytes) in sums.kinds.iter() {
        told += &format!("; {} {}", kind.name(), bytes.0);
    }
    told
}
