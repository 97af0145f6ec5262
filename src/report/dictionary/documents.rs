//! Keys of the documents of a run directory: the files that are not tables.

use std::sync::LazyLock;

use super::{RunFile, entry};
use crate::document::{CellType, Content, Document, Key};
use crate::experiment::{Manifest, names};
use crate::federation::Span;
use crate::report::Summary;
use crate::report::column::{Column, Columns, float, int, text};
use crate::report::tables::RoundRow;

/// Keys of `summary.json`.
static SUMMARY: LazyLock<Vec<Column>> = LazyLock::new(columns::<Summary>);
/// Keys of `manifest.json`.
static MANIFEST: LazyLock<Vec<Column>> = LazyLock::new(columns::<Manifest>);
/// Keys of a line of `profile.jsonl`.
static PROFILE: LazyLock<Vec<Column>> = LazyLock::new(columns::<Span>);

/// Keys of a line of `events.jsonl`, listed by hand: most belong to one event and are documented there.
const EVENTS: &[Column] = &[
    int("seq", "", "number of the entry, from 0"),
    int("at", "ns", "virtual time"),
    text("event.type", "type of the event, `run_started` to `run_ended`; its own keys follow"),
    int("event.round", "", "round, from 0 (in tables from 1)"),
    int("event.task", "", "task, from 0 (in tables from 1)"),
    int("event.phase", "", "phase within the task, from 0"),
    int("event.client", "", "client, from 0"),
    int("event.participant", "", "participant in the round, from 0"),
    int(
        "event.<key>",
        "",
        "other keys of the event: integers and words; times in ns, sizes in bytes",
    ),
    int("seal.entries", "", "entries so far; a seal is a separate line"),
    text("seal.<events|numbers>", "digest of all entries so far"),
    text("numbers.digest", "digest of the tensors that the event is about"),
    float("numbers.metrics.<name>", "", "measured value, such as `loss`"),
    int("numbers.tasks[].<task|correct|total>", "", "correct predictions and test samples by task"),
    int("numbers.classes[][]", "", "head row, correct predictions, test samples"),
    int("numbers.client_tasks[].<key>", "", "correct predictions and test samples by client task"),
    int("numbers.responses[].<key>", "", "predictions of client models before aggregation"),
];

/// Returns the keys of a document in their order.
fn columns<D: Document>() -> Vec<Column> {
    let mut columns = Vec::new();
    list(&mut columns, "", &Key { content: D::CONTENT, ..Key::BLANK }, "");
    columns
}

/// Appends a key at a path, or the keys in its content, whose meanings end in `of` their owner.
///
/// Names are leaked: the dictionary is built once per process.
fn list(columns: &mut Vec<Column>, path: &str, key: &Key, of: &'static str) {
    let mut name = joined(path, key.name);
    let mut placeholders = key.placeholders.iter();
    let mut content = key.content;
    loop {
        match content {
            Content::List(entry) => {
                name.push_str("[]");
                content = *entry;
            }
            Content::Map(value) => {
                let word = placeholders.next().expect("every map has a word for its keys");
                name = joined(&name, &format!("<{word}>"));
                content = *value;
            }
            Content::Keys(keys) => {
                let of = if key.of.is_empty() { of } else { key.of };
                return keys.iter().for_each(|inner| list(columns, &name, inner, of));
            }
            Content::Flag | Content::Any => {
                return columns.push(Column {
                    name: name.leak(),
                    cells: CellType::Text,
                    unit: "",
                    meaning: key.meaning,
                });
            }
            Content::Value(cells, unit) => {
                let meaning = match of {
                    "" => key.meaning,
                    of => format!("{} of {of}", key.meaning).leak(),
                };
                let unit = key.unit.unwrap_or(unit);
                return columns.push(Column { name: name.leak(), cells, unit, meaning });
            }
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    let dot = if path.is_empty() || name.is_empty() { "" } else { "." };
    format!("{path}{dot}{name}")
}

pub(super) fn all() -> Vec<RunFile> {
    vec![
        entry(
            names::ROUNDS_JSON,
            "rounds.csv as one flat JSON object per round, with `_step` (the round) for experiment trackers",
            RoundRow::COLUMNS,
        ),
        entry(
            names::SUMMARY,
            "results of the run; keys that do not apply are left out; directions and outcomes as in bytes.csv",
            &SUMMARY,
        ),
        entry(
            names::MANIFEST,
            "scenario, data, weights, machine and status of the run; rewritten when it ends",
            &MANIFEST,
        ),
        entry(
            names::EVENTS,
            "the journal: one JSON object per event, from which all tables are derived",
            EVENTS,
        ),
        entry(names::PROFILE, "wall time of every job; not part of the digests", &PROFILE),
        entry(
            names::SCENARIO,
            "the scenario with all defaults written out; it gives the same digests",
            &[],
        ),
        entry(
            names::HISTOGRAMS,
            "folder: distributions of frame sizes, latencies and work, as percentile tables (.hgrm)",
            &[],
        ),
        entry(names::CHECKPOINTS, "folder: checkpoints from which an interrupted run resumes", &[]),
        entry(
            "*.parquet",
            "every table again, with typed columns; only with record.parquet = true",
            &[],
        ),
        entry(
            names::TENSORBOARD,
            "folder: scalars for TensorBoard; only with record.tensorboard = true",
            &[],
        ),
        entry(
            names::MODELS,
            "folder: the server's model after each task, as safetensors; only with record.models",
            &[],
        ),
        entry(
            names::FORK,
            "folder: earlier scenarios and the checkpoint from which the run was forked; only in a forked run",
            &[],
        ),
        entry(
            names::INVERSION,
            "folder: images found in an upload, as PNG, with inversion.csv and inversion.json; only after fedcast invert",
            &[],
        ),
        entry(names::LOCK, "locked by the process that writes the run; has no content", &[]),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::quantity::Bytes;

    #[derive(Document)]
    #[expect(dead_code)]
    struct ExampleSource {
        /// Digest.
        digest: String,
        /// Size.
        size: Bytes,
    }

    #[derive(Document)]
    #[expect(dead_code)]
    struct ExampleReport {
        /// Accuracy by stage and task.
        #[document(unit = "share")]
        matrix: Vec<Vec<Option<f64>>>,
        #[document(of = "the weights")]
        files: Vec<ExampleSource>,
        /// Bytes by direction and kind.
        #[document(keys("direction", "kind"))]
        sums: BTreeMap<String, BTreeMap<u8, Bytes>>,
    }

    #[test]
    fn lists_maps_and_owners_are_written_out() {
        let found = columns::<ExampleReport>();
        let expected = [
            float("matrix[][]", "share", "accuracy by stage and task"),
            text("files[].digest", "digest of the weights"),
            int("files[].size", "bytes", "size of the weights"),
            int("sums.<direction>.<kind>", "bytes", "bytes by direction and kind"),
        ];
        assert_eq!(found, expected);
    }
}
