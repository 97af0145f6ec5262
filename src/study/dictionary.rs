//! What the columns of a study's own files mean; some have the names of its axes and metrics.

use crate::report::column::{Column, float, int, text};
use crate::report::dictionary::RunFile;

const LABEL: Column =
    text("label", "the cell, as `clients=100, method=hgp`, or the label of an extra cell");
const AXIS: Column =
    text("<axis>", "a column per axis: its arm, or the value of its key; empty of extra cells");

const CELLS: &[Column] = &[
    LABEL,
    AXIS,
    int("seed", "", "repetition, as its folder is called"),
    int("seed_run", "", "seed of the run"),
    int("seed_partition", "", "seed of the partition"),
    int("seed_class_order", "", "seed of the order of classes"),
    text("status", "waiting, running, done, failed, interrupted, foreign"),
    text("method_name", "method of the run"),
    float(
        "<metric>",
        "",
        "every metric of a run in base units (shares in 0 to 1, bytes, seconds); `run_<metric>` where an axis has its name",
    ),
    int(
        "bytes_down_<kind>",
        "bytes",
        "payload of a kind that any run sent to clients; `control` is all that is no payload",
    ),
    int("bytes_up_<kind>", "bytes", "the same of uploads"),
    text("digest_events", "digest E of the run"),
    text("digest_numbers", "digest N of the run"),
    text("hash", "hash of its scenario"),
    text("path", "its run directory below that of the study"),
    text("fedcast", "version of the program that ran it"),
    text("error", "first line of what went wrong"),
];

const ROUNDS: &[Column] = &[
    LABEL,
    AXIS,
    int("seed", "", "repetition, as its folder is called"),
    text(
        "<column>",
        "every column of a run's rounds.csv; `round_<column>` where an axis has its name",
    ),
];

const TABLE: &[Column] = &[
    LABEL,
    AXIS,
    int("n", "", "runs of the row that are done"),
    float("<metric>_mean", "", "mean over seeds of a metric of [compare], in base units"),
    float("<metric>_sd", "", "sample deviation over seeds, with n - 1; empty of one run"),
    int("<metric>_n", "", "runs that have the metric"),
    text("note", "where arms that are compared differ in what should be equal"),
];

const PAIRED: &[Column] = &[
    LABEL,
    AXIS,
    text("against", "label of the baseline"),
    text("metric", "a metric of [compare]"),
    float("mean", "", "mean of the differences, cell minus baseline, seed by seed, in base units"),
    float("sd", "", "sample deviation of the differences"),
    float("low95", "", "lower end of the 95 % interval of the mean"),
    float("high95", "", "its upper end"),
    float("p", "", "two-sided p; empty of one pair and where all differences are equal"),
    text("test", "the test: Student's t of pairs"),
    int("n", "", "pairs"),
];

/// The files in the directory of a study, beside those of its runs.
pub fn files() -> [RunFile; 4] {
    let file = |name, about, columns| RunFile { name, about, columns };
    [
        file("study/cells.csv", "of a study: a row per run; cells.parquet holds the same", CELLS),
        file(
            "study/rounds.csv",
            "of a study: the rounds of all runs; rounds.parquet holds the same",
            ROUNDS,
        ),
        file("study/table.csv", "of a study: a row per cell, mean and deviation over seeds", TABLE),
        file(
            "study/paired.csv",
            "of a study: differences against the baseline, seed by seed",
            PAIRED,
        ),
    ]
}
