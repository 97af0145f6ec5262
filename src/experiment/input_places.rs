//! Places of inputs, which may change after a run was recorded: the same inputs elsewhere change no result.

use thiserror::Error;

/// Keys of a scenario that say where inputs are.
const KEYS: [&str; 3] = ["data.path", "backbone.weights", "cache.folder"];

/// Override of a recorded scenario that names no place of inputs.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the recorded scenario counts, and `{key}` may change results\n  help: for `fedcast resume` and `fedcast replay \
     --verify`, --set takes places of inputs only: {keys}", keys = KEYS.join(", ")
)]
pub struct NotInputPlace {
    key: String,
}

/// Checks that overrides (`data.path=...`) change nothing but the places of inputs.
pub(super) fn check_input_places(overrides: &[String]) -> Result<(), NotInputPlace> {
    let key = |change: &String| change.split('=').next().unwrap_or_default().trim().to_owned();
    match overrides.iter().map(key).find(|key| !KEYS.contains(&key.as_str())) {
        Some(key) => Err(NotInputPlace { key }),
        None => Ok(()),
    }
}
