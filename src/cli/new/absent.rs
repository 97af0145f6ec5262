//! Data and weights of a new scenario that this machine lacks.

use super::template::SampleSource;
use crate::fetch::{FetchError, Name, Settings};
use crate::scenario::Scenario;

/// Returns the commands that fetch what the scenario names and is not here, one a line.
pub(super) fn commands(data: &SampleSource, scenario: &Scenario) -> String {
    let settings = Settings::from_env();
    let data = match data {
        SampleSource::Named(name) => Name::parse(name).ok(),
        _ => None,
    };
    let data = data.and_then(|name| settings.find_data(&name).err());
    let weights = scenario.backbone.weights_file().and_then(|path| settings.weights_at(path).err());
    let command = |error| match error {
        FetchError::Absent { command, .. } => Some(format!("  {command}\n")),
        _ => None,
    };
    [data, weights].into_iter().flatten().filter_map(command).collect()
}
