//! Names in a study's directory that are not folders of cells.

/// Name of the effective study file, with every default.
pub const STUDY_FILE: &str = crate::scenario::EFFECTIVE_STUDY;

/// Name of the file that is locked while tables are written.
pub(super) const LOCK: &str = "study.lock";

/// All of them: a cell never has one of these names.
pub(super) const OWN_NAMES: [&str; 11] = [
    "features",
    STUDY_FILE,
    LOCK,
    "cells.csv",
    "cells.parquet",
    "rounds.csv",
    "rounds.parquet",
    "table.csv",
    "table.tex",
    "table.md",
    "paired.csv",
];
