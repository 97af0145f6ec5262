//! Keys that cannot change in the middle of a run.

use toml::{Table, Value};

use super::ForkError;
use crate::experiment::changes::table_of;
use crate::scenario::Scenario;

/// Sections and keys on which earlier training depends: partition, network, clients.
const FIXED: [&str; 12] = [
    "preset",
    "data",
    "tasks",
    "partition",
    "backbone",
    "seed.partition",
    "seed.class_order",
    "method.name",
    "federation.clients",
    "federation.idle_clients",
    "participation.population",
    "wire.form",
];

/// Checks that a run of scenario `held` can go on with `scenario`.
///
/// # Errors
/// Returns the first key that differs and must not.
pub(super) fn compare(held: &Scenario, scenario: &Scenario) -> Result<(), ForkError> {
    let (then, now) = (table_of(held), table_of(scenario));
    match FIXED.into_iter().find(|key| at(&then, key) != at(&now, key)) {
        Some(key) => Err(ForkError::Fixed { key }),
        None => Ok(()),
    }
}

fn at<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    match path.split_once('.') {
        Some((section, key)) => table.get(section)?.as_table()?.get(key),
        None => table.get(path),
    }
}
