//! Random streams behind an entry of the journal, and the difference between two entries.

use serde_json::Value;

use crate::federation::{Direction, Entry, Event};

/// Returns the random stream behind an event: its domain and the address in it, as keys are made.
pub fn stream_path(event: &Event) -> Option<String> {
    let at = |domain: &str, address: String| Some(format!("{domain}/{address}"));
    match event {
        Event::RoundOpened { round, task, .. } => {
            at("cohort", format!("task={}/round={}", task.0, round.0))
        }
        Event::ClientTrained { round, task, client, participant, .. }
        | Event::UpdatePoisoned { round, task, client, participant, .. } => at(
            "shuffle,augment,dropout,method",
            format!(
                "task={}/round={}/client={}/participant={}",
                task.0, round.0, client.0, participant.0
            ),
        ),
        Event::ClientSkipped { round, client, .. } => {
            at("compute", format!("round={}/client={}", round.0, client.0))
        }
        Event::ClientProfiled { client, .. } => at("compute,link", format!("client={}", client.0)),
        Event::FrameCharged { round, client, direction, .. } => {
            let way = match direction {
                Direction::Down => "down",
                Direction::Up => "up",
            };
            at("link,fault", format!("round={}/client={}/{way}", round.0, client.0))
        }
        Event::ClientFailed { round, client, .. } => {
            at("fault,availability", format!("round={}/client={}", round.0, client.0))
        }
        Event::RoundClosed { round, task, .. } => {
            at("method,rebalance", format!("task={}/round={}/server", task.0, round.0))
        }
        Event::TaskEnded { task } => at("method", format!("task={}/server", task.0)),
        _ => None,
    }
}

/// Returns the first value in which two entries differ: its path, and the value in each.
pub fn first_difference(recorded: &Entry, computed: &Entry) -> Option<(String, String, String)> {
    let value = |entry: &Entry| serde_json::from_str::<Value>(&entry.to_line()).ok();
    differs(String::new(), &value(recorded)?, &value(computed)?)
}

fn differs(path: String, one: &Value, other: &Value) -> Option<(String, String, String)> {
    if one == other {
        return None;
    }
    if let (Value::Object(left), Value::Object(right)) = (one, other) {
        let keys = left.keys().chain(right.keys().filter(|key| !left.contains_key(*key)));
        let nothing = Value::Null;
        return keys.into_iter().find_map(|key| {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            differs(path, left.get(key).unwrap_or(&nothing), right.get(key).unwrap_or(&nothing))
        });
    }
    Some((path, one.to_string(), other.to_string()))
}
