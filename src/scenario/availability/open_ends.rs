//! Gaps of a trace: clients and times without a line, and lines without an effect.

use std::collections::BTreeMap;

use super::{AvailabilityPattern, AvailabilitySection, Transition};

impl AvailabilitySection {
    /// Returns one sentence for each gap of the trace in a run of `clients` clients.
    pub(in crate::scenario) fn left_open(&self, clients: u32) -> Vec<String> {
        let AvailabilityPattern::Trace { repeat_s, transitions, .. } = &self.pattern else {
            return Vec::new();
        };
        let trace = ClientTransitions::of(transitions, *repeat_s, clients);
        [trace.beyond(), trace.missing(), trace.unread(), trace.repeated(), trace.end()]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// Transitions of the clients of a run, in order of time.
struct ClientTransitions {
    clients: u32,
    by_client: BTreeMap<u32, BTreeMap<Seconds, bool>>,
    /// Clients in the file that the run does not have.
    others: Vec<u32>,
    /// Lines after the time at which the recording repeats.
    behind: usize,
    repeat_s: f64,
}

/// Time in seconds, ordered; never NaN.
#[derive(Clone, Copy, PartialEq)]
struct Seconds(f64);

impl Eq for Seconds {}

impl PartialOrd for Seconds {
    fn partial_cmp(&self, other: &Seconds) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Seconds {
    fn cmp(&self, other: &Seconds) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl ClientTransitions {
    fn of(transitions: &[Transition], repeat_s: f64, clients: u32) -> ClientTransitions {
        let mut trace = ClientTransitions {
            clients,
            by_client: BTreeMap::new(),
            others: Vec::new(),
            behind: 0,
            repeat_s,
        };
        for (client, at, on) in transitions {
            if *client >= clients {
                trace.others.push(*client);
            } else if repeat_s > 0.0 && *at >= repeat_s {
                trace.behind += 1;
            } else {
                trace.by_client.entry(*client).or_default().insert(Seconds(*at), *on);
            }
        }
        trace.others.sort_unstable();
        trace.others.dedup();
        trace
    }

    fn beyond(&self) -> Option<String> {
        let [first, ..] = self.others.as_slice() else { return None };
        Some(format!(
            "the trace has {} outside the run (such as {first}): federation.clients is {}, counted from 0",
            counted(self.others.len(), "client"),
            self.clients
        ))
    }

    fn missing(&self) -> Option<String> {
        let first = (0..self.clients).find(|client| !self.by_client.contains_key(client))?;
        let missing = self.clients as usize - self.by_client.len();
        let are = if missing == 1 { "is" } else { "are" };
        Some(format!(
            "the trace has no lines for {missing} of {} (such as {first}), which {are} always on",
            counted(self.clients as usize, "client")
        ))
    }

    fn unread(&self) -> Option<String> {
        (self.behind > 0).then(|| {
            format!(
                "{} of the trace at or after repeat_s = {} has no effect: the recording repeats before",
                counted(self.behind, "line"),
                self.repeat_s
            )
        })
    }

    /// Reports lines that repeat the state before them: a line between them may be missing.
    fn repeated(&self) -> Option<String> {
        let mut first = None;
        let mut count = 0;
        for (client, lines) in &self.by_client {
            let states: Vec<(&Seconds, &bool)> = lines.iter().collect();
            for pair in states.windows(2).filter(|pair| pair[0].1 == pair[1].1) {
                first = first.or(Some((*client, pair[1].0.0, *pair[1].1)));
                count += 1;
            }
        }
        let (client, at, on) = first?;
        let word = if on { "on" } else { "off" };
        Some(format!(
            "{} of the trace changes nothing (such as client {client} at {at} s, which is {word} already); a line \
             between may be missing",
            counted(count, "line")
        ))
    }

    /// Reports clients whose last line turns them off for good.
    fn end(&self) -> Option<String> {
        if self.repeat_s > 0.0 {
            return None;
        }
        let last =
            |lines: &BTreeMap<Seconds, bool>| lines.last_key_value().map(|(at, on)| (at.0, *on));
        let ends: Vec<(f64, bool)> = self.by_client.values().filter_map(last).collect();
        let end = ends.iter().map(|(at, _)| *at).fold(f64::NAN, f64::max);
        let off = ends.iter().filter(|(_, on)| !on).count();
        if ends.is_empty() {
            return None;
        }
        let what = match off {
            0 => "every client stays on after that".to_owned(),
            off if off == self.clients as usize => {
                "every client stays off after that, so no round can follow".to_owned()
            }
            off => format!(
                "{off} of {} stay off after that, the others on",
                counted(self.clients as usize, "client")
            ),
        };
        Some(format!("the trace ends at {end} s, and {what}; `repeat_s` repeats it"))
    }
}

/// Returns a number with its noun, in the plural unless it is 1.
fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &[Transition], repeat_s: f64, clients: u32) -> String {
        let trace = ClientTransitions::of(lines, repeat_s, clients);
        let parts =
            [trace.beyond(), trace.missing(), trace.unread(), trace.repeated(), trace.end()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_repeating_trace_of_all_clients_leaves_nothing_open() {
        let lines = [(0, 0.0, true), (0, 5.0, false), (1, 2.0, true), (1, 3.0, false)];
        assert_eq!(report(&lines, 10.0, 2), "");
    }

    #[test]
    fn clients_and_times_without_lines_are_reported() {
        let lines = [(0, 0.0, true), (0, 50.0, false), (7, 2.0, true)];
        let text = report(&lines, 0.0, 3);
        assert!(text.contains("1 client outside the run (such as 7)"), "{text}");
        assert!(
            text.contains("no lines for 2 of 3 clients (such as 1), which are always on"),
            "{text}"
        );
        assert!(text.contains("ends at 50 s, and 1 of 3 clients stay off"), "{text}");
    }

    #[test]
    fn a_trace_that_ends_without_clients_is_reported() {
        let lines = [(0, 0.0, true), (0, 5.0, false), (1, 2.0, false)];
        assert!(report(&lines, 0.0, 2).contains("no round can follow"));
        assert!(report(&lines[..1], 0.0, 1).contains("every client stays on"));
    }

    #[test]
    fn unread_lines_and_those_without_effect_are_counted() {
        let lines = [(0, 0.0, true), (0, 1.0, true), (0, 2.0, false), (0, 20.0, true)];
        let text = report(&lines, 10.0, 1);
        assert!(
            text.contains("1 line of the trace at or after repeat_s = 10 has no effect"),
            "{text}"
        );
        assert!(
            text.contains(
                "1 line of the trace changes nothing (such as client 0 at 1 s, which is on"
            ),
            "{text}"
        );
    }
}
