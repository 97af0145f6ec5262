//! Canonical form of the journal and its two rolling digests.
//!
//! A line is `{"seq":..,"at":..,"event":{..}}`, with `"numbers":{..}` last where there are any. Digest **E** hashes
//! every line without its numbers, digest **N** every line whole, so E is the same on every machine and N on machines
//! whose arithmetic is the same. Both roll: the digest after line `n` shows if two runs agree so far.
//!
//! ```
//! use fedcast::federation::{EndReason, Entry, Event, Journal};
//! use fedcast::quantity::VirtualTime;
//! let mut journal = Journal::new();
//! let event = Event::RunEnded { reason: EndReason::Done };
//! let line = journal.push(&Entry { seq: 0, at: VirtualTime::ZERO, event, numbers: None });
//! assert_eq!(line, "{\"seq\":0,\"at\":0,\"event\":{\"type\":\"run_ended\",\"reason\":\"done\"}}");
//! assert_eq!(journal.digests().events, journal.digests().numbers); // no numbers were measured
//! ```

use std::fmt;

use serde::{Deserialize, Serialize};

use super::event::{Entry, Event, Numbers};
use crate::document::Document;
use crate::quantity::VirtualTime;

/// Both digests as hexadecimal text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Document)]
pub struct Digests {
    /// Digest of all events (level E).
    ///
    /// Of everything but measured numbers.
    pub events: String,
    /// Digest of all numbers (level N).
    ///
    /// Of everything.
    pub numbers: String,
}

impl fmt::Display for Digests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E {}  N {}", &self.events[..16], &self.numbers[..16])
    }
}

/// Writes canonical lines and rolls the digests over them.
#[derive(Clone, Default)]
pub struct Journal {
    events: Rolling,
    numbers: Rolling,
    entries: u64,
    line: Vec<u8>,
}

impl Journal {
    /// Creates an empty journal.
    pub fn new() -> Journal {
        Journal::default()
    }

    /// Adds the next entry to the digests, and returns its line without a line end.
    pub fn push(&mut self, entry: &Entry) -> &str {
        self.line.clear();
        let without_numbers = write_line(&mut self.line, entry);
        self.events.push(&self.line[..without_numbers], b"}\n");
        self.numbers.push(&self.line, b"\n");
        self.entries += 1;
        std::str::from_utf8(&self.line).expect("JSON is UTF-8")
    }

    /// Returns the number of entries taken.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Returns the digests over all entries so far.
    pub fn digests(&self) -> Digests {
        Digests { events: self.events.digest(), numbers: self.numbers.digest() }
    }
}

/// Hash of everything pushed, in pieces: BLAKE3 takes long ones several times faster than lines.
#[derive(Clone, Default)]
struct Rolling {
    hash: blake3::Hasher,
    waiting: Vec<u8>,
}

impl Rolling {
    const PIECE: usize = 1 << 15;

    fn push(&mut self, line: &[u8], end: &[u8]) {
        self.waiting.extend_from_slice(line);
        self.waiting.extend_from_slice(end);
        if self.waiting.len() >= Rolling::PIECE {
            self.hash.update(&self.waiting);
            self.waiting.clear();
        }
    }

    fn digest(&self) -> String {
        let mut hash = self.hash.clone();
        hash.update(&self.waiting).finalize().to_hex().to_string()
    }
}

/// Appends the line, and returns the position before the closing brace of its level-E part.
fn write_line(out: &mut Vec<u8>, entry: &Entry) -> usize {
    #[derive(Serialize)]
    struct EntryHead<'a> {
        seq: u64,
        at: VirtualTime,
        event: &'a Event,
    }
    const IN_MEMORY: &str = "writing JSON of plain values to memory cannot fail";
    let head = EntryHead { seq: entry.seq, at: entry.at, event: &entry.event };
    serde_json::to_writer(&mut *out, &head).expect(IN_MEMORY);
    out.pop();
    let end = out.len();
    if let Some(numbers) = &entry.numbers {
        let numbers: &Numbers = numbers;
        out.extend_from_slice(b",\"numbers\":");
        serde_json::to_writer(&mut *out, numbers).expect(IN_MEMORY);
    }
    out.push(b'}');
    end
}

impl Entry {
    /// Returns the canonical line, without a line end.
    pub fn to_line(&self) -> String {
        let mut line = Vec::new();
        write_line(&mut line, self);
        String::from_utf8(line).expect("JSON is UTF-8")
    }

    /// Reads a line.
    pub fn from_line(line: &str) -> Result<Entry, serde_json::Error> {
        serde_json::from_str(line)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::federation::event::*;
    use crate::federation::{Digest, MetricValue};
    use crate::policy::ParticipantKind;
    use crate::quantity::{ClientId, ParticipantId, Round, TaskId};

    fn entries() -> Vec<Entry> {
        let frame = Event::FrameCharged {
            round: Round(3),
            task: TaskId(1),
            phase: 0,
            participant: ParticipantId(2),
            client: ClientId(17),
            direction: Direction::Up,
            outcome: FrameOutcome::Delivered,
            bytes: Arc::new(FrameBytes {
                header: 40,
                payload: 8,
                raw: 16,
                kinds: [("prompt".to_string(), 8)].into(),
                ..FrameBytes::default()
            }),
            sent: 48,
            latency: 11,
            kind: ParticipantKind::Client,
            copy: true,
            asset: Some("teacher@1".to_string()),
        };
        let numbers = Numbers {
            digest: Some(Digest(7)),
            metrics: [
                ("loss".to_string(), MetricValue(0.1 + 0.2)),
                ("bad".to_string(), MetricValue(f64::NAN)),
            ]
            .into(),
            tasks: vec![TaskScore { task: TaskId(0), correct: 3, total: 4 }],
            classes: vec![ClassScore(0, 3, 4)],
            client_tasks: vec![],
            responses: Vec::new(),
        };
        let evaluated =
            Event::Evaluated { round: Round(3), task: TaskId(1), point: EvaluationPoint::Task };
        vec![
            Entry { seq: 0, at: VirtualTime(5), event: frame, numbers: None },
            Entry { seq: 1, at: VirtualTime(9), event: evaluated, numbers: Some(numbers) },
        ]
    }

    #[test]
    fn lines_are_read_back_and_are_plain_json() {
        for entry in entries() {
            let line = entry.to_line();
            assert_eq!(Entry::from_line(&line).expect("reads back"), entry);
            let plain = serde_json::to_string(&entry).expect("plain JSON");
            assert_eq!(line, plain, "the canonical line is serde's own form");
        }
    }

    #[test]
    fn numbers_move_only_digest_n_and_events_move_both() {
        let digests = |entries: &[Entry]| {
            let mut journal = Journal::new();
            entries.iter().for_each(|entry| {
                journal.push(entry);
            });
            journal.digests()
        };
        let base = digests(&entries());
        let mut other = entries();
        other[1].numbers.as_mut().expect("has numbers").tasks[0].correct = 2;
        let numbers_changed = digests(&other);
        assert_eq!(numbers_changed.events, base.events);
        assert_ne!(numbers_changed.numbers, base.numbers);
        let mut other = entries();
        other[0].at = VirtualTime(6);
        let event_changed = digests(&other);
        assert_ne!(event_changed.events, base.events);
        assert_ne!(event_changed.numbers, base.numbers);
    }
}
