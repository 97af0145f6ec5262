//! Journal lines in the names of format 1: the table of what format 2 renames, and lines mapped back by it.
//!
//! The meaning of a line is the same in both formats, so lines of format 2 that are mapped back have the digests that the same
//! run had in format 1.

use std::collections::BTreeSet;
use std::ops::Range;

use fedcast::experiment::ARITHMETIC;
use fedcast::federation::Entry;
use serde_json::Value;

use crate::frozen::cases;
use crate::frozen::outcome::{self, DIGITS};

/// Events by their names in format 1 and 2.
pub const EVENTS: [(&str, &str); 8] = [
    ("task_waits", "task_delayed"),
    ("round_waits", "round_delayed"),
    ("client_drawn", "client_profiled"),
    ("trained", "client_trained"),
    ("skipped", "client_skipped"),
    ("update_forged", "update_poisoned"),
    ("sum_masked", "secure_sum_opened"),
    ("bias", "federated_bias_measured"),
];

/// Fields by event, as it is called in format 2, with their names in format 1 and 2.
pub const FIELDS: [(&str, &str, &str); 17] = [
    ("task_started", "movers", "switching_clients"),
    ("round_opened", "seats", "participants"),
    ("client_profiled", "setup", "setup_ns"),
    ("client_profiled", "leaves", "leaves_ns"),
    ("frame_charged", "seat", "participant"),
    ("client_trained", "seat", "participant"),
    ("client_trained", "worked", "work_ns"),
    ("client_trained", "kept", "state_bytes"),
    ("update_poisoned", "seat", "participant"),
    ("update_poisoned", "how", "attack"),
    ("client_skipped", "seat", "participant"),
    ("client_skipped", "worked", "work_ns"),
    ("client_failed", "seat", "participant"),
    ("update_rejected", "seat", "participant"),
    ("update_rejected", "why", "reason"),
    ("update_stale", "seat", "participant"),
    ("round_closed", "folded", "aggregated"),
];

/// Names within the numbers of an entry, in format 1 and 2.
pub const NUMBERS: [(&str, &str); 3] =
    [("slots", "client_tasks"), ("held", "train_samples"), ("answered", "predicted")];

/// Values of fields by event, with what stands for them as JSON in format 1 and 2.
pub const VALUES: [(&str, &str, &str, &str); 3] = [
    ("run_started", "format", "1", "2"),
    ("frame_charged", "kind", "\"unit\"", "\"dummy_client\""),
    ("frame_charged", "kind", "\"load\"", "\"load_client\""),
];

/// Returns a line of format 2 in the names of format 1.
pub fn old_line(line: &Value) -> Value {
    serde_json::from_str(&old_text(&line.to_string())).expect("names were replaced, and it is JSON")
}

/// Returns the text of a line of format 2 in the names of format 1, with its fields in their order and every number as it
/// is written: what digests are taken of.
pub fn old_text(line: &str) -> String {
    let parsed: Value = serde_json::from_str(line).expect("a line of a journal");
    let event = parsed["event"]["type"].as_str().expect("an event has a type");
    let mut old = String::with_capacity(line.len());
    let mut end = 0;
    let mut put = |place: Range<usize>, word: Option<String>| {
        if let Some(word) = word {
            old.push_str(&line[end..place.start]);
            old.push_str(&word);
            end = place.end;
        }
    };
    for Field { table, depth, key, value } in fields(line) {
        let name = &line[key.start + 1..key.end - 1];
        if table == "\"numbers\"" {
            let row = NUMBERS.iter().find(|(_, new)| *new == name);
            put(key, row.map(|(old, _)| format!("\"{old}\"")));
        } else if table == "\"event\"" && depth == 2 {
            let row = FIELDS.iter().find(|(of, _, new)| (*of, *new) == (event, name));
            put(key, row.map(|(_, old, _)| format!("\"{old}\"")));
            let word = &line[value.clone()];
            let word = match name {
                "type" => {
                    let row = EVENTS.iter().find(|(_, new)| *new == event);
                    row.map(|(old, _)| format!("\"{old}\""))
                }
                _ => VALUES
                    .iter()
                    .find(|(of, field, _, new)| (*of, *field, *new) == (event, name, word))
                    .map(|(_, _, old, _)| (*old).to_string()),
            };
            put(value, word);
        }
    }
    old.push_str(&line[end..]);
    sorted_metrics(&old)
}

/// Returns a line with its metrics in the order of their names, as a renamed one may stand elsewhere.
fn sorted_metrics(line: &str) -> String {
    const METRICS: &str = "\"metrics\":{";
    let Some(start) = line.find(METRICS).map(|place| place + METRICS.len()) else {
        return line.to_owned();
    };
    let end = start + line[start..].find('}').expect("metrics end");
    let mut metrics: Vec<&str> = line[start..end].split(',').collect();
    metrics.sort_unstable();
    format!("{}{}{}", &line[..start], metrics.join(","), &line[end..])
}

/// A key of a line with its value.
struct Field<'a> {
    /// Key of the table of the line in which it stands, with its quotes: `"event"` or `"numbers"`.
    table: &'a str,
    /// Number of braces and brackets around it.
    depth: usize,
    /// Place of the key, with its quotes.
    key: Range<usize>,
    /// Place of the value as far as its first comma or bracket: all of it, if it is a number or text.
    value: Range<usize>,
}

/// Returns the keys of a line in their order.
fn fields(line: &str) -> Vec<Field<'_>> {
    let bytes = line.as_bytes();
    let (mut fields, mut depth, mut at, mut table) = (Vec::new(), 0, 0, "");
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let key = at..string_end(bytes, at);
                at = key.end;
                if bytes.get(at) == Some(&b':') {
                    let value = at + 1..value_end(bytes, at + 1);
                    match depth {
                        1 => table = &line[key],
                        _ => fields.push(Field { table, depth, key, value }),
                    }
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    fields
}

/// Returns the place behind a number or text that begins `at`.
fn value_end(bytes: &[u8], at: usize) -> usize {
    match bytes[at] {
        b'"' => string_end(bytes, at),
        _ => at + bytes[at..].iter().position(|byte| b",]}".contains(byte)).unwrap_or(0),
    }
}

/// Returns the place behind a string that begins `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    at += 1;
    while bytes[at] != b'"' {
        at += 1 + usize::from(bytes[at] == b'\\');
    }
    at + 1
}

/// Returns the digests of entries whose lines are mapped back: of the events, and of everything.
fn old_digests(entries: Vec<Entry>) -> [String; 2] {
    let mut hashes = [blake3::Hasher::new(), blake3::Hasher::new()];
    for entry in entries {
        let event = Entry { numbers: None, ..entry.clone() };
        for (hash, entry) in hashes.iter_mut().zip([event, entry]) {
            hash.update(old_text(&entry.to_line()).as_bytes()).update(b"\n");
        }
    }
    hashes.map(|hash| hash.finalize().to_hex()[..DIGITS].to_owned())
}

/// Digests E and N that cases of the frozen table had in format 1, of arithmetic `fixed-1`.
const RECORDED: [(&str, &str, &str); 14] = [
    ("fedavg/head late-fold", "4d147e51695cd188", "9f2bccc04cbc048e"),
    ("fedavg/head per-client", "c8bf1d670ef3962e", "7ec8209ee753c8ee"),
    ("fedavg/head deadline", "70d407169566acfc", "5fda54c978f038ee"),
    ("fedavg/head liars-noise", "79bd152f49665232", "f976cea237bfe52b"),
    ("fedavg/head secure", "0d9c224d56cb10c7", "52c725cac659456f"),
    ("stsa units-load", "2efb18ca23fc12ae", "7272928e11755295"),
    ("dualprompt unreachable", "636c3fea45bf2ccd", "fe6c8d47bda03db1"),
    ("fedavg/head deadline-skip", "d6847f83239f42ee", "dc7451499a41139d"),
    ("fedavg/head bad-update", "7c2015b46822a83e", "632fe1cf375b9865"),
    ("fedavg/head late-drop", "f322babd95f9092b", "8f917dc87f5f0c7c"),
    ("fedhaf crash", "38dff2c9b43923e3", "3baef3a2dacd5206"),
    ("powder slots", "6eadc387a665d6f5", "137be783a700c486"),
    ("fedavg/head bias", "bf8237beb2e459c6", "dde7cd2ec236a61c"),
    ("fedavg/head production", "e1fd57f312fc9e89", "be905e80e4067dbd"),
];

/// Returns what a line names in format 2 and not in format 1, as it is written in the tables of this file.
fn renamed(line: &str) -> BTreeSet<String> {
    let parsed: Value = serde_json::from_str(line).expect("a line of a journal");
    let event = &parsed["event"];
    let kind = event["type"].as_str().expect("an event has a type");
    let events = EVENTS.iter().filter(|(_, new)| *new == kind).map(|row| format!("{row:?}"));
    let fields = FIELDS.iter().filter(|(of, _, new)| *of == kind && event.get(*new).is_some());
    let of = |(of, field, _, new): &&(&str, &str, &str, &str)| {
        *of == kind && event.get(*field) == serde_json::from_str(new).ok().as_ref()
    };
    let values = VALUES.iter().filter(of).map(|row| format!("{row:?}"));
    let numbers = parsed["numbers"].to_string();
    let numbers = NUMBERS.iter().filter(|(_, new)| numbers.contains(&format!("\"{new}\":")));
    let numbers = numbers.map(|row| format!("{row:?}"));
    events.chain(fields.map(|row| format!("{row:?}"))).chain(values).chain(numbers).collect()
}

#[test]
fn runs_with_renamed_words_have_the_digests_of_format_1() {
    let mut seen = BTreeSet::new();
    for (name, events, numbers) in RECORDED {
        let case = cases::all().into_iter().find(|case| case.name() == name).expect("a case");
        let entries = outcome::entries(&case).expect("it ran in format 1").expect("it is possible");
        seen.extend(entries.iter().flat_map(|entry| renamed(&entry.to_line())));
        let [found_events, found_numbers] = old_digests(entries);
        assert_eq!(found_events, events, "E of {name}");
        if ARITHMETIC == "fixed-1" {
            assert_eq!(found_numbers, numbers, "N of {name}");
        }
    }
    let all = EVENTS.iter().map(|row| format!("{row:?}"));
    let all = all.chain(FIELDS.iter().map(|row| format!("{row:?}")));
    let all = all.chain(VALUES.iter().map(|row| format!("{row:?}")));
    let all = all.chain(NUMBERS.iter().map(|row| format!("{row:?}")));
    let unseen: Vec<String> = all.filter(|row| !seen.contains(row)).collect();
    // No case of the table waits for a task or a client, or has clients that leave.
    let never = [
        r#"("task_waits", "task_delayed")"#,
        r#"("round_waits", "round_delayed")"#,
        r#"("client_profiled", "leaves", "leaves_ns")"#,
    ];
    assert_eq!(unseen, never);
}

#[test]
fn lines_are_mapped_back_in_their_order() {
    for (new, old) in [
        (
            r#"{"seq":0,"at":0,"event":{"type":"run_started","format":2,"seed":2,"method":"hgp"}}"#,
            r#"{"seq":0,"at":0,"event":{"type":"run_started","format":1,"seed":2,"method":"hgp"}}"#,
        ),
        (
            r#"{"seq":3,"at":9,"event":{"type":"client_trained","seat":1,"participant":2,"work_ns":7,"state_bytes":8},"numbers":{"metrics":{"loss":1.0,"work_ns":0.30000000000000004}}}"#,
            r#"{"seq":3,"at":9,"event":{"type":"trained","seat":1,"seat":2,"worked":7,"kept":8},"numbers":{"metrics":{"loss":1.0,"work_ns":0.30000000000000004}}}"#,
        ),
        (
            r#"{"seq":4,"at":9,"event":{"type":"frame_charged","participant":2,"bytes":{"header":40,"kinds":{"participant":8}},"kind":"load_client","copy":true}}"#,
            r#"{"seq":4,"at":9,"event":{"type":"frame_charged","seat":2,"bytes":{"header":40,"kinds":{"participant":8}},"kind":"load","copy":true}}"#,
        ),
        (
            r#"{"seq":5,"at":9,"event":{"type":"update_rejected","participant":2,"reason":"a \"reason\": {2, 3}"}}"#,
            r#"{"seq":5,"at":9,"event":{"type":"update_rejected","seat":2,"why":"a \"reason\": {2, 3}"}}"#,
        ),
        (
            r#"{"seq":6,"at":9,"event":{"type":"task_started","classes":[2,3],"switching_clients":[1]}}"#,
            r#"{"seq":6,"at":9,"event":{"type":"task_started","classes":[2,3],"movers":[1]}}"#,
        ),
        (
            r#"{"seq":7,"at":9,"event":{"type":"evaluated","predicted":1},"numbers":{"metrics":{"client_tasks":2.0},"client_tasks":[{"task":0,"client_tasks":1}],"responses":[{"train_samples":[1],"predicted":[2]}]}}"#,
            r#"{"seq":7,"at":9,"event":{"type":"evaluated","predicted":1},"numbers":{"metrics":{"slots":2.0},"slots":[{"task":0,"slots":1}],"responses":[{"held":[1],"answered":[2]}]}}"#,
        ),
    ] {
        assert_eq!(old_text(new), old);
    }
}

#[test]
fn fields_of_other_events_stay() {
    for line in [
        r#"{"seq":1,"at":0,"event":{"type":"client_failed","client":1,"reason":"lost"}}"#,
        r#"{"seq":1,"at":0,"event":{"type":"run_ended","reason":"done"}}"#,
        r#"{"seq":1,"at":0,"event":{"type":"phase_started","format":2,"name":"dummy_client"}}"#,
    ] {
        assert_eq!(old_text(line), line);
    }
}

#[test]
fn values_are_mapped_back_by_every_row() {
    let line = |event: &str, field: &str, value: &str| -> Value {
        let text = format!(r#"{{"at":1,"event":{{"{field}":{value},"type":"{event}"}},"seq":0}}"#);
        serde_json::from_str(&text).expect("a line")
    };
    let old_event = |event: &str| {
        let row = EVENTS.iter().find(|(_, new)| *new == event);
        row.map_or(event.to_string(), |(old, _)| (*old).to_string())
    };
    for (old, new) in EVENTS {
        assert_eq!(old_line(&line(new, "round", "0")), line(old, "round", "0"));
    }
    for (event, old, new) in FIELDS {
        assert_eq!(old_line(&line(event, new, "[1]")), line(&old_event(event), old, "[1]"));
    }
    for (event, field, old, new) in VALUES {
        assert_eq!(old_line(&line(event, field, new)), line(event, field, old));
    }
}
