//! Promises about memory: it depends on who is asked, not on who is registered, and not on how long a run
//! is. Measured as what Linux says of the process; elsewhere there is nothing to see.
//!
//! The memory of a process is that of everything it does, so each of these tests runs as the only one of a
//! separate process: this binary again, with that test alone.

#[path = "../../benches/engine/echo.rs"]
mod echo;

use std::process::Command;
use std::sync::{Arc, Mutex};

use echo::{Federation, THOUSAND};
use fedcast::federation::{Entry, Event, EventSink, Interrupt, SinkError, simulate};

/// Set in the process that runs one test only.
const ALONE: &str = "FEDCAST_TEST_ALONE";

/// Runs the test of this name in a separate process; there, runs its body.
#[track_caller]
fn alone(test: &str, promise: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return promise();
    }
    let this = std::env::current_exe().expect("the tests are a program");
    let name = format!("memory::{test}");
    let arguments = [&name, "--exact", "--nocapture"];
    let ended = Command::new(this).args(arguments).env(ALONE, "1").output().expect("starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&ended.stdout), text(&ended.stderr));
    assert!(ended.status.success(), "{out}{err}");
    assert!(out.contains("1 passed"), "there is no test {name}: {out}");
}

/// Resident memory in MB.
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kilobytes / 1e3)
}

/// The resident memory after every hundredth round; keeps nothing else.
#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Vec<f64>>>);

impl EventSink for Watch {
    fn record(&mut self, entry: &Entry) -> Result<(), SinkError> {
        if let Event::RoundClosed { round, .. } = entry.event
            && (round.0 + 1).is_multiple_of(100)
        {
            self.0.lock().unwrap().extend(resident());
        }
        Ok(())
    }
}

fn watched(federation: &Federation) -> Vec<f64> {
    let watch = Watch::default();
    let sink = Box::new(watch.clone());
    simulate(federation.setup(), sink, Box::new(()), Interrupt::default()).expect("ends well");
    let seen = watch.0.lock().unwrap();
    seen.clone()
}

/// A kilobyte left behind by every client's round would be 16 MB.
#[test]
fn a_thousand_rounds_leak_nothing() {
    alone("a_thousand_rounds_leak_nothing", || {
        let federation = Federation { floats: 4_000, asked: 20, rounds: 1_000, ..THOUSAND };
        let seen = watched(&federation);
        let (Some(early), Some(late)) = (seen.get(1), seen.get(9)) else { return };
        let grown = format!("{early} MB after 200 rounds, {late} MB after 1,000: {seen:?}");
        assert!(late - early < 8.0, "{grown}");
    });
}

/// Clients that are asked once, one after another, leave nothing behind either.
#[test]
fn ten_thousand_clients_fit_into_bounded_memory() {
    alone("ten_thousand_clients_fit_into_bounded_memory", || {
        let few = Federation { floats: 1_000, clients: 100, rounds: 100, ..THOUSAND };
        let many = Federation { clients: 10_000, idle: 10_000, ..few };
        let [before, after] = [few, many].map(|federation| watched(&federation).pop());
        let (Some(before), Some(after)) = (before, after) else { return };
        // 3 kB for each of 20,000.
        assert!(after - before < 60.0, "{before} MB with 100 clients, {after} MB with 20,000");
    });
}
