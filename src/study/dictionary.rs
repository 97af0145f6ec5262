//! Descriptions of the columns of a study's files; some have the names of its axes and metrics.

use crate::report::column::{Column, float, int, text};
use crate::report::dictionary::RunFile;

const LABEL: Column =
    text("label", "label of the cell, such as `clients=100, method=hgp`, or of an extra cell");
const AXIS: Column =
    text("<axis>", "one column per axis: the arm, or the value of its key; empty for extra cells");

const CELLS: &[Column] = &[
    LABEL,
    AXIS,
    int("seed", "", "repetition, as its folder is called"),
    int("seed_run", "", "seed of the run"),
    int("seed_partition", "", "seed of the partition"),
    int("seed_class_order", "", "seed of the class order"),
    text("status", "waiting, running, unfinished, done, failed, other scenario"),
    text("method_name", "method of the run"),
    float(
        "<metric>",
        "",
        "every metric of a run in base units (fractions from 0 to 1, bytes, seconds); `run_<metric>` if an axis has its name",
    ),
    int(
        "bytes_down_<kind>",
        "bytes",
        "payload bytes to clients, one column per kind that any run sent; `control` is everything else",
    ),
    int("bytes_up_<kind>", "bytes", "payload bytes to the server, by kind as above"),
    text("digest_events", "digest E of the run"),
    text("digest_numbers", "digest N of the run"),
    text("hash", "hash of the run's scenario"),
    text("path", "run directory, relative to the study's directory"),
    text("fedcast", "version of fedcast that computed the run"),
    text("error", "first line of the error of a failed run"),
];

const ROUNDS: &[Column] = &[
    LABEL,
    AXIS,
    int("seed", "", "repetition, as its folder is called"),
    text(
        "<column>",
        "every column of a run's rounds.csv; `round_<column>` if an axis has its name",
    ),
];

const TABLE: &[Column] = &[
    LABEL,
    AXIS,
    int("n", "", "number of complete runs of the row"),
    float("<metric>_mean", "", "mean over seeds of a metric of [compare], in base units"),
    float(
        "<metric>_sd",
        "",
        "sample standard deviation over seeds (divisor n - 1); empty for one run",
    ),
    int("<metric>_n", "", "number of runs that have the metric"),
    float(
        "<metric>_published",
        "",
        "published number, in base units; only of metrics with one, which need not be in [compare]",
    ),
    float("<metric>_published_sd", "", "published standard deviation; empty without one"),
    text(
        "published_<source|changes>",
        "of cells with published numbers: their source; and, with `; ` between them, the changes that they do not include",
    ),
    text("note", "metrics in which compared arms differ but should be equal"),
];

const PAIRED: &[Column] = &[
    LABEL,
    AXIS,
    text("against", "label of the baseline"),
    text("metric", "a metric of [compare]"),
    float(
        "mean",
        "",
        "mean of the differences, cell minus baseline, paired by seed, in base units",
    ),
    float("sd", "", "sample standard deviation of the differences"),
    float("low95", "", "lower end of the 95 % interval of the mean"),
    float("high95", "", "upper end of the 95 % interval of the mean"),
    float("p", "", "two-sided p value; empty for one pair and if all differences are equal"),
    float("p_holm", "", "p corrected by Holm's method for the number of tests of the metric"),
    text("test", "statistical test: Student's paired t test"),
    int("n", "", "number of pairs"),
];

/// Returns the files in the directory of a study, without those of its runs.
pub fn files() -> [RunFile; 4] {
    let file = |name, about, columns| RunFile { name, about, columns };
    [
        file("study/cells.csv", "of a study: one row per run; cells.parquet holds the same", CELLS),
        file(
            "study/rounds.csv",
            "of a study: the rounds of all runs; rounds.parquet holds the same",
            ROUNDS,
        ),
        file(
            "study/table.csv",
            "of a study: one row per cell, with mean and standard deviation over seeds",
            TABLE,
        ),
        file(
            "study/paired.csv",
            "of a study: differences from the baseline, paired by seed",
            PAIRED,
        ),
    ]
}
